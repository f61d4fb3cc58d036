"""A top-k release with noisy counts, priced as k hits of a threshold that falls from above all noisy counts."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event, q_targets
from pate.accounting.q_targets import QTarget
from pate.array_types import IntArray
from pate.mechanisms.calls.noisy_whole import NoisyWhole
from pate.mechanisms.calls.session_price import priced_session_event
from pate.mechanisms.parameters import COUNT, PROBABILITY
from pate.mechanisms.top_k.mechanism import TopK, require_counts
from pate.validation import require_generator


@dataclass(frozen=True)
class ScoredTopK(TopK):
    """The k indices with the largest noisy counts, the largest first, and these noisy counts.

    Attributes:
        scores: the noisy count of each index, `[k]` or `[Q, k]`.
    """

    scores: IntArray


@dataclass(frozen=True, kw_only=True)
class SweepTopK(NoisyWhole):
    """A mechanism that adds discrete Laplace noise to every count and releases the k largest with their noisy counts.

    The price is that of a threshold that falls step by step from a value above all noisy counts. At each step every
    noisy count that is not yet released is compared with the threshold. A noisy count that equals the threshold is a
    hit and is released. The k-th hit ends the sweep, so the price depends on the k hits alone.

    Formal guarantee: every comparison is a not-prior call of 2 epsilon (`q_targets.revise`). Except with probability
    `failure_prob`, the k hits need no more accesses than the event counts. Replace-one and add/remove cost the same,
    because one count moves by at most 1 under both.

    Attributes:
        epsilon: pure DP of one noisy count, not of the release.
        k: the number of indices, >= 1.
        failure_prob: a bound on the probability that more accesses are made than the price counts, in (0, 1).

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
        """The target set of target charging: a noisy count that equals the threshold. Each sweep has k hits."""
        return q_targets.revise(call_epsilon=float(self.noise.rate))

    @property
    def event(self) -> Event:
        """The price of one sweep, which has k hits."""
        return priced_session_event(
            target_set=self.target, max_hits_of_record=self.k, failure_prob=self.failure_prob
        )

    def __call__(self, counts: NDArray[np.integer], *, rng: np.random.Generator) -> ScoredTopK:
        """Draws the k largest noisy counts of one histogram `[d]`, or of each of a batch `[Q, d]`.

        The counts are whole numbers in 0..2**40.
        """
        require_generator(rng)
        checked_counts = require_counts(counts, min_num_counts=self.k)
        noisy_counts = checked_counts + self.noise.sample(checked_counts.shape, rng)
        indices_by_noisy_count = np.argsort(-noisy_counts, axis=-1, kind="stable")[..., : self.k]
        answered = np.ones(checked_counts.shape[:-1], dtype=bool)
        noisy_counts_of_top_k = np.take_along_axis(noisy_counts, indices_by_noisy_count, axis=-1)
        return ScoredTopK(
            indices=indices_by_noisy_count, answered=answered, scores=noisy_counts_of_top_k
        )
