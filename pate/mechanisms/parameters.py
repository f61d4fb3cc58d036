"""Public parameters: each field of a frozen dataclass says itself what it may be."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, TypeVar

from pate.accounting import Adjacency
from pate.validation import (
    normalize_field,
    require_choice,
    require_count,
    require_non_negative,
    require_positive,
    require_probability,
)

P = TypeVar("P", bound="Parameters")

COUNT = {"check": require_count}
NATURAL = {"check": partial(require_count, minimum=0)}
NON_NEGATIVE = {"check": require_non_negative}
POSITIVE = {"check": require_positive}
PROBABILITY = {"check": require_probability}
NOISE = POSITIVE | {"noise": True}
OPTIONAL = {"optional": True}  # beside a check: None passes, although it is not the default


def one_of(choices: Iterable[str]) -> dict[str, Any]:
    """Returns the metadata of a field that is one of several words."""
    return {"check": partial(require_choice, choices=tuple(choices))}


def is_hashable(value: object) -> bool:
    """Returns whether a value can be the key of a cache: not where one of its fields has no hash."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


@dataclass(frozen=True)
class Parameters:
    """The base of frozen dataclasses of public parameters.

    The metadata of a field may hold the `check` of its value, which is called with name and value. A field marked
    `noise` has to be positive. None passes where it is the default, or where the metadata have `optional`. A field
    whose default is an `Adjacency` also takes the name of an adjacency.
    """

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(item.default, Adjacency):
                normalize_field(self, item.name, Adjacency.parse(value))
            check = item.metadata.get("check")
            if item.metadata.get("noise"):
                check = require_positive
            may_be_none = item.default is None or item.metadata.get("optional", False)
            if check is not None and not (value is None and may_be_none):
                check(item.name, value)

    def part(self, kind: type[P], **others: Any) -> P:
        """Returns an object of a kind whose fields have the same names, with the values here or other ones."""
        own_names = {item.name for item in fields(self)}
        return kind(
            **{
                item.name: getattr(self, item.name)
                for item in fields(kind)
                if item.name in own_names
            }
            | others
        )
