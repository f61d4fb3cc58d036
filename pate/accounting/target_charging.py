"""Sessions that pay for the outcomes that matter, and not for every call: target charging.

A set of outcomes is a q-target of an epsilon-DP call if an access to the data hits the set with probability q at least
(`q_targets`). A payment per hit then covers 1 / q accesses on average. So calls are free until they hit, a session ends
after a number of hits, and its price is known before the first call (`session_price`; Cohen & Lyu 2023;
docs/proofs/target_charging.md).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn, Self, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from pate import validation
from pate.accounting.events import ApproximateEvent, Event, PureDpEvent, SelfComposedEvent
from pate.accounting.q_targets import (
    QTarget,
    between_thresholds,
    boundary,
    boundary_distribution,
    common_target,
    exact_hit_prob,
    not_prior,
    revise,
    run_twice,
    tight_boundary,
)
from pate.accounting.session_price import (
    SessionPrice,
    best_play_delta,
    best_session_price,
    min_accesses,
    overrun_probability,
)
from pate.files.disk import read_json, write_text
from pate.files.strict_json import plain, to_json_line
from pate.validation import InvalidValue, require, require_count

__all__ = [
    "HeldBudget",
    "QTarget",
    "SessionPrice",
    "TargetCharging",
    "best_play_delta",
    "best_session_price",
    "between_thresholds",
    "boundary",
    "boundary_distribution",
    "common_target",
    "exact_hit_prob",
    "min_accesses",
    "not_prior",
    "overrun_probability",
    "revise",
    "run_twice",
    "tight_boundary",
]

_BITS = frozenset((bool, np.bool_))


class HeldBudget:
    """A budget that falls with each answer, and that refuses copies: a copy would spend the same budget again."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process = os.getpid()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        rule = "one that is neither copied nor sent elsewhere, as a copy would spend the same budget again"
        raise InvalidValue("session", type(self).__name__, rule=f"{rule}; ask the one there is")

    def _turn(self) -> AbstractContextManager[bool]:
        """Returns the turn of one thread, from a look at the rest of the budget up to the new count.

        A thread that has the turn may take it again.
        """
        # before the lock, which another thread of the parent may have held at the fork
        self._require_own_process()
        return self._lock

    def _require_own_process(self) -> None:
        if os.getpid() != self._process:
            rule = f"{self._process}, which holds this {type(self).__name__}; a fork would spend the same budget again"
            raise InvalidValue("process", os.getpid(), rule=rule)


