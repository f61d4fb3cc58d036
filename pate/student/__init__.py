"""The student: the only model that may be published, trained on released labels alone.

What needs torch is loaded when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pate.student.linear import LinearStudent
from pate.student.logistic import LogisticStudent
from pate.student.low_rank import LowRankStudent
from pate.student.model import StudentModel
from pate.student.student import Student

if TYPE_CHECKING:
    from pate.student.cnn import CNNStudent
    from pate.student.mlp import MLPStudent
    from pate.student.resnet50 import ResNet50Student

_NEED_TORCH = {"CNNStudent": "cnn", "MLPStudent": "mlp", "ResNet50Student": "resnet50"}

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


def __getattr__(name: str) -> Any:
    if name in _NEED_TORCH:
        return getattr(import_module(f"pate.student.{_NEED_TORCH[name]}"), name)
    raise AttributeError(f"module 'pate.student' has no attribute '{name}'")
