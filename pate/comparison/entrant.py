"""One line of a comparison: an aggregator with the ensemble that it asks and the student that learns from it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from pate.aggregators import Aggregator
from pate.student import Student
from pate.teachers import Teacher
from pate.validation import require, require_count


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """An aggregator and what belongs to it.

    Attributes:
        name: in all tables.
        aggregator: with any noise; the comparison solves for it.
        teacher: the recipe for the teachers that it asks.
        num_teachers: T, public.
        student: the recipe for the student.
        settings: plain values that say all of the above, by `aggregator`, `teacher` and `student`.
    """

    name: str
    aggregator: Aggregator
    teacher: Teacher
    num_teachers: int
    student: Student
    settings: dict[str, Any]

    def __post_init__(self) -> None:
        plain = self.name.replace("_", "").replace("-", "").isalnum()
        require(plain, "aggregators", self.name, "names of letters, digits, - and _")  # they name files
        require_count("teacher.num_teachers", self.num_teachers)


def digest(values: Any) -> str:
    """A name for plain values: equal for equal ones only."""
    text = json.dumps(values, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
