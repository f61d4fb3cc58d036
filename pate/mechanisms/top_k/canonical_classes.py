"""Classes of sets of k ranks with equal loss, so that `CanonicalTopK` can draw without a list of all sets."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import FloatArray, IntArray
from pate.mechanisms.noise.weighted_index import Interval, Weights
from pate.mechanisms.top_k.weighted_class import draw_class

# Sets whose weight is below exp(-120) times that of the k largest counts are left out of likely classes.
LOG_NEGLIGIBLE = 120.0
# The number of deficits between which the weights of blocks of ranks are bounded.
_NUM_LEVELS = 96


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class CanonicalClasses:
    """n classes of sets of k ranks out of 1..d. Rank 1 is that of the largest count, rank d that of the smallest.

    A class holds all sets with the same first missing rank `first_missing` and with a last rank in low + 1..high. So
    the ranks before `first_missing` are in each set, `first_missing` is not, and ranks between it and the last one may
    be in the set or not. One class has a single set, the ranks 1..k: there `high` is k, and `first_missing` is k or 0.

    Attributes:
        first_missing: the first missing rank of each class, `[n]`; 0 for a class that leaves the first missing rank
            open.
        low: the last rank of a set is larger than this, `[n]`.
        high: the last rank of a set is at most this, `[n]`.
        log_sizes: the logarithm of the number of sets of each class, `[n]`.
        k: the number of ranks in a set.

    Source: Shekelyan & Loukides 2022; docs/proofs/canonical_top_k.md.
    """

    first_missing: IntArray
    low: IntArray
    high: IntArray
    log_sizes: FloatArray
    k: int

    # These classes depend on sizes alone, so all histograms of one size share them.
    @classmethod
    @lru_cache(maxsize=32)
    def all(cls, num_ranks: int, k: int) -> Self:
        """Returns the class of the set of ranks 1..k, then one for each pair of a first missing and a last rank."""
        return cls.runs(falling_counts=-np.arange(num_ranks), k=k, gamma=0.5)

    @classmethod
    @lru_cache(maxsize=32)
    def by_worst(cls, num_ranks: int, k: int) -> Self:
        """Returns one class for each last rank k..`num_ranks` of a set of k ranks, for `gamma` = 1.

        The loss of a set then depends on the smallest count in the set alone, and not on missing ranks.
        """
        last_ranks = np.arange(k, num_ranks + 1)
        # C(w - 1, k - 1) sets end at rank w, which is (w - 1) / (w - k) times the number of sets that end at w - 1.
        log_ratios = np.log((last_ranks[1:] - 1.0) / (last_ranks[1:] - k))
        return cls(
            first_missing=np.zeros_like(last_ranks),
            low=last_ranks - 1,
            high=last_ranks,
            log_sizes=np.append(0.0, np.cumsum(log_ratios)),
            k=k,
        )

    @classmethod
    def likely(cls, falling_counts: IntArray, k: int, *, loss_weight: float, gamma: float) -> Self:
        """Returns the classes of one histogram, without classes of negligible weight.

        All sets that are left out weigh together at most exp(-120) times the set of the k largest counts.

        Args:
            falling_counts: counts in falling order, `[d]`.
            k: the size of a set.
            loss_weight: the factor of losses in the exponent; a set weighs exp(-loss_weight * loss).
            gamma: the share of the smallest count in the set in the loss, in [0, 1).
        """
        # Blocks of ranks behind rank k, by the deficit of a count, which is the k-th largest count less the count. A
        # block reaches from above one level of the deficit up to the next.
        missing_ranks = np.arange(1, k + 1)
        kth_count = falling_counts[k - 1]
        largest_deficit = int(kth_count - falling_counts[-1])
        inner_levels = np.geomspace(1, max(largest_deficit, 1), _NUM_LEVELS).astype(np.int64)
        levels = np.unique(np.append(inner_levels, [0, largest_deficit]))
        smallest_deficits = np.append(0, levels[:-1] + 1)
        block_ends = np.searchsorted(-falling_counts, levels - kth_count, side="right")
        has_ranks = block_ends > k
        log_sizes = np.full((k, len(levels)), -np.inf)
        if has_ranks.any():
            log_sizes[:, has_ranks] = _log_sizes(
                missing_ranks=missing_ranks,
                ranks_below=np.full(has_ranks.sum(), k),
                largest_ranks=block_ends[has_ranks],
                k=k,
            )
        # A bound on the weight of all sets with a first missing rank whose last rank is in a block: [k, blocks].
        smallest_losses = (1 - gamma) * (falling_counts[missing_ranks - 1, None] - kth_count)
        smallest_losses = smallest_losses + gamma * smallest_deficits
        log_weights = log_sizes - loss_weight * smallest_losses
        # Bounds on the weight of each block and all blocks behind it, which fall, and of each first missing rank and
        # all ranks before it, which rise.
        block_log_weights = np.logaddexp.reduce(log_weights, axis=0)
        tail_log_weights = np.logaddexp.accumulate(block_log_weights[::-1])[::-1]
        missing_log_weights = np.logaddexp.reduce(log_weights, axis=1)
        head_log_weights = np.logaddexp.accumulate(missing_log_weights)
        num_blocks = int(np.count_nonzero(tail_log_weights >= -LOG_NEGLIGIBLE))
        num_negligible_ranks = int(np.count_nonzero(head_log_weights < -LOG_NEGLIGIBLE))
        return cls.runs(
            falling_counts=falling_counts,
            k=k,
            gamma=gamma,
            smallest_missing_rank=1 + num_negligible_ranks,
            largest_last_rank=int(block_ends[num_blocks - 1]) if num_blocks else k,
        )

    @classmethod
    def runs(
        cls,
        falling_counts: IntArray,
        k: int,
        *,
        gamma: float,
        smallest_missing_rank: int = 1,
        largest_last_rank: int | None = None,
    ) -> Self:
        """Returns the classes of one histogram, in which last ranks with equal counts share a class.

        Args:
            falling_counts: counts in falling order, `[d]`.
            k: the size of a set.
            gamma: the share of the smallest count in the set in the loss. With 0 all last ranks share a class. With 1
                all first missing ranks share a class.
            smallest_missing_rank: the smallest first missing rank of a class.
            largest_last_rank: the largest last rank of a class; None for d.
        """
        if gamma == 1:
            return cls.by_worst(num_ranks=len(falling_counts), k=k)
        if largest_last_rank is None:
            largest_last_rank = len(falling_counts)
        # Last ranks form runs of equal losses.
        last_counts = falling_counts[k:largest_last_rank]
        run_values = last_counts if gamma > 0 else np.zeros(len(last_counts))
        run_lows = np.empty(0, dtype=np.int64)
        if len(run_values) > 0:
            run_lows = k + np.flatnonzero(np.diff(run_values, prepend=np.inf))
        run_highs = np.append(run_lows[1:], largest_last_rank)[: len(run_lows)]
        missing_ranks = np.arange(smallest_missing_rank, k + 1)
        log_sizes = _log_sizes(
            missing_ranks=missing_ranks, ranks_below=run_lows, largest_ranks=run_highs, k=k
        )
        # The set of ranks 1..k comes first, then each first missing rank with each run.
        return cls(
            first_missing=np.append(k, np.repeat(missing_ranks, len(run_lows))),
            low=np.append(k - 1, np.tile(run_lows, len(missing_ranks))),
            high=np.append(k, np.tile(run_highs, len(missing_ranks))),
            log_sizes=np.append(0.0, log_sizes),
            k=k,
        )

    @property
    def error(self) -> float:
        """A bound on the rounding error of each entry of `log_sizes`."""
        largest = float(np.abs(self.log_sizes[np.isfinite(self.log_sizes)]).max())
        num_steps = len(self.log_sizes) + self.k + 8
        return num_steps * 2.0**-52 * (1 + largest)

    def with_window_first(self, window_classes: Self) -> Self:
        """Returns the same classes in another order, which begins with `window_classes` in their order."""
        window_places = {name: place for place, name in enumerate(window_classes.names)}
        new_places = [window_places.get(name, len(window_places)) for name in self.names]
        return self.at(np.argsort(new_places, kind="stable"))

    def at(self, class_indices: IntArray | slice) -> Self:
        """Returns the classes at the given m places, in the order of the places."""
        return replace(
            self,
            first_missing=self.first_missing[class_indices],
            low=self.low[class_indices],
            high=self.high[class_indices],
            log_sizes=self.log_sizes[class_indices],
        )

    @property
    def names(self) -> list[tuple[int, int]]:
        """The pair (first missing rank, largest last rank) of each class, which identifies the class."""
        return list(zip(self.first_missing.tolist(), self.high.tolist(), strict=True))

    def size(self, class_index: int) -> int:
        """Returns the exact number of sets of the class at a place."""
        first = int(self.first_missing[class_index])
        low = int(self.low[class_index])
        high = int(self.high[class_index])
        if first == high:
            return 1
        # The ranks before `first` are in the set. The others are chosen among the ranks behind `first`.
        num_before = max(first - 1, 0)
        num_chosen = self.k - num_before
        return comb(high - first, num_chosen) - comb(low - first, num_chosen)

    def losses(self, falling_counts: IntArray, gamma: Any) -> NDArray[Any]:
        """Returns the loss of each class, less the loss of the set of the k largest counts: `[..., n]`.

        Args:
            falling_counts: counts in falling order, `[..., d]`.
            gamma: the share of the smallest count in the set in the loss. A `Fraction` makes all losses fractions.
        """
        # The largest count outside the set, and the smallest count in the set, less the k-th largest count.
        kth = falling_counts[..., [self.k - 1]]
        largest_outside = falling_counts[..., np.maximum(self.first_missing, 1) - 1] - kth
        smallest_inside = falling_counts[..., self.high - 1] - kth
        if isinstance(gamma, Fraction):
            largest_outside = largest_outside.astype(object)
            smallest_inside = smallest_inside.astype(object)
        return np.asarray((1 - gamma) * largest_outside - gamma * smallest_inside)

    def draw_members(self, class_indices: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws a uniform set of one class for each of Q histograms.

        Args:
            class_indices: the place of each histogram's class, `[Q]`.
            rng: draws the set.

        Returns:
            The ranks of each set, counted from 0, in rising order: `[Q, k]`.
        """
        first = self.first_missing[class_indices]
        low = self.low[class_indices]
        high = self.high[class_indices]
        last = np.array(
            [
                self._draw_last_rank(
                    first_rank_not_in_set=first_rank_not_in_set,
                    rank_below=rank_below,
                    largest_rank=largest_rank,
                    rng=rng,
                )
                for first_rank_not_in_set, rank_below, largest_rank in zip(
                    first.tolist(), low.tolist(), high.tolist(), strict=True
                )
            ]
        )
        # In a random order of all ranks, counted from 0, the first few between the missing and the last rank are in
        # the set.
        all_ranks = np.tile(np.arange(int(last.max())), (len(class_indices), 1))
        ranks = rng.permuted(all_ranks, axis=1)
        is_between = (ranks >= first[:, None]) & (ranks < last[:, None] - 1)
        num_between = self.k - np.maximum(first, 1)
        is_chosen = is_between & (np.cumsum(is_between, axis=1) <= num_between[:, None])
        is_before_missing = ranks < first[:, None] - 1
        is_last = ranks == last[:, None] - 1
        is_in_set = is_chosen | is_before_missing | is_last
        return np.sort(ranks[is_in_set].reshape(len(class_indices), self.k), axis=1)

    def _draw_last_rank(
        self,
        *,
        first_rank_not_in_set: int,
        rank_below: int,
        largest_rank: int,
        rng: np.random.Generator,
    ) -> int:
        """Draws the last rank of a uniform set of k ranks with a given first rank that is not in the set; 0 for any.

        The last rank lies in rank_below + 1..largest_rank.
        """
        if largest_rank - rank_below == 1:
            return largest_rank
        # The logarithm of the number of sets that end at a rank, divided by the number that end at rank_below + 1.
        earlier_ranks = np.arange(rank_below + 1, largest_rank)
        log_ratios = np.log((earlier_ranks - first_rank_not_in_set) / (earlier_ranks - self.k))
        log_sizes = np.append(0.0, np.cumsum(log_ratios))
        rounding_error = len(log_sizes) * 2.0**-52 * (1 + float(np.abs(log_sizes).max()))
        # Before the missing rank stand all ranks; 0 stands for any missing rank, with none before it.
        num_before_missing = max(first_rank_not_in_set - 1, 0)
        num_between = self.k - 1 - num_before_missing
        sizes = [
            comb(rank - first_rank_not_in_set, num_between)
            for rank in range(rank_below, largest_rank)
        ]

        def intervals(digits: int) -> list[Interval]:
            return [(size, size) for size in sizes]

        def exact_weights_of_row(row: int) -> Weights:
            return intervals

        drawn = draw_class(
            log_weights=log_sizes[None],
            exact_weights_of_row=exact_weights_of_row,
            log_rounding_error=rounding_error,
            rng=rng,
        )
        return rank_below + 1 + int(drawn[0])


