"""The session: calls are free until they hit their target, and it ends after a number of hits."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from pate.accounting.events import ApproximateEvent, Event, PureDpEvent, SelfComposedEvent
from pate.accounting.target_charging.held_budget import HeldBudget
from pate.accounting.target_charging.hit_tail import min_accesses, overrun_probability
from pate.accounting.target_charging.price import SessionPrice, best_session_price
from pate.accounting.target_charging.targets import QTarget, common_target
from pate.files.atomic import write_text
from pate.files.strict_json import to_json_line
from pate.validation import InvalidValue, require, require_count, require_non_negative

_BITS = frozenset((bool, np.bool_))


class TargetCharging(HeldBudget):
    """Counts hits, refuses calls after the last hit, and states its price before the first call.

    The whole session is (price.epsilon, price.delta)-DP for the adjacency under which its calls are epsilon-DP. That
    holds whatever calls are chosen on the way, and however early the session ends. It needs two things: every call is a
    q-target call with an epsilon and a q no worse than the session's, and its caller obeys `require_open`.

    Edge cases: threads may share a session; what is charged after its last hit raises, and an outcome whose charge
    raised must not be released. It refuses to be copied or pickled, and to be charged in a forked process. A `state`
    is a copy too: of the sessions that resume from one, only one may go on.

    Args:
        epsilon: pure DP of one access, > 0; the largest of all calls.
        target_hits: tau, >= 1; with several counters, of each.
        hit_prob: q, in (0, 1); the smallest of all calls.
        target_delta: of the whole session.
        num_counters: how many targets are counted apart, each a q-target of every call. The session halts when all of
            them reached `target_hits`: the one hit least is paid for.
        failure_prob: the most that the deltas of the calls may sum to.

    Attributes:
        target: the epsilon and q that every call has to keep.
        price: of the whole session.
        hits: `[num_counters]` so far.
        num_calls: charged so far.

    >>> session = TargetCharging(0.1, 2, hit_prob=0.47, target_delta=1e-6)
    >>> [session.charge(hit) for hit in (False, True, False, True)]
    [False, False, False, True]
    >>> round(session.price.epsilon, 2), session.hits, session.num_calls
    (2.03, [2], 4)

    Source:
        Cohen & Lyu (2023), Theorem B.4 and its version for several targets.
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
        self.hits = [0] * num_counters
        self.num_calls = 0
        self._spent_failure_prob = 0.0

    @classmethod
    def of_targets(cls, targets: Iterable[QTarget], target_hits: int, *, target_delta: float, **options: Any) -> Self:
        """A session for calls of several targets: the largest epsilon and the smallest q."""
        common = common_target(targets)
        return cls(common.epsilon, target_hits, hit_prob=common.hit_prob, target_delta=target_delta, **options)

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

        It uses the split of delta that is best for `price`. Under another accountant, or composed with other events,
        its epsilon is valid, though not always the smallest. With k counters it is the cheaper, in zCDP, of two events:
        the accesses up to k times `target_hits` hits, and `price.event`; `price` itself is mostly below both.
        """
        count, overrun = self.price.num_accesses, self.price.overrun_prob
        if len(self.hits) > 1:
            hits, overrun = len(self.hits) * self.target_hits, len(self.hits) * overrun
            count = min_accesses(target_hits=hits, hit_prob=self.target.hit_prob, overrun_prob=overrun)
            if count * self.target.epsilon**2 > self.price.epsilon**2:
                return self.price.event
            overrun = overrun_probability(count, target_hits=hits, hit_prob=self.target.hit_prob)
        accesses = SelfComposedEvent(PureDpEvent(self.target.epsilon), count)
        return ApproximateEvent(accesses, overrun + self.failure_prob)

    def require_open(self, target: QTarget | None = None, *, failure_prob: float = 0.0) -> None:
        """Raises unless a call with this target and delta may be made now; call it before the call is made.

        Raises:
            InvalidValue: the session has halted, the target is worse than the session's, the deltas are used up, or
                this is another process than the session's.
        """
        self._require_own_process()
        if self.halted:
            raise InvalidValue(f"hits={min(self.hits)}: expected fewer than target_hits={self.target_hits} for a call")
        if target is not None and not self.target.covers(target):
            raise InvalidValue(
                f"target={target}: expected no larger epsilon and no smaller hit_prob than {self.target}"
            )
        if failure_prob != 0.0:
            require(failure_prob > 0, "failure_prob", failure_prob, "a number >= 0")
            total = self._spent_failure_prob + failure_prob
            require(total <= self.failure_prob, "failure_prob", total, f"at most {self.failure_prob} over all calls")

    def charge(
        self,
        outcome_in_target: bool | list[bool] | tuple[bool, ...],
        *,
        target: QTarget | None = None,
        failure_prob: float = 0.0,
    ) -> bool:
        """Counts one call and returns whether the session halted with it.

        Args:
            outcome_in_target: whether the call's outcome was in its target; with several counters, one each.
            target: of this call; None for the session's.
            failure_prob: the delta of this call.

        Raises:
            InvalidValue: as `require_open`, or another number of outcomes than counters; then nothing was counted.
        """
        outcomes = outcome_in_target if isinstance(outcome_in_target, (list, tuple)) else (outcome_in_target,)
        with self._turn():
            self.require_open(target, failure_prob=failure_prob)
            if len(outcomes) != len(self.hits) or not _BITS.issuperset(map(type, outcomes)):
                raise InvalidValue(f"outcome_in_target={list(outcomes)}: expected {len(self.hits)} of True or False")
            self.hits = [hits + bool(hit) for hits, hit in zip(self.hits, outcomes, strict=True)]
            self.num_calls += 1
            self._spent_failure_prob += failure_prob
            return self.halted

    def charge_batch(self, outcomes_in_target: ArrayLike, *, target: QTarget | None = None) -> int:
        """Counts calls drawn at once, in their order, and returns how many of them were made before the session halted.

        The outcomes of the calls after that are to be thrown away: they were never paid.

        Args:
            outcomes_in_target: bool `[Q]`, or `[Q, num_counters]` with several counters.
            target: of each call; None for the session's.

        Raises:
            InvalidValue: as `require_open`, or an array of another kind or shape; then nothing was counted.
        """
        outcomes = np.asarray(outcomes_in_target)
        with self._turn():
            self.require_open(target)
            require(outcomes.dtype == bool, "outcomes_in_target.dtype", outcomes.dtype, "bool")
            shape, counters = outcomes.shape, len(self.hits)
            rule = "[Q], or [Q, num_counters] with several counters"
            expected = (shape[:1] or (0,)) + ((counters,) if counters > 1 else ())
            require(shape == expected, "outcomes_in_target.shape", shape, rule)
            if len(outcomes) == 0:
                return 0
            totals = np.array(self.hits) + np.cumsum(outcomes.reshape(-1, counters), axis=0)
            halting = np.flatnonzero(totals.min(axis=1) >= self.target_hits)
            made = int(halting[0]) + 1 if halting.size else len(outcomes)
            self.hits = totals[made - 1].tolist()
            self.num_calls += made
            return made

    @property
    def state(self) -> dict[str, Any]:
        """Parameters and counts as plain values for JSON, from which `resume` continues."""
        with self._turn():
            return {
                "target_charging": 1,
                "parameters": self._parameters,
                "hits": list(self.hits),
                "num_calls": self.num_calls,
                "spent_failure_prob": self._spent_failure_prob,
            }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continues from the state of a session with equal parameters.

        Raises:
            InvalidValue: this session has been charged, the state is of a session with other parameters, or its
                counts are impossible; the session is then unchanged.
        """
        parameters = state.get("parameters")
        require(parameters == self._parameters, "parameters", parameters, f"{self._parameters}, as of this session")
        hits, calls = state.get("hits"), require_count("num_calls", state.get("num_calls", -1), minimum=0)
        counters = len(self.hits)
        require(isinstance(hits, list) and len(hits) == counters, "hits", hits, f"{counters} counts")
        counts = [require_count("hits", count, minimum=0) for count in hits or []]
        possible = max(counts) <= calls and min(counts) <= self.target_hits
        require(possible, "hits", counts, f"at most num_calls={calls}, and one at most {self.target_hits}")
        spent = require_non_negative("spent_failure_prob", state.get("spent_failure_prob", -1.0))
        require(spent <= self.failure_prob, "spent_failure_prob", spent, f"at most {self.failure_prob}")
        with self._turn():
            require(self.num_calls == 0, "num_calls", self.num_calls, "0: only a session without calls can resume")
            self.hits, self.num_calls, self._spent_failure_prob = counts, calls, spent

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the state to a file, which is whole at any moment; to be done before an outcome is released."""
        write_text(Path(path), to_json_line(self.state) + "\n")

    def load(self, path: str | os.PathLike[str]) -> None:
        """Continues from a file that `save` wrote; raises as `resume`, or where the file is no such state."""
        try:
            state = json.loads(Path(path).read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise InvalidValue(f"path={path}: expected the state of a session as JSON") from error
        known = isinstance(state, dict) and state.get("target_charging") == 1
        require(known, "path", path, "the state of a session as JSON")
        self.resume(state)

    @property
    def _parameters(self) -> dict[str, Any]:
        return {
            "epsilon": float(self.target.epsilon),
            "hit_prob": float(self.target.hit_prob),
            "target_hits": int(self.target_hits),
            "target_delta": float(self.target_delta),
            "num_counters": len(self.hits),
            "failure_prob": float(self.failure_prob),
        }
