"""A lower bound on the mu of a Gaussian release, from noisy sums with canaries whose distribution is known.

A canary is an artificial record. A secret fair coin decides which of its two variants takes part (`attack.py`). Each
round r of a release publishes a noisy sum

    S_r = K_r + sum over canaries j of c_j M_jr + noise,

where c_j is 1 or -1, the coin of canary j, and K_r and the matrices M_jr are known to the auditor. All inner products
are divided by the variance of the noise that the release claims. Let G_r be the inner products of the M_jr with each
other, L_r a square root of G_r, and b_r the inner products of the M_jr with S_r - K_r. Then

    b_r = kappa G_r c + s L_r z_r,     G_r = L_r L_r^T,   z_r ~ N(0, I),

with kappa = s = 1 if the release is as claimed. The auditor also knows the coins. So kappa and s have exact confidence
bounds, and the mu of the release is at least kappa / s times the claimed mu.

Source: Agrawal et al. 2026 for one sum; docs/proofs/attack.md, Claim 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from pate.array_types import FloatArray
from pate.validation import require_probability

# Eigenvalues below this fraction of the largest one count as 0.
_RANK_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class CoinEvidence:
    """The inner products by which one noisy sum tells about the coins of m canaries.

    The coin of a canary, 1 or -1, adds a known matrix to the sum or subtracts it. All inner products are divided by the
    variance of the noise that the release claims to have. For a sum without noise, which only a release that is broken
    on purpose has, a small variance stands in its place.

    Attributes:
        canary_gram: the inner products of the canaries' matrices with each other, `[m, m]`.
        canary_products_with_sum: the inner products of these matrices with the rest of the sum, `[m]`: what is left
            when all known summands that do not depend on the coins are subtracted.
    """

    canary_gram: FloatArray
    canary_products_with_sum: FloatArray


@dataclass(frozen=True)
class AlignedSum:
    """One sum with noise, projected onto the *shift*, which is the sum of all canaries' matrices times their coins.

    Lengths are in units of the standard deviation of the noise that the release claims. Neither of two numbers is
    known: s, the true standard deviation in this unit, and kappa, the factor by which canaries truly move the sum. Both
    are 1 if the release is as claimed.

    Attributes:
        coin_shift_length: the length of the shift.
        along_coin_shift: the projection of the sum onto the shift: `kappa * coin_shift_length` plus noise of standard
            deviation s.
        squared_rest: the squared length of the rest of the sum, within the span of the canaries' matrices: s^2 times a
            chi-square variable.
        degrees_of_freedom: the degrees of freedom of the chi-square variable.
    """

    coin_shift_length: float
    along_coin_shift: float
    squared_rest: float
    degrees_of_freedom: int

    @classmethod
    def from_coins(cls, coin_evidence: CoinEvidence, coin_signs: FloatArray) -> AlignedSum:
        """Returns the projection of a sum, given the coin of each canary: `[m]`, 1 or -1.

        If the length of the shift is 0, all fields of the result are 0.
        """
        squared_length = float(coin_signs @ coin_evidence.canary_gram @ coin_signs)
        coin_shift_length = math.sqrt(max(squared_length, 0.0))
        if coin_shift_length == 0:
            return cls(
                coin_shift_length=0.0, along_coin_shift=0.0, squared_rest=0.0, degrees_of_freedom=0
            )
        along_coin_shift = (
            float(coin_signs @ coin_evidence.canary_products_with_sum) / coin_shift_length
        )
        squared_whitened_length, rank = _whitened_square(coin_evidence)
        return cls(
            coin_shift_length=coin_shift_length,
            along_coin_shift=along_coin_shift,
            squared_rest=max(squared_whitened_length - along_coin_shift**2, 0.0),
            degrees_of_freedom=rank - 1,
        )


def linear_estimate(evidence_of_sums: Sequence[CoinEvidence]) -> FloatArray:
    """Returns the linear estimate of the coins, `[m]`, with the least mean squared error, from all sums of one draw."""
    num_canaries = len(evidence_of_sums[0].canary_products_with_sum)
    canary_gram = sum(coin_evidence.canary_gram for coin_evidence in evidence_of_sums) + np.eye(
        num_canaries
    )
    summed_canary_products = sum(
        coin_evidence.canary_products_with_sum for coin_evidence in evidence_of_sums
    )
    return np.asarray(scipy.linalg.solve(canary_gram, summed_canary_products, assume_a="pos"))


class AlignedSums:
    """The projections (`AlignedSum`) of all sums of all runs, the repetitions of an attack with new coins.

    The largest mu of a canary in a run is kept beside them: twice the length of the canary's matrices over all sums.
    """

    def __init__(self) -> None:
        """Makes an empty collection, to which `add_run` adds."""
        self._sums: list[AlignedSum] = []
        # The largest mu of a canary, if the release is as claimed.
        self._largest_mu = 0.0

    def add_run(self, evidence_of_sums: Sequence[CoinEvidence], coin_signs: FloatArray) -> None:
        """Adds the projections of the sums of one run, given the coins of its canaries, `[m]`, 1 or -1."""
        self._sums += [
            AlignedSum.from_coins(coin_evidence, coin_signs) for coin_evidence in evidence_of_sums
        ]
        squared_canary_lengths = sum(
            coin_evidence.canary_gram.diagonal() for coin_evidence in evidence_of_sums
        )
        # From one variant of a canary to the other, the sum moves by twice the matrix of the canary.
        largest_canary_mu = 2 * math.sqrt(float(np.max(squared_canary_lengths)))
        self._largest_mu = max(self._largest_mu, largest_canary_mu)

    def least_mu(self, *, confidence: float) -> float:
        """Returns a lower bound on mu, the l2 sensitivity / noise std of all rounds of a release together.

        The noise has to be Gaussian, with one standard deviation in every coordinate. The canaries have to move all
        sums by their matrices times one factor. Neither the standard deviation nor the factor needs to be known. The
        bound is 0 without sums.

        Formal guarantee: the bound exceeds the mu of a valid price with a probability of at most 1 - confidence.

        Args:
            confidence: the confidence of the bound, in (0, 1).

        Source: docs/proofs/attack.md, Claim 2.
        """
        error_prob = (1 - require_probability("confidence", confidence)) / 2
        sums = [aligned_sum for aligned_sum in self._sums if aligned_sum.coin_shift_length > 0]
        total_degrees_of_freedom = sum(aligned_sum.degrees_of_freedom for aligned_sum in sums)
        if total_degrees_of_freedom < 1:
            return 0.0
        total_rest = sum(aligned_sum.squared_rest for aligned_sum in sums)
        total_along_shift = sum(aligned_sum.along_coin_shift for aligned_sum in sums)
        total_shift_length = sum(aligned_sum.coin_shift_length for aligned_sum in sums)
        squared_std = total_rest / total_degrees_of_freedom
        # A lower bound on kappa, by Student's t. The noise of all projections together has the variance s^2 times
        # their number.
        t_quantile = float(scipy.special.stdtrit(total_degrees_of_freedom, 1 - error_prob))
        least_along_shift = total_along_shift - t_quantile * math.sqrt(len(sums) * squared_std)
        min_kappa = max(least_along_shift, 0.0) / total_shift_length
        # An upper bound on s, by the chi-square distribution.
        chi_square_quantile = float(scipy.special.chdtri(total_degrees_of_freedom, 1 - error_prob))
        max_std = math.sqrt(squared_std * total_degrees_of_freedom / chi_square_quantile)
        if min_kappa == 0:
            return 0.0
        if max_std == 0:
            return math.inf
        return min_kappa * self._largest_mu / max_std


def _whitened_square(coin_evidence: CoinEvidence) -> tuple[float, int]:
    """Returns b^T G^-1 b and the rank of G, for G = `canary_gram` and b = `canary_products_with_sum`.

    Directions in which G is 0 up to rounding are left out of both.
    """
    eigenvalues, directions = scipy.linalg.eigh(coin_evidence.canary_gram, check_finite=False)
    is_moved = eigenvalues > _RANK_TOLERANCE * eigenvalues[-1]
    projected = directions[:, is_moved].T @ coin_evidence.canary_products_with_sum
    return float((projected**2 / eigenvalues[is_moved]).sum()), int(is_moved.sum())
