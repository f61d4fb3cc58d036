"""The student: the only model that may be published, trained on released labels alone."""

from typing import TYPE_CHECKING

from pate.validation import lazily, require_extra

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

_LATER = {
    ".models.image": "CNNStudent ResNet50Student",
    ".models.kernel": "LowRankStudent",
    ".models.linear": "LinearStudent LogisticStudent",
    ".models.mlp": "MLPStudent",
    ".models.student": "Student StudentModel",
}
__getattr__ = lazily(__name__, _LATER)
