"""Privacy filters: caps that hold even if prices are chosen after seeing earlier releases."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from pate import validation
from pate.accounting import events
from pate.accounting.conversion import (
    conversion_penalty,
    gaussian_epsilon,
    rdp_to_epsilons,
    zcdp_to_epsilon,
)
from pate.accounting.event_tree import by_accesses, count_leaves, failure_probability, leaves
from pate.accounting.events import Event, LeafEvent
from pate.accounting.rdp import DEFAULT_ORDERS, Accountant, rdp_curve, total_rho
from pate.accounting.renyi import pure_epsilon
from pate.accounting.special import log_expit
from pate.validation import (
    InvalidValue,
    normalize_field,
    require,
    require_choice,
    require_positive,
    require_probability,
    rounded_up,
)

__all__ = [
    "GaussianFilter",
    "GaussianOrRenyi",
    "PrivacyFilter",
    "RenyiFilter",
    "Spent",
    "ZCdpFilter",
    "default_filter",
]

# for (max_epsilon, target_delta): a class, a partial of one
FilterMaker = Callable[[float, float], "PrivacyFilter"]

# shares of delta that are set apart for failures
_FEW_FAILURES = 0.01
_MANY_FAILURES = 0.5
_MOST_TIMES = 2**60
# the bits of floats > 0, which are ordered as integers
_AMOUNTS = range(1, int(np.float64(1e300).view(np.int64)))
# Ten times the float .1 are more than 1.0 by 2^-54, though the numbers that were meant are equal. A cap, and a share of
# failures, may be passed by this part of it, which is taken from delta (docs/proofs/filters.md).
_DECIMAL = 2.0**-51
_REFINED = 2001
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Spent:
    """What a filter has counted."""

    amount: float = 0.0  # in the filter's unit, rounded up
    failure_prob: Fraction = Fraction(0)  # the sum of the failure probabilities, exact
    # of the epsilons of pure DP, exact; infinity where an event is not pure
    pure: Fraction | float = Fraction(0)
    # in the second unit of a filter that has two; infinity where an event has no price in it
    second: float = 0.0

    def plus(self, price: Spent, count: int = 1) -> Spent:
        """Returns what is spent after a price is charged `count` times."""
        return Spent(
            _added(self.amount, price.amount, count),
            self.failure_prob + price.failure_prob * count,
            self.pure + price.pure * count,
            _added(self.second, price.second, count),
        )


def _added(amount: float, price: float, count: int) -> float:
    """Returns an amount and so many prices, not below the true sum; exact where nothing is rounded."""
    more = price * count
    more = more if price == 0 or count == 1 else math.nextafter(more, math.inf)
    total = amount + more
    return total if 0.0 in (amount, more) else math.nextafter(total, math.inf)


@dataclass(frozen=True)
class PrivacyFilter(ABC):
    """Adds up prices in one unit, and refuses an event that would take their sum above the cap.

    Formal guarantees, for the adjacency that the events were made for:
        * All admitted events together are (max_epsilon, target_delta)-DP, each chosen after seeing those before it.
        * Events whose epsilons of pure DP add up to the cap at most are admitted too: all within one of both bounds.
        * Cap, delta, unit and the share of failures are fixed before the first release.

    Source: docs/proofs/filters.md.
    """

    max_epsilon: float  # the cap, > 0
    target_delta: float  # in (0, 1)
    # The part of delta that failure probabilities may use up; prices are converted at what it leaves. None lets the
    # first event decide: what it needs and half of what it leaves of delta, for releases to come, where it can fail,
    # and a hundredth of delta where it cannot.
    max_failure_prob: float | None = None
    # Whether that half is added. Where it is not, as in ledgers that were written before, an event that can fail has
    # half of delta, or what it needs.
    plans_failures: bool = field(default=True, kw_only=True)

    name: ClassVar[str]
    _unit: ClassVar[str]  # of which braces are filled with the filter
    # whether a session is counted by its hits; else by its accesses
    prices_hits: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_positive("max_epsilon", self.max_epsilon)
        require_probability("target_delta", self.target_delta)
        if self.max_failure_prob is not None:
            failures = validation.require_non_negative("max_failure_prob", self.max_failure_prob)
            rule = f"less than target_delta={self.target_delta}"
            require(failures < self.target_delta, "max_failure_prob", failures, rule)

    def for_cap(self, max_epsilon: float) -> Self:
        """Returns the same rule for another cap."""
        return replace(self, max_epsilon=max_epsilon)

    def to_json(self) -> dict[str, Any]:
        """Its name and parameters, without cap and delta."""
        return {"name": self.name} | {
            field.name: getattr(self, field.name) for field in fields(self)[2:]
        }

    @property
    def unit(self) -> str:
        """What amounts are counted in, in words."""
        return self._unit.format(self)

    @abstractmethod
    def amount(self, event: Event) -> float:
        """The price of an event in the filter's unit, failure probabilities apart; raises if it has none."""

    @abstractmethod
    def epsilon(self, amount: float) -> float:
        """What an amount is worth at the delta that allowed failures leave; it never falls as the amount rises."""

    @property
    def failures_allowed(self) -> float:
        """The share of delta that failures may use up, as a number."""
        return (
            _FEW_FAILURES * self.target_delta
            if self.max_failure_prob is None
            else self.max_failure_prob
        )

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

        def amount(bits: int) -> float:
            return float(np.int64(bits).view(np.float64))

        return amount(
            bisect_left(
                _AMOUNTS, True, key=lambda bits: self.epsilon(amount(bits)) > self.max_epsilon
            )
        )

    def fixed_by(self, first: Event) -> PrivacyFilter:
        """The filter of a data set of which this is the first event, with the share of failures that it asks for."""
        if self.max_failure_prob is not None:
            return self
        delta = self.target_delta
        failure = failure_probability(first if self.prices_hits else by_accesses(first))
        most = (
            (failure + delta) / 2 if self.plans_failures else max(_MANY_FAILURES * delta, failure)
        )
        most = min(most, math.nextafter(delta, 0))
        return replace(self, max_failure_prob=most if failure else _FEW_FAILURES * delta)

    def price(self, event: Event) -> Spent:
        """What an event adds; raises if it has no price in the filter's unit."""
        event = event if self.prices_hits else by_accesses(event)
        try:
            pure_epsilons = [(pure_epsilon(leaf), times) for leaf, times in leaves(event) if times]
            pure: Fraction | float = sum(
                (Fraction(epsilon) * times for epsilon, times in pure_epsilons), start=Fraction(0)
            )
        except (InvalidValue, OverflowError):  # no pure DP; an infinite epsilon
            pure = math.inf
        return Spent(self.amount(event), Fraction(failure_probability(event)), pure)

    def allows_failures(self, spent: Spent) -> bool:
        """True where failure probabilities stay within their share of delta."""
        return spent.failure_prob <= Fraction(self.failures_allowed) * (1 + Fraction(self._slack))

    def admits(self, spent: Spent, event: Event) -> bool:
        """True where an event still fits under the cap."""
        return self._holds(spent.plus(self.price(event)))

    def left(self, spent: Spent) -> float:
        """Returns what the cap leaves, in the filter's unit."""
        return max(0.0, self.budget - spent.amount)

    def affords(self, spent: Spent, event: Event) -> float:
        """Returns how many times an event still fits under the cap; infinity for one that costs nothing."""
        price = self.price(event)
        fits = largest_count(
            lambda count: self._holds(spent.plus(price, count)), maximum=_MOST_TIMES
        )
        return math.inf if fits == _MOST_TIMES else fits

    def _holds(self, spent: Spent) -> bool:
        """Whether all that was spent is within one bound: never a part within the one and a part within the other."""
        pure = spent.pure <= Fraction(self.max_epsilon) * (1 + Fraction(self._slack))
        return self.allows_failures(spent) and (
            pure or self.epsilon(spent.amount) <= self.max_epsilon
        )


