"""Contenders of a comparison: a top-k mechanism as a function of its precision, and its price."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pate.accounting import Adjacency, ComposedEvent, Event
from pate.aggregators import StableFixedTopK
from pate.array_types import IntArray
from pate.mechanisms import (
    CanonicalTopK,
    GammaTopK,
    JointTopK,
    LaplaceTopK,
    LimitedDomainTopK,
    LipschitzTopK,
    OneShotTopK,
    PermuteAndFlipJointTopK,
    PermuteAndFlipTopK,
    SubsetPeeling,
    TopStableTopK,
)
from pate.mechanisms.top_k.mechanism import TopKMechanism
from pate.validation import require, require_count, require_positive, require_probability

Pick = Callable[[IntArray, np.random.Generator], IntArray]

DOMAIN_FACTOR = 3
"""Limited domain, top-stable and the sizes that stable top-k considers go up to this many times k."""

_SCALES_OFF_BY_K = 10
"""How many noise scales a stable set loses that is wrong by k in size: about the largest of the noise itself."""


@dataclass(frozen=True, kw_only=True)
class SelectionTask:
    """The task of every contender, all of it public."""

    k: int  # how many items, below the number of items
    num_items: int  # d
    most: int  # a bound on every count
    failure_prob: float  # what one histogram may take from delta, in (0, 1)
    adjacency: Adjacency = Adjacency.REPLACE_ONE  # what one change means

    def __post_init__(self) -> None:
        require_count("k", self.k)
        require(
            self.k < self.num_items, "k", self.k, f"below the number of items, {self.num_items}"
        )
        require_count("most", self.most)
        require_probability("failure_prob", self.failure_prob)
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))

    @property
    def domain_size(self) -> int:
        """Returns how many of the best items the mechanisms of an unknown domain look at."""
        return min(DOMAIN_FACTOR * self.k, self.num_items - 1)


@dataclass(frozen=True)
class Contender:
    """A mechanism configured for a task."""

    event: Event  # the price of one histogram
    # draws from counts `[Q, d]` the items of each, `[Q, n]`; places that were not filled hold -1
    pick: Pick


@dataclass(frozen=True)
class MechanismFamily:
    """A family with a contender for every precision."""

    label: str  # for tables
    # from a task and a precision > 0, one over the scale of the noise in counts up to a constant; at one precision the
    # noise is the same under both adjacencies
    make: Callable[[SelectionTask, float], Contender]
    ordered: bool = True  # whether the items come in an order that the price covers


def of_mechanism(mechanism: TopKMechanism) -> Contender:
    """Returns the contender that runs a mechanism unchanged."""
    return Contender(mechanism.event, pick=lambda counts, rng: mechanism(counts, rng=rng).indices)


def _pure(
    kind: Callable[..., TopKMechanism], **options: object
) -> Callable[[SelectionTask, float], Contender]:
    """Returns a mechanism whose epsilon is the precision times the sensitivity of a difference."""

    def make(task: SelectionTask, precision: float) -> Contender:
        epsilon = require_positive("precision", precision) * task.adjacency.gap_sensitivity
        return of_mechanism(kind(k=task.k, epsilon=epsilon, adjacency=task.adjacency, **options))

    return make


def _limited_domain(task: SelectionTask, precision: float) -> Contender:
    """Returns the limited-domain mechanism, whose bottom threshold takes the whole failure probability."""
    return _pure(LimitedDomainTopK, domain_size=task.domain_size, failure_prob=task.failure_prob)(
        task, precision
    )


def _stable(*, near: bool) -> Callable[[SelectionTask, float], Contender]:
    """Returns Zhu & Wang's Algorithm 3, split as there: a quarter of rho for selection and test each, half for peel.

    Its regularizer is not fixed there. Near: a size that is wrong by k loses the largest count, so that no gap far
    from k wins. Otherwise it loses ten noise scales, and a large gap wins wherever it is.
    """

    def make(task: SelectionTask, precision: float) -> Contender:
        scale = 1 / require_positive("precision", precision)
        aggregator = StableFixedTopK(
            k=task.k,
            selection_scale=scale,
            test_std=scale,
            peel_scale=scale / np.sqrt(8),
            penalty=(task.most if near else _SCALES_OFF_BY_K * scale) / task.k,
            failure_prob=task.failure_prob,
            max_k=task.domain_size,
            adjacency=task.adjacency,
        )
        event = aggregator.event_for(
            num_queries=1, num_labels=task.num_items, num_teachers=task.most
        )
        return Contender(event, pick=_picks_of(aggregator, task))

    return make


def _picks_of(aggregator: StableFixedTopK, task: SelectionTask) -> Pick:
    """Returns the k labels of each row as indices, in rising order."""

    def pick(counts: IntArray, rng: np.random.Generator) -> IntArray:
        labels = aggregator.aggregate(counts, num_teachers=task.most, rng=rng).labels
        return np.nonzero(labels)[1].reshape(len(counts), task.k)

    return pick


def _top_stable(task: SelectionTask, precision: float) -> Contender:
    """Spends half the precision on the search of a stable set, then peels inside the set, or among all items."""
    search = TopStableTopK(
        k=task.k,
        domain_size=task.domain_size,
        epsilon=precision * task.adjacency.gap_sensitivity / 2,
        failure_prob=task.failure_prob,
        adjacency=task.adjacency,
    )
    peel = SubsetPeeling(noise_scale=2 * np.sqrt(task.k) / precision, adjacency=task.adjacency)

    def pick(counts: IntArray, rng: np.random.Generator) -> IntArray:
        indices = search(counts, rng=rng).indices
        part = np.zeros(counts.shape, dtype=np.bool_)
        rows, places = np.nonzero(indices >= 0)
        part[rows, indices[rows, places]] = True
        part[~part.any(axis=1)] = True
        return np.nonzero(peel(counts, part=part, size=task.k, rng=rng))[1].reshape(
            len(counts), task.k
        )

    return Contender(ComposedEvent((search.event, peel.event)), pick)


FAMILIES: Mapping[str, MechanismFamily] = {
    "stable": MechanismFamily(label="stable top-k, near k", make=_stable(near=True), ordered=False),
    "stable_loose": MechanismFamily(
        label="stable top-k, any size", make=_stable(near=False), ordered=False
    ),
    "top_stable": MechanismFamily(
        label="top-stable style, then a peel", make=_top_stable, ordered=False
    ),
    "limited_domain": MechanismFamily(label="limited domain", make=_limited_domain),
    "peeling": MechanismFamily(label="peeling (CDP)", make=_pure(OneShotTopK)),
    "joint": MechanismFamily(label="joint", make=_pure(JointTopK)),
    "pnf_joint": MechanismFamily(
        label="permute-and-flip joint", make=_pure(PermuteAndFlipJointTopK)
    ),
    "canonical": MechanismFamily(
        label="canonical, Gumbel", make=_pure(CanonicalTopK), ordered=False
    ),
    "canonical_exponential": MechanismFamily(
        label="canonical, exponential",
        make=_pure(CanonicalTopK, noise="exponential"),
        ordered=False,
    ),
    "pnf_peeling": MechanismFamily(
        label="permute-and-flip peeling", make=_pure(PermuteAndFlipTopK)
    ),
    "lipschitz": MechanismFamily(label="one shot, exponential", make=_pure(LipschitzTopK)),
    "laplace": MechanismFamily(label="Laplace", make=_pure(LaplaceTopK)),
    "gamma": MechanismFamily(label="Gamma", make=_pure(GammaTopK)),
}
"""The contenders by the name that a command takes."""
