"""Confident GNMax: the most named label, where enough teachers name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event
from pate.aggregators.confident import ScreenedAggregator
from pate.aggregators.gnmax import draw_largest, largest_event
from pate.aggregators.histogram import Bits
from pate.validation import require_count


@dataclass(frozen=True, kw_only=True)
class ConfidentGNMax(ScreenedAggregator):
    """Releases the label with the largest noisy count, if the largest count with separate noise is large enough.

    Formal guarantees:
        * The largest count moves by at most 1 under either adjacency: screening costs one bit per query.
        * An answer costs what `GNMax` costs.
        * Refused queries are charged like answered ones; `max_answers` bounds the answers beforehand.

    Attributes:
        max_votes: the most labels that one teacher votes for, >= 1 and public.

    Source: Papernot et al. 2018, Algorithm 1; docs/proofs/gnmax.md.

    >>> aggregator = ConfidentGNMax(screening_std=2.0, threshold_share=0.6, noise_std=1.0)
    >>> votes = np.array([[90, 3, 7], [34, 33, 33]])
    >>> release = aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    >>> release.answered, release.labels[0]
    (array([ True, False]), array([ True, False, False]))
    """

    single_label: ClassVar[bool] = True

    max_votes: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("max_votes", self.max_votes)

    @property
    def max_votes_per_teacher(self) -> int:
        """The price is for `max_votes`."""
        return self.max_votes

    def _statistic(self, votes: NDArray[np.int64], *, num_teachers: int) -> NDArray[np.int64]:
        return np.asarray(votes.max(axis=1))

    def _answer_event(self, *, num_labels: int, num_teachers: int) -> Event:
        return largest_event(self.noise_std, self.max_votes, num_labels=num_labels, adjacency=self.adjacency)

    def _draw_answers(self, votes: NDArray[np.int64], *, num_teachers: int, rng: np.random.Generator) -> Bits:
        return draw_largest(votes, noise_std=self.noise_std, rng=rng)