@dataclass(frozen=True)
class RenyiFilter(PrivacyFilter):
    """Adds Renyi divergences at one order; the default filter.

    Source: Rogers et al. 2016; Feldman & Zrnic 2021; Lecuyer 2021; docs/proofs/filters.md.

    >>> made = RenyiFilter(4.0, 1e-6)
    >>> made.order, made.affords(Spent(), events.GaussianEvent(30.0))
    (7.171, 559)
    """

    order: float | None = None  # > 1; None for the order at which the most Gaussian releases fit

    name: ClassVar[str] = "renyi"
    _unit: ClassVar[str] = "Renyi divergence at order {0.order:g}"
    prices_hits: ClassVar[bool] = True

    def for_cap(self, max_epsilon: float) -> Self:
        """Returns the same rule for another cap; an order that was the default for this cap is chosen anew."""
        is_default = self.order == best_order(self.max_epsilon, self.target_delta)
        order = None if is_default else self.order
        return replace(self, max_epsilon=max_epsilon, order=order)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order is None:
            normalize_field(self, "order", best_order(self.max_epsilon, self.target_delta))
        require(1 < self._orders[0] < math.inf, "order", self.order, "a finite number > 1")
        least = float(conversion_penalty(self._orders, target_delta=self.target_delta)[0])
        require(
            least < self.max_epsilon,
            "order",
            self.order,
            f"one at which max_epsilon is above {rounded_up(least)}",
        )

    def amount(self, event: Event) -> float:
        """Returns the Renyi divergence of an event at the filter's order."""
        return float(rdp_curve(count_leaves(event), self._orders)[0])

    def epsilon(self, amount: float) -> float:
        """Returns the epsilon of a Renyi divergence at the filter's order and delta."""
        epsilons = rdp_to_epsilons(
            self._orders, np.array([amount]), target_delta=self.conversion_delta
        )
        return float(epsilons[0]) if amount else 0.0

    @property
    def _orders(self) -> np.ndarray:
        return np.array([self.order], dtype=np.float64)


