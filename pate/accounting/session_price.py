"""The price of a whole session of calls, which ends with its last hit, known before the first call.

An access to the data hits with probability q at least. So a session of tau hits accesses the data more than n times
with a probability of at most P[Bin(n, q) < tau], its *overrun* (Cohen & Lyu 2023, Theorem B.4). Two prices follow:

    by accesses   n accesses of pure DP composed at delta - overrun, for the best n,
    by play       the best play of an adversary in a session of n accesses, by dynamic programming over the hits that
                  are left and the loss so far. It is within a relative 1e-3 of the truth for q-target calls, and takes
                  long where hits are many (docs/proofs/target_charging.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pate import validation
from pate.accounting.events import ApproximateEvent, Event, PureDpEvent
from pate.accounting.filters import largest_count
from pate.accounting.pure_dp import pure_dp_composition_epsilon
from pate.accounting.q_targets import QTarget
from pate.accounting.rdp import RdpAccountant
from pate.accounting.special import betaincc
from pate.validation import require, require_count, require_probability

_LARGEST_NUM_ACCESSES = 2**53
_OVERRUN_SHARE = 1e-3  # of delta: the overrun of the accesses that are played
_LARGEST_WORK_OF_PLAY = 600_000  # accesses**2 * hits: a price comes in less than a second
_LARGEST_EPSILON = 30.0  # of an access that is played
_PLAY_TOLERANCE = 1e-4  # of the epsilon that is known to suffice
_ROUNDING = 2.0**-44  # relative: of a loss, and per access of products and sums of numbers >= 0
_FEWEST_SPLITS = 8
_MOST_SPLITS = 64
# accesses composed over all splits together: a price comes in less than a fifth of a second
_WORK_OF_SPLITS = 400_000
_MOST_COMPOSED = 50_000  # accesses whose optimal composition is computed
# of delta, for the overrun of a split
_SMALLEST_SHARE = 1e-3
_LARGEST_SHARE = 0.999


def overrun_probability(num_accesses: int, *, target_hits: int, hit_prob: float) -> float:
    """Returns the largest probability that a session of `target_hits` hits has more than `num_accesses` accesses.

    It is P[Bin(num_accesses, hit_prob) < target_hits], exact (Cohen & Lyu 2023, Theorem B.4).
    """
    n = require_count("num_accesses", num_accesses, minimum=0)
    hits = require_count("target_hits", target_hits)
    require_probability("hit_prob", hit_prob)
    # As an incomplete beta function: scipy's bdtr is wrong beyond 2**31 accesses.
    return 1.0 if n < hits else float(betaincc(hits, n - hits + 1, hit_prob))


def min_accesses(*, target_hits: int, hit_prob: float, overrun_prob: float) -> int:
    """Returns the smallest number of accesses that is exceeded with probability at most `overrun_prob`.

    Raises `InvalidValue` where that number is above 2**53.
    """
    require_probability("overrun_prob", overrun_prob)

    def overruns(num_accesses: int) -> bool:
        probability = overrun_probability(num_accesses, target_hits=target_hits, hit_prob=hit_prob)
        return probability > overrun_prob

    guess = 2 * require_count("target_hits", target_hits)
    num_accesses = 1 + largest_count(overruns, maximum=_LARGEST_NUM_ACCESSES, guess=guess)
    rule = f"one that needs at most {_LARGEST_NUM_ACCESSES} accesses"
    require(num_accesses <= _LARGEST_NUM_ACCESSES, "hit_prob", hit_prob, rule)
    return num_accesses


class _Move(NamedTuple):
    """The probabilities of the outcomes of a call on the first neighbor: hit or miss, and loss +-epsilon."""

    hit_up: float
    hit_down: float
    miss_up: float
    miss_down: float


def _moves(target: QTarget) -> list[_Move]:
    """Returns the calls among which the adversary's best call is.

    Every call is a mixture of outcomes with likelihood ratios e^epsilon and e^-epsilon. The probability of a hit on the
    first neighbor, and its surplus on the second, lie in a polygon. The value of a call is linear in both, so the
    corners of the polygon are enough.
    """
    rise = math.expm1(target.epsilon)
    least = target.hit_prob
    rare = 1 / (rise + 2)  # q of "not prior"
    both = math.expm1(2 * target.epsilon)
    largest_surplus = min(rise * least, -math.expm1(-target.epsilon) * (1 - least))
    corners = [(1.0, 0.0), (least, 0.0), (least, largest_surplus)]
    corners.append((least + largest_surplus, -largest_surplus))
    if least < rare:
        corners += [(rare, rise * rare), ((rise + 1) * rare, -rise * rare)]

    def split(probability: float, surplus: float) -> tuple[float, float]:
        """Returns the probabilities of the outcomes with ratios e^epsilon and e^-epsilon that make up one outcome."""
        up = (rise + 1) * (rise * probability - surplus)
        down = rise * probability + (rise + 1) * surplus
        return max(up, 0.0) / both, max(down, 0.0) / both

    moves = []
    for probability, surplus in corners:
        hit_up, hit_down = split(probability, surplus)
        miss_up, miss_down = split(1 - probability, -surplus)
        moves.append(_Move(hit_up, hit_down, miss_up, miss_down))
    return list(dict.fromkeys(moves))


def best_play_delta(
    target: QTarget, *, target_hits: int, num_accesses: int, target_epsilon: float
) -> float:
    """Returns the largest hockey stick at `target_epsilon` of any play of at most `num_accesses` accesses, rounded up.

    Let V(h, i) be the delta that the rest of a session with h hits left can reach at a loss of i epsilon. After the
    last access, and after the last hit, V is max(0, 1 - e^(target_epsilon - i epsilon)). Before an access V is the
    largest expectation over all calls.
    """
    validation.require_kind("target", target, QTarget, "a QTarget")
    target_hits = require_count("target_hits", target_hits)
    num_accesses = require_count("num_accesses", num_accesses, minimum=0)
    target_epsilon = validation.require_non_negative("target_epsilon", target_epsilon)
    rule = f"at most {_LARGEST_EPSILON:g}: a larger one is composed as its accesses"
    require(target.epsilon <= _LARGEST_EPSILON, "target.epsilon", target.epsilon, rule)
    losses = target.epsilon * np.arange(-num_accesses - 1, num_accesses + 2)
    rounding = _ROUNDING * (np.abs(losses) + target_epsilon)
    beyond = losses - target_epsilon + rounding
    after_last = -np.expm1(-np.maximum(beyond, 0.0))
    values = np.tile(after_last, (target_hits + 1, 1))  # [hits that are left + 1, 2 n + 3]
    moves = _moves(target)
    for _ in range(num_accesses):
        best = values[1:, 1:-1].copy()
        up = values[:, 2:]
        down = values[:, :-2]
        for move in moves:
            value = move.hit_up * up[:-1]
            value += move.hit_down * down[:-1]
            value += move.miss_up * up[1:]
            value += move.miss_down * down[1:]
            np.maximum(best, value, out=best)
        values[1:, 1:-1] = best
    return float(values[target_hits, num_accesses + 1]) * (1 + num_accesses * _ROUNDING)


@dataclass(frozen=True, slots=True)
class SessionPrice:
    """An upper bound on the price of a whole session."""

    epsilon: float  # at `delta`
    delta: float  # of the whole session
    num_accesses: int  # the number of accesses that an accountant has to compose
    overrun_prob: float  # the probability of more accesses, for one counter; a part of `delta`

    @property
    def event(self) -> Event:
        """The price as an event: epsilon-DP, except with probability delta (Kairouz, Oh & Viswanath 2015, Theorem 3.1).

        Composed with other events, `TargetCharging.event` is mostly cheaper, as it lists the accesses one by one.
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
    """Returns the smallest price of a session over up to 64 splits of delta, and by the best play.

    Every split of delta into overrun and composition gives a valid bound. The best play is computed where hits are few,
    below some dozens.

    Args:
        target: covers every call.
        target_hits: the hit of this number, >= 1, ends the session.
        target_delta: the delta of the whole session.
        num_counters: the number of counters, which share delta equally; the least-hit counter ends the session.
        failure_prob: the sum of the deltas of the calls; raises `InvalidValue` where it leaves nothing of delta.
        by_play: False where the accesses are composed in any case.
    """
    validation.require_kind("target", target, QTarget, "a QTarget")
    hits = require_count("target_hits", target_hits)
    left = require_probability("target_delta", target_delta) / require_count(
        "num_counters", num_counters
    )
    left -= validation.require_non_negative("failure_prob", failure_prob)
    require(left > 0, "failure_prob", failure_prob, "less than target_delta / num_counters")
    split = _best_split(target, hits, left)
    epsilon = _best_play(target, hits, left, split.epsilon) if by_play else split.epsilon
    return SessionPrice(epsilon, target_delta, split.num_accesses, split.overrun_prob)


