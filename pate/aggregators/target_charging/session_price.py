"""The price of a session of charged calls as an event that depends on public parameters alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache

from pate.accounting import (
    ApproximateEvent,
    BoundarySessionEvent,
    ComposedEvent,
    Event,
    NoOpEvent,
    PureDpAccountant,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
    SessionEvent,
)
from pate.accounting.target_charging import QTarget, best_session_price, overrun_probability
from pate.validation import InvalidValue, require_count, require_positive, require_probability

_LARGEST_EPSILON = 30.0  # of a call; beyond it a target is hit too rarely to count hits at all


@lru_cache(maxsize=1024)
def session_event(
    target_of: Callable[[float], QTarget],
    epsilon: float,
    *,
    target_hits: int,
    num_calls: int,
    session_delta: float,
    failure_prob: float = 0.0,
    bounded_range: bool | None = None,
    beside: Event | None = None,
) -> Event:
    """At most `num_calls` calls, halted by their hits: composed as many accesses as may happen, or priced by hits.

    Where the accesses that the hits allow are more than the calls, all calls are composed; then nothing can overrun.
    The event is a `SessionEvent` where that costs less; both prices hold (docs/proofs/hits.md).

    Args:
        target_of: the target of a call by its epsilon (`not_prior`, `tight_boundary`).
        epsilon: pure DP of one call, > 0.
        target_hits: tau, >= 1.
        num_calls: at most so many, >= 0.
        session_delta: what the split between overrun and composition is made for.
        failure_prob: the deltas of all calls together; a part of `session_delta`.
        bounded_range: of calls in the boundary wrapper: whether their log-likelihood ratios also span at most epsilon.
            None for other targets.
        beside: the releases that are composed with the session, in any order; which price is smaller depends on them.
            A session alone of calls that are not in the boundary wrapper is composed as its accesses.

    Raises:
        InvalidValue: the deltas of the calls reach `session_delta`.
    """
    require_positive("epsilon", epsilon)
    require_count("target_hits", target_hits)
    require_probability("session_delta", session_delta)
    if require_count("num_calls", num_calls, minimum=0) == 0:
        return NoOpEvent()
    if failure_prob >= session_delta:
        raise InvalidValue(
            f"failure_prob: {failure_prob:.3g} over {num_calls} calls uses up session_delta={session_delta}"
        )
    if epsilon > _LARGEST_EPSILON:  # twice the epsilon covers an access of every target
        return _composed(2 * epsilon, num_calls, failure_prob)
    target = target_of(epsilon)
    count, overrun = _accesses(target, target_hits, num_calls, session_delta, failure_prob)
    counted = _composed(target.epsilon, count, overrun + failure_prob)
    if bounded_range is None and beside is None:
        return counted
    session = SessionEvent(
        target.epsilon, target.hit_prob, target_hits, num_calls, _composed(target.epsilon, count, overrun)
    )
    by_hits = ApproximateEvent(_of_calls(session, epsilon, bounded_range), failure_prob)
    return by_hits if _hits_cost_less(by_hits, counted, beside, session_delta) else counted


def _of_calls(session: SessionEvent, call_epsilon: float, bounded_range: bool | None) -> SessionEvent:
    """The session, priced by its calls' own laws where they are in the boundary wrapper."""
    if bounded_range is None:
        return session
    known = {each.name: getattr(session, each.name) for each in fields(session)}
    return BoundarySessionEvent(**known, call_epsilon=call_epsilon, bounded_range=bounded_range)


def _hits_cost_less(by_hits: Event, counted: Event, beside: Event | None, delta: float) -> bool:
    """Accesses alone are composed optimally, as few accountants are asked for them then; else Renyi curves add up."""
    if beside is None:
        price = PureDpAccountant().compose(counted).get_epsilon(delta)
        return RdpAccountant().compose(by_hits).get_epsilon(delta) < price
    first, second = (RdpAccountant().compose(ComposedEvent((session, beside))) for session in (by_hits, counted))
    if second.failure_prob >= delta:
        return first.failure_prob < delta
    return first.get_epsilon(delta) < second.get_epsilon(delta)


def _accesses(
    target: QTarget, target_hits: int, num_calls: int, session_delta: float, failure_prob: float
) -> tuple[int, float]:
    """How many accesses are composed, and the probability that there are more."""
    if overrun_probability(num_calls, target_hits=target_hits, hit_prob=target.hit_prob) >= session_delta:
        return num_calls, 0.0
    price = best_session_price(
        target, target_hits=target_hits, target_delta=session_delta, failure_prob=failure_prob, by_play=False
    )
    return (num_calls, 0.0) if price.num_accesses >= num_calls else (price.num_accesses, price.overrun_prob)


def _composed(epsilon: float, count: int, failure_prob: float) -> Event:
    return ApproximateEvent(SelfComposedEvent(PureDpEvent(epsilon), count), failure_prob)
