"""Top-k by a sweep: noisy counts are released from the largest down, and only the k released ones are paid for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting.target_charging import QTarget, revise
from pate.mechanisms.noise.noisy_counts import NoisyCounts
from pate.mechanisms.top_k.top_k import LARGEST_COUNT, TopK
from pate.validation import require, require_count, require_generator, require_histogram


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
