"""What every filter offers: whether one more event fits under a cap, whoever chose it and after seeing what."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

from pate.accounting.events import Event, leaves
from pate.accounting.failure_probability import failure_probability
from pate.accounting.pure_dp import pure_epsilon
from pate.validation import InvalidValue, require, require_non_negative, require_positive, require_probability

_FEW_FAILURES, _MANY_FAILURES = 0.01, 0.5  # shares of delta that are set apart for failures
_MOST_TIMES = 2**60
_STEPS = 200
_DECIMAL = 2.0**-51
"""Ten times the float .1 are more than 1.0 by 2^-54, though the numbers that were meant are equal. A cap, and a share
of failures, may be passed by this part of it, which is taken from delta (docs/proofs/filters.md)."""


@dataclass(frozen=True)
class Spent:
    """What a filter has counted.

    Attributes:
        amount: in the filter's unit, rounded up.
        failure_prob: the sum of the failure probabilities, exact.
        pure: the sum of the epsilons of pure DP, exact; infinity where an event is not pure.
    """

    amount: float = 0.0
    failure_prob: Fraction = Fraction(0)
    pure: Fraction | float = Fraction(0)

    def plus(self, price: Spent, count: int = 1) -> Spent:
        """With `count` more of a price."""
        return Spent(
            _sum_above(self.amount, _product_above(price.amount, count)),
            self.failure_prob + price.failure_prob * count,
            self.pure + price.pure * count,
        )


@dataclass(frozen=True)
class FilterRule(ABC):
    """Enforces a cap: a filter, or a rule that chooses one at the first event, before anything was released.

    Args:
        max_epsilon: the cap, > 0.
        target_delta: in (0, 1).
        max_failure_prob: the part of `target_delta` that failure probabilities may use up; prices are converted at
            what it leaves. None lets the first event decide: half of delta, or what that event needs, where it can
            fail, and a hundredth where it cannot.
    """

    max_epsilon: float
    target_delta: float
    max_failure_prob: float | None = None

    name: ClassVar[str]

    def __post_init__(self) -> None:
        require_positive("max_epsilon", self.max_epsilon)
        require_probability("target_delta", self.target_delta)
        if self.max_failure_prob is not None:
            require_non_negative("max_failure_prob", self.max_failure_prob)
            rule = f"less than target_delta={self.target_delta}"
            require(self.max_failure_prob < self.target_delta, "max_failure_prob", self.max_failure_prob, rule)

    def for_cap(self, max_epsilon: float) -> Self:
        """The same rule for another cap; what was chosen for the cap is chosen anew."""
        return replace(self, max_epsilon=max_epsilon)

    @abstractmethod
    def fixed_by(self, first: Event) -> PrivacyFilter:
        """The filter of a data set of which this is the first event; that event knows of no release."""

    def to_json(self) -> dict[str, Any]:
        """Its name and parameters, without cap and delta."""
        beside = [field.name for field in fields(self) if field.name not in ("max_epsilon", "target_delta")]
        return {"name": self.name} | {name: getattr(self, name) for name in beside}

    def _failures_allowed(self, first: Event) -> float:
        if self.max_failure_prob is not None:
            return self.max_failure_prob
        failure = failure_probability(first)
        if failure == 0:
            return _FEW_FAILURES * self.target_delta
        return min(max(_MANY_FAILURES * self.target_delta, failure), math.nextafter(self.target_delta, 0))


@dataclass(frozen=True)
class PrivacyFilter(FilterRule):
    """Adds up prices in one unit, and refuses an event that would take their sum above the cap.

    Formal guarantees, for the adjacency that the events were made for:
        * Everything released together is (max_epsilon, target_delta)-DP, where each event may be chosen after seeing
          all that was released before, as long as only admitted events are.
        * Events whose epsilons of pure DP add up to the cap at most are admitted too: the whole sequence has to be
          within the one bound or within the other.
        * Cap, delta, unit and the share of failures are fixed before the first release.

    Source: docs/proofs/filters.md.
    """

    @property
    @abstractmethod
    def unit(self) -> str:
        """What amounts are counted in, in words."""

    @abstractmethod
    def amount(self, event: Event) -> float:
        """The price of an event in the filter's unit; failure probabilities apart.

        Raises:
            InvalidValue: an event that has no such price.
        """

    @abstractmethod
    def epsilon(self, amount: float) -> float:
        """What an amount is worth at the delta that allowed failures leave; it never falls as the amount rises."""

    @property
    def failures_allowed(self) -> float:
        """The share of delta that failures may use up, as a number."""
        return _FEW_FAILURES * self.target_delta if self.max_failure_prob is None else self.max_failure_prob

    @property
    def conversion_delta(self) -> float:
        """The delta at which amounts are converted."""
        return self.target_delta - self.failures_allowed - self._slack * (1 + self.max_epsilon)

    @property
    def _slack(self) -> float:
        """By which part the cap and the share of failures may be passed; 0 where delta is too small to pay for it."""
        left = self.target_delta - self.failures_allowed
        return _DECIMAL if _DECIMAL * (1 + self.max_epsilon) < left / 1000 else 0.0

    @cached_property
    def budget(self) -> float:
        """The largest amount that the cap allows, rounded down."""
        low, high = 0.0, 1.0
        while self.epsilon(high) <= self.max_epsilon and high < 1e300:
            low, high = high, 2 * high
        for _ in range(_STEPS):
            middle = (low + high) / 2
            if not low < middle < high:
                break
            low, high = (middle, high) if self.epsilon(middle) <= self.max_epsilon else (low, middle)
        return low

    def fixed_by(self, first: Event) -> Self:
        """Itself, with the share of failures that the first event asks for."""
        return replace(self, max_failure_prob=self._failures_allowed(first))

    def price(self, event: Event) -> Spent:
        """What an event adds.

        Raises:
            InvalidValue: an event that has no price in the filter's unit.
        """
        return Spent(self.amount(event), Fraction(failure_probability(event)), _pure(event))

    def epsilon_of(self, spent: Spent) -> float:
        """What was spent, as an epsilon at the delta that allowed failures leave."""
        return min(float(spent.pure), self.epsilon(spent.amount))

    def allows_failures(self, spent: Spent) -> bool:
        """Whether the failures are within their share of delta."""
        return spent.failure_prob <= Fraction(self.failures_allowed) * (1 + Fraction(self._slack))

    def admits(self, spent: Spent, event: Event, count: int = 1) -> bool:
        """Whether the event, `count` times, fits beside what was spent."""
        return self._holds(spent.plus(self.price(event), count))

    def affords(self, spent: Spent, event: Event) -> float:
        """How many times the event fits beside what was spent; infinity where it costs nothing."""
        price = self.price(event)
        if not self._holds(spent.plus(price)):
            return 0
        if price == Spent():
            return math.inf
        fits, fails = 1, 2
        while self._holds(spent.plus(price, fails)):
            fits, fails = fails, 2 * fails
            if fails > _MOST_TIMES:
                return math.inf
        while fails - fits > 1:
            middle = (fits + fails) // 2
            fits, fails = (middle, fails) if self._holds(spent.plus(price, middle)) else (fits, middle)
        return fits

    def _holds(self, spent: Spent) -> bool:
        """Whether all that was spent is within one bound: never a part within the one and a part within the other."""
        if not self.allows_failures(spent):
            return False
        pure = spent.pure <= Fraction(self.max_epsilon) * (1 + Fraction(self._slack))
        return pure or self.epsilon(spent.amount) <= self.max_epsilon


def _pure(event: Event) -> Fraction | float:
    """The sum of the epsilons of an event's parts; infinity where a part has none."""
    try:
        found = [(pure_epsilon(leaf), times) for leaf, times in leaves(event) if times]
    except InvalidValue:
        return math.inf
    if any(math.isinf(epsilon) for epsilon, _ in found):
        return math.inf
    return sum((Fraction(epsilon) * times for epsilon, times in found), start=Fraction(0))


def _sum_above(one: float, other: float) -> float:
    """A float that is not below the sum; exact where one of them is 0."""
    return one + other if 0.0 in (one, other) else math.nextafter(one + other, math.inf)


def _product_above(number: float, count: int) -> float:
    return number * count if number == 0 or count == 1 else math.nextafter(number * count, math.inf)
