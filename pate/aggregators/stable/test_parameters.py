"""The stability test of an aggregator as one value: its kind, what that kind needs, and the test that they make."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pate.accounting import Adjacency
from pate.mechanisms.stability_test import CertifiedTable, StabilityTable, StabilityTest, optimal_stability_table
from pate.validation import InvalidValue, require, require_choice, require_kind, require_positive, require_probability


@dataclass(frozen=True, kw_only=True)
class StabilityTestParameters:
    """What `StableTopK` and `StableFixedTopK` say of their test, by the names of their fields; checked when it is made.

    Attributes:
        test: "gaussian", "laplace" or "table".
        test_std: std of the noise in votes, > 0; for "gaussian" and "laplace".
        table_order: Renyi order that the table is made for, > 1; for "table".
        table_budget: Renyi divergence that one test may cost at that order, > 0; for "table".
        table: a ready table, or the path of one: it is read, and brings its own order and failure probability.
        failure_prob: probability that an unstable set passes, in (0, 1).
        adjacency: what one change means.
    """

    test: str
    test_std: float | None = None
    table_order: float | None = None
    table_budget: float | None = None
    table: CertifiedTable | StabilityTable | str | None = None
    failure_prob: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        if self.table is not None:
            self._adopt(CertifiedTable.load(self.table) if isinstance(self.table, str) else self.table)
        require_choice("test", self.test, ("gaussian", "laplace", "table"))
        require_probability("failure_prob", self.failure_prob)
        if self.table is not None:
            require(self.test == "table", "test", self.test, "table, where a ready table is given")
        elif self.test == "table":
            require_positive("table_budget", self._given("table_budget"))
            order = self._given("table_order")
            require(1 < order < math.inf, "table_order", order, "a finite number > 1")
        else:
            require_positive("test_std", self._given("test_std"))

    def stability_test(self, *, num_teachers: int) -> StabilityTest:
        """The test for that many teachers."""
        if isinstance(self.table, CertifiedTable):
            return self.table.test_for(num_teachers=num_teachers, adjacency=self.adjacency)
        if self.test == "table":
            levels = num_teachers // self.adjacency.gap_sensitivity + 1
            ready = self.table if isinstance(self.table, StabilityTable) else self.optimal_table(num_levels=levels)
            return StabilityTest.from_table(ready, num_teachers=num_teachers, adjacency=self.adjacency)
        make = StabilityTest.gaussian if self.test == "gaussian" else StabilityTest.laplace
        return make(
            test_std=float(self._given("test_std")),
            failure_prob=self.failure_prob,
            num_teachers=num_teachers,
            adjacency=self.adjacency,
        )

    def optimal_table(self, *, num_levels: int) -> StabilityTable:
        """The table of order and budget that passes most, with that many levels."""
        return optimal_stability_table(
            order=float(self._given("table_order")),
            rdp_budget=float(self._given("table_budget")),
            failure_prob=self.failure_prob,
            num_levels=num_levels,
        )

    def scaled(self, factor: float) -> StabilityTestParameters:
        """The noise multiplied by `factor`; a table's budget divided by its square.

        Raises:
            InvalidValue: a ready table.
        """
        self.require_no_ready_table()
        return replace(
            self,
            test_std=None if self.test_std is None else self.test_std * factor,
            table_budget=None if self.table_budget is None else self.table_budget / factor**2,
        )

    def require_no_ready_table(self) -> None:
        """Refuses a ready table, which has a price of its own."""
        if self.table is not None:
            raise InvalidValue("table: expected table_order and table_budget, a ready table cannot be scaled")

    def _adopt(self, table: CertifiedTable | StabilityTable) -> None:
        """A ready table has an order and a failure probability of its own."""
        require_kind("table", table, (CertifiedTable, StabilityTable), "a table of pate.mechanisms")
        fields = {"table": table, "failure_prob": table.failure_prob, "table_order": None, "table_budget": None}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _given(self, name: str) -> float:
        value: float | None = getattr(self, name)
        if value is None:
            raise InvalidValue(f"{name}=None: expected a number, test={self.test} needs it")
        return value