@lru_cache(maxsize=64)
def best_order(max_epsilon: float, target_delta: float) -> float:
    """The order at which a cap leaves the most room for Gaussian releases, to four digits."""

    def best(orders: np.ndarray) -> int:
        return int(
            np.argmax(
                (max_epsilon - conversion_penalty(orders, target_delta=target_delta)) / orders
            )
        )

    place = best(DEFAULT_ORDERS)
    low = DEFAULT_ORDERS[max(place - 1, 0)]
    high = DEFAULT_ORDERS[min(place + 1, len(DEFAULT_ORDERS) - 1)]
    near = 1 + np.geomspace(low - 1, high - 1, _REFINED)
    return 1 + float(f"{near[best(near)] - 1:.4g}")


@dataclass(frozen=True)
class ZCdpFilter(PrivacyFilter):
    """Adds the rho of every event. It needs no order, because a bound on rho holds at all orders.

    Source: Rogers et al. 2016; Whitehouse et al. 2023; docs/proofs/filters.md.
    """

    name: ClassVar[str] = "zcdp"
    _unit: ClassVar[str] = "rho of zCDP"

    def amount(self, event: Event) -> float:
        """Returns the rho of an event."""
        return total_rho(event)

    def epsilon(self, amount: float) -> float:
        """Returns the epsilon of a rho at the filter's delta."""
        return (
            math.inf
            if math.isinf(amount)
            else zcdp_to_epsilon(amount, target_delta=self.conversion_delta)
        )


@dataclass(frozen=True)
class GaussianFilter(PrivacyFilter):
    """Adds 1 / noise_multiplier**2 of Gaussian events, and of pure ones what their epsilon is worth; refuses others.

    Without failures it admits whatever one Gaussian release under the cap could pay: nothing is lost.

    Source: Smith & Thakurta 2022; docs/proofs/filters.md.

    >>> GaussianFilter(4.0, 1e-6).affords(Spent(), events.GaussianEvent(30.0))
    631
    """

    max_failure_prob: float | None = 0.0  # none at all, as a Gaussian cannot fail

    name: ClassVar[str] = "gaussian"
    _unit: ClassVar[str] = "mu squared of Gaussian DP"

    def amount(self, event: Event) -> float:
        """Returns the sum of the squared mu of Gaussian events."""
        return math.fsum(times * _mu_squared(leaf) for leaf, times in leaves(event) if times)

    def epsilon(self, amount: float) -> float:
        """Returns the epsilon of a squared mu at the filter's delta, rounded up."""
        if math.isinf(amount):
            return math.inf
        return gaussian_epsilon(math.sqrt(amount), target_delta=self.conversion_delta) * (
            1 + _ROUNDING
        )


