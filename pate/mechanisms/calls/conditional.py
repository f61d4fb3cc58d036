"""Conditional release: outcomes that stay private until a set that is asked for contains them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
    """The answer to one question about an outcome."""

    key: int  # of the outcome, for `ConditionalRelease.revise`
    published: bool  # True where the outcome lay in the set
    outcome: Any  # None where it was not published


class ConditionalRelease(HeldBudget):
    """A session that draws outcomes, keeps them, and publishes each at most once: when it lies in a set asked for.

    The caller chooses each set from all earlier answers. Sets may overlap: an unpublished outcome lies in no earlier
    one.

    Formal guarantees, within the price of the session, which is charged before anything is returned:
        * the first question about an epsilon-DP outcome is a q-target call, q = 1 / (e^epsilon + 1), hit if published.
        * every later question about it is charged as a call of 2 epsilon; each outcome hits at most once.
        * a delta of the mechanism that drew the outcome is charged with the first question alone.

    Edge cases: a question that raises an error is charged as a hit, as the error may depend on the outcome. Unpublished
    outcomes are private and stay in memory. Threads take turns. Copies, pickles and forks are refused. The session has
    one counter, whose target covers every question: 2 epsilon if outcomes are asked for again.
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
        """Draws an outcome and publishes it where it lies in a set.

        Args:
            draw: draws the outcome with a generator, by an (epsilon, failure_prob)-DP mechanism.
            accept: the set; returns whether it contains an outcome, and must not read private data.
            epsilon: of the mechanism.
            failure_prob: of the mechanism; 0 for pure DP.
            rng: draws the outcome.

        Raises:
            InvalidValue: the session has halted or does not cover such a call; nothing is drawn.
        """
        require_generator(rng)
        target = target_charging.not_prior(epsilon)
        with self._turn():
            self.session.require_open(target, failure_prob=failure_prob)
            key = self._count
            self._count = self._count + 1
            return self._ask(
                key,
                partial(draw, rng),
                accept,
                target=target,
                next_target=target_charging.revise(epsilon),
                failure_prob=failure_prob,
            )

    def revise(self, key: int, accept: Accept) -> Conditional:
        """Asks for a stored outcome again, with another set.

        Raises `InvalidValue`, before the outcome is read, where no such outcome waits, or the session has halted or
        does not cover twice the epsilon.
        """
        with self._turn():
            if key not in self._waiting:
                raise InvalidValue("key", key, rule="an outcome that was drawn and not published")
            outcome, target = self._waiting[key]
            self.session.require_open(target)
            del self._waiting[key]
            return self._ask(
                key,
                lambda: outcome,
                accept,
                target=target,
                next_target=target,
                failure_prob=0.0,
            )

    def _ask(
        self,
        key: int,
        look: Callable[[], Any],
        accept: Accept,
        *,
        target: QTarget,
        next_target: QTarget,
        failure_prob: float,
    ) -> Conditional:
        """Charges and answers one question; an error counts as published.

        Args:
            key: of the outcome.
            look: returns the outcome.
            accept: the set.
            target: of this question.
            next_target: of the next question about the same outcome.
            failure_prob: of the mechanism that drew the outcome; 0 where it was charged before.
        """
        published = True
        try:
            outcome = look()
            published = bool(accept(outcome))
        finally:
            self.session.charge(published, target=target, failure_prob=failure_prob)
        if published:
            return Conditional(key, published=True, outcome=outcome)
        self._waiting[key] = (outcome, next_target)
        return Conditional(key, published=False, outcome=None)
