"""The base class of the stable top-k aggregators: the fields of the selection and of the test."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

from pate.accounting import Budget, Event
from pate.accounting.conversion import zcdp_to_epsilon_classic
from pate.aggregators.aggregator import Aggregator
from pate.aggregators.calibration import least_noise
from pate.aggregators.failures import failure_prob_of, with_failure_prob_for
from pate.aggregators.gap_tests import (
    GapTest,
    GaussianTest,
    LaplaceTest,
    NoiseTest,
    ReadyTableTest,
    TableTest,
)
from pate.mechanisms.certified_table import CertifiedTable
from pate.mechanisms.gap_selection import SELECTION_NOISES
from pate.mechanisms.parameters import NOISE, OPTIONAL, PROBABILITY, one_of
from pate.mechanisms.stability_table import StabilityTable
from pate.mechanisms.stability_test import StabilityTest
from pate.validation import InvalidValue, normalize_field, require
from pate.votes.shape import VoteShape


@dataclass(frozen=True, kw_only=True)
class StableAggregator(Aggregator):
    """Base class of `StableTopK`, which documents the fields, and of `StableFixedTopK`."""

    selection_scale: float = field(metadata=NOISE)
    selection_noise: str = field(
        default="gumbel", metadata=one_of(SELECTION_NOISES) | {"public": True}
    )
    test: str = field(
        default="gaussian",
        metadata=one_of(choices=("gaussian", "laplace", "table")) | {"public": True},
    )
    test_std: float | None = field(default=None, metadata=NOISE)
    table_order: float | None = field(default=None, metadata=NOISE)
    table_budget: float | None = field(default=None, metadata=NOISE)
    table: CertifiedTable | StabilityTable | str | None = None
    failure_prob: float | None = field(default=None, metadata=PROBABILITY)
    padded: bool = False
    max_k: int | None = None
    selection_share: float | None = field(default=0.5, metadata=PROBABILITY | OPTIONAL)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.table is not None:
            self._take_ready_table()
        self._validate()

    @property
    def max_labels(self) -> int | None:
        """The largest number of labels that an answer is meant to name: `max_k`."""
        return self.max_k

    def _take_ready_table(self) -> None:
        """Makes the fields agree with the given table of passing probabilities; a path is replaced by its table.

        `failure_prob` becomes that of the table; `table_order` and `table_budget` become None. Raises `InvalidValue` if
        `table` holds no table, or `test` is not "table".
        """
        ready_table = CertifiedTable.load(self.table) if isinstance(self.table, str) else self.table
        if not isinstance(ready_table, (CertifiedTable, StabilityTable)):
            rule = "a table of pate.mechanisms"
            raise InvalidValue("table", type(ready_table).__name__, rule=rule)
        if self.test != "table":
            raise InvalidValue("test", self.test, rule="table, where a ready table is given")
        normalize_field(self, "table", ready_table)
        normalize_field(self, "failure_prob", ready_table.failure_prob)
        normalize_field(self, "table_order", None)
        normalize_field(self, "table_budget", None)

    def _validate(self) -> None:
        """Raises `InvalidValue` if a field that the gap test needs is None, such as `test_std`."""
        _ = self.gap_test  # raises `InvalidValue` if the test lacks a number

    @property
    def gap_test(self) -> GapTest:
        """The gap test that the field `test` names, or the one of a given table.

        Raises `InvalidValue` if the test lacks a number.
        """
        if isinstance(self.table, (CertifiedTable, StabilityTable)):
            return ReadyTableTest(self.table)
        failure_prob = failure_prob_of(aggregator=self)
        if self.test == "table":
            table_rdp_budget = self._needed_by_test(
                field_name="table_budget", field_value=self.table_budget
            )
            table_renyi_order = self._needed_by_test(
                field_name="table_order", field_value=self.table_order
            )
            require(
                1 < table_renyi_order < math.inf,
                "table_order",
                table_renyi_order,
                "a finite number > 1",
            )
            return TableTest(
                renyi_order=table_renyi_order,
                rdp_budget=table_rdp_budget,
                failure_prob=failure_prob,
            )
        test_std = self._needed_by_test(field_name="test_std", field_value=self.test_std)
        if self.test == "laplace":
            return LaplaceTest(std=test_std, failure_prob=failure_prob)
        return GaussianTest(std=test_std, failure_prob=failure_prob)

    def _needed_by_test(self, field_name: str, field_value: float | None) -> float:
        """Returns the value of a field that the gap test needs; raises `InvalidValue` for that field if it is None."""
        if field_value is None:
            raise InvalidValue(field_name, None, rule=f"a number, test={self.test} needs it")
        return field_value

    def with_gap_test(self, gap_test: GapTest) -> Self:
        """Returns a copy of the aggregator whose gap test has the noise of another gap test of the same kind.

        A gap test that reads a given table has no noise to set, so the aggregator itself is returned.
        """
        if isinstance(gap_test, TableTest):
            return replace(self, table_order=gap_test.renyi_order, table_budget=gap_test.rdp_budget)
        if isinstance(gap_test, NoiseTest):
            return replace(self, test_std=gap_test.std)
        return self  # a ready table has no noise to set

    def stability_test(self, *, num_teachers: int) -> StabilityTest:
        """Returns the stability test of the aggregator for votes of `num_teachers` teachers."""
        return self.gap_test.for_votes(num_teachers=num_teachers, adjacency=self.adjacency)

    def scaled(self, noise_factor: float) -> Self:
        """Returns a copy of the aggregator with the noise of all its steps multiplied by `noise_factor`.

        The budget of a table is divided by the square of the factor. Raises `InvalidValue` if the table was given.
        """
        aggregator_with_scaled_test = self.with_gap_test(self.gap_test.scaled(noise_factor))
        return aggregator_with_scaled_test._with_steps_scaled(noise_factor)

    def _with_steps_scaled(self, noise_factor: float) -> Self:
        """Returns a copy with the noise of all steps but the gap test multiplied: here `selection_scale`."""
        return replace(self, selection_scale=self.selection_scale * noise_factor)

    def scaled_to(self, budget: Budget, vote_shape: VoteShape) -> Self:
        """Returns a copy of the aggregator with its noise multiplied by the least factor whose price meets a budget.

        A given table stays unchanged; then only the noise of the other steps is multiplied.
        """
        if self.table is None:
            return super().scaled_to(budget, vote_shape)

        def event_at_factor(noise_factor: float) -> Event:
            return self._with_steps_scaled(noise_factor).event(vote_shape)

        return self._with_steps_scaled(least_noise(event_at_factor, budget))

    def paper_epsilon(self, *, num_queries: int, target_delta: float) -> float | None:
        """Returns the epsilon that the formula of the paper gives, which is not an upper bound.

        With the paper's settings this formula gives 3.66, where the paper states 3.6. It treats selection and test as
        Gaussian noise of sensitivity 1, composed by zCDP. For other kinds of noise the result is None. It is infinity
        if the failure probabilities use up delta.

        Args:
            num_queries: the number of queries.
            target_delta: the delta of the guarantee.
        """
        gap_test = self.gap_test
        if self.selection_noise != "gaussian" or not isinstance(gap_test, GaussianTest):
            return None
        planned_aggregator = with_failure_prob_for(
            self, delta=target_delta, num_queries=num_queries
        )
        delta_left = target_delta - num_queries * failure_prob_of(planned_aggregator)
        if delta_left <= 0:
            return math.inf
        zcdp_of_release = num_queries * self._paper_zcdp(gap_test)
        return zcdp_to_epsilon_classic(rho=zcdp_of_release, target_delta=delta_left)

    def _paper_zcdp(self, gap_test: GaussianTest) -> float:
        """Returns the zCDP rho of one query by the formula of the paper, for Gaussian noise of selection and test."""
        return 1 / (2 * self.selection_scale**2) + 1 / (2 * gap_test.std**2)
