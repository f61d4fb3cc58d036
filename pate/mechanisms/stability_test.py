"""The stability test (propose-test-release): a noisy test of a gap decides whether a top-k set is released."""

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from pate import validation
from pate.accounting import Adjacency, ApproximateEvent, Event, OneBitEvent
from pate.accounting.special import Array, expit, log_ndtr, ndtri
from pate.mechanisms.parameters import NATURAL, Parameters
from pate.mechanisms.stability_table import StabilityTable
from pate.validation import (
    normalize_field,
    require,
    require_count,
    require_kind,
    require_positive,
    require_probability,
)

GRID = 2**53
LARGEST_PROB = 1 - 2.0**-40  # beyond it the grid's own steps would be visible at high orders
_MOST_STDS = 128  # beyond which no noise leaves more than 2**-40
# Gaps above the first number have probabilities of their own only while these grow; above the second, never.
_FEW_GAPS = 1000
_MOST_GAPS = 250_000


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
        failure_prob: the largest pass probability for gaps up to sens, in (0, 1).
        adjacency: how neighboring data sets differ.
        num_teachers: the number of teachers T, which is the largest gap. With 0 the largest gap is that of the last
            probability.

    Source: Zhu & Wang 2022, Algorithms 4 and 5, with the floor at sens and an exact quantile;
    docs/proofs/stability_test.md.

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
        require(
            1 / GRID <= self.failure_prob < 1,
            "failure_prob",
            self.failure_prob,
            "a number in [2**-53, 1)",
        )
        probs = validation.require_array("pass_probs", self.pass_probs).astype(np.float64)
        require(
            probs.ndim == 1 and probs.size > 0,
            "pass_probs",
            probs.shape,
            "one probability for each gap",
        )
        validation.require_each(
            "pass_probs", probs, (probs >= 0) & (probs <= 1), "numbers in [0, 1]"
        )
        validation.require_rising("pass_probs", probs.tolist())
        floor = probs[: self.adjacency.gap_sensitivity + 1].max()
        limit = self.failure_prob
        require(
            floor <= limit,
            "pass_probs",
            floor,
            f"at most failure_prob={limit} up to the sensitivity",
        )
        rounded = np.floor(np.minimum(probs, LARGEST_PROB) * GRID) / GRID
        normalize_field(self, "pass_probs", tuple(rounded.tolist()))
        normalize_field(self, "num_teachers", max(self.num_teachers, len(rounded) - 1))

    @staticmethod
    def gaussian(
        *,
        test_std: float,
        failure_prob: float,
        num_teachers: int,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
    ) -> "StabilityTest":
        """Returns the test with Gaussian noise, which passes if max(sens, gap) + N(0, test_std**2) - c > sens.

        Here c = test_std * Phi^-1(1 - failure_prob).

        Args:
            test_std: the standard deviation of the noise, in votes, > 0.
            failure_prob: the pass probability at gaps up to sens.
            num_teachers: the number of teachers T, which is the largest gap.
            adjacency: how neighboring data sets differ.
        """
        return _test_of(
            pass_rule="gaussian",
            test_std=require_positive("test_std", test_std),
            failure_prob=failure_prob,
            num_teachers=num_teachers,
            adjacency=adjacency,
        )

    @staticmethod
    def laplace(
        *,
        test_std: float,
        failure_prob: float,
        num_teachers: int,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
    ) -> "StabilityTest":
        """Returns the test with Laplace noise, which passes if max(sens, gap) + Laplace(b) - c > sens.

        Here b = test_std / sqrt 2 and c = b log(1 / (2 failure_prob)).

        Args:
            test_std: the standard deviation of the noise, in votes, > 0.
            failure_prob: the pass probability at gaps up to sens.
            num_teachers: the number of teachers T, which is the largest gap.
            adjacency: how neighboring data sets differ.
        """
        return _test_of(
            pass_rule="laplace",
            test_std=require_positive("test_std", test_std),
            failure_prob=failure_prob,
            num_teachers=num_teachers,
            adjacency=adjacency,
        )

    @staticmethod
    def from_table(
        table: StabilityTable, *, num_teachers: int, adjacency: Adjacency = Adjacency.REPLACE_ONE
    ) -> "StabilityTest":
        """Returns the test that passes with the probability of a table at level max(0, ceil((gap - sens) / sens)).

        The gaps of neighboring data sets are at most one level apart.
        """
        require_kind("table", table, StabilityTable, "a StabilityTable")
        return _test_of(
            table,
            test_std=0.0,
            failure_prob=table.failure_prob,
            num_teachers=num_teachers,
            adjacency=adjacency,
        )

    @cached_property
    def event(self) -> Event:
        """The price of one test, the same for both outcomes."""
        with np.errstate(divide="ignore"):
            logits = np.log(self._probs) - np.log1p(-self._probs)
        return ApproximateEvent(
            OneBitEvent(tuple(logits.tolist()), reach=self.adjacency.gap_sensitivity),
            failure_prob=self.failure_prob,
        )

    @cached_property
    def _probs(self) -> Array:
        return np.array(self.pass_probs)

    def __call__(self, gaps: NDArray[np.integer], *, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Draws for each gap whether the test passes and returns bits, for gaps `[]` or `[Q]` in 0..num_teachers."""
        validation.require_generator(rng)
        gaps = np.asarray(gaps)
        validation.require_histogram("gaps", np.atleast_1d(gaps), num_teachers=self.num_teachers)
        return np.asarray(rng.random(gaps.shape) < self.pass_probabilities(gaps))

    def pass_probabilities(self, gaps: NDArray[np.integer]) -> Array:
        """Returns the exact probability of passing for each gap, in the shape of `gaps`."""
        return np.asarray(self._probs[np.minimum(gaps, len(self._probs) - 1)])

    def gap_to_pass(self, probability: float) -> int | None:
        """Returns the smallest gap that passes with at least a given probability.

        Returns None if no gap up to the number of teachers passes with that probability.
        """
        enough = np.flatnonzero(self._probs >= probability)
        return int(enough[0]) if enough.size else None


def _test_of(
    pass_rule: str | StabilityTable,
    test_std: float,
    failure_prob: float,
    num_teachers: int,
    adjacency: Adjacency,
) -> StabilityTest:
    """Checks the arguments and returns the stability test of one kind of noise or of a table.

    Args:
        pass_rule: "gaussian" or "laplace", or the table of pass probabilities.
        test_std: the standard deviation of the noise, in votes; of no effect for a table.
        failure_prob: the pass probability at gaps up to the sensitivity.
        num_teachers: the number of teachers.
        adjacency: how neighboring data sets differ.
    """
    # the cache takes 800 and 800.0 for the same
    require_probability("failure_prob", failure_prob)
    require_count("num_teachers", num_teachers)
    return _cached_test(
        pass_rule=pass_rule,
        test_std=test_std,
        failure_prob=failure_prob,
        num_teachers=num_teachers,
        adjacency=Adjacency.parse(adjacency),
    )


@lru_cache(maxsize=64)
def _cached_test(
    pass_rule: str | StabilityTable,
    test_std: float,
    failure_prob: float,
    num_teachers: int,
    adjacency: Adjacency,
) -> StabilityTest:
    """Returns the stability test for the arguments of `_test_of`, which are valid.

    The test has a probability for each gap up to T. Above 1,000 it has them only up to about the first gap with the
    largest possible probability, and never above 250,000; larger gaps pass with the last probability.
    """
    sens = adjacency.gap_sensitivity

    def passing(excess: Array) -> Array:
        """Returns the probability of passing for gaps that exceed sens by `excess` votes."""
        if isinstance(pass_rule, StabilityTable):
            levels = np.minimum(np.ceil(excess / sens).astype(np.int64), len(pass_rule.logits) - 1)
            return np.asarray(expit(np.array(pass_rule.logits)[levels]))
        if pass_rule == "gaussian":
            return np.asarray(np.exp(log_ndtr(excess / test_std + ndtri(failure_prob))))
        x = excess * math.sqrt(2) / test_std + math.log(2 * failure_prob)
        tail = 0.5 * np.exp(-np.abs(x))
        return np.where(x < 0, tail, 1 - tail)

    if isinstance(pass_rule, StabilityTable):
        certain = float(sens * (len(pass_rule.logits) - 1))
    else:
        certain = test_std * float(
            np.searchsorted(passing(np.arange(_MOST_STDS + 1.0) * test_std), LARGEST_PROB)
        )
    last = min(num_teachers, _MOST_GAPS, max(_FEW_GAPS, math.ceil(min(certain, _MOST_GAPS)) + sens))
    gaps = np.arange(last + 1.0)
    probs = passing(np.maximum(gaps - sens, 0.0))
    pass_probs = tuple(np.where(gaps <= sens, np.minimum(probs, failure_prob), probs).tolist())
    return StabilityTest(
        pass_probs=pass_probs,
        failure_prob=failure_prob,
        adjacency=adjacency,
        num_teachers=num_teachers,
    )
