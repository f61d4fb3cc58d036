"""The public samples that every holder answers, from a file, in place of those that a data set brings."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.data import Dataset, Preprocessing, TableSchema
from pate.data.dataset import PrivateRecords, read
from pate.data.table.files import TableFile
from pate.files.arrays import ArrayForm, read_arrays
from pate.validation import InvalidValue, require, require_moderate

_REMEDY = "save it with numpy.savez(FILE, inputs=…, ids=…, label_names=…)"
_MOST_BYTES = 2**38
_FORMS = {"inputs": ArrayForm("biuf")}
_BESIDE = {
    "ids": ArrayForm("iuU", (None,)),
    "label_names": ArrayForm("U", (None,)),
    "labels": ArrayForm("biu", (None, None)),  # of a public split; not read
    "groups": ArrayForm("iu", (None,)),
}
_RANKS = {2: "features", 4: "images"}
_LEVELS = np.float32(255)
_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Queries:
    """Public samples in a fixed order: the first are asked about, and the student may learn from the others."""

    inputs: NDArray[np.float32]  # float32 `[P, …]`, as models take them
    record_ids: NDArray[Any]  # `[P]`, what they are called where they are published
    label_names: tuple[str, ...] = ()  # what is asked about, where the file says so; else none
    preprocessing: Preprocessing | None = None  # what made the inputs; None where they are given

    @classmethod
    def of(cls, dataset: Dataset) -> Self:
        """The public pool of a data set."""
        inputs = np.asarray(dataset.public.inputs, dtype=np.float32)
        return cls(inputs, dataset.published_ids, dataset.label_names, dataset.preprocessing)

    @classmethod
    def read(cls, path: Path, *, schema: Path | str | None = None) -> Self:
        """From a table, whose columns the schema that `pate-schema` wrote makes into inputs, or an .npz file of arrays.

        That has `inputs` (numbers `[P, d]`, or images `[P, channels, height, width]` as bytes or in [0, 1]), and where
        there are any `ids` and `label_names`. Raises for no such file, a damaged one, a table without a schema.
        """
        if path.suffix != ".npz":
            if schema is None:
                rule = "the file of pate-schema beside a table: data.schema=FILE for pate-vote, else table_schema=FILE"
                raise InvalidValue(f"queries={path}: expected {rule}")
            form = TableSchema.load(schema)
            try:
                inputs = form.inputs(TableFile(path, "queries").read(list(form.names)))
            except InvalidValue as error:
                raise InvalidValue(_own_words(str(error))) from error
            return cls(inputs, np.arange(len(inputs), dtype=np.int64), (), form)
        arrays = read_arrays(path, _FORMS, beside=_BESIDE, remedy=_REMEDY, most=_MOST_BYTES)
        inputs = arrays["inputs"]
        rule = "[P, d], or images [P, channels, height, width]"
        require(inputs.ndim in _RANKS and len(inputs) > 0, "queries.inputs", inputs.shape, rule)
        given = inputs.astype(np.float32)
        if inputs.dtype == np.uint8 and inputs.ndim == 4:
            given /= _LEVELS
        require_moderate("queries.inputs", given)
        ids = arrays.get("ids", np.arange(len(inputs), dtype=np.int64))
        require(len(ids) == len(inputs), "len(queries.ids)", len(ids), f"{len(inputs)}, one for each sample")
        require(len(np.unique(ids)) == len(ids), "queries.ids", "one twice", "another id for each sample")
        return cls(given, ids, tuple(arrays.get("label_names", np.zeros(0, np.str_)).tolist()))

    @property
    def kind(self) -> str:
        """Whether inputs are features or images."""
        return _RANKS[self.inputs.ndim]

    def __len__(self) -> int:
        return len(self.inputs)


def _own_words(message: str) -> str:
    """A message of a table about the queries, for which no setting names an encoding or a decimal mark."""
    rule = "; all places have the same file, in UTF-8 and with numbers as the schema's file says"
    hints = r"; (?:name its encoding: encoding=|other numbers need ).*"
    return re.sub(hints, rule, re.sub(r"^data\b", "queries", message))


@dataclass(frozen=True)
class AskedData:
    """A reader of a holder's records whose public records are the queries of a file."""

    data: Any  # the reader of the records; of one that can, only the private ones are read
    path: Path  # of the queries; in a table they are read by the data's own schema

    def load(self) -> Dataset:
        """The data set, asked about other public samples; their true labels are not known."""
        schema = getattr(self.data, "schema", None)
        queries = Queries.read(self.path, schema=Path(schema) if isinstance(schema, str) else None)
        if hasattr(self.data, "private_records"):
            records: PrivateRecords = self.data.private_records()
        else:
            whole = read(self.data)
            cells, form = whole.private_digest(), whole.preprocessing
            records = PrivateRecords(whole.name, whole.label_names, whole.private, form, cells, whole.real, whole.notes)
        if queries.label_names:
            shown = ", ".join(records.label_names[:_SHOWN])
            rule = f"the labels of data, in their order: {shown}{', …' if len(records.label_names) > _SHOWN else ''}"
            require(queries.label_names == records.label_names, "queries.label_names", "others", rule)
        return records.asked(queries.inputs, queries.record_ids)
