"""Noisy whole numbers against public thresholds: released above one, or said to be below, between or above two."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, ApproximateEvent, Event, PureDpEvent, SelfComposedEvent
from pate.accounting.target_charging import HeldBudget, QTarget, between_thresholds, min_accesses, not_prior, revise
from pate.mechanisms.noise.uniforms import Array, Bits
from pate.mechanisms.noise.whole_numbers import DiscreteLaplace
from pate.mechanisms.parameters import COUNT, POSITIVE, PROBABILITY, Parameters, one_of
from pate.mechanisms.top_k import TopK, checked_counts
from pate.validation import require, require_array, require_count, require_generator, require_kind

Whole = NDArray[np.int64]

_LARGEST_VALUE = 2**53


def require_threshold(name: str, value: Any) -> int:
    """Returns a whole number of either sign as an int, or raises."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    require(whole and abs(int(value)) <= _LARGEST_VALUE, name, value, "a whole number")
    return int(value)


def require_values(values: Any) -> Whole:
    """Returns whole numbers `[]` or `[Q]`, or raises."""
    array = require_array("values", values, kinds="iu")
    require(array.ndim <= 1, "values.shape", array.shape, "[] or [num_queries]")
    largest = max(abs(int(array.min(initial=0))), abs(int(array.max(initial=0))))
    require(largest <= _LARGEST_VALUE, "values", largest, "at most 2**53 in size")
    return array.astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class NoisyWhole(Parameters):
    """Whole numbers with discrete Laplace noise."""

    # pure DP of one noisy number, >= 2**-31; the noise is made for the largest rate on its grid that is no larger
    epsilon: float = field(metadata=POSITIVE)
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.noise

    @property
    def sensitivity(self) -> int:
        """The most by which a number moves between neighbors."""
        return 1

    @property
    def noise(self) -> DiscreteLaplace:
        """The noise on each number."""
        return DiscreteLaplace.at_most(Fraction(float(self.epsilon)) / self.sensitivity)


@dataclass(frozen=True, kw_only=True)
class ThresholdCall(NoisyWhole):
    """Compares noisy whole numbers with public thresholds."""

    # "count", a number of teachers, which moves by at most 1; or "gap", the difference of two ranked counts, which
    # moves by at most 2 (replace-one) or 1 (add/remove)
    statistic: str = field(default="count", metadata=one_of(("count", "gap")))

    @property
    def sensitivity(self) -> int:
        return 1 if self.statistic == "count" else self.adjacency.gap_sensitivity

    @property
    def event(self) -> Event:
        """The price of one call outside a session."""
        return PureDpEvent(self.call_epsilon)

    @property
    def call_epsilon(self) -> float:
        """Pure DP of one call, of the noise as it is drawn: at most `epsilon`."""
        return min(float(self.sensitivity * self.noise.rate), float(self.epsilon))

    def noisy(self, values: Any, rng: np.random.Generator) -> Whole:
        """Checked values with fresh noise."""
        checked = require_values(values)
        return np.asarray(checked + self.noise.sample(checked.shape, rng))


@dataclass(frozen=True)
class ReleasedValues:
    """The outcome of calls that release a number or nothing."""

    values: Whole  # [] or [Q]; 0 where nothing was released, not to be read
    answered: Bits  # [] or [Q]

    @property
    def in_target(self) -> Bits:
        """The hits of a session: whatever was released."""
        return self.answered


@dataclass(frozen=True, kw_only=True)
class AboveThreshold(ThresholdCall):
    """Releases value + noise where that is at least `threshold`; the noise is discrete Laplace.

    In a session of target charging calls below the threshold are free. No noise is added to the threshold.

    Formal guarantees:
        * one call: epsilon-DP, for the adjacency given.
        * in a session: releases are a q-target of an epsilon-DP call, q = 1 / (e^epsilon + 1).

    Attributes:
        threshold: a whole number; public, and may depend on all earlier outcomes.

    Source: Cohen & Lyu 2023; docs/proofs/threshold_calls.md.

    >>> test = AboveThreshold(threshold=50, epsilon=2.0)
    >>> outcome = test(np.array([3, 90, 20]), rng=np.random.default_rng(0))
    >>> outcome.answered, outcome.values
    (array([False,  True, False]), array([ 0, 90,  0]))
    """

    threshold: int = field(metadata={"check": require_threshold})

    @property
    def target(self) -> QTarget:
        """What a call costs in a session of target charging; nothing is the prior."""
        return not_prior(self.call_epsilon)

    def __call__(self, values: Any, *, rng: np.random.Generator) -> ReleasedValues:
        """Tests one whole number `[]`, or each of a batch `[Q]` with noise of its own."""
        noisy = self.noisy(values, rng)
        answered = np.asarray(noisy >= self.threshold)
        return ReleasedValues(np.where(answered, noisy, 0), answered)

    def probabilities(self, values: Any, *, largest: int) -> Array:
        """The distribution of calls: `[..., n]` over nothing, threshold, threshold + 1, …, largest, all above it."""
        require(largest >= self.threshold, "largest", largest, f"a whole number >= {self.threshold}")
        value = require_values(values)[..., None]
        released = self.noise.mass(np.arange(self.threshold, largest + 1) - value)
        nothing, above = self.noise.tail(value - self.threshold + 1), self.noise.tail(largest + 1 - value)
        return np.concatenate([nothing, released, above], axis=-1)


