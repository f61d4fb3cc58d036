"""The student: the only model that may be published, trained on released labels alone.

What needs torch is loaded when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pate.student.image import CNNStudent, ResNet50Student
    from pate.student.linear import LinearStudent, LogisticStudent
    from pate.student.low_rank import LowRankStudent
    from pate.student.mlp import MLPStudent
    from pate.student.student import Student, StudentModel

__all__ = [
    "CNNStudent",
    "LinearStudent",
    "LogisticStudent",
    "LowRankStudent",
    "MLPStudent",
    "ResNet50Student",
    "Student",
    "StudentModel",
]

_MODULES = {
    "CNNStudent": "image",
    "LinearStudent": "linear",
    "LogisticStudent": "linear",
    "LowRankStudent": "low_rank",
    "MLPStudent": "mlp",
    "ResNet50Student": "image",
    "Student": "student",
    "StudentModel": "student",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
