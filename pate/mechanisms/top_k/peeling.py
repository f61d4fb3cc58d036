"""Peeling with Gumbel noise: the index of the largest noisy count is picked and removed, k times in a row."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pate.accounting import Adjacency, BoundedRangeEvent, Event, SelfComposedEvent, ZCdpEvent
from pate.array_types import BoolArray, IntArray
from pate.mechanisms.noise.comparisons import ExactValues, largest_noisy
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.noise.maxima import gumbel_noise_argmax
from pate.mechanisms.parameters import POSITIVE, Parameters
from pate.mechanisms.top_k.mechanism import (
    BoundedRangeTopK,
    Distribution,
    require_counts,
    require_few_outcomes,
)
from pate.mechanisms.top_k.noisy_counts import largest_noisy_counts
from pate.mechanisms.top_k.pick_distributions import (
    peel_distribution,
    relabel_outcomes,
    utilities_of,
)
from pate.validation import InvalidValue, require_generator


@dataclass(frozen=True, kw_only=True)
class PeelingTopK(BoundedRangeTopK):
    """A mechanism that picks the index of the largest count with Gumbel noise, removes it, and repeats k times.

    The indices are released in the order of the picks.

    Formal guarantee: the difference of two counts moves by at most w = 2 (replace-one) or 1 (add/remove), so each pick
    has the bounded range e = w / noise_scale. All picks together are k e pure DP and k e**2 / 8 zCDP. The order of the
    indices is released too.
    Source: Durfee & Rogers 2019, Cesar & Rogers 2021 for zCDP; docs/proofs/peeling_top_k.md.

    >>> distribution = PeelingTopK(k=1, epsilon=2.0).distribution(np.array([3, 2, 0]))
    >>> {index: round(p, 3) for (index,), p in distribution.items()}
    {0: 0.705, 1: 0.259, 2: 0.035}
    """

    @property
    def noise_scale(self) -> float:
        """The scale of the Gumbel noise, in votes."""
        return self.adjacency.gap_sensitivity / self.range_of(rounds=self.k)

    @property
    def event(self) -> Event:
        """The price of one release, which is that of k picks."""
        range_of_pick = self.range_of(rounds=self.k)
        pick_event = BoundedRangeEvent(epsilon=range_of_pick)
        return SelfComposedEvent(pick_event, count=self.k)

    def draw(self, counts: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws, for each histogram `[Q, d]`, the indices of the k largest noisy counts, largest first: `[Q, k]`."""
        # The k largest counts with one Gumbel variable each have the distribution of peeling (docs/proofs).
        return largest_noisy_counts(
            counts, noise_scale=self.noise_scale, noise_kind="gumbel", k=self.k, rng=rng
        )

    def distribution_of(self, counts: IntArray) -> Distribution:
        """Returns the probability of each sequence of k indices for one histogram `[d]`."""
        return peel_distribution(
            utilities=utilities_of(counts, noise_scale=self.noise_scale),
            k=self.k,
            argmax_distribution=gumbel_noise_argmax,
        )


@dataclass(frozen=True, kw_only=True)
class OneShotTopK(PeelingTopK):
    """A mechanism that adds Gumbel noise to every count once and releases the k largest indices in their noisy order.

    The class has no draw of its own, as `PeelingTopK` is drawn in this way, too. `LipschitzTopK` has a choice of noise.

    Formal guarantee: distribution and price are those of `PeelingTopK`.
    Source: Durfee & Rogers 2019; docs/proofs/peeling_top_k.md.

    >>> outcome = OneShotTopK(k=2, epsilon=50.0)(np.array([90, 10, 50]), rng=np.random.default_rng(0))
    >>> outcome.indices
    array([0, 2])
    """


