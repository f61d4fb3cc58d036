"""Conditional release: an outcome is published if it lies in a set; another set may be asked for later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pate.accounting.target_charging import HeldBudget, QTarget, TargetCharging, not_prior, revise
from pate.validation import InvalidValue, require, require_generator, require_kind


@dataclass(frozen=True)
class Conditional:
    """What was published of one outcome.

    Attributes:
        key: names the outcome, for `ConditionalRelease.revise`.
        published: whether it lay in the set.
        outcome: the outcome, None where it was not published.
    """

    key: int
    published: bool
    outcome: Any


class ConditionalRelease(HeldBudget):
    """Draws outcomes, keeps them, and publishes each at most once: when it lies in a set that is asked for.

    The caller chooses the sets from what is known so far. An unpublished outcome lies in none of the sets asked before,
    so sets may overlap: a later one counts without the earlier ones.

    Formal guarantees, within the price of the session, which is charged before anything is returned:
        * the first question about an epsilon-DP outcome is a q-target call, q = 1 / (e^epsilon + 1), hit if published.
        * every later one is charged as a call of 2 epsilon; each outcome hits at most once in its life.
        * a delta of the outcome's mechanism is charged with the first question alone.

    Edge cases: a question that raises an error is charged as a hit, as the error may depend on the outcome. Unpublished
    outcomes are private, kept in memory only, and lost when the process ends. Threads may ask; one question follows
    another, whoever asks. It refuses to be copied or pickled, and to be asked in a forked process.

    Attributes:
        session: one counter, whose target covers every question: 2 epsilon if outcomes are asked for again.

    Source: Cohen & Lyu 2023, ConditionalRelease and ReviseCR; docs/proofs/target_charging.md.

    >>> session = TargetCharging.of_targets([revise(0.1)], target_hits=5, target_delta=1e-6)
    >>> stored = ConditionalRelease(session)
    >>> first = stored.release(lambda rng: 7, lambda y: y > 9, epsilon=0.1, rng=np.random.default_rng(0))
    >>> first.published, stored.revise(first.key, lambda y: y > 5).outcome, session.hits
    (False, 7, [1])
    """

    def __init__(self, session: TargetCharging) -> None:
        super().__init__()
        require_kind("session", session, TargetCharging, "a TargetCharging session")
        require(len(session.hits) == 1, "session.num_counters", len(session.hits), "1")
        self.session = session
        self._waiting: dict[int, tuple[Any, QTarget]] = {}
        self._count = 0

    def release(
        self,
        draw: Callable[[np.random.Generator], Any],
        accept: Callable[[Any], bool],
        *,
        epsilon: float,
        failure_prob: float = 0.0,
        rng: np.random.Generator,
    ) -> Conditional:
        """Draws an outcome and publishes it if `accept` says so.

        Args:
            draw: an epsilon-DP mechanism on the private data.
            accept: whether an outcome lies in the set; it must not look at private data.
            epsilon: of `draw`.
            failure_prob: the delta of `draw`.
            rng: for `draw`.

        Raises:
            InvalidValue: the session has halted or does not cover such a call; then nothing was drawn.
        """
        require_generator(rng)
        target = not_prior(epsilon)
        with self._turn():
            self.session.require_open(target, failure_prob=failure_prob)
            key, self._count = self._count, self._count + 1
            return self._ask(key, lambda: draw(rng), accept, target, revise(epsilon), failure_prob)

    def revise(self, key: int, accept: Callable[[Any], bool]) -> Conditional:
        """Asks for a stored outcome again, with another set.

        Raises:
            InvalidValue: no outcome of that name waits (it was published, or never drawn), the session has halted, or
                it does not cover a call of twice the epsilon; then nothing was looked at.
        """
        with self._turn():
            if key not in self._waiting:
                raise InvalidValue(f"key={key}: expected an outcome that was drawn and not published")
            outcome, target = self._waiting[key]
            self.session.require_open(target)
            del self._waiting[key]
            return self._ask(key, lambda: outcome, accept, target, target, 0.0)

    def _ask(
        self,
        key: int,
        look: Callable[[], Any],
        accept: Callable[[Any], bool],
        target: QTarget,
        next_target: QTarget,
        failure_prob: float,
    ) -> Conditional:
        """Charges one question; what raises counts as published."""
        published = True
        try:
            outcome = look()
            published = bool(accept(outcome))
        finally:
            self.session.charge(published, target=target, failure_prob=failure_prob)
        if published:
            return Conditional(key, True, outcome)
        self._waiting[key] = (outcome, next_target)
        return Conditional(key, False, None)
