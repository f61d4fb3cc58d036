"""Caps on the charges of one data set: each a privacy filter, with the sum of the charges that it has counted."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from pate.accounting.accountant import Accountant
from pate.accounting.auto import AutoAccountant
from pate.accounting.event_tree import failure_probability
from pate.accounting.events import Event
from pate.accounting.filters import FormerZCdpFilter, PrivacyFilter, Spent
from pate.accounting.ledger_entry import LedgerEntry
from pate.accounting.rounding import ceil_to_digits, floor_to_digits
from pate.accounting.running_total import event_rows
from pate.validation import InvalidValue

# The positions of all numbers of six digits from 1e-12 to 999,999, in rising order.
_INDICES_OF_SIX_DIGIT_CAPS = range(18 * 900_000)


class BudgetExceeded(InvalidValue):
    """The error for a charge that a cap does not admit; nothing was charged and nothing is released."""


class _CountedCharges(NamedTuple):
    """The sum of the first `num_charges` charges, in the unit of the filter that the first charge determined."""

    fixed_filter: PrivacyFilter | None  # None before the first charge
    spent: Spent
    num_charges: int


class Cap:
    """A limit on the sum of the charges of one data set, which a privacy filter enforces.

    The first charge determines the filter. The filter may depend on the first charge, because nothing was released
    before (docs/proofs/filters.md). Even where the filter refuses the first charge, it fits if an accountant computes
    for it alone an epsilon of at most the cap, because its price was fixed before any release.

    Args:
        initial_filter: the filter before the first charge, with the cap as its `max_epsilon`.
        entries: the charges of the data set. The caller appends later charges to this list, and the cap counts them.
    """

    def __init__(self, initial_filter: PrivacyFilter, entries: list[LedgerEntry]) -> None:
        self.initial_filter = initial_filter
        self._entries = entries
        self._counted = _CountedCharges(fixed_filter=None, spent=Spent(), num_charges=0)

    def filter_and_spent(self) -> tuple[PrivacyFilter | None, Spent]:
        """Returns the filter, which is None before the first charge, and the summed prices of all charges."""
        fixed_filter, spent, num_counted = self._counted
        uncounted_entries = self._entries[num_counted:]
        if uncounted_entries:
            fixed_filter = fixed_filter or self.initial_filter.fixed_by(uncounted_entries[0].event)
            for event, count in event_rows((entry.event, 1) for entry in uncounted_entries):
                spent = spent.plus(fixed_filter.price(event), num_times=count)
            # One assignment, so that an interrupt leaves either the former state or the new state.
            self._counted = _CountedCharges(
                fixed_filter=fixed_filter,
                spent=spent,
                num_charges=num_counted + len(uncounted_entries),
            )
        return fixed_filter, spent

    def affords(self, event: Event, *, epsilon_if_first: float) -> float:
        """Returns the number of times that an event can still be charged under the cap; infinity without a limit.

        Args:
            event: the price of one charge.
            epsilon_if_first: an epsilon of the event as the first charge; infinity where the data set has one already.
        """
        fixed_filter, spent = self.filter_and_spent()
        deciding_filter = fixed_filter or self.initial_filter.fixed_by(event)
        num_affordable = deciding_filter.affords(spent, event)
        if num_affordable == 0 and epsilon_if_first <= self.initial_filter.max_epsilon:
            return 1
        return num_affordable

    @property
    def failures_left(self) -> float | None:
        """The largest sum of the failure probabilities of all later charges; None before the first charge."""
        fixed_filter, spent = self.filter_and_spent()
        if fixed_filter is None:
            return None
        return max(0.0, fixed_filter.failures_allowed - float(spent.failure_prob))

    def require_room(self, event: Event, *, epsilon_if_first: float) -> None:
        """Raises `BudgetExceeded` where a charge of the event would exceed the cap, or the failures that are allowed.

        A first charge passes in any case where `epsilon_if_first` is at most the cap.

        Args:
            event: the price of the charge.
            epsilon_if_first: an epsilon of the event as the first charge; infinity where the data set has one already.
        """
        fixed_filter, spent = self.filter_and_spent()
        deciding_filter = fixed_filter or self.initial_filter.fixed_by(event)
        if deciding_filter.admits(spent, event) or epsilon_if_first <= deciding_filter.max_epsilon:
            return
        event_price = deciding_filter.price(event)
        if not deciding_filter.allows_failures(spent.plus(event_price)):
            failures_left = floor_to_digits(
                max(deciding_filter.failures_allowed - float(spent.failure_prob), 0.0),
                num_digits=3,
            )
            failures_of_release = ceil_to_digits(float(event_price.failure_prob), num_digits=3)
            rule = (
                f"a release whose failures take at most {failures_left} of "
                f"target_delta={deciding_filter.target_delta}, not {failures_of_release}; "
                "a smaller failure_prob fits, which calibrated(ledger=…) chooses"
            )
        elif isinstance(deciding_filter, FormerZCdpFilter):
            rule = (
                "another ledger for new releases, as this cap counts rho of zCDP, in which only pure DP has room; "
                "what both ledgers cost together is the sum of their totals"
            )
        else:
            enough = self._smallest_sufficient_cap(event, epsilon_if_first)
            rule = (
                f"at least {enough}, the total with this release, "
                f"by the {deciding_filter.name} filter"
            )
        raise BudgetExceeded("max_epsilon", deciding_filter.max_epsilon, rule=rule, owner="ledger")

    def _smallest_sufficient_cap(self, event: Event, epsilon_if_first: float) -> str:
        """Returns, as text, the smallest cap of six digits under which all charges and this event fit.

        The epsilon of the summed prices need not be such a cap, because a filter for another cap may count at another
        Renyi order. So the cap is found by bisection. Returns `inf` where no cap below a million is large enough.

        Args:
            event: the price of the charge that did not fit.
            epsilon_if_first: an epsilon of the event as the first charge; infinity where the data set has one already.
        """
        count_of_event = Counter(entry.event for entry in self._entries)

        def admits_all(max_epsilon: float) -> bool:
            filter_for_cap = self.initial_filter.for_cap(max_epsilon).fixed_by(
                next(iter(count_of_event), event)
            )
            spent = Spent()
            for charged_event, count in count_of_event.items():
                spent = spent.plus(filter_for_cap.price(charged_event), num_times=count)
            return filter_for_cap.admits(spent, event) or epsilon_if_first <= max_epsilon

        def is_sufficient(cap_index: int) -> bool:
            max_epsilon = _six_digit_cap(cap_index)
            return max_epsilon > self.initial_filter.max_epsilon and admits_all(max_epsilon)

        cap_index = bisect_left(_INDICES_OF_SIX_DIGIT_CAPS, x=True, key=is_sufficient)
        return (
            f"{_six_digit_cap(cap_index):g}" if cap_index in _INDICES_OF_SIX_DIGIT_CAPS else "inf"
        )


class Caps:
    """The caps on the charges of one data set, all of which must admit a charge.

    There are up to two caps: that of the ledger's file, and a smaller one that the caller has named, which is then the
    first. A cap that the caller has named is the only one where the file has none.

    Args:
        initial_filters: the filters before the first charge, the smallest cap first; empty without a cap.
        entries: the charges of the data set. The caller appends later charges to this list, and the caps count them.
        make_accountant: makes the empty accountant of the data set's ledger.
        target_delta: the delta of every total.
    """

    def __init__(
        self,
        initial_filters: list[PrivacyFilter],
        entries: list[LedgerEntry],
        *,
        make_accountant: Callable[[], Accountant],
        target_delta: float,
    ) -> None:
        self._caps = [
            Cap(initial_filter=initial_filter, entries=entries)
            for initial_filter in initial_filters
        ]
        self._entries = entries
        self._make_accountant = make_accountant
        self._target_delta = target_delta
        # the smallest cap; None without a cap
        self.max_epsilon = initial_filters[0].max_epsilon if initial_filters else None

    @property
    def filter(self) -> PrivacyFilter | None:
        """The filter that enforces the smallest cap; None without a cap, and before the first charge."""
        return self._caps[0].filter_and_spent()[0] if self._caps else None

    @property
    def left(self) -> float | None:
        """The amount that can still be charged under the smallest cap; None without a cap or before any charge."""
        if not self._caps:
            return None
        fixed_filter, spent = self._caps[0].filter_and_spent()
        return None if fixed_filter is None else fixed_filter.left(spent)

    @property
    def failures_left(self) -> float:
        """The largest sum of the failure probabilities of all later charges; infinite without a cap.

        Under a cap it is 0 before the first charge, which determines the filter; `Ledger.failures_left` differs there.
        """
        return min((cap.failures_left or 0.0 for cap in self._caps), default=math.inf)

    def affords(self, event: Event) -> float:
        """Returns the number of times that an event can still be charged; infinity without a limit."""
        epsilon_if_first = self._epsilon_if_first(event)
        charges_left_under_caps = (
            cap.affords(event, epsilon_if_first=epsilon_if_first) for cap in self._caps
        )
        return min(charges_left_under_caps, default=math.inf)

    def require_room(self, event: Event) -> None:
        """Raises `BudgetExceeded` where a charge of the event would exceed a cap, or the failures that are allowed."""
        epsilon_if_first = self._epsilon_if_first(event)
        for cap in self._caps:
            cap.require_room(event, epsilon_if_first=epsilon_if_first)

    def _epsilon_if_first(self, event: Event) -> float:
        """Returns the epsilon of an event as the first charge of the data set.

        Returns infinity if the data set has a charge already, or has no cap, or if the failure probabilities of the
        event sum to `target_delta` or more.

        The price of the first charge is fixed before anything is released. Any valid bound on such a price may be used
        (docs/proofs/filters.md), whichever accountant computes it. So where the ledger's own accountant computes an
        epsilon above the smallest cap, the default accountant computes one, too, and the smaller one is returned.
        """
        if self._entries or self.max_epsilon is None:
            return math.inf
        epsilon = epsilon_of_one(
            event, make_accountant=self._make_accountant, target_delta=self._target_delta
        )
        if epsilon <= self.max_epsilon or failure_probability(event) >= self._target_delta:
            return epsilon
        return min(epsilon, AutoAccountant().compose(event).get_epsilon(self._target_delta))


def epsilon_of_one(
    event: Event, *, make_accountant: Callable[[], Accountant], target_delta: float
) -> float:
    """Returns the epsilon of one event at `target_delta`, without other charges.

    Returns infinity where the accountant cannot price the event, or where the failure probabilities of the event sum to
    `target_delta` or more.
    """
    try:
        return make_accountant().compose(event).get_epsilon(target_delta)
    except InvalidValue:
        return math.inf


def _six_digit_cap(cap_index: int) -> float:
    """Returns the number at a position, from 0 on, in the rising list of numbers with six digits from 1e-12 on."""
    digits = 100_000 + cap_index % 900_000
    exponent = cap_index // 900_000 - 17
    return float(f"{digits}e{exponent}")
