"""The first line of a ledger: under which settings all its charges are counted."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

from pate.accounting.accountant import Accountant
from pate.accounting.events import Adjacency
from pate.files.strict_json import number
from pate.validation import require

OLD, CHAINED = 1, 2
"""Versions: of lines that stand alone, and of lines that carry the digest of the one before."""


@dataclass(frozen=True)
class Header:
    """The settings of a ledger.

    Attributes:
        ledger: the version.
        adjacency: what all events are priced for.
        target_delta: the delta of totals and cap.
        accountant: its name and parameters; None in a ledger of an earlier version.
        max_epsilon: the cap of every data set, or None.
        filter: the name and the parameters of what decides for the cap, or None.
    """

    ledger: int
    adjacency: str
    target_delta: float
    accountant: dict[str, Any] | None = None
    max_epsilon: float | None = None
    filter: dict[str, Any] | None = None

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """The header that a ledger begins with.

        Raises:
            ValueError: something else; `AttributeError`, `KeyError` and `TypeError` too.
        """
        names = [field.name for field in fields(cls)][: 3 if record["ledger"] == OLD else None]
        require(record["ledger"] in (OLD, CHAINED) and set(record) == set(names), "ledger", "…", "these keys alone")
        values = {name: record[name] for name in names}
        values["adjacency"], values["target_delta"] = (
            Adjacency(record["adjacency"]).value,
            number(record["target_delta"]),
        )
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """What the first line holds."""
        return dict(vars(self))

    @property
    def is_chained(self) -> bool:
        """Whether every line carries the digest of the one before."""
        return self.ledger == CHAINED

    def require_same(self, asked: Header, *, place: str) -> None:
        """Raises, naming the first difference, unless a ledger with this header can be used as asked.

        A cap may be asked for that is as tight as this one or tighter, or none; a filter, or none.
        """
        for name in ("adjacency", "target_delta"):
            here, there = getattr(self, name), getattr(asked, name)
            require(here == there, name, there, f"{here}, as {place} counts")
        if self.accountant is not None:
            same, there = asked.accountant == self.accountant, _words(asked.accountant)
            require(same, "accountant", there, f"{_words(self.accountant)}, as {place} counts")
        if self.max_epsilon is not None and asked.max_epsilon is not None:
            loose = asked.max_epsilon > self.max_epsilon
            require(not loose, "max_epsilon", asked.max_epsilon, f"at most {self.max_epsilon}, the cap of {place}")

    def require_filter(self, asked: dict[str, Any], *, place: str) -> None:
        """Raises unless the filter is the one that this ledger's cap is decided by."""
        require(asked == self.filter, "filter", _words(asked), f"{_words(self.filter)}, which decides in {place}")


def described(accountant: Accountant) -> dict[str, Any]:
    """An accountant's name and parameters."""
    return {"name": accountant.name} | accountant.parameters


def _words(description: dict[str, Any] | None) -> str:
    """A name and parameters for people, short."""
    values = dict(description or {})
    name = str(values.pop("name", "none"))
    inside = ", ".join(f"{key}={str(value)[:40]}" for key, value in values.items())
    return f"{name}({inside})" if inside else name
