"""The sparse vector technique, with a separate count of hits for each item (a teacher or a record)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pate.accounting import Adjacency, Event, q_targets
from pate.accounting.held_budget import HeldBudget
from pate.accounting.q_targets import QTarget
from pate.array_types import BoolArray
from pate.mechanisms.calls.noisy_whole import NoisyWhole
from pate.mechanisms.calls.session_price import priced_session_event
from pate.mechanisms.calls.thresholds import ReleasedValues, require_threshold
from pate.mechanisms.parameters import COUNT, PROBABILITY
from pate.validation import (
    InvalidValue,
    require,
    require_array,
    require_count,
    require_generator,
    require_kind,
)


@dataclass(frozen=True, kw_only=True)
class SparseVector(NoisyWhole):
    """A mechanism that counts, with noise, the items whose bit is 1, and releases counts that reach a threshold.

    An item is a teacher or a record, and has one bit in each query. The noisy count is the sum of the bits plus
    discrete Laplace noise. If a sum is released, every item that counts in it with a bit of 1 has a hit. An item with
    `item_hits` hits no longer counts in later sums. The hits of items are private. The number of queries is unlimited.

    Formal guarantee, for all releases together, except with probability `failure_prob`: a query is free for an item
    whose bit is 0. For an item whose bit is 1 it is a call of target charging (`pate.accounting.target_charging`) with
    the target `not_prior(epsilon)`, and only hits are charged. An item that is added or removed has at most `item_hits`
    hits. An item that is exchanged (replace-one) has at most 2 `item_hits` hits. Queries and thresholds may depend on
    all earlier outcomes.

    Attributes:
        epsilon: pure DP of one noisy sum, not of the release.
        item_hits: the number of hits after which an item no longer counts, >= 1; tau in the paper.
        failure_prob: a bound on the probability, in (0, 1), of more accesses (`pate.accounting.target_charging`) to an
            item than the price counts.

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
        """The target set of target charging, for an item whose bit is 1: all outcomes in which a sum is released."""
        return q_targets.not_prior(call_epsilon=float(self.noise.rate))

    @property
    def target_hits(self) -> int:
        """The largest number of hits that one added, removed or exchanged item can have."""
        num_moving = 2 if self.adjacency is Adjacency.REPLACE_ONE else 1
        return num_moving * self.item_hits

    @property
    def event(self) -> Event:
        """The price of one session, for any number of queries."""
        return priced_session_event(
            target_set=self.target,
            max_hits_of_record=self.target_hits,
            failure_prob=self.failure_prob,
        )

    def start(self, num_units: int) -> SparseVectorSession:
        """Returns a new session over `num_units` items, which are teachers or records.

        The price of the session is the mechanism's `event`.
        """
        return SparseVectorSession(mechanism=self, num_units=num_units)

    def __call__(self, bits: Any, *, thresholds: Any, rng: np.random.Generator) -> ReleasedValues:
        """Answers a batch of queries, one after another, in a new session.

        Args:
            bits: bool `[Q, num_units]`, the bit of each item in each query.
            thresholds: whole numbers, `[]` for all queries or `[Q]`; public.
            rng: draws the noise.

        Returns:
            For each query the noisy number of items, or nothing where it is below the threshold.
        """
        bits_by_query = _require_bits_of_items(bits, num_axes=2)
        num_units = bits_by_query.shape[1]
        vector_session = self.start(num_units=num_units)
        thresholds_by_query = np.broadcast_to(np.asarray(thresholds), (len(bits_by_query),))
        noisy_counts = [
            vector_session.ask(bits_of_items, threshold=public_threshold, rng=rng)
            for bits_of_items, public_threshold in zip(
                bits_by_query, thresholds_by_query.tolist(), strict=True
            )
        ]
        answered = np.array([noisy_count is not None for noisy_count in noisy_counts], dtype=bool)
        released_counts = np.array(
            [noisy_count or 0 for noisy_count in noisy_counts], dtype=np.int64
        )
        return ReleasedValues(values=released_counts, answered=answered)


class SparseVectorSession(HeldBudget):
    """A session of sparse vector, which counts the hits of each item. The counts are private and stay in memory."""

    def __init__(self, mechanism: SparseVector, *, num_units: int) -> None:
        super().__init__()
        require_kind("mechanism", mechanism, SparseVector, rule="a SparseVector")
        self.mechanism = mechanism
        self._noise = mechanism.noise
        self._hits = np.zeros(require_count("num_units", num_units), dtype=np.int64)

    def ask(self, bits: Any, *, threshold: int, rng: np.random.Generator) -> int | None:
        """Returns the noisy number of items whose bit is 1, or None if that number is below the threshold.

        Args:
            bits: bool `[num_units]`, one bit for each item. An item that has `item_hits` hits does not count.
            threshold: a whole number, public.
            rng: draws the noise.
        """
        require_generator(rng)
        whole_threshold = require_threshold("threshold", threshold)
        bits_of_items = _require_bits_of_items(bits, num_axes=1)
        is_complete = bits_of_items.shape == self._hits.shape
        require(is_complete, "bits.shape", bits_of_items.shape, f"{self._hits.shape}")
        with self._locked():
            is_counted = bits_of_items & (self._hits < self.mechanism.item_hits)
            noisy_count = int(is_counted.sum()) + int(self._noise.sample(shape=(), rng=rng))
            if noisy_count < whole_threshold:
                return None
            self._hits += is_counted
            return noisy_count


def _require_bits_of_items(bits: Any, *, num_axes: int) -> BoolArray:
    """Returns an array of bits that has `num_axes` axes, 1 or 2.

    Raises `InvalidValue` for an array of another type, with another number of axes, or without entries.
    """
    bit_array = require_array("bits", bits, dtype_kinds="b")
    if bit_array.ndim != num_axes or bit_array.size == 0:
        rule = "[num_units]" if num_axes == 1 else "[num_queries, num_units]"
        raise InvalidValue("bits.shape", bit_array.shape, rule=rule)
    return bit_array
