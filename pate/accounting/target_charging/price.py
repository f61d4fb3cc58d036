"""The price of a session, known before its first call: delta split between overrunning and composing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pate.accounting.events import ApproximateEvent, Event, PureDpEvent
from pate.accounting.pure_composition import pure_dp_composition_epsilon
from pate.accounting.rdp import RdpAccountant
from pate.accounting.target_charging.best_play import best_play_epsilon
from pate.accounting.target_charging.hit_tail import min_accesses, overrun_probability
from pate.accounting.target_charging.targets import QTarget
from pate.validation import InvalidValue, require_count, require_kind, require_non_negative, require_probability

_FEWEST_SPLITS, _MOST_SPLITS = 8, 64
_WORK = 400_000  # accesses composed over all splits together: a price comes in less than a fifth of a second
_MOST_COMPOSED = 50_000  # accesses whose optimal composition is computed
_SMALLEST_SHARE, _LARGEST_SHARE = 1e-3, 0.999


@dataclass(frozen=True, slots=True)
class SessionPrice:
    """What a whole session costs, at most.

    Attributes:
        epsilon: at `delta`.
        delta: of the whole session.
        num_accesses: how many accesses an accountant has to compose for it.
        overrun_prob: the probability of more accesses than that, for one counter; a part of `delta`.
    """

    epsilon: float
    delta: float
    num_accesses: int
    overrun_prob: float

    @property
    def event(self) -> Event:
        """The price as an event: epsilon-DP, except with probability delta.

        Every (epsilon, delta)-DP release is of this kind (Kairouz, Oh & Viswanath 2015, Theorem 3.1). Composed with
        other events, `TargetCharging.event` is mostly cheaper, as it lists the accesses one by one.
        """
        return ApproximateEvent(PureDpEvent(self.epsilon), self.delta)


def best_session_price(
    target: QTarget,
    *,
    target_hits: int,
    target_delta: float,
    num_counters: int = 1,
    failure_prob: float = 0.0,
    by_play: bool = True,
) -> SessionPrice:
    """The smallest epsilon over up to 64 splits of delta, by optimal composition of pure DP; or that of the best play.

    Every split gives a valid bound; an overrun takes between a thousandth of delta and nearly all of it.
    Optimal composition is never above the Renyi bound, which is used for more than 50,000 accesses only.
    The best play is within a relative 1e-3 of the truth for q-target calls (docs/proofs/target_charging.md). It is
    found where hits are few, below some dozens.

    Args:
        target: of every call, or one that covers all of them.
        target_hits: tau, hits after which the session halts, >= 1.
        target_delta: of the whole session.
        num_counters: how many targets are counted apart; the session ends with the one hit least, and delta is shared
            equally among them.
        failure_prob: the sum of the deltas of the calls, >= 0.
        by_play: whether the best play is looked for. False where accesses are composed in any case.

    Raises:
        InvalidValue: the deltas of the calls leave nothing of `target_delta`.
    """
    require_kind("target", target, QTarget, "a QTarget")
    hits = require_count("target_hits", target_hits)
    left = require_probability("target_delta", target_delta) / require_count("num_counters", num_counters)
    left -= require_non_negative("failure_prob", failure_prob)
    if left <= 0:
        raise InvalidValue(f"failure_prob={failure_prob}: expected less than target_delta / num_counters")
    epsilon, num_accesses, overrun = _best_split(target, hits, left)
    if by_play:
        epsilon = min(epsilon, best_play_epsilon(target, target_hits=hits, target_delta=left, at_most=epsilon))
    return SessionPrice(epsilon, target_delta, num_accesses, overrun)


def _best_split(target: QTarget, target_hits: int, target_delta: float) -> tuple[float, int, float]:
    """The least epsilon over splits of delta, with how many accesses it composes and the probability of more."""
    few, many = (
        min_accesses(target_hits=target_hits, hit_prob=target.hit_prob, overrun_prob=share * target_delta)
        for share in (_LARGEST_SHARE, _SMALLEST_SHARE)
    )
    found = []
    splits = min(max(_WORK // many, _FEWEST_SPLITS), _MOST_SPLITS)
    for num_accesses in np.unique(np.linspace(few, many, splits).astype(np.int64)).tolist():
        overrun = overrun_probability(num_accesses, target_hits=target_hits, hit_prob=target.hit_prob)
        epsilon = _composed(target.epsilon, count=num_accesses, target_delta=target_delta - overrun)
        found.append((epsilon, num_accesses, overrun))
    return min(found)


def _composed(epsilon: float, *, count: int, target_delta: float) -> float:
    """Epsilon of `count` accesses: optimal, or by Renyi divergence where the optimum takes too long."""
    if count <= _MOST_COMPOSED:
        return pure_dp_composition_epsilon(epsilon, count=count, target_delta=target_delta)
    return min(count * epsilon, RdpAccountant().compose(PureDpEvent(epsilon), count).get_epsilon(target_delta))
