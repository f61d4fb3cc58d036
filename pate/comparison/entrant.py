"""One line of a comparison: an aggregator with the ensemble that it asks and the student that learns from it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from pate.aggregators import Aggregator
from pate.student import Student
from pate.teachers import KernelTeacher, Teacher
from pate.validation import require, require_count


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """An aggregator and what belongs to it.

    Attributes:
        name: in all tables, beside the number of teachers.
        aggregator: with any noise; the comparison solves for it.
        teacher: the recipe for the teachers that it asks.
        num_teachers: T, public; None for one private group a teacher.
        student: the recipe for the student.
    """

    name: str
    aggregator: Aggregator
    teacher: Teacher | KernelTeacher
    num_teachers: int | None
    student: Student

    def __post_init__(self) -> None:
        plain = self.name.replace("_", "").replace("-", "").isalnum()
        require(plain, "aggregators", self.name, "names of letters, digits, - and _")  # they name files
        if self.num_teachers is not None:
            require_count("teacher.num_teachers", self.num_teachers)

    @property
    def key(self) -> str:
        """What no two entrants of a comparison share."""
        return self.name if self.num_teachers is None else f"{self.name}@{self.num_teachers}"


def digest(values: Any) -> str:
    """A name for plain values: equal for equal ones only."""
    text = json.dumps(values, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