class _Split(NamedTuple):
    """A split of delta, and the epsilon that it gives."""

    epsilon: float
    num_accesses: int
    overrun_prob: float


@lru_cache(maxsize=256)  # the same session is priced again and again
def _best_split(target: QTarget, target_hits: int, target_delta: float) -> _Split:
    """Returns the split of delta with the least epsilon."""

    def accesses_with_overrun(share: float) -> int:
        return min_accesses(
            target_hits=target_hits,
            hit_prob=target.hit_prob,
            overrun_prob=share * target_delta,
        )

    fewest = accesses_with_overrun(_LARGEST_SHARE)
    most = accesses_with_overrun(_SMALLEST_SHARE)
    num_splits = min(max(_WORK_OF_SPLITS // most, _FEWEST_SPLITS), _MOST_SPLITS)
    splits = []
    for num_accesses in np.unique(np.linspace(fewest, most, num_splits).astype(np.int64)).tolist():
        overrun = overrun_probability(
            num_accesses, target_hits=target_hits, hit_prob=target.hit_prob
        )
        left = target_delta - overrun
        if num_accesses <= _MOST_COMPOSED:
            epsilon = pure_dp_composition_epsilon(
                target.epsilon, count=num_accesses, target_delta=left
            )
        else:  # optimal composition takes too long
            accountant = RdpAccountant().compose(PureDpEvent(target.epsilon), num_accesses)
            epsilon = min(num_accesses * target.epsilon, accountant.get_epsilon(left))
        splits.append(_Split(epsilon, num_accesses, overrun))
    return min(splits)


@lru_cache(maxsize=256)
def _best_play(
    target: QTarget, target_hits: int, target_delta: float, sufficient_epsilon: float
) -> float:
    """Returns the epsilon of the best play, never above an epsilon that suffices.

    Returns that epsilon where the play would take too long.
    """
    accesses = min_accesses(
        target_hits=target_hits,
        hit_prob=target.hit_prob,
        overrun_prob=_OVERRUN_SHARE * target_delta,
    )
    takes_long = accesses * accesses * target_hits > _LARGEST_WORK_OF_PLAY
    if takes_long or target.epsilon > _LARGEST_EPSILON:
        return sufficient_epsilon
    left = target_delta - overrun_probability(
        accesses, target_hits=target_hits, hit_prob=target.hit_prob
    )
    low = 0.0
    high = sufficient_epsilon
    while high - low > _PLAY_TOLERANCE * sufficient_epsilon:
        middle = (low + high) / 2
        delta = best_play_delta(
            target, target_hits=target_hits, num_accesses=accesses, target_epsilon=middle
        )
        low, high = (low, middle) if delta <= left else (middle, high)
    return high