class TargetCharging(HeldBudget):
    """A session that counts hits, refuses calls after the last hit, and has its price before the first call.

    Formal guarantee: the whole session is (price.epsilon, price.delta)-DP for the adjacency under which its calls are
    epsilon-DP. The guarantee holds whatever calls are chosen on the way, and however early the session ends (Cohen &
    Lyu 2023, Theorem B.4 and its version for several targets). It needs two things: every call is a q-target call that
    the session's `target` covers, and the caller obeys `require_open`.

    Edge cases: threads may share a session. An outcome whose charge raised must not be released. A session refuses
    copies, pickles, and charges in a forked process. Of the sessions that resume from one `state`, only one may go on.

    Args:
        epsilon: the pure DP of one access to the data, the largest of all calls.
        target_hits: tau, the number of hits of every counter that ends the session.
        hit_prob: q, the smallest probability of a hit given an access, of all calls.
        target_delta: the delta of the whole session.
        num_counters: the number of q-targets of every call that are counted apart, in `hits`.
        failure_prob: the largest sum of the deltas of the calls.

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
        """Returns a session for calls of several targets: the largest epsilon and the smallest q."""
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
        """True where no further call is allowed, because every counter has reached `target_hits`."""
        return min(self.hits) >= self.target_hits

    @property
    def remaining_hits(self) -> int:
        """The number of hits that the least-hit counter still has."""
        return max(0, self.target_hits - min(self.hits))

    @property
    def event(self) -> Event:
        """The whole session for an accountant: the composed accesses, which fail where they overrun.

        With k counters, the accesses up to k times `target_hits` hits, or `price.event` where that is cheaper in zCDP.
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
        """Raises `InvalidValue` unless a call with this target and delta may be made now and by this process."""
        self._require_own_process()
        rule = f"fewer than target_hits={self.target_hits} for a call"
        require(not self.halted, "hits", min(self.hits), rule)
        is_covered = target is None or self.target.covers(target)
        rule = f"no larger epsilon and no smaller hit_prob than {self.target}"
        require(is_covered, "target", target, rule)
        if failure_prob != 0.0:
            require(failure_prob > 0, "failure_prob", failure_prob, "a number >= 0")
            total = self._spent_failure_prob + failure_prob
            rule = f"at most {self.failure_prob} over all calls"
            require(total <= self.failure_prob, "failure_prob", total, rule)

    def charge(
        self,
        outcome_in_target: bool | list[bool] | tuple[bool, ...],
        *,
        target: QTarget | None = None,
        failure_prob: float = 0.0,
    ) -> bool:
        """Counts one call and returns True where the session halted with the call.

        Raises as `require_open`, and counts nothing then.

        Args:
            outcome_in_target: True where the outcome was in the call's target; with several counters, one for each.
            target: the target of this call; None for that of the session.
            failure_prob: the delta of this call.
        """
        outcomes = (
            outcome_in_target
            if isinstance(outcome_in_target, (list, tuple))
            else (outcome_in_target,)
        )
        with self._turn():
            self.require_open(target, failure_prob=failure_prob)
            num_counters = len(self.hits)
            are_bits = len(outcomes) == num_counters and _BITS.issuperset(map(type, outcomes))
            rule = f"{num_counters} of True or False"
            require(are_bits, "outcome_in_target", list(outcomes), rule)
            self.hits = [hits + bool(hit) for hits, hit in zip(self.hits, outcomes, strict=True)]
            self.num_calls += 1
            self._spent_failure_prob += failure_prob
            return self.halted

    def charge_batch(self, outcomes_in_target: ArrayLike, *, target: QTarget | None = None) -> int:
        """Counts calls that were drawn at once, in their order, and returns the number of calls up to the halt.

        The outcomes of later calls are to be thrown away, because nothing has paid for them.

        Args:
            outcomes_in_target: True where an outcome was in its call's target, bool `[Q]`, or `[Q, num_counters]` with
                several counters.
            target: the target of each call; None for that of the session.
        """
        outcomes = np.asarray(outcomes_in_target)
        counters = len(self.hits)
        with self._turn():
            self.require_open(target)
            require(outcomes.dtype == bool, "outcomes_in_target.dtype", outcomes.dtype, "bool")
            expected = (outcomes.shape[:1] or (0,)) + ((counters,) if counters > 1 else ())
            rule = "[Q], or [Q, num_counters] with several counters"
            require(outcomes.shape == expected, "outcomes_in_target.shape", outcomes.shape, rule)
            # the hits after 0, 1, … calls, [Q + 1, counters]
            hits_after = np.cumsum(np.vstack([self.hits, outcomes.reshape(-1, counters)]), axis=0)
            is_open = hits_after.min(axis=1) < self.target_hits
            num_made = min(int(is_open.sum()), len(outcomes))
            self.hits = hits_after[num_made].tolist()
            self.num_calls = self.num_calls + num_made
            return num_made

    @property
    def state(self) -> dict[str, Any]:
        """The parameters and counts as plain values for JSON, from which `resume` continues."""
        with self._turn():
            counts = {
                "hits": [*self.hits],
                "num_calls": self.num_calls,
                "spent_failure_prob": self._spent_failure_prob,
            }
            return {"target_charging": 1, "parameters": self._parameters} | counts

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continues from the state of a session with equal parameters.

        Raises `InvalidValue` where this session has been charged, or the state is that of no such session.
        """
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
        """Writes the state to a file, which is whole at any moment; to be called before an outcome is released."""
        write_text(Path(path), to_json_line(self.state) + "\n")

    def load(self, path: str | os.PathLike[str]) -> None:
        """Continues from a file that `save` wrote; raises as `resume`, and where the file holds no state."""
        rule = "the state of a session as JSON"
        state = read_json(
            Path(path), rule=rule, remedy="restore it from a backup, or charge for a new session"
        )
        require(isinstance(state, dict) and state.get("target_charging") == 1, "path", path, rule)
        self.resume(state)
