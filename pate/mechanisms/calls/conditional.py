"""Conditional release: outcomes that are kept, and published when a set that is asked for holds them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pate.accounting import (
    target_charging,
)
from pate.accounting.target_charging import HeldBudget, QTarget, TargetCharging
from pate.validation import (
    InvalidValue,
    require,
    require_generator,
    require_kind,
)

Accept = Callable[[Any], bool]


Draw = Callable[[np.random.Generator], Any]


@dataclass(frozen=True)
class Conditional:
    """What was published of one outcome."""

    key: int  # names the outcome, for `ConditionalRelease.revise`
    published: bool  # whether it lay in the set
    outcome: Any  # None where it was not published


class ConditionalRelease(HeldBudget):
    """Draws outcomes, keeps them, and publishes each at most once: when it lies in a set that is asked for.

    The caller chooses the sets from what is known so far. They may overlap: an unpublished outcome lies in none before.

    Formal guarantees, within the price of the session, which is charged before anything is returned:
        * the first question about an epsilon-DP outcome is a q-target call, q = 1 / (e^epsilon + 1), hit if published.
        * every later one is charged as a call of 2 epsilon; each outcome hits at most once in its life.
        * a delta of the outcome's mechanism is charged with the first question alone.

    Edge cases: a question that raises an error is charged as a hit, as the error may depend on the outcome. Unpublished
    outcomes are private, in memory only. Threads take turns. It refuses copies, pickles and forks. The session has one
    counter, whose target covers every question: 2 epsilon if outcomes are asked for again.
    Source: Cohen & Lyu 2023, ConditionalRelease and ReviseCR; docs/proofs/target_charging.md.

    >>> session = TargetCharging.of_targets([target_charging.revise(0.1)], target_hits=5, target_delta=1e-6)
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
        draw: Draw,
        accept: Accept,
        *,
        epsilon: float,
        failure_prob: float = 0.0,
        rng: np.random.Generator,
    ) -> Conditional:
        """Draws an outcome of an (epsilon, failure_prob)-DP mechanism and publishes it if `accept`, the set, says so.

        `accept` must not look at private data. `InvalidValue`, and nothing is drawn, where the session has halted or
        does not cover such a call.
        """
        require_generator(rng)
        target = target_charging.not_prior(epsilon)
        with self._turn():
            self.session.require_open(target, failure_prob=failure_prob)
            key = self._count
            self._count = self._count + 1
            again = target_charging.revise(epsilon)
            return self._ask(key, lambda: draw(rng), accept, (target, again), failure_prob)

    def revise(self, key: int, accept: Accept) -> Conditional:
        """Asks for a stored outcome again, with another set.

        `InvalidValue`, and nothing is looked at, where no such outcome waits, or the session has halted or does not
        cover twice the epsilon.
        """
        with self._turn():
            if key not in self._waiting:
                raise InvalidValue("key", key, rule="an outcome that was drawn and not published")
            outcome, target = self._waiting[key]
            self.session.require_open(target)
            del self._waiting[key]
            return self._ask(key, lambda: outcome, accept, (target, target), 0.0)

    def _ask(
        self,
        key: int,
        look: Callable[[], Any],
        accept: Accept,
        targets: tuple[QTarget, QTarget],
        failure_prob: float,
    ) -> Conditional:
        """Charges one question, by its target and that of the next one; what raises counts as published."""
        published = True
        try:
            outcome = look()
            published = bool(accept(outcome))
        finally:
            self.session.charge(published, target=targets[0], failure_prob=failure_prob)
        if published:
            return Conditional(key, True, outcome)
        self._waiting[key] = (outcome, targets[1])
        return Conditional(key, False, None)
