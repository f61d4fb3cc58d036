"""Classes of sequences of k ranks with equal loss, so that `JointTopK` can draw without a list of all sequences."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from pate.array_types import FloatArray, IntArray
from pate.mechanisms.top_k.sorted_counts import stable_sort

# Losses at both ends whose weight, relative to that of all sequences, is below exp(-62) are left out of likely classes.
_LOG_NEGLIGIBLE = 62.0
# The number of losses at which weights are bounded: first over all losses, then within the window of the first pass.
_NUM_COARSE_LEVELS = 32
_NUM_FINE_LEVELS = 48


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class JointClasses:
    """n classes of sequences of k distinct ranks out of 0..d-1, for Q histograms. Rank 0 is that of the largest count.

    The loss of a position is the count that ranks there, less the count of the sequence's rank there. The class (i,
    first, end) holds the sequences that reach their largest loss first at position i, with a rank in first..end - 1.
    One more class, of loss 0, holds the single sequence 0, 1, …, k - 1.

    Attributes:
        falling: the counts of each histogram in falling order, `[Q, d]`.
        positions: the position i of each class, `[n]`; k for the sequence 0, 1, …, k - 1.
        first_ranks: the smallest rank at position i, `[n]`.
        end_ranks: the largest rank at position i, plus 1, `[n]`.
        order: the classes by rising loss, `[Q, n]`; of equal losses the last position comes first.
        losses: the loss of each class, in the order of `order`, `[Q, n]`.
        log_sizes: the logarithm of the number of sequences of each class, in the order of `order`, `[Q, n]`.
        window: two losses (low, high). There are classes for all losses in (low, high]. The window is
            (-1, largest loss) if no class was left out.

    Source: Gillenwater et al. 2022; docs/proofs/joint_top_k.md.
    """

    falling: IntArray
    positions: IntArray
    first_ranks: IntArray
    end_ranks: IntArray
    order: IntArray
    losses: IntArray
    log_sizes: FloatArray
    window: tuple[int, int]

    @classmethod
    def from_counts(
        cls,
        falling_counts: IntArray,
        k: int,
        *,
        splits_ties: bool = False,
        loss_below: int = -1,
        largest_loss: int | None = None,
        log_num_below: float = 0.0,
    ) -> Self:
        """Returns the classes with a loss in (loss_below, largest_loss], and the class of the sequence 0, 1, …, k - 1.

        Args:
            falling_counts: counts in falling order, `[1, d]`; `[Q, d]` is allowed with `splits_ties`.
            k: the number of positions.
            splits_ties: True for one class for each position and rank. False for one class for each position and
                distinct count.
            loss_below: the classes have losses above this.
            largest_loss: the classes have losses up to this; None for the largest loss of all sequences.
            log_num_below: the log of the number of sequences with a loss of at most `loss_below`.
        """
        counts = falling_counts[0]
        if largest_loss is None:
            largest_loss = int((falling_counts[:, 0] - falling_counts[:, -1]).max())
        # Runs of ranks that share a class: equal counts, or single ranks.
        run_starts = (
            np.arange(len(counts))
            if splits_ties
            else np.flatnonzero(np.diff(counts, prepend=counts[0] + 1))
        )
        run_ends = np.append(run_starts[1:], len(counts))
        # At each position, the runs from `first_runs` to before `end_runs` have losses in (loss_below, largest_loss].
        all_positions = np.arange(k)[::-1]
        position_counts = counts[all_positions]
        run_keys = -counts[run_starts]
        end_runs = np.searchsorted(run_keys, largest_loss - position_counts, side="right")
        num_skipped_runs = np.searchsorted(run_keys, loss_below - position_counts, side="right")
        later_runs = np.searchsorted(run_ends, all_positions + 1, side="right")
        first_runs = np.maximum(later_runs, num_skipped_runs)
        # One class for each position and each of its runs.
        num_runs = np.maximum(end_runs - first_runs, 0)
        positions = np.repeat(all_positions, num_runs)
        run_offsets = np.repeat(first_runs - np.cumsum(num_runs) + num_runs, num_runs)
        runs = np.arange(num_runs.sum()) + run_offsets
        first = np.maximum(run_starts[runs], positions + 1)
        last = run_ends[runs]
        # The number of sequences up to a loss is a product of k factors, one for each position: the number of ranks
        # that the loss allows there, less the ranks used before. A class (i, first, last) raises the i-th factor from
        # first - i to last - i, so it adds a share (last - first) / (first - i) to the number. The first class begins
        # with exp(log_num_below) sequences.
        log_growth = np.append(log_num_below, np.log((last - positions) / (first - positions)))
        log_shares = np.append(0.0, np.log((last - first) / (first - positions)))
        positions = np.append(k, positions)
        first = np.append(0, first)
        last = np.append(1, last)
        best_counts = falling_counts[:, np.minimum(positions, first)]
        order, losses = stable_sort(best_counts - falling_counts[:, first])
        log_num_before = np.cumsum(log_growth[order], axis=1) - log_growth[order]
        return cls(
            falling=falling_counts,
            positions=positions,
            first_ranks=first,
            end_ranks=last,
            order=order,
            losses=losses,
            log_sizes=log_num_before + log_shares[order],
            window=(loss_below, largest_loss),
        )

    @classmethod
    def likely(cls, falling_counts: IntArray, k: int, *, loss_weight: float) -> Self:
        """Returns the classes of one histogram, by position and distinct count, without classes of negligible weight.

        A sequence of loss l weighs exp(-loss_weight l). All sequences that are left out weigh together less than
        exp(-61) times all sequences.

        Args:
            falling_counts: counts in falling order, `[1, d]`.
            k: the number of positions.
            loss_weight: the factor of losses in the exponent.
        """
        counts = falling_counts[0]
        largest_loss = int(counts[0] - counts[-1])
        inner_levels = np.geomspace(1, max(largest_loss, 1), _NUM_COARSE_LEVELS).astype(np.int64)
        coarse_levels = np.unique(np.append(inner_levels, [0, largest_loss]))
        window = _likely_window(counts, k=k, loss_weight=loss_weight, levels=coarse_levels)
        window_levels = np.linspace(max(window.low, 0), window.high, _NUM_FINE_LEVELS)
        levels = np.unique(np.append(coarse_levels, window_levels.astype(np.int64)))
        window = _likely_window(counts, k=k, loss_weight=loss_weight, levels=levels)
        return cls.from_counts(
            falling_counts,
            k=k,
            loss_below=window.low,
            largest_loss=window.high,
            log_num_below=window.log_num_below,
        )

    @property
    def error(self) -> float:
        """A bound on the rounding error of each entry of `log_sizes`."""
        return float((self.log_sizes.shape[1] + 8) * 2.0**-52 * (1 + np.abs(self.log_sizes).max()))

    def sizes(self, row: int) -> Iterator[int]:
        """Yields the exact number of sequences in each class of the histogram at `row`, in the order of `order`."""
        k = int(self.positions[0])
        loss_below = self.window[0]
        falling = self.falling[row]
        # The number of sequences with a loss of at most that of the classes so far.
        total = 1
        if loss_below >= 0:
            num_ranks = np.searchsorted(-falling, loss_below - falling[:k], side="right").tolist()
            total = math.prod(num_ranks[position] - position for position in range(k))
        for class_index in self.order[row].tolist():
            if class_index == 0:  # the sequence 0, 1, …, k - 1, which `total` already counts
                yield 1
                continue
            position = int(self.positions[class_index])
            first = int(self.first_ranks[class_index])
            last = int(self.end_ranks[class_index])
            size = total * (last - first) // (first - position)
            yield size
            total += size

    def places_with_window_first(self, window_classes: Self) -> IntArray:
        """Returns the places in `order` of all classes of one histogram, `[n]`: first of those in a window.

        Args:
            window_classes: the classes in the window.
        """
        low, high = window_classes.window
        is_in_window = (self.losses[0] > low) & (self.losses[0] <= high)
        is_in_window |= self.order[0] == 0
        return np.argsort(~is_in_window, kind="stable")

    def draw_members(self, class_indices: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws a uniform sequence of one class for each of Q histograms.

        Args:
            class_indices: the place of each histogram's class in `order`, `[Q]`.
            rng: draws the sequence.

        Returns:
            The ranks of each sequence, `[Q, k]`.
        """
        histograms = np.arange(len(class_indices))
        classes = self.order[histograms, class_indices]
        k = int(self.positions[0])
        class_positions = self.positions[classes]
        class_ranks = rng.integers(self.first_ranks[classes], self.end_ranks[classes])
        # The smallest count that may stand at each position. Up to the position of the class, the loss must be less
        # than that of the class, and behind it at most that.
        largest_losses = self.losses[histograms, class_indices][:, None]
        is_up_to_position = np.arange(k) <= class_positions[:, None]
        smallest_counts = self.falling[:, :k] - (largest_losses - is_up_to_position)
        # The number of ranks, from the best on, that may stand at each position: [Q, k].
        if len(smallest_counts) == 1:
            num_ranks = np.searchsorted(-self.falling[0], -smallest_counts, side="right")
        else:
            num_ranks = (self.falling[:, None, :] >= smallest_counts[:, :, None]).sum(axis=2)
        num_ranks = np.maximum(num_ranks, np.arange(1, k + 1))
        # A shuffle (Fisher & Yates) that swaps a random allowed rank to each position in turn. Ranks already used stand
        # before the position.
        width = max(int(num_ranks.max()), int(class_ranks.max()) + 1)
        ranks = np.tile(np.arange(width), (len(class_indices), 1))
        for position in range(k):
            random_places = rng.integers(position, num_ranks[:, position])
            places = np.where(class_positions == position, class_ranks, random_places)
            drawn_ranks = ranks[histograms, places]
            ranks[histograms, places] = ranks[histograms, position]
            ranks[histograms, position] = drawn_ranks
        return ranks[:, :k]


