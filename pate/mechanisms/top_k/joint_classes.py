"""Classes of sequences of k ranks with equal loss, so that `JointTopK` can draw without a list of all sequences."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pate.array_types import FloatArray, IntArray
from pate.mechanisms.top_k.ranking import stable_sort

# losses whose weight, relative to that of all sequences, is below exp(-62) are cut off
_LOG_NEGLIGIBLE = 62.0
# levels of the loss at which weights are bounded: a first pass over all losses, a second one in the window of the first
_COARSE = 32
_FINE = 48


@dataclass(frozen=True, eq=False)
class JointClasses:
    """n classes of sequences of k distinct ranks out of 0..d-1, for Q histograms. Rank 0 is that of the largest count.

    The loss of a position is the count that ranks there, less the count of the sequence's rank there. The class (i,
    first, last) holds the sequences that reach their largest loss first at position i, with a rank in first..last - 1.
    One more class, of loss 0, holds the single sequence 0, 1, …, k - 1.
    Source: Gillenwater et al. 2022; docs/proofs/joint_top_k.md.
    """

    falling: IntArray  # [Q, d], the counts of each histogram in falling order
    rows: IntArray  # [n], the position i of each class; k for the sequence 0, 1, …, k - 1
    first: IntArray  # [n], the smallest rank at position i
    last: IntArray  # [n], the largest rank at position i, plus 1
    # [Q, n], the classes by rising loss; of equal losses the last position comes first
    order: IntArray
    losses: IntArray  # [Q, n], the loss of each class, in the order of `order`
    # [Q, n], log of the number of sequences of each class, in the order of `order`
    log_sizes: FloatArray
    # (low, high): there are classes for all losses in (low, high]; (-1, largest loss) if no class was left out
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
        largest_loss = (
            int((falling_counts[:, 0] - falling_counts[:, -1]).max())
            if largest_loss is None
            else largest_loss
        )
        starts = (
            np.arange(len(counts))
            if splits_ties
            else np.flatnonzero(np.diff(counts, prepend=counts[0] + 1))
        )
        ends = np.append(starts[1:], len(counts))
        positions = np.arange(k)[::-1]
        # runs of equal counts from `begin` to `stop` have losses in (low, high] at a position
        stop = np.searchsorted(-counts[starts], largest_loss - counts[positions], side="right")
        skipped = np.searchsorted(-counts[starts], loss_below - counts[positions], side="right")
        begin = np.maximum(np.searchsorted(ends, positions + 1, side="right"), skipped)
        lengths = np.maximum(stop - begin, 0)
        rows = np.repeat(positions, lengths)
        runs = np.arange(lengths.sum()) + np.repeat(begin - np.cumsum(lengths) + lengths, lengths)
        first = np.maximum(starts[runs], rows + 1)
        last = ends[runs]
        # The number of sequences up to a loss is a product of k factors, one for each position: the ranks in reach,
        # less the ranks used before. A class (i, first, last) raises the i-th factor from first - i to last - i, so it
        # adds a share (last - first) / (first - i) to the number. The first class begins with exp(log_num_below)
        # sequences.
        steps = np.append(log_num_below, np.log((last - rows) / (first - rows)))
        parts = np.append(0.0, np.log((last - first) / (first - rows)))
        rows = np.append(k, rows)
        first = np.append(0, first)
        last = np.append(1, last)
        order, losses = stable_sort(
            falling_counts[:, np.minimum(rows, first)] - falling_counts[:, first]
        )
        before = np.cumsum(steps[order], axis=1) - steps[order]
        return cls(
            falling=falling_counts,
            rows=rows,
            first=first,
            last=last,
            order=order,
            losses=losses,
            log_sizes=before + parts[order],
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
        largest = int(counts[0] - counts[-1])
        low = 0
        high = largest
        log_low = 0.0
        levels = np.append(np.geomspace(1, max(largest, 1), _COARSE).astype(np.int64), [0, largest])
        for more in (0, _FINE):
            levels = np.unique(
                np.append(levels, np.linspace(max(low, 0), high, more).astype(np.int64))
            )
            reach = np.searchsorted(-counts, levels[:, None] - counts[:k], side="right")
            log_totals = np.log(reach - np.arange(k)).sum(axis=1)
            # all sequences up to a level weigh at least that
            negligible = (log_totals - loss_weight * levels).max() - _LOG_NEGLIGIBLE
            # of losses in (level, next level], at most
            parts = log_totals[1:] - loss_weight * (levels[:-1] + 1.0)
            tails = np.append(np.logaddexp.accumulate(parts[::-1])[::-1], -np.inf)
            heads = np.logaddexp.accumulate(np.append(log_totals[0], parts))
            high = int(levels[np.flatnonzero(tails < negligible)[0]])
            last = np.count_nonzero(heads < negligible) - 1  # heads rise
            low, log_low = (-1, 0.0) if last < 0 else (int(levels[last]), float(log_totals[last]))
        return cls.from_counts(
            falling_counts, k, loss_below=low, largest_loss=high, log_num_below=log_low
        )

    @property
    def error(self) -> float:
        """A bound on the rounding error of each entry of `log_sizes`."""
        return float((self.log_sizes.shape[1] + 8) * 2.0**-52 * (1 + np.abs(self.log_sizes).max()))

    def sizes(self, row: int) -> Iterator[int]:
        """Yields the exact number of sequences in each class of the histogram at `row`, in the order of `order`."""
        k = int(self.rows[0])
        low = self.window[0]
        falling = self.falling[row]
        total = 1
        if low >= 0:  # the number of sequences with a loss of at most `low`
            reach = np.searchsorted(-falling, low - falling[:k], side="right")
            total = math.prod(
                num_reached - position for position, num_reached in enumerate(reach.tolist())
            )
        for place in self.order[row].tolist():
            position, first, last = (
                int(ranks[place]) for ranks in (self.rows, self.first, self.last)
            )
            size = 1 if place == 0 else total * (last - first) // (first - position)
            yield size
            total += size if place else 0

    def with_window_first(self, window_classes: Self) -> tuple[Self, IntArray]:
        """Returns the classes of one histogram in another order: first the classes with a loss in the other window.

        That is the window of losses of `window_classes`.

        Also returns the place of each class in the old order, `[n]`.
        """
        low, high = window_classes.window
        inside = (self.order[0] == 0) | ((self.losses[0] > low) & (self.losses[0] <= high))
        places = np.argsort(~inside, kind="stable")
        reordered = replace(
            self,
            order=self.order[:, places],
            losses=self.losses[:, places],
            log_sizes=self.log_sizes[:, places],
        )
        return reordered, places

    def draw_members(self, class_indices: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws a uniform sequence of one class for each of Q histograms.

        Args:
            class_indices: the place of each histogram's class in `order`, `[Q]`.
            rng: draws the sequence.

        Returns:
            The ranks of each sequence, `[Q, k]`.
        """
        at = np.arange(len(class_indices))
        places = self.order[at, class_indices]
        rows = self.rows[places]
        k = int(self.rows[0])
        ranks = rng.integers(self.first[places], self.last[places])
        # the number of best ranks that may stand at each position; fewer before the position that decides
        floors = self.falling[:, :k] - (
            self.losses[at, class_indices][:, None] - (np.arange(k) <= rows[:, None])
        )
        if len(floors) == 1:
            reach = np.searchsorted(-self.falling[0], -floors, side="right")
        else:
            reach = (self.falling[:, None, :] >= floors[:, :, None]).sum(axis=2)
        reach = np.maximum(reach, np.arange(1, k + 1))
        width = max(int(reach.max()), int(ranks.max()) + 1)
        left = np.tile(np.arange(width), (len(class_indices), 1))
        # ranks already used stand before `position`; those in reach stay in reach
        for position in range(k):
            picked = np.where(rows == position, ranks, rng.integers(position, reach[:, position]))
            left[at, picked], left[at, position] = left[at, position], left[at, picked]
        return left[:, :k]
