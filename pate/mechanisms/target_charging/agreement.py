"""Running twice: two outcomes that agree are free, for any mechanism of pure DP whose distribution may be unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event, SelfComposedEvent
from pate.accounting.target_charging import QTarget, run_twice
from pate.mechanisms.target_charging.boundary_wrapper import pure_epsilon
from pate.mechanisms.top_k.top_k import TopK
from pate.validation import InvalidValue, require, require_generator


class Mechanism(Protocol):
    """Draws an array, `[]` or `[Q]`, or a `TopK`, from votes and a generator, and states its price."""

    @property
    def event(self) -> Event:
        """Its price."""
        ...

    def __call__(self, votes: NDArray[np.integer], /, *, rng: np.random.Generator) -> Any:
        """One outcome, or one for each query of a batch."""
        ...


@dataclass(frozen=True)
class TwoRuns:
    """The outcome of calls that were run twice; both are released.

    Attributes:
        first: an outcome of the mechanism.
        second: another of the same votes.
        in_target: bool `[]` or `[Q]`: whether they differ, the hits of a session.
    """

    first: Any
    second: Any
    in_target: NDArray[np.bool_]


@dataclass(frozen=True)
class RunTwice:
    """Runs a mechanism twice on the same votes, with fresh noise, and releases both outcomes.

    Formal guarantees, for the adjacency of the wrapped epsilon-DP mechanism:
        * one call: twice its event.
        * in a session: "the outcomes differ" is a q-target of a 2 epsilon-DP call, with q the smaller of
          (e^epsilon + 1) / (e^(2 epsilon) + e^epsilon + 1) and 2 e^epsilon / (e^epsilon + 1)^2; tight.

    Attributes:
        mechanism: of pure DP; a batch is run query by query with independent noise.

    Source: Cohen & Lyu 2023, Lemma F.1; docs/proofs/target_charging.md.

    >>> from pate.mechanisms.stable.gap_selection import GapSelection
    >>> twice = RunTwice(GapSelection(noise_scale=20.0, num_labels=3, num_teachers=400))
    >>> outcome = twice(np.array([[400, 50, 40], [400, 210, 20]]), rng=np.random.default_rng(3))
    >>> outcome.first, outcome.second, outcome.in_target
    (array([1, 1]), array([1, 2]), array([False,  True]))
    """

    mechanism: Mechanism

    def __post_init__(self) -> None:
        require(hasattr(self.mechanism, "event"), "mechanism", type(self.mechanism).__name__, "one of pure DP")
        _ = self.target

    @property
    def target(self) -> QTarget:
        """What a call costs in a session."""
        return run_twice(pure_epsilon(self.mechanism.event))

    @property
    def event(self) -> Event:
        """The price of one call outside a session."""
        return SelfComposedEvent(self.mechanism.event, 2)

    def __call__(self, votes: NDArray[np.integer], *, rng: np.random.Generator) -> TwoRuns:
        """Draws twice for one histogram, or for each of a batch."""
        require_generator(rng)
        first, second = self.mechanism(votes, rng=rng), self.mechanism(votes, rng=rng)
        return TwoRuns(first, second, _differ(first, second))


def _differ(first: Any, second: Any) -> NDArray[np.bool_]:
    """Where two outcomes of one mechanism are not the same; the order of indices counts."""
    if isinstance(first, TopK) and isinstance(second, TopK):
        return np.asarray((first.indices != second.indices).any(axis=-1))
    if isinstance(first, (np.ndarray, np.generic)) and first.ndim <= 1:
        return np.asarray(first != second)
    raise InvalidValue(f"mechanism={type(first).__name__}: expected one whose outcome is an array [Q] or a TopK")
