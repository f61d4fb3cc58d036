"""The student: the only model that leaves the house, trained on released labels alone."""

from pate.student.cnn import CNNStudent
from pate.student.linear import LinearStudent
from pate.student.low_rank import LowRankStudent
from pate.student.mlp import MLPStudent
from pate.student.model import StudentModel
from pate.student.resnet50 import ResNet50Student
from pate.student.student import Student

__all__ = ["CNNStudent", "LinearStudent", "LowRankStudent", "MLPStudent", "ResNet50Student", "Student", "StudentModel"]
