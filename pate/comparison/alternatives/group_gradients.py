"""The sum of the gradients of groups of records, after each group's gradient is clipped to a largest length."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import scipy

from pate.array_types import BoolArray, FloatArray, IntArray

# The most entries of products of features and residuals that are in memory at once, unless one group has more.
_BLOCK_ENTRIES = 2**22
# The largest size of a small group. The length of the gradient of a small group is computed from inner products of its
# records, without the gradient itself.
FEW_RECORDS = 8
# The gradient of a small group counts as at least as long as the sum of its records' lengths divided by this number.
MAX_CANCELLATION = 8.0
# The largest number of records over which one matrix product sums.
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
        group_sizes: the number of records in each group, `[N]`, rising.
        known: which labels are known, `[n, L]`; None for all.
    """

    features: FloatArray
    labels: FloatArray
    group_sizes: IntArray
    known: BoolArray | None = None

    @classmethod
    def from_records(
        cls,
        private_features: FloatArray,
        labels: BoolArray,
        group_ids: IntArray,
        known: BoolArray | None = None,
    ) -> Self:
        """Returns the records in the required order, by the size of their group and by group.

        Args:
            private_features: `[n, k]`, each row of length 1.
            labels: `[n, L]`.
            group_ids: the group of each record, `[n]`.
            known: which labels are known, `[n, L]`; None where all are. A gradient is 0 where a label is unknown.
        """
        _, group_of_records, group_sizes = np.unique(
            group_ids, return_inverse=True, return_counts=True
        )
        rows_by_group = np.lexsort((group_of_records, group_sizes[group_of_records]))
        return cls(
            features=private_features[rows_by_group],
            labels=labels[rows_by_group].astype(np.float64),
            group_sizes=np.sort(group_sizes),
            known=None if known is None else known[rows_by_group],
        )

    def clipped_sum(self, model_weights: FloatArray, bias: FloatArray, clip: float) -> FloatArray:
        """Returns the sum over groups of their clipped gradients, `[k, L]`.

        Args:
            model_weights: the weights of the model, `[k, L]`.
            bias: the bias of the model, `[L]`.
            clip: the largest l2 length of a group's gradient.
        """
        residuals = self.labels - scipy.special.expit(self.features @ model_weights + bias)
        if self.known is not None:
            residuals *= self.known
        num_small_groups = int(np.searchsorted(self.group_sizes, FEW_RECORDS, side="right"))
        num_small_records = int(self.group_sizes[:num_small_groups].sum())
        record_weights = self._weights_in_small_groups(residuals, clip)
        residuals[:num_small_records] *= record_weights[:, None]
        clipped_sum_over_groups = np.zeros((self.features.shape[1], residuals.shape[1]))
        for first_row in range(0, num_small_records, ROWS_AT_ONCE):
            row_slice = slice(first_row, min(first_row + ROWS_AT_ONCE, num_small_records))
            clipped_sum_over_groups += self.features[row_slice].T @ residuals[row_slice]
        max_records = max(1, _BLOCK_ENTRIES // clipped_sum_over_groups.size)
        for first_group_index, end_group_index in self._blocks(
            first_group_index=num_small_groups, max_records=max_records
        ):
            clipped_sum_over_groups += self._clipped_sum_of_block(
                residuals,
                clip=clip,
                first_group_index=first_group_index,
                end_group_index=end_group_index,
            )
        return np.asarray(clipped_sum_over_groups)

    def _clipped_sum_of_block(
        self, residuals: FloatArray, *, clip: float, first_group_index: int, end_group_index: int
    ) -> FloatArray:
        """Returns the sum of the clipped gradients of consecutive groups, `[k, L]`; computes each gradient itself.

        Args:
            residuals: labels - probabilities of each record, `[n, L]`.
            clip: the largest l2 length of a group's gradient.
            first_group_index: the index of the first of the groups.
            end_group_index: the index of the last of the groups + 1.
        """
        row_slice = slice(
            int(self._first_rows[first_group_index]),
            int(self._first_rows[end_group_index - 1] + self.group_sizes[end_group_index - 1]),
        )
        gradient_of_records = np.einsum(
            "ik,il->ikl", self.features[row_slice], residuals[row_slice]
        )
        first_rows_in_block = (
            self._first_rows[first_group_index:end_group_index]
            - self._first_rows[first_group_index]
        )
        gradient_of_groups = (
            np.add.reduceat(gradient_of_records, first_rows_in_block, axis=0)
            / self.group_sizes[first_group_index:end_group_index, None, None]
        )
        gradient_lengths = np.sqrt(np.square(gradient_of_groups).sum(axis=(1, 2)))
        return np.asarray(
            np.einsum("g,gkl->kl", clip / np.maximum(gradient_lengths, clip), gradient_of_groups)
        )

    @cached_property
    def _first_rows(self) -> IntArray:
        """The row of the first record of each group, `[N]`."""
        return np.cumsum(self.group_sizes) - self.group_sizes

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
        weight_blocks = [np.empty(0)]
        for group_size in range(1, FEW_RECORDS + 1):
            first_group_index, end_group_index = np.searchsorted(
                self.group_sizes, [group_size, group_size + 1]
            ).tolist()
            for first_group_of_block in range(first_group_index, end_group_index, ROWS_AT_ONCE):
                num_groups = min(ROWS_AT_ONCE, end_group_index - first_group_of_block)
                first_row_of_block = int(self._first_rows[first_group_of_block])
                row_slice = slice(first_row_of_block, first_row_of_block + num_groups * group_size)
                features_of_groups = self.features[row_slice].reshape(num_groups, group_size, -1)
                residuals_of_groups = residuals[row_slice].reshape(num_groups, group_size, -1)
                # |sum_i x_i r_i^T|^2 = sum_ij (x_i . x_j) (r_i . r_j), for features x_i and residuals r_i of record i
                inner_products_of_groups = (
                    features_of_groups @ features_of_groups.transpose(0, 2, 1)
                ) * (residuals_of_groups @ residuals_of_groups.transpose(0, 2, 1))
                uncanceled_lengths = np.sqrt(
                    np.diagonal(inner_products_of_groups, axis1=1, axis2=2)
                ).sum(axis=1)
                gradient_lengths = np.sqrt(np.maximum(inner_products_of_groups.sum(axis=(1, 2)), 0))
                gradient_lengths = (
                    np.maximum(gradient_lengths, uncanceled_lengths / MAX_CANCELLATION) / group_size
                )
                weight_blocks.append(
                    np.repeat(clip / np.maximum(gradient_lengths, clip) / group_size, group_size)
                )
        return np.concatenate(weight_blocks)

    def _blocks(self, first_group_index: int, max_records: int) -> list[tuple[int, int]]:
        """Returns consecutive blocks of groups up to the last group, as pairs of indices (first group, last group + 1).

        Args:
            first_group_index: the index of the first group of the first block.
            max_records: the largest number of records in a block; a single larger group is a block too.
        """
        group_blocks = []
        num_records = 0
        for group_index, group_size in enumerate(
            self.group_sizes[first_group_index:].tolist(), start=first_group_index
        ):
            if num_records and num_records + group_size > max_records:
                group_blocks.append((first_group_index, group_index))
                first_group_index = group_index
                num_records = 0
            num_records += group_size
        if num_records:
            group_blocks.append((first_group_index, len(self.group_sizes)))
        return group_blocks
