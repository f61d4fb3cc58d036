"""The student: the only model that may be published, trained on released labels alone."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pate.validation import require_extra

if TYPE_CHECKING:
    from pate.models.image import CNNStudent, ResNet50Student
    from pate.models.kernel import LowRankStudent
    from pate.models.linear import LinearStudent, LogisticStudent
    from pate.models.mlp import MLPStudent
    from pate.models.student import Student, StudentModel

require_extra(__name__, "train")

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

_NAMES = {
    "image": ("CNNStudent", "ResNet50Student"),
    "kernel": ("LowRankStudent",),
    "linear": ("LinearStudent", "LogisticStudent"),
    "mlp": ("MLPStudent",),
    "student": ("Student", "StudentModel"),
}


def __getattr__(name: str) -> Any:
    """Loads a name when it is first asked for (PEP 562)."""
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"pate.models.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
