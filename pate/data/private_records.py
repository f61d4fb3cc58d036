"""The private records of one holder, who receives the queries from somebody else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import PrivacyUnit
from pate.array_types import Float32Array
from pate.data.dataset import ONE_GROUP, Dataset
from pate.data.preprocessing import Preprocessing
from pate.data.split import Split
from pate.validation import InvalidValue


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class PrivateRecords:
    """The private records on which a holder trains teachers.

    Attributes:
        name: the name of the data set, the same at every holder.
        label_names: one distinct name for each label.
        records: the private split.
        preprocessing: the public preprocessing of the inputs; None where inputs come without one.
        private_cells: a digest of the records before any preprocessing; None for the digest of `records`.
        real: False for synthetic data.
        notes: lines for the owner of the records on how they were read; not published.
        group_unit: what a group of records is, described by columns and never by the records.
    """

    name: str
    label_names: tuple[str, ...]
    records: Split
    preprocessing: Preprocessing | None = None
    private_cells: str | None = None
    real: bool = True
    notes: tuple[str, ...] = ()
    group_unit: PrivacyUnit = ONE_GROUP

    def with_queries(self, inputs: Float32Array, record_ids: NDArray[Any]) -> Dataset:
        """Returns a data set whose private pool is these records and whose public pool is the queries.

        The labels of the queries are unknown. A holder has no test set, so one record of zeros takes its place.

        Args:
            inputs: the inputs of the queries, `[num_public, ...]`.
            record_ids: the names of the queries, numbers or texts, `[num_public]`.

        Raises:
            InvalidValue: the queries have another shape than the private inputs.
        """
        private_shape = self.records.inputs.shape[1:]
        query_shape = inputs.shape[1:]
        if query_shape != private_shape:
            rule = f"{private_shape} as in data.private"
            raise InvalidValue("queries.inputs.shape[1:]", query_shape, rule=rule)
        largest_id = max(int(self.records.record_ids.max()), int(self.records.group_ids.max()))
        private_cell_digest = self.private_cells
        return Dataset(
            name=self.name,
            real=self.real,
            kind="images" if inputs.ndim == 4 else "features",
            label_names=self.label_names,
            private=self.records,
            public=self._unlabeled_split(inputs, first_id=largest_id + 2),
            test=self._unlabeled_split(inputs=np.zeros_like(inputs[:1]), first_id=largest_id + 1),
            preprocessing=self.preprocessing,
            public_ids=record_ids,
            private_cells=private_cell_digest,
            public_labeled=False,
            notes=self.notes,
            group_unit=self.group_unit,
        )

    def _unlabeled_split(self, inputs: Float32Array, first_id: int) -> Split:
        """Returns a split of the given inputs in which no label holds and each record is a group.

        The ids of records, and of groups, are numbered from `first_id`.
        """
        labels = np.zeros((len(inputs), len(self.label_names)), np.bool_)
        ids = first_id + np.arange(len(inputs), dtype=np.int64)
        return Split(inputs=inputs, labels=labels, record_ids=ids, group_ids=ids)
