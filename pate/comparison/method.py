"""Methods of a comparison. A method trains a model within a budget of privacy."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pate.accounting import Budget
from pate.comparison.bench import Bench
from pate.comparison.trained import Reference, Trained
from pate.progress import Monitor


@dataclass(frozen=True, eq=False)  # compared by identity, as its parts are
class Contender:
    """A method whose parameters meet a budget, ready to be trained with any seed.

    Attributes:
        epsilon: the price of the method, at most the epsilon of the budget; infinity for a model without privacy.
        parameters: the parameters that were computed from the budget, by name, such as the noise.
        train: trains a model with a seed, on which noise and training depend. It raises `InvalidValue` for data that
            the method cannot handle; the table of the comparison then shows the error.
        refusal: returns the reason not to train the method, from public numbers alone; an empty string if there is
            none.
    """

    epsilon: float
    parameters: Mapping[str, Any]
    train: Callable[[int], Trained]
    refusal: Callable[[], str] = str


class Method(ABC):
    """The base class of methods that a comparison trains at a budget and scores. Your own methods are subclasses.

    Attributes:
        is_private: whether the method has a price; a method without a price yields `references` only.
        name: the name in all tables: letters, digits, - and _.
    """

    is_private: ClassVar[bool] = True
    name: str

    @property
    def key(self) -> str:
        """The key of the method, unique within a comparison: its name, unless a subclass adds to it."""
        return self.name

    @abstractmethod
    def identity(self, bench: Bench) -> list[Any]:
        """Returns all values, apart from data, budget and seed, on which the results of the method depend.

        They are plain values, as the names of the files of results contain their digest.
        """

    @abstractmethod
    def at(
        self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None
    ) -> Contender:
        """Returns the method with parameters that meet a budget. The comparison refuses a contender that costs more.

        Args:
            budget: the budget, with an epsilon.
            bench: the data, queries and student that all methods share.
            parameters: the parameters that an earlier call computed, which are priced again; None to compute them.

        Raises:
            InvalidValue: no parameters meet the budget.
            TypeError: `parameters` has names that are not those of the method.
        """

    def columns(self, bench: Bench) -> dict[str, Any]:
        """Returns the cells of the method in comparison.csv, by column: adjacency, teacher, num_teachers, student."""
        return {}

    def check(self, bench: Bench) -> None:  # noqa: B027 - most methods handle all data
        """Raises `InvalidValue` if the method cannot handle the data; called before any method is trained."""

    def warnings(self, bench: Bench) -> Iterator[str]:
        """Yields a warning for each setting that is allowed but seldom sensible."""
        yield from ()

    def prepare(self, bench: Bench, monitor: Monitor) -> None:  # noqa: B027 - most methods share nothing
        """Does the work that all budgets and seeds share, such as the training of teachers."""

    def references(self, bench: Bench) -> Iterator[Reference]:
        """Yields models without privacy that tables show for comparison with the method."""
        yield from ()
