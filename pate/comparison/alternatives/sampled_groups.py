"""Poisson samples of groups of records."""

import numpy as np
from numpy.typing import NDArray

from pate.comparison.alternatives.group_gradients import Array


class Groups:
    """Records by group: one record per group is picked at random each time that the group takes part."""

    def __init__(
        self, inputs: Array, labels: NDArray[np.bool_], group_ids: NDArray[np.int64]
    ) -> None:
        order = np.argsort(group_ids, kind="stable")  # records of a group beside each other
        _, self.starts, self.sizes = np.unique(
            group_ids[order], return_index=True, return_counts=True
        )
        self.inputs = inputs[order]
        self.labels = labels[order].astype(np.float64)

    def draw(self, sampling_prob: float, rng: np.random.Generator) -> NDArray[np.int64]:
        """A Poisson sample of the groups, and of each a record: rows `[m]`.

        Every group draws both of its numbers whether it takes part or not: what one group is moves no other's draws.
        """
        taken, picked = rng.random((2, len(self.starts)))
        rows = self.starts + np.minimum((picked * self.sizes).astype(np.int64), self.sizes - 1)
        return np.asarray(rows[taken < sampling_prob])
