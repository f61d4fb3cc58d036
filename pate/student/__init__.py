"""The student: the only model that leaves the house, trained on released labels alone."""

from pate.student.linear import LinearStudent
from pate.student.low_rank import LowRankStudent
from pate.student.mlp import MLPStudent
from pate.student.model import StudentModel
from pate.student.student import Student

__all__ = ["LinearStudent", "LowRankStudent", "MLPStudent", "Student", "StudentModel"]