def _mu_squared(leaf: LeafEvent) -> float:
    """1 / noise_multiplier**2 of a Gaussian; raises for a part that is neither that nor pure DP."""
    if isinstance(leaf, (events.GaussianEvent, events.WinnerEvent)):
        moved = getattr(leaf, "num_moving", 1)
        noise = leaf.noise_multiplier
        return math.inf if noise == 0 else float(moved / noise / noise)
    try:
        epsilon = pure_epsilon(leaf)
    except InvalidValue as error:
        rule = "Gaussian or pure DP, which this ledger's filter counts; filter=RenyiFilter counts others too"
        raise InvalidValue("event", type(leaf).__name__, rule=rule) from error
    if math.isinf(epsilon):
        return math.inf
    from scipy.special import erfinv, ndtri_exp  # loads slowly, and few filters count pure releases

    # A release of pure epsilon is mu-Gaussian DP with Phi(mu / 2) = e^epsilon / (1 + e^epsilon): its trade-off is at
    # least randomized response's, two straight lines that meet where both errors are 1 / (1 + e^epsilon). The curve of
    # that Gaussian goes through the same three points and is convex, so it lies below (Dong, Roth & Su 2022).
    small = epsilon < 1  # where a probability near 1/2 has lost its digits
    mu = (
        2 * math.sqrt(2) * erfinv(math.tanh(epsilon / 2))
        if small
        else -2 * ndtri_exp(log_expit(-epsilon))
    )
    return float(mu * mu * (1 + _ROUNDING))


@dataclass(frozen=True)
class GaussianOrRenyi(RenyiFilter):
    """The Gaussian filter if a data set's first event has Gaussian parts only, and otherwise the Renyi filter.

    Ledgers that were written before have it. It lets nothing but Gaussians and pure DP follow a Gaussian.
    """

    name: ClassVar[str] = "gaussian_or_renyi"

    def fixed_by(self, first: Event) -> PrivacyFilter:
        """Returns the filter that the first event decides on: Gaussian where it is Gaussian."""
        allowed = self.max_failure_prob
        if not count_leaves(first).keys() <= {events.GaussianEvent, events.NoOpEvent}:
            return RenyiFilter(
                self.max_epsilon,
                self.target_delta,
                allowed,
                self.order,
                plans_failures=self.plans_failures,
            ).fixed_by(first)
        if allowed is None and failure_probability(first) == 0:
            allowed = 0.0
        return GaussianFilter(
            self.max_epsilon, self.target_delta, allowed, plans_failures=self.plans_failures
        ).fixed_by(first)


