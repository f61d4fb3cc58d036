"""The stability test (propose-test-release): releases a top-k set only if the gap below it is safely large."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, ApproximateEvent, Event, OneBitEvent
from pate.accounting.special import expit, log_ndtr, ndtri
from pate.mechanisms.stable.stability_table import StabilityTable
from pate.validation import (
    require,
    require_array,
    require_each,
    require_generator,
    require_histogram,
    require_positive,
    require_probability,
    require_rising,
    require_teachers_by_count,
)

Array = NDArray[np.float64]
ProbsOf = Callable[[Array, float, float], Array]

_GRID = 2.0**53
_LARGEST_PROB = 1 - 2.0**-40  # beyond it the grid's own steps would be visible at high orders


@dataclass(frozen=True, kw_only=True)
class StabilityTest:
    """Passes with a probability that depends on the gap alone. Noise on the gap is one way to choose that probability.

    Formal guarantees, with sens = 2 (replace-one) or 1 (add/remove):
        * If the top-k sets of neighbors differ, both gaps are at most sens, and both pass with probability at most
          `failure_prob`. Otherwise the gaps differ by at most sens.
        * So releasing the top-k set on a pass costs one bit, except with probability `failure_prob`: an
          `ApproximateEvent` of a `OneBitEvent`, computed from the very numbers that are compared with a uniform draw.

    Attributes:
        pass_probs: the probability of passing at gap 0, 1, …, num_teachers: never decreasing, at most `failure_prob`
            up to sens. Rounded down to multiples of 2**-53, so that a draw has exactly this probability, and to at
            most 1 - 2**-40.
        failure_prob: in (0, 1).
        adjacency: what one change means.

    Source: Zhu & Wang 2022, Algorithms 4 and 5, with the floor at sens and an exact quantile;
    docs/proofs/stability_test.md.

    >>> test = StabilityTest.gaussian(test_std=2.0, failure_prob=0.01, num_teachers=10, adjacency="add_remove")
    >>> round(test.pass_probs[10], 9)
    0.985134365
    """

    pass_probs: tuple[float, ...]
    failure_prob: float
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        require(1 / _GRID <= self.failure_prob < 1, "failure_prob", self.failure_prob, "a number in [2**-53, 1)")
        probs = require_array("pass_probs", self.pass_probs).astype(np.float64)
        require(probs.ndim == 1 and probs.size > 0, "pass_probs", probs.shape, "one probability for each gap")
        require_each("pass_probs", probs, (probs >= 0) & (probs <= 1), "numbers in [0, 1]")
        require_rising("pass_probs", probs.tolist())
        floor = probs[: self.adjacency.gap_sensitivity + 1].max()
        require(
            floor <= self.failure_prob,
            "pass_probs",
            floor,
            f"at most failure_prob={self.failure_prob} up to the sensitivity",
        )
        rounded = np.floor(np.minimum(probs, _LARGEST_PROB) * _GRID) / _GRID
        object.__setattr__(self, "pass_probs", tuple(rounded.tolist()))

    @classmethod
    def gaussian(
        cls, *, test_std: float, failure_prob: float, num_teachers: int, adjacency: Adjacency = Adjacency.REPLACE_ONE
    ) -> StabilityTest:
        """Passes if max(sens, gap) + N(0, test_std**2) - c > sens, with c = test_std * Phi^-1(1 - failure_prob)."""
        return _noisy_test(_gaussian_probs, test_std, failure_prob, num_teachers, adjacency)

    @classmethod
    def laplace(
        cls, *, test_std: float, failure_prob: float, num_teachers: int, adjacency: Adjacency = Adjacency.REPLACE_ONE
    ) -> StabilityTest:
        """Passes if max(sens, gap) + Laplace(b) - b log(1 / (2 failure_prob)) > sens, with b = test_std / sqrt 2."""
        return _noisy_test(_laplace_probs, test_std, failure_prob, num_teachers, adjacency)

    @classmethod
    def from_table(
        cls, table: StabilityTable, *, num_teachers: int, adjacency: Adjacency = Adjacency.REPLACE_ONE
    ) -> StabilityTest:
        """Passes by the table's level max(0, ceil((gap - sens) / sens)); neighbors are one level apart at most."""
        return _table_test(table, require_teachers_by_count(num_teachers), Adjacency.parse(adjacency))

    @property
    def num_teachers(self) -> int:
        """T, the largest gap."""
        return len(self.pass_probs) - 1

    @property
    def event(self) -> Event:
        """The price of one test."""
        return _test_event(self)

    def __call__(self, gaps: NDArray[np.integer], *, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Whether each gap passes: gaps `[Q]` or `[]`, in 0..num_teachers; the same shape of bits."""
        require_generator(rng)
        gaps = np.asarray(gaps)
        require_histogram("gaps", np.atleast_1d(gaps), num_teachers=self.num_teachers)
        return np.asarray(rng.random(gaps.shape) < self.pass_probabilities(gaps))

    def pass_probabilities(self, gaps: NDArray[np.integer]) -> Array:
        """The exact probability of passing, elementwise."""
        return np.asarray(_as_array(self)[gaps])

    def gap_to_pass(self, probability: float) -> int | None:
        """The smallest gap that passes with at least this probability; None where no gap of T teachers does."""
        enough = np.flatnonzero(_as_array(self) >= probability)
        return int(enough[0]) if enough.size else None


@lru_cache(maxsize=64)
def _as_array(test: StabilityTest) -> Array:
    return np.array(test.pass_probs)


@lru_cache(maxsize=64)
def _test_event(test: StabilityTest) -> Event:
    probs = _as_array(test)
    with np.errstate(divide="ignore"):
        logits = np.log(probs) - np.log1p(-probs)
    bit = OneBitEvent(tuple(logits.tolist()), test.adjacency.gap_sensitivity)
    return ApproximateEvent(bit, test.failure_prob)


def _noisy_test(
    probs_of: ProbsOf, test_std: float, failure_prob: float, num_teachers: int, adjacency: Adjacency
) -> StabilityTest:
    return _cached_test(
        probs_of,
        require_positive("test_std", test_std),
        require_probability("failure_prob", failure_prob),
        require_teachers_by_count(num_teachers),
        Adjacency.parse(adjacency),
    )


@lru_cache(maxsize=64)
def _cached_test(
    probs_of: ProbsOf, test_std: float, failure_prob: float, num_teachers: int, adjacency: Adjacency
) -> StabilityTest:
    excess = _excess_gaps(num_teachers, adjacency)
    return _test_of(probs_of(excess, test_std, failure_prob), failure_prob, adjacency)


def _gaussian_probs(excess: Array, test_std: float, failure_prob: float) -> Array:
    return np.asarray(np.exp(log_ndtr(excess / test_std + ndtri(failure_prob))))


def _laplace_probs(excess: Array, test_std: float, failure_prob: float) -> Array:
    x = excess * math.sqrt(2) / test_std + math.log(2 * failure_prob)
    tail = 0.5 * np.exp(-np.abs(x))
    return np.where(x < 0, tail, 1 - tail)


@lru_cache(maxsize=64)
def _table_test(table: StabilityTable, num_teachers: int, adjacency: Adjacency) -> StabilityTest:
    levels = np.ceil(_excess_gaps(num_teachers, adjacency) / adjacency.gap_sensitivity).astype(np.int64)
    logits = np.array(table.logits)[np.minimum(levels, len(table.logits) - 1)]
    return _test_of(np.asarray(expit(logits)), table.failure_prob, adjacency)


def _excess_gaps(num_teachers: int, adjacency: Adjacency) -> Array:
    """max(sens, gap) - sens for every gap: `[T + 1]`."""
    return np.asarray(np.maximum(np.arange(num_teachers + 1.0) - adjacency.gap_sensitivity, 0.0))


def _test_of(probs: Array, failure_prob: float, adjacency: Adjacency) -> StabilityTest:
    floor = np.arange(len(probs)) <= adjacency.gap_sensitivity
    probs = np.where(floor, np.minimum(probs, failure_prob), probs)
    return StabilityTest(pass_probs=tuple(probs.tolist()), failure_prob=failure_prob, adjacency=adjacency)
