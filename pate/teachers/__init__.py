"""The ensemble: kinds of teachers, engines that train many of them, and their checkpoints.

What needs torch is loaded when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pate.teachers.checkpoint import CheckpointStore
from pate.teachers.kernel import KernelTeacher
from pate.teachers.sklearn import SklearnTeacher
from pate.teachers.teacher import Shard, State, Teacher
from pate.teachers.voter import Voter

if TYPE_CHECKING:
    from pate.teachers.casting import cast_votes
    from pate.teachers.cnn import CNNTeacher
    from pate.teachers.engines.engine import Engine
    from pate.teachers.engines.job import TrainingJob
    from pate.teachers.engines.processes import ProcessesEngine
    from pate.teachers.engines.ray import RayEngine
    from pate.teachers.engines.sequential import SequentialEngine
    from pate.teachers.engines.stacked import StackedEngine
    from pate.teachers.linear import LinearTeacher
    from pate.teachers.mlp import MLPTeacher
    from pate.teachers.resnet50 import ResNet50Teacher

_NEED_TORCH = {
    "CNNTeacher": "cnn",
    "Engine": "engines.engine",
    "LinearTeacher": "linear",
    "MLPTeacher": "mlp",
    "ProcessesEngine": "engines.processes",
    "RayEngine": "engines.ray",
    "ResNet50Teacher": "resnet50",
    "SequentialEngine": "engines.sequential",
    "StackedEngine": "engines.stacked",
    "TrainingJob": "engines.job",
    "cast_votes": "casting",
}

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
    "TrainingJob",
    "Voter",
    "cast_votes",
]


def __getattr__(name: str) -> Any:
    if name in _NEED_TORCH:
        return getattr(import_module(f"pate.teachers.{_NEED_TORCH[name]}"), name)
    raise AttributeError(f"module 'pate.teachers' has no attribute '{name}'")