@dataclass(frozen=True)
class Sides:
    """The outcome of calls that compare a noisy number with two thresholds."""

    sides: Whole  # [] or [Q]: -1 below, 0 between, 1 above

    @property
    def in_target(self) -> Bits:
        """The hits of a session: whatever fell between."""
        return np.asarray(self.sides == 0)


@dataclass(frozen=True, kw_only=True)
class BetweenThresholds(ThresholdCall):
    """Says whether value + noise is < lower, in [lower, upper), or >= upper; the noise is discrete Laplace.

    In a session of target charging only what is between is paid for.

    Formal guarantees:
        * one call: epsilon-DP, for the adjacency given.
        * in a session: "between" is a q-target of an epsilon-DP call, q = (1 - e^(-width rate)) / (e^epsilon + 1) with
          width = upper - lower and rate = epsilon / sensitivity; tight.

    Attributes:
        lower: a whole number, the smallest between.
        upper: a whole number > lower, the smallest above. Both are public and may depend on all earlier outcomes.

    Source: Cohen & Lyu 2023, for continuous noise; docs/proofs/threshold_calls.md.

    >>> test = BetweenThresholds(lower=300, upper=500, epsilon=0.1)
    >>> test(np.array([20, 410, 790]), rng=np.random.default_rng(0)).sides
    array([-1,  0,  1])
    """

    lower: int = field(metadata={"check": require_threshold})
    upper: int = field(metadata={"check": require_threshold})

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.lower < self.upper, "upper", self.upper, f"more than lower={self.lower}")

    @property
    def target(self) -> QTarget:
        """What a call costs in a session of target charging."""
        return between_thresholds(self.call_epsilon, width=(self.upper - self.lower) / self.sensitivity)

    def __call__(self, values: Any, *, rng: np.random.Generator) -> Sides:
        """Tests one whole number `[]`, or each of a batch `[Q]` with noise of its own."""
        noisy = self.noisy(values, rng)
        return Sides(np.asarray((noisy >= self.lower).astype(np.int64) + (noisy >= self.upper) - 1))

    def probabilities(self, values: Any) -> Array:
        """The distribution of calls: `[..., 3]`, below, between and above."""
        value = require_values(values)
        below, above = self.noise.tail(value - self.lower + 1), self.noise.tail(self.upper - value)
        width = self.upper - self.lower
        steps = np.maximum(self.lower - value, value - self.upper + 1)  # outside: how far the nearest between is
        outside = self.noise.tail(np.maximum(steps, 0)) * -np.expm1(-width * float(self.noise.rate))
        between = np.where(steps > 0, outside, 1 - below - above)
        return np.stack([below, between, above], axis=-1)


def _price(target: QTarget, target_hits: int, failure_prob: float) -> Event:
    """That of everything released, however many questions, where one change is part of so many hits at most."""
    count = min_accesses(target_hits=target_hits, hit_prob=target.hit_prob, overrun_prob=failure_prob)
    return ApproximateEvent(SelfComposedEvent(PureDpEvent(target.epsilon), count), failure_prob)


