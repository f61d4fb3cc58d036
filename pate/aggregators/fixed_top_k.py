"""FixedTopK: the k labels of every query that a private top-k mechanism picks from its votes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pate import mechanisms
from pate.accounting import Event, NoOpEvent, SelfComposedEvent
from pate.aggregators.aggregator import Bits, PerQueryAggregator, require_shape
from pate.mechanisms.parameters import COUNT, NOISE, one_of
from pate.mechanisms.top_k import TopKMechanism
from pate.validation import require

MECHANISMS: Mapping[str, Callable[..., TopKMechanism]] = {
    "canonical": mechanisms.CanonicalTopK,
    "joint": mechanisms.JointTopK,
    "lipschitz": mechanisms.LipschitzTopK,
    "peeling": mechanisms.OneShotTopK,  # the distribution of `PeelingTopK` in one draw
    "permute_and_flip": mechanisms.PermuteAndFlipTopK,
    "permute_and_flip_joint": mechanisms.PermuteAndFlipJointTopK,
}


@dataclass(frozen=True, kw_only=True)
class FixedTopK(PerQueryAggregator):
    """Releases exactly k labels for every query: those that a top-k mechanism of pure DP picks.

    Every query is answered, sure or not. With k = L all labels are released, nothing depends on the votes, and nothing
    is charged.

    Formal guarantee, per query: the price of the mechanism, which is `epsilon` pure DP for the stated adjacency;
    peeling, joint and canonical selection compose as bounded ranges, which is cheaper.

    Attributes:
        k: how many labels each query gets, 1..L.
        epsilon: pure DP of one query, > 0: a price, so that another adjacency changes the noise and not the price.
        mechanism: "peeling", "joint", "canonical", "permute_and_flip", "permute_and_flip_joint" or "lipschitz".

    Source: docs/proofs/top_k.md, which names the papers.

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
        return self.k

    @property
    def top_k(self) -> TopKMechanism:
        """The mechanism, on one query."""
        return MECHANISMS[self.mechanism](k=self.k, epsilon=self.epsilon, adjacency=self.adjacency)

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        require_shape(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)
        require(self.k <= num_labels, "k", self.k, f"at most {num_labels}, the number of labels")
        return SelfComposedEvent(self.top_k.event if self.k < num_labels else NoOpEvent(), num_queries)

    def scaled(self, factor: float) -> FixedTopK:
        return replace(self, epsilon=self.epsilon / factor)

    def distribution(self, votes: NDArray[np.integer], *, num_teachers: int) -> dict[tuple[int, ...] | None, float]:
        """The exact distribution for one histogram `[L]`: probability of each released set of labels."""
        distribution: dict[tuple[int, ...] | None, float] = {}
        for indices, probability in self.top_k.distribution(votes).items():
            labels = tuple(sorted(indices))
            distribution[labels] = distribution.get(labels, 0.0) + probability
        return distribution

    def _draw(self, votes: NDArray[np.int64], *, num_teachers: int, rng: np.random.Generator) -> tuple[Bits, Bits]:
        labels = np.zeros(votes.shape, dtype=np.bool_)
        np.put_along_axis(labels, self.top_k(votes, rng=rng).indices, True, axis=1)
        return labels, np.ones(len(votes), dtype=np.bool_)
