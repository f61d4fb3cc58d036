"""Gaussian votes: each label by its noisy count, against half of the teachers.

The baseline of several labels: L independent decisions for each query, one bit each (`ThresholdEvent`).
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pate import accounting as pa
from pate.accounting.events import BitEvent
from pate.aggregators import aggregator as base
from pate.aggregators.aggregator import Rng
from pate.aggregators.expectation import (
    ExpectedRelease,
    expected_from_votes,
)
from pate.aggregators.release import Answers
from pate.aggregators.thresholds import (
    expected_bits,
    reach_threshold,
    threshold_event,
)
from pate.mechanisms.parameters import COUNT, NOISE
from pate.votes.made_up import MadeUpVotes
from pate.votes.shape import VoteShape

Counts = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class GaussianVotes(base.Aggregator):
    """Releases, for each label, whether count + N(0, noise_std**2) > num_teachers / 2. Answers every query.

    Formal guarantees:
        * All L counts of a query can move at once, each by at most 1 (d, where one change reaches d teachers). Only
          signs are released, of independent noises: a query costs L bits, 0.637 of what the vector of counts would,
          L a / (2 noise_std**2) at order a, where noise_std is large.
        * Under add/remove the threshold stays at the declared num_teachers / 2.

    Attributes:
        noise_std: standard deviation in votes, > 0.
        teachers_reached: d, the most teachers whose votes one change reaches; more than 1 where a group is with
            several teachers.

    Source: Papernot et al. 2018 for one label; docs/proofs/gaussian_votes.md.

    >>> votes = np.array([[90, 3, 60]])
    >>> GaussianVotes(noise_std=2.0).aggregate(votes, num_teachers=100, rng=np.random.default_rng(0)).labels
    array([[ True, False,  True]])
    """

    budgets_by: ClassVar[Literal["weights", "teachers"] | None] = "teachers"

    noise_std: float = field(metadata=NOISE)
    teachers_reached: int = field(default=1, metadata=COUNT)

    def event(self, shape: VoteShape) -> pa.Event:
        """Returns the price of L bits for each query; see `Aggregator.event`."""
        bit: BitEvent = threshold_event(self.noise_std, 0.5, shape.num_teachers)
        if self.teachers_reached > 1:
            bit = pa.OneBitEvent(tuple(bit.log_odds.tolist()), reach=self.teachers_reached)
        return pa.SelfComposedEvent(bit, shape.num_queries * shape.num_labels)

    def draw(self, summary: Counts, shape: VoteShape, rng: Rng) -> Answers:
        """Draws, for each label, whether its count with noise exceeds half of the teachers."""
        labels = reach_threshold(
            summary, self.noise_std, 0.5, num_teachers=shape.num_teachers, rng=rng
        )
        return Answers.to_all(labels)


@expected_from_votes.register(GaussianVotes)
def _expected_from_gaussian_votes(
    aggregator: GaussianVotes, votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    """Returns the expectation of each bit, in closed form."""
    return expected_bits(votes, threshold_share=0.5, noise_std=aggregator.noise_std)
