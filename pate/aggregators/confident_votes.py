"""Confident votes: every label by its noisy majority, where the teachers agree on all labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event
from pate.aggregators.confident import ScreenedAggregator
from pate.aggregators.gaussian_votes import GaussianVotes
from pate.aggregators.histogram import Bits
from pate.mechanisms.noise.noisy_order import are_normally_above


@dataclass(frozen=True, kw_only=True)
class ConfidentVotes(ScreenedAggregator):
    """Releases the bits of `GaussianVotes` on queries where even the smallest majority of a label is large, with noise.

    A label's majority is the number of teachers on its larger side, in num_teachers / 2..num_teachers.

    Formal guarantees:
        * Every majority moves by at most 1 under either adjacency, and so does the smallest: screening costs one bit a
          query, however many labels it looks at.
        * An answer costs one bit per label.
        * Refused queries are charged like answered ones; `max_answers` bounds the answers beforehand.

    Source: Confident-GNMax of Papernot et al. 2018, for several labels; docs/proofs/gnmax.md.

    >>> aggregator = ConfidentVotes(screening_std=2.0, threshold_share=0.7, noise_std=1.0)
    >>> votes = np.array([[90, 3, 88], [90, 3, 55]])
    >>> release = aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    >>> release.answered, release.labels[0]
    (array([ True, False]), array([ True, False,  True]))
    """

    def _statistic(self, votes: NDArray[np.int64], *, num_teachers: int) -> NDArray[np.int64]:
        return np.asarray(np.maximum(votes, num_teachers - votes).min(axis=1))

    def _answer_event(self, *, num_labels: int, num_teachers: int) -> Event:
        votes = GaussianVotes(noise_std=self.noise_std, adjacency=self.adjacency)
        return votes.event_for(num_queries=1, num_labels=num_labels, num_teachers=num_teachers)

    def _draw_answers(self, votes: NDArray[np.int64], *, num_teachers: int, rng: np.random.Generator) -> Bits:
        return are_normally_above(votes, num_teachers / 2, self.noise_std, rng)