@dataclass(frozen=True, kw_only=True)
class SubsetPeeling(Parameters):
    """A mechanism that peels j indices from a public subset of a histogram's indices, with Gumbel noise on the counts.

    The noise has the scale `noise_scale` * sqrt(j), in votes, so the noise is smaller for fewer picks. The subset (the
    argument `part`) and j (the argument `size`) are public, and may depend on earlier releases.

    Formal guarantee: the difference of two counts moves by at most w = 2 (replace-one) or 1 (add/remove), so each pick
    has the bounded range e / sqrt(j) with e = w / noise_scale. All j picks together are e**2 / 8 zCDP, for every j.
    Their order could be released too.
    Source: Zhu & Wang 2022, Algorithm 3; docs/proofs/stable_fixed_top_k.md.

    >>> peeling = SubsetPeeling(noise_scale=0.1)
    >>> peeling([9, 7, 8, 2], part=[False, True, True, True], size=2, rng=np.random.default_rng(0))
    array([False,  True,  True, False])
    """

    noise_scale: float = field(metadata=POSITIVE)
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @property
    def event(self) -> Event:
        """The price of one histogram, which does not depend on the number of picks."""
        pick_range = self.adjacency.gap_sensitivity / self.noise_scale
        return ZCdpEvent(rho=pick_range * pick_range / 8)

    def __call__(self, counts: Any, *, part: Any, size: Any, rng: np.random.Generator) -> BoolArray:
        """Picks j indices of each histogram, and returns bits in the shape of `counts`: True for a picked index.

        Args:
            counts: whole numbers in 0..2**40, `[d]` or `[Q, d]`.
            part: the public subset as bits in the shape of `counts`: True for an index that can be picked.
            size: j, the number of picks, `[]` or `[Q]`; at most the number of indices in the subset.
            rng: draws the noise.

        Raises:
            InvalidValue: the counts are invalid, or `size` is negative or exceeds the subset.
        """
        require_generator(rng)
        checked_counts = require_counts(counts, min_num_counts=1)
        histograms = np.atleast_2d(checked_counts)
        candidate_masks = np.broadcast_to(np.asarray(part, dtype=np.bool_), histograms.shape)
        pick_counts = np.broadcast_to(np.asarray(size, dtype=np.int64), histograms.shape[:1])
        is_possible = (pick_counts >= 0) & (pick_counts <= candidate_masks.sum(axis=1))
        if not is_possible.all():
            rule = "0..the number of indices in the subset"
            raise InvalidValue("size", pick_counts[~is_possible][:1], rule=rule)
        is_picked = self.draw(
            histograms, candidate_masks=candidate_masks, pick_counts=pick_counts, rng=rng
        )
        return is_picked.reshape(checked_counts.shape)

    def draw(
        self,
        counts: IntArray,
        candidate_masks: BoolArray,
        pick_counts: IntArray,
        rng: np.random.Generator,
    ) -> BoolArray:
        """Picks indices of each histogram for arguments that are valid, and returns bits `[Q, d]`: True if picked.

        Args:
            counts: the histograms, `[Q, d]`.
            candidate_masks: the argument `part` of a call, `[Q, d]`.
            pick_counts: the argument `size` of a call, `[Q]`.
            rng: draws the noise.
        """
        # One Gumbel variable for each index decides all picks. Where nothing is picked, the scale has no effect; 1 in
        # place of 0 picks avoids a division by 0.
        noise_scales = self.noise_scale * np.sqrt(np.maximum(pick_counts, 1))
        exact_values = ExactValues.scaled(counts, noise_scale=noise_scales[:, None])
        drawn_noise = draw_noise(noise_kind="gumbel", shape=counts.shape, rng=rng)
        max_picks = max(1, int(pick_counts.max()))
        indices_by_noisy_count = largest_noisy(
            exact_values, drawn_noise, k=max_picks, candidate_mask=candidate_masks
        )
        is_among_picks = np.arange(max_picks) < pick_counts[:, None]
        is_picked = np.zeros(counts.shape, dtype=np.bool_)
        np.put_along_axis(is_picked, indices_by_noisy_count, is_among_picks, axis=1)
        return is_picked

    def distribution_of(
        self, counts: IntArray, candidate_mask: BoolArray, num_picks: int
    ) -> Distribution:
        """Returns the exact probability of each set of picked indices, in rising order, for one valid histogram.

        Args:
            counts: `[d]`.
            candidate_mask: bits `[d]`: True for an index that can be picked.
            num_picks: the number of picks.
        """
        candidate_indices = np.flatnonzero(candidate_mask)
        require_few_outcomes(num_outcomes=math.perm(len(candidate_indices), num_picks))
        candidate_counts = counts[candidate_indices]
        noise_scale = self.noise_scale * np.sqrt(max(num_picks, 1))
        utilities = (candidate_counts - candidate_counts.max(initial=0)) / noise_scale
        pick_distribution = peel_distribution(
            utilities=utilities, k=num_picks, argmax_distribution=gumbel_noise_argmax
        )

        def picks_to_index_set(picks: tuple[int, ...]) -> list[int]:
            return sorted(candidate_indices[list(picks)].tolist())

        return relabel_outcomes(pick_distribution, relabel_outcome=picks_to_index_set)
