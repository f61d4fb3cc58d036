"""Public samples that teachers vote on, as they are read from a file."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import Float32Array
from pate.data import Dataset, Preprocessing, TableSchema
from pate.data.pictures import require_image_levels
from pate.data.table.table_file import TableFile
from pate.files.arrays import ArrayForm, read_arrays
from pate.validation import InvalidValue, require, require_moderate

# The remedy for a file that has other arrays.
_REMEDY = "save it with numpy.savez(FILE, inputs=…, ids=…, label_names=…)"
# Larger arrays in a file are refused, as some files would unpack without end.
_MAX_UNPACKED_BYTES = 2**38
# The arrays that a file may have beside `inputs`. The labels and groups of a public split are not used.
_OTHER_ARRAYS = {
    "ids": ArrayForm(dtype_kinds="iuU", shape=(None,)),
    "label_names": ArrayForm(dtype_kinds="U", shape=(None,)),
    "labels": ArrayForm(dtype_kinds="biu", shape=(None, None)),
    "groups": ArrayForm(dtype_kinds="iu", shape=(None,)),
}
# The remedy for a table that is not read as it was written: no setting of queries states its encoding.
_SAME_FILE = "all places have the same file, in UTF-8 and with numbers as the schema's file says"


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Queries:
    """Public samples in a fixed order. Teachers vote on samples from the beginning; the student may learn from all.

    Attributes:
        inputs: the samples as models read them, float32 `[num_samples, ...]`.
        record_ids: the public names of the samples, `[num_samples]`.
        label_names: the names of the labels; empty if the file has none.
        preprocessing: the steps from a table to the inputs; None if the file has inputs.
    """

    inputs: Float32Array
    record_ids: NDArray[Any]
    label_names: tuple[str, ...] = ()
    preprocessing: Preprocessing | None = None

    @classmethod
    def of(cls, dataset: Dataset) -> Self:
        """Returns the public samples of a data set."""
        return cls(
            inputs=np.asarray(dataset.public.inputs, dtype=np.float32),
            record_ids=dataset.published_ids,
            label_names=dataset.label_names,
            preprocessing=dataset.preprocessing,
        )

    @classmethod
    def read(cls, queries_file: Path, *, schema: Path | str | None = None) -> Self:
        """Reads public samples from an .npz file of arrays, or from a table.

        An .npz file has the array `inputs`: numbers `[num_samples, num_features]`, or images `[num_samples, channels,
        height, width]` as bytes or numbers in [0, 1]. It may have the arrays `ids` and `label_names`.

        Args:
            queries_file: the file.
            schema: the file that `pate-schema` wrote, which states how columns of a table become inputs; None for an
                .npz file.

        Raises:
            InvalidValue: the file does not exist or is damaged, or the file is a table and there is no schema.
        """
        if queries_file.suffix == ".npz":
            return cls._from_arrays(queries_file)
        if schema is None:
            rule = "the file of pate-schema beside a table: data.schema=FILE for pate-vote, else table_schema=FILE"
            raise InvalidValue("queries", queries_file, rule=rule)
        return cls._from_table(queries_file, schema=TableSchema.load(schema))

    @classmethod
    def _from_table(cls, queries_file: Path, schema: TableSchema) -> Self:
        try:
            table = TableFile(queries_file, setting="queries").read(list(schema.names))
            inputs = schema.inputs(table, name="queries")
        except InvalidValue as error:
            if error.hint:
                error.hint = _SAME_FILE
            raise
        return cls(
            inputs=inputs,
            record_ids=np.arange(len(inputs), dtype=np.int64),
            preprocessing=schema,
        )

    @classmethod
    def _from_arrays(cls, queries_file: Path) -> Self:
        array_by_name = read_arrays(
            queries_file,
            forms={"inputs": ArrayForm(dtype_kinds="biuf")},
            optional_forms=_OTHER_ARRAYS,
            remedy=_REMEDY,
            max_unpacked_bytes=_MAX_UNPACKED_BYTES,
        )
        inputs = array_by_name["inputs"]
        if inputs.ndim not in (2, 4) or len(inputs) == 0:
            rule = "[num_samples, num_features], or images [num_samples, channels, height, width]"
            raise InvalidValue("queries.inputs", inputs.shape, rule=rule)
        if inputs.ndim == 4:
            require_image_levels("queries.inputs", inputs)
        input_numbers = inputs.astype(np.float32)
        if inputs.dtype == np.uint8 and inputs.ndim == 4:
            input_numbers /= np.float32(255)
        require_moderate("queries.inputs", input_numbers)
        sample_ids = array_by_name.get("ids", np.arange(len(inputs), dtype=np.int64))
        if len(sample_ids) != len(inputs):
            rule = f"{len(inputs)}, one for each sample"
            raise InvalidValue("len(queries.ids)", len(sample_ids), rule=rule)
        if len(np.unique(sample_ids)) < len(sample_ids):
            raise InvalidValue("queries.ids", "one twice", rule="another id for each sample")
        label_names = array_by_name.get("label_names", np.zeros(0, np.str_))
        return cls(
            inputs=input_numbers, record_ids=sample_ids, label_names=tuple(label_names.tolist())
        )


def queries_digest(inputs: Float32Array, record_ids: NDArray[Any]) -> str:
    """Returns the SHA-256 digest of public samples in hexadecimal.

    Args:
        inputs: the inputs of the samples, one entry for each sample.
        record_ids: the names of the samples, `[num_queries]`.
    """
    queries_hasher = hashlib.sha256(
        repr(("queries", inputs.shape, [str(name) for name in record_ids.tolist()])).encode()
    )
    queries_hasher.update(np.ascontiguousarray(inputs, dtype="<f4").data)
    return queries_hasher.hexdigest()


def require_queries(queries: Queries, *, num_queries: int, expected_digest: str, rule: str) -> None:
    """Raises `InvalidValue` if there are too few samples, or if teachers voted on other samples.

    Args:
        queries: the samples.
        num_queries: the number of samples that teachers voted on.
        expected_digest: the digest of the samples that teachers voted on, by `queries_digest`; an empty text if it is
            not known, and then the samples are not compared.
        rule: the text of the error for too few samples: how many there must be.
    """
    pool_size = len(queries.inputs)
    require(pool_size >= num_queries, "queries", pool_size, rule)
    digest_of_first = queries_digest(
        queries.inputs[:num_queries], record_ids=queries.record_ids[:num_queries]
    )
    if expected_digest not in ("", digest_of_first):
        raise InvalidValue(
            "queries",
            "others",
            rule=f"those that the teachers answered: the same {num_queries} samples first, in the same order, by the "
            "same ids",
        )
