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
    first, end) holds sequences with a rank in first..end - 1 at position i. Position i is the first that has both the
    largest loss of the sequence and a rank above its own number. One more class, of loss 0, holds the single sequence
    0, 1, …, k - 1.

    Attributes:
        falling_counts: the counts of each histogram in falling order, `[Q, d]`.
        positions: the position i of each class, `[n]`; k for the sequence 0, 1, …, k - 1.
        first_ranks: the smallest rank at position i, `[n]`.
        end_ranks: the largest rank at position i, plus 1, `[n]`.
        classes_by_loss: the classes by rising loss, `[Q, n]`; of equal losses the last position comes first.
        losses: the loss of each class, in the order of `classes_by_loss`, `[Q, n]`.
        log_sizes: the logarithm of the number of sequences of each class, in the order of `classes_by_loss`, `[Q, n]`.
        loss_window: two losses (low, high). The classes are those of all losses in (low, high], and that of the
            sequence 0, 1, …, k - 1. The window is (-1, largest loss) if no class was left out.

    Source: Gillenwater et al. 2022; docs/proofs/joint_top_k.md.
    """

    falling_counts: IntArray
    positions: IntArray
    first_ranks: IntArray
    end_ranks: IntArray
    classes_by_loss: IntArray
    losses: IntArray
    log_sizes: FloatArray
    loss_window: tuple[int, int]

    @classmethod
    def from_counts(
        cls,
        falling_counts: IntArray,
        k: int,
        *,
        splits_ties: bool = False,
        largest_loss_below_window: int = -1,
        largest_loss: int | None = None,
        log_num_below_window: float = 0.0,
    ) -> Self:
        """Returns the classes with a loss in a window, and the class of the sequence 0, 1, …, k - 1.

        The window is (largest_loss_below_window, largest_loss].

        Args:
            falling_counts: counts in falling order, `[1, d]`; `[Q, d]` is allowed with `splits_ties`.
            k: the number of positions.
            splits_ties: True for one class for each position and rank. False for one class for each position and
                distinct count.
            largest_loss_below_window: the classes have losses above this.
            largest_loss: the classes have losses up to this; None for the largest loss of all sequences.
            log_num_below_window: the log of the number of sequences with a loss of at most `largest_loss_below_window`.
        """
        first_histogram = falling_counts[0]
        if largest_loss is None:
            largest_loss = int((falling_counts[:, 0] - falling_counts[:, -1]).max())
        # Runs of ranks that share a class: equal counts, or single ranks.
        rank_run_starts = (
            np.arange(len(first_histogram))
            if splits_ties
            else np.flatnonzero(np.diff(first_histogram, prepend=first_histogram[0] + 1))
        )
        rank_run_ends = np.append(rank_run_starts[1:], len(first_histogram))
        # At each position, the runs from `first_run_indices` to before `end_run_indices` have losses in
        # (largest_loss_below_window, largest_loss].
        positions_of_sequence = np.arange(k)[::-1]
        position_counts = first_histogram[positions_of_sequence]
        negated_counts_of_runs = -first_histogram[rank_run_starts]
        end_run_indices = np.searchsorted(
            negated_counts_of_runs, largest_loss - position_counts, side="right"
        )
        num_skipped_runs = np.searchsorted(
            negated_counts_of_runs, largest_loss_below_window - position_counts, side="right"
        )
        # With the ranks 0..i alone at each position i, the only sequence is 0, 1, …, k - 1, which has its own class. So
        # the other classes of position i begin in the run that holds rank i + 1.
        run_indices_of_next_ranks = np.searchsorted(
            rank_run_ends, positions_of_sequence + 1, side="right"
        )
        first_run_indices = np.maximum(run_indices_of_next_ranks, num_skipped_runs)
        # One class for each position and each of its runs.
        num_runs_by_position = np.maximum(end_run_indices - first_run_indices, 0)
        sequence_positions = np.repeat(positions_of_sequence, num_runs_by_position)
        run_offsets = np.repeat(
            first_run_indices - np.cumsum(num_runs_by_position) + num_runs_by_position,
            num_runs_by_position,
        )
        run_indices = np.arange(num_runs_by_position.sum()) + run_offsets
        first_ranks = np.maximum(rank_run_starts[run_indices], sequence_positions + 1)
        end_ranks = rank_run_ends[run_indices]
        # The number of sequences up to a loss is a product of k factors, one for each position: the number of ranks
        # that the loss allows there, less the ranks used before. A class (i, first, end) raises the i-th factor from
        # first - i to end - i, so it adds a share (end - first) / (first - i) to the number. The first class begins
        # with exp(log_num_below_window) sequences.
        log_growth_factors = np.append(
            log_num_below_window,
            np.log((end_ranks - sequence_positions) / (first_ranks - sequence_positions)),
        )
        log_added_shares = np.append(
            0.0, np.log((end_ranks - first_ranks) / (first_ranks - sequence_positions))
        )
        sequence_positions = np.append(k, sequence_positions)
        first_ranks = np.append(0, first_ranks)
        end_ranks = np.append(1, end_ranks)
        counts_at_positions = falling_counts[:, np.minimum(sequence_positions, first_ranks)]
        losses_of_classes = counts_at_positions - falling_counts[:, first_ranks]
        classes_by_loss, losses = stable_sort(losses_of_classes)
        log_num_before = (
            np.cumsum(log_growth_factors[classes_by_loss], axis=1)
            - log_growth_factors[classes_by_loss]
        )
        return cls(
            falling_counts=falling_counts,
            positions=sequence_positions,
            first_ranks=first_ranks,
            end_ranks=end_ranks,
            classes_by_loss=classes_by_loss,
            losses=losses,
            log_sizes=log_num_before + log_added_shares[classes_by_loss],
            loss_window=(largest_loss_below_window, largest_loss),
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
        histogram = falling_counts[0]
        largest_loss = int(histogram[0] - histogram[-1])
        inner_loss_levels = np.geomspace(1, max(largest_loss, 1), _NUM_COARSE_LEVELS).astype(
            np.int64
        )
        coarse_loss_levels = np.unique(np.append(inner_loss_levels, [0, largest_loss]))
        loss_window = _likely_window(
            histogram, k=k, loss_weight=loss_weight, loss_levels=coarse_loss_levels
        )
        loss_levels_in_window = np.linspace(
            max(loss_window.largest_loss_below_window, 0),
            loss_window.largest_loss,
            _NUM_FINE_LEVELS,
        )
        loss_levels = np.unique(
            np.append(coarse_loss_levels, loss_levels_in_window.astype(np.int64))
        )
        loss_window = _likely_window(
            histogram, k=k, loss_weight=loss_weight, loss_levels=loss_levels
        )
        return cls.from_counts(
            falling_counts,
            k=k,
            largest_loss_below_window=loss_window.largest_loss_below_window,
            largest_loss=loss_window.largest_loss,
            log_num_below_window=loss_window.log_num_below_window,
        )

    @property
    def log_size_error(self) -> float:
        """A bound on the rounding error of each entry of `log_sizes`."""
        return float((self.log_sizes.shape[1] + 8) * 2.0**-52 * (1 + np.abs(self.log_sizes).max()))

    def sizes(self, row: int) -> Iterator[int]:
        """Yields the exact number of sequences of each class of the histogram at `row`, by `classes_by_loss`."""
        k = int(self.positions[0])
        largest_loss_below_window = self.loss_window[0]
        counts_of_histogram = self.falling_counts[row]
        # The number of sequences with a loss of at most that of the classes so far.
        num_so_far = 1
        if largest_loss_below_window >= 0:
            num_allowed_ranks = np.searchsorted(
                -counts_of_histogram,
                largest_loss_below_window - counts_of_histogram[:k],
                side="right",
            ).tolist()
            num_so_far = math.prod(num_allowed_ranks[position] - position for position in range(k))
        for class_index in self.classes_by_loss[row].tolist():
            if class_index == 0:  # the sequence 0, 1, …, k - 1, which `num_so_far` already counts
                yield 1
                continue
            position = int(self.positions[class_index])
            first_rank = int(self.first_ranks[class_index])
            end_rank = int(self.end_ranks[class_index])
            # The division is exact: `num_so_far` is a product that has the factor first_rank - position.
            size = num_so_far * (end_rank - first_rank) // (first_rank - position)
            yield size
            num_so_far += size

    def places_with_window_first(self, likely_classes: Self) -> IntArray:
        """Returns the places in `classes_by_loss` of all classes of one histogram, `[n]`: first those in a window.

        Args:
            likely_classes: the classes in the window.
        """
        low, high = likely_classes.loss_window
        is_in_window = (self.losses[0] > low) & (self.losses[0] <= high)
        is_in_window |= self.classes_by_loss[0] == 0
        return np.argsort(~is_in_window, kind="stable")

    def draw_members(self, class_places: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws a uniform sequence of one class for each of Q histograms.

        Args:
            class_places: the place of each histogram's class in `classes_by_loss`, `[Q]`.
            rng: draws the sequence.

        Returns:
            The ranks of each sequence, `[Q, k]`.
        """
        histogram_rows = np.arange(len(class_places))
        drawn_classes = self.classes_by_loss[histogram_rows, class_places]
        k = int(self.positions[0])
        loss_positions = self.positions[drawn_classes]
        class_ranks = rng.integers(self.first_ranks[drawn_classes], self.end_ranks[drawn_classes])
        # The smallest count that may stand at each position. Up to the position of the class, the loss must be less
        # than that of the class, and behind it at most that.
        largest_losses = self.losses[histogram_rows, class_places][:, None]
        is_up_to_position = np.arange(k) <= loss_positions[:, None]
        smallest_counts_by_position = self.falling_counts[:, :k] - (
            largest_losses - is_up_to_position
        )
        # The number of ranks, from the best on, that may stand at each position: [Q, k].
        if len(smallest_counts_by_position) == 1:
            num_allowed_ranks = np.searchsorted(
                -self.falling_counts[0], -smallest_counts_by_position, side="right"
            )
        else:
            num_allowed_ranks = (
                self.falling_counts[:, None, :] >= smallest_counts_by_position[:, :, None]
            ).sum(axis=2)
        num_allowed_ranks = np.maximum(num_allowed_ranks, np.arange(1, k + 1))
        # A shuffle (Fisher & Yates) that swaps a random allowed rank to each position in turn. Ranks already used stand
        # before the position.
        num_shuffled_ranks = max(int(num_allowed_ranks.max()), int(class_ranks.max()) + 1)
        shuffled_ranks = np.tile(np.arange(num_shuffled_ranks), (len(class_places), 1))
        for position in range(k):
            random_places = rng.integers(position, num_allowed_ranks[:, position])
            swapped_places = np.where(loss_positions == position, class_ranks, random_places)
            drawn_ranks = shuffled_ranks[histogram_rows, swapped_places]
            shuffled_ranks[histogram_rows, swapped_places] = shuffled_ranks[
                histogram_rows, position
            ]
            shuffled_ranks[histogram_rows, position] = drawn_ranks
        return shuffled_ranks[:, :k]