@dataclass(frozen=True, kw_only=True)
class SparseVector(NoisyWhole):
    """Releases, per query, the noisy number of items with a bit if it reaches a threshold; for any number of queries.

    An item is one teacher's, or one record's, bit in each query. When a sum is released, every item with the bit counts
    a hit; with its `item_hits`-th hit it drops out of all later sums. Which items did is private.

    Formal guarantee, for all releases together, except with probability `failure_prob`: a query is free where the
    item's bit is 0, and a not-prior call of epsilon where it is 1. An item, which is added or removed, has at most
    `item_hits` hits; an exchange (replace-one) at most twice as many. Queries and thresholds may depend on all earlier
    outcomes.

    Attributes:
        epsilon: of one sum, not of the release.
        item_hits: tau, >= 1.
        failure_prob: of more accesses than are paid for, in (0, 1); their number follows from it.

    Source: Cohen & Lyu 2023; Kaplan, Mansour & Stemmer 2021; docs/proofs/sparse_vector.md.

    >>> mechanism = SparseVector(epsilon=1.0, item_hits=1, failure_prob=1e-9)
    >>> bits = np.zeros((3, 100), dtype=bool)
    >>> bits[0, :80], bits[1, :90], bits[2, 40:] = True, True, True
    >>> outcome = mechanism(bits, thresholds=50, rng=np.random.default_rng(0))
    >>> outcome.answered, outcome.values
    (array([ True, False, False]), array([80,  0,  0]))
    """

    item_hits: int = field(metadata=COUNT)
    failure_prob: float = field(metadata=PROBABILITY)

    @property
    def target(self) -> QTarget:
        """What a query costs an item that has the bit."""
        return not_prior(float(self.noise.rate))

    @property
    def target_hits(self) -> int:
        """The most hits that one change is part of."""
        return self.item_hits * (2 if self.adjacency is Adjacency.REPLACE_ONE else 1)

    @property
    def event(self) -> Event:
        """The price of one session."""
        return _price(self.target, self.target_hits, self.failure_prob)

    def start(self, num_items: int) -> SparseVectorSession:
        """A session in which every item has all its hits; the event pays for one session."""
        return SparseVectorSession(self, num_items)

    def __call__(self, bits: Any, *, thresholds: Any, rng: np.random.Generator) -> ReleasedValues:
        """Answers queries `[Q, num_items]`, in their order, in one session; thresholds are whole, `[]` or `[Q]`."""
        checked = _require_bits(bits, rank=2)
        session = self.start(checked.shape[1])
        levels = np.broadcast_to(np.asarray(thresholds), (len(checked),)).tolist()
        answers = [session.ask(query, threshold=at, rng=rng) for query, at in zip(checked, levels, strict=True)]
        answered = np.array([answer is not None for answer in answers], dtype=bool)
        return ReleasedValues(np.array([answer or 0 for answer in answers], dtype=np.int64), answered)


class SparseVectorSession(HeldBudget):
    """A session of sparse vector: counts the hits of each item. It is private, like the items."""

    def __init__(self, mechanism: SparseVector, num_items: int) -> None:
        super().__init__()
        require_kind("mechanism", mechanism, SparseVector, "a SparseVector")
        self.mechanism = mechanism
        self._noise = mechanism.noise
        self._hits = np.zeros(require_count("num_items", num_items), dtype=np.int64)

    def ask(self, bits: Any, *, threshold: int, rng: np.random.Generator) -> int | None:
        """The noisy number of items with the bit, bool `[num_items]`, that are still in; None below the threshold."""
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
    array = require_array("bits", bits, kinds="b")
    shapes = {1: "[num_items]", 2: "[num_queries, num_items]"}
    require(array.ndim == rank and array.size > 0, "bits.shape", array.shape, shapes[rank])
    return array


@dataclass(frozen=True)
class ScoredTopK(TopK):
    """A top-k outcome, in falling order of its noisy counts."""

    scores: Whole  # int64 `[k]` or `[Q, k]`, counts with noise


@dataclass(frozen=True, kw_only=True)
class SweepTopK(NoisyWhole):
    """Adds discrete Laplace noise to every count and releases the k largest, with their noisy counts.

    A threshold sweeps from the top down. At each step every count not yet released is asked whether its noisy value
    equals it; the k-th yes ends the sweep. So the price depends on the k hits alone.

    Formal guarantee: every question is a not-prior call of 2 epsilon (`revise`); k hits are n accesses except with
    probability `failure_prob`. The same for replace-one and add/remove: one count moves by at most 1 under both.

    Attributes:
        epsilon: of one noisy count, not of the release.
        k: how many indices, >= 1.
        failure_prob: of more accesses than are paid for, in (0, 1); their number follows from it.

    Source: Cohen & Lyu 2023; docs/proofs/threshold_calls.md.

    >>> sweep = SweepTopK(k=2, epsilon=0.5, failure_prob=1e-9)
    >>> outcome = sweep(np.array([90, 10, 50]), rng=np.random.default_rng(0))
    >>> outcome.indices, outcome.scores
    (array([0, 2]), array([89, 49]))
    """

    k: int = field(metadata=COUNT)
    failure_prob: float = field(metadata=PROBABILITY)

    @property
    def target(self) -> QTarget:
        """What a question costs; several sweeps in one session are k hits each."""
        return revise(float(self.noise.rate))

    @property
    def event(self) -> Event:
        """The price of one sweep."""
        return _price(self.target, self.k, self.failure_prob)

    def __call__(self, counts: NDArray[np.integer], *, rng: np.random.Generator) -> ScoredTopK:
        """Draws for one histogram `[d]` or each of a batch `[Q, d]`, of whole numbers in 0..2**40."""
        require_generator(rng)
        checked = checked_counts(counts, self.k)
        noisy = checked + self.noise.sample(checked.shape, rng)
        indices = np.argsort(-noisy, axis=-1, kind="stable")[..., : self.k]
        answered = np.ones(checked.shape[:-1], dtype=bool)
        return ScoredTopK(indices, answered, np.take_along_axis(noisy, indices, axis=-1))
