"""The total of several releases: one bound for whatever order they were made and shown in.

Optimal composition holds for the order of its steps: the adversary sees the earlier losses. So it serves where all
orders are alike, such as equal events. Elsewhere an accountant serves whose figures add up in any order
(docs/proofs/composition.md, "Any order").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from pate.accounting.accountant import Accountant
from pate.accounting.auto import AutoAccountant
from pate.accounting.event_tree import by_accesses, leaves, nodes
from pate.accounting.events import Event, GaussianEvent, NoOpEvent, SessionEvent
from pate.accounting.rdp import RdpAccountant

AccountantMaker = Callable[[], Accountant]
_ANYWHERE = (GaussianEvent, NoOpEvent)  # kinds whose place among the others changes no figure


def total_epsilon(
    events: Iterable[Event], target_delta: float, *, accountant: AccountantMaker = AutoAccountant
) -> float:
    """Returns an epsilon of all events together that holds for whatever order they were released in.

    The prices must have been fixed before the first release. Raises `InvalidValue` where failures use up delta.
    Source: docs/proofs/composition.md, "Any order".

    >>> from pate.accounting import BoundedRangeEvent, PureDpEvent, SelfComposedEvent
    >>> pure, ranges = SelfComposedEvent(PureDpEvent(0.1), 60), SelfComposedEvent(BoundedRangeEvent(0.2), 60)
    >>> [round(total_epsilon(order, 1e-6), 3) for order in ([pure, ranges], [ranges, pure])]
    [5.698, 5.698]
    """
    counts = Counter(events)
    interleaved = frozenset(event for event in counts if is_session(event))
    make = (
        accountant if have_one_order(counts, interleaved=interleaved) else in_any_order(accountant)
    )
    return make().compose_all(counts.items()).get_epsilon(target_delta)


def have_one_order(counts: Counter[Event], *, interleaved: frozenset[Event] = frozenset()) -> bool:
    """Returns True where all orders of these events are alike to optimal composition.

    Gaussians count as its first steps wherever they were, and events that are all equal have one order.

    Args:
        counts: the events, and how often each was released.
        interleaved: events whose steps may lie between the steps of other events. All steps must be equal then.
    """
    if counts.total() <= 1:
        return True
    different_steps: set[Event] = set()
    for event in counts:
        steps: set[Event] = {
            leaf
            for leaf, times in leaves(by_accesses(event))
            if times and not isinstance(leaf, _ANYWHERE)
        }
        if steps and event not in interleaved:
            steps = {event}
        different_steps |= steps
        if len(different_steps) > 1:
            return False
    return True


def is_session(event: Event) -> bool:
    """Returns True where an event pays for answers that are shown one after another, between other releases."""
    return any(isinstance(part, SessionEvent) for part, _ in nodes(event))


def in_any_order(accountant: AccountantMaker) -> AccountantMaker:
    """Returns a maker of accountants whose figures hold for every order: the same maker where it can be, or Renyi's."""
    empty = accountant()
    if empty.any_order:
        return accountant
    return (
        partial(AutoAccountant, any_order=True)
        if isinstance(empty, AutoAccountant)
        else RdpAccountant
    )
