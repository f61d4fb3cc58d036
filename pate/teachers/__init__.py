"""The ensemble: kinds of teachers, engines that train many of them, and their checkpoints.

What needs torch is loaded when it is asked for.
"""

from pate.files.lazy_names import lazy_names

with lazy_names(globals()):
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
