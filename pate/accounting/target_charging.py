"""Target charging: pay for the outcomes that matter, not for every call.

A set of outcomes is a q-target of an epsilon-DP call if an access to the data hits it with probability q at least. For
every pair of neighbors, the call's two distributions are then p C + (1 - p) B_b, with B_b(target) >= q, and B_0 and B_1
within e^epsilon of each other (Cohen & Lyu 2023). A payment per hit covers 1 / q accesses on average, so calls are free
until they hit, and a session ends after a number of hits. Its price is known before (docs/proofs/target_charging.md).
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, Self, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from pate import validation
from pate.accounting.events import ApproximateEvent, Event, PureDpEvent, SelfComposedEvent
from pate.accounting.filters import largest_count
from pate.accounting.pure_dp import pure_dp_composition_epsilon
from pate.accounting.rdp import RdpAccountant
from pate.accounting.special import Array, betaincc
from pate.files.disk import read_json, write_text
from pate.files.strict_json import plain, to_json_line
from pate.validation import (
    InvalidValue,
    require,
    require_count,
    require_positive,
    require_probability,
)

_SUM_TOLERANCE = 1e-9
_MOST_ACCESSES = 2**53
_OVERRUN_SHARE = 1e-3  # of delta: accesses beyond those that are played
_MOST_WORK = 600_000  # accesses**2 * hits: a price comes in less than a second
_LARGEST_EPSILON = 30.0  # of an access
_CLOSE = 1e-4  # of the epsilon that is known to suffice
_ROUNDING = 2.0**-44  # relative: of a loss, and per access of products and sums of numbers >= 0
_FEWEST_SPLITS = 8
_MOST_SPLITS = 64
# accesses composed over all splits together: a price comes in less than a fifth of a second
_WORK = 400_000
_MOST_COMPOSED = 50_000  # accesses whose optimal composition is computed
_SMALLEST_SHARE = 1e-3
_LARGEST_SHARE = 0.999
_BITS = frozenset((bool, np.bool_))


@dataclass(frozen=True, slots=True)
class QTarget:
    """The price of a call in a session, and how likely an access hits its target."""

    epsilon: float  # pure DP of one access to the data, > 0
    hit_prob: float  # q, the least probability of the target given an access, in (0, 1)

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)
        require_probability("hit_prob", self.hit_prob)

    def covers(self, other: QTarget) -> bool:
        """Whether every call of the other target is also one of this target: smaller epsilon, larger hit_prob."""
        return other.epsilon <= self.epsilon and other.hit_prob >= self.hit_prob


def not_prior(epsilon: float) -> QTarget:
    """Every outcome but one chosen in advance, of an epsilon-DP call: q = 1 / (e^epsilon + 1), tight.

    The prior may be anything that is known before the call. Also of a conditional release: published if in a set.
    """
    return QTarget(
        epsilon, (shrink := math.exp(-require_positive("epsilon", epsilon))) / (1 + shrink)
    )


def revise(epsilon: float) -> QTarget:
    """One more look at a stored outcome of an epsilon-DP call, released if it lies in a set not asked before.

    Charged as a not-prior call of 2 epsilon; one stored outcome gives at most one hit in its whole life.
    """
    return not_prior(2 * require_positive("epsilon", epsilon))


def boundary(epsilon: float) -> QTarget:
    """The boundary outcome of a wrapped epsilon-DP call (`boundary_distribution`); an access is t = 4/3 epsilon DP.

    q = (e^t - 1) / (2 (e^(epsilon + t) - 1)), which rises to 2/7 as epsilon falls. `tight_boundary` costs less.
    """
    wrapped = 4 * require_positive("epsilon", epsilon) / 3
    return QTarget(
        wrapped, math.exp(-epsilon) * math.expm1(-wrapped) / (2 * math.expm1(-epsilon - wrapped))
    )


def tight_boundary(epsilon: float) -> QTarget:
    """The boundary outcome with the smallest epsilon of an access and the largest q that hold, both attained.

    t = epsilon + log(3 e^epsilon / (2 e^epsilon + 1)), below 4/3 epsilon, and
    q = (e^t - 1) / (e^epsilon (2 e^t + 1) - e^t - 2), which rises to 4/13 as epsilon falls.
    """
    # 1 - e^-epsilon; lost_wrapped is 1 - e^-t
    lost = -math.expm1(-require_positive("epsilon", epsilon))
    wrapped = epsilon - math.log1p(-lost / 3)
    lost_wrapped = -math.expm1(-wrapped)
    hit_prob = (
        math.exp(-epsilon) * lost_wrapped / (3 * lost + lost_wrapped - 2 * lost * lost_wrapped)
    )
    return QTarget(wrapped, hit_prob)


def between_thresholds(epsilon: float, *, width: float) -> QTarget:
    """A value of sensitivity 1 with Laplace noise of scale 1 / epsilon falls between two thresholds `width` apart.

    Outcomes below, between and above; q = (1 - e^(-width epsilon)) / (e^epsilon + 1), tight. The same q holds for
    whole numbers with discrete Laplace noise and whole thresholds; for a sensitivity of s, divide the width by s.
    """
    scaled_width = require_positive("width", width) * require_positive("epsilon", epsilon)
    return QTarget(epsilon, -math.expm1(-scaled_width) * not_prior(epsilon).hit_prob)


def run_twice(epsilon: float) -> QTarget:
    """Two runs of the same epsilon-DP call, both released, differ; an access is 2 epsilon DP.

    q is the smaller of (e^epsilon + 1) / (e^(2 epsilon) + e^epsilon + 1) and 2 e^epsilon / (e^epsilon + 1)^2, which
    rises to 1/2 as epsilon falls; both are attained.
    """
    shrink = math.exp(-require_positive("epsilon", epsilon))
    rare = shrink * (1 + shrink) / (1 + shrink + shrink * shrink)
    return QTarget(2 * epsilon, min(rare, 2 * shrink / (1 + shrink) ** 2))


def common_target(targets: Iterable[QTarget]) -> QTarget:
    """The cheapest target that covers all of these, one at least: the largest epsilon and the smallest hit_prob."""
    listed = list(targets)
    require(len(listed) > 0, "targets", listed, "at least one target")
    for target in listed:
        validation.require_kind("targets", target, QTarget, "QTargets")
    return QTarget(
        max(target.epsilon for target in listed), min(target.hit_prob for target in listed)
    )


def exact_hit_prob(
    first: ArrayLike, second: ArrayLike, *, in_target: ArrayLike, epsilon: float
) -> float:
    """The largest q for which a set is a q-target of one pair of neighboring distributions; 1 where they are equal.

    Both are `[Y]`, within e^epsilon of each other, or it raises; `in_target` is bool `[Y]`.
    """
    distributions = np.stack(
        [_distributions("first", first, 1), _distributions("second", second, 1)]
    )
    target = np.asarray(in_target, dtype=bool)
    shape = distributions.shape[1:]
    require(target.shape == shape, "in_target.shape", target.shape, f"{shape}")
    low = distributions.min(axis=0)
    high = distributions.max(axis=0)
    growth = np.exp(require_positive("epsilon", epsilon))
    near = bool(np.all(high <= growth * low * (1 + _SUM_TOLERANCE)))
    require(near, "epsilon", epsilon, "at least the largest log-ratio of the two distributions")
    # The common part may take this off the target and nothing on it: more breaks the rest's epsilon, less its target.
    common = np.maximum(growth * low - high, 0) / (growth - 1)
    accessed = 1 - common[~target].sum()
    rarest = distributions[:, target].sum(axis=1).min()
    return float(min(1.0, rarest / accessed)) if accessed > 0 else 1.0


def boundary_distribution(probabilities: ArrayLike) -> Array:
    """The distribution of a call `[..., Y]` in the boundary wrapper: `[..., Y + 1]`, that outcome last, at most 1/3.

    With pi = min(1 - largest probability, 1/2) the wrapper, which knows the distribution on the data, answers
    "boundary" with probability pi / (1 + pi) and otherwise runs the call.
    """
    distribution = _distributions("probabilities", probabilities)
    others = distribution.copy()  # pi is the sum of the other probabilities, so no digits cancel
    np.put_along_axis(others, distribution.argmax(axis=-1, keepdims=True), 0.0, axis=-1)
    rest = np.minimum(others.sum(axis=-1, keepdims=True), 0.5)
    return np.asarray(np.concatenate([distribution, rest], axis=-1) / (1 + rest))


def _distributions(name: str, values: Any, rank: int | None = None) -> Array:
    array: Array = validation.require_array(name, values).astype(np.float64)
    require(rank in (None, array.ndim), f"{name}.shape", array.shape, "[num_outcomes]")
    require(
        array.ndim > 0 and array.shape[-1] > 0, f"{name}.shape", array.shape, "at least one outcome"
    )
    proper = (array >= 0).all(axis=-1) & (np.abs(array.sum(axis=-1) - 1) <= _SUM_TOLERANCE)
    # their number only: they come from the data
    found = f"{int((~proper).sum())} of {proper.size} distributions"
    require(bool(proper.all()), name, found, "probabilities that sum to 1")
    return array


def overrun_probability(num_accesses: int, *, target_hits: int, hit_prob: float) -> float:
    """The largest probability that a session of `target_hits` hits accesses the data more than `num_accesses` times.

    P[Bin(num_accesses, hit_prob) < target_hits], exact (Cohen & Lyu 2023, Theorem B.4).
    """
    n = require_count("num_accesses", num_accesses, minimum=0)
    hits = require_count("target_hits", target_hits)
    require_probability("hit_prob", hit_prob)
    # As an incomplete beta function: scipy's bdtr is wrong beyond 2**31 accesses.
    return 1.0 if n < hits else float(betaincc(hits, n - hits + 1, hit_prob))


def min_accesses(*, target_hits: int, hit_prob: float, overrun_prob: float) -> int:
    """The smallest number of accesses, at most 2**53, that is exceeded with probability at most `overrun_prob`."""
    require_probability("overrun_prob", overrun_prob)

    def overruns(num_accesses: int) -> bool:
        return (
            overrun_probability(num_accesses, target_hits=target_hits, hit_prob=hit_prob)
            > overrun_prob
        )

    num_accesses_needed = 1 + largest_count(
        overruns, maximum=_MOST_ACCESSES, guess=2 * require_count("target_hits", target_hits)
    )
    require(
        num_accesses_needed <= _MOST_ACCESSES,
        "hit_prob",
        hit_prob,
        f"one that needs at most {_MOST_ACCESSES} accesses",
    )
    return num_accesses_needed


def best_play_delta(
    target: QTarget, *, target_hits: int, num_accesses: int, target_epsilon: float
) -> float:
    """The largest hockey stick of any play of so many accesses at most, rounded up."""
    validation.require_kind("target", target, QTarget, "a QTarget")
    target_hits = require_count("target_hits", target_hits)
    num_accesses = require_count("num_accesses", num_accesses, minimum=0)
    target_epsilon = validation.require_non_negative("target_epsilon", target_epsilon)
    rule = f"at most {_LARGEST_EPSILON:g}: a larger one is composed as its accesses"
    require(target.epsilon <= _LARGEST_EPSILON, "target.epsilon", target.epsilon, rule)
    # Losses are multiples of the target's epsilon: every call is a mixture of outcomes with ratios e^epsilon and
    # e^-epsilon, and the probabilities of a hit on both neighbors lie in a polygon whose corners are tried.
    rise = math.expm1(target.epsilon)
    least = target.hit_prob
    rare = 1 / (rise + 2)
    both = math.expm1(2 * target.epsilon)
    # by which a hit can be likelier
    most = min(rise * least, -math.expm1(-target.epsilon) * (1 - least))
    corners = [(1.0, 0.0), (least, 0.0), (least, most), (least + most, -most)]
    if least < rare:
        corners += [(rare, rise * rare), ((rise + 1) * rare, -rise * rare)]

    def split(first: float, more: float) -> tuple[float, float]:
        """Outcomes of ratios e^epsilon and e^-epsilon in place of one: their probabilities on the first neighbor."""
        up = (rise + 1) * (rise * first - more)
        down = rise * first + (rise + 1) * more
        return max(up, 0.0) / both, max(down, 0.0) / both

    moves = dict.fromkeys(split(*hit) + split(1 - hit[0], -hit[1]) for hit in corners)
    losses = target.epsilon * np.arange(-num_accesses - 1, num_accesses + 2)
    beyond = losses - target_epsilon + _ROUNDING * (np.abs(losses) + target_epsilon)  # rounded up
    # [hits that are left + 1, 2 n + 3]
    values = np.tile(-np.expm1(-np.maximum(beyond, 0.0)), (target_hits + 1, 1))
    for _ in range(num_accesses):
        best = values[1:, 1:-1].copy()
        up = values[:, 2:]
        down = values[:, :-2]
        for hit_up, hit_down, missed_up, missed_down in moves:
            value = hit_up * up[:-1]
            value += hit_down * down[:-1]
            value += missed_up * up[1:]
            value += missed_down * down[1:]
            np.maximum(best, value, out=best)
        values[1:, 1:-1] = best
    return float(values[target_hits, num_accesses + 1]) * (1 + num_accesses * _ROUNDING)


@dataclass(frozen=True, slots=True)
class SessionPrice:
    """What a whole session costs, at most."""

    epsilon: float  # at `delta`
    delta: float  # of the whole session
    num_accesses: int  # how many accesses an accountant has to compose for it
    # the probability of more accesses than that, for one counter; a part of `delta`
    overrun_prob: float

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
    """The smallest epsilon over up to 64 splits of delta, by optimal composition of pure DP; or that of the best play.

    Every split gives a valid bound. The best play is within a relative 1e-3 of the truth for q-target calls
    (docs/proofs/target_charging.md); it is found where hits are few, below some dozens.

    The target covers every call. The session halts after `target_hits` hits, >= 1. Of several counters, which share
    its delta equally, the one hit least counts. `failure_prob` is the sum of the deltas of the calls; raises where it
    leaves nothing of delta. Not `by_play` where accesses are composed in any case.
    """
    validation.require_kind("target", target, QTarget, "a QTarget")
    hits = require_count("target_hits", target_hits)
    left = require_probability("target_delta", target_delta) / require_count(
        "num_counters", num_counters
    )
    left -= validation.require_non_negative("failure_prob", failure_prob)
    require(left > 0, "failure_prob", failure_prob, "less than target_delta / num_counters")
    epsilon, num_accesses, overrun = _best_split(target, hits, left)
    if by_play:
        epsilon = _best_play(target, hits, left, epsilon)
    return SessionPrice(epsilon, target_delta, num_accesses, overrun)


@lru_cache(maxsize=256)  # the same session is priced again and again
def _best_split(target: QTarget, target_hits: int, target_delta: float) -> tuple[float, int, float]:
    """The least epsilon over splits of delta, with how many accesses it composes and the probability of more."""
    ends = (_LARGEST_SHARE * target_delta, _SMALLEST_SHARE * target_delta)
    priced_splits = []
    few, many = (
        min_accesses(target_hits=target_hits, hit_prob=target.hit_prob, overrun_prob=end)
        for end in ends
    )
    splits = min(max(_WORK // many, _FEWEST_SPLITS), _MOST_SPLITS)
    for num_accesses in np.unique(np.linspace(few, many, splits).astype(np.int64)).tolist():
        overrun = overrun_probability(
            num_accesses, target_hits=target_hits, hit_prob=target.hit_prob
        )
        left = target_delta - overrun
        access_epsilon = target.epsilon
        if num_accesses <= _MOST_COMPOSED:
            epsilon = pure_dp_composition_epsilon(
                access_epsilon, count=num_accesses, target_delta=left
            )
        else:  # optimal composition takes too long
            by_renyi = (
                RdpAccountant().compose(PureDpEvent(access_epsilon), num_accesses).get_epsilon(left)
            )
            epsilon = min(num_accesses * access_epsilon, by_renyi)
        priced_splits.append((epsilon, num_accesses, overrun))
    return min(priced_splits)


@lru_cache(maxsize=256)
def _best_play(target: QTarget, target_hits: int, target_delta: float, at_most: float) -> float:
    """The epsilon of the play that gives away the most of all, or `at_most`, also where that takes too long."""
    overrun = _OVERRUN_SHARE * target_delta
    accesses = min_accesses(target_hits=target_hits, hit_prob=target.hit_prob, overrun_prob=overrun)
    if accesses * accesses * target_hits > _MOST_WORK or target.epsilon > _LARGEST_EPSILON:
        return at_most
    left = target_delta - overrun_probability(
        accesses, target_hits=target_hits, hit_prob=target.hit_prob
    )
    low = 0.0
    high = at_most
    while high - low > _CLOSE * at_most:
        middle = (low + high) / 2
        delta = best_play_delta(
            target, target_hits=target_hits, num_accesses=accesses, target_epsilon=middle
        )
        low, high = (low, middle) if delta <= left else (middle, high)
    return high


class HeldBudget:
    """What counts down as it answers: a copy of it would answer from the same budget once more."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process = os.getpid()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        rule = "one that is neither copied nor sent elsewhere, as a copy would spend the same budget again"
        raise InvalidValue("session", type(self).__name__, rule=f"{rule}; ask the one there is")

    def _turn(self) -> AbstractContextManager[bool]:
        """A turn of one thread, from looking at what is left to having counted; its owner may take it again."""
        # before the lock, which another thread of the parent may have held at the fork
        self._require_own_process()
        return self._lock

    def _require_own_process(self) -> None:
        if os.getpid() != self._process:
            rule = f"{self._process}, which holds this {type(self).__name__}; a fork would spend the same budget again"
            raise InvalidValue("process", os.getpid(), rule=rule)


