"""The stability test of a StableTopK: which parameters it needs, and the test that they make."""

from __future__ import annotations

import math
from typing import Protocol

from pate.accounting import Adjacency
from pate.mechanisms.stable.certified_table import CertifiedTable
from pate.mechanisms.stable.stability_table import StabilityTable, optimal_stability_table
from pate.mechanisms.stable.stability_test import StabilityTest
from pate.validation import InvalidValue, require, require_choice, require_positive, require_probability


class TestChoice(Protocol):
    """Whoever has the parameters of a stability test; `StableTopK` says what they mean."""

    @property
    def adjacency(self) -> Adjacency:
        """What one change means."""

    @property
    def test(self) -> str:
        """The kind of noise: "gaussian", "laplace" or "table"."""

    @property
    def test_std(self) -> float | None:
        """Std of the noise in votes."""

    @property
    def table(self) -> CertifiedTable | StabilityTable | str | None:
        """A ready table."""

    @property
    def table_order(self) -> float | None:
        """The order that a table is made for."""

    @property
    def table_budget(self) -> float | None:
        """The Renyi divergence that one test may cost."""

    @property
    def failure_prob(self) -> float:
        """Probability that an unstable set passes."""


def require_test(aggregator: TestChoice) -> None:
    """Raises `InvalidValue` unless the kind of test has its parameters, each in its range."""
    test = require_choice("test", aggregator.test, ("gaussian", "laplace", "table"))
    require_probability("failure_prob", aggregator.failure_prob)
    if aggregator.table is not None:
        require(test == "table", "test", test, "table, where a ready table is given")
    elif test == "table":
        require_positive("table_budget", _given("table_budget", aggregator.table_budget, test))
        order = _given("table_order", aggregator.table_order, test)
        require(1 < order < math.inf, "table_order", order, "a finite number > 1")
    else:
        require_positive("test_std", _given("test_std", aggregator.test_std, test))


def stability_test_of(aggregator: TestChoice, *, num_teachers: int) -> StabilityTest:
    """The test that checked parameters make for that many teachers."""
    table, adjacency = aggregator.table, aggregator.adjacency
    if isinstance(table, CertifiedTable):
        return table.test_for(num_teachers=num_teachers, adjacency=adjacency)
    if aggregator.test == "table":
        ready = table if isinstance(table, StabilityTable) else _optimal_table(aggregator, num_teachers)
        return StabilityTest.from_table(ready, num_teachers=num_teachers, adjacency=adjacency)
    make = StabilityTest.gaussian if aggregator.test == "gaussian" else StabilityTest.laplace
    return make(
        test_std=float(aggregator.test_std or 0),
        failure_prob=aggregator.failure_prob,
        num_teachers=num_teachers,
        adjacency=adjacency,
    )


def _optimal_table(aggregator: TestChoice, num_teachers: int) -> StabilityTable:
    return optimal_stability_table(
        order=float(aggregator.table_order or 0),
        rdp_budget=float(aggregator.table_budget or 0),
        failure_prob=aggregator.failure_prob,
        num_levels=num_teachers // aggregator.adjacency.gap_sensitivity + 1,
    )


def _given(name: str, value: float | None, test: str) -> float:
    if value is None:
        raise InvalidValue(f"{name}=None: expected a number, test={test} needs it")
    return value
