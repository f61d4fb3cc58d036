"""Classes of sets of k ranks with equal loss, so that `CanonicalTopK` can draw without a list of all sets."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import FloatArray, IntArray
from pate.mechanisms.noise.weighted_index import Interval, WeightEncloser
from pate.mechanisms.top_k.weighted_class import draw_class

# Likely classes leave out sets at either end, which weigh together at most exp(-120) times the set of the k largest
# counts.
LOG_NEGLIGIBLE = 120.0
# The number of deficits between which the weights of blocks of ranks are bounded.
_NUM_LEVELS = 96


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class CanonicalClasses:
    """n classes of sets of k ranks out of 1..d. Rank 1 is that of the largest count, rank d that of the smallest.

    A class holds all sets with the same first missing rank and with a last rank in
    `smallest_last_ranks`..`largest_last_ranks`. So the ranks before the first missing rank are in each set, that rank
    is not, and ranks between it and the last one may be in the set or not. One class holds the set of the ranks 1..k
    alone, which misses none of them. Its largest last rank is k, and its first missing rank is written as k, for which
    `losses` is 0, or as 0 where classes leave that rank open.

    Attributes:
        first_missing_ranks: the first missing rank of each class, `[n]`; 0 for a class that leaves the first missing
            rank open.
        smallest_last_ranks: the last rank of a set is at least this, `[n]`.
        largest_last_ranks: the last rank of a set is at most this, `[n]`.
        log_sizes: the logarithm of the number of sets of each class, `[n]`.
        k: the number of ranks in a set.

    Source: Shekelyan & Loukides 2022; docs/proofs/canonical_top_k.md.
    """

    first_missing_ranks: IntArray
    smallest_last_ranks: IntArray
    largest_last_ranks: IntArray
    log_sizes: FloatArray
    k: int

    # These classes depend on sizes alone, so all histograms of one size share them.
    @classmethod
    @lru_cache(maxsize=32)
    def all(cls, num_ranks: int, k: int) -> Self:
        """Returns the class of the set of ranks 1..k, then one for each pair of a first missing and a last rank."""
        # No two counts are equal, and 0 < gamma < 1, so no two last ranks share a class.
        return cls.runs(falling_counts=-np.arange(num_ranks), k=k, gamma=0.5)

    @classmethod
    @lru_cache(maxsize=32)
    def by_last_rank(cls, num_ranks: int, k: int) -> Self:
        """Returns one class for each last rank k..`num_ranks` of a set, for `gamma` = 1.

        The loss of a set then depends on the smallest count in the set alone, and not on missing ranks.
        """
        last_ranks = np.arange(k, num_ranks + 1)
        # C(w - 1, k - 1) sets end at rank w, which is (w - 1) / (w - k) times the number of sets that end at w - 1.
        open_missing_ranks = np.zeros_like(last_ranks)
        log_ratios = np.log((last_ranks[1:] - 1.0) / (last_ranks[1:] - k))
        return cls(
            first_missing_ranks=open_missing_ranks,
            smallest_last_ranks=last_ranks,
            largest_last_ranks=last_ranks,
            log_sizes=np.append(0.0, np.cumsum(log_ratios)),
            k=k,
        )

    @classmethod
    def likely(cls, falling_counts: IntArray, k: int, *, loss_weight: float, gamma: float) -> Self:
        """Returns the classes of one histogram, without classes of negligible weight.

        All sets that are left out weigh together at most 2 exp(-120) times the set of the k largest counts.

        Args:
            falling_counts: counts in falling order, `[d]`.
            k: the size of a set.
            loss_weight: the factor of losses in the exponent; a set weighs exp(-loss_weight * loss).
            gamma: the share of the smallest count in the set in the loss, in [0, 1).
        """
        # Blocks of ranks behind rank k, by the deficit of a count, which is the k-th largest count less the count. A
        # block reaches from above one level of the deficit up to the next.
        first_missing_ranks = np.arange(1, k + 1)
        kth_count = falling_counts[k - 1]
        largest_deficit = int(kth_count - falling_counts[-1])
        inner_deficit_levels = np.geomspace(1, max(largest_deficit, 1), _NUM_LEVELS).astype(
            np.int64
        )
        deficit_levels = np.unique(np.append(inner_deficit_levels, [0, largest_deficit]))
        smallest_deficits = np.append(0, deficit_levels[:-1] + 1)
        block_end_ranks = np.searchsorted(-falling_counts, deficit_levels - kth_count, side="right")
        has_ranks = block_end_ranks > k
        log_sizes = np.full((len(first_missing_ranks), len(deficit_levels)), -np.inf)
        if has_ranks.any():
            log_sizes[:, has_ranks] = _log_sizes(
                first_missing_ranks=first_missing_ranks,
                smallest_last_ranks=np.full(has_ranks.sum(), k + 1),
                largest_last_ranks=block_end_ranks[has_ranks],
                k=k,
            )
        # A bound on the weight of all sets with a first missing rank whose last rank is in a block: [k, blocks].
        smallest_losses = (1 - gamma) * (falling_counts[first_missing_ranks - 1, None] - kth_count)
        smallest_losses = smallest_losses + gamma * smallest_deficits
        log_weights = log_sizes - loss_weight * smallest_losses
        # Bounds on the weight of each block and all blocks behind it, which fall, and of each first missing rank and
        # all ranks before it, which rise.
        log_weights_by_block = np.logaddexp.reduce(log_weights, axis=0)
        tail_log_weights = np.logaddexp.accumulate(log_weights_by_block[::-1])[::-1]
        log_weights_by_missing_rank = np.logaddexp.reduce(log_weights, axis=1)
        head_log_weights = np.logaddexp.accumulate(log_weights_by_missing_rank)
        num_blocks = int(np.count_nonzero(tail_log_weights >= -LOG_NEGLIGIBLE))
        num_negligible_ranks = int(np.count_nonzero(head_log_weights < -LOG_NEGLIGIBLE))
        return cls.runs(
            falling_counts=falling_counts,
            k=k,
            gamma=gamma,
            smallest_missing_rank=1 + num_negligible_ranks,
            largest_last_rank=int(block_end_ranks[num_blocks - 1]) if num_blocks else k,
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
        """Returns the classes of one histogram, in which last ranks with equal counts share a class for `gamma` < 1.

        Args:
            falling_counts: counts in falling order, `[d]`.
            k: the size of a set.
            gamma: the share of the smallest count in the set in the loss. With 0 all last ranks share a class. With 1
                the classes are those of `by_last_rank`, for which the arguments below are not read.
            smallest_missing_rank: the smallest first missing rank of a class.
            largest_last_rank: the largest last rank of a class; None for d.
        """
        if gamma == 1:
            return cls.by_last_rank(num_ranks=len(falling_counts), k=k)
        if largest_last_rank is None:
            largest_last_rank = len(falling_counts)
        # Last ranks form runs of equal losses.
        last_counts = falling_counts[k:largest_last_rank]
        counts_of_last_ranks = last_counts if gamma > 0 else np.zeros(len(last_counts))
        first_ranks_of_runs = np.empty(0, dtype=np.int64)
        if len(counts_of_last_ranks) > 0:
            run_starts = np.flatnonzero(np.diff(counts_of_last_ranks, prepend=np.inf))
            first_ranks_of_runs = k + 1 + run_starts
        last_ranks_of_runs = np.append(first_ranks_of_runs[1:] - 1, largest_last_rank)[
            : len(first_ranks_of_runs)
        ]
        first_missing_ranks = np.arange(smallest_missing_rank, k + 1)
        log_sizes = _log_sizes(
            first_missing_ranks=first_missing_ranks,
            smallest_last_ranks=first_ranks_of_runs,
            largest_last_ranks=last_ranks_of_runs,
            k=k,
        )
        # The set of ranks 1..k comes first, then each first missing rank with each run.
        return cls(
            first_missing_ranks=np.append(
                k, np.repeat(first_missing_ranks, len(first_ranks_of_runs))
            ),
            smallest_last_ranks=np.append(
                k, np.tile(first_ranks_of_runs, len(first_missing_ranks))
            ),
            largest_last_ranks=np.append(k, np.tile(last_ranks_of_runs, len(first_missing_ranks))),
            log_sizes=np.append(0.0, log_sizes),
            k=k,
        )

    @property
    def log_size_error(self) -> float:
        """A bound on the rounding error of each entry of `log_sizes`."""
        finite_log_sizes = self.log_sizes[np.isfinite(self.log_sizes)]
        largest_log_size = float(np.abs(finite_log_sizes).max())
        num_steps = len(self.log_sizes) + self.k + 8
        return num_steps * 2.0**-52 * (1 + largest_log_size)

    def with_first(self, likely_classes: Self) -> Self:
        """Returns the same classes in another order, which begins with `likely_classes` in their order."""
        place_of = {rank_pair: place for place, rank_pair in enumerate(likely_classes.rank_pairs)}
        places = [place_of.get(rank_pair, len(place_of)) for rank_pair in self.rank_pairs]
        return self.at(np.argsort(places, kind="stable"))

    def at(self, class_indices: IntArray | slice) -> Self:
        """Returns the classes at the given m places, in the order of the places."""
        return replace(
            self,
            first_missing_ranks=self.first_missing_ranks[class_indices],
            smallest_last_ranks=self.smallest_last_ranks[class_indices],
            largest_last_ranks=self.largest_last_ranks[class_indices],
            log_sizes=self.log_sizes[class_indices],
        )

    @property
    def rank_pairs(self) -> list[tuple[int, int]]:
        """The pair (first missing rank, largest last rank) of each class, which identifies the class."""
        return list(
            zip(self.first_missing_ranks.tolist(), self.largest_last_ranks.tolist(), strict=True)
        )

    def size(self, class_index: int) -> int:
        """Returns the exact number of sets of the class at a place."""
        first_missing_rank = int(self.first_missing_ranks[class_index])
        smallest_last_rank = int(self.smallest_last_ranks[class_index])
        largest_last_rank = int(self.largest_last_ranks[class_index])
        if first_missing_rank == largest_last_rank:
            return 1
        # The ranks before the first missing rank are in the set. The others are chosen among the ranks behind it.
        num_before = max(first_missing_rank - 1, 0)
        num_chosen = self.k - num_before
        return comb(largest_last_rank - first_missing_rank, num_chosen) - comb(
            smallest_last_rank - 1 - first_missing_rank, num_chosen
        )

    def losses(self, falling_counts: IntArray, gamma: Any) -> NDArray[Any]:
        """Returns the loss of each class, less the loss of the set of the k largest counts: `[..., n]`.

        Args:
            falling_counts: counts in falling order, `[..., d]`.
            gamma: the share of the smallest count in the set in the loss. A `Fraction` makes all losses fractions.
        """
        # The largest count outside the set, and the smallest count in the set, less the k-th largest count.
        kth_counts = falling_counts[..., [self.k - 1]]
        # Ranks are counted from 1, places from 0. A rank 0 stands for a class with any missing rank, whose count has
        # no weight, as `gamma` is then 1.
        missing_places = np.maximum(self.first_missing_ranks - 1, 0)
        largest_counts_outside_set = falling_counts[..., missing_places] - kth_counts
        smallest_counts_inside_set = falling_counts[..., self.largest_last_ranks - 1] - kth_counts
        if isinstance(gamma, Fraction):
            largest_counts_outside_set = largest_counts_outside_set.astype(object)
            smallest_counts_inside_set = smallest_counts_inside_set.astype(object)
        return np.asarray(
            (1 - gamma) * largest_counts_outside_set - gamma * smallest_counts_inside_set
        )

    def draw_members(self, class_indices: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws a uniform set of one class for each of Q histograms.

        Args:
            class_indices: the place of each histogram's class, `[Q]`.
            rng: draws the set.

        Returns:
            The ranks of each set, counted from 0, in rising order: `[Q, k]`.
        """
        first_missing = self.first_missing_ranks[class_indices]
        smallest_last = self.smallest_last_ranks[class_indices]
        largest_last = self.largest_last_ranks[class_indices]
        last_ranks = np.array(
            [
                self._draw_last_rank(
                    first_missing_rank=first_missing_rank,
                    smallest_last_rank=smallest_last_rank,
                    largest_last_rank=largest_last_rank,
                    rng=rng,
                )
                for first_missing_rank, smallest_last_rank, largest_last_rank in zip(
                    first_missing.tolist(),
                    smallest_last.tolist(),
                    largest_last.tolist(),
                    strict=True,
                )
            ]
        )
        # In a random order of all ranks, counted from 0, the first few between the missing and the last rank are in
        # the set.
        all_ranks = np.tile(np.arange(int(last_ranks.max())), (len(class_indices), 1))
        ranks_in_random_order = rng.permuted(all_ranks, axis=1)
        is_between = (ranks_in_random_order >= first_missing[:, None]) & (
            ranks_in_random_order < last_ranks[:, None] - 1
        )
        num_before_missing = np.maximum(first_missing - 1, 0)
        num_between = self.k - 1 - num_before_missing
        is_chosen = is_between & (np.cumsum(is_between, axis=1) <= num_between[:, None])
        is_before_missing = ranks_in_random_order < first_missing[:, None] - 1
        is_last = ranks_in_random_order == last_ranks[:, None] - 1
        is_in_set = is_chosen | is_before_missing | is_last
        return np.sort(ranks_in_random_order[is_in_set].reshape(len(class_indices), self.k), axis=1)

    def _draw_last_rank(
        self,
        *,
        first_missing_rank: int,
        smallest_last_rank: int,
        largest_last_rank: int,
        rng: np.random.Generator,
    ) -> int:
        """Draws the last rank of a uniform set of k ranks with a given first missing rank.

        The last rank lies in smallest_last_rank..largest_last_rank. These two are equal if the first missing rank is 0,
        which leaves it open.
        """
        if smallest_last_rank == largest_last_rank:
            return largest_last_rank
        # The logarithm of the number of sets that end at a rank, divided by the number that end at smallest_last_rank.
        earlier_ranks = np.arange(smallest_last_rank, largest_last_rank)
        log_ratios = np.log((earlier_ranks - first_missing_rank) / (earlier_ranks - self.k))
        log_relative_sizes = np.append(0.0, np.cumsum(log_ratios))
        largest_log_ratio = float(np.abs(log_relative_sizes).max())
        rounding_error = len(log_relative_sizes) * 2.0**-52 * (1 + largest_log_ratio)
        # The set has all ranks before the missing one, and so many between the missing and the last one.
        num_between = self.k - first_missing_rank
        exact_sizes = [
            comb(last_rank - 1 - first_missing_rank, num_between)
            for last_rank in range(smallest_last_rank, largest_last_rank + 1)
        ]

        def enclose_sizes(decimal_digits: int) -> list[Interval]:
            return [(exact_size, exact_size) for exact_size in exact_sizes]

        def make_encloser(row: int) -> WeightEncloser:
            return enclose_sizes

        drawn_steps = draw_class(
            log_weights=log_relative_sizes[None],
            make_encloser=make_encloser,
            log_rounding_error=rounding_error,
            rng=rng,
        )
        return smallest_last_rank + int(drawn_steps[0])


