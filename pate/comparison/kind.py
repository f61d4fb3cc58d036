"""How tables name a teacher or a student."""

from __future__ import annotations

import re
from typing import Any


def kind(recipe: Any) -> str:
    """The class in words: `low_rank` for `LowRankStudent`."""
    name = type(recipe).__name__.removesuffix("Teacher").removesuffix("Student")
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
