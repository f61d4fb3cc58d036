"""The sum of the gradients of groups of records, after each group's gradient is clipped to a largest length."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import scipy

from pate.array_types import BoolArray, FloatArray, IntArray

# The most entries of products of features and residuals that are in memory at once.
_BLOCK_ENTRIES = 2**22
# For groups of at most so many records, the length of the gradient follows from inner products, without the gradient.
FEW_RECORDS = 8
# The length of the gradient of such a group counts as at least the sum of its records' lengths divided by this number.
MOST_CANCELED = 8.0
# The number of records that are added up in one product.
ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class GroupGradients:
    """Private records in N groups, from which the gradients of a logistic model are computed.

    The gradient of a group is a matrix, the mean of features x (labels - probabilities) over the records of the group.
    Where a label is unknown, labels - probabilities counts as 0. Clipping multiplies this matrix by
    min(1, clip / length), so that its l2 length is at most `clip` for any number of records.

    Attributes:
        features: the features of the records, `[n, k]`, each row of length 1. Records are sorted by the size of their
            group and by group.
        labels: the labels of the records, `[n, L]`.
        sizes: the number of records in each group, `[N]`, rising.
        known: which labels are known, `[n, L]`; None for all.
    """

    features: FloatArray
    labels: FloatArray
    sizes: IntArray
    known: BoolArray | None = None

    @classmethod
    def from_records(
        cls,
        features: FloatArray,
        labels: BoolArray,
        group_ids: IntArray,
        known: BoolArray | None = None,
    ) -> Self:
        """Returns the records in the required order, by the size of their group and by group.

        Args:
            features: `[n, k]`, each row of length 1.
            labels: `[n, L]`.
            group_ids: the group of each record, `[n]`.
            known: which labels are known, `[n, L]`; None where all are. A gradient is 0 where a label is unknown.
        """
        _, group, sizes = np.unique(group_ids, return_inverse=True, return_counts=True)
        order = np.lexsort((group, sizes[group]))
        return cls(
            features=features[order],
            labels=labels[order].astype(np.float64),
            sizes=np.sort(sizes),
            known=None if known is None else known[order],
        )

    def clipped_sum(self, weights: FloatArray, bias: FloatArray, clip: float) -> FloatArray:
        """Returns the sum over groups of their clipped gradients, `[k, L]`.

        Args:
            weights: the weights of the model, `[k, L]`.
            bias: the bias of the model, `[L]`.
            clip: the largest l2 length of a group's gradient.
        """
        residuals = self.labels - scipy.special.expit(self.features @ weights + bias)
        if self.known is not None:
            residuals *= self.known
        num_few = int(np.searchsorted(self.sizes, FEW_RECORDS, side="right"))
        end = int(self.sizes[:num_few].sum())
        residuals[:end] *= self._shares_of_few(residuals, clip)[:, None]
        total = np.zeros((self.features.shape[1], residuals.shape[1]))
        for start in range(0, end, ROWS_AT_ONCE):
            rows = slice(start, min(start + ROWS_AT_ONCE, end))
            total += self.features[rows].T @ residuals[rows]
        max_records = max(1, _BLOCK_ENTRIES // total.size)
        for first, last in self._blocks(first_group=num_few, max_records=max_records):
            rows = slice(
                int(self._starts[first]), int(self._starts[last - 1] + self.sizes[last - 1])
            )
            products = np.einsum("ik,il->ikl", self.features[rows], residuals[rows])
            starts = self._starts[first:last] - self._starts[first]
            means = np.add.reduceat(products, starts, axis=0) / self.sizes[first:last, None, None]
            lengths = np.sqrt(np.square(means).sum(axis=(1, 2)))
            total += np.einsum("g,gkl->kl", clip / np.maximum(lengths, clip), means)
        return np.asarray(total)

    @cached_property
    def _starts(self) -> IntArray:
        """The first record of each group, `[N]`."""
        return np.cumsum(self.sizes) - self.sizes

    def _shares_of_few(self, residuals: FloatArray, clip: float) -> FloatArray:
        """Returns the weight of each record of a group of at most 8 records in the clipped sum, `[num_such_records]`.

        The weight is the clipping factor of the group, divided by the number of records in the group. The length of a
        group's gradient is computed from inner products of features and of residuals. If the gradients of the records
        nearly cancel, rounding errors would dominate this length. So the length counts as at least an eighth of the sum
        of the records' lengths.

        Args:
            residuals: labels - probabilities of each record, `[n, L]`.
            clip: the largest l2 length of a group's gradient.
        """
        factors = [np.empty(0)]
        for size in range(1, FEW_RECORDS + 1):
            first, last = np.searchsorted(self.sizes, [size, size + 1]).tolist()
            for start in range(first, last, ROWS_AT_ONCE):
                groups = min(ROWS_AT_ONCE, last - start)
                begin = int(self._starts[start])
                rows = slice(begin, begin + groups * size)
                x = self.features[rows].reshape(groups, size, -1)
                r = residuals[rows].reshape(groups, size, -1)
                # |sum_i x_i r_i^T|^2 = sum_ij (x_i . x_j) (r_i . r_j)
                inner_products = (x @ x.transpose(0, 2, 1)) * (r @ r.transpose(0, 2, 1))
                uncanceled = np.sqrt(np.diagonal(inner_products, axis1=1, axis2=2)).sum(axis=1)
                lengths = np.sqrt(np.maximum(inner_products.sum(axis=(1, 2)), 0))
                lengths = np.maximum(lengths, uncanceled / MOST_CANCELED) / size
                factors.append(np.repeat(clip / np.maximum(lengths, clip) / size, size))
        return np.concatenate(factors)

    def _blocks(self, first_group: int, max_records: int) -> list[tuple[int, int]]:
        """Returns consecutive blocks of groups, as pairs (first group, last group + 1).

        Args:
            first_group: the first group of the first block.
            max_records: the number of records that a block has at most, unless it is a single group.
        """
        blocks = []
        held = 0
        for index, size in enumerate(self.sizes[first_group:].tolist(), start=first_group):
            if held and held + size > max_records:
                blocks.append((first_group, index))
                first_group = index
                held = 0
            held += size
        return [*blocks, (first_group, len(self.sizes))] if held else blocks
