"""Privacy filters keep a cap on epsilon even if the price of each release is chosen after seeing earlier releases.

An event describes a release by its public parameters. A filter adds up the prices of events in one unit, such as the
Renyi divergence at one order. A price may hold only up to a small probability, the *failure probability*. So a part of
delta is set aside for the sum of these probabilities, and a sum of prices is converted into an epsilon at the rest of
delta. The filter admits an event if both sums with this event fit: the epsilon is at most `max_epsilon`, and the
failure probabilities are within their part. Then all admitted events together are (max_epsilon, delta)-DP, although the
analyst chose each event by what the earlier releases showed (Rogers et al. 2016; Feldman & Zrnic 2021; Lecuyer 2021).
That holds because the cap, delta, the unit and the part of delta for failures were fixed before the first release
(docs/proofs/filters.md).
"""

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

from pate.accounting import events
from pate.accounting.accountant import Accountant
from pate.accounting.conversion import conversion_penalty, gaussian_epsilon, rdp_to_epsilons
from pate.accounting.count_search import largest_count
from pate.accounting.event_tree import count_leaves, failure_probability, leaves, priced_by_accesses
from pate.accounting.events import Event, LeafEvent
from pate.accounting.pure_epsilon import pure_epsilon
from pate.accounting.rdp import DEFAULT_ORDERS, rdp_curve
from pate.accounting.rounding import ceil_to_digits
from pate.accounting.special import log_expit
from pate.validation import (
    InvalidValue,
    normalize_field,
    require,
    require_choice,
    require_non_negative,
    require_positive,
    require_probability,
)

__all__ = [
    "FormerZCdpFilter",
    "GaussianAndRenyi",
    "GaussianFilter",
    "GaussianFirst",
    "GaussianOrRenyi",
    "PrivacyFilter",
    "RenyiFilter",
    "Spent",
    "default_filter",
]

FilterMaker = Callable[[float, float], "PrivacyFilter"]
"""A function that makes a filter from (max_epsilon, target_delta): a class of filters, or a partial of a class."""

# The share of delta that is reserved for failures, where the first event cannot fail; and where it can, in ledgers of
# earlier versions.
_SHARE_FOR_LATER_FAILURES = 0.01
_FORMER_SHARE_FOR_FAILURES = 0.5
# An event that fits so many times fits without a limit.
_LARGEST_COUNT = 2**60
# The bits of the floats from the smallest one > 0 up to 1e300, as integers, which have the order of the floats.
_BITS_OF_POSITIVE_FLOATS = range(1, int(np.float64(1e300).view(np.int64)))
# The sum of ten times the float 0.1 exceeds 1.0 by 2^-54, although the decimals that the caller wrote sum to 1. So the
# cap, and the share for failures, may be exceeded by this relative amount, which is taken from delta
# (docs/proofs/filters.md).
_DECIMAL_SLACK = 2.0**-51
# The number of orders of the fine grid on which the best order is searched for.
_NUM_FINE_ORDERS = 2001
# Relative, and above the error of the functions by which mu and its epsilon are computed.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Spent:
    """The sums that a filter keeps: an amount in the filter's unit, failure probabilities, and epsilons of pure DP.

    The same class holds the price of a single event.

    Attributes:
        amount: the sum in the filter's unit, rounded up.
        failure_prob: the sum of the failure probabilities, exact.
        pure_epsilon: the sum of the epsilons of pure DP, exact; infinity where an event is not pure DP.
        second_amount: the sum in the second unit of a filter with two units; infinity where an event has no price in
            that unit.
    """

    amount: float = 0.0
    failure_prob: Fraction = Fraction(0)
    pure_epsilon: Fraction | float = Fraction(0)
    second_amount: float = 0.0

    def plus(self, price: Spent, num_times: int = 1) -> Spent:
        """Returns the sums after a price is added `num_times` >= 1 times."""
        return Spent(
            amount=_sum_rounded_up(self.amount, added_amount=price.amount, num_times=num_times),
            failure_prob=self.failure_prob + price.failure_prob * num_times,
            pure_epsilon=self.pure_epsilon + price.pure_epsilon * num_times,
            second_amount=_sum_rounded_up(
                self.second_amount, added_amount=price.second_amount, num_times=num_times
            ),
        )


