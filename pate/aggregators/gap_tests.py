"""Gap tests: a top-k set is released only if the gap below it passes, by noise on the gap or by an optimal table.

A gap test is a rule for any number of teachers, with the numbers that calibration changes: a standard deviation, or the
budget of a table. `for_votes` makes the mechanism, `StabilityTest`, for one number of teachers.
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

# The search for the noise of a Renyi budget tries enormous noise too, whose table of probabilities grows with the
# number of teachers. The result hardly depends on more teachers than so many.
_MOST_TEACHERS_OF_TUNING = 5000
_LOG_NOISES = (-60.0, 25.0)


class GapTest(ABC):
    """The rule by which the gap below a top-k set passes, for any number of teachers.

    `StabilityTest`, the mechanism for one number of teachers, has the price and the guarantee.
    """

    @abstractmethod
    def for_votes(self, *, num_teachers: int, adjacency: Adjacency) -> StabilityTest:
        """Returns the mechanism for votes of `num_teachers` teachers."""

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """Returns the same test with `factor` > 0 times the noise."""

    @abstractmethod
    def tuned(self, *, order: float, rdp: float, num_teachers: int, adjacency: Adjacency) -> Self:
        """Returns the same test with the noise at which one bit costs `rdp` at a Renyi order > 1."""


@dataclass(frozen=True, kw_only=True)
class NoiseTest(Parameters, GapTest):
    """A test with noise on the gap; each law of noise is a subclass.

    Attributes:
        std: standard deviation of the noise in votes, > 0.
        failure_prob: probability that an unstable set passes, in (0, 1).
    """

    std: float = field(metadata=POSITIVE)
    failure_prob: float = field(metadata=PROBABILITY)

    def scaled(self, factor: float) -> Self:
        """Returns the same test with `factor` times the standard deviation."""
        return replace(self, std=self.std * factor)

    def tuned(self, *, order: float, rdp: float, num_teachers: int, adjacency: Adjacency) -> Self:
        """Returns the same test with the standard deviation at which one bit costs `rdp` at a Renyi order."""
        num_teachers = min(num_teachers, _MOST_TEACHERS_OF_TUNING)

        def event_of(std: float) -> Event:
            test = replace(self, std=std)
            return test.for_votes(num_teachers=num_teachers, adjacency=adjacency).event

        return replace(self, std=noise_of_rdp(event_of, order=order, rdp=rdp))


@dataclass(frozen=True, kw_only=True)
class GaussianTest(NoiseTest):
    """A test with Gaussian noise on the gap, of standard deviation `std` votes.

    >>> test = GaussianTest(std=2.0, failure_prob=0.01)
    >>> passing = test.for_votes(num_teachers=20, adjacency=Adjacency.REPLACE_ONE)
    >>> passing.gap_to_pass(0.5), test.scaled(3.0).std
    (7, 6.0)
    """

    def for_votes(self, *, num_teachers: int, adjacency: Adjacency) -> StabilityTest:
        """Returns the mechanism for votes of `num_teachers` teachers."""
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
        """Returns the mechanism for votes of `num_teachers` teachers."""
        return StabilityTest.laplace(
            test_std=self.std,
            failure_prob=self.failure_prob,
            num_teachers=num_teachers,
            adjacency=adjacency,
        )


@dataclass(frozen=True, kw_only=True)
class TableTest(Parameters, GapTest):
    """A test by the table that passes most often at one price (`optimal_stability_table`).

    Attributes:
        order: Renyi order that the table is made for, > 1.
        budget: Renyi divergence of one bit at that order, > 0, whatever the adjacency.
        failure_prob: probability that an unstable set passes, in (0, 1).

    >>> test = TableTest(order=3.0, budget=0.5, failure_prob=0.01)
    >>> passing = test.for_votes(num_teachers=20, adjacency=Adjacency.REPLACE_ONE)
    >>> passing.gap_to_pass(0.5), test.scaled(2.0).budget
    (9, 0.125)
    """

    order: float
    budget: float = field(metadata=POSITIVE)
    failure_prob: float = field(metadata=PROBABILITY)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(1 < self.order < math.inf, "order", self.order, "a finite number > 1")

    def for_votes(self, *, num_teachers: int, adjacency: Adjacency) -> StabilityTest:
        """Returns the mechanism for votes of `num_teachers` teachers."""
        table = self.table(num_levels=num_teachers // adjacency.gap_sensitivity + 1)
        return StabilityTest.from_table(table, num_teachers=num_teachers, adjacency=adjacency)

    def table(self, *, num_levels: int) -> StabilityTable:
        """Returns the probabilities by level, a level being one sensitivity of the gap."""
        return optimal_stability_table(
            order=self.order,
            rdp_budget=self.budget,
            failure_prob=self.failure_prob,
            num_levels=num_levels,
        )

    def scaled(self, factor: float) -> Self:
        """Returns the same test with its budget divided by the square of `factor`."""
        return replace(self, budget=self.budget / factor**2)

    def tuned(self, *, order: float, rdp: float, num_teachers: int, adjacency: Adjacency) -> Self:
        """Returns the test by the table for that order and budget."""
        return replace(self, order=order, budget=rdp)


@dataclass(frozen=True)
class ReadyTableTest(GapTest):
    """A test by a table that was made before, and has a price and a failure probability of its own."""

    table: CertifiedTable | StabilityTable

    def for_votes(self, *, num_teachers: int, adjacency: Adjacency) -> StabilityTest:
        """Returns the mechanism; refuses numbers of teachers and adjacencies that a certified table is not for."""
        if isinstance(self.table, CertifiedTable):
            return self.table.test_for(num_teachers=num_teachers, adjacency=adjacency)
        return StabilityTest.from_table(self.table, num_teachers=num_teachers, adjacency=adjacency)

    def scaled(self, factor: float) -> Self:
        """Raises `InvalidValue`: the table has a price of its own."""
        rule = "table_order and table_budget, a ready table cannot be scaled"
        raise InvalidValue("table", rule=rule)

    def tuned(self, *, order: float, rdp: float, num_teachers: int, adjacency: Adjacency) -> Self:
        """Returns the same test: the table has a price of its own."""
        return self


def noise_of_rdp(event_of: Callable[[float], Event], *, order: float, rdp: float) -> float:
    """Returns the noise at which `event_of(noise)` costs `rdp` at a Renyi order."""
    from scipy.optimize import brentq  # loads slowly

    orders = np.array([order])

    def excess(log_noise: float) -> float:
        curve = rdp_curve(count_leaves(event_of(math.exp(log_noise))), orders)
        return math.log(max(float(curve[0]), 1e-300) / rdp)

    least, most = _LOG_NOISES
    if excess(least) <= 0:
        return math.exp(least)
    return math.exp(brentq(excess, least, most))
