"""A cap on the charges of one data set: a privacy filter, with the sum of the charges that it has counted."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import NamedTuple

from pate import validation
from pate.accounting.events import Event
from pate.accounting.filters import FormerZCdpFilter, PrivacyFilter, Spent
from pate.accounting.ledger_entry import LedgerEntry
from pate.accounting.running_total import event_rows
from pate.validation import InvalidValue

_SIX_DIGIT_CAPS = range(18 * 900_000)
"""The positions of all numbers of six digits from 1e-12 to 999,999, in rising order."""


class BudgetExceeded(InvalidValue):
    """The error for a charge that would take the ledger above its cap; nothing was charged and nothing is released."""


class _CountedCharges(NamedTuple):
    """The sum of the first `num_charges` charges, in the unit of the filter that the first charge determined."""

    fixed_filter: PrivacyFilter | None  # None before the first charge
    spent: Spent
    num_charges: int


class Cap:
    """A limit on the sum of the charges of one data set, which a privacy filter enforces.

    The first charge determines the filter. The filter may depend on the first charge, because nothing was released
    before (docs/proofs/filters.md). The first charge also fits where an accountant computes for it alone an epsilon of
    at most the cap, because its price was fixed before any release.

    Args:
        rule: the filter before the first charge, with the cap as its `max_epsilon`.
        entries: the charges of the data set. The caller appends later charges to this list, and the cap counts them.
    """

    def __init__(self, rule: PrivacyFilter, entries: list[LedgerEntry]) -> None:
        self.rule = rule
        self._entries = entries
        self._counted = _CountedCharges(fixed_filter=None, spent=Spent(), num_charges=0)

    def filter_and_spent(self) -> tuple[PrivacyFilter | None, Spent]:
        """Returns the filter, which is None before the first charge, and the summed prices of all charges."""
        fixed_filter, spent, num_counted = self._counted
        uncounted = self._entries[num_counted:]
        if uncounted:
            fixed_filter = fixed_filter or self.rule.fixed_by(uncounted[0].event)
            for event, count in event_rows((entry.event, 1) for entry in uncounted):
                spent = spent.plus(fixed_filter.price(event), count)
            # One assignment, so that an interrupt leaves either the former state or the new state.
            self._counted = _CountedCharges(
                fixed_filter=fixed_filter,
                spent=spent,
                num_charges=num_counted + len(uncounted),
            )
        return fixed_filter, spent

    def affords(self, event: Event, *, first_epsilon: float) -> float:
        """Returns the number of times that an event can still be charged under the cap; infinity without a limit.

        Args:
            event: the price of one charge.
            first_epsilon: the accountant's epsilon of the event; infinity where the data set has a charge already.
        """
        fixed_filter, spent = self.filter_and_spent()
        count = (fixed_filter or self.rule.fixed_by(event)).affords(spent, event)
        return count or int(first_epsilon <= self.rule.max_epsilon)

    @property
    def failures_left(self) -> float | None:
        """The largest sum of the failure probabilities of all later charges; None before the first charge."""
        fixed_filter, spent = self.filter_and_spent()
        if fixed_filter is None:
            return None
        return max(0.0, fixed_filter.failures_allowed - float(spent.failure_prob))

    def require_room(self, event: Event, *, first_epsilon: float) -> None:
        """Raises `BudgetExceeded` where a charge of the event would exceed the cap, or the failures that are allowed.

        Args:
            event: the price of the charge.
            first_epsilon: the accountant's epsilon of the event; infinity where the data set has a charge already.
        """
        fixed_filter, spent = self.filter_and_spent()
        deciding_filter = fixed_filter or self.rule.fixed_by(event)
        if deciding_filter.admits(spent, event) or first_epsilon <= deciding_filter.max_epsilon:
            return
        price = deciding_filter.price(event)
        if not deciding_filter.allows_failures(spent.plus(price)):
            failures_left = validation.rounded_down(
                max(deciding_filter.failures_allowed - float(spent.failure_prob), 0.0), digits=3
            )
            failures_of_release = validation.rounded_up(float(price.failure_prob), digits=3)
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
            enough = self._smallest_sufficient_cap(event, first_epsilon)
            rule = (
                f"at least {enough}, the total with this release, "
                f"by the {deciding_filter.name} filter"
            )
        raise BudgetExceeded("max_epsilon", deciding_filter.max_epsilon, rule=rule, owner="ledger")

    def _smallest_sufficient_cap(self, event: Event, first_epsilon: float) -> str:
        """Returns, as text, the smallest cap of six digits under which all charges and this event fit.

        The epsilon of the summed prices need not be such a cap, because a filter for another cap may count at another
        Renyi order. So the cap is found by bisection. Returns `inf` where no cap up to a million is large enough.

        Args:
            event: the price of the charge that did not fit.
            first_epsilon: the accountant's epsilon of the event; infinity where the data set has a charge already.
        """
        counts = Counter(entry.event for entry in self._entries)

        def admits_all(max_epsilon: float) -> bool:
            filter_for_cap = self.rule.for_cap(max_epsilon).fixed_by(next(iter(counts), event))
            spent = Spent()
            for charged_event, count in counts.items():
                spent = spent.plus(filter_for_cap.price(charged_event), count)
            return filter_for_cap.admits(spent, event) or first_epsilon <= max_epsilon

        def is_sufficient(position: int) -> bool:
            max_epsilon = _six_digit_cap(position)
            return max_epsilon > self.rule.max_epsilon and admits_all(max_epsilon)

        position = bisect_left(_SIX_DIGIT_CAPS, True, key=is_sufficient)
        return f"{_six_digit_cap(position):g}" if position in _SIX_DIGIT_CAPS else "inf"


def _six_digit_cap(position: int) -> float:
    """Returns the number at a position of `_SIX_DIGIT_CAPS`, the rising list of numbers with six digits."""
    digits = 100_000 + position % 900_000
    exponent = position // 900_000 - 17
    return float(f"{digits}e{exponent}")
