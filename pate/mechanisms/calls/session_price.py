"""The price of a session of target charging in which one record can affect a limited number of hits."""

from pate.accounting import ApproximateEvent, Event, PureDpEvent, SelfComposedEvent, session_price
from pate.accounting.q_targets import QTarget


def priced_session_event(
    target_set: QTarget, max_hits_of_record: int, failure_prob: float
) -> Event:
    """Returns the price of a session of target charging, for any number of calls.

    Args:
        target_set: the target of each call; a call whose outcome lies in the target is a hit.
        max_hits_of_record: the most hits of the session that one record can affect, >= 1.
        failure_prob: a bound on the probability that more accesses are made than the price counts, in (0, 1). A call
            either accesses the private data or costs nothing.

    Source: Cohen & Lyu 2023; docs/proofs/target_charging.md.
    """
    num_accesses = session_price.min_accesses(
        target_hits=max_hits_of_record, hit_prob=target_set.hit_prob, overrun_prob=failure_prob
    )
    accesses_event = SelfComposedEvent(PureDpEvent(target_set.epsilon), count=num_accesses)
    return ApproximateEvent(accesses_event, failure_prob=failure_prob)
