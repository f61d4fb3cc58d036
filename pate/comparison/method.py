"""Methods of a comparison, which train a model at a budget."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pate.accounting import Budget
from pate.comparison.bench import Bench
from pate.comparison.trained import Reference, Trained
from pate.progress import Monitor


@dataclass(frozen=True, eq=False)
class Contender:
    """Method at a budget, ready to be trained with any seed."""

    epsilon: float  # its price, at most the budget's epsilon
    parameters: Mapping[str, Any]  # that were solved for, by name; kept where all values are plain
    # trains once; noise and training are functions of the seed. It raises `InvalidValue` for data that the method is
    # not made for: the comparison says so in its table.
    train: Callable[[int], Trained]
    # why it is not worth training, from public numbers alone; empty where it is
    refusal: Callable[[], str] = str


class Method(ABC):
    """Method that can be trained at a budget and scored. A method of your own subclasses this class.

    Attributes:
        key: unique within a comparison.
    """

    # True where a price covers it; where none does, it has `references` alone
    is_private: ClassVar[bool] = True
    name: str  # in all tables: letters, digits, - and _

    @property
    def key(self) -> str:
        """The name of the method within a comparison."""
        return self.name

    @abstractmethod
    def identity(self, bench: Bench) -> list[Any]:
        """Returns all that its results depend on beside data, budget and seed, as plain values."""

    @abstractmethod
    def at(
        self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None
    ) -> Contender:
        """Returns the method at a budget. The comparison refuses a contender that costs more.

        Args:
            budget: with an epsilon.
            bench: the bench that all methods share.
            parameters: those that an earlier call solved for; they are priced again, never believed.

        Raises `InvalidValue` where no parameters reach the budget.
        """

    def columns(self, bench: Bench) -> dict[str, Any]:
        """Returns its cells of comparison.csv that all runs share: adjacency, teacher, num_teachers, student."""
        return {}

    def check(self, bench: Bench) -> None:  # noqa: B027 - most take all data
        """Raises `InvalidValue` where it cannot work on the data; called before anything is trained."""

    def warnings(self, bench: Bench) -> Iterator[str]:
        """Yields a line for each choice that is allowed but rarely wanted."""
        yield from ()

    def prepare(self, bench: Bench, monitor: Monitor) -> None:  # noqa: B027 - most have nothing to share
        """Does once the work that takes long and serves all budgets and seeds."""

    def references(self, bench: Bench) -> Iterator[Reference]:
        """Yields models that no epsilon covers, to show beside it."""
        yield from ()
