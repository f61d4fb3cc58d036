"""The sum of the gradients of groups of records, after each group's gradient is clipped to a largest length."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import scipy

from pate.array_types import BoolArray, FloatArray, IntArray

# The most entries of products of features and residuals that are in memory at once.
_BLOCK_ENTRIES = 2**22
# The largest size of a small group. The length of the gradient of a small group is computed from inner products of its
# records, without the gradient itself.
FEW_RECORDS = 8
# The gradient of a small group counts as at least as long as the sum of its records' lengths divided by this number.
MAX_CANCELLATION = 8.0
# The largest number of records in one matrix product.
ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class GroupGradients:
    """Private records in N groups, from which the gradients of a logistic model are computed.

    The gradient of a group is that of its mean log-likelihood: a matrix, the mean over the records of the group of the
    outer product of features and (labels - probabilities). Unknown labels add 0 to it. Clipping multiplies this matrix
    by min(1, clip / length), so that its l2 length is at most `clip` for any number of records. If the gradients of few
    records nearly cancel, the length counts as larger than it is.

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
        num_small_groups = int(np.searchsorted(self.sizes, FEW_RECORDS, side="right"))
        num_small_records = int(self.sizes[:num_small_groups].sum())
        record_weights = self._weights_in_small_groups(residuals, clip)
        residuals[:num_small_records] *= record_weights[:, None]
        total = np.zeros((self.features.shape[1], residuals.shape[1]))
        for start in range(0, num_small_records, ROWS_AT_ONCE):
            rows = slice(start, min(start + ROWS_AT_ONCE, num_small_records))
            total += self.features[rows].T @ residuals[rows]
        max_records = max(1, _BLOCK_ENTRIES // total.size)
        for first_group, end in self._blocks(first_group=num_small_groups, max_records=max_records):
            total += self._clipped_sum_of_block(
                residuals, clip=clip, first_group=first_group, end=end
            )
        return np.asarray(total)

    def _clipped_sum_of_block(
        self, residuals: FloatArray, *, clip: float, first_group: int, end: int
    ) -> FloatArray:
        """Returns the sum of the clipped gradients of consecutive groups, `[k, L]`; computes each gradient itself.

        Args:
            residuals: labels - probabilities of each record, `[n, L]`.
            clip: the largest l2 length of a group's gradient.
            first_group: the index of the first of the groups.
            end: the index of the last of the groups + 1.
        """
        rows = slice(
            int(self._starts[first_group]), int(self._starts[end - 1] + self.sizes[end - 1])
        )
        products = np.einsum("ik,il->ikl", self.features[rows], residuals[rows])
        starts = self._starts[first_group:end] - self._starts[first_group]
        means = np.add.reduceat(products, starts, axis=0) / self.sizes[first_group:end, None, None]
        lengths = np.sqrt(np.square(means).sum(axis=(1, 2)))
        return np.asarray(np.einsum("g,gkl->kl", clip / np.maximum(lengths, clip), means))

    @cached_property
    def _starts(self) -> IntArray:
        """The row of the first record of each group, `[N]`."""
        return np.cumsum(self.sizes) - self.sizes

    def _weights_in_small_groups(self, residuals: FloatArray, clip: float) -> FloatArray:
        """Returns the weight of each record of a small group in the clipped sum, `[num_small_records]`.

        A group is small if it has at most `FEW_RECORDS` records; these groups come first.

        The weight is the clipping factor of the group, divided by the number of records in the group. The length of a
        group's gradient is computed from inner products of features and of residuals. If the gradients of the records
        nearly cancel, rounding errors would dominate this length. So the length counts as at least an eighth of the sum
        of the records' lengths.

        Args:
            residuals: labels - probabilities of each record, `[n, L]`.
            clip: the largest l2 length of a group's gradient.
        """
        weights = [np.empty(0)]
        for size in range(1, FEW_RECORDS + 1):
            first, end = np.searchsorted(self.sizes, [size, size + 1]).tolist()
            for group in range(first, end, ROWS_AT_ONCE):
                num_groups = min(ROWS_AT_ONCE, end - group)
                first_row = int(self._starts[group])
                rows = slice(first_row, first_row + num_groups * size)
                x = self.features[rows].reshape(num_groups, size, -1)
                r = residuals[rows].reshape(num_groups, size, -1)
                # |sum_i x_i r_i^T|^2 = sum_ij (x_i . x_j) (r_i . r_j)
                inner_products = (x @ x.transpose(0, 2, 1)) * (r @ r.transpose(0, 2, 1))
                uncanceled = np.sqrt(np.diagonal(inner_products, axis1=1, axis2=2)).sum(axis=1)
                lengths = np.sqrt(np.maximum(inner_products.sum(axis=(1, 2)), 0))
                lengths = np.maximum(lengths, uncanceled / MAX_CANCELLATION) / size
                weights.append(np.repeat(clip / np.maximum(lengths, clip) / size, size))
        return np.concatenate(weights)

    def _blocks(self, first_group: int, max_records: int) -> list[tuple[int, int]]:
        """Returns consecutive blocks of groups up to the last group, as pairs of indices (first group, last group + 1).

        Args:
            first_group: the index of the first group of the first block.
            max_records: the largest number of records in a block; a single larger group is a block too.
        """
        blocks = []
        num_records = 0
        for index, size in enumerate(self.sizes[first_group:].tolist(), start=first_group):
            if num_records and num_records + size > max_records:
                blocks.append((first_group, index))
                first_group = index
                num_records = 0
            num_records += size
        if num_records:
            blocks.append((first_group, len(self.sizes)))
        return blocks
