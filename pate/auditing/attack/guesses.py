"""Guesses about the coins of canaries, and the prices of privacy that a number of correct guesses refutes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from pate.accounting import Accountant
from pate.array_types import FloatArray
from pate.validation import (
    InvalidValue,
    require,
    require_probability,
)

# The deltas at which a price is compared with guesses. More deltas would refute a little more.
DELTAS = np.logspace(-7, -0.3, 20)
# The noise is multiplied by factors up to this number, and down to half of its inverse. Prices beyond take minutes.
_MAX_NOISE_FACTOR = 2.0**4
# The number of halvings in the search for a noise factor.
_NUM_FACTOR_HALVINGS = 5
# The number of halvings in the search for an epsilon, and the largest epsilon.
_NUM_EPSILON_HALVINGS = 18
_MAX_EPSILON = 200.0


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class PriceCurve:
    """The claim that a release is (epsilons[j], deltas[j])-DP for every point j.

    Attributes:
        epsilons: the epsilon of each point, >= 0, `[num_points]`.
        deltas: the delta of each point, in [0, 1), `[num_points]`.
    """

    epsilons: FloatArray
    deltas: FloatArray

    @classmethod
    def from_accountant(cls, accountant: Accountant) -> Self:
        """Returns the finite epsilons of an accountant at up to 20 deltas above twice its failure probability.

        Raises `InvalidValue` if all these epsilons are infinite.
        """
        deltas = DELTAS[2 * accountant.failure_prob < DELTAS]
        epsilons_by_delta = np.array([accountant.get_epsilon(float(delta)) for delta in deltas])
        is_finite = np.isfinite(epsilons_by_delta)
        require(bool(is_finite.any()), "price", "infinite", "a finite one at some delta")
        return cls(epsilons=epsilons_by_delta[is_finite], deltas=deltas[is_finite])

    @cached_property
    def _factors(self) -> FloatArray:
        """The factor e^epsilon of each point, `[num_points]`; each step of a refutation needs it."""
        return np.asarray(np.exp(np.minimum(self.epsilons, _MAX_EPSILON)))

    def min_neighbor_prob(self, event_prob: float) -> float:
        """Returns the smallest probability that an event can have on a neighboring data set if the claim is true.

        Args:
            event_prob: the probability of the event on the data set.
        """
        # For the probability x on the neighbor, (epsilon, delta)-DP bounds that of the event,
        # event_prob <= e^epsilon x + delta, and that of its complement, 1 - x <= e^epsilon (1 - event_prob) + delta.
        bound_by_event = (event_prob - self.deltas) / self._factors
        bound_by_complement = 1 - self.deltas - self._factors * (1 - event_prob)
        return max(float(bound_by_event.max()), float(bound_by_complement.max()), 0.0)


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """The number of coins of an attack, the number of guesses, and the number of correct guesses.

    Attributes:
        num_canaries: the number m of coins.
        num_guesses: the number r of guesses, fixed before any coin is drawn, in 1..m.
        num_correct: the number c of correct guesses, in 0..r.
    """

    num_canaries: int
    num_guesses: int
    num_correct: int

    def refute(self, price_curve: PriceCurve, *, confidence: float = 0.95) -> bool:
        """Returns True if the guesses refute a price.

        The guesses refute a price if a release with this price allows at least so many correct guesses only with a
        probability below 1 - confidence.

        Formal guarantee: a valid price is refuted with a probability of at most 1 - confidence, for any way to guess.

        Args:
            price_curve: the price of the release, with respect to a change of one coin.
            confidence: the confidence of the refutation, in (0, 1).

        Source: Mahloujifar, Melis & Chaudhuri 2024, "Auditing f-differential privacy in one run"; docs/proofs/attack.md
        """
        # p_i is the probability of exactly i right guesses. A_i = sum_{l>=i} l p_l / m is the probability that there
        # are at least i right guesses and that a random coin is among them. B_i = sum_{l>=i} (r - l) p_l / m is the
        # probability that there are at least i right guesses and that a random coin is guessed wrongly. Turning that
        # coin shows B_{i-1} >= g(A_i), with g = min_neighbor_prob. Suppose that c or more guesses are right with the
        # probability 1 - confidence, all of it at c itself. Then each smaller number of right guesses has at least the
        # probability that is added here. If the sum exceeds 1, the tail cannot be so large.
        num_guesses = self.num_guesses
        num_canaries = self.num_canaries
        total_prob = 1 - require_probability("confidence", confidence)
        right_guess_prob = total_prob * self.num_correct / num_canaries
        wrong_guess_prob = total_prob * (num_guesses - self.num_correct) / num_canaries
        for num_right in range(self.num_correct - 1, -1, -1):
            min_wrong_guess_prob = max(
                wrong_guess_prob, price_curve.min_neighbor_prob(right_guess_prob)
            )
            added_prob = (
                (min_wrong_guess_prob - wrong_guess_prob) * num_canaries / (num_guesses - num_right)
            )
            total_prob = total_prob + added_prob
            right_guess_prob = right_guess_prob + added_prob * num_right / num_canaries
            wrong_guess_prob = min_wrong_guess_prob
            if total_prob > 1:
                return True
        return False

    def least_epsilon(self, delta: float, *, confidence: float = 0.95) -> float:
        """Returns the largest epsilon such that the guesses refute (epsilon, delta)-DP, for any mechanism.

        The result is too small by at most 0.001. It is at most 200, and 0 if the guesses refute no epsilon.

        Args:
            delta: the delta of the epsilon.
            confidence: the confidence of the refutation, in (0, 1).
        """

        def is_refuted(epsilon: float) -> bool:
            """Returns True if the guesses refute (epsilon, delta)-DP."""
            price_curve = PriceCurve(epsilons=np.array([epsilon]), deltas=np.array([delta]))
            return self.refute(price_curve, confidence=confidence)

        if not is_refuted(epsilon=0.0):
            return 0.0
        low_epsilon = 0.0
        high_epsilon = _MAX_EPSILON
        for _ in range(_NUM_EPSILON_HALVINGS):
            middle_epsilon = (low_epsilon + high_epsilon) / 2
            if is_refuted(epsilon=middle_epsilon):
                low_epsilon = middle_epsilon
            else:
                high_epsilon = middle_epsilon
        return low_epsilon

    def least_price(
        self,
        accountant_at: Callable[[float], Accountant],
        *,
        target_delta: float,
        confidence: float = 0.95,
    ) -> float:
        """Returns the largest epsilon that the guesses refute, among the prices of a release with more or less noise.

        The noise is multiplied by factors from 1/32 to 16, and the least factor that is refuted is found to within 3%.
        Returns `least_epsilon` if that is larger, or if the guesses refute none of these prices.

        Args:
            accountant_at: returns the accountant of the release after its noise is multiplied by a factor > 0.
            target_delta: the delta of the epsilon.
            confidence: the confidence of the refutation, in (0, 1).
        """

        def is_refuted(noise_factor: float) -> bool:
            """Returns True if the guesses refute the price of the release with its noise multiplied by a factor."""
            try:
                price_curve = PriceCurve.from_accountant(accountant_at(noise_factor))
                return self.refute(price_curve, confidence=confidence)
            except InvalidValue:  # so little noise that no accountant has a price
                return False

        epsilon_of_any_mechanism = self.least_epsilon(target_delta, confidence=confidence)
        # The prices of much noise are refuted, and those of little noise are not. The search encloses the border.
        high_factor = 1.0
        while not is_refuted(noise_factor=high_factor):
            high_factor *= 2
            if high_factor > _MAX_NOISE_FACTOR:
                return epsilon_of_any_mechanism
        low_factor = high_factor / 2
        while low_factor >= 1 / _MAX_NOISE_FACTOR and is_refuted(noise_factor=low_factor):
            high_factor = low_factor
            low_factor = low_factor / 2
        for _ in range(_NUM_FACTOR_HALVINGS):
            middle_factor = float(np.sqrt(low_factor * high_factor))
            if is_refuted(noise_factor=middle_factor):
                high_factor = middle_factor
            else:
                low_factor = middle_factor
        epsilon_of_release = accountant_at(high_factor).get_epsilon(target_delta)
        return max(epsilon_of_any_mechanism, epsilon_of_release)
