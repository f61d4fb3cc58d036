"""The stability test (propose-test-release): a noisy test of a gap decides whether a top-k set is released."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, ApproximateEvent, Event, OneBitEvent
from pate.accounting.special import expit, log_ndtr, ndtri
from pate.array_types import BoolArray, FloatArray
from pate.mechanisms.parameters import NATURAL, Parameters
from pate.mechanisms.stability_table import StabilityTable
from pate.validation import (
    InvalidValue,
    normalize_field,
    require,
    require_array,
    require_count,
    require_each,
    require_generator,
    require_histogram,
    require_kind,
    require_positive,
    require_probability,
    require_rising,
)

# Pass probabilities are multiples of 1 / GRID.
GRID = 2**53
# The largest pass probability. Above it, the steps of the grid would be visible at high Renyi orders.
LARGEST_PASS_PROB = 1 - 2.0**-40
# No noise exceeds so many of its standard deviations with a probability above 2**-40.
_MAX_STDS = 128
# Two limits of the largest gap whose probability a test stores. `_build_test` explains them.
_FEW_GAPS = 1000
_MAX_GAPS = 250_000


@dataclass(frozen=True, kw_only=True)
class StabilityTest(Parameters):
    """A randomized test of a gap, which passes with a probability that depends on the gap alone.

    `gaussian` and `laplace` derive this probability from noise on the gap, `from_table` reads it from a table.

    Formal guarantee, with sens = 2 (replace-one) or 1 (add/remove): if the top-k sets of neighbors differ, both gaps
    are at most sens, and both pass with probability at most `failure_prob`. Otherwise the gaps differ by at most sens.
    So a release of the top-k set whenever the test passes costs one bit (the result of the test), except with
    probability `failure_prob`. The event is computed from the same numbers that a draw is compared with.

    Attributes:
        pass_probs: the probability of passing at gap 0, 1, …; never decreasing, and at most `failure_prob` for gaps up
            to sens. The probabilities are rounded down to multiples of 2**-53 and to at most 1 - 2**-40, so that a
            draw has them exactly. Gaps larger than the last one pass with the last probability.
        failure_prob: the largest pass probability for gaps up to sens, in [2**-53, 1).
        adjacency: how neighboring data sets differ, an `Adjacency` or its name.
        num_teachers: the number of teachers T, which is the largest gap. A number below the gap of the last
            probability, such as the default 0, is raised to that gap.

    Source: Zhu & Wang 2022, Algorithms 4 and 5, with max(sens, gap) in place of the gap and an exact
    quantile; docs/proofs/stability_test.md.

    >>> test = StabilityTest.gaussian(test_std=2.0, failure_prob=0.01, num_teachers=10, adjacency="add_remove")
    >>> round(test.pass_probs[10], 9)
    0.985134365
    """

    pass_probs: tuple[float, ...]
    failure_prob: float
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    num_teachers: int = field(default=0, metadata=NATURAL)

    def __post_init__(self) -> None:
        super().__post_init__()
        is_on_grid = 1 / GRID <= self.failure_prob < 1
        require(is_on_grid, "failure_prob", self.failure_prob, "a number in [2**-53, 1)")
        checked_probs_by_gap = _require_probabilities(
            self.pass_probs, failure_prob=self.failure_prob, adjacency=self.adjacency
        )
        rounded_pass_probs = (
            np.floor(np.minimum(checked_probs_by_gap, LARGEST_PASS_PROB) * GRID) / GRID
        )
        normalize_field(self, "pass_probs", tuple(rounded_pass_probs.tolist()))
        normalize_field(self, "num_teachers", max(self.num_teachers, len(rounded_pass_probs) - 1))

    @staticmethod
    def gaussian(
        *,
        test_std: float,
        failure_prob: float,
        num_teachers: int,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
    ) -> StabilityTest:
        """Returns the test with Gaussian noise, which passes if max(sens, gap) + N(0, test_std**2) - c > sens.

        Here c = test_std * Phi^-1(1 - failure_prob).

        Args:
            test_std: the standard deviation of the noise, in votes, > 0.
            failure_prob: the pass probability at gaps up to sens.
            num_teachers: the number of teachers T, which is the largest gap.
            adjacency: how neighboring data sets differ, an `Adjacency` or its name.
        """
        return _gaussian_test(
            test_std=require_positive("test_std", test_std),
            failure_prob=require_probability("failure_prob", failure_prob),
            num_teachers=require_count("num_teachers", num_teachers),
            adjacency=Adjacency.parse(adjacency),
        )

    @staticmethod
    def laplace(
        *,
        test_std: float,
        failure_prob: float,
        num_teachers: int,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
    ) -> StabilityTest:
        """Returns the test with Laplace noise, which passes if max(sens, gap) + Laplace(b) - c > sens.

        Here b = test_std / sqrt 2 and c = b log(1 / (2 failure_prob)).

        Args:
            test_std: the standard deviation of the noise, in votes, > 0.
            failure_prob: the pass probability at gaps up to sens; above 1/2 a bound on it.
            num_teachers: the number of teachers T, which is the largest gap.
            adjacency: how neighboring data sets differ, an `Adjacency` or its name.
        """
        return _laplace_test(
            test_std=require_positive("test_std", test_std),
            failure_prob=require_probability("failure_prob", failure_prob),
            num_teachers=require_count("num_teachers", num_teachers),
            adjacency=Adjacency.parse(adjacency),
        )

    @staticmethod
    def from_table(
        table: StabilityTable, *, num_teachers: int, adjacency: Adjacency = Adjacency.REPLACE_ONE
    ) -> StabilityTest:
        """Returns the test that passes with the probability of a table at level max(0, ceil((gap - sens) / sens)).

        The gaps of neighboring data sets are at most one level apart.
        """
        require_kind("table", table, StabilityTable, rule="a StabilityTable")
        require_probability("failure_prob", table.failure_prob)
        return _table_test(
            table,
            num_teachers=require_count("num_teachers", num_teachers),
            adjacency=Adjacency.parse(adjacency),
        )

    @cached_property
    def event(self) -> Event:
        """The price of one test, the same for both outcomes."""
        with np.errstate(divide="ignore"):  # a probability of 0 has the log-odds minus infinity
            logits_of_gaps = np.log(self._probs) - np.log1p(-self._probs)
        return ApproximateEvent(
            OneBitEvent(
                logits=tuple(logits_of_gaps.tolist()), reach=self.adjacency.gap_sensitivity
            ),
            failure_prob=self.failure_prob,
        )

    @cached_property
    def _probs(self) -> FloatArray:
        """The pass probabilities as an array `[num_gaps]`."""
        return np.array(self.pass_probs)

    def __call__(self, gaps: NDArray[np.integer], *, rng: np.random.Generator) -> BoolArray:
        """Draws for each gap whether the test passes, and returns bits in the shape of `gaps`.

        Args:
            gaps: the gaps, each in 0..num_teachers: one gap `[]`, or `[num_queries]`.
            rng: the generator of the draws.
        """
        require_generator(rng)
        gaps = np.asarray(gaps)
        require_histogram("gaps", np.atleast_1d(gaps), largest_count=self.num_teachers)
        return np.asarray(rng.random(gaps.shape) < self.pass_probabilities(gaps))

    def pass_probabilities(self, gaps: NDArray[np.integer]) -> FloatArray:
        """Returns the exact probability of passing for each gap, in the shape of `gaps`."""
        return np.asarray(self._probs[np.minimum(gaps, len(self._probs) - 1)])

    def gap_to_pass(self, probability: float) -> int | None:
        """Returns the smallest gap that passes with at least a given probability.

        Returns None if no gap up to the number of teachers passes with that probability.
        """
        passing_gaps = np.flatnonzero(self._probs >= probability)
        return int(passing_gaps[0]) if passing_gaps.size else None


def _require_probabilities(
    pass_probs: tuple[float, ...], failure_prob: float, adjacency: Adjacency
) -> FloatArray:
    """Returns pass probabilities as an array `[num_gaps]`.

    Raises `InvalidValue` unless they are probabilities that never decrease, and at most `failure_prob` for gaps up to
    the sensitivity of a gap.
    """
    pass_probs_by_gap = require_array("pass_probs", pass_probs).astype(np.float64)
    is_list = pass_probs_by_gap.ndim == 1 and pass_probs_by_gap.size > 0
    require(is_list, "pass_probs", pass_probs_by_gap.shape, "one probability for each gap")
    require_each(
        "pass_probs",
        pass_probs_by_gap,
        (pass_probs_by_gap >= 0) & (pass_probs_by_gap <= 1),
        rule="numbers in [0, 1]",
    )
    require_rising("pass_probs", pass_probs_by_gap.tolist())
    largest_prob_without_excess = pass_probs_by_gap[: adjacency.gap_sensitivity + 1].max()
    if not largest_prob_without_excess <= failure_prob:  # also where `failure_prob` is NaN
        rule = f"at most failure_prob={failure_prob} up to the sensitivity"
        raise InvalidValue("pass_probs", largest_prob_without_excess, rule=rule)
    return pass_probs_by_gap


# The functions below build the tests of the three kinds. Each states the probability of passing as a function of the
# *excess* of a gap: the votes by which the gap exceeds sens, 0 if it does not. They have caches, because a test may
# hold 250,000 numbers, and price, draw and calibration ask for the same test again.


@lru_cache(maxsize=64)
def _gaussian_test(
    *, test_std: float, failure_prob: float, num_teachers: int, adjacency: Adjacency
) -> StabilityTest:
    """Returns the test of `StabilityTest.gaussian` from a cache; the arguments are valid."""

    def compute_pass_probs(votes_over_sensitivity: FloatArray) -> FloatArray:
        # P(sens + excess + N(0, test_std**2) - c > sens), where c / test_std = -ndtri(failure_prob)
        normal_quantiles = votes_over_sensitivity / test_std + ndtri(failure_prob)
        return np.asarray(np.exp(log_ndtr(normal_quantiles)))

    return _build_test(
        compute_pass_probs=compute_pass_probs,
        certain_excess=_certain_excess(compute_pass_probs, test_std=test_std),
        failure_prob=failure_prob,
        num_teachers=num_teachers,
        adjacency=adjacency,
    )


@lru_cache(maxsize=64)
def _laplace_test(
    *, test_std: float, failure_prob: float, num_teachers: int, adjacency: Adjacency
) -> StabilityTest:
    """Returns the test of `StabilityTest.laplace` from a cache; the arguments are valid."""

    def compute_pass_probs(votes_over_sensitivity: FloatArray) -> FloatArray:
        # P(sens + excess + Laplace(b) - c > sens): the distribution function of Laplace(1) at (excess - c) / b
        laplace_quantiles = votes_over_sensitivity * math.sqrt(2) / test_std + math.log(
            2 * failure_prob
        )
        tails = 0.5 * np.exp(-np.abs(laplace_quantiles))
        return np.where(laplace_quantiles < 0, tails, 1 - tails)

    return _build_test(
        compute_pass_probs=compute_pass_probs,
        certain_excess=_certain_excess(compute_pass_probs, test_std=test_std),
        failure_prob=failure_prob,
        num_teachers=num_teachers,
        adjacency=adjacency,
    )


@lru_cache(maxsize=64)
def _table_test(
    stability_table: StabilityTable, *, num_teachers: int, adjacency: Adjacency
) -> StabilityTest:
    """Returns the test of `StabilityTest.from_table` from a cache; the arguments are valid."""
    gap_sensitivity = adjacency.gap_sensitivity
    last_level = len(stability_table.logits) - 1

    def compute_pass_probs(votes_over_sensitivity: FloatArray) -> FloatArray:
        levels_of_excesses = np.minimum(
            np.ceil(votes_over_sensitivity / gap_sensitivity).astype(np.int64), last_level
        )
        return np.asarray(expit(np.array(stability_table.logits)[levels_of_excesses]))

    return _build_test(
        compute_pass_probs=compute_pass_probs,
        certain_excess=float(gap_sensitivity * last_level),
        failure_prob=stability_table.failure_prob,
        num_teachers=num_teachers,
        adjacency=adjacency,
    )


def _certain_excess(
    compute_pass_probs: Callable[[FloatArray], FloatArray], test_std: float
) -> float:
    """Returns the smallest of the excesses 0, test_std, 2 test_std, … at which the test passes almost certainly.

    Almost certainly means with a probability of at least `LARGEST_PASS_PROB`, the largest that a test has.

    Args:
        compute_pass_probs: the probability of passing, as a function of the excess, max(gap - sens, 0).
        test_std: the standard deviation of the noise of the test, in votes.
    """
    num_stds = np.arange(_MAX_STDS + 1.0)
    rising_excesses = num_stds * test_std
    rising_pass_probs = compute_pass_probs(rising_excesses)
    return test_std * float(np.searchsorted(rising_pass_probs, LARGEST_PASS_PROB))


def _build_test(
    *,
    compute_pass_probs: Callable[[FloatArray], FloatArray],
    certain_excess: float,
    failure_prob: float,
    num_teachers: int,
    adjacency: Adjacency,
) -> StabilityTest:
    """Returns a stability test of T teachers that stores the probabilities of the gaps 0..g.

    Here g is the smallest of three numbers: T; 250,000; and the gap of `certain_excess`, or 1,000 if that is more.
    Larger gaps pass with the last probability.

    Args:
        compute_pass_probs: the probability of passing, as a function of the excess, max(gap - sens, 0).
        certain_excess: an excess at which the largest possible probability is reached.
        failure_prob: the largest pass probability at gaps up to sens.
        num_teachers: the number of teachers T.
        adjacency: how neighboring data sets differ.
    """
    gap_sensitivity = adjacency.gap_sensitivity
    first_certain_gap = gap_sensitivity + math.ceil(min(certain_excess, _MAX_GAPS))
    largest_gap = min(num_teachers, max(_FEW_GAPS, first_certain_gap), _MAX_GAPS)
    all_gaps = np.arange(largest_gap + 1.0)
    unlimited_pass_probs = compute_pass_probs(np.maximum(all_gaps - gap_sensitivity, 0.0))
    # Without excess the probability is at most `failure_prob`, which rounding must not exceed.
    pass_probs = np.where(
        all_gaps <= gap_sensitivity,
        np.minimum(unlimited_pass_probs, failure_prob),
        unlimited_pass_probs,
    )
    return StabilityTest(
        pass_probs=tuple(pass_probs.tolist()),
        failure_prob=failure_prob,
        adjacency=adjacency,
        num_teachers=num_teachers,
    )
