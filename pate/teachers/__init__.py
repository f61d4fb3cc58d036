"""The ensemble: kinds of teachers, engines that train many of them, and their checkpoints."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pate.validation import require_extra

if TYPE_CHECKING:
    from pate.models.checkpoint import CheckpointStore, cast_votes
    from pate.models.engines import Engine, ProcessesEngine, RayEngine, SequentialEngine, StackedEngine, TrainingJob
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

_NAMES = {
    "checkpoint": ("CheckpointStore", "cast_votes"),
    "engines": ("Engine", "ProcessesEngine", "RayEngine", "SequentialEngine", "StackedEngine", "TrainingJob"),
    "image": ("CNNTeacher", "ResNet50Teacher"),
    "kernel": ("ConvexTeacher", "KernelTeacher"),
    "linear": ("LinearTeacher",),
    "mlp": ("MLPTeacher",),
    "sklearn": ("SklearnTeacher",),
    "teacher": ("Shard", "State", "Teacher", "Voter"),
}


def __getattr__(name: str) -> Any:
    """Loads a name when it is first asked for (PEP 562)."""
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"pate.models.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