def _sum_rounded_up(amount_before: float, added_amount: float, *, num_times: int) -> float:
    """Returns amount_before + num_times * added_amount in floating point, rounded up where it may not be exact."""
    product_rounded_up = added_amount * num_times
    if added_amount != 0 and num_times != 1:
        product_rounded_up = math.nextafter(product_rounded_up, math.inf)
    total = amount_before + product_rounded_up
    return total if 0.0 in (amount_before, product_rounded_up) else math.nextafter(total, math.inf)


@dataclass(frozen=True)
class PrivacyFilter(ABC):
    """The base class of filters: a filter sums prices in one unit, and refuses an event that would exceed the cap.

    Formal guarantees, for the adjacency that the events were made for:
        * All admitted events together are (max_epsilon, target_delta)-DP, even if each event was chosen after seeing
          the earlier releases.
        * An event is also admitted where all events are pure DP and their epsilons sum to at most the cap.
        * The cap, delta, the unit and the part of delta for failures are fixed before the first release.

    Attributes:
        max_epsilon: the cap, > 0.
        target_delta: the delta of the guarantee, in (0, 1).
        max_failure_prob: the part of delta that failure probabilities may use up; prices are converted at the rest of
            delta. None lets the first event decide. An event that can fail gets its own failure probability, and half
            of the rest of delta for later releases. An event that cannot fail leaves a hundredth of delta for failures.
        plans_failures: whether a first event that can fail also gets that half. Ledgers of earlier versions have
            False: the part is then half of delta, or the failure probability of the first event where that is larger.
        name: the name of the class of filters in the file of a ledger.
        prices_hits: whether a session is counted by its hits, and not by its accesses.

    Source: docs/proofs/filters.md.
    """

    max_epsilon: float
    target_delta: float
    max_failure_prob: float | None = None
    plans_failures: bool = field(default=True, kw_only=True)

    name: ClassVar[str]
    # the unit in words, with the filter's fields in braces
    _unit_template: ClassVar[str]
    prices_hits: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_positive("max_epsilon", self.max_epsilon)
        require_probability("target_delta", self.target_delta)
        if self.max_failure_prob is not None:
            require_non_negative("max_failure_prob", self.max_failure_prob)
            if self.max_failure_prob >= self.target_delta:
                rule = f"less than target_delta={self.target_delta}"
                raise InvalidValue("max_failure_prob", self.max_failure_prob, rule=rule)

    def for_cap(self, max_epsilon: float) -> Self:
        """Returns a filter of the same class and with the same parameters for another cap."""
        return replace(self, max_epsilon=max_epsilon)

    def to_json(self) -> dict[str, Any]:
        """Returns the name and the parameters, without cap and delta, as a dictionary that `filter_from_json` reads."""
        field_names = [dataclass_field.name for dataclass_field in fields(self)]
        parameters = {
            field_name: getattr(self, field_name)
            for field_name in field_names
            if field_name not in ("max_epsilon", "target_delta")
        }
        return {"name": self.name} | parameters

    @property
    def unit(self) -> str:
        """The name of the unit in which the filter sums prices, such as `Renyi divergence at order 8`."""
        return self._unit_template.format(self)

    @abstractmethod
    def amount(self, event: Event) -> float:
        """Returns the price of an event in the filter's unit, without its failure probability.

        Raises `InvalidValue` where the filter cannot price the event in this unit.
        """

    @abstractmethod
    def epsilon(self, amount: float) -> float:
        """Returns the epsilon at `conversion_delta` of an amount in the filter's unit.

        The epsilon never falls as the amount rises.
        """

    @property
    def failures_allowed(self) -> float:
        """The largest sum of failure probabilities that the filter admits, a part of `target_delta`."""
        if self.max_failure_prob is None:
            return _SHARE_FOR_LATER_FAILURES * self.target_delta
        return self.max_failure_prob

    @property
    def conversion_delta(self) -> float:
        """The delta at which amounts are converted into epsilons: `target_delta` less the part for failures.

        A tiny amount is subtracted for sums that rounding puts slightly above the cap.
        """
        return self.target_delta - self.failures_allowed - self._slack * (1 + self.max_epsilon)

    @property
    def _slack(self) -> float:
        """The relative excess by which the cap and the part of delta for failures may be exceeded.

        The excess admits sums of decimals that floating point rounds up. It is taken from delta, and is 0 where delta
        is too small.
        """
        remaining_delta = self.target_delta - self.failures_allowed
        is_small = _DECIMAL_SLACK * (1 + self.max_epsilon) < remaining_delta / 1000
        return _DECIMAL_SLACK if is_small else 0.0

    @cached_property
    def budget(self) -> float:
        """The largest amount, in the filter's unit, whose epsilon is at most the cap, rounded down."""

        def is_epsilon_above_cap(bits_of_amount: int) -> bool:
            return self.epsilon(_float_of(bit_pattern=bits_of_amount)) > self.max_epsilon

        # Positive floats have the order of their bits, so this is a bisection over them. The entry at index i is
        # i + 1. So the index of the first amount above the cap is the entry before it, the largest within the cap.
        largest_bits = bisect_left(_BITS_OF_POSITIVE_FLOATS, x=True, key=is_epsilon_above_cap)
        return _float_of(bit_pattern=largest_bits)

    def fixed_by(self, first_event: Event) -> PrivacyFilter:
        """Returns the filter for a data set whose first charged event is `first_event`.

        The first event determines the part of delta for failures where `max_failure_prob` is None.
        """
        if self.max_failure_prob is not None:
            return self
        delta = self.target_delta
        failure_prob_of_first = failure_probability(
            first_event if self.prices_hits else priced_by_accesses(first_event)
        )
        if failure_prob_of_first == 0:
            return replace(self, max_failure_prob=_SHARE_FOR_LATER_FAILURES * delta)
        if self.plans_failures:
            # the failure probability of the first event, and half of the rest of delta
            max_failure_prob = (failure_prob_of_first + delta) / 2
        else:
            max_failure_prob = max(_FORMER_SHARE_FOR_FAILURES * delta, failure_prob_of_first)
        return replace(self, max_failure_prob=min(max_failure_prob, math.nextafter(delta, 0)))

    def price(self, event: Event) -> Spent:
        """Returns the price of an event: its amount in the filter's unit, failure probability and pure epsilon.

        Raises `InvalidValue` where the filter cannot price the event in its unit.
        """
        event = event if self.prices_hits else priced_by_accesses(event)
        try:
            pure_epsilons = [
                (pure_epsilon(leaf), num_times) for leaf, num_times in leaves(event) if num_times
            ]
            sum_of_pure_epsilons: Fraction | float = sum(
                (Fraction(epsilon) * num_times for epsilon, num_times in pure_epsilons),
                start=Fraction(0),
            )
        except (InvalidValue, OverflowError):  # no pure DP; an infinite epsilon
            sum_of_pure_epsilons = math.inf
        return Spent(
            amount=self.amount(event),
            failure_prob=Fraction(failure_probability(event)),
            pure_epsilon=sum_of_pure_epsilons,
        )

    def allows_failures(self, spent: Spent) -> bool:
        """Returns True if the failure probability in `spent` is at most `failures_allowed`, but for rounding."""
        return spent.failure_prob <= Fraction(self.failures_allowed) * (1 + Fraction(self._slack))

    def admits(self, spent: Spent, event: Event) -> bool:
        """Returns True if an event fits under the cap after `spent` have been charged."""
        return self._fits_under_cap(spent.plus(self.price(event)))

    def left(self, spent: Spent) -> float:
        """Returns the amount, in the filter's unit, that fits under the cap after `spent` have been charged."""
        amount_left = self.budget - spent.amount
        return max(0.0, amount_left)

    def affords(self, spent: Spent, event: Event) -> float:
        """Returns the number of times that an event fits under the cap after `spent` have been charged.

        Returns infinity for an event that fits 2**60 times, such as one that costs nothing.
        """
        price = self.price(event)

        def is_affordable(num_times: int) -> bool:
            return self._fits_under_cap(spent.plus(price, num_times=num_times))

        num_affordable = largest_count(holds=is_affordable, maximum=_LARGEST_COUNT)
        return math.inf if num_affordable == _LARGEST_COUNT else num_affordable

    def _fits_under_cap(self, spent: Spent) -> bool:
        """Returns True if all charges together satisfy one of the filter's bounds, and their failures fit.

        The sum in the filter's unit, converted into an epsilon, or the sum of pure epsilons must be at most the cap.
        """
        is_pure = spent.pure_epsilon <= Fraction(self.max_epsilon) * (1 + Fraction(self._slack))
        return self.allows_failures(spent) and (
            is_pure or self.epsilon(spent.amount) <= self.max_epsilon
        )