@dataclass(frozen=True)
class _LossWindow:
    """The losses of sequences that have more than a negligible weight together, which are those in (low, high].

    Attributes:
        low: the largest loss that is left out below; -1 if none is.
        high: the largest loss of the window.
        log_num_below: the logarithm of the number of sequences with a loss of at most `low`; 0 if none is left out.
    """

    low: int
    high: int
    log_num_below: float


def _likely_window(
    counts: IntArray, *, k: int, loss_weight: float, levels: IntArray
) -> _LossWindow:
    """Returns an interval of losses outside of which all sequences together have a negligible weight.

    Total weights are not computed, but bounded at each of `levels`.

    Args:
        counts: counts in falling order, `[d]`.
        k: the number of positions.
        loss_weight: the factor of losses in the exponent; a sequence of loss l weighs exp(-loss_weight l).
        levels: the losses at which weights are bounded, in rising order, from 0 to the largest loss.
    """
    num_ranks = np.searchsorted(-counts, levels[:, None] - counts[:k], side="right")
    # The number of sequences with a loss of at most each level, as logarithms.
    log_totals = np.log(num_ranks - np.arange(k)).sum(axis=1)
    # All sequences up to a level weigh at least their number times the weight at the level.
    log_negligible = (log_totals - loss_weight * levels).max() - _LOG_NEGLIGIBLE
    # Sequences with a loss between one level and the next weigh at most this.
    log_parts = log_totals[1:] - loss_weight * (levels[:-1] + 1.0)
    # Bounds on the weight of all losses above each level, which fall, and up to each level, which rise.
    log_tails = np.append(np.logaddexp.accumulate(log_parts[::-1])[::-1], -np.inf)
    log_heads = np.logaddexp.accumulate(np.append(log_totals[0], log_parts))
    high = int(levels[np.flatnonzero(log_tails < log_negligible)[0]])
    num_negligible = np.count_nonzero(log_heads < log_negligible)
    if num_negligible == 0:
        return _LossWindow(low=-1, high=high, log_num_below=0.0)
    last_negligible = num_negligible - 1
    return _LossWindow(
        low=int(levels[last_negligible]),
        high=high,
        log_num_below=float(log_totals[last_negligible]),
    )
