"""The total of several releases: one bound, in whatever order they were made and shown."""

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
    """Returns an epsilon of all events together that holds in whatever order they were released.

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
    """Returns whether all orders of these events are alike to optimal composition.

    Gaussians count as its first steps wherever they were, and events that are all equal have one order. The steps of
    an event of `interleaved` may lie between those of others; then all steps must be equal.
    """
    if counts.total() <= 1:
        return True
    different: set[Event] = set()
    for event in counts:
        steps: set[Event] = {
            leaf
            for leaf, times in leaves(by_accesses(event))
            if times and not isinstance(leaf, _ANYWHERE)
        }
        if steps and event not in interleaved:
            steps = {event}
        different |= steps
        if len(different) > 1:
            return False
    return True


def is_session(event: Event) -> bool:
    """Returns whether an event pays for answers that are shown one after another, beside other releases."""
    return any(isinstance(part, SessionEvent) for part, _ in nodes(event))


def in_any_order(accountant: AccountantMaker) -> AccountantMaker:
    """Returns a maker of accountants whose figures hold for every order: the same where it can be, or Renyi's."""
    empty = accountant()
    if empty.any_order:
        return accountant
    return (
        partial(AutoAccountant, any_order=True)
        if isinstance(empty, AutoAccountant)
        else RdpAccountant
    )
