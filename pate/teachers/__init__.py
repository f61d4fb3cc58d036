"""The ensemble: kinds of teachers, engines that train many of them, and their checkpoints."""

from typing import TYPE_CHECKING

from pate.validation import lazily, require_extra

if TYPE_CHECKING:
    from pate.models.checkpoint import CheckpointStore, cast_votes
    from pate.models.engines import (
        Engine,
        ProcessesEngine,
        RayEngine,
        SequentialEngine,
        StackedEngine,
        TrainingJob,
    )
    from pate.models.image import CNNTeacher, ResNet50Teacher
    from pate.models.kernel import ConvexTeacher, KernelTeacher
    from pate.models.linear import LinearTeacher
    from pate.models.mlp import MLPTeacher
    from pate.models.sklearn import SklearnTeacher
    from pate.models.teacher import Shard, State, Teacher, Voter

require_extra(__name__, "train")

__all__ = [
    "CNNTeacher",
    "CheckpointStore",
    "ConvexTeacher",
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
    "TrainingJob",
    "Voter",
    "cast_votes",
]

_LATER = {
    ".models.checkpoint": "CheckpointStore cast_votes",
    ".models.engines": "Engine ProcessesEngine RayEngine SequentialEngine StackedEngine TrainingJob",
    ".models.image": "CNNTeacher ResNet50Teacher",
    ".models.kernel": "ConvexTeacher KernelTeacher",
    ".models.linear": "LinearTeacher",
    ".models.mlp": "MLPTeacher",
    ".models.sklearn": "SklearnTeacher",
    ".models.teacher": "Shard State Teacher Voter",
}
__getattr__ = lazily(__name__, _LATER)
