"""Gap tests: rules that release a top-k set only if the gap in counts below the set passes a noisy test.

The noise is added to the gap, or the probability of passing is read from a table. A gap test holds the parameters that
calibration changes: the standard deviation of the noise, or the budget of a computed table. A given table is never
changed. `for_votes` returns the mechanism, a `StabilityTest`, for one number of teachers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from pate.accounting import Adjacency, Event
from pate.accounting.event_tree import count_leaves
from pate.accounting.rdp import rdp_curve
from pate.mechanisms.certified_table import CertifiedTable
from pate.mechanisms.parameters import POSITIVE, PROBABILITY, Parameters
from pate.mechanisms.stability_table import StabilityTable, optimal_stability_table
from pate.mechanisms.stability_test import StabilityTest
from pate.validation import InvalidValue, require

# The noise for a Renyi budget is searched with at most so many teachers. The search tries enormous noise too, whose
# table of probabilities grows with the number of teachers, and its result hardly depends on more of them.
_MAX_TEACHERS_OF_SEARCH = 5000
# The logarithms of the smallest and the largest noise of the search.
_LOWEST_LOG_NOISE = -60.0
_HIGHEST_LOG_NOISE = 25.0


class GapTest(ABC):
    """A rule that decides whether the gap below a top-k set passes, before the number of teachers is given.

    The price and the guarantee are those of `StabilityTest`, the mechanism for one number of teachers.
    """

    @abstractmethod
    def for_votes(self, *, num_teachers: int, adjacency: Adjacency) -> StabilityTest:
        """Returns the stability test for votes of `num_teachers` teachers."""

    @abstractmethod
    def scaled(self, noise_factor: float) -> Self:
        """Returns a copy of the test with its noise multiplied by `noise_factor` > 0."""

    @abstractmethod
    def tuned(
        self, *, renyi_order: float, rdp: float, num_teachers: int, adjacency: Adjacency
    ) -> Self:
        """Returns a copy of the test with the noise at which a query costs `rdp`, a Renyi divergence.

        Args:
            renyi_order: the Renyi order at which the cost is measured, > 1.
            rdp: the Renyi divergence that one query may cost.
            num_teachers: the number of teachers.
            adjacency: the adjacency of the votes.
        """


@dataclass(frozen=True, kw_only=True)
class NoiseTest(Parameters, GapTest):
    """A test with noise on the gap; each law of noise is a subclass.

    Attributes:
        std: standard deviation of the noise in votes, > 0.
        failure_prob: largest probability that an unstable set passes, in (0, 1).
    """

    std: float = field(metadata=POSITIVE)
    failure_prob: float = field(metadata=PROBABILITY)

    def scaled(self, noise_factor: float) -> Self:
        """Returns a copy of the test with its standard deviation multiplied by `noise_factor`."""
        return replace(self, std=self.std * noise_factor)

    def tuned(
        self, *, renyi_order: float, rdp: float, num_teachers: int, adjacency: Adjacency
    ) -> Self:
        """Returns a copy of the test with the standard deviation at which a query costs `rdp`; see `GapTest.tuned`.

        For more than 5,000 teachers, the standard deviation is the one for 5,000, which hardly differs.
        """
        num_teachers = min(num_teachers, _MAX_TEACHERS_OF_SEARCH)

        def event_at_std(std: float) -> Event:
            gap_test = replace(self, std=std)
            return gap_test.for_votes(num_teachers=num_teachers, adjacency=adjacency).event

        return replace(self, std=noise_of_rdp(event_at_std, renyi_order=renyi_order, rdp=rdp))


@dataclass(frozen=True, kw_only=True)
class GaussianTest(NoiseTest):
    """A test with Gaussian noise on the gap, of standard deviation `std` votes.

    >>> test = GaussianTest(std=2.0, failure_prob=0.01)
    >>> passing = test.for_votes(num_teachers=20, adjacency=Adjacency.REPLACE_ONE)
    >>> passing.gap_to_pass(0.5), test.scaled(3.0).std
    (7, 6.0)
    """

    def for_votes(self, *, num_teachers: int, adjacency: Adjacency) -> StabilityTest:
        """Returns the stability test for votes of `num_teachers` teachers."""
        return StabilityTest.gaussian(
            test_std=self.std,
            failure_prob=self.failure_prob,
            num_teachers=num_teachers,
            adjacency=adjacency,
        )


@dataclass(frozen=True, kw_only=True)
class LaplaceTest(NoiseTest):
    """A test with Laplace noise on the gap, of standard deviation `std` votes.

    >>> test = LaplaceTest(std=2.0, failure_prob=0.01)
    >>> passing = test.for_votes(num_teachers=20, adjacency=Adjacency.REPLACE_ONE)
    >>> passing.gap_to_pass(0.5), test.scaled(3.0).std
    (8, 6.0)
    """

    def for_votes(self, *, num_teachers: int, adjacency: Adjacency) -> StabilityTest:
        """Returns the stability test for votes of `num_teachers` teachers."""
        return StabilityTest.laplace(
            test_std=self.std,
            failure_prob=self.failure_prob,
            num_teachers=num_teachers,
            adjacency=adjacency,
        )


@dataclass(frozen=True, kw_only=True)
class TableTest(Parameters, GapTest):
    """A test by the table with the largest probability of passing for a given price (`optimal_stability_table`).

    Attributes:
        renyi_order: Renyi order that the table is made for, > 1.
        rdp_budget: Renyi divergence of the bit (passed or not) at that order, > 0; the same under both adjacencies.
        failure_prob: largest probability that an unstable set passes, in (0, 1).

    >>> test = TableTest(renyi_order=3.0, rdp_budget=0.5, failure_prob=0.01)
    >>> passing = test.for_votes(num_teachers=20, adjacency=Adjacency.REPLACE_ONE)
    >>> passing.gap_to_pass(0.5), test.scaled(2.0).rdp_budget
    (9, 0.125)
    """

    renyi_order: float
    rdp_budget: float = field(metadata=POSITIVE)
    failure_prob: float = field(metadata=PROBABILITY)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            1 < self.renyi_order < math.inf, "renyi_order", self.renyi_order, "a finite number > 1"
        )

    def for_votes(self, *, num_teachers: int, adjacency: Adjacency) -> StabilityTest:
        """Returns the stability test for votes of `num_teachers` teachers, from a table that is computed for them."""
        stability_table = self.table(num_levels=num_teachers // adjacency.gap_sensitivity + 1)
        return StabilityTest.from_table(
            stability_table, num_teachers=num_teachers, adjacency=adjacency
        )

    def table(self, *, num_levels: int) -> StabilityTable:
        """Returns the table of the probabilities of passing, one for each level of the gap, for `num_levels` at most.

        The last probability holds for all higher levels. Level 0 is a gap of at most one sensitivity. Level i > 0 is a
        gap above i, and of at most i + 1, sensitivities.
        """
        return optimal_stability_table(
            order=self.renyi_order,
            rdp_budget=self.rdp_budget,
            failure_prob=self.failure_prob,
            num_levels=num_levels,
        )

    def scaled(self, noise_factor: float) -> Self:
        """Returns a copy of the test with its budget divided by the square of `noise_factor`."""
        return replace(self, rdp_budget=self.rdp_budget / noise_factor**2)

    def tuned(
        self, *, renyi_order: float, rdp: float, num_teachers: int, adjacency: Adjacency
    ) -> Self:
        """Returns a copy of the test whose table is made for `renyi_order` and costs `rdp`; see `GapTest.tuned`."""
        return replace(self, renyi_order=renyi_order, rdp_budget=rdp)


@dataclass(frozen=True)
class ReadyTableTest(GapTest):
    """A test that reads the probability of passing from a given table, which has its own price."""

    table: CertifiedTable | StabilityTable

    def for_votes(self, *, num_teachers: int, adjacency: Adjacency) -> StabilityTest:
        """Returns the stability test of the table.

        Raises `InvalidValue` if the table was certified for another number of teachers or another adjacency.
        """
        if isinstance(self.table, CertifiedTable):
            return self.table.test_for(num_teachers=num_teachers, adjacency=adjacency)
        return StabilityTest.from_table(self.table, num_teachers=num_teachers, adjacency=adjacency)

    def scaled(self, noise_factor: float) -> Self:
        """Raises `InvalidValue`, as the price of a given table cannot be changed."""
        rule = "table_order and table_budget, a ready table cannot be scaled"
        raise InvalidValue("table", rule=rule)

    def tuned(
        self, *, renyi_order: float, rdp: float, num_teachers: int, adjacency: Adjacency
    ) -> Self:
        """Returns the test unchanged, as the price of a given table cannot be changed."""
        return self


def noise_of_rdp(
    event_at_noise: Callable[[float], Event], *, renyi_order: float, rdp: float
) -> float:
    """Returns the noise at which an event costs the Renyi divergence `rdp` at a Renyi order.

    Returns e**-60 for an event that costs no more even with so little noise. Raises `ValueError` for an event that
    costs more even with a noise of e**25.

    Args:
        event_at_noise: a function that returns the event for a noise; more noise makes the event cheaper.
        renyi_order: the Renyi order, > 1.
        rdp: the Renyi divergence that the event may cost.
    """
    from scipy.optimize import brentq  # loads slowly

    orders = np.array([renyi_order])

    def compute_log_rdp_ratio(log_noise: float) -> float:
        event = event_at_noise(math.exp(log_noise))
        rdp_at_order = float(rdp_curve(count_leaves(event), orders)[0])
        # A divergence of 0 has no logarithm, so it is raised to a tiny number.
        return math.log(max(rdp_at_order, 1e-300) / rdp)

    if compute_log_rdp_ratio(_LOWEST_LOG_NOISE) <= 0:
        return math.exp(_LOWEST_LOG_NOISE)
    return math.exp(brentq(compute_log_rdp_ratio, a=_LOWEST_LOG_NOISE, b=_HIGHEST_LOG_NOISE))
