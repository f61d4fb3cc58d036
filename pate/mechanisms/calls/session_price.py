"""The price of a session of calls of which each change can hit so many."""

from pate.accounting import ApproximateEvent, Event, PureDpEvent, SelfComposedEvent, target_charging
from pate.accounting.target_charging import QTarget


def session_event(target: QTarget, target_hits: int, failure_prob: float) -> Event:
    """Returns the price of a session, however many calls it has.

    Args:
        target: of each call.
        target_hits: the most hits that one change is part of, >= 1.
        failure_prob: the probability of more accesses than the price counts, in (0, 1).

    Source: Cohen & Lyu 2023; docs/proofs/target_charging.md.
    """
    num_accesses = target_charging.min_accesses(
        target_hits=target_hits, hit_prob=target.hit_prob, overrun_prob=failure_prob
    )
    accesses = SelfComposedEvent(PureDpEvent(target.epsilon), num_accesses)
    return ApproximateEvent(accesses, failure_prob)
