"""The ensemble: kinds of teachers, engines that train many of them, and their checkpoints."""

from pate.teachers.checkpoint import CheckpointStore
from pate.teachers.cnn import CNNTeacher
from pate.teachers.engine import Engine
from pate.teachers.ensemble import cast_votes, train_ensemble
from pate.teachers.kernel import KernelTeacher
from pate.teachers.linear import LinearTeacher
from pate.teachers.mlp import MLPTeacher
from pate.teachers.processes import ProcessesEngine
from pate.teachers.ray import RayEngine
from pate.teachers.resnet50 import ResNet50Teacher
from pate.teachers.sequential import SequentialEngine
from pate.teachers.sklearn import SklearnTeacher
from pate.teachers.stacked import StackedEngine
from pate.teachers.teacher import Shard, State, Teacher

__all__ = [
    "CNNTeacher",
    "CheckpointStore",
    "Engine",
    "KernelTeacher",
    "LinearTeacher",
    "MLPTeacher",
    "ProcessesEngine",
    "RayEngine",
    "ResNet50Teacher",
    "SequentialEngine",
    "Shard",
    "SklearnTeacher",
    "StackedEngine",
    "State",
    "Teacher",
    "cast_votes",
    "train_ensemble",
]
