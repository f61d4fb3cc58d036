"""GNMax: the label with the largest noisy count.

Counts of all labels get Gaussian noise, and only the winner is released. That costs less than the noisy counts would:
the price is that of the winner's law (`WinnerEvent`), where no teacher votes for more than one label.

Source: Papernot et al. 2018; docs/proofs/winner.md and gnmax.md.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate import accounting as pa
from pate.aggregators import aggregator as base
from pate.aggregators.aggregator import Rng
from pate.aggregators.release import Answers
from pate.aggregators.thresholds import squared_sensitivity
from pate.mechanisms.noise.comparisons import Values, largest_noisy
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.parameters import COUNT, NOISE
from pate.votes.shape import VoteShape

Counts = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class GNMax(base.Aggregator):
    """Releases, for each query, the label whose count + N(0, noise_std**2) is largest. Answers every query.

    Formal guarantees:
        * Where no teacher votes for more than one label of a query, replace-one moves one count up and one down and
          add/remove moves one count. Only the winner is released: about 0.65 a / noise_std**2 at order a under
          replace-one and half of it under add/remove (`WinnerEvent`), 0.65 times what the noisy counts cost.
        * With `max_votes` labels per teacher, replace-one moves min(2 max_votes, L) counts by 1 and add/remove
          min(max_votes, L), and the price is that of the noisy counts: the number times a / (2 noise_std**2).
        * Counts do not show how many labels a teacher voted for. `counts_for` lets no teacher have more than
          `max_votes`; a caller of counts alone promises the same. Counts that no such teachers can have cast are
          refused.

    Attributes:
        noise_std: standard deviation in votes, > 0.
        max_votes: the most labels that one teacher votes for, >= 1 and public.

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
        """The most labels of a query that the price lets one teacher vote for: `max_votes`."""
        return self.max_votes

    def event(self, shape: VoteShape) -> pa.Event:
        """Returns the price of one winner for each query; see `Aggregator.event`."""
        moved = squared_sensitivity(
            self.max_votes, num_labels=shape.num_labels, adjacency=self.adjacency
        )
        if self.max_votes == 1:
            return pa.SelfComposedEvent(pa.WinnerEvent(self.noise_std, moved), shape.num_queries)
        # The winner is a function of the noisy counts, and costs at most what they cost.
        all_counts = pa.GaussianEvent(self.noise_std / moved**0.5)
        return pa.SelfComposedEvent(all_counts, shape.num_queries)

    def draw(self, summary: Counts, shape: VoteShape, rng: Rng) -> Answers:
        """Draws the label with the largest noisy count of each query."""
        noise = draw_noise("gaussian", summary.shape, rng)
        best = largest_noisy(Values.scaled(summary, self.noise_std), noise, 1)
        return Answers.to_all(best == np.arange(shape.num_labels))
