"""The price of a session, known before its first call: delta split between overrunning and composing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pate.accounting.pure_composition import pure_dp_composition_epsilon
from pate.accounting.target_charging.overrun import min_accesses, overrun_probability
from pate.accounting.target_charging.targets import Target
from pate.validation import InvalidValue, require_count, require_non_negative, require_probability

_SPLITS = 64
_SMALLEST_SHARE, _LARGEST_SHARE = 1e-3, 0.999


@dataclass(frozen=True, slots=True)
class Price:
    """What a whole session costs, at most.

    Attributes:
        epsilon: at `delta`.
        delta: of the whole session.
        num_accesses: how many accesses were composed.
        overrun_prob: the probability of more accesses than that, for one counter; a part of `delta`.
    """

    epsilon: float
    delta: float
    num_accesses: int
    overrun_prob: float


def best_price(
    target: Target,
    *,
    target_hits: int,
    target_delta: float,
    num_counters: int = 1,
    failure_prob: float = 0.0,
) -> Price:
    """The smallest epsilon over up to 64 splits of delta, by optimal composition of pure DP.

    Every split gives a valid bound; an overrun takes between a thousandth of delta and nearly all of it.
    Optimal composition is never above the Renyi bound, so no second bound is tried.

    Args:
        target: of every call, or one that covers all of them.
        target_hits: tau, hits after which the session halts, >= 1.
        target_delta: of the whole session.
        num_counters: how many targets are counted apart; the session ends with the one hit least, and delta is shared
            equally among them.
        failure_prob: the sum of the deltas of the calls, >= 0.

    Raises:
        InvalidValue: the deltas of the calls leave nothing of `target_delta`.
    """
    hits = require_count("target_hits", target_hits)
    left = require_probability("target_delta", target_delta) / require_count("num_counters", num_counters)
    left -= require_non_negative("failure_prob", failure_prob)
    if left <= 0:
        raise InvalidValue(f"failure_prob={failure_prob}: expected less than target_delta / num_counters")
    few, many = (
        min_accesses(target_hits=hits, hit_prob=target.hit_prob, overrun_prob=share * left)
        for share in (_LARGEST_SHARE, _SMALLEST_SHARE)
    )
    prices = []
    for num_accesses in np.unique(np.linspace(few, many, _SPLITS).astype(np.int64)).tolist():
        overrun = overrun_probability(num_accesses, target_hits=hits, hit_prob=target.hit_prob)
        epsilon = pure_dp_composition_epsilon(target.epsilon, count=num_accesses, target_delta=left - overrun)
        prices.append(Price(epsilon, target_delta, num_accesses, overrun))
    return min(prices, key=lambda price: price.epsilon)
