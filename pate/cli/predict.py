"""pate-predict: applies a published model to new records, and writes each label as 0 or 1 and as a probability."""

from pate.array_types import Float32Array
from pate.extras import require_extra

require_extra("pate-predict", "predict")


import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig

from pate.bundle import Bundle
from pate.cli.app import command_of
from pate.cli.named import require_named
from pate.data import ImageForm, TableSchema
from pate.data.arrays_file import read_npy
from pate.data.table.cells import as_texts
from pate.data.table.column_names import require_column, require_columns
from pate.data.table.table_file import TableFile
from pate.features.extracted_form import ExtractedForm
from pate.files.arrays import read_arrays
from pate.files.atomic import atomic_write
from pate.files.paths import files_named
from pate.files.spreadsheet import row_writer
from pate.report.console import print_lines
from pate.validation import InvalidValue

# The settings that the command needs, with a rule for each.
_RULE_OF_REQUIRED_SETTING = {
    "release": "the folder release/ of a finished run",
    "data": "the file or files of the records, or the folder of the pictures",
    "output": "the file to write, such as predictions.csv",
}
_PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
# The number of pictures that are decoded at once.
_BLOCK_PICTURES = 256
# Larger arrays in an .npz file are refused, as some files would unpack without end.
_MAX_UNPACKED_BYTES = 2**36


class PredictedBlock(NamedTuple):
    """Some records that are predicted at once.

    Attributes:
        record_names: the name of each record.
        inputs: the inputs of the model, `[num_records, ...]`.
    """

    record_names: list[str]
    inputs: Float32Array


def predict(config: DictConfig) -> None:
    """Reads a bundle and records, block by block, and writes a row of predictions for each record.

    Raises:
        InvalidValue: a setting, the bundle or a record is invalid. No output file is written then, and an earlier one
            stays.
    """
    require_named(config, rules=_RULE_OF_REQUIRED_SETTING)
    model_bundle = Bundle.load(str(config.release))
    output_file = Path(str(config.output))
    _require_output(
        output_file, data_path=Path(str(config.data)), release_folder=Path(str(config.release))
    )
    table_file = TableFile(
        path=Path(str(config.data)),
        setting="data",
        encoding=config.encoding,
        decimal=config.decimal,
        thousands=config.get("thousands"),
        missing=tuple(config.get("missing") or ()),
        date_order=config.get("date_order"),
        first_year=config.get("first_year"),
    )
    is_picture = table_file.path.is_dir() or table_file.path.suffix.lower() in _PICTURE_ENDINGS
    are_pictures = is_picture and not isinstance(model_bundle.form.preprocessing, TableSchema)
    name_column = config.id or ("file" if are_pictures else "row")
    label_columns: list[str] = []
    for label_name in model_bundle.labels:
        label_columns += [label_name, f"{label_name}_probability"]
    num_records = 0
    with atomic_write(output_file) as file:
        text_file = io.TextIOWrapper(file, encoding="utf-8", newline="")
        write_row = row_writer(text_file)
        write_row([name_column, *label_columns])
        for record_block in record_blocks(model_bundle, table_file=table_file, id_column=config.id):
            probabilities = model_bundle.probabilities(record_block.inputs)
            predicted_labels = model_bundle.decide(probabilities)
            for name, record_labels, record_probabilities in zip(
                record_block.record_names,
                predicted_labels.tolist(),
                probabilities.tolist(),
                strict=True,
            ):
                row_cells = [name]
                for label, probability in zip(record_labels, record_probabilities, strict=True):
                    row_cells += [str(int(label)), f"{probability:.6g}"]
                write_row(row_cells)
            num_records += len(record_block.record_names)
        text_file.flush()
        text_file.detach()
    print_lines(
        f"{output_file}: {num_records} records, {len(model_bundle.labels)} labels, each as 0 or 1 and as a probability",
        stderr=True,
    )


def _require_output(output_file: Path, *, data_path: Path, release_folder: Path) -> None:
    """Raises `InvalidValue` if the output is no CSV file, overwrites the records, or would be published.

    The folder of the output must exist.

    Args:
        output_file: the file to write.
        data_path: the path of the records, see `files_named`.
        release_folder: the folder of the bundle, which may be published.
    """
    if output_file.suffix != ".csv":
        raise InvalidValue("output", output_file, rule="a file that ends in .csv")
    if not output_file.parent.is_dir():
        raise InvalidValue("output", output_file, rule="a file in a folder that is there")
    record_files = [file for file in files_named(data_path) if file.exists()]
    if output_file.exists() and any(map(output_file.samefile, record_files)):
        rule = "another file than data=, which would be overwritten"
        raise InvalidValue("output", output_file, rule=rule)
    if output_file.resolve().is_relative_to(release_folder.resolve()):
        rule = "a file outside the folder of the model, which is published"
        raise InvalidValue("output", output_file, rule=rule)


