"""Guesses about the coins of canaries, and the prices of privacy that a number of correct guesses refutes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from pate.accounting import Accountant
from pate.array_types import FloatArray
from pate.validation import (
    InvalidValue,
    require,
    require_probability,
)

DELTAS = np.logspace(-7, -0.3, 20)  # where a price is read; more of them refute a little more
# scales of the noise that are looked at, up and down: prices of much more take minutes
_WIDEST = 2.0**4
# of a scale, and of an epsilon
_HALVINGS = 5
_FINER = 18
_LARGEST = 200.0


@dataclass(frozen=True, eq=False)
class PriceCurve:
    """The claim that a release is (epsilons[j], deltas[j])-DP for every j of J points."""

    epsilons: FloatArray  # [J], >= 0
    deltas: FloatArray  # [J], in [0, 1)

    @classmethod
    def from_accountant(cls, accountant: Accountant) -> Self:
        """Returns the finite epsilons of an accountant at up to 20 deltas above twice its failure probability.

        Raises `InvalidValue` if all these epsilons are infinite.
        """
        deltas = DELTAS[2 * accountant.failure_prob < DELTAS]
        epsilons = np.array([accountant.get_epsilon(float(delta)) for delta in deltas])
        is_finite = np.isfinite(epsilons)
        require(bool(is_finite.any()), "price", "infinite", "a finite one at some delta")
        return cls(epsilons=epsilons[is_finite], deltas=deltas[is_finite])

    def least_wrong(self, event_prob: float) -> float:
        """Returns the least probability that an event can have on a neighboring data set, under the claimed price.

        Args:
            event_prob: the probability of the event on the given data set.
        """
        # (epsilon, delta)-DP bounds the event, right <= e^epsilon x + delta, and its complement,
        # 1 - x <= e^epsilon (1 - right) + delta.
        grown = np.exp(np.minimum(self.epsilons, _LARGEST))
        of_event = (event_prob - self.deltas) / grown
        of_rest = 1 - self.deltas - grown * (1 - event_prob)
        return max(float(of_event.max()), float(of_rest.max()), 0.0)


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """The number of coins of an attack, the number of guesses, and the number of correct guesses."""

    num_canaries: int  # m, the number of coins
    num_guesses: int  # r, the number of guesses, fixed before any coin; 1 <= r <= m
    num_correct: int  # c, in 0..r

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
        # p_i is the probability of exactly i right guesses, A_i = sum_{l>=i} l p_l / m that a random coin is among at
        # least i right ones, B_i = sum_{l>=i} (r - l) p_l / m that it is guessed wrongly beside at least i. Turning
        # that coin shows B_{i-1} >= g(A_i), g = least_wrong. A tail of 1 - confidence at c, all of it at c itself,
        # forces the least further mass level by level; where that passes 1, the tail cannot be so large.
        num_guesses = self.num_guesses
        num_canaries = self.num_canaries
        correct = self.num_correct
        mass = 1 - require_probability("confidence", confidence)
        right = mass * correct / num_canaries
        wrong = mass * (num_guesses - correct) / num_canaries
        for level in range(correct - 1, -1, -1):
            needed = max(wrong, price_curve.least_wrong(right))
            added = (needed - wrong) * num_canaries / (num_guesses - level)
            mass = mass + added
            right = right + added * level / num_canaries
            wrong = needed
            if mass > 1:
                return True
        return False

    def least_epsilon(self, delta: float, *, confidence: float = 0.95) -> float:
        """Returns the largest epsilon such that the guesses refute (epsilon, delta)-DP, for any mechanism.

        The result is at most 200, and 0 if the guesses refute no epsilon.

        Args:
            delta: the delta of the epsilon.
            confidence: the confidence of the refutation, in (0, 1).
        """

        def refuted(epsilon: float) -> bool:
            price_curve = PriceCurve(epsilons=np.array([epsilon]), deltas=np.array([delta]))
            return self.refute(price_curve, confidence=confidence)

        if not refuted(0.0):
            return 0.0
        low_epsilon = 0.0
        high_epsilon = _LARGEST
        for _ in range(_FINER):
            middle_epsilon = (low_epsilon + high_epsilon) / 2
            if refuted(middle_epsilon):
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

        The noise is multiplied by factors from 1/16 to 16. Returns `least_epsilon` if that is larger, or if the guesses
        refute none of these prices.

        Args:
            accountant_at: returns the accountant of the release after its noise is multiplied by a factor > 0.
            target_delta: the delta of the epsilon.
            confidence: the confidence of the refutation, in (0, 1).
        """

        def refuted(noise_factor: float) -> bool:
            try:
                price_curve = PriceCurve.from_accountant(accountant_at(noise_factor))
                return self.refute(price_curve, confidence=confidence)
            except InvalidValue:  # so little noise that no accountant has a price
                return False

        least = self.least_epsilon(target_delta, confidence=confidence)
        high_factor = 1.0
        while not refuted(high_factor):  # little noise is not refuted, much noise is
            high_factor *= 2
            if high_factor > _WIDEST:
                return least
        low_factor = high_factor / 2
        while low_factor >= 1 / _WIDEST and refuted(low_factor):
            low_factor, high_factor = low_factor / 2, low_factor
        for _ in range(_HALVINGS):
            middle_factor = float(np.sqrt(low_factor * high_factor))
            if refuted(middle_factor):
                high_factor = middle_factor
            else:
                low_factor = middle_factor
        return max(least, accountant_at(high_factor).get_epsilon(target_delta))