def _log_sizes(
    *, missing_ranks: IntArray, ranks_below: IntArray, largest_ranks: IntArray, k: int
) -> FloatArray:
    """Returns the log of the number of sets of each class, log(C(high - f, k - f + 1) - C(low - f, k - f + 1)).

    Args:
        missing_ranks: the first missing ranks f, rising, of which the last is k: `[F]`.
        ranks_below: the numbers `low`; last ranks are larger than this: `[R]`.
        largest_ranks: the numbers `high`; last ranks are at most this: `[R]`.
        k: the size of a set.

    Returns:
        One entry for each first missing rank and each range of last ranks, `[F, R]`.
    """
    # Binomial coefficients by recursion over f = k, k - 1, …: each row is the row before times one factor.
    f = missing_ranks[::-1, None].astype(np.float64)
    log_up_to_high = np.cumsum(np.log((largest_ranks - f) / (k - f + 1)), axis=0)
    with np.errstate(divide="ignore"):  # a share of 0 has the logarithm minus infinity
        # The share of the sets whose last rank is at most `low`.
        log_low_share = np.cumsum(
            np.log1p((ranks_below - largest_ranks) / (largest_ranks - f)), axis=0
        )
    return np.asarray((log_up_to_high + np.log(-np.expm1(log_low_share)))[::-1])
