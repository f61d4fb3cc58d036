"""Target charging: sessions of calls that are charged for hits, and not for every call.

A call runs an epsilon-DP algorithm on the private data and returns an outcome. A *hit* is a call whose outcome lies in
a given set, the target. A call can be seen as first deciding whether to *access* the private data at all. The set is a
q-target if an access gives a hit with probability at least q (`q_targets`). So there are at most about 1 / q accesses
for each hit. A session ends after a fixed number of hits, however many calls that takes. Its price depends on the
number of hits and not on that of calls, so it is known before the first call (`session_price`; Cohen & Lyu 2023;
docs/proofs/target_charging.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from pate.accounting.events import ApproximateEvent, Event, PureDpEvent, SelfComposedEvent
from pate.accounting.held_budget import HeldBudget
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
from pate.files.atomic import write_text
from pate.files.reading import read_json
from pate.files.strict_json import plain, to_json_line
from pate.validation import InvalidValue, require, require_count, require_non_negative

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


# The version of the dictionary that `TargetCharging.state` returns.
_STATE_VERSION = 1


class TargetCharging(HeldBudget):
    """A session that counts the hits of its calls, and refuses calls after a fixed number of hits.

    The module explains calls, accesses, hits and targets.

    Formal guarantee: the whole session is (price.epsilon, price.delta)-DP, for the adjacency under which its calls are
    epsilon-DP. The guarantee holds for any choice of each call after seeing earlier outcomes, and for any earlier end
    (Cohen & Lyu 2023, Theorem B.4 and its version for several targets). It has two conditions: the session's `target`
    covers the q-target of every call, and the caller makes no call for which `require_open` raises.

    Edge cases: threads may share a session. An outcome whose charge raised an error must not be released. A session
    cannot be copied, pickled or charged in a forked process. If several sessions resume from one `state`, only one of
    them may continue.

    Args:
        epsilon: the epsilon of pure DP of one access to the private data, the largest over all calls.
        target_hits: tau, the number of hits that ends the session; with several counters, each must reach this number.
        hit_prob: q, the smallest probability that an access gives a hit, over all calls.
        target_delta: the delta of the whole session.
        num_counters: the number of target sets of each call. `hits` counts the hits of each set separately, also after
            a counter has reached `target_hits`.
        failure_prob: the largest sum of the deltas of all calls, where calls are (epsilon, delta)-DP.

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
        q_target = QTarget(epsilon=epsilon, hit_prob=hit_prob)
        self.target = q_target
        # `failure_prob` is the sum of the deltas of all calls; overruns take another part of `target_delta`.
        self.price: SessionPrice = best_session_price(
            q_target,
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
        cls,
        targets: Iterable[QTarget],
        target_hits: int,
        *,
        target_delta: float,
        num_counters: int = 1,
        failure_prob: float = 0.0,
    ) -> Self:
        """Returns a session for calls with different q-targets, priced by the largest epsilon and the smallest q.

        Args:
            targets: an epsilon and a q for each call, or for each kind of call.
            target_hits: the number of hits that ends the session.
            target_delta: the delta of the whole session.
            num_counters: the number of target sets of each call, whose hits are counted separately.
            failure_prob: the largest sum of the deltas of all calls.
        """
        # The largest epsilon and the smallest probability of a hit of all targets.
        covering_q_target = common_target(targets)
        return cls(
            epsilon=covering_q_target.epsilon,
            target_hits=target_hits,
            hit_prob=covering_q_target.hit_prob,
            target_delta=target_delta,
            num_counters=num_counters,
            failure_prob=failure_prob,
        )

    @property
    def halted(self) -> bool:
        """Whether the session has ended, because every counter has reached `target_hits`."""
        return min(self.hits) >= self.target_hits

    @property
    def remaining_hits(self) -> int:
        """The number of hits that the session's end still needs at the counter that has counted the fewest so far."""
        fewest_hits_so_far = min(self.hits)
        return max(0, self.target_hits - fewest_hits_so_far)

    @property
    def event(self) -> Event:
        """The price of the whole session as an event that accountants can compose with other events.

        With one counter it is the composition of `price.num_accesses` accesses to the private data. Its failure
        probability includes the probability that the session needs more accesses. With k counters it is the cheaper of
        two, by their zCDP bounds: the composition of as many accesses as k * `target_hits` hits need, or `price.event`.
        """
        num_counters = len(self.hits)
        if num_counters == 1:
            return self._event_of_accesses(
                self.price.num_accesses, overrun_prob=self.price.overrun_prob
            )
        hits_of_all_counters = num_counters * self.target_hits
        least_hit_prob = self.target.hit_prob
        num_accesses = min_accesses(
            target_hits=hits_of_all_counters,
            hit_prob=least_hit_prob,
            overrun_prob=num_counters * self.price.overrun_prob,
        )
        # An epsilon-DP event has rho = epsilon^2 / 2, so the sums of epsilon^2 are compared.
        if num_accesses * self.target.epsilon**2 > self.price.epsilon**2:
            return self.price.event
        return self._event_of_accesses(
            num_accesses,
            overrun_prob=overrun_probability(
                num_accesses, target_hits=hits_of_all_counters, hit_prob=least_hit_prob
            ),
        )

    def _event_of_accesses(self, num_accesses: int, *, overrun_prob: float) -> Event:
        """Returns the price of composed accesses to the private data, with a failure probability.

        The price fails where the session needs more accesses, or where a call fails.

        Args:
            num_accesses: the number of accesses.
            overrun_prob: the probability that the session needs more accesses.
        """
        event_of_access = PureDpEvent(self.target.epsilon)
        return ApproximateEvent(
            event=SelfComposedEvent(event=event_of_access, count=num_accesses),
            failure_prob=overrun_prob + self.failure_prob,
        )

    def require_open(self, target: QTarget | None = None, *, failure_prob: float = 0.0) -> None:
        """Raises `InvalidValue` unless this process may make a call in this session now; takes no lock.

        Another thread may end the session after the check. So `charge` checks again, with the lock.

        Args:
            target: the q-target of the call, which the session's target must cover; None for the session's target.
            failure_prob: the delta of the call, which must fit into the session's `failure_prob`.
        """
        self._require_own_process()
        fewest_hits_so_far = min(self.hits)
        if self.halted:
            rule = f"fewer than target_hits={self.target_hits} for a call"
            raise InvalidValue("hits", fewest_hits_so_far, rule=rule)
        if target is not None and not self.target.covers(target):
            rule = f"no larger epsilon and no smaller hit_prob than {self.target}"
            raise InvalidValue("target", target, rule=rule)
        if failure_prob != 0.0:
            require(failure_prob > 0, "failure_prob", failure_prob, "a number >= 0")
            total_failure_prob = self._spent_failure_prob + failure_prob
            largest_failure_prob = self.failure_prob
            require(
                total_failure_prob <= largest_failure_prob,
                "failure_prob",
                total_failure_prob,
                f"at most {largest_failure_prob} over all calls",
            )

    def charge(
        self,
        outcome_in_target: bool | list[bool] | tuple[bool, ...],
        *,
        target: QTarget | None = None,
        failure_prob: float = 0.0,
    ) -> bool:
        """Counts one call and its hits, and returns True if the session ended with this call.

        The outcome of the call may then be released, as that of every counted call.

        Args:
            outcome_in_target: True where the call was a hit; with several counters, a list with one bool for each
                counter.
            target: the q-target of this call; None for the session's target.
            failure_prob: the delta of this call.

        Raises:
            InvalidValue: the call is not allowed (`require_open`), or `outcome_in_target` has another form. Nothing is
                counted.
        """
        is_hit_of_counters = (
            outcome_in_target
            if isinstance(outcome_in_target, (list, tuple))
            else (outcome_in_target,)
        )
        with self._locked():
            q_target_of_call = self.target if target is None else target
            self.require_open(q_target_of_call, failure_prob=failure_prob)
            num_counters = len(self.hits)
            are_bools = all(isinstance(outcome, (bool, np.bool_)) for outcome in is_hit_of_counters)
            if not are_bools or len(is_hit_of_counters) != num_counters:
                rule = f"{num_counters} of True or False"
                raise InvalidValue("outcome_in_target", list(is_hit_of_counters), rule=rule)
            self.hits = [
                hits + bool(is_hit)
                for hits, is_hit in zip(self.hits, is_hit_of_counters, strict=True)
            ]
            self.num_calls += 1
            self._spent_failure_prob += failure_prob
            return self.halted

    def charge_batch(self, outcomes_in_target: ArrayLike, *, target: QTarget | None = None) -> int:
        """Counts a batch of calls in order, up to the end of the session, and returns the number of counted calls.

        The call that ends the session is counted, too. The caller must discard the outcomes of all later calls of the
        batch, because they are not charged.

        Args:
            outcomes_in_target: True where a call was a hit, bool `[num_calls]`; with several counters,
                `[num_calls, num_counters]`.
            target: the q-target of each call; None for the session's target.
        """
        is_hit_of_calls = np.asarray(outcomes_in_target)
        num_counters = len(self.hits)
        with self._locked():
            q_target_of_calls = self.target if target is None else target
            self.require_open(q_target_of_calls)
            require(
                is_hit_of_calls.dtype == bool,
                "outcomes_in_target.dtype",
                is_hit_of_calls.dtype,
                "bool",
            )
            if num_counters > 1:
                has_valid_shape = (
                    is_hit_of_calls.ndim == 2 and is_hit_of_calls.shape[1] == num_counters
                )
            else:
                has_valid_shape = is_hit_of_calls.ndim == 1
            if not has_valid_shape:
                rule = "[Q], or [Q, num_counters] with several counters"
                raise InvalidValue("outcomes_in_target.shape", is_hit_of_calls.shape, rule=rule)
            counter_hits_of_calls = is_hit_of_calls.reshape(-1, num_counters)
            # the hits after 0, 1, … calls, [num_calls + 1, num_counters]
            counter_hits_after_calls = np.cumsum(
                np.vstack([self.hits, counter_hits_of_calls]), axis=0
            )
            fewest_hits_after_calls = counter_hits_after_calls.min(axis=1)
            is_open_after_calls = fewest_hits_after_calls < self.target_hits
            num_counted_calls = min(int(is_open_after_calls.sum()), len(is_hit_of_calls))
            self.hits = counter_hits_after_calls[num_counted_calls].tolist()
            self.num_calls += num_counted_calls
            return num_counted_calls

    @property
    def state(self) -> dict[str, Any]:
        """The parameters and the counts as a dictionary for JSON, from which `resume` continues the session."""
        with self._locked():
            counts = {
                "hits": [*self.hits],
                "num_calls": self.num_calls,
                "spent_failure_prob": self._spent_failure_prob,
            }
            return {"target_charging": _STATE_VERSION, "parameters": self._parameters} | counts

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continues a saved session: sets the counts of this session to the counts in `state`.

        Args:
            state: the `state` of a session with the same parameters.

        Raises:
            InvalidValue: this session has counted a call already, or `state` is not the state of a session with the
                same parameters.
        """
        parameters_of_session = state.get("parameters")
        if parameters_of_session != self._parameters:
            rule = f"{self._parameters}, as of this session"
            raise InvalidValue("parameters", parameters_of_session, rule=rule)
        num_calls = require_count("num_calls", state.get("num_calls", -1), minimum=0)
        hits = self._hits_from_state(state.get("hits"), num_calls=num_calls)
        spent_failure_prob = require_non_negative(
            "spent_failure_prob", state.get("spent_failure_prob", -1.0)
        )
        if spent_failure_prob > self.failure_prob:
            rule = f"at most {self.failure_prob}"
            raise InvalidValue("spent_failure_prob", spent_failure_prob, rule=rule)
        with self._locked():
            if self.num_calls > 0:
                rule = "0: only a session without calls can resume"
                raise InvalidValue("num_calls", self.num_calls, rule=rule)
            self.hits = hits
            self.num_calls = num_calls
            self._spent_failure_prob = spent_failure_prob

    def _hits_from_state(self, stored_hits: object, *, num_calls: int) -> list[int]:
        """Returns the hits of a saved session; raises `InvalidValue` for counts that this session cannot have.

        Args:
            stored_hits: the counts as the state has them.
            num_calls: the number of calls of the saved session.
        """
        stored_counts = stored_hits if isinstance(stored_hits, list) else []
        hits_of_counters = [
            require_count("hits", hits_of_counter, minimum=0) for hits_of_counter in stored_counts
        ]
        is_possible = (
            len(hits_of_counters) == len(self.hits)
            and max(hits_of_counters) <= num_calls
            and min(hits_of_counters) <= self.target_hits
        )
        if not is_possible:
            rule = (
                f"one count for each counter ({len(self.hits)}), each at most "
                f"num_calls={num_calls}, and one of them at most {self.target_hits}"
            )
            raise InvalidValue("hits", stored_hits, rule=rule)
        return hits_of_counters

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the state to a file; the caller must do so before each release of an outcome.

        The file is replaced in one step, so that a crash never leaves half a file.
        """
        write_text(Path(path), text=to_json_line(self.state) + "\n")

    def load(self, path: str | os.PathLike[str]) -> None:
        """Continues the session whose state `save` wrote to a file.

        Raises `InvalidValue` where `resume` does, and where the file does not hold the state of a session.
        """
        rule = "the state of a session as JSON"
        session_state = read_json(
            Path(path), rule=rule, remedy="restore it from a backup, or charge for a new session"
        )
        state_version = None
        if isinstance(session_state, dict):
            state_version = session_state.get("target_charging")
        if state_version != _STATE_VERSION:
            raise InvalidValue("path", path, rule=rule)
        self.resume(session_state)
