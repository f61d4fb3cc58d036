"""Teachers, engines and checkpoints of `pate.models`, under the names that configurations use.

`_target_: pate.teachers.KernelTeacher` occurs in `conf/`, in users' own YAML, and in the `release/config.yaml` of
published models. So these names can always be imported. Code of this package imports the classes from `pate.models`.
"""

from typing import TYPE_CHECKING

from pate.extras import lazily, require_extra

if TYPE_CHECKING:
    from pate.models import (
        CheckpointStore as CheckpointStore,
    )
    from pate.models import (
        CNNTeacher as CNNTeacher,
    )
    from pate.models import (
        ConvexTeacher as ConvexTeacher,
    )
    from pate.models import (
        Engine as Engine,
    )
    from pate.models import (
        KernelTeacher as KernelTeacher,
    )
    from pate.models import (
        LinearTeacher as LinearTeacher,
    )
    from pate.models import (
        MLPTeacher as MLPTeacher,
    )
    from pate.models import (
        ProcessesEngine as ProcessesEngine,
    )
    from pate.models import (
        RayEngine as RayEngine,
    )
    from pate.models import (
        ResNet50Teacher as ResNet50Teacher,
    )
    from pate.models import (
        SequentialEngine as SequentialEngine,
    )
    from pate.models import (
        Shard as Shard,
    )
    from pate.models import (
        SklearnTeacher as SklearnTeacher,
    )
    from pate.models import (
        StackedEngine as StackedEngine,
    )
    from pate.models import (
        State as State,
    )
    from pate.models import (
        Teacher as Teacher,
    )
    from pate.models import (
        ThreadsEngine as ThreadsEngine,
    )
    from pate.models import (
        TrainingJob as TrainingJob,
    )
    from pate.models import (
        Voter as Voter,
    )
    from pate.models import (
        cast_votes as cast_votes,
    )

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
    "ThreadsEngine",
    "TrainingJob",
    "Voter",
    "cast_votes",
]

__getattr__ = lazily(__name__, names_of_module={".models": " ".join(__all__)})
