"""What every filter offers: whether one more event fits under a cap, whoever chose it and after seeing what."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from pate.accounting.events import Event, leaves
from pate.accounting.failure_probability import failure_probability
from pate.accounting.pure_dp import pure_epsilon
from pate.validation import InvalidValue, require, require_non_negative, require_positive, require_probability

_FEW_FAILURES, _MANY_FAILURES = 0.01, 0.5  # shares of delta that are set apart for failures
_MOST_TIMES = 2**60
_STEPS = 200
_ROUNDING = 1e-12  # of a sum of many


@dataclass(frozen=True)
class Spent:
    """What a filter has counted.

    Attributes:
        amount: in the filter's unit, rounded up.
        failure_prob: the sum of the failure probabilities, rounded up.
        pure: the sum of the epsilons of pure DP, rounded up; infinity where an event is not pure.
    """

    amount: float = 0.0
    failure_prob: float = 0.0
    pure: float = 0.0

    def plus(self, price: Spent, count: int = 1) -> Spent:
        """With `count` more of a price."""
        return Spent(
            _sum_above(self.amount, _product_above(price.amount, count)),
            _sum_above(self.failure_prob, _product_above(price.failure_prob, count)),
            _sum_above(self.pure, _product_above(price.pure, count)),
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
        * Events whose epsilons of pure DP add up to the cap at most are admitted too.
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
        return self.target_delta - self.failures_allowed

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
        return Spent(self.amount(event), failure_probability(event), _pure(event))

    def epsilon_of(self, spent: Spent) -> float:
        """What was spent, as an epsilon at the delta that allowed failures leave."""
        return min(spent.pure, self.epsilon(spent.amount))

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
        return spent.failure_prob <= self.failures_allowed and self.epsilon_of(spent) <= self.max_epsilon


def _pure(event: Event) -> float:
    """The sum of the epsilons of an event's parts; infinity where a part has none."""
    try:
        return sum((times * pure_epsilon(leaf) for leaf, times in leaves(event) if times), start=0.0) * (1 + _ROUNDING)
    except InvalidValue:
        return math.inf


def _sum_above(one: float, other: float) -> float:
    """A float that is not below the sum; exact where one of them is 0."""
    return one + other if 0.0 in (one, other) else math.nextafter(one + other, math.inf)


def _product_above(number: float, count: int) -> float:
    return number * count if number == 0 or count == 1 else math.nextafter(number * count, math.inf)
