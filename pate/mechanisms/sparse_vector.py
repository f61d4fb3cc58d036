"""Noisy counts of which only those that come out are paid for: sparse vector with individual charging, and a sweep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, ApproximateEvent, Event, PureDpEvent, SelfComposedEvent
from pate.accounting.target_charging import HeldBudget, QTarget, min_accesses, not_prior, revise
from pate.mechanisms.noise.whole_numbers import DiscreteLaplace
from pate.mechanisms.thresholds import ReleasedValues, require_threshold
from pate.mechanisms.top_k import LARGEST_COUNT, TopK
from pate.validation import (
    InvalidValue,
    require,
    require_count,
    require_generator,
    require_histogram,
    require_kind,
    require_positive,
    require_probability,
)

Bits = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class NoisyCounts(ABC):
    """Counts that one change moves by at most 1, with discrete Laplace noise; each that comes out is a hit.

    Attributes:
        epsilon: pure DP of one noisy count, > 0; not of the release.
        failure_prob: of more accesses than are paid for, in (0, 1); their number follows from it.
        adjacency: what one change means.
    """

    epsilon: float
    failure_prob: float
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)
        require_probability("failure_prob", self.failure_prob)
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        _ = self.noise

    @property
    def noise(self) -> DiscreteLaplace:
        """The noise on each count."""
        return DiscreteLaplace.at_most(float(self.epsilon))

    @property
    @abstractmethod
    def target(self) -> QTarget:
        """The price of a question for the person it is about."""

    @property
    @abstractmethod
    def target_hits(self) -> int:
        """The most hits that one change is part of."""

    @property
    def event(self) -> Event:
        """The price of everything that is released, however many questions."""
        target = self.target
        count = min_accesses(target_hits=self.target_hits, hit_prob=target.hit_prob, overrun_prob=self.failure_prob)
        return ApproximateEvent(SelfComposedEvent(PureDpEvent(target.epsilon), count), self.failure_prob)


@dataclass(frozen=True, kw_only=True)
class SparseVector(NoisyCounts):
    """Releases, per query, the noisy number of items with a bit if it reaches a threshold; for any number of queries.

    An item is one teacher's, or one record's, bit in each query. When a sum is released, every item with the bit counts
    a hit; with its `item_hits`-th hit it drops out of all later sums.

    Formal guarantee, for all releases together, except with probability `failure_prob`; one item is added or removed
    (add/remove), or exchanged for another (replace-one). A query is free where the item's bit is 0, and a not-prior
    call of epsilon where it is 1. An item has at most `item_hits` hits, so an exchange has at most twice as many.

    Edge cases: which items dropped out is private. Queries and thresholds may depend on all earlier outcomes.

    Attributes:
        epsilon: pure DP of one noisy sum, > 0; not of the release.
        item_hits: tau, >= 1.
        failure_prob: of more accesses than are paid for, in (0, 1); their number follows from it.
        adjacency: what one change means.

    Source: Cohen & Lyu 2023; Kaplan, Mansour & Stemmer 2021; docs/proofs/sparse_vector.md.

    >>> mechanism = SparseVector(epsilon=1.0, item_hits=1, failure_prob=1e-9)
    >>> bits = np.zeros((3, 100), dtype=bool)
    >>> bits[0, :80], bits[1, :90], bits[2, 40:] = True, True, True
    >>> outcome = mechanism(bits, thresholds=50, rng=np.random.default_rng(0))
    >>> outcome.answered, outcome.values
    (array([ True, False, False]), array([80,  0,  0]))
    """

    item_hits: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("item_hits", self.item_hits)

    @property
    def target(self) -> QTarget:
        """What a query costs an item that has the bit."""
        return not_prior(float(self.noise.rate))

    @property
    def target_hits(self) -> int:
        """The most hits that one change is part of."""
        return self.item_hits * (2 if self.adjacency is Adjacency.REPLACE_ONE else 1)

    def start(self, num_items: int) -> SparseVectorSession:
        """A session in which every item has all its hits; the event pays for one session."""
        return SparseVectorSession(self, num_items)

    def __call__(self, bits: Any, *, thresholds: Any, rng: np.random.Generator) -> ReleasedValues:
        """Answers a list of queries, in their order, in one session.

        Args:
            bits: bool `[Q, num_items]`.
            thresholds: whole number `[]` or `[Q]`.
            rng: for the noise.
        """
        checked = _require_bits(bits, rank=2)
        session = self.start(checked.shape[1])
        levels = np.broadcast_to(np.asarray(thresholds), (len(checked),))
        answers = [
            session.ask(query, threshold=level, rng=rng) for query, level in zip(checked, levels.tolist(), strict=True)
        ]
        answered = np.array([answer is not None for answer in answers], dtype=bool)
        return ReleasedValues(np.array([answer or 0 for answer in answers], dtype=np.int64), answered)


class SparseVectorSession(HeldBudget):
    """A session of sparse vector: counts the hits of each item. It is private, like the items.

    Threads may share a session. It refuses to be copied or pickled, and to answer in a forked process.

    Args:
        mechanism: the parameters.
        num_items: N.
    """

    def __init__(self, mechanism: SparseVector, num_items: int) -> None:
        super().__init__()
        require_kind("mechanism", mechanism, SparseVector, "a SparseVector")
        self.mechanism = mechanism
        self._noise = mechanism.noise
        self._hits = np.zeros(require_count("num_items", num_items), dtype=np.int64)

    def ask(self, bits: Any, *, threshold: int, rng: np.random.Generator) -> int | None:
        """The noisy number of items with the bit that are still in, or None where it is below the threshold.

        Args:
            bits: bool `[num_items]`.
            threshold: a whole number.
            rng: for the noise.
        """
        require_generator(rng)
        level = require_threshold("threshold", threshold)
        checked = _require_bits(bits, rank=1)
        require(checked.shape == self._hits.shape, "bits.shape", checked.shape, f"{self._hits.shape}")
        with self._turn():
            counted = checked & (self._hits < self.mechanism.item_hits)
            noisy = int(counted.sum()) + int(self._noise.sample((), rng))
            if noisy < level:
                return None
            self._hits += counted
            return noisy


def _require_bits(bits: Any, *, rank: int) -> Bits:
    array = np.asarray(bits)
    if array.dtype != bool:
        raise InvalidValue(f"bits.dtype={array.dtype}: expected bool")
    shapes = {1: "[num_items]", 2: "[num_queries, num_items]"}
    require(array.ndim == rank and array.size > 0, "bits.shape", array.shape, shapes[rank])
    return array


@dataclass(frozen=True)
class ScoredTopK(TopK):
    """A top-k outcome with its noisy counts.

    Attributes:
        indices: int64 `[k]` or `[Q, k]`, in falling order of their scores.
        answered: bool `[]` or `[Q]`, True.
        scores: int64 `[k]` or `[Q, k]`, counts with noise.
    """

    scores: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class SweepTopK(NoisyCounts):
    """Adds discrete Laplace noise to every count and releases the k largest, with their noisy counts.

    The threshold sweeps from the top down. At each threshold every count not yet released is asked whether its noisy
    value equals it; the k-th yes ends the sweep. So the price depends on the k hits, and neither on the number of
    counts nor on that of questions.

    Formal guarantee: every question is a not-prior call of 2 epsilon (`revise`); k hits are n accesses except with
    probability `failure_prob`. The same for replace-one and add/remove: one count moves by at most 1 under both.

    Attributes:
        k: how many indices, >= 1.
        epsilon: pure DP of one noisy count, > 0; not of the release.
        failure_prob: of more than n accesses, in (0, 1); n follows from it.
        adjacency: what one change means.

    Source: Cohen & Lyu 2023; docs/proofs/threshold_calls.md.

    >>> sweep = SweepTopK(k=2, epsilon=0.5, failure_prob=1e-9)
    >>> outcome = sweep(np.array([90, 10, 50]), rng=np.random.default_rng(0))
    >>> outcome.indices, outcome.scores
    (array([0, 2]), array([89, 49]))
    """

    k: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("k", self.k)

    @property
    def target(self) -> QTarget:
        """What a question costs in a session: several sweeps in one session are k hits each."""
        return revise(float(self.noise.rate))

    @property
    def target_hits(self) -> int:
        """The counts that come out of one histogram: `event` is its price."""
        return self.k

    def __call__(self, counts: NDArray[np.integer], *, rng: np.random.Generator) -> ScoredTopK:
        """Draws for one histogram `[d]` or each of a batch `[Q, d]`.

        Raises:
            InvalidValue: counts that are not whole numbers in 0..2**40, fewer than k of them, or `rng` is a seed.
        """
        require_generator(rng)
        checked = require_histogram("counts", counts, num_teachers=LARGEST_COUNT).astype(np.int64)
        require(self.k <= checked.shape[-1], "k", self.k, f"at most the number of counts, {checked.shape[-1]}")
        noisy = checked + self.noise.sample(checked.shape, rng)
        indices = np.argsort(-noisy, axis=-1, kind="stable")[..., : self.k]
        answered = np.ones(checked.shape[:-1], dtype=bool)
        return ScoredTopK(indices, answered, np.take_along_axis(noisy, indices, axis=-1))
