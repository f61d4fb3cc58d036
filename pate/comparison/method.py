"""What a comparison compares: methods that train a model at a budget."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pate.comparison.bench import Bench, Trained
from pate.pricing import Budget
from pate.run.progress import Monitor


@dataclass(frozen=True, eq=False)
class Contender:
    """A method at a budget, ready to be trained with any seed.

    Attributes:
        epsilon: what it costs, at most what the budget allows.
        parameters: what was solved for, by name; kept where all values are plain.
        train: trains once; noise and training are functions of the seed. It raises `InvalidValue` for data that the
            method is not made for: the comparison says so in its table.
        refusal: why it is not worth training, from public numbers alone; empty where nothing speaks against it.
    """

    epsilon: float
    parameters: Mapping[str, Any]
    train: Callable[[int], Trained]
    refusal: Callable[[], str] = str


@dataclass(frozen=True)
class Reference:
    """A model that no epsilon covers.

    Attributes:
        name: in all tables.
        train: trains it with a seed; it can be sent to another process.
        identity: all that it depends on beside data and seed, as plain values.
        columns: as `Method.columns`.
    """

    name: str
    train: Callable[[int], Trained]
    identity: list[Any]
    columns: Mapping[str, Any]


class Method(ABC):
    """Something that can be trained at a budget and scored. A method of your own subclasses this class.

    Attributes:
        name: in all tables: letters, digits, - and _.
        key: unique within a comparison.
        is_private: whether a price covers it; where none does, it has `references` alone, whatever the budgets.
    """

    is_private: ClassVar[bool] = True

    name: str

    @property
    def key(self) -> str:
        """The name, unless a method says more."""
        return self.name

    @abstractmethod
    def identity(self, bench: Bench) -> list[Any]:
        """All that its results depend on beside data, budget and seed, as plain values."""

    @abstractmethod
    def at(self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None) -> Contender:
        """The method at a budget. The comparison refuses a contender that costs more.

        Args:
            budget: with a `target_epsilon`.
            bench: what all methods share.
            parameters: what an earlier call solved for; it is priced again, never believed.

        Raises:
            InvalidValue: no parameters reach the budget.
        """

    def columns(self, bench: Bench) -> dict[str, Any]:
        """Its cells of comparison.csv that are known before: adjacency, teacher, num_teachers, student."""
        return {}

    def check(self, bench: Bench) -> None:  # noqa: B027 - most take all data
        """Raises `InvalidValue` where it cannot work on the data: asked before anything is trained."""

    def warnings(self, bench: Bench) -> Iterator[str]:
        """What is allowed but rarely wanted, one line each."""
        yield from ()

    def prepare(self, bench: Bench, monitor: Monitor) -> None:  # noqa: B027 - most have nothing to share
        """Does what takes long and serves all budgets and seeds, once."""

    def references(self, bench: Bench) -> Iterator[Reference]:
        """Models that no epsilon covers, to show beside it."""
        yield from ()
