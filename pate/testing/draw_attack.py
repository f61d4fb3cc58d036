"""An attack on any mechanism that can be drawn often: it guesses by a score which of two neighbors a draw came from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from pate.array_types import FloatArray
from pate.testing.proportions import highest_share, lowest_share
from pate.testing.verdict import PriceRefuted
from pate.validation import require, require_count, require_entries, require_probability

Data = TypeVar("Data")
# The largest number of thresholds of the score among which the attack chooses.
_NUM_THRESHOLDS = 200


@dataclass(frozen=True)
class DrawAttack:
    """The result of an attack that draws from a mechanism on two neighboring data sets.

    Attributes:
        lower_bound: the epsilon that the test shows: for any smaller epsilon, (epsilon, delta)-DP fails on these
            neighbors, at this confidence. It is 0 if the test refutes none.
        delta: the delta of the bound.
        confidence: the confidence of the bound.
        test: the test that the attack chose, in words.
        num_draws: the number of draws on each of the two neighbors.
    """

    lower_bound: float
    delta: float
    confidence: float
    test: str
    num_draws: int

    def require(self, epsilon: float) -> None:
        """Raises `PriceRefuted` if a claimed epsilon is below the lower bound."""
        if self.lower_bound > epsilon:
            raise PriceRefuted(
                f"epsilon {epsilon:g} at delta {self.delta:g} is refuted at confidence {self.confidence:g}: "
                f"{self.test} shows an epsilon of at least {self.lower_bound:.4g}"
            )


def attack_draws(
    mechanism: Callable[[Data, np.random.Generator], Any],
    data: Data,
    neighbor: Data,
    *,
    delta: float,
    rng: np.random.Generator,
    score: Callable[[Any], float] = float,
    num_draws: int = 2_000,
    confidence: float = 0.99,
) -> DrawAttack:
    """Attacks a mechanism on two neighbors, and returns the epsilon that the attack refutes.

    Half of the draws choose a test, "the score is at least t" or "the score is below t", and a direction. The other
    half tests it.

    Formal guarantee: if the mechanism is (epsilon, delta)-DP, the bound exceeds epsilon with a probability of at most
    1 - confidence. A small bound is no evidence that the mechanism is private.

    Args:
        mechanism: draws one outcome for data, with a generator.
        data: the data D.
        neighbor: data that differ from D in one unit of privacy.
        delta: the delta of the bound, in [0, 1).
        rng: the generator of all draws.
        score: the number by which outcomes are told apart, such as the loss of a member under a trained model.
        num_draws: the number of draws on each of the two neighbors, at least 4.
        confidence: the confidence of the bound, in (0, 1).

    Raises:
        InvalidValue: a score is not a finite number, or an argument is out of range.

    >>> rng = np.random.default_rng(0)
    >>> attack = attack_draws(lambda data, rng: data + rng.laplace(), 0.0, 1.0, delta=0.0, rng=rng)
    >>> 0.5 < attack.lower_bound < 1  # epsilon is 1
    True
    """
    require(0 <= delta < 1, "delta", delta, "a number in [0, 1)")
    require_probability("confidence", confidence)
    require_count("num_draws", num_draws, minimum=4)
    data_scores = [score(mechanism(data, rng)) for _ in range(num_draws)]
    neighbor_scores = [score(mechanism(neighbor, rng)) for _ in range(num_draws)]
    scores = np.array([data_scores, neighbor_scores], dtype=np.float64)
    require_entries("score", holds=np.isfinite(scores), rule="a finite number")
    num_draws_in_half = num_draws // 2
    scores_in_choosing_half = scores[:, :num_draws_in_half]
    scores_in_testing_half = scores[:, num_draws_in_half : 2 * num_draws_in_half]
    error_prob_per_bound = (1 - confidence) / 2
    quantile_levels = np.linspace(0, 1, _NUM_THRESHOLDS)
    thresholds = np.unique(np.quantile(scores_in_choosing_half, quantile_levels, method="nearest"))
    bounds = _bounds(
        scores_in_choosing_half,
        thresholds=thresholds,
        delta=delta,
        error_prob_per_bound=error_prob_per_bound,
    )
    best_test_index = np.unravel_index(int(np.argmax(bounds)), bounds.shape)
    side, is_below, threshold_index = map(int, best_test_index)
    threshold = thresholds[threshold_index]
    tested_bounds = _bounds(
        scores_in_testing_half,
        thresholds=np.array([threshold]),
        delta=delta,
        error_prob_per_bound=error_prob_per_bound,
    )
    direction = "below" if is_below else "of at least"
    side_name = ("the data", "the neighbor")[side]
    test_in_words = f"a score {direction} {threshold:.6g}, likelier on {side_name},"
    return DrawAttack(
        lower_bound=max(float(tested_bounds[side, is_below, 0]), 0.0),
        delta=delta,
        confidence=confidence,
        test=test_in_words,
        num_draws=num_draws,
    )


def _bounds(
    scores: FloatArray, *, thresholds: FloatArray, delta: float, error_prob_per_bound: float
) -> FloatArray:
    """Returns a lower bound on epsilon for each test, `[2, 2, T]`, which may be negative or minus infinity.

    The first axis has the neighbor on which the test should pass more often: the data or the neighbor. The second axis
    has the test: a score of at least the threshold, or a score below it. The third axis has the threshold.

    Args:
        scores: the scores of n draws on the data and of n draws on the neighbor, `[2, n]`.
        thresholds: T thresholds, `[T]`.
        delta: the delta of epsilon.
        error_prob_per_bound: the error probability of each of the two confidence bounds of a test.
    """
    num_draws = scores.shape[1]
    # The number of draws below each threshold, `[2, T]`.
    num_below = np.stack(
        [np.searchsorted(np.sort(side_scores), thresholds) for side_scores in scores]
    )
    num_hits_of_tests = np.stack([num_draws - num_below, num_below], axis=1)  # [side, direction, T]
    lowest_hit_prob = lowest_share(
        num_hits=num_hits_of_tests, num_trials=num_draws, error_prob=error_prob_per_bound
    )
    num_hits_on_other_side = num_hits_of_tests[::-1]
    highest_hit_prob = highest_share(
        num_hits=num_hits_on_other_side,
        num_trials=num_draws,
        error_prob=error_prob_per_bound,
    )
    excess_prob = np.maximum(lowest_hit_prob - delta, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(excess_prob) - np.log(highest_hit_prob))