def _float_of(bit_pattern: int) -> float:
    """Returns the float whose 64 bits, read as an integer, are `bit_pattern`."""
    return float(np.int64(bit_pattern).view(np.float64))


@dataclass(frozen=True)
class RenyiFilter(PrivacyFilter):
    """A filter that sums Renyi divergences at one order; the default filter of a ledger that names no accountant.

    Attributes:
        order: the order, > 1; None for the order at which the most Gaussian releases fit.

    Source: Rogers et al. 2016; Feldman & Zrnic 2021; Lecuyer 2021; docs/proofs/filters.md.

    >>> renyi_filter = RenyiFilter(max_epsilon=4.0, target_delta=1e-6)
    >>> renyi_filter.order, renyi_filter.affords(Spent(), events.GaussianEvent(noise_multiplier=30.0))
    (7.171, 559)
    """

    order: float | None = None

    name: ClassVar[str] = "renyi"
    _unit_template: ClassVar[str] = "Renyi divergence at order {0.order:g}"
    prices_hits: ClassVar[bool] = True

    def for_cap(self, max_epsilon: float) -> Self:
        """Returns a Renyi filter with the same parameters for another cap.

        If the order of this filter is the default for its cap, the new filter has the default order for the new cap.
        """
        is_default = self.order == best_order(self.max_epsilon, self.target_delta)
        order = None if is_default else self.order
        return replace(self, max_epsilon=max_epsilon, order=order)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order is None:
            default_order = best_order(self.max_epsilon, self.target_delta)
            normalize_field(self, "order", value=default_order)
        require(1 < self._orders[0] < math.inf, "order", self.order, "a finite number > 1")
        # The penalty of the conversion is the epsilon of a divergence of 0.
        smallest_epsilon = float(
            conversion_penalty(self._orders, target_delta=self.target_delta)[0]
        )
        if smallest_epsilon >= self.max_epsilon:
            rule = f"one at which max_epsilon is above {ceil_to_digits(smallest_epsilon)}"
            raise InvalidValue("order", self.order, rule=rule)

    def amount(self, event: Event) -> float:
        """Returns the Renyi divergence of an event at the filter's order."""
        return float(rdp_curve(count_leaves(event), self._orders)[0])

    def epsilon(self, amount: float) -> float:
        """Returns the epsilon, at `conversion_delta`, of a Renyi divergence at the filter's order; 0 for 0."""
        divergences = np.array([amount])
        epsilons = rdp_to_epsilons(
            self._orders, rdp=divergences, target_delta=self.conversion_delta
        )
        return float(epsilons[0]) if amount else 0.0

    @property
    def _orders(self) -> np.ndarray:
        return np.array([self.order], dtype=np.float64)


