"""Defines an aggregator of your own: labels that a public share of the teachers votes for, by Laplace noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event, PureDpEvent, SelfComposedEvent
from pate.aggregators import Aggregator, Answers
from pate.mechanisms import DiscreteLaplace, secret_generator
from pate.validation import require_probability
from pate.votes import VoteShape


@dataclass(frozen=True, kw_only=True)
class LaplaceQuorum(Aggregator):
    """An aggregator of labels whose count and discrete Laplace noise together exceed quorum * num_teachers.

    Answers every query. One change moves each count by at most 1 under either adjacency: (1 / noise_scale)-DP a label.
    """

    noise_scale: float = field(metadata={"noise": True})  # solved for, or given
    quorum: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_probability("quorum", self.quorum)

    def event(self, shape: VoteShape) -> Event:
        """Returns the price of all bits of a release."""
        num_bits = shape.num_queries * shape.num_labels
        return SelfComposedEvent(PureDpEvent(epsilon=1 / self.noise_scale), count=num_bits)

    def draw(
        self, summary: NDArray[np.int64], shape: VoteShape, rng: np.random.Generator
    ) -> Answers:
        """Draws a bit for each label: its noisy count exceeds the quorum."""
        # Noise in whole numbers is exact; rounded floats would void the proof.
        noise = DiscreteLaplace.at_most(1 / self.noise_scale)
        noisy_counts = summary + noise.sample(summary.shape, rng)
        # As floats, 0.57 * 100 is below 57.
        needed_share = Fraction(str(self.quorum))
        return Answers.to_all(noisy_counts > math.floor(needed_share * shape.num_teachers))


if __name__ == "__main__":
    votes = np.random.default_rng(0).binomial(200, 0.9, size=(50, 4))
    aggregator = LaplaceQuorum(noise_scale=1.0, quorum=0.6).calibrated(
        target_epsilon=4.0, target_delta=1e-6, num_queries=50, num_labels=4, num_teachers=200
    )
    release = aggregator.aggregate(votes, num_teachers=200, rng=secret_generator())
    print(f"noise {aggregator.noise_scale:.1f}, {release.labels.mean():.0%} of the labels released")
