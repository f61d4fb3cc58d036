"""Counts with noise of which only those that come out are paid for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from pate.accounting import Adjacency, ApproximateEvent, Event, PureDpEvent, SelfComposedEvent
from pate.accounting.target_charging import QTarget, min_accesses
from pate.mechanisms.noise.discrete_laplace import DiscreteLaplace
from pate.validation import require_positive, require_probability


@dataclass(frozen=True, kw_only=True)
class NoisyCounts(ABC):
    """Counts that one change moves by at most 1, with discrete Laplace noise; each that comes out is a hit.

    Attributes:
        epsilon: pure DP of one noisy count, > 0; not of the release.
        failure_prob: of more accesses than are paid for, in (0, 1); their number follows from it.
        adjacency: what one change means.
    """

    epsilon: float
    failure_prob: float
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)
        require_probability("failure_prob", self.failure_prob)
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        _ = self.noise

    @property
    def noise(self) -> DiscreteLaplace:
        """The noise on each count."""
        return DiscreteLaplace.at_most(float(self.epsilon))

    @property
    @abstractmethod
    def target(self) -> QTarget:
        """The price of a question for the person it is about."""

    @property
    @abstractmethod
    def target_hits(self) -> int:
        """The most hits that one change is part of."""

    @property
    def event(self) -> Event:
        """The price of everything that is released, however many questions."""
        target = self.target
        count = min_accesses(target_hits=self.target_hits, hit_prob=target.hit_prob, overrun_prob=self.failure_prob)
        return ApproximateEvent(SelfComposedEvent(PureDpEvent(target.epsilon), count), self.failure_prob)
