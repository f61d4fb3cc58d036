"""The price of a whole session with target charging, known before the first call of the session.

`pate.accounting.q_targets` explains calls, accesses and hits. An access to the private data is a hit with probability
at least q. So a session that ends with hit number tau has more than n accesses with a probability of at most
P[Bin(n, q) < tau], its *overrun* (Cohen & Lyu 2023, Theorem B.4). The price is the smaller of two bounds:

    by accesses    The composition of n accesses, each epsilon-DP, at delta - overrun, for the best n.

    by play        The delta that the strongest adversary reaches in a session of n accesses. A dynamic program over
                   the number of remaining hits and the privacy loss so far computes that delta. With one
                   counter of hits, the bound wastes at most a thousandth of delta, on the overrun, and 1e-4 of the
                   epsilon by accesses, on a bisection. Its computation takes long for many hits
                   (docs/proofs/target_charging.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from pate.accounting.count_search import largest_count
from pate.accounting.events import ApproximateEvent, Event, PureDpEvent
from pate.accounting.pure_dp import pure_dp_composition_epsilon
from pate.accounting.q_targets import QTarget
from pate.accounting.rdp import RdpAccountant
from pate.accounting.special import betaincc
from pate.validation import (
    InvalidValue,
    require_count,
    require_kind,
    require_non_negative,
    require_probability,
)

# A float holds every whole number up to this.
_LARGEST_NUM_ACCESSES = 2**53
# By play: the share of delta for the overrun.
_OVERRUN_SHARE = 1e-3
# By play: the largest num_accesses**2 * target_hits. Up to it a price takes less than a second.
_LARGEST_WORK_OF_PLAY = 600_000
# By play: the largest epsilon of an access.
_LARGEST_EPSILON = 30.0
# By play: the bisection ends when its ends differ by this share of the epsilon by accesses.
_PLAY_TOLERANCE = 1e-4
# The relative rounding error of a loss, and for each access that of products and sums of numbers >= 0.
_ROUNDING = 2.0**-44
# By accesses: the smallest and the largest number of splits of delta.
_SMALLEST_NUM_SPLITS = 8
_LARGEST_NUM_SPLITS = 64
# By accesses: so many accesses are composed over all splits together, so that a price takes less than a fifth of a
# second.
_WORK_OF_SPLITS = 400_000
# By accesses: the largest number of accesses whose optimal composition is computed.
_LARGEST_NUM_COMPOSED = 50_000
# By accesses: the smallest and the largest share of delta for the overrun.
_SMALLEST_OVERRUN_SHARE = 1e-3
_LARGEST_OVERRUN_SHARE = 0.999


def overrun_probability(num_accesses: int, *, target_hits: int, hit_prob: float) -> float:
    """Returns an upper bound on the probability that a session has more than `num_accesses` accesses.

    The bound is P[Bin(num_accesses, hit_prob) < target_hits] (Cohen & Lyu 2023, Theorem B.4).

    Args:
        num_accesses: the number of accesses to the private data, >= 0.
        target_hits: the number of hits that ends the session, >= 1.
        hit_prob: q, the smallest probability that an access is a hit, in (0, 1).
    """
    num_accesses = require_count("num_accesses", num_accesses, minimum=0)
    target_hits = require_count("target_hits", target_hits)
    require_probability("hit_prob", hit_prob)
    # As an incomplete beta function: scipy's bdtr is wrong beyond 2**31 accesses.
    return (
        1.0
        if num_accesses < target_hits
        else float(betaincc(target_hits, num_accesses - target_hits + 1, hit_prob))
    )


def min_accesses(*, target_hits: int, hit_prob: float, overrun_prob: float) -> int:
    """Returns a number of accesses that a session exceeds with a probability of at most `overrun_prob`.

    It is the smallest number for which the bound `overrun_probability` is at most `overrun_prob`.

    Args:
        target_hits: the number of hits that ends the session, >= 1.
        hit_prob: q, the smallest probability that an access is a hit, in (0, 1).
        overrun_prob: the probability of more accesses, in (0, 1).

    Raises:
        InvalidValue: the number of accesses is above 2**53.
    """
    require_probability("overrun_prob", overrun_prob)

    def is_overrun_too_likely(num_accesses: int) -> bool:
        bound_on_overrun = overrun_probability(
            num_accesses, target_hits=target_hits, hit_prob=hit_prob
        )
        return bound_on_overrun > overrun_prob

    guess = 2 * require_count("target_hits", target_hits)
    num_accesses = 1 + largest_count(
        holds=is_overrun_too_likely, maximum=_LARGEST_NUM_ACCESSES, guess=guess
    )
    if num_accesses > _LARGEST_NUM_ACCESSES:
        rule = f"one that needs at most {_LARGEST_NUM_ACCESSES} accesses"
        raise InvalidValue("hit_prob", hit_prob, rule=rule)
    return num_accesses


class _AdversaryCall(NamedTuple):
    """A call that the adversary may make, as the probabilities of its four outcomes on the first of two neighbors.

    An outcome is a hit or a miss. It raises the privacy loss by epsilon, or lowers it by epsilon, where epsilon is that
    of one access to the private data.
    """

    prob_hit_raises_loss: float
    prob_hit_lowers_loss: float
    prob_miss_raises_loss: float
    prob_miss_lowers_loss: float


def _adversary_calls(access_epsilon: float, smallest_hit_prob: float) -> list[_AdversaryCall]:
    """Returns the few calls of which one is always the best call of an adversary who tells two neighbors apart.

    Every outcome can be split into outcomes with the likelihood ratios e^epsilon and e^-epsilon. A call is described by
    the probability of a hit on the first neighbor, and by the surplus: the probability of a hit on the second neighbor
    less that on the first. All allowed pairs of both numbers form a polygon. The value of a call to the adversary is
    linear in the pair, so the calls at the corners of the polygon suffice.

    Args:
        access_epsilon: the epsilon of one access to the private data.
        smallest_hit_prob: q, the smallest probability that an access is a hit.
    """
    rise = math.expm1(access_epsilon)
    # 1 / (e^epsilon + 1). With this f, both f' = e^epsilon f and 1 - f = e^epsilon (1 - f') hold for one f'.
    crossing_hit_prob = 1 / (rise + 2)
    prob_scale = math.expm1(2 * access_epsilon)
    largest_surplus = min(
        rise * smallest_hit_prob, -math.expm1(-access_epsilon) * (1 - smallest_hit_prob)
    )
    # Let f and f' be the probabilities of a hit on the two neighbors. The rules are: f, f' >= q; f and f' differ by at
    # most a factor of e^epsilon, and so do 1 - f and 1 - f' (docs/proofs/target_charging.md, "The best play"). The
    # corners are pairs (f, f' - f).
    polygon_corners = [
        (1.0, 0.0),
        (smallest_hit_prob, 0.0),
        (smallest_hit_prob, largest_surplus),
        (smallest_hit_prob + largest_surplus, -largest_surplus),
    ]
    if smallest_hit_prob < crossing_hit_prob:
        polygon_corners += [
            (crossing_hit_prob, rise * crossing_hit_prob),
            ((rise + 1) * crossing_hit_prob, -rise * crossing_hit_prob),
        ]

    def raise_and_lower(prob_on_first: float, surplus_on_second: float) -> tuple[float, float]:
        """Splits one outcome into two, with the likelihood ratios e^epsilon and e^-epsilon.

        A ratio is that of the first neighbor to the second, and epsilon is `access_epsilon`. Returns the probabilities
        u and d of both on the first neighbor. They solve u + d = `prob_on_first` and e^-epsilon u + e^epsilon d =
        `prob_on_first` + `surplus_on_second`.

        Args:
            prob_on_first: the probability of the outcome on the first neighbor.
            surplus_on_second: the probability of the outcome on the second neighbor less that on the first.
        """
        scaled_raising_prob = (rise + 1) * (rise * prob_on_first - surplus_on_second)
        scaled_lowering_prob = rise * prob_on_first + (rise + 1) * surplus_on_second
        return (
            max(scaled_raising_prob, 0.0) / prob_scale,
            max(scaled_lowering_prob, 0.0) / prob_scale,
        )

    adversary_calls = []
    for corner_hit_prob, hit_surplus in polygon_corners:
        prob_hit_raises_loss, prob_hit_lowers_loss = raise_and_lower(
            prob_on_first=corner_hit_prob, surplus_on_second=hit_surplus
        )
        prob_miss_raises_loss, prob_miss_lowers_loss = raise_and_lower(
            prob_on_first=1 - corner_hit_prob, surplus_on_second=-hit_surplus
        )
        adversary_calls.append(
            _AdversaryCall(
                prob_hit_raises_loss=prob_hit_raises_loss,
                prob_hit_lowers_loss=prob_hit_lowers_loss,
                prob_miss_raises_loss=prob_miss_raises_loss,
                prob_miss_lowers_loss=prob_miss_lowers_loss,
            )
        )
    return list(dict.fromkeys(adversary_calls))


def best_play_delta(
    target: QTarget, *, target_hits: int, num_accesses: int, target_epsilon: float
) -> float:
    """Returns the largest delta at `target_epsilon` that an adversary can reach in a session, rounded up.

    The adversary chooses each call after seeing the earlier outcomes. Let V(h, i) be the largest delta that the rest of
    the session can reach, given h remaining hits and a privacy loss of i * epsilon so far. Here epsilon is that of
    `target`. After the last access, and after the last hit, V = max(0, 1 - e^(target_epsilon - i epsilon)). Before an
    access, V is the largest expectation of the next V over all calls.

    Args:
        target: the epsilon and q that cover every call; its epsilon is at most 30.
        target_hits: the number of hits that ends the session, >= 1.
        num_accesses: the largest number of accesses to the private data, >= 0.
        target_epsilon: the epsilon of the returned delta, >= 0.
    """
    require_kind("target", value=target, kind=QTarget, rule="a QTarget")
    target_hits = require_count("target_hits", target_hits)
    num_accesses = require_count("num_accesses", num_accesses, minimum=0)
    target_epsilon = require_non_negative("target_epsilon", target_epsilon)
    if target.epsilon > _LARGEST_EPSILON:
        rule = f"at most {_LARGEST_EPSILON:g}: a larger one is composed as its accesses"
        raise InvalidValue("target.epsilon", target.epsilon, rule=rule)
    # from the smallest loss that so many accesses can reach to the largest, and one more on either side
    loss_multiples = np.arange(-num_accesses - 1, num_accesses + 2)
    index_of_no_loss = num_accesses + 1
    losses = target.epsilon * loss_multiples
    rounding = _ROUNDING * (np.abs(losses) + target_epsilon)
    loss_beyond_epsilon = losses - target_epsilon + rounding
    deltas_after_last = -np.expm1(-np.maximum(loss_beyond_epsilon, 0.0))
    # V(h, i) for h from 0 on and i from -num_accesses - 1 on, [target_hits + 1, 2 num_accesses + 3]
    values = np.tile(deltas_after_last, (target_hits + 1, 1))
    adversary_calls = _adversary_calls(
        access_epsilon=target.epsilon, smallest_hit_prob=target.hit_prob
    )
    for _ in range(num_accesses):
        best_values = values[1:, 1:-1].copy()
        values_after_rise = values[:, 2:]
        values_after_fall = values[:, :-2]
        for call in adversary_calls:
            values_of_call = call.prob_hit_raises_loss * values_after_rise[:-1]
            values_of_call += call.prob_hit_lowers_loss * values_after_fall[:-1]
            values_of_call += call.prob_miss_raises_loss * values_after_rise[1:]
            values_of_call += call.prob_miss_lowers_loss * values_after_fall[1:]
            np.maximum(best_values, values_of_call, out=best_values)
        values[1:, 1:-1] = best_values
    delta_at_start = float(values[target_hits, index_of_no_loss])
    return delta_at_start * (1 + num_accesses * _ROUNDING)


@dataclass(frozen=True, slots=True)
class SessionPrice:
    """An upper bound on the price of a whole session: its epsilon at a delta, and the number of its accesses."""

    epsilon: float  # the epsilon of the whole session at `delta`
    delta: float  # the delta of the whole session
    num_accesses: int  # the number of accesses that an accountant has to compose
    overrun_prob: float  # the probability of more accesses, for one counter; a part of `delta`

    @property
    def event(self) -> Event:
        """The price as an event: epsilon-DP, except with probability delta.

        Such an event bounds every (epsilon, delta)-DP release (Kairouz, Oh & Viswanath 2015, proof of Theorem 3.3). In
        a composition with other events `TargetCharging.event` is mostly cheaper, because it keeps the single accesses.
        """
        return ApproximateEvent(event=PureDpEvent(self.epsilon), failure_prob=self.delta)


def best_session_price(
    target: QTarget,
    *,
    target_hits: int,
    target_delta: float,
    num_counters: int = 1,
    failure_prob: float = 0.0,
    use_bound_by_play: bool = True,
) -> SessionPrice:
    """Returns the smallest price of a whole session that two bounds give: by accesses, and by play.

    The bound by accesses composes n epsilon-DP accesses to the private data. It splits delta into the delta of this
    composition and the probability of more than n accesses, the overrun. Up to 64 splits are tried, each of which gives
    a valid bound. The bound by play is the delta that the strongest adversary can reach in a session. It is computed
    only where the squared number of accesses times `target_hits` is at most 600,000. At a delta of 1e-6 that is up to
    about 30 hits for a q near 1/2, and up to 7 hits for a q of 0.12.

    Args:
        target: the epsilon and q that cover every call.
        target_hits: the number of hits that ends the session, >= 1.
        target_delta: the delta of the whole session, in (0, 1).
        num_counters: the number of target sets of each call, whose hits are counted separately. Counters share delta
            equally, and the session ends when each counter has `target_hits` hits or more.
        failure_prob: the sum of the deltas of all calls.
        use_bound_by_play: False omits the bound by play.

    Raises:
        InvalidValue: `failure_prob` is at least `target_delta / num_counters`.
    """
    require_kind("target", value=target, kind=QTarget, rule="a QTarget")
    target_hits = require_count("target_hits", target_hits)
    require_probability("target_delta", target_delta)
    require_count("num_counters", num_counters)
    require_non_negative("failure_prob", failure_prob)
    delta_of_counter = target_delta / num_counters - failure_prob
    if delta_of_counter <= 0:
        rule = "less than target_delta / num_counters"
        raise InvalidValue("failure_prob", failure_prob, rule=rule)
    split = _best_split(
        access_epsilon=target.epsilon,
        smallest_hit_prob=target.hit_prob,
        target_hits=target_hits,
        target_delta=delta_of_counter,
    )
    epsilon = split.epsilon
    if use_bound_by_play:
        epsilon = _best_play(
            access_epsilon=target.epsilon,
            smallest_hit_prob=target.hit_prob,
            target_hits=target_hits,
            target_delta=delta_of_counter,
            epsilon_by_accesses=split.epsilon,
        )
    return SessionPrice(
        epsilon=epsilon,
        delta=target_delta,
        num_accesses=split.num_accesses,
        overrun_prob=split.overrun_prob,
    )


class _Split(NamedTuple):
    """A split of a session's delta into `overrun_prob` and the delta of `num_accesses` composed accesses.

    `overrun_prob` bounds the probability of more accesses. `epsilon` is the session's epsilon by this split.
    """

    epsilon: float
    num_accesses: int
    overrun_prob: float


@lru_cache(maxsize=256)  # each total of a ledger prices its sessions anew
def _best_split(
    access_epsilon: float, smallest_hit_prob: float, *, target_hits: int, target_delta: float
) -> _Split:
    """Returns the split of a session's delta with the smallest epsilon, of up to 64 splits; results are cached.

    A split has a number n of accesses to the private data. One part of delta is the overrun: a bound on the probability
    that the session has more than n accesses. The other part is the delta of the composition of n accesses.

    Args:
        access_epsilon: an epsilon of one access to the private data that covers every call.
        smallest_hit_prob: q, the smallest probability that an access is a hit, which covers every call.
        target_hits: the number of hits that ends the session.
        target_delta: the delta of one counter of hits, from which the deltas of all calls have been subtracted.
    """

    def accesses_with_overrun(share_of_delta: float) -> int:
        """Returns `min_accesses` of this session for an overrun probability of `share_of_delta` * `target_delta`."""
        return min_accesses(
            target_hits=target_hits,
            hit_prob=smallest_hit_prob,
            overrun_prob=share_of_delta * target_delta,
        )

    fewest_accesses = accesses_with_overrun(share_of_delta=_LARGEST_OVERRUN_SHARE)
    most_accesses = accesses_with_overrun(share_of_delta=_SMALLEST_OVERRUN_SHARE)
    num_splits = min(
        max(_WORK_OF_SPLITS // most_accesses, _SMALLEST_NUM_SPLITS), _LARGEST_NUM_SPLITS
    )
    tried_access_counts = np.linspace(fewest_accesses, most_accesses, num_splits).astype(np.int64)
    splits_of_delta = []
    for num_accesses in np.unique(tried_access_counts).tolist():
        overrun_prob = overrun_probability(
            num_accesses, target_hits=target_hits, hit_prob=smallest_hit_prob
        )
        composition_delta = target_delta - overrun_prob
        if num_accesses <= _LARGEST_NUM_COMPOSED:
            composed_epsilon = pure_dp_composition_epsilon(
                access_epsilon, count=num_accesses, target_delta=composition_delta
            )
        else:  # optimal composition takes too long
            accountant = RdpAccountant().compose(PureDpEvent(access_epsilon), count=num_accesses)
            composed_epsilon = min(
                num_accesses * access_epsilon, accountant.get_epsilon(composition_delta)
            )
        splits_of_delta.append(
            _Split(epsilon=composed_epsilon, num_accesses=num_accesses, overrun_prob=overrun_prob)
        )
    return min(splits_of_delta, key=attrgetter("epsilon"))


@lru_cache(maxsize=256)  # each total of a ledger prices its sessions anew
def _best_play(
    access_epsilon: float,
    smallest_hit_prob: float,
    *,
    target_hits: int,
    target_delta: float,
    epsilon_by_accesses: float,
) -> float:
    """Returns the epsilon of a session against the strongest adversary, and never more than `epsilon_by_accesses`.

    The epsilon is found by bisection over `best_play_delta`. Returns `epsilon_by_accesses` where the computation would
    take too long, or where the epsilon of an access is above 30.

    Args:
        access_epsilon: an epsilon of one access to the private data that covers every call.
        smallest_hit_prob: q, the smallest probability that an access is a hit, which covers every call.
        target_hits: the number of hits that ends the session.
        target_delta: the delta of one counter of hits, from which the deltas of all calls have been subtracted.
        epsilon_by_accesses: the epsilon of the session that the bound by accesses gives.
    """
    num_accesses = min_accesses(
        target_hits=target_hits,
        hit_prob=smallest_hit_prob,
        overrun_prob=_OVERRUN_SHARE * target_delta,
    )
    takes_long = num_accesses * num_accesses * target_hits > _LARGEST_WORK_OF_PLAY
    if takes_long or access_epsilon > _LARGEST_EPSILON:
        return epsilon_by_accesses
    delta_of_play = target_delta - overrun_probability(
        num_accesses, target_hits=target_hits, hit_prob=smallest_hit_prob
    )
    low_epsilon = 0.0
    high_epsilon = epsilon_by_accesses
    while high_epsilon - low_epsilon > _PLAY_TOLERANCE * epsilon_by_accesses:
        middle_epsilon = (low_epsilon + high_epsilon) / 2
        delta_at_middle = best_play_delta(
            QTarget(epsilon=access_epsilon, hit_prob=smallest_hit_prob),
            target_hits=target_hits,
            num_accesses=num_accesses,
            target_epsilon=middle_epsilon,
        )
        if delta_at_middle <= delta_of_play:
            high_epsilon = middle_epsilon
        else:
            low_epsilon = middle_epsilon
    return high_epsilon