@dataclass(frozen=True)
class GaussianAndRenyi(RenyiFilter):
    """Counts in two units, each at half of delta: mu squared of Gaussians, and Renyi divergences of everything.

    All releases together are within the one bound, or all are within the other. So Gaussians that come first lose
    little, and other kinds may follow.

    Source: docs/proofs/filters.md.

    >>> GaussianAndRenyi(4.0, 1e-6).affords(Spent(), events.GaussianEvent(30.0))
    598
    """

    name: ClassVar[str] = "gaussian_and_renyi"
    _unit: ClassVar[str] = "Renyi divergence at order {0.order:g}, or mu squared of Gaussian DP"

    @property
    def conversion_delta(self) -> float:
        """Half of the delta: each of the two filters has one half."""
        return super().conversion_delta / 2

    def price(self, event: Event) -> Spent:
        """Returns both prices; the second is infinite for a session whose accesses may overrun.

        Its failures are counted as those of hits, which have no overrun.
        """
        price = super().price(event)
        if failure_probability(by_accesses(event)) > failure_probability(event):
            return replace(price, second=math.inf)
        try:
            second = math.fsum(
                times * _mu_squared(leaf) for leaf, times in leaves(by_accesses(event)) if times
            )
        except InvalidValue:
            second = math.inf
        return replace(price, second=second)

    def left(self, spent: Spent) -> float:
        """Returns what the cap leaves in either unit: of Renyi divergence, or else of mu squared."""
        renyi = super().left(spent)
        return renyi or max(0.0, self.gaussian_budget - spent.second)

    @cached_property
    def gaussian_budget(self) -> float:
        """The largest mu squared that the cap allows at half of delta, rounded down."""
        return self._gaussian_filter.budget

    @cached_property
    def _gaussian_filter(self) -> GaussianFilter:
        """The filter that counts in mu squared, at half of delta."""
        return GaussianFilter(self.max_epsilon, self.conversion_delta, 0.0)

    def _holds(self, spent: Spent) -> bool:
        # One conversion of what was spent: the budget, which takes some sixty, is for `left` alone.
        by_gaussian = (
            self.allows_failures(spent)
            and self._gaussian_filter.epsilon(spent.second) <= self.max_epsilon
        )
        return by_gaussian or super()._holds(spent)


@dataclass(frozen=True)
class GaussianFirst(RenyiFilter):
    """`GaussianAndRenyi` if a data set's first event has Gaussian parts only, and otherwise the Renyi filter."""

    name: ClassVar[str] = "gaussian_first"

    def fixed_by(self, first: Event) -> PrivacyFilter:
        """Returns the filter that the first event decides on."""
        gaussian = count_leaves(first).keys() <= {events.GaussianEvent, events.NoOpEvent}
        kind = GaussianAndRenyi if gaussian else RenyiFilter
        filter_of_kind = kind(
            self.max_epsilon,
            self.target_delta,
            self.max_failure_prob,
            self.order,
            plans_failures=self.plans_failures,
        )
        return filter_of_kind.fixed_by(first)


FILTERS = {
    kind.name: kind
    for kind in (RenyiFilter, ZCdpFilter, GaussianFilter, GaussianOrRenyi, GaussianFirst)
}


def default_filter(accountant: Accountant) -> FilterMaker:
    """Returns the filter whose cap costs the least compared with an accountant's totals, and lets every kind follow.

    Of zCDP its own. Of exact, PLD and auto one that counts Gaussians by themselves too, where a data set's first event
    is Gaussian. Else Renyi's.
    """
    if accountant.name == "zcdp":
        return ZCdpFilter
    return GaussianFirst if accountant.name in ("exact", "pld", "auto") else RenyiFilter


def filter_from_json(
    data: Mapping[str, Any], *, max_epsilon: float, target_delta: float
) -> PrivacyFilter:
    """The filter that `PrivacyFilter.to_json` wrote."""
    values = {"plans_failures": False} | dict(data)  # as those decided that do not say it
    kind = FILTERS[require_choice("filter", str(values.pop("name", None)), tuple(FILTERS))]
    try:
        return kind(max_epsilon, target_delta, **values)
    except TypeError as error:
        rule = f"parameters of this version, found {', '.join(name for name in data if name != 'name')}"
        raise InvalidValue("filter", kind.name, rule=rule) from error


def largest_count(affordable: Callable[[int], bool], *, maximum: int, guess: int = 1) -> int:
    """The largest count in 0..maximum that is affordable, given that every smaller one then is, too.

    It is bracketed in growing steps from a guess, then halved.
    """
    guess, step = min(guess, maximum), max(guess // 32, 1)
    up = guess == 0 or affordable(guess)
    low, high = (guess, guess + step) if up else (max(guess - step, 0), guess)
    while (high <= maximum if up else low > 0) and affordable(high if up else low) == up:
        step *= 2
        low, high = (high, high + step) if up else (max(low - step, 0), low)
    return low + bisect_left(
        range(low + 1, min(high, maximum + 1)), True, key=lambda count: not affordable(count)
    )
