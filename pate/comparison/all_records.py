"""The method without privacy: a model that is trained on all private records, as the ceiling of a comparison is."""

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
    """A method without privacy, which trains the best of a few models on all private records and their labels.

    The models are those of `pate.run.ceiling.ceiling_recipes`, as of the ceiling that `all_records` of a comparison
    trains. Tables show the model in one row without an epsilon.
    """

    is_private: ClassVar[bool] = False
    name: str
    adjacency: str = "replace_one"

    def identity(self, bench: Bench) -> list[Any]:
        """Returns the recipes of the models as texts. The best of them is trained on all private records."""
        return bench.ceiling(reference_name=self.name).identity

    def at(
        self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None
    ) -> Contender:
        """Raises `InvalidValue`, because this method has no privacy and so meets no budget."""
        raise InvalidValue(
            "epsilon", budget.epsilon, rule="a private method; this one has no epsilon"
        )

    def references(self, bench: Bench) -> Iterator[Reference]:
        """Yields the one reference, which trains the best of the models on all private records without privacy."""
        yield bench.ceiling(reference_name=self.name)
