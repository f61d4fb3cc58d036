"""The session: calls are free until they hit their target, and it ends after a number of hits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

from pate.accounting.events import ApproximateEvent, Event, PureDpEvent, SelfComposedEvent
from pate.accounting.target_charging.price import Price, best_price
from pate.accounting.target_charging.targets import Target, common_target
from pate.validation import InvalidValue, require


class TargetCharging:
    """Counts hits, refuses calls after the last, and knows its price before the first.

    The whole session, whatever calls are chosen on the way and however early it ends, is
    (price.epsilon, price.delta)-DP for the adjacency under which its calls are epsilon-DP, if every call is a q-target
    call with an epsilon and a q no worse than the session's, and if its caller obeys `require_open`.

    Args:
        epsilon: pure DP of one access, > 0; the largest of all calls.
        target_hits: tau, >= 1; with several counters, of each.
        hit_prob: q, in (0, 1); the smallest of all calls.
        target_delta: of the whole session.
        num_counters: how many targets are counted apart. The session halts when all of them reached `target_hits`.
        failure_prob: the most that the deltas of the calls may sum to.

    Attributes:
        target: the epsilon and q that every call has to keep.
        price: of the whole session.
        hits: `[num_counters]` so far.
        num_calls: charged so far.

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
        self.target = Target(epsilon, hit_prob)
        self.price: Price = best_price(
            self.target,
            target_hits=target_hits,
            target_delta=target_delta,
            num_counters=num_counters,
            failure_prob=failure_prob,
        )
        self.target_hits = target_hits
        self.failure_prob = failure_prob
        self.hits = [0] * num_counters
        self.num_calls = 0
        self._spent_failure_prob = 0.0

    @classmethod
    def of_targets(cls, targets: Iterable[Target], target_hits: int, *, target_delta: float, **options: Any) -> Self:
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

        Made for the split of delta that is best under `price`; under another accountant, or beside other events,
        its epsilon is valid, if not the smallest.

        Raises:
            InvalidValue: several counters, whose price holds for (epsilon, delta) alone.
        """
        if len(self.hits) > 1:
            raise InvalidValue(f"num_counters={len(self.hits)}: expected 1 for an event; use price")
        accesses = SelfComposedEvent(PureDpEvent(self.target.epsilon), self.price.num_accesses)
        return ApproximateEvent(accesses, self.price.overrun_prob + self.failure_prob)

    def require_open(self, target: Target | None = None, *, failure_prob: float = 0.0) -> None:
        """Raises unless a call with this target and delta may be made now; to be asked before the call.

        Raises:
            InvalidValue: the session has halted, the target is worse than the session's, or the deltas are used up.
        """
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
        self, outcome_in_target: bool | Sequence[bool], *, target: Target | None = None, failure_prob: float = 0.0
    ) -> bool:
        """Counts one call and returns whether the session halted with it.

        Args:
            outcome_in_target: whether the call's outcome was in its target; with several counters, one each.
            target: of this call; None for the session's.
            failure_prob: the delta of this call.

        Raises:
            InvalidValue: as `require_open`, or another number of outcomes than counters; then nothing was counted.
        """
        self.require_open(target, failure_prob=failure_prob)
        outcomes = outcome_in_target if isinstance(outcome_in_target, Sequence) else [outcome_in_target]
        if len(outcomes) != len(self.hits):
            raise InvalidValue(f"outcome_in_target={outcomes}: expected {len(self.hits)} of True or False")
        self.hits = [count + bool(hit) for count, hit in zip(self.hits, outcomes, strict=True)]
        self.num_calls += 1
        self._spent_failure_prob += failure_prob
        return self.halted
