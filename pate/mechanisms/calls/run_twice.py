"""A mechanism that is run twice on the same votes; a session is charged only for calls whose two outcomes differ."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event, SelfComposedEvent, q_targets
from pate.accounting.q_targets import QTarget
from pate.array_types import BoolArray
from pate.mechanisms.calls.boundary import mechanism_epsilon
from pate.mechanisms.top_k.mechanism import TopK
from pate.validation import InvalidValue, require_generator


@dataclass(frozen=True)
class TwoRuns:
    """The outcomes of two runs of a mechanism on the same votes.

    Attributes:
        first: the outcome of the first run.
        second: the outcome of the second run.
        in_target: bool `[]` or `[Q]`, True where the call is a hit, which is where the outcomes differ.
    """

    first: Any
    second: Any
    in_target: BoolArray


@dataclass(frozen=True)
class RunTwice:
    """A mechanism that runs a wrapped mechanism twice on the same votes, with fresh noise, and releases both outcomes.

    Formal guarantee, for the adjacency of the wrapped mechanism: one call costs twice its event. In a session "the
    outcomes differ" is a q-target of a 2 epsilon-DP call, with q the smaller of (e^epsilon + 1) / (e^(2 epsilon) +
    e^epsilon + 1) and 2 e^epsilon / (e^epsilon + 1)^2; tight.

    Attributes:
        mechanism: the wrapped mechanism, of pure DP, with an `event`. Called with votes and `rng=`, it returns an
            array, `[]` or `[Q]`, or a `TopK`.

    Source: Cohen & Lyu 2023, Lemma F.1; docs/proofs/target_charging.md.

    >>> from pate.mechanisms.gap_selection import GapSelection
    >>> twice = RunTwice(GapSelection(noise_scale=20.0, num_labels=3, num_teachers=400))
    >>> outcome = twice(np.array([[400, 50, 40], [400, 210, 20]]), rng=np.random.default_rng(3))
    >>> outcome.first, outcome.second, outcome.in_target
    (array([1, 1]), array([1, 2]), array([False,  True]))
    """

    mechanism: Any

    def __post_init__(self) -> None:
        _ = self.target  # raises `InvalidValue` for a mechanism without a target

    @property
    def target(self) -> QTarget:
        """The target set of target charging: all pairs of outcomes that differ, also two orders of the same labels."""
        return q_targets.run_twice(mechanism_epsilon(self.mechanism))

    @property
    def event(self) -> Event:
        """The price of two runs."""
        return SelfComposedEvent(self.mechanism.event, count=2)

    def __call__(self, votes: NDArray[np.integer], *, rng: np.random.Generator) -> TwoRuns:
        """Runs the wrapped mechanism twice on one histogram `[d]`, or twice on each of a batch `[Q, d]`.

        Raises `InvalidValue` if the wrapped mechanism returns neither an array `[]` or `[Q]` nor a `TopK`.
        """
        require_generator(rng)
        first_outcome = self.mechanism(votes, rng=rng)
        second_outcome = self.mechanism(votes, rng=rng)
        if isinstance(first_outcome, TopK):
            # Two orders of the same set differ.
            outcomes_differ = np.asarray(
                (first_outcome.indices != second_outcome.indices).any(axis=-1)
            )
        elif isinstance(first_outcome, (np.ndarray, np.generic)) and first_outcome.ndim <= 1:
            outcomes_differ = np.asarray(first_outcome != second_outcome)
        else:
            rule = "one whose outcome is an array [Q] or a TopK"
            raise InvalidValue("mechanism", type(first_outcome).__name__, rule=rule)
        return TwoRuns(first=first_outcome, second=second_outcome, in_target=outcomes_differ)
