"""Gaussian votes: a release of the labels whose noisy count exceeds half of the teachers.

This is the baseline for several labels. Each query takes one decision for each label. A decision releases one bit
(`ThresholdEvent`).
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pate.accounting import Event, OneBitEvent, SelfComposedEvent
from pate.accounting.events import BitEvent
from pate.aggregators.aggregator import Aggregator, Rng
from pate.aggregators.answers import Answers
from pate.aggregators.expectation import ExpectedRelease, expected_from_votes
from pate.aggregators.thresholds import expected_bits, reach_threshold, threshold_event
from pate.array_types import IntArray
from pate.mechanisms.parameters import COUNT, NOISE
from pate.votes.made_up import MadeUpVotes
from pate.votes.shape import VoteShape


@dataclass(frozen=True, kw_only=True)
class GaussianVotes(Aggregator):
    """Releases, for each label, whether count + N(0, noise_std**2) > num_teachers / 2.

    Every query is answered. A teacher that does not vote on a label counts as one half, so it does not move the
    majority of the others.

    Formal guarantees, for L labels:
        * One change moves each of the L counts of a query by at most d = `teachers_reached`, whether it changes votes,
          abstentions or both. One bit is released for each count, with independent noise, so a query costs L bits. For
          d = 1, large noise_std and an order a up to about noise_std / 2, these cost 2 / pi = 0.637 of the price of the
          noisy counts, which is L a / (2 noise_std**2).
        * Under add/remove the threshold is computed from the declared num_teachers, and no change moves it.

    Attributes:
        noise_std: standard deviation of the noise in votes, > 0.
        teachers_reached: d, the largest number of teachers that hold records of one private group, >= 1; above 1 if a
            person's records may be at several teachers.

    Source: Papernot et al. 2018 for one label; docs/proofs/gaussian_votes.md.

    >>> import numpy as np
    >>> votes = np.array([[90, 3, 60]])
    >>> GaussianVotes(noise_std=2.0).aggregate(votes, num_teachers=100, rng=np.random.default_rng(0)).labels
    array([[ True, False,  True]])
    """

    budgets_by: ClassVar[Literal["weights", "teachers"] | None] = "teachers"
    counts_abstention_as_half: ClassVar[bool] = True

    noise_std: float = field(metadata=NOISE)
    teachers_reached: int = field(default=1, metadata=COUNT)

    def event(self, shape: VoteShape) -> Event:
        """Returns the price of one bit for each label of each query; see `Aggregator.event`."""
        bit_event: BitEvent = threshold_event(
            self.noise_std, threshold_share=0.5, num_teachers=shape.num_teachers
        )
        if self.teachers_reached > 1:
            # the price of the same bit, for counts that one change moves by up to `teachers_reached`
            bit_event = OneBitEvent(
                logits=tuple(bit_event.log_odds.tolist()), reach=self.teachers_reached
            )
        return SelfComposedEvent(bit_event, count=shape.num_queries * shape.num_labels)

    def draw(self, summary: IntArray, shape: VoteShape, rng: Rng) -> Answers:
        """Draws, for each label, whether its count plus noise exceeds half of the teachers."""
        labels = reach_threshold(
            summary, self.noise_std, threshold_share=0.5, num_teachers=shape.num_teachers, rng=rng
        )
        return Answers.to_all(labels=labels)


@expected_from_votes.register(GaussianVotes)
def _expected_from_gaussian_votes(
    aggregator: GaussianVotes, made_up_votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    """Returns the expected shares of right labels, by a formula for each label; `num_queries` is not read."""
    return expected_bits(made_up_votes, threshold_share=0.5, noise_std=aggregator.noise_std)
