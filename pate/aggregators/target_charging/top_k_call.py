"""One pure-DP call: which k was chosen and passed its test, or that none did."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pate.mechanisms.gap_selection import GapSelection
from pate.mechanisms.noise.categorical import Interval, Weights, softmax_weights
from pate.mechanisms.ranking import Ranking
from pate.mechanisms.stability_test import StabilityTest

Array = NDArray[np.float64]

_GRID = 2**53


@dataclass(frozen=True)
class TopKCall:
    """Gap selection by the exponential mechanism, then a stability test at the chosen k; a refusal hides k.

    Formal guarantees:
        * The outcome (k, or a refusal) depends on the gaps alone and is `epsilon`-DP, with no failure.
        * The set of the k best labels is that of the neighbor except with the test's failure probability.

    Attributes:
        selection: with Gumbel noise.
        test: its log odds rise by a bounded amount from gap to gap, as with Laplace noise.
    """

    selection: GapSelection
    test: StabilityTest

    @property
    def epsilon(self) -> float:
        """Pure DP of selection and test together."""
        chosen = self.selection.adjacency.gap_range / self.selection.noise_scale
        return (chosen if len(self.selection.candidates) > 1 else 0.0) + _test_epsilon(self.test)

    def distribution(self, ranking: Ranking) -> Array:
        """The exact distribution: `[Q, n + 1]`, each candidate k released, and a refusal last."""
        selection, num_teachers = self.selection, self.test.num_teachers
        gaps = ranking.gaps(padded=selection.padded, num_teachers=num_teachers)
        utilities = gaps / selection.noise_scale
        weights = np.exp(utilities - utilities.max(axis=1, keepdims=True))
        chosen = weights / weights.sum(axis=1, keepdims=True)
        passed = self._passed(gaps)
        refused = (chosen * (1 - passed)).sum(axis=1, keepdims=True)
        return np.concatenate([chosen * passed, refused], axis=1)

    def weights(self, ranking: Ranking, row: int) -> Weights:
        """The same for one histogram, exactly; a test passes with a multiple of 2**-53."""
        gaps = ranking.gaps(padded=self.selection.padded, num_teachers=self.test.num_teachers)[row]
        chosen = softmax_weights((gaps.max() - gaps).astype(np.float64), self.selection.noise_scale)
        passed = [int(prob * _GRID) for prob in self._passed(gaps).tolist()]

        def weights(digits: int) -> list[Interval]:
            intervals = chosen(digits)
            kept = [(low * n, high * n) for (low, high), n in zip(intervals, passed, strict=True)]
            lost = [(low * (_GRID - n), high * (_GRID - n)) for (low, high), n in zip(intervals, passed, strict=True)]
            return [*kept, (sum(low for low, _ in lost), sum(high for _, high in lost))]

        return weights

    def _passed(self, gaps: NDArray[np.int64]) -> Array:
        """The probability that each candidate's set is released; 1 where it is constant."""
        constant = (self.selection.candidates == 0) | (self.selection.candidates == self.selection.num_labels)
        return np.where(constant, 1.0, self.test.pass_probabilities(gaps))


def bit_epsilon(probabilities: Array, reach: int) -> float:
    """Pure DP of a bit with these probabilities at consecutive statistics, which neighbors move by `reach` at most."""
    largest = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        for logs in (np.log(probabilities), np.log1p(-probabilities)):
            for step in range(1, min(reach, len(logs) - 1) + 1):
                moves = np.abs(logs[step:] - logs[:-step])
                largest = max(largest, float(np.where(np.isnan(moves), 0.0, moves).max()))  # neither ever: no move
    return largest


@lru_cache(maxsize=64)
def _test_epsilon(test: StabilityTest) -> float:
    """Of passing or refusing, from the numbers that are drawn from."""
    return bit_epsilon(np.array(test.pass_probs), test.adjacency.gap_sensitivity)
