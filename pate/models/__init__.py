"""Teachers and students, a family a file; the engines that train an ensemble, and its checkpoints.

A name is loaded when it is first read: torch takes seconds, and a page of help needs none of its models.
"""

from typing import TYPE_CHECKING

from pate.extras import lazily, require_extra

if TYPE_CHECKING:
    from pate.models.checkpoint import CheckpointStore, cast_votes
    from pate.models.engines import Engine, SequentialEngine, StackedEngine
    from pate.models.image import CNNStudent, CNNTeacher, ResNet50Student, ResNet50Teacher
    from pate.models.kernel import ConvexTeacher, KernelTeacher, LowRankStudent
    from pate.models.linear import LinearStudent, LinearTeacher, LogisticStudent
    from pate.models.mlp import MLPStudent, MLPTeacher
    from pate.models.processes_engine import ProcessesEngine
    from pate.models.ray_engine import RayEngine
    from pate.models.sklearn import SklearnTeacher
    from pate.models.student import Student, StudentModel
    from pate.models.teacher import Shard, State, Teacher, Voter
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
    "TrainingJob",
    "Voter",
    "cast_votes",
]

__getattr__ = lazily(
    __name__,
    {
        "checkpoint": "CheckpointStore cast_votes",
        "engines": "Engine SequentialEngine StackedEngine",
        "image": "CNNStudent CNNTeacher ResNet50Student ResNet50Teacher",
        "kernel": "ConvexTeacher KernelTeacher LowRankStudent",
        "linear": "LinearStudent LinearTeacher LogisticStudent",
        "mlp": "MLPStudent MLPTeacher",
        "processes_engine": "ProcessesEngine",
        "ray_engine": "RayEngine",
        "sklearn": "SklearnTeacher",
        "student": "Student StudentModel",
        "teacher": "Shard State Teacher Voter",
        "training": "TrainingJob",
    },
)
