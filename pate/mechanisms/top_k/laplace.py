"""Top-k with Laplace noise on every count."""

import math
from dataclasses import dataclass, field

import numpy as np

from pate.accounting import ApproximateEvent, Event, PureDpEvent
from pate.array_types import IntArray
from pate.mechanisms.noise.kinds import UNIT_NOISES
from pate.mechanisms.noise.maxima import ordered_distribution
from pate.mechanisms.parameters import COUNT, POSITIVE
from pate.mechanisms.top_k.mechanism import Distribution, TopKMechanism
from pate.mechanisms.top_k.noisy_counts import largest_noisy_counts
from pate.mechanisms.top_k.pick_distributions import relabel_outcomes, utilities_of
from pate.validation import InvalidValue

# The theorem for releases with a failure probability holds up to this epsilon and this failure probability.
_LARGEST_EPSILON = 0.2
_LARGEST_FAILURE_PROB = 0.05
# For k above so many times log(d / failure_prob), the theorem needs noise that grows with sqrt(k) only.
_LARGE_K_FACTOR = 16


@dataclass(frozen=True, kw_only=True)
class LaplaceTopK(TopKMechanism):
    """A mechanism that adds Laplace noise to every count and releases the k largest, in their noisy order or as a set.

    Formal guarantees, with w = 2 (replace-one) or 1 (add/remove):
        * Without `failure_prob`: epsilon-DP with noise of scale w min(k, max_labels) / epsilon. The outcome depends on
          the moves of k counts only, and all counts together move by at most w max_labels between neighboring data
          sets.
        * With `failure_prob`: epsilon-DP except with this probability, and a set is released without its order. With
          L = log(d / failure_prob) for d counts, the noise scale is 2 w sqrt(k L) / epsilon if k > 16 L, and
          w k / epsilon otherwise. For the same price, `OneShotTopK` releases the order too. Its noise scale is never
          larger, and about a third or less if k > 16 L.

    Attributes:
        epsilon: the epsilon of the guarantee, > 0; at most 0.2 with a `failure_prob`.
        max_labels: the largest number of counts to which one voter adds, >= 1; None if a voter may add to all counts.
        failure_prob: the delta of the guarantee, in (0, 0.05]; None for pure DP.

    Source: Dwork & Roth 2014, chapter 3, for pure DP; Qiao, Su & Zhang 2021 for the release with `failure_prob`, here
    with a half or a quarter of their noise; docs/proofs/laplace_top_k.md.

    >>> mechanism = LaplaceTopK(k=5, epsilon=1.0, max_labels=2)
    >>> mechanism.noise_scale(num_counts=100)
    4.0
    """

    epsilon: float = field(metadata=POSITIVE)
    max_labels: int | None = field(default=None, metadata=COUNT)
    failure_prob: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.failure_prob is None:
            return
        if self.epsilon > _LARGEST_EPSILON:
            rule = f"at most {_LARGEST_EPSILON} with a failure_prob"
            raise InvalidValue("epsilon", self.epsilon, rule=rule)
        if not 0 < self.failure_prob <= _LARGEST_FAILURE_PROB:
            rule = f"a number in (0, {_LARGEST_FAILURE_PROB}]"
            raise InvalidValue("failure_prob", self.failure_prob, rule=rule)
        if self.max_labels is not None:
            raise InvalidValue("max_labels", self.max_labels, rule="None with a failure_prob")

    def noise_scale(self, *, num_counts: int) -> float:
        """Returns the scale of the noise, in votes, for histograms of `num_counts` counts."""
        num_moves = float(self.k if self.max_labels is None else min(self.k, self.max_labels))
        if self.failure_prob is not None:
            log_counts_over_failure_prob = math.log(num_counts / self.failure_prob)
            if self.k > _LARGE_K_FACTOR * log_counts_over_failure_prob:
                num_moves = 2 * math.sqrt(self.k * log_counts_over_failure_prob)
        return self.adjacency.gap_sensitivity * num_moves / self.epsilon

    @property
    def event(self) -> Event:
        """The price of one release."""
        pure_event = PureDpEvent(self.epsilon)
        if self.failure_prob is None:
            return pure_event
        return ApproximateEvent(pure_event, failure_prob=self.failure_prob)

    def draw(self, counts: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws the indices of the k largest noisy counts of each histogram `[Q, d]`: `[Q, k]`.

        The indices are in falling order of their noisy counts. With `failure_prob`, they are sorted as numbers instead.
        """
        indices_by_noisy_count = largest_noisy_counts(
            counts,
            noise_scale=self.noise_scale(num_counts=counts.shape[1]),
            noise_kind="laplace",
            k=self.k,
            rng=rng,
        )
        # The guarantee with a failure probability does not cover the order.
        return (
            indices_by_noisy_count
            if self.failure_prob is None
            else np.sort(indices_by_noisy_count, axis=1)
        )

    def distribution_of(self, counts: IntArray) -> Distribution:
        """Returns the probability of each outcome, a tuple of k indices, for one histogram `[d]`."""
        utilities = utilities_of(counts, noise_scale=self.noise_scale(num_counts=len(counts)))
        distribution = ordered_distribution(
            values_in_scales=utilities, k=self.k, unit_noise=UNIT_NOISES["laplace"]
        )
        if self.failure_prob is None:
            return distribution
        return relabel_outcomes(distribution, relabel_outcome=sorted)
