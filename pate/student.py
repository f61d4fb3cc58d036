"""Students of `pate.models`, under the names that configurations use.

`_target_: pate.student.LinearStudent` occurs in `conf/`, in users' own YAML, and in the `release/config.yaml` of
published models. So these names can always be imported. Code of this package imports the classes from `pate.models`.
"""

from typing import TYPE_CHECKING

from pate.extras import lazily, require_extra

if TYPE_CHECKING:
    from pate.models import (
        CNNStudent,
        LinearStudent,
        LogisticStudent,
        LowRankStudent,
        MLPStudent,
        ResNet50Student,
        Student,
        StudentModel,
    )

require_extra(__name__, "train")

__all__ = [
    "CNNStudent",
    "LinearStudent",
    "LogisticStudent",
    "LowRankStudent",
    "MLPStudent",
    "ResNet50Student",
    "Student",
    "StudentModel",
]

__getattr__ = lazily(__name__, names_of_module={".models": " ".join(__all__)})
