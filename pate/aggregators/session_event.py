"""The price of a session under target charging, by its hits or by its accesses to the private data.

`pate.accounting.target_charging` explains calls, targets, hits and accesses, and `pate.aggregators.boundary` the
boundary wrapper. Here a call is the mechanism on one query.

Source: Cohen & Lyu 2023; docs/proofs/hits.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

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
from pate.accounting import target_charging as charging
from pate.array_types import FloatArray
from pate.validation import InvalidValue, require_count, require_positive

# With a larger epsilon of a call, targets are hit too rarely for a price by hits or by accesses.
_LARGEST_EPSILON = 30.0


# Calibration asks for the price of one session again and again, and a price by hits takes a search.
@lru_cache(maxsize=1024)
def session_event(
    make_q_target: Callable[[float], charging.QTarget],
    call_epsilon: float,
    *,
    target_hits: int,
    num_calls: int,
    session_delta: float,
    total_failure_prob: float = 0.0,
    has_bounded_range: bool | None = None,
    other_releases_event: Event | None = None,
) -> Event:
    """Returns the price of a session of at most `num_calls` queries that halts after `target_hits` hits.

    Two prices hold, and the lower one is returned. Which one is lower depends on public numbers. If `call_epsilon` is
    above 30, the price of all queries is returned, each with twice that epsilon, which covers an access of any target.

    - **By accesses.** With a probability of at least 1 - overrun, the queries access the private data at most n times.
      The price of n accesses is composed, and overrun is taken from delta. If n is not below `num_calls`, the price of
      all queries is composed, and there is no overrun.
    - **By hits.** A `SessionEvent` bounds the privacy loss of `target_hits` hits directly (docs/proofs/hits.md). For
      queries outside the boundary wrapper this price is computed only if `other_releases_event` is given.

    Args:
        make_q_target: returns the q-target of a query, which has the epsilon of an access and the least probability
            that an access hits, given `call_epsilon`: `charging.not_prior` or `charging.tight_boundary`.
        call_epsilon: the pure-DP epsilon of the mechanism on one query, > 0.
        target_hits: the number of hits after which the session halts, >= 1.
        num_calls: the largest number of queries, >= 0.
        session_delta: the delta at which the two prices are compared, and for which the best overrun is computed.
        total_failure_prob: the sum of the failure probabilities of all queries, less than `session_delta`.
        has_bounded_range: None for queries outside the boundary wrapper. For queries inside, True if the log-likelihood
            ratios of one query span at most `call_epsilon`, and else False.
        other_releases_event: the event of the releases that are made together with the session, in any order; None
            without any. The comparison of the two prices takes them into account.

    Raises:
        InvalidValue: `total_failure_prob` is not less than `session_delta`.
    """
    require_positive("epsilon", call_epsilon)
    if require_count("num_calls", num_calls, minimum=0) == 0:
        return NoOpEvent()
    if total_failure_prob >= session_delta:
        rule = (
            f"a sum over all calls below session_delta, and {total_failure_prob:.3g} over "
            f"{num_calls} calls uses up session_delta={session_delta}"
        )
        raise InvalidValue("failure_prob", rule=rule)
    if call_epsilon > _LARGEST_EPSILON:
        # Twice the epsilon covers an access of every target.
        return _composed_pure_dp(
            epsilon=2 * call_epsilon,
            num_mechanisms=num_calls,
            failure_prob=total_failure_prob,
        )
    q_target = make_q_target(call_epsilon)
    access_limit = _access_limit(
        q_target,
        target_hits=target_hits,
        num_calls=num_calls,
        session_delta=session_delta,
        total_failure_prob=total_failure_prob,
    )
    event_by_accesses = _composed_pure_dp(
        epsilon=q_target.epsilon,
        num_mechanisms=access_limit.num_accesses,
        failure_prob=access_limit.overrun_prob + total_failure_prob,
    )
    if has_bounded_range is None and other_releases_event is None:
        return event_by_accesses
    session_of_hits = _session_of_hits(
        q_target,
        access_limit=access_limit,
        target_hits=target_hits,
        num_calls=num_calls,
        call_epsilon=call_epsilon,
        has_bounded_range=has_bounded_range,
    )
    event_by_hits = ApproximateEvent(session_of_hits, failure_prob=total_failure_prob)
    return _cheaper(
        event_by_hits,
        event_by_accesses,
        other_releases_event=other_releases_event,
        session_delta=session_delta,
    )


@dataclass(frozen=True)
class _AccessLimit:
    """The number of accesses to the private data that the price of a session covers.

    Attributes:
        num_accesses: the number of accesses.
        overrun_prob: the largest probability that a session has more accesses.
    """

    num_accesses: int
    overrun_prob: float


def _access_limit(
    q_target: charging.QTarget,
    *,
    target_hits: int,
    num_calls: int,
    session_delta: float,
    total_failure_prob: float,
) -> _AccessLimit:
    """Returns how many accesses to the private data the price of a session covers, with the probability of more.

    Fewer accesses cost less, but the probability of more is taken from delta. The number with the lowest price is
    returned. If it is not below `num_calls`, the price covers one access for each query, and there are never more.

    Args:
        q_target: the target of one query.
        target_hits: as in `session_event`, like the other arguments.
        num_calls: the largest number of queries.
        session_delta: the delta that is split.
        total_failure_prob: the sum of the failure probabilities of all queries, also taken from delta.
    """
    all_calls = _AccessLimit(num_accesses=num_calls, overrun_prob=0.0)
    overrun_prob = charging.overrun_probability(
        num_calls, target_hits=target_hits, hit_prob=q_target.hit_prob
    )
    if overrun_prob >= session_delta:
        return all_calls
    session_price = charging.best_session_price(
        q_target,
        target_hits=target_hits,
        use_bound_by_play=False,
        target_delta=session_delta,
        failure_prob=total_failure_prob,
    )
    if session_price.num_accesses >= num_calls:
        return all_calls
    return _AccessLimit(
        num_accesses=session_price.num_accesses, overrun_prob=session_price.overrun_prob
    )


def _session_of_hits(
    q_target: charging.QTarget,
    *,
    access_limit: _AccessLimit,
    target_hits: int,
    num_calls: int,
    call_epsilon: float,
    has_bounded_range: bool | None,
) -> SessionEvent:
    """Returns the event that prices a session by its hits; the failures of queries are no part of it.

    Args:
        q_target: the target of one query.
        access_limit: the accesses to the private data that a price by accesses covers; the event holds that price for
            accountants that cannot price hits.
        target_hits: as in `session_event`, like the next three arguments.
        num_calls: the largest number of queries.
        call_epsilon: the pure-DP epsilon of the mechanism on one query.
        has_bounded_range: None for queries outside the boundary wrapper. For queries inside, True if the log-likelihood
            ratios of one query span at most `call_epsilon`, and else False.
    """
    accesses_event = _composed_pure_dp(
        epsilon=q_target.epsilon,
        num_mechanisms=access_limit.num_accesses,
        failure_prob=access_limit.overrun_prob,
    )
    if has_bounded_range is None:
        return SessionEvent(
            epsilon=q_target.epsilon,
            hit_prob=q_target.hit_prob,
            target_hits=target_hits,
            num_calls=num_calls,
            accesses=accesses_event,
        )
    # The hits are priced by the laws of the calls themselves.
    return BoundarySessionEvent(
        epsilon=q_target.epsilon,
        hit_prob=q_target.hit_prob,
        target_hits=target_hits,
        num_calls=num_calls,
        accesses=accesses_event,
        call_epsilon=call_epsilon,
        bounded_range=has_bounded_range,
    )


def _composed_pure_dp(epsilon: float, num_mechanisms: int, failure_prob: float) -> Event:
    """Returns the price of `num_mechanisms` mechanisms of pure DP together.

    Args:
        epsilon: the pure-DP epsilon of each mechanism.
        num_mechanisms: the number of mechanisms.
        failure_prob: the probability that the price does not hold, taken from delta.
    """
    mechanisms_event = SelfComposedEvent(PureDpEvent(epsilon), count=num_mechanisms)
    return ApproximateEvent(mechanisms_event, failure_prob=failure_prob)


def _cheaper(
    event_by_hits: Event,
    event_by_accesses: Event,
    *,
    other_releases_event: Event | None,
    session_delta: float,
) -> Event:
    """Returns that one of two prices of the same session whose epsilon at `session_delta` is lower.

    Either epsilon is that of the session together with the other releases.

    Args:
        event_by_hits: the price of the session by its hits.
        event_by_accesses: the price of the session by its accesses.
        other_releases_event: the event of the other releases; None without any.
        session_delta: the delta of the comparison.
    """
    if other_releases_event is None:
        # Accesses alone are mechanisms of pure DP, whose accountant composes them optimally.
        pure_account = PureDpAccountant().compose(event_by_accesses)
        price_of_accesses = pure_account.get_epsilon(session_delta)
        price_of_hits = RdpAccountant().compose(event_by_hits).get_epsilon(session_delta)
        return event_by_hits if price_of_hits < price_of_accesses else event_by_accesses
    hits_account = RdpAccountant().compose(ComposedEvent((event_by_hits, other_releases_event)))
    accesses_account = RdpAccountant().compose(
        ComposedEvent((event_by_accesses, other_releases_event))
    )
    if accesses_account.failure_prob >= session_delta:
        return event_by_hits if hits_account.failure_prob < session_delta else event_by_accesses
    price_of_hits = hits_account.get_epsilon(session_delta)
    price_of_accesses = accesses_account.get_epsilon(session_delta)
    return event_by_hits if price_of_hits < price_of_accesses else event_by_accesses


def bit_epsilon(probabilities: FloatArray, sensitivity: int) -> float:
    """Returns the pure-DP epsilon of a random bit that depends on an integer statistic.

    Args:
        probabilities: the probability that the bit is 1, for consecutive values of the statistic.
        sensitivity: the largest distance by which one change moves the statistic.
    """
    largest_log_move = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        for log_probabilities in (np.log(probabilities), np.log1p(-probabilities)):
            for step in range(1, min(sensitivity, len(log_probabilities) - 1) + 1):
                log_moves = np.abs(log_probabilities[step:] - log_probabilities[:-step])
                # A move is NaN if the outcome has probability 0 at both values. Then nothing moves.
                largest_log_move = max(
                    largest_log_move, float(np.where(np.isnan(log_moves), 0.0, log_moves).max())
                )
    return largest_log_move