@lru_cache(maxsize=64)  # each filter with this cap needs it
def best_order(max_epsilon: float, target_delta: float) -> float:
    """Returns the order at which the most Gaussian releases fit under a cap; the order less 1 has four digits.

    The search converts at the whole of delta, without a part for failures. The Renyi divergence of a Gaussian release
    is proportional to the order a. The largest sum of divergences under the cap is `max_epsilon` less the penalty of
    the conversion. So the best order has the largest (max_epsilon - penalty(a)) / a.
    """

    def index_of_most_room(orders: np.ndarray) -> int:
        penalty = conversion_penalty(orders, target_delta=target_delta)
        return int(np.argmax((max_epsilon - penalty) / orders))

    index = index_of_most_room(DEFAULT_ORDERS)
    lower_order = DEFAULT_ORDERS[max(index - 1, 0)]
    higher_order = DEFAULT_ORDERS[min(index + 1, len(DEFAULT_ORDERS) - 1)]
    fine_orders = 1 + np.geomspace(lower_order - 1, higher_order - 1, _NUM_FINE_ORDERS)
    return 1 + float(f"{fine_orders[index_of_most_room(fine_orders)] - 1:.4g}")


@dataclass(frozen=True)
class GaussianFilter(PrivacyFilter):
    """A filter that sums mu^2 = 1 / noise_multiplier^2 of Gaussian events, and of events that are priced like them.

    The winner of noisy counts (`WinnerEvent`) is summed as the Gaussian release of these counts. An event of pure DP is
    converted into the mu^2 of a Gaussian event that costs at least as much. Other events are refused. With a
    `max_failure_prob` of 0, the default, the bound is tight: the admitted Gaussian events may cost as much together as
    one Gaussian release at the cap.

    Source: Smith & Thakurta 2022; docs/proofs/filters.md.

    >>> gaussian_filter = GaussianFilter(max_epsilon=4.0, target_delta=1e-6)
    >>> gaussian_filter.affords(Spent(), events.GaussianEvent(noise_multiplier=30.0))
    631
    """

    max_failure_prob: float | None = 0.0  # no failures, as a Gaussian cannot fail

    name: ClassVar[str] = "gaussian"
    _unit_template: ClassVar[str] = "mu squared of Gaussian DP"

    def amount(self, event: Event) -> float:
        """Returns the sum of mu^2 over the leaves of an event; raises `InvalidValue` for a leaf without a mu."""
        return math.fsum(times * _mu_squared(leaf) for leaf, times in leaves(event) if times)

    def epsilon(self, amount: float) -> float:
        """Returns the epsilon, at `conversion_delta`, of a Gaussian release with mu^2 = `amount`, rounded up."""
        mu_squared = amount
        if math.isinf(mu_squared):
            return math.inf
        epsilon = gaussian_epsilon(mu=math.sqrt(mu_squared), target_delta=self.conversion_delta)
        return epsilon * (1 + _ROUNDING)