def _log_sizes(
    *,
    first_missing_ranks: IntArray,
    smallest_last_ranks: IntArray,
    largest_last_ranks: IntArray,
    k: int,
) -> FloatArray:
    """Returns the log of the number of sets of each class, log(C(high - f, k - f + 1) - C(low - 1 - f, k - f + 1)).

    Args:
        first_missing_ranks: the first missing ranks f, rising, of which the last is k: `[F]`.
        smallest_last_ranks: the numbers low > k; last ranks are at least this: `[R]`.
        largest_last_ranks: the numbers high; last ranks are at most this: `[R]`.
        k: the size of a set.

    Returns:
        One entry for each first missing rank and each range of last ranks, `[F, R]`.
    """
    # Binomial coefficients by recursion over f = k, k - 1, …: each row is the row before times one factor.
    f = first_missing_ranks[::-1, None].astype(np.float64)
    log_num_up_to_largest = np.cumsum(np.log((largest_last_ranks - f) / (k - f + 1)), axis=0)
    with np.errstate(divide="ignore"):  # a share of 0 has the logarithm minus infinity
        # The share of the sets whose last rank is below `smallest_last_ranks`.
        log_share_below_smallest = np.cumsum(
            np.log1p((smallest_last_ranks - 1 - largest_last_ranks) / (largest_last_ranks - f)),
            axis=0,
        )
    return np.asarray((log_num_up_to_largest + np.log(-np.expm1(log_share_below_smallest)))[::-1])
