"""The ensemble: kinds of teachers, engines that train many of them, and their checkpoints.

What needs torch is loaded when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pate.teachers.checkpoint import CheckpointStore, cast_votes
    from pate.teachers.engines import Engine, ProcessesEngine, RayEngine, SequentialEngine, StackedEngine, TrainingJob
    from pate.teachers.image import CNNTeacher, ResNet50Teacher
    from pate.teachers.kernel import ConvexTeacher, KernelTeacher
    from pate.teachers.linear import LinearTeacher
    from pate.teachers.mlp import MLPTeacher
    from pate.teachers.sklearn import SklearnTeacher
    from pate.teachers.teacher import Shard, State, Teacher, Voter

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

_MODULES = {
    "CNNTeacher": "image",
    "CheckpointStore": "checkpoint",
    "ConvexTeacher": "kernel",
    "Engine": "engines",
    "KernelTeacher": "kernel",
    "LinearTeacher": "linear",
    "MLPTeacher": "mlp",
    "ProcessesEngine": "engines",
    "RayEngine": "engines",
    "ResNet50Teacher": "image",
    "SequentialEngine": "engines",
    "Shard": "teacher",
    "SklearnTeacher": "sklearn",
    "StackedEngine": "engines",
    "State": "teacher",
    "Teacher": "teacher",
    "TrainingJob": "engines",
    "Voter": "teacher",
    "cast_votes": "checkpoint",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