def _mu_squared_of_counts(noise_multiplier: float, *, num_moving_counts: int) -> float:
    """Returns mu^2 of counts with Gaussian noise; infinity without noise.

    Args:
        noise_multiplier: noise std / the largest difference of one count between neighbors, >= 0.
        num_moving_counts: the number of counts that differ between neighbors.
    """
    if noise_multiplier == 0:
        return math.inf
    return float(num_moving_counts / noise_multiplier / noise_multiplier)


def _mu_squared(leaf: LeafEvent) -> float:
    """Returns mu^2 of a leaf, where the release satisfies mu-Gaussian DP.

    Raises `InvalidValue` unless the leaf is a `GaussianEvent`, a `WinnerEvent`, or pure DP.
    """
    if isinstance(leaf, events.GaussianEvent):
        return _mu_squared_of_counts(leaf.noise_multiplier, num_moving_counts=1)
    if isinstance(leaf, events.WinnerEvent):
        return _mu_squared_of_counts(leaf.noise_multiplier, num_moving_counts=leaf.num_moving)
    try:
        epsilon = pure_epsilon(leaf)
    except InvalidValue as error:
        rule = "Gaussian or pure DP, which this ledger's filter counts; filter=RenyiFilter counts others too"
        raise InvalidValue("event", type(leaf).__name__, rule=rule) from error
    if math.isinf(epsilon):
        return math.inf
    from scipy.special import erfinv, ndtri_exp  # loads slowly, and few filters count pure releases

    # A release of pure epsilon is mu-Gaussian DP with Phi(mu / 2) = e^epsilon / (1 + e^epsilon). Its trade-off is at
    # least randomized response's, two straight lines that meet where both errors are 1 / (1 + e^epsilon). The curve of
    # that Gaussian goes through the same three points and is convex, so it lies below (Dong, Roth & Su 2022).
    mu = -2 * ndtri_exp(log_expit(-epsilon))
    if epsilon < 1:  # where a probability near 1/2 has lost its digits
        mu = 2 * math.sqrt(2) * erfinv(math.tanh(epsilon / 2))
    return float(mu * mu * (1 + _ROUNDING))