@dataclass(frozen=True)
class _LossWindow:
    """The losses of sequences that have more than a negligible weight together, which are those in (low, high].

    Attributes:
        largest_loss_below_window: the largest loss that is left out below; -1 if none is.
        largest_loss: the largest loss of the window.
        log_num_below_window: the logarithm of the number of sequences with a loss of at most
            `largest_loss_below_window`; 0 if none is left out.
    """

    largest_loss_below_window: int
    largest_loss: int
    log_num_below_window: float


def _likely_window(
    falling_counts: IntArray, *, k: int, loss_weight: float, loss_levels: IntArray
) -> _LossWindow:
    """Returns an interval of losses outside of which all sequences together have a negligible weight.

    Total weights are not computed, but bounded at each of `loss_levels`.

    Args:
        falling_counts: counts in falling order, `[d]`.
        k: the number of positions.
        loss_weight: the factor of losses in the exponent; a sequence of loss l weighs exp(-loss_weight l).
        loss_levels: the losses at which weights are bounded, in rising order, from 0 to the largest loss.
    """
    num_allowed_ranks = np.searchsorted(
        -falling_counts, loss_levels[:, None] - falling_counts[:k], side="right"
    )
    # The number of sequences with a loss of at most each level, as logarithms.
    log_nums_up_to_levels = np.log(num_allowed_ranks - np.arange(k)).sum(axis=1)
    # All sequences up to a level weigh at least their number times the weight at the level.
    log_negligible = (log_nums_up_to_levels - loss_weight * loss_levels).max() - _LOG_NEGLIGIBLE
    # Sequences with a loss between one level and the next weigh at most this.
    log_weights_between_levels = log_nums_up_to_levels[1:] - loss_weight * (loss_levels[:-1] + 1.0)
    # Bounds on the weight of all losses above each level, which fall, and up to each level, which rise.
    log_weights_above_levels = np.append(
        np.logaddexp.accumulate(log_weights_between_levels[::-1])[::-1], -np.inf
    )
    log_weights_up_to_levels = np.logaddexp.accumulate(
        np.append(log_nums_up_to_levels[0], log_weights_between_levels)
    )
    largest_loss = int(loss_levels[np.flatnonzero(log_weights_above_levels < log_negligible)[0]])
    num_negligible_levels = np.count_nonzero(log_weights_up_to_levels < log_negligible)
    if num_negligible_levels == 0:
        return _LossWindow(
            largest_loss_below_window=-1, largest_loss=largest_loss, log_num_below_window=0.0
        )
    last_negligible = num_negligible_levels - 1
    return _LossWindow(
        largest_loss_below_window=int(loss_levels[last_negligible]),
        largest_loss=largest_loss,
        log_num_below_window=float(log_nums_up_to_levels[last_negligible]),
    )
