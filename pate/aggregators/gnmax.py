"""GNMax: the label that most teachers name, by the largest noisy count."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event, GaussianEvent, SelfComposedEvent, WinnerEvent
from pate.aggregators.histogram import Bits, PerQueryAggregator
from pate.mechanisms.noise.noisy_order import Values, draw_noise, largest_noisy
from pate.validation import require_count, require_positive


def squared_sensitivity(max_votes: int, *, num_labels: int, adjacency: Adjacency) -> int:
    """The squared l2 distance by which one change moves the counts, where no teacher votes for over `max_votes` labels.

    Replace-one trades up to `max_votes` votes for as many others; add/remove takes or gives up to `max_votes`.
    """
    traded = 2 * max_votes if adjacency is Adjacency.REPLACE_ONE else max_votes
    return min(traded, num_labels)


def largest_event(noise_std: float, max_votes: int, *, num_labels: int, adjacency: Adjacency) -> Event:
    """The price of the label with the largest noisy count of a query: with more than one vote, that of all counts."""
    moved = squared_sensitivity(max_votes, num_labels=num_labels, adjacency=adjacency)
    return WinnerEvent(noise_std, moved) if max_votes == 1 else GaussianEvent(noise_std / moved**0.5)


def draw_largest(votes: NDArray[np.int64], *, noise_std: float, rng: np.random.Generator) -> Bits:
    """One label per query, `[q, L]`: where the count with noise is largest."""
    best = largest_noisy(Values.scaled(votes, noise_std), draw_noise("gaussian", votes.shape, rng), 1)
    return np.asarray(best == np.arange(votes.shape[1]))


@dataclass(frozen=True, kw_only=True)
class GNMax(PerQueryAggregator):
    """Releases, for each query, the label whose count + N(0, noise_std**2) is largest. Answers every query.

    Formal guarantees:
        * Where no teacher votes for more than one label of a query, replace-one moves one count up and one down and
          add/remove moves one count. Only the winner is released, which costs about 0.65 times what the noisy counts
          do: 0.65 a / noise_std**2 at order a under replace-one and half of it under add/remove (`WinnerEvent`).
        * With `max_votes` labels per teacher, replace-one moves min(2 max_votes, L) counts by 1 and add/remove
          min(max_votes, L), and the price is that of the noisy counts: the number times a / (2 noise_std**2).
        * Counts do not say how many labels a teacher voted for: whoever has the votes counts them by `counts_for`,
          which lets no teacher have more than `max_votes`; whoever has counts alone promises it. Counts that no such
          teachers can have cast are refused.

    Attributes:
        noise_std: standard deviation in votes, > 0.
        max_votes: the most labels that one teacher votes for, >= 1 and public.

    Source: Papernot et al. 2018; docs/proofs/winner.md and gnmax.md.

    >>> votes = np.array([[90, 3, 7]])
    >>> GNMax(noise_std=2.0).aggregate(votes, num_teachers=100, rng=np.random.default_rng(0)).labels
    array([[ True, False, False]])
    """

    single_label: ClassVar[bool] = True

    noise_std: float = field(metadata={"noise": True})
    max_votes: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("noise_std", self.noise_std)
        require_count("max_votes", self.max_votes)

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        """The winner of every query."""
        require_count("num_teachers", num_teachers)
        require_count("num_labels", num_labels)
        one = largest_event(self.noise_std, self.max_votes, num_labels=num_labels, adjacency=self.adjacency)
        return SelfComposedEvent(one, require_count("num_queries", num_queries, minimum=0))

    def scaled(self, factor: float) -> GNMax:
        """noise_std multiplied by `factor`."""
        return replace(self, noise_std=self.noise_std * factor)

    @property
    def max_votes_per_teacher(self) -> int:
        """The price is for `max_votes`."""
        return self.max_votes

    def _draw(self, votes: NDArray[np.int64], *, num_teachers: int, rng: np.random.Generator) -> tuple[Bits, Bits]:
        labels = draw_largest(votes, noise_std=self.noise_std, rng=rng)
        return labels, np.ones(len(votes), dtype=np.bool_)