def _is_gaussian(event: Event) -> bool:
    """Returns True for an event each of whose leaves is a `GaussianEvent` or releases nothing."""
    gaussian_kinds = {events.GaussianEvent, events.ScoresEvent, events.NoOpEvent}
    return count_leaves(event).kinds <= gaussian_kinds


@dataclass(frozen=True)
class GaussianAndRenyi(RenyiFilter):
    """A filter that sums two prices of every event: mu^2 as `GaussianFilter`, and the divergence as `RenyiFilter`.

    Each sum is converted at half of the delta that the part for failures leaves. An event is admitted where all events
    together cost at most the cap by one of both sums. So a data set with Gaussian releases only gets almost the cap of
    the Gaussian filter, and may still charge other kinds of events later.

    Source: docs/proofs/filters.md.

    >>> two_unit_filter = GaussianAndRenyi(max_epsilon=4.0, target_delta=1e-6)
    >>> two_unit_filter.affords(Spent(), events.GaussianEvent(noise_multiplier=30.0))
    598
    """

    name: ClassVar[str] = "gaussian_and_renyi"
    _unit_template: ClassVar[str] = (
        "Renyi divergence at order {0.order:g}, or mu squared of Gaussian DP"
    )

    @property
    def conversion_delta(self) -> float:
        """The delta at which each of the two sums is converted: half of the conversion delta of `RenyiFilter`."""
        return super().conversion_delta / 2

    def price(self, event: Event) -> Spent:
        """Returns the price of an event: the Renyi divergence as `amount`, and mu^2 as `second_amount`.

        mu^2 is infinite where the event has no mu. It is also infinite for a session whose number of accesses has a
        failure probability, because `failure_prob` counts the failures of the session priced by its hits, which does
        not have that failure.
        """
        price = super().price(event)
        if failure_probability(priced_by_accesses(event)) > failure_probability(event):
            return replace(price, second_amount=math.inf)
        try:
            mu_squared = math.fsum(
                times * _mu_squared(leaf)
                for leaf, times in leaves(priced_by_accesses(event))
                if times
            )
        except InvalidValue:
            mu_squared = math.inf
        return replace(price, second_amount=mu_squared)

    def left(self, spent: Spent) -> float:
        """Returns the Renyi divergence that still fits under the cap; where that is 0, the mu^2 that fits.

        The number itself does not tell which of the two it is, and `unit` names both.
        """
        divergence_left = super().left(spent)
        if divergence_left > 0:
            return divergence_left
        return max(0.0, self.gaussian_budget - spent.second_amount)

    @cached_property
    def gaussian_budget(self) -> float:
        """The largest sum of mu^2 whose epsilon at `conversion_delta` is at most `max_epsilon`, rounded down."""
        return self._gaussian_filter.budget

    @cached_property
    def _gaussian_filter(self) -> GaussianFilter:
        """The filter that sums mu^2 and converts the sum at `conversion_delta`."""
        return GaussianFilter(
            max_epsilon=self.max_epsilon,
            target_delta=self.conversion_delta,
            max_failure_prob=0.0,
        )

    def _fits_under_cap(self, spent: Spent) -> bool:
        # The spent amount is converted, because `gaussian_budget` would take some sixty conversions.
        holds_by_mu = (
            self.allows_failures(spent)
            and self._gaussian_filter.epsilon(spent.second_amount) <= self.max_epsilon
        )
        return holds_by_mu or super()._fits_under_cap(spent)


@dataclass(frozen=True)
class GaussianFirst(RenyiFilter):
    """A filter that becomes `GaussianAndRenyi` if the first charged event is Gaussian, and else `RenyiFilter`."""

    name: ClassVar[str] = "gaussian_first"

    def fixed_by(self, first_event: Event) -> PrivacyFilter:
        """Returns the filter for a data set whose first charged event is `first_event`.

        That is a `GaussianAndRenyi` for a Gaussian event, and a `RenyiFilter` for another event.
        """
        filter_class = GaussianAndRenyi if _is_gaussian(first_event) else RenyiFilter
        chosen_filter = filter_class(
            max_epsilon=self.max_epsilon,
            target_delta=self.target_delta,
            max_failure_prob=self.max_failure_prob,
            order=self.order,
            plans_failures=self.plans_failures,
        )
        return chosen_filter.fixed_by(first_event)


