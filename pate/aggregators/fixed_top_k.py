"""Fixed top-k: exactly k labels for every query, picked by a mechanism of pure DP.

The mechanisms are those of `pate.mechanisms`, by their names in the papers; this aggregator applies one to every query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pate import mechanisms
from pate.accounting import Event, NoOpEvent, SelfComposedEvent
from pate.aggregators.aggregator import Aggregator, Rng
from pate.aggregators.answers import Answers
from pate.array_types import IntArray
from pate.mechanisms.parameters import COUNT, NOISE, one_of
from pate.mechanisms.top_k.mechanism import TopKMechanism
from pate.validation import require
from pate.votes.shape import VoteShape

# The top-k mechanisms by the names that the field `mechanism` takes.
MECHANISMS: Mapping[str, Callable[..., TopKMechanism]] = {
    "canonical": mechanisms.CanonicalTopK,
    "joint": mechanisms.JointTopK,
    "lipschitz": mechanisms.LipschitzTopK,
    # The distribution of `PeelingTopK` in one draw.
    "peeling": mechanisms.OneShotTopK,
    "permute_and_flip": mechanisms.PermuteAndFlipTopK,
    "permute_and_flip_joint": mechanisms.PermuteAndFlipJointTopK,
}


@dataclass(frozen=True, kw_only=True)
class FixedTopK(Aggregator):
    """Releases exactly k labels for every query, picked by a top-k mechanism of pure DP.

    Every query is answered, however close its counts are. If k is the number of labels, the answer does not depend on
    the votes, and nothing is charged.

    Formal guarantee: each query is (`epsilon`, 0)-DP for the stated adjacency. Peeling, joint and canonical selection
    also have a bounded range, and many queries of these compose at a lower price. Source: docs/proofs/top_k.md, which
    names the papers.

    Attributes:
        k: the number of labels in each answer, from 1 to the number of labels.
        epsilon: the pure-DP epsilon of one query, > 0. Under another adjacency the noise changes, and not the price.
        mechanism: "peeling", "joint", "canonical", "permute_and_flip", "permute_and_flip_joint" or "lipschitz".

    >>> aggregator = FixedTopK(k=2, epsilon=2.0, mechanism="joint")
    >>> votes = np.array([[90, 88, 1, 0], [9, 1, 70, 60]])
    >>> aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0)).labels.astype(int)
    array([[1, 1, 0, 0],
           [0, 0, 1, 1]])
    """

    k: int = field(metadata=COUNT)
    epsilon: float = field(metadata=NOISE)
    mechanism: str = field(default="peeling", metadata=one_of(MECHANISMS) | {"public": True})

    @property
    def exact_labels(self) -> int:
        """The number of labels that every answer names: `k`."""
        return self.k

    @property
    def top_k(self) -> TopKMechanism:
        """The mechanism that picks the labels of one query."""
        return MECHANISMS[self.mechanism](k=self.k, epsilon=self.epsilon, adjacency=self.adjacency)

    def event(self, shape: VoteShape) -> Event:
        """Returns the price of picking k labels for each query; raises `InvalidValue` for fewer than k labels."""
        num_labels = shape.num_labels
        require(self.k <= num_labels, "k", self.k, f"at most {num_labels}, the number of labels")
        query_event = self.top_k.event if self.k < shape.num_labels else NoOpEvent()
        return SelfComposedEvent(query_event, count=shape.num_queries)

    def scaled(self, noise_factor: float) -> FixedTopK:
        """Returns a copy of the aggregator with its epsilon divided by `noise_factor`."""
        return replace(self, epsilon=self.epsilon / noise_factor)

    def distribution(
        self, votes: NDArray[np.integer], *, num_teachers: int
    ) -> dict[tuple[int, ...] | None, float]:
        """Returns the exact probability of each set of k labels, for one query with counts `[num_labels]`.

        The number of teachers is not read, as the mechanisms do not depend on it.
        """
        distribution: dict[tuple[int, ...] | None, float] = {}
        for picked_labels, probability in self.top_k.distribution(counts=votes).items():
            label_set = tuple(sorted(picked_labels))
            distribution[label_set] = distribution.get(label_set, 0.0) + probability
        return distribution

    def draw(self, summary: IntArray, shape: VoteShape, rng: Rng) -> Answers:
        """Draws the k labels that the mechanism picks of each query."""
        labels = np.zeros(summary.shape, dtype=np.bool_)
        np.put_along_axis(labels, self.top_k(summary, rng=rng).indices, True, axis=1)
        return Answers.to_all(labels=labels)
