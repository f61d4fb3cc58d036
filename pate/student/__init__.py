"""The student: the only model that may be published, trained on released labels alone.

What needs torch is loaded when it is asked for.
"""

from pate.files.lazy_names import lazy_names

with lazy_names(globals()):
    from pate.student.image import CNNStudent, ResNet50Student
    from pate.student.linear import LinearStudent, LogisticStudent
    from pate.student.low_rank import LowRankStudent
    from pate.student.mlp import MLPStudent
    from pate.student.model import StudentModel
    from pate.student.student import Student

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
