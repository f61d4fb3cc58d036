"""Trained models of a comparison, and references that no epsilon covers."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pate.models.student_model import Predictor
from pate.validation import require


@dataclass(frozen=True)
class Trained:
    """Model that a method trained, with the figures of its release."""

    model: Predictor  # scored on the test split
    num_answered: int | None = None  # public samples that were answered; None where none are asked
    # share of correct bits in the answers, if any. No epsilon covers it.
    label_accuracy: float | None = None


@dataclass(frozen=True)
class Reference:
    """Model that no epsilon covers."""

    name: str  # in all tables
    train: Callable[[int], Trained]  # trains it with a seed; it can be sent to another process
    identity: list[Any]  # all that it depends on beside data and seed, as plain values
    columns: Mapping[str, Any]  # as `Method.columns`


def kind(recipe: Any) -> str:
    """Returns the name of a teacher or a student in tables: `low_rank` for `LowRankStudent`."""
    name = type(recipe).__name__.removesuffix("Teacher").removesuffix("Student")
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()


def require_plain_name(setting: str, name: str) -> None:
    """Raises `InvalidValue` for a name of a method that no file can have."""
    plain = name.replace("_", "").replace("-", "").isalnum()
    require(plain, setting, name, "names of letters, digits, - and _")
