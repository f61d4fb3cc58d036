"""A model of all private records without privacy, as an entrant: what all the others are measured against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from pate.comparison.bench import Bench
from pate.comparison.kind import kind
from pate.comparison.method import Contender, Method, Reference
from pate.comparison.students import all_records_model
from pate.files.fingerprint import full_text
from pate.pricing import Budget
from pate.validation import InvalidValue


@dataclass(frozen=True, kw_only=True)
class AllRecords(Method):
    """The ceiling of the comparison's student, trained on every private record and its true labels.

    No epsilon covers it, so tables show it in a single row without an epsilon.

    Attributes:
        name: in all tables.
        adjacency: nothing follows from it.
    """

    is_private: ClassVar[bool] = False

    name: str
    adjacency: str = "replace_one"

    def identity(self, bench: Bench) -> list[Any]:
        """See `Method.identity`."""
        return [full_text(bench.student.ceiling)]

    def at(self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None) -> Contender:
        """Raises: nothing about it is private."""
        raise InvalidValue(f"epsilon={budget.target_epsilon}: expected a private method; this one has no epsilon")

    def references(self, bench: Bench) -> Iterator[Reference]:
        """The one row."""
        columns = {"student": kind(bench.student.ceiling)}
        yield Reference(self.name, partial(all_records_model, bench), self.identity(bench), columns)
