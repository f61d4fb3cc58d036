"""A lower bound on the mu of a Gaussian release, by the known law of the sums that canaries are planted into.

Round r of a release in rounds is known + sum_j c_j M_jr + noise, where c_j is 1 or -1 and M_jr is the matrix that the
coin of canary j moves. In units of the claimed noise, with the Gram matrix G_r and the vector b_r of inner products of
the M_jr with the round less what is known,

    b_r = kappa G_r c + s L_r z_r,     G_r = L_r L_r',   z_r ~ N(0, I).

A release as claimed has kappa = s = 1. The auditor knows the coins, so kappa and s have exact confidence bounds, and
the release is at least kappa / s times as telling as its price says of the canaries. Source: Agrawal et al. 2026 for
one sum; docs/proofs/attack.md, Claim 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from pate.array_types import FloatArray
from pate.validation import require_probability

_RANK = 1e-9  # eigenvalues below this fraction of the largest one are 0


@dataclass(frozen=True, eq=False)
class CanarySum:
    """What one sum with noise tells of the coins of m canaries, in units of the variance of the claimed noise."""

    gram: FloatArray  # [m, m], the inner products of the canaries' matrices
    matched: (
        FloatArray  # [m], the inner products of these matrices with the sum, less all that is known
    )


@dataclass(frozen=True)
class AlignedSum:
    """One sum with noise, projected onto what the coins of all canaries together move."""

    shift_length: float  # the length of what the coins move, in units of the claimed noise
    along_shift: (
        float  # the projection of the sum onto it, `kappa * shift_length` and noise of std s
    )
    squared_rest: float  # the squared length of the rest, s^2 times a chi-square of `degrees_of_freedom` degrees
    degrees_of_freedom: int

    @classmethod
    def from_coins(cls, canary_sum: CanarySum, coins: FloatArray) -> AlignedSum:
        """Returns the projection for known coins, 1 or -1 for each canary, `[m]`."""
        squared_length = float(coins @ canary_sum.gram @ coins)
        shift_length = math.sqrt(max(squared_length, 0.0))
        if shift_length == 0:
            return cls(shift_length=0.0, along_shift=0.0, squared_rest=0.0, degrees_of_freedom=0)
        along_shift = float(coins @ canary_sum.matched) / shift_length
        squared, rank = _whitened_square(canary_sum)
        return cls(
            shift_length=shift_length,
            along_shift=along_shift,
            squared_rest=max(squared - along_shift**2, 0.0),
            degrees_of_freedom=rank - 1,
        )


def linear_estimate(canary_sums: Sequence[CanarySum]) -> FloatArray:
    """Returns the best linear estimate of the coins from all sums of a run, `[m]`."""
    gram = sum(each.gram for each in canary_sums) + np.eye(len(canary_sums[0].matched))
    matched_sum = sum(each.matched for each in canary_sums)
    return np.asarray(scipy.linalg.solve(gram, matched_sum, assume_a="pos"))


class AlignedSums:
    """The projections of all sums of all runs of an attack, and the largest mu of a canary in a run."""

    def __init__(self) -> None:
        self._sums: list[AlignedSum] = []
        self._largest_mu = 0.0  # of a canary if the release is as claimed

    def add_run(self, canary_sums: Sequence[CanarySum], coins: FloatArray) -> None:
        """Adds the sums of one run, with the coins of its canaries, `[m]`."""
        self._sums += [AlignedSum.from_coins(each, coins) for each in canary_sums]
        squared_lengths = sum(each.gram.diagonal() for each in canary_sums)
        # between its two variants a canary moves twice its matrix
        self._largest_mu = max(self._largest_mu, 2 * math.sqrt(float(np.max(squared_lengths))))

    def least_mu(self, *, confidence: float) -> float:
        """Returns a lower bound on mu, the l2 sensitivity / noise std of all rounds of a release together.

        The noise is Gaussian with one standard deviation in every coordinate, and the canaries move the sums by one
        factor; neither number needs to be known.

        Formal guarantee: the bound exceeds the mu of a valid price with a probability of at most 1 - confidence.

        Args:
            confidence: the confidence of the bound, in (0, 1).

        Source: docs/proofs/attack.md, Claim 2.
        """
        error_prob = (1 - require_probability("confidence", confidence)) / 2
        sums = [each for each in self._sums if each.shift_length > 0]
        degrees_of_freedom = sum(each.degrees_of_freedom for each in sums)
        if degrees_of_freedom < 1:
            return 0.0
        squared_std = sum(each.squared_rest for each in sums) / degrees_of_freedom
        along_shift = sum(each.along_shift for each in sums)
        # the noise of all projections together has the variance s^2 times their number
        quantile = float(scipy.special.stdtrit(degrees_of_freedom, 1 - error_prob))
        least_signal = along_shift - quantile * math.sqrt(len(sums) * squared_std)
        least_factor = max(least_signal, 0.0) / sum(each.shift_length for each in sums)
        largest_std = math.sqrt(
            squared_std
            * degrees_of_freedom
            / float(scipy.special.chdtri(degrees_of_freedom, 1 - error_prob))
        )
        if least_factor == 0:
            return 0.0
        if largest_std == 0:
            return math.inf
        return least_factor * self._largest_mu / largest_std


def _whitened_square(canary_sum: CanarySum) -> tuple[float, int]:
    """Returns b' G^-1 b, for G the Gram matrix and b the matched vector, and the rank of G.

    Directions in which G is 0 up to rounding are left out.
    """
    eigenvalues, directions = scipy.linalg.eigh(canary_sum.gram, check_finite=False)
    is_moved = eigenvalues > _RANK * eigenvalues[-1]
    projected = directions[:, is_moved].T @ canary_sum.matched
    return float((projected**2 / eigenvalues[is_moved]).sum()), int(is_moved.sum())
