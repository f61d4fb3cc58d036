"""Poisson samples of groups of records: each sampled group takes part by one of its records, drawn at random."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from pate.array_types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class SampledGroups:
    """Private records in N groups, from which each step of DP-SGD draws a sample of groups and one record per group.

    Attributes:
        inputs: the inputs of the n records, sorted by group, `[n, …]`.
        labels: the labels of the records, 0 or 1, and NaN where a label is unknown, `[n, L]`.
        first_rows: the row of the first record of each group, `[N]`.
        group_sizes: the number of records in each group, `[N]`.
    """

    inputs: FloatArray
    labels: FloatArray
    first_rows: IntArray
    group_sizes: IntArray

    @classmethod
    def from_records(
        cls,
        inputs: FloatArray,
        labels: BoolArray,
        group_ids: IntArray,
        known: BoolArray | None = None,
    ) -> Self:
        """Returns records sorted by their groups.

        Args:
            inputs: the inputs of the records, `[n, …]`.
            labels: the labels of the records, `[n, L]`.
            group_ids: the group of each record, `[n]`.
            known: which labels are known, `[n, L]`; None if all are.
        """
        rows_by_group = np.argsort(group_ids, kind="stable")
        _, first_rows, group_sizes = np.unique(
            group_ids[rows_by_group], return_index=True, return_counts=True
        )
        sorted_labels = labels[rows_by_group].astype(np.float64)
        if known is not None:
            sorted_labels[~known[rows_by_group]] = np.nan
        return cls(
            inputs=inputs[rows_by_group],
            labels=sorted_labels,
            first_rows=first_rows,
            group_sizes=group_sizes,
        )

    def draw(self, sampling_prob: float, rng: np.random.Generator) -> IntArray:
        """Draws a Poisson sample of the groups and one random record of each; returns the rows of these records, `[m]`.

        Two random numbers are drawn for every group, sampled or not, so that no group affects the draws of others.

        Args:
            sampling_prob: the probability that a group is in the sample.
            rng: draws the groups and the records.
        """
        # One uniform number decides whether a group is sampled. The other one, times the size of the group, picks its
        # record, and rounding may not lift it to the size.
        coin_of_groups, record_positions = rng.random((2, len(self.group_sizes)))
        indices_in_group = np.minimum(
            (record_positions * self.group_sizes).astype(np.int64), self.group_sizes - 1
        )
        return np.asarray((self.first_rows + indices_in_group)[coin_of_groups < sampling_prob])
