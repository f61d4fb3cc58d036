"""The total of several releases: an epsilon that holds in whatever order the releases were made and shown.

Optimal composition gives a bound for one order of the events, in which each release may depend on the earlier ones. So
it is used where the order does not change the bound, such as for equal events. Otherwise an accountant is used whose
bounds hold for every order (docs/proofs/composition.md, "Any order").
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from pate.accounting.accountant import Accountant
from pate.accounting.auto import AutoAccountant
from pate.accounting.event_tree import leaves, nodes, priced_by_accesses
from pate.accounting.events import Event, GaussianEvent, NoOpEvent, SessionEvent
from pate.accounting.rdp import RdpAccountant
from pate.validation import InvalidValue

AccountantMaker = Callable[[], Accountant]
# The kinds of events whose position among the others does not change the bound.
_KINDS_OF_ANY_POSITION = (GaussianEvent, NoOpEvent)


def total_epsilon(
    events: Iterable[Event], target_delta: float, *, accountant: AccountantMaker = AutoAccountant
) -> float:
    """Returns an epsilon of all events together that holds in whatever order the events were released.

    The prices must have been fixed before the first release. Source: docs/proofs/composition.md, "Any order".

    Args:
        events: the prices of the releases.
        target_delta: the delta of the total, in (0, 1).
        accountant: makes an empty accountant. Where the order matters to this accountant, the function takes another
            one whose bounds hold for every order: for `AutoAccountant` its version for every order, and for any other
            `RdpAccountant`.

    Raises:
        InvalidValue: the failure probabilities of the events sum to `target_delta` or more, or the accountant cannot
            price an event.

    >>> from pate.accounting import BoundedRangeEvent, PureDpEvent, SelfComposedEvent
    >>> pure, ranges = SelfComposedEvent(PureDpEvent(0.1), 60), SelfComposedEvent(BoundedRangeEvent(0.2), 60)
    >>> [round(total_epsilon(order, 1e-6), 3) for order in ([pure, ranges], [ranges, pure])]
    [5.698, 5.698]
    """
    count_of_event = Counter(events)
    interleaved_events = frozenset(event for event in count_of_event if is_session(event))
    has_one_order = have_one_order(count_of_event, interleaved_events=interleaved_events)
    make_accountant = accountant if has_one_order else in_any_order(make_accountant=accountant)
    return make_accountant().compose_all(count_of_event.items()).get_epsilon(target_delta)


class TotalPrice(NamedTuple):
    """The price of several releases together: an epsilon at a delta."""

    epsilon: float
    delta: float


def total_price(
    events: Sequence[Event],
    deltas_of_releases: Sequence[float],
    *,
    accountant: AccountantMaker = AutoAccountant,
) -> TotalPrice:
    """Returns the price of several releases together, which were priced at deltas of their own.

    The total is at the largest of the deltas. If the failure probabilities of all releases sum to that delta or more,
    the total is at the sum of the deltas, and infinite if the sum is 1 or more. As in `total_epsilon`, the order of the
    releases is free, and the prices must have been fixed before the first release.

    Args:
        events: the price of each release.
        deltas_of_releases: the delta of each release, in (0, 1), above its failure probability.
        accountant: makes an empty accountant, as in `total_epsilon`.
    """
    make_accountant = accountant
    delta_of_total = max(deltas_of_releases)
    try:
        epsilon = total_epsilon(events, target_delta=delta_of_total, accountant=make_accountant)
    except InvalidValue:
        # The failure probabilities use up the largest delta.
        delta_of_total = math.fsum(deltas_of_releases)
        if delta_of_total >= 1:
            return TotalPrice(epsilon=math.inf, delta=1.0)
        epsilon = total_epsilon(events, target_delta=delta_of_total, accountant=make_accountant)
    return TotalPrice(epsilon=epsilon, delta=delta_of_total)


def have_one_order(
    count_of_event: Counter[Event], *, interleaved_events: frozenset[Event] = frozenset()
) -> bool:
    """Returns True if optimal composition gives the same bound for every order of the events.

    That is so if all events are equal, Gaussian events aside: the bound of a Gaussian does not depend on its position.

    Args:
        count_of_event: the distinct events, with the number of times that each was released.
        interleaved_events: events of which single steps (leaves) may have been released between other events. For these
            events the steps have to be equal, and not only the events.
    """
    if count_of_event.total() <= 1:
        return True
    different_steps: set[Event] = set()
    for event in count_of_event:
        steps: set[Event] = {
            leaf
            for leaf, times in leaves(priced_by_accesses(event))
            if times and not isinstance(leaf, _KINDS_OF_ANY_POSITION)
        }
        if steps and event not in interleaved_events:
            steps = {event}
        different_steps |= steps
        if len(different_steps) > 1:
            return False
    return True


def is_session(event: Event) -> bool:
    """Returns True if an event contains the price of a session.

    A session shows its answers one after another, so other releases may lie between its answers.
    """
    return any(isinstance(node, SessionEvent) for node, _ in nodes(event))


def in_any_order(make_accountant: AccountantMaker) -> AccountantMaker:
    """Returns a function that makes an empty accountant whose bounds hold for every order of the events.

    Returns `make_accountant` itself where its bounds already do. Otherwise returns the version for every order of
    `AutoAccountant`, and `RdpAccountant` for any other accountant.

    Args:
        make_accountant: makes an empty accountant.
    """
    empty_accountant = make_accountant()
    if empty_accountant.any_event_order:
        return make_accountant
    if isinstance(empty_accountant, AutoAccountant):
        return partial(AutoAccountant, any_event_order=True)
    return RdpAccountant
