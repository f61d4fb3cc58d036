"""One pure-DP call: which k was chosen and passed its test, or that none did."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pate.mechanisms.ranking import Ranking
from pate.mechanisms.stable.gap_selection import GapSelection
from pate.mechanisms.stable.stability_test import StabilityTest

Array = NDArray[np.float64]


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
        constant = (selection.candidates == 0) | (selection.candidates == selection.num_labels)
        passed = np.where(constant, 1.0, self.test.pass_probabilities(gaps))
        refused = (chosen * (1 - passed)).sum(axis=1, keepdims=True)
        return np.concatenate([chosen * passed, refused], axis=1)


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