def record_blocks(
    bundle: Bundle, *, table_file: TableFile, id_column: str | None
) -> Iterator[PredictedBlock]:
    """Yields records, some at a time, in the form that the bundle's model accepts.

    A row of a table is named by its cell in the column `id_column`, and without such a column by its number from 1. A
    row of an array is named by its number from 1, and a picture by its file.

    Args:
        bundle: the bundle with the model.
        table_file: the file or folder of the records.
        id_column: the column that names records; None if there is none.

    Raises:
        InvalidValue: the model does not accept records of this kind, or arrays or pictures have an `id_column`.
    """
    input_form = bundle.form.preprocessing
    data_path = table_file.path
    is_array = data_path.suffix in (".npy", ".npz")
    is_picture_model = isinstance(input_form, ImageForm) or (
        isinstance(input_form, ExtractedForm) and input_form.image_form is not None
    )
    if id_column is not None and (is_array or is_picture_model):
        rule = "none for arrays and pictures, which have no columns: rows are numbered, pictures named by file"
        raise InvalidValue("id", id_column, rule=rule)
    if is_array:
        array_inputs = bundle.inputs(_read_array(data_path))
        row_numbers = [str(number) for number in range(1, len(array_inputs) + 1)]
        yield PredictedBlock(record_names=row_numbers, inputs=array_inputs)
    elif isinstance(input_form, ImageForm):
        yield from _picture_blocks(input_form, data_path=data_path)
    elif isinstance(input_form, ExtractedForm) and input_form.image_form is not None:
        for picture_block in _picture_blocks(input_form.image_form, data_path=data_path):
            yield PredictedBlock(
                record_names=picture_block.record_names,
                inputs=input_form.inputs(picture_block.inputs),
            )
    elif isinstance(input_form, TableSchema):
        yield from _table_blocks(schema=input_form, table_file=table_file, id_column=id_column)
    else:
        input_shape = bundle.form.input_shape
        if isinstance(input_form, ExtractedForm):
            input_shape = input_form.extractor.picture_shape
        rule = f"an array of shape [n, {', '.join(map(str, input_shape))}] in an .npy file; this model knows no columns"
        raise InvalidValue("data", data_path, rule=rule)


def _table_blocks(
    schema: TableSchema, *, table_file: TableFile, id_column: str | None
) -> Iterator[PredictedBlock]:
    """Yields the rows of a table in blocks; warns at the end about cells that do not occur in the public file.

    Args:
        schema: the columns of the model's public file, which the table must have.
        table_file: the file of the table.
        id_column: the column that names rows; None names rows by their numbers from 1.
    """
    if id_column is not None:
        require_column(
            "id",
            column_name=id_column,
            column_names=table_file.names,
            table_description=f"data={table_file.path}",
        )
    require_columns("data", column_names=table_file.names, required=schema.names)
    schema = replace(schema, spelling=table_file.spelling(schema.spelling))
    column_names = [name for name in table_file.names if name in schema.names or name == id_column]
    num_unknown_and_missing = np.zeros((len(schema.columns), 2), np.int64)
    num_rows = 0
    for row_numbers, arrow_batch in table_file.rows(column_names):
        encoded_rows = schema.read_table(arrow_table=arrow_batch, first_row=int(row_numbers[0]))
        num_unknown_and_missing += encoded_rows.num_unknown_and_missing
        num_rows += len(row_numbers)
        if id_column is None:
            record_names = [str(number + 1) for number in row_numbers]
        else:
            id_texts = as_texts(arrow_batch.column(id_column)).to_pylist()
            record_names = ["" if id_text is None else id_text for id_text in id_texts]
        yield PredictedBlock(record_names=record_names, inputs=encoded_rows.features)
    for line in schema.unknown_cell_remarks(
        name="data", num_unknown_and_missing=num_unknown_and_missing, num_records=num_rows
    ):
        print_lines(f"warning: {line}", stderr=True)


def _picture_blocks(image_form: ImageForm, *, data_path: Path) -> Iterator[PredictedBlock]:
    """Yields the pictures to predict in blocks, with values in [0, 1]: those of a folder and its subfolders, or one.

    Args:
        image_form: the form to which pictures are brought, such as their size.
        data_path: the folder, or the file of the picture.
    """
    rule = f"a folder with pictures ({', '.join(_PICTURE_ENDINGS)}), or one picture"
    if not data_path.exists():
        raise InvalidValue("data", data_path, rule=f"{rule}; this is not there")
    files = sorted(data_path.rglob("*")) if data_path.is_dir() else [data_path]
    picture_files = [file for file in files if file.suffix.lower() in _PICTURE_ENDINGS]
    if not picture_files:
        raise InvalidValue("data", data_path, rule=f"{rule}: this model knows pictures, no table")
    for first in range(0, len(picture_files), _BLOCK_PICTURES):
        block_files = picture_files[first : first + _BLOCK_PICTURES]
        pixel_levels = np.stack(
            [image_form.levels(file, name=f"data={file}") for file in block_files]
        )
        record_names = [
            file.name if file == data_path else file.relative_to(data_path).as_posix()
            for file in block_files
        ]
        yield PredictedBlock(
            record_names=record_names, inputs=pixel_levels.astype(np.float32) / np.float32(255)
        )


def _read_array(array_path: Path) -> NDArray[Any]:
    """Returns the array in an .npy file; from an .npz file, the only array, or of several the one named `inputs`."""
    if array_path.suffix == ".npy":
        return read_npy(array_path)
    remedy = "save it with numpy.savez(FILE, inputs=…)"
    arrays = read_arrays(array_path, remedy=remedy, max_unpacked_bytes=_MAX_UNPACKED_BYTES)
    array_name = "inputs" if len(arrays) > 1 else next(iter(arrays), "inputs")
    if array_name not in arrays:
        raise InvalidValue("data", array_path, rule="an array `inputs`")
    return arrays[array_name]


main = command_of(predict, command="predict")


if __name__ == "__main__":
    main()