class TargetCharging(HeldBudget):
    """Counts hits, refuses calls after the last hit, and states its price before the first call.

    The whole session is (price.epsilon, price.delta)-DP for the adjacency under which its calls are epsilon-DP. It is
    so whatever calls are chosen on the way, and however early it ends (Cohen & Lyu 2023, Theorem B.4 and its version
    for several targets). That needs two things: every call is a q-target call with an epsilon and a q no worse than the
    session's `target`, and its caller obeys `require_open`.

    Edge cases: threads may share a session; an outcome whose charge raised must not be released. It refuses copies,
    pickles, and charges in a forked process. Of the sessions that resume from one `state`, only one may go on.

    Epsilon is pure DP of one access, the largest of all calls; `hit_prob` is q, their smallest; delta is that of the
    whole session; `failure_prob` the most that the deltas of the calls may sum to. Several counters count as many
    q-targets of every call apart, in `hits`; all have to reach `target_hits`, which is tau.

    >>> session = TargetCharging(0.1, 2, hit_prob=0.47, target_delta=1e-6)
    >>> [session.charge(hit) for hit in (False, True, False, True)]
    [False, False, False, True]
    >>> round(session.price.epsilon, 2), session.hits, session.num_calls
    (2.03, [2], 4)
    """

    def __init__(
        self,
        epsilon: float,
        target_hits: int,
        *,
        hit_prob: float,
        target_delta: float,
        num_counters: int = 1,
        failure_prob: float = 0.0,
    ) -> None:
        super().__init__()
        self.target = QTarget(epsilon, hit_prob)
        self.price: SessionPrice = best_session_price(
            self.target,
            target_hits=target_hits,
            target_delta=target_delta,
            num_counters=num_counters,
            failure_prob=failure_prob,
        )
        self.target_hits = target_hits
        self.target_delta = target_delta
        self.failure_prob = failure_prob
        self._parameters = plain(
            {
                "epsilon": epsilon,
                "hit_prob": hit_prob,
                "target_hits": target_hits,
                "target_delta": target_delta,
                "num_counters": num_counters,
                "failure_prob": failure_prob,
            }
        )
        self.hits = [0] * num_counters
        self.num_calls = 0
        self._spent_failure_prob = 0.0

    @classmethod
    def of_targets(
        cls, targets: Iterable[QTarget], target_hits: int, *, target_delta: float, **options: Any
    ) -> Self:
        """A session for calls of several targets: the largest epsilon and the smallest q."""
        common = common_target(targets)
        return cls(
            common.epsilon,
            target_hits,
            hit_prob=common.hit_prob,
            target_delta=target_delta,
            **options,
        )

    @property
    def halted(self) -> bool:
        """Whether no further call is allowed: every counter has reached `target_hits`."""
        return min(self.hits) >= self.target_hits

    @property
    def remaining_hits(self) -> int:
        """How many hits the least-hit counter still has."""
        return max(0, self.target_hits - min(self.hits))

    @property
    def event(self) -> Event:
        """The whole session for an accountant: the composed accesses, failing where they overrun.

        With k counters the cheaper, in zCDP, of the accesses up to k times `target_hits` hits, and `price.event`.
        """
        count = self.price.num_accesses
        overrun = self.price.overrun_prob
        counters = len(self.hits)
        if counters > 1:
            hits = counters * self.target_hits
            count = min_accesses(
                target_hits=hits, hit_prob=self.target.hit_prob, overrun_prob=counters * overrun
            )
            if count * self.target.epsilon**2 > self.price.epsilon**2:
                return self.price.event
            overrun = overrun_probability(count, target_hits=hits, hit_prob=self.target.hit_prob)
        return ApproximateEvent(
            SelfComposedEvent(PureDpEvent(self.target.epsilon), count), overrun + self.failure_prob
        )

    def require_open(self, target: QTarget | None = None, *, failure_prob: float = 0.0) -> None:
        """Raises unless a call with this target and delta may be made now and by this process."""
        self._require_own_process()
        require(
            not self.halted,
            "hits",
            min(self.hits),
            f"fewer than target_hits={self.target_hits} for a call",
        )
        covered = target is None or self.target.covers(target)
        require(
            covered,
            "target",
            target,
            f"no larger epsilon and no smaller hit_prob than {self.target}",
        )
        if failure_prob != 0.0:
            require(failure_prob > 0, "failure_prob", failure_prob, "a number >= 0")
            total = self._spent_failure_prob + failure_prob
            require(
                total <= self.failure_prob,
                "failure_prob",
                total,
                f"at most {self.failure_prob} over all calls",
            )

    def charge(
        self,
        outcome_in_target: bool | list[bool] | tuple[bool, ...],
        *,
        target: QTarget | None = None,
        failure_prob: float = 0.0,
    ) -> bool:
        """Counts one call and returns whether the session halted with it; raises as `require_open`, counting nothing.

        The outcome is whether it was in the call's target; with several counters, one each. The target is that of this
        call, None for the session's; the failure probability is its delta.
        """
        outcomes = (
            outcome_in_target
            if isinstance(outcome_in_target, (list, tuple))
            else (outcome_in_target,)
        )
        with self._turn():
            self.require_open(target, failure_prob=failure_prob)
            good = len(outcomes) == len(self.hits) and _BITS.issuperset(map(type, outcomes))
            require(good, "outcome_in_target", list(outcomes), f"{len(self.hits)} of True or False")
            self.hits = [hits + bool(hit) for hits, hit in zip(self.hits, outcomes, strict=True)]
            self.num_calls += 1
            self._spent_failure_prob += failure_prob
            return self.halted

    def charge_batch(self, outcomes_in_target: ArrayLike, *, target: QTarget | None = None) -> int:
        """Counts calls drawn at once, in their order, and returns how many of them were made before the session halted.

        Outcomes are bool `[Q]`, or `[Q, num_counters]` with several counters. Those of the calls after that are to be
        thrown away: they were never paid. The target is that of each call; None for the session's.
        """
        outcomes = np.asarray(outcomes_in_target)
        counters = len(self.hits)
        with self._turn():
            self.require_open(target)
            require(outcomes.dtype == bool, "outcomes_in_target.dtype", outcomes.dtype, "bool")
            expected = (outcomes.shape[:1] or (0,)) + ((counters,) if counters > 1 else ())
            rule = "[Q], or [Q, num_counters] with several counters"
            require(outcomes.shape == expected, "outcomes_in_target.shape", outcomes.shape, rule)
            # after 0, 1, … calls
            totals = np.cumsum(np.vstack([self.hits, outcomes.reshape(-1, counters)]), axis=0)
            made = min(int((totals.min(axis=1) < self.target_hits).sum()), len(outcomes))
            self.hits = totals[made].tolist()
            self.num_calls = self.num_calls + made
            return made

    @property
    def state(self) -> dict[str, Any]:
        """Parameters and counts as plain values for JSON, from which `resume` continues."""
        with self._turn():
            counts = {
                "hits": [*self.hits],
                "num_calls": self.num_calls,
                "spent_failure_prob": self._spent_failure_prob,
            }
            return {"target_charging": 1, "parameters": self._parameters} | counts

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continues from the state of a session with equal parameters; raises if this one has been charged."""
        parameters = state.get("parameters")
        require(
            parameters == self._parameters,
            "parameters",
            parameters,
            f"{self._parameters}, as of this session",
        )
        hits = state.get("hits")
        calls = require_count("num_calls", state.get("num_calls", -1), minimum=0)
        counts = [
            require_count("hits", count, minimum=0)
            for count in (hits if isinstance(hits, list) else [])
        ]
        possible = (
            len(counts) == len(self.hits)
            and max(counts) <= calls
            and min(counts) <= self.target_hits
        )
        rule = f"{len(self.hits)} counts, at most num_calls={calls}, and one at most {self.target_hits}"
        require(possible, "hits", hits, rule)
        spent = validation.require_non_negative(
            "spent_failure_prob", state.get("spent_failure_prob", -1.0)
        )
        require(
            spent <= self.failure_prob, "spent_failure_prob", spent, f"at most {self.failure_prob}"
        )
        with self._turn():
            require(
                self.num_calls == 0,
                "num_calls",
                self.num_calls,
                "0: only a session without calls can resume",
            )
            self.hits = counts
            self.num_calls = calls
            self._spent_failure_prob = spent

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the state to a file, which is whole at any moment; to be done before an outcome is released."""
        write_text(Path(path), to_json_line(self.state) + "\n")

    def load(self, path: str | os.PathLike[str]) -> None:
        """Continues from a file that `save` wrote; raises as `resume`, or where the file is no such state."""
        rule = "the state of a session as JSON"
        state = read_json(
            Path(path), rule=rule, remedy="restore it from a backup, or charge for a new session"
        )
        require(isinstance(state, dict) and state.get("target_charging") == 1, "path", path, rule)
        self.resume(state)
