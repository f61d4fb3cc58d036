"""The private records of one holder, without the public pool and the test set of a whole data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import Dataset, Kind, Split
from pate.data.preprocessing import Preprocessing
from pate.validation import require


@dataclass(frozen=True, eq=False)
class PrivateRecords:
    """What a holder teaches with.

    Attributes:
        name: public name of the data set, the same at every holder.
        label_names: L.
        records: private.
        preprocessing: how inputs were made; None where they are given.
        private_cells: see `Dataset`.
        real: False for synthetic records.
        notes: see `Dataset`.
    """

    name: str
    label_names: tuple[str, ...]
    records: Split
    preprocessing: Preprocessing | None = None
    private_cells: str | None = None
    real: bool = True
    notes: tuple[str, ...] = ()

    def asked(self, inputs: NDArray[np.float32], record_ids: NDArray[Any]) -> Dataset:
        """A data set of these records and the public samples `[P, …]` that they are asked about.

        Nothing is tested at a holder: the test split is one empty record.
        """
        shape, found = self.records.inputs.shape[1:], inputs.shape[1:]
        require(found == shape, "queries.inputs.shape[1:]", found, f"{shape} as in data.private")
        free = 1 + max(int(self.records.record_ids.max()), int(self.records.group_ids.max()))
        kind: Kind = "images" if inputs.ndim == 4 else "features"
        return Dataset(
            name=self.name,
            real=self.real,
            kind=kind,
            label_names=self.label_names,
            private=self.records,
            public=_unlabeled(inputs, len(self.label_names), free + 1),
            test=_unlabeled(np.zeros_like(inputs[:1]), len(self.label_names), free),
            preprocessing=self.preprocessing,
            public_ids=record_ids,
            private_cells=self.private_cells,
            public_labeled=False,
            notes=self.notes,
        )


@runtime_checkable
class ReadsPrivateRecords(Protocol):
    """A reader that can do without public and test files."""

    def private_records(self) -> PrivateRecords:
        """The private records alone."""


def _unlabeled(inputs: NDArray[np.float32], num_labels: int, first: int) -> Split:
    rows = first + np.arange(len(inputs), dtype=np.int64)
    return Split(inputs, np.zeros((len(inputs), num_labels), dtype=np.bool_), rows, rows)
