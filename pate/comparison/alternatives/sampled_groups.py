"""Poisson samples of groups of records."""

import numpy as np

from pate.array_types import BoolArray, FloatArray, IntArray


class Groups:
    """Private records in N groups, from which each step of DP-SGD draws a sample of groups and one record per group."""

    def __init__(
        self,
        inputs: FloatArray,
        labels: BoolArray,
        group_ids: IntArray,
        known: BoolArray | None = None,
    ) -> None:
        """Sorts the records by their groups.

        Args:
            inputs: the inputs of the records, `[n, …]`.
            labels: `[n, L]`.
            group_ids: the group of each record, `[n]`.
            known: which labels are known, `[n, L]`; None where all are. The others become NaN.
        """
        order = np.argsort(group_ids, kind="stable")  # records of a group are adjacent
        _, self.starts, self.sizes = np.unique(
            group_ids[order], return_index=True, return_counts=True
        )
        self.inputs = inputs[order]
        self.labels = labels[order].astype(np.float64)
        if known is not None:
            self.labels[~known[order]] = np.nan

    def draw(self, sampling_prob: float, rng: np.random.Generator) -> IntArray:
        """Draws a Poisson sample of the groups and one random record of each; returns the m rows of these records.

        Two random numbers are drawn for every group, sampled or not, so that no group affects the draws of others.

        Args:
            sampling_prob: the probability that a group is in the sample.
            rng: draws the groups and the records.
        """
        coins, picked = rng.random((2, len(self.starts)))
        rows = self.starts + np.minimum((picked * self.sizes).astype(np.int64), self.sizes - 1)
        return np.asarray(rows[coins < sampling_prob])
