"""The data set with which a holder answers queries: its own private records, and the queries as public samples.

Several holders may have different labels. `with_labels` makes room in a holder's data set for the labels of the others.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pate.data import Dataset, Split
from pate.data.copies import remarks_on_copies
from pate.data.dataset import load_dataset, require_dataset
from pate.data.private_records import PrivateRecords
from pate.files.paths import file_identity
from pate.run.queries import Queries
from pate.validation import require

# The largest number of missing labels that an error names.
_MAX_SHOWN = 5


@dataclass(frozen=True)
class AskedData:
    """A reader of a data set with a holder's private records, and with the queries of a file as its public records.

    Attributes:
        data_reader: the reader of the holder's records; only the private ones are read, if the reader can do that.
        queries_path: the file of the queries. A table is read with the schema of `data_reader`.
    """

    data_reader: Any
    queries_path: Path

    def load(self) -> Dataset:
        """Returns the data set with the queries as public records, whose true labels are unknown.

        Raises `InvalidValue` if the file of queries is that of the private records, or if the queries lack a label.
        """
        schema_path = getattr(self.data_reader, "schema", None)
        private_path = getattr(self.data_reader, "private", None)
        if isinstance(private_path, str):
            rule = "another file than data.private, whose records are not public"
            is_other_file = file_identity(private_path) != file_identity(self.queries_path)
            require(is_other_file, "queries", self.queries_path, rule)
        queries = Queries.read(
            self.queries_path, schema=Path(schema_path) if isinstance(schema_path, str) else None
        )
        if hasattr(self.data_reader, "private_records"):
            records: PrivateRecords = self.data_reader.private_records()
        else:
            dataset_of_holder = require_dataset(load_dataset(reader=self.data_reader))
            records = PrivateRecords(
                dataset_of_holder.name,
                dataset_of_holder.label_names,
                records=dataset_of_holder.private,
                preprocessing=dataset_of_holder.preprocessing,
                private_cells=dataset_of_holder.private_digest(),
                real=dataset_of_holder.real,
                notes=dataset_of_holder.notes,
                group_unit=dataset_of_holder.privacy_unit,
            )
        if queries.label_names:
            _require_all_labels(queries, label_names=records.label_names)
        dataset = records.with_queries(queries.inputs, queries.record_ids)
        copy_remarks = remarks_on_copies(private_split=dataset.private, public_split=dataset.public)
        return replace(dataset, notes=(*dataset.notes, *copy_remarks))


def _require_all_labels(queries: Queries, label_names: tuple[str, ...]) -> None:
    """Raises `InvalidValue` unless the queries ask about all labels of a holder; they may ask about others too."""
    missing = [name for name in label_names if name not in set(queries.label_names)]
    shown_names = ", ".join(missing[:_MAX_SHOWN])
    more = ", …" if len(missing) > _MAX_SHOWN else ""
    require(
        not missing, "queries.label_names", f"none of {shown_names}{more}", "all labels of data"
    )


def with_labels(dataset: Dataset, label_names: tuple[str, ...]) -> Dataset:
    """Returns a holder's data set with the labels of all holders; labels that the holder lacks are unknown.

    A data set with exactly these labels in this order is returned as it is. In any other, all true labels of public and
    test records are replaced by zeros.

    Args:
        dataset: a holder's data set, with the labels that it has.
        label_names: the names of all labels, in order; those of the data set are among them.
    """
    if dataset.label_names == label_names:
        return dataset
    index_of = {name: index for index, name in enumerate(label_names)}
    own_label_indices = np.array([index_of[name] for name in dataset.label_names])

    def with_all_labels(split: Split) -> Split:
        shape = (len(split), len(label_names))
        labels = np.zeros(shape, dtype=np.bool_)
        labels[:, own_label_indices] = split.labels
        known = np.zeros(shape, dtype=np.bool_)
        known[:, own_label_indices] = True if split.known is None else split.known
        has_gaps = split.known is not None or len(own_label_indices) < len(label_names)
        return replace(split, labels=labels, known=known if has_gaps else None)

    def without_true_labels(split: Split) -> Split:
        return replace(split, labels=np.zeros((len(split), len(label_names)), dtype=np.bool_))

    return replace(
        dataset,
        label_names=label_names,
        private=with_all_labels(dataset.private),
        # The queries, and the record of zeros that takes the place of a test set (`PrivateRecords.with_queries`).
        public=without_true_labels(dataset.public),
        test=without_true_labels(dataset.test),
    )
