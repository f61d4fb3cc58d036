"""Conditional release: an outcome is drawn once and stays private until the caller names a set that contains it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pate.accounting import q_targets
from pate.accounting.held_budget import HeldBudget
from pate.accounting.q_targets import QTarget
from pate.accounting.target_charging import TargetCharging
from pate.validation import InvalidValue, require, require_generator, require_kind

# A set of outcomes: a function that returns True for the members of the set.
Accept = Callable[[Any], bool]
# A mechanism: a function that draws an outcome with a generator.
Draw = Callable[[np.random.Generator], Any]


@dataclass(frozen=True)
class Conditional:
    """The answer to the question whether a stored outcome lies in a set; the outcome is published if so.

    Attributes:
        key: the key by which `ConditionalRelease.revise` asks about the outcome again.
        published: whether the outcome lies in the set.
        outcome: the outcome; None if it is not published.
    """

    key: int
    published: bool
    outcome: Any


class ConditionalRelease(HeldBudget):
    """A session that draws outcomes and publishes an outcome only when the caller names a set that contains it.

    A question names a stored outcome and a set. The outcome is published if it lies in the set, and stays private
    otherwise. The caller may choose each set from all earlier answers. Sets may overlap.

    Formal guarantees, within the price of the session, which is charged before anything is returned:
        * the first question about an epsilon-DP outcome is a q-target call with q = 1 / (e^epsilon + 1). The call is
          a hit if the outcome is published.
        * every later question about the outcome is charged as a call of 2 epsilon. An outcome is a hit at most once.
        * a delta of the mechanism that drew the outcome is charged with the first question only.

    Edge cases: a question that raises an error is charged as a hit, because the error may depend on the outcome.
    Unpublished outcomes are private and stay in memory. Threads take turns. Copies, pickles and forks are refused. The
    argument `session` must have exactly one counter of hits, whose target covers every question: a target of 2 epsilon
    if any outcome is asked about a second time.
    Source: Cohen & Lyu 2023, ConditionalRelease and ReviseCR; docs/proofs/target_charging.md.

    >>> session = TargetCharging.of_targets([q_targets.revise(0.1)], target_hits=5, target_delta=1e-6)
    >>> stored = ConditionalRelease(session)
    >>> first = stored.release(lambda rng: 7, lambda y: y > 9, epsilon=0.1, rng=np.random.default_rng(0))
    >>> first.published, stored.revise(first.key, lambda y: y > 5).outcome, session.hits
    (False, 7, [1])
    """

    def __init__(self, session: TargetCharging) -> None:
        super().__init__()
        require_kind("session", session, TargetCharging, rule="a TargetCharging session")
        require(len(session.hits) == 1, "session.num_counters", len(session.hits), "1")
        self.session = session
        # The unpublished outcomes by their keys, each with the target of the next question about it.
        self._unpublished: dict[int, tuple[Any, QTarget]] = {}
        self._num_outcomes = 0

    def release(
        self,
        draw: Draw,
        accept: Accept,
        *,
        epsilon: float,
        failure_prob: float = 0.0,
        rng: np.random.Generator,
    ) -> Conditional:
        """Draws an outcome and publishes the outcome if it lies in a set.

        Args:
            draw: an (epsilon, failure_prob)-DP mechanism; a function that draws the outcome with a generator.
            accept: the set; a function that returns True for its members. It must not read private data.
            epsilon: the epsilon of the mechanism.
            failure_prob: the delta of the mechanism; 0 for pure DP.
            rng: the generator that is passed to `draw`.

        Returns:
            The answer, with the key by which `revise` asks about the same outcome again.

        Raises:
            InvalidValue: the session has halted or its target does not cover such a call; nothing is drawn.
        """
        require_generator(rng)
        target_set_of_this_question = q_targets.not_prior(call_epsilon=epsilon)
        with self._locked():
            self.session.require_open(target_set_of_this_question, failure_prob=failure_prob)
            outcome_number = self._num_outcomes
            self._num_outcomes = self._num_outcomes + 1
            return self._ask(
                outcome_number=outcome_number,
                read_outcome=partial(draw, rng),
                accept=accept,
                target_set_of_this_question=target_set_of_this_question,
                target_set_of_next_question=q_targets.revise(call_epsilon=epsilon),
                uncharged_failure_prob=failure_prob,
            )

    def revise(self, key: int, accept: Accept) -> Conditional:
        """Asks again about a stored outcome, with another set, and publishes the outcome if it lies in that set.

        Args:
            key: the key of the outcome, from the answer of `release`.
            accept: the set; a function that returns True for its members. It must not read private data.

        Raises:
            InvalidValue: no unpublished outcome has this key, or the session has halted, or its target does not cover
                a call of twice the epsilon. The error is raised before the outcome is read.
        """
        with self._locked():
            if key not in self._unpublished:
                raise InvalidValue("key", key, rule="an outcome that was drawn and not published")
            outcome, target_set_of_this_question = self._unpublished[key]
            self.session.require_open(target_set_of_this_question)
            del self._unpublished[key]

            def return_stored_outcome() -> Any:
                return outcome

            return self._ask(
                outcome_number=key,
                read_outcome=return_stored_outcome,
                accept=accept,
                target_set_of_this_question=target_set_of_this_question,
                target_set_of_next_question=target_set_of_this_question,
                uncharged_failure_prob=0.0,
            )

    def _ask(
        self,
        *,
        outcome_number: int,
        read_outcome: Callable[[], Any],
        accept: Accept,
        target_set_of_this_question: QTarget,
        target_set_of_next_question: QTarget,
        uncharged_failure_prob: float,
    ) -> Conditional:
        """Answers one question about an outcome and charges the session for it.

        An error of `read_outcome` or `accept` is charged as a hit, like an outcome that is published.

        Args:
            outcome_number: the key of the outcome.
            read_outcome: returns the outcome.
            accept: the set; a function that returns True for its members.
            target_set_of_this_question: the target of this question, which the session is charged for.
            target_set_of_next_question: the target of the next question about the same outcome, which is stored with
                the outcome unless this question publishes it.
            uncharged_failure_prob: the delta of the mechanism that drew the outcome; 0 if an earlier question was
                charged for it.
        """
        published = True
        try:
            outcome = read_outcome()
            published = bool(accept(outcome))
        finally:
            self.session.charge(
                outcome_in_target=published,
                target=target_set_of_this_question,
                failure_prob=uncharged_failure_prob,
            )
        if published:
            return Conditional(key=outcome_number, published=True, outcome=outcome)
        self._unpublished[outcome_number] = (outcome, target_set_of_next_question)
        return Conditional(key=outcome_number, published=False, outcome=None)
