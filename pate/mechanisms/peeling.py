"""Peeling: indices picked one after the other, each with Gumbel noise over those that are left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, BoundedRangeEvent, Event, SelfComposedEvent, ZCdpEvent
from pate.mechanisms.noise.laws import gumbel_argmax
from pate.mechanisms.noise.noisy_order import Values, draw_noise, largest_noisy
from pate.mechanisms.top_k import (
    LARGEST_COUNT,
    Array,
    Counts,
    Distribution,
    TopKMechanism,
    bounded_range_of,
    peel_distribution,
    utilities_of,
)
from pate.validation import require, require_generator, require_histogram, require_positive

Bits = NDArray[np.bool_]
_MOST_SEQUENCES = 100_000


@dataclass(frozen=True, kw_only=True)
class GumbelTopK(TopKMechanism):
    """k picks of a bounded range, drawn with one Gumbel variable per count; base of `PeelingTopK` and `OneShotTopK`.

    Attributes:
        epsilon: pure DP of the whole release, > 0; or
        rho: its zCDP, > 0. Exactly one of the two.
    """

    epsilon: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        bounded_range_of(self.epsilon, self.rho)

    @property
    def noise_scale(self) -> float:
        """The Gumbel noise's scale in counts."""
        return self.adjacency.gap_sensitivity / bounded_range_of(self.epsilon, self.rho, rounds=self.k)

    @property
    def event(self) -> Event:
        return SelfComposedEvent(BoundedRangeEvent(bounded_range_of(self.epsilon, self.rho, rounds=self.k)), self.k)

    def draw(self, counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        return largest_noisy(Values.scaled(counts, self.noise_scale), draw_noise("gumbel", counts.shape, rng), self.k)

    def distribution_of(self, counts: Counts) -> Distribution:
        return peel_distribution(utilities_of(counts, self.noise_scale), self.k, gumbel_argmax)


@final
@dataclass(frozen=True, kw_only=True)
class PeelingTopK(GumbelTopK):
    """Picks an index with Gumbel noise on the counts, removes it, and repeats k times; released in this order.

    Formal guarantee: each pick has a bounded range e, because the difference of two counts moves by at most 2
    (replace-one) or 1 (add/remove). All picks together are k e pure DP and k e**2 / 8 zCDP, the order included.

    Attributes:
        epsilon: pure DP of the whole release, > 0; or
        rho: its zCDP, > 0. Exactly one of the two.

    Source: Durfee & Rogers 2019; docs/proofs/top_k.md.

    >>> distribution = PeelingTopK(k=1, epsilon=2.0).distribution(np.array([3, 2, 0]))
    >>> {index: round(p, 3) for (index,), p in distribution.items()}
    {0: 0.705, 1: 0.259, 2: 0.035}
    """


@final
@dataclass(frozen=True, kw_only=True)
class OneShotTopK(GumbelTopK):
    """Adds Gumbel noise to every count once and releases the k largest, in their noisy order.

    Formal guarantee: the distribution of `PeelingTopK`, hence its price: k picks of bounded range e with noise of scale
    w / e, w = 2 (replace-one) or 1 (add/remove). Other kinds of noise: `LipschitzTopK`.

    Attributes:
        epsilon: pure DP of the whole release, > 0; or
        rho: its zCDP, > 0. Exactly one of the two.

    Source: Durfee & Rogers 2019; docs/proofs/top_k.md.

    >>> outcome = OneShotTopK(k=2, epsilon=50.0)(np.array([90, 10, 50]), rng=np.random.default_rng(0))
    >>> outcome.indices
    array([0, 2])
    """


@dataclass(frozen=True, kw_only=True)
class SubsetPeeling:
    """Picks j indices of a part of the histogram one after the other, each with Gumbel noise on the counts left.

    The noise of each pick has the scale `noise_scale` * sqrt(j), so that few picks are sharper than many at the same
    cost. Which part and how many may have been released before.

    Formal guarantee: each pick has a bounded range e / sqrt(j) with e = w / noise_scale, as the difference of two
    counts moves by at most w = 2 (replace-one) or 1 (add/remove). So j picks are e**2 / 8 zCDP whatever j, their order
    included, and none at all cost nothing.

    Attributes:
        noise_scale: scale of the Gumbel noise of a single pick, in votes, > 0.
        adjacency: what one change means.

    Source: Zhu & Wang 2022, Algorithm 3; docs/proofs/stable_fixed_top_k.md.

    >>> peeling = SubsetPeeling(noise_scale=0.1)
    >>> peeling([9, 7, 8, 2], part=[False, True, True, True], size=2, rng=np.random.default_rng(0))
    array([False,  True,  True, False])
    """

    noise_scale: float
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        require_positive("noise_scale", self.noise_scale)
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))

    @property
    def event(self) -> Event:
        """The price of one histogram, whatever the number of picks."""
        moved = self.adjacency.gap_sensitivity / self.noise_scale
        return ZCdpEvent(moved * moved / 8)

    def __call__(self, counts: Any, *, part: Any, size: Any, rng: np.random.Generator) -> Bits:
        """Draws from one histogram `[d]` or each of a batch `[Q, d]`: the picked indices as bits of the same shape.

        Args:
            counts: whole numbers in 0..2**40.
            part: bool `[d]` or `[Q, d]`: which indices compete.
            size: how many are picked, 0..the number that compete: `[]` or `[Q]`.
            rng: fresh noise for every histogram.
        """
        require_generator(rng)
        checked = require_histogram("counts", counts, num_teachers=LARGEST_COUNT).astype(np.int64)
        rows = np.atleast_2d(checked)
        parts = np.broadcast_to(np.asarray(part, dtype=np.bool_), rows.shape)
        sizes = np.broadcast_to(np.asarray(size, dtype=np.int64), rows.shape[:1])
        fits = (sizes >= 0) & (sizes <= parts.sum(axis=1))
        require(bool(fits.all()), "size", sizes[~fits][:1], "0..the number of indices that compete")
        return self.draw(rows, parts, sizes, rng).reshape(checked.shape)

    def draw(self, counts: Counts, part: Bits, size: NDArray[np.int64], rng: np.random.Generator) -> Bits:
        """Draws for checked arguments `[Q, d]`, `[Q, d]` and `[Q]`: all picks from one Gumbel variable per index."""
        scale = self.noise_scale * np.sqrt(np.maximum(size, 1))
        noise, most = draw_noise("gumbel", counts.shape, rng), max(1, int(size.max()))
        order = largest_noisy(Values.scaled(counts, scale[:, None]), noise, most, part)
        picked = np.zeros(counts.shape, dtype=np.bool_)
        np.put_along_axis(picked, order, np.arange(most) < size[:, None], axis=1)
        return picked

    def distribution_of(self, counts: Counts, part: Bits, size: int) -> Distribution:
        """The exact distribution for one checked histogram: each set of picked indices, in rising order.

        Raises:
            InvalidValue: more than 100,000 sequences of picks.
        """
        places = np.flatnonzero(part)
        sequences = math.perm(len(places), size)
        require(sequences <= _MOST_SEQUENCES, "counts", f"{sequences} sequences", f"at most {_MOST_SEQUENCES}")
        distribution: Distribution = {}
        for picks, probability in peel_distribution(self._utilities(counts[places], size), size, gumbel_argmax).items():
            names = tuple(sorted(places[list(picks)].tolist()))
            distribution[names] = distribution.get(names, 0.0) + probability
        return distribution

    def _utilities(self, counts: Counts, size: NDArray[np.int64] | int) -> Array:
        """Counts in units of the noise of one of that many picks, the largest at 0."""
        scale = self.noise_scale * np.sqrt(np.maximum(size, 1))
        return np.asarray((counts - counts.max(axis=-1, keepdims=True, initial=0)) / scale)
