"""Recipes of teachers and students, with one file for each family of models; and the engines that train teachers.

A name of this package is imported when it is first used. Torch takes seconds to import, and commands such as `--help`
use no model.
"""

from typing import TYPE_CHECKING

from pate.extras import lazily, require_extra

if TYPE_CHECKING:
    from pate.models.checkpoint import CheckpointStore, cast_votes
    from pate.models.engines import Engine, SequentialEngine, StackedEngine, ThreadsEngine
    from pate.models.image_students import CNNStudent, ResNet50Student
    from pate.models.image_teachers import CNNTeacher, ResNet50Teacher
    from pate.models.kernel import ConvexTeacher, KernelTeacher
    from pate.models.linear_student import LinearStudent
    from pate.models.linear_teacher import LinearTeacher
    from pate.models.logistic import LogisticStudent
    from pate.models.low_rank import LowRankStudent
    from pate.models.mlp import MLPStudent, MLPTeacher
    from pate.models.processes_engine import ProcessesEngine
    from pate.models.ray_engine import RayEngine
    from pate.models.shards import Shard
    from pate.models.sklearn import SklearnTeacher
    from pate.models.student import Student
    from pate.models.student_model import StudentModel
    from pate.models.teacher import State, Teacher, Voter
    from pate.models.training import TrainingJob

require_extra(__name__, "predict")

__all__ = [
    "CNNStudent",
    "CNNTeacher",
    "CheckpointStore",
    "ConvexTeacher",
    "Engine",
    "KernelTeacher",
    "LinearStudent",
    "LinearTeacher",
    "LogisticStudent",
    "LowRankStudent",
    "MLPStudent",
    "MLPTeacher",
    "ProcessesEngine",
    "RayEngine",
    "ResNet50Student",
    "ResNet50Teacher",
    "SequentialEngine",
    "Shard",
    "SklearnTeacher",
    "StackedEngine",
    "State",
    "Student",
    "StudentModel",
    "Teacher",
    "ThreadsEngine",
    "TrainingJob",
    "Voter",
    "cast_votes",
]

__getattr__ = lazily(
    __name__,
    names_of_module={
        "checkpoint": "CheckpointStore cast_votes",
        "engines": "Engine SequentialEngine StackedEngine ThreadsEngine",
        "image_students": "CNNStudent ResNet50Student",
        "image_teachers": "CNNTeacher ResNet50Teacher",
        "kernel": "ConvexTeacher KernelTeacher",
        "linear_student": "LinearStudent",
        "linear_teacher": "LinearTeacher",
        "logistic": "LogisticStudent",
        "low_rank": "LowRankStudent",
        "mlp": "MLPStudent MLPTeacher",
        "processes_engine": "ProcessesEngine",
        "ray_engine": "RayEngine",
        "shards": "Shard",
        "sklearn": "SklearnTeacher",
        "student": "Student",
        "student_model": "StudentModel",
        "teacher": "State Teacher Voter",
        "training": "TrainingJob",
    },
)
