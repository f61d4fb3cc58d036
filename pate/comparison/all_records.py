"""The ceiling of a comparison: its student trained on all private records."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pate.accounting import Budget
from pate.comparison.bench import Bench
from pate.comparison.method import Contender, Method
from pate.comparison.trained import Reference
from pate.validation import InvalidValue


@dataclass(frozen=True, kw_only=True)
class AllRecords(Method):
    """Ceiling of the comparison's student, trained on every private record and its true labels.

    No epsilon covers it, so tables show it in a single row without an epsilon.
    """

    is_private: ClassVar[bool] = False
    name: str  # in all tables
    adjacency: str = "replace_one"

    def identity(self, bench: Bench) -> list[Any]:
        """Returns the recipes of which the best is trained."""
        return bench.ceiling(self.name).identity

    def at(
        self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None
    ) -> Contender:
        """Raises `InvalidValue`: nothing about it is private."""
        raise InvalidValue(
            "epsilon", budget.epsilon, rule="a private method; this one has no epsilon"
        )

    def references(self, bench: Bench) -> Iterator[Reference]:
        """Yields the ceiling."""
        yield bench.ceiling(self.name)
