"""The ensemble: kinds of teachers, engines that train many of them, and their checkpoints.

What needs torch is loaded when it is asked for.
"""

from pate.files.lazy_names import lazy_names

with lazy_names(globals()):
    from pate.teachers.casting import cast_votes
    from pate.teachers.checkpoint import CheckpointStore
    from pate.teachers.cnn import CNNTeacher
    from pate.teachers.convex import ConvexTeacher
    from pate.teachers.engines.engine import Engine
    from pate.teachers.engines.job import TrainingJob
    from pate.teachers.engines.processes import ProcessesEngine
    from pate.teachers.engines.ray import RayEngine
    from pate.teachers.engines.sequential import SequentialEngine
    from pate.teachers.engines.stacked import StackedEngine
    from pate.teachers.kernel import KernelTeacher
    from pate.teachers.linear import LinearTeacher
    from pate.teachers.mlp import MLPTeacher
    from pate.teachers.resnet50 import ResNet50Teacher
    from pate.teachers.sklearn import SklearnTeacher
    from pate.teachers.teacher import Shard, State, Teacher
    from pate.teachers.voter import Voter

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
