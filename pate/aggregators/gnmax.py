"""GNMax: the label with the largest noisy count.

Counts of all labels get Gaussian noise, and only the winner, the label of the largest noisy count, is released. If no
teacher votes for more than one label, the winner costs less than the noisy counts would (`WinnerEvent`).
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from pate.accounting import Event, GaussianEvent, SelfComposedEvent, WinnerEvent
from pate.aggregators.aggregator import Aggregator, Rng
from pate.aggregators.answers import Answers
from pate.aggregators.thresholds import squared_sensitivity
from pate.array_types import IntArray
from pate.mechanisms.noise.comparisons import ExactValues, largest_noisy
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.parameters import COUNT, NOISE
from pate.votes.shape import VoteShape


@dataclass(frozen=True, kw_only=True)
class GNMax(Aggregator):
    """Releases, for each query, the label whose count + N(0, noise_std**2) is largest.

    Every query is answered.

    Formal guarantees, for L labels:
        * If a teacher votes for at most one label of a query, replace-one moves at most one count up by 1 and another
          down by 1, and add/remove moves at most one count by 1. Only the label of the largest noisy count is released
          (`WinnerEvent`). At an order a up to about noise_std / 2, a query costs about 0.65 a / noise_std**2 under
          replace-one, and half of it under add/remove. That is 0.65 times the price of the noisy counts, which is the
          price at large orders.
        * If a teacher votes for up to `max_votes` > 1 labels, one change moves at most m counts by 1. Here m is
          min(2 max_votes, L) under replace-one and min(max_votes, L) under add/remove. A query costs as much as its
          noisy counts, m a / (2 noise_std**2).
        * Counts do not show for how many labels a teacher voted. `counts_for` limits each teacher to `max_votes`; a
          caller who passes counts promises this limit. Counts of a query whose sum exceeds max_votes * num_teachers are
          refused.

    Attributes:
        noise_std: standard deviation of the noise in votes, > 0.
        max_votes: the largest number of labels of a query that a teacher votes for, >= 1 and public.

    Source: Papernot et al. 2018; docs/proofs/winner.md and gnmax.md.

    >>> votes = np.array([[90, 3, 7]])
    >>> GNMax(noise_std=2.0).aggregate(votes, num_teachers=100, rng=np.random.default_rng(0)).labels
    array([[ True, False, False]])
    """

    single_label: ClassVar[bool] = True

    noise_std: float = field(metadata=NOISE)
    max_votes: int = field(default=1, metadata=COUNT)

    @property
    def max_votes_per_teacher(self) -> int:
        """The largest number of labels of a query that a teacher may vote for under this price: `max_votes`."""
        return self.max_votes

    def event(self, shape: VoteShape) -> Event:
        """Returns the price of releasing one label for each query; see `Aggregator.event`."""
        num_moved_votes = squared_sensitivity(
            self.max_votes, num_labels=shape.num_labels, adjacency=self.adjacency
        )
        if self.max_votes == 1:
            winner_event = WinnerEvent(self.noise_std, num_moving=num_moved_votes)
            return SelfComposedEvent(winner_event, count=shape.num_queries)
        # The winner is a function of the noisy counts, and costs at most what they cost.
        noisy_counts_event = GaussianEvent(noise_multiplier=self.noise_std / num_moved_votes**0.5)
        return SelfComposedEvent(noisy_counts_event, count=shape.num_queries)

    def draw(self, summary: IntArray, shape: VoteShape, rng: Rng) -> Answers:
        """Draws the label with the largest noisy count of each query."""
        drawn_noise = draw_noise(noise_kind="gaussian", shape=summary.shape, rng=rng)
        winning_labels = largest_noisy(
            ExactValues.scaled(summary, noise_scale=self.noise_std), drawn_noise, k=1
        )
        return Answers.to_all(labels=winning_labels == np.arange(shape.num_labels))
