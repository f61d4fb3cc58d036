"""Trained models of a comparison, and reference models without privacy."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pate.models.student_model import Predictor
from pate.validation import require


@dataclass(frozen=True)
class Trained:
    """A model that a method trained, with figures of the release on which it was trained.

    Attributes:
        model: the model, which is scored on the test split.
        num_answered: the number of answered queries; None for a method without queries.
        label_accuracy: the fraction of correct bits in the answers, which is private; None if there are no answers.
    """

    model: Predictor
    num_answered: int | None = None
    label_accuracy: float | None = None


@dataclass(frozen=True)
class Reference:
    """A model without privacy, which tables show for comparison.

    Attributes:
        name: the name in all tables.
        train: trains the model with a seed; can be pickled.
        identity: all settings on which the model depends, apart from data and seed, as plain values.
        columns: cells of comparison.csv by column, as in `Method.columns`.
    """

    name: str
    train: Callable[[int], Trained]
    identity: list[Any]
    columns: Mapping[str, Any]


def recipe_kind(recipe: Any) -> str:
    """Returns the name of a teacher or student in tables, from its class: `low_rank` for `LowRankStudent`."""
    class_name = type(recipe).__name__.removesuffix("Teacher").removesuffix("Student")
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", class_name).lower()


def require_plain_name(setting_name: str, method_name: str) -> None:
    """Raises `InvalidValue`, with the name of the setting, if a method's name has a character that is not allowed.

    Letters, digits, - and _ are allowed.
    """
    is_plain = method_name.replace("_", "").replace("-", "").isalnum()
    require(is_plain, setting_name, method_name, "names of letters, digits, - and _")