@dataclass(frozen=True)
class GaussianOrRenyi(RenyiFilter):
    """A filter of earlier ledgers: `GaussianFilter` if the first charged event is Gaussian, and else `RenyiFilter`.

    New ledgers get `GaussianFirst` instead. After a Gaussian first event, only events that `GaussianFilter` can sum are
    admitted: Gaussian events, winners of noisy counts, and pure DP.
    """

    name: ClassVar[str] = "gaussian_or_renyi"

    def fixed_by(self, first_event: Event) -> PrivacyFilter:
        """Returns the filter for a data set whose first charged event is `first_event`.

        That is a `GaussianFilter` for a Gaussian event, and a `RenyiFilter` for another event.
        """
        max_failure_prob = self.max_failure_prob
        if not _is_gaussian(first_event):
            renyi_filter = RenyiFilter(
                max_epsilon=self.max_epsilon,
                target_delta=self.target_delta,
                max_failure_prob=max_failure_prob,
                order=self.order,
                plans_failures=self.plans_failures,
            )
            return renyi_filter.fixed_by(first_event)
        if max_failure_prob is None and failure_probability(first_event) == 0:
            max_failure_prob = 0.0
        gaussian_filter = GaussianFilter(
            max_epsilon=self.max_epsilon,
            target_delta=self.target_delta,
            max_failure_prob=max_failure_prob,
            plans_failures=self.plans_failures,
        )
        # If the part of delta for failures is still open, the first event determines it.
        return gaussian_filter.fixed_by(first_event)


@dataclass(frozen=True)
class FormerZCdpFilter(PrivacyFilter):
    """The filter of ledgers of version 0.1 that summed the rho of zCDP; it now admits events of pure DP only.

    A filter is fixed before the first release, so such a ledger may not switch to another filter. Every amount here is
    infinite, except for an event that releases nothing. So an event is admitted only if all events, earlier ones
    included, are pure DP and their epsilons sum to at most the cap.
    """

    name: ClassVar[str] = "zcdp"
    _unit_template: ClassVar[str] = "rho of zCDP"

    def amount(self, event: Event) -> float:
        """Returns infinity, or 0 for an event that releases nothing, so that only a sum of pure epsilons can fit."""
        return 0.0 if count_leaves(event).kinds <= {events.NoOpEvent} else math.inf

    def epsilon(self, amount: float) -> float:
        """Returns infinity, or 0 for an amount of 0."""
        return math.inf if amount else 0.0


FILTERS = {
    kind.name: kind
    for kind in (
        RenyiFilter,
        GaussianFilter,
        GaussianAndRenyi,
        GaussianFirst,
        GaussianOrRenyi,
        FormerZCdpFilter,
    )
}
"""The classes of filters that the file of a ledger may name, by name."""


def default_filter(accountant: Accountant) -> FilterMaker:
    """Returns the class of filters that suits the totals of an accountant, and that can price every event.

    For the exact, PLD and auto accountants that is `GaussianFirst`, which counts Gaussian events almost without loss.
    For other accountants that is `RenyiFilter`.
    """
    return GaussianFirst if accountant.name in ("exact", "pld", "auto") else RenyiFilter


def filter_from_json(
    filter_json: Mapping[str, Any], *, max_epsilon: float, target_delta: float
) -> PrivacyFilter:
    """Returns the filter that `PrivacyFilter.to_json` wrote.

    Args:
        filter_json: the name and the parameters of the filter.
        max_epsilon: the cap.
        target_delta: the delta.

    Raises:
        InvalidValue: the name or a parameter is unknown to this version.
    """
    # Earlier versions wrote no `plans_failures`.
    filter_parameters = {"plans_failures": False} | dict(filter_json)
    filter_name = str(filter_parameters.pop("name", None))
    filter_class = FILTERS[require_choice("filter", filter_name, choices=tuple(FILTERS))]
    try:
        return filter_class(max_epsilon=max_epsilon, target_delta=target_delta, **filter_parameters)
    except TypeError as error:
        parameter_names = ", ".join(
            parameter_name for parameter_name in filter_json if parameter_name != "name"
        )
        rule = f"parameters of this version, found {parameter_names}"
        raise InvalidValue("filter", filter_class.name, rule=rule) from error
