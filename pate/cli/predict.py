"""pate-predict: what a published model says of new records, by the names of its labels."""

from pate.extras import require_extra

require_extra("pate-predict", "predict")


import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig

from pate.bundle import Bundle
from pate.cli.app import command_of
from pate.cli.run import require_named
from pate.data import ImageForm, TableSchema
from pate.data.arrays_file import read_npy
from pate.data.table.cells import as_texts
from pate.data.table.column_names import require_column, require_columns
from pate.data.table.table_file import TableFile
from pate.features.extracted_form import ExtractedForm
from pate.files.arrays import read_arrays
from pate.files.disk import replacing
from pate.files.spreadsheet import row_writer
from pate.report.console import print_lines
from pate.validation import InvalidValue, require

_RULES = {
    "release": "the folder release/ of a finished run",
    "data": "the file of the records, or the folder of the pictures",
    "output": "the file to write, such as predictions.csv",
}
_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
_AT_ONCE = 256

# the names of some records, and the inputs of a model for them
Block = tuple[list[str], NDArray[np.float32]]


def predict(config: DictConfig) -> None:
    """Reads the bundle and the records, a block at a time, and writes a row for each record."""
    require_named(config, _RULES)
    bundle = Bundle.load(str(config.release))
    output = Path(str(config.output))
    require(output.suffix == ".csv", "output", output, "a file that ends in .csv")
    require(output.parent.is_dir(), "output", output, "a file in a folder that is there")
    same = output.exists() and Path(str(config.data)).exists() and output.samefile(str(config.data))
    require(not same, "output", output, "another file than data=, which would be overwritten")
    inside = output.resolve().is_relative_to(Path(str(config.release)).resolve())
    require(
        not inside, "output", output, "a file outside the folder of the model, which is published"
    )
    table = TableFile(
        path=Path(str(config.data)),
        name="data",
        encoding=config.encoding,
        decimal=config.decimal,
        thousands=config.get("thousands"),
        missing=tuple(config.get("missing") or ()),
        date_order=config.get("date_order"),
        first_year=config.get("first_year"),
    )
    count = 0
    with replacing(output) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        write = row_writer(text)
        pictures = table.path.is_dir() or table.path.suffix.lower() in _PICTURES
        first = config.id or ("file" if pictures else "row")
        write(
            [first, *(name for label in bundle.labels for name in (label, f"{label}_probability"))]
        )
        for names, inputs in blocks(bundle, table, config.id):
            probabilities = bundle.model.predict_proba(inputs)
            held = bundle.decide(probabilities).tolist()
            for name, cells in zip(names, map(zip, held, probabilities.tolist()), strict=True):
                write(
                    [
                        name,
                        *(
                            cell
                            for label, chance in cells
                            for cell in (int(label), f"{chance:.6g}")
                        ),
                    ]
                )
            count += len(names)
        text.flush()
        text.detach()
    told = f"{output}: {count} records, {len(bundle.labels)} labels, each as 0 or 1 and as a probability"
    print_lines(told, stderr=True)


def blocks(bundle: Bundle, file: TableFile, identity: str | None) -> Iterator[Block]:
    """Records as the model takes them, with a name each: a row's number from 1, a cell, or a file's name."""
    form = bundle.form.preprocessing
    path = file.path
    extracted = form if isinstance(form, ExtractedForm) else None
    pictures = form if isinstance(form, ImageForm) else None
    if extracted is not None:
        pictures = extracted.pictures
    if path.suffix in (".npy", ".npz"):
        inputs = bundle.inputs(_array(path))
        yield list(map(str, range(1, len(inputs) + 1))), inputs
    elif pictures is not None:
        for names, images in _pictures(pictures, path):
            yield names, images if extracted is None else extracted.inputs(images)
    elif isinstance(form, TableSchema):
        yield from _table(form, file, identity)
    else:
        shape = bundle.form.input_shape if extracted is None else extracted.extractor.picture_shape
        rule = f"an array of shape [n, {', '.join(map(str, shape))}] in an .npy file; this model knows no columns"
        raise InvalidValue("data", path, rule=rule)


def _table(schema: TableSchema, file: TableFile, identity: str | None) -> Iterator[Block]:
    if identity is not None:
        require_column("id", identity, file.names, f"data={file.path}")
    require_columns("data", file.names, schema.names)
    schema = replace(schema, spelling=file.spelling(schema.spelling))
    last = 0
    counts = np.zeros((len(schema.columns), 2), np.int64)
    wanted = {*schema.names, identity}
    for numbers, batch in file.rows([name for name in file.names if name in wanted]):
        inputs, _, strange = schema.read_table(batch, first_row=int(numbers[0]))
        counts = counts + strange
        last = int(numbers[-1]) + 1
        cells = (
            [number + 1 for number in numbers]
            if identity is None
            else as_texts(batch.column(identity)).to_pylist()
        )
        yield ["" if cell is None else str(cell) for cell in cells], inputs
    for line in schema.strange_lines("data", counts, last):
        print_lines(f"warning: {line}", stderr=True)


def _pictures(form: ImageForm, path: Path) -> Iterator[Block]:
    rule = f"a folder with pictures ({', '.join(_PICTURES)}), or one picture"
    require(path.exists(), "data", path, f"{rule}; this is not there")
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    files = [each for each in files if each.suffix.lower() in _PICTURES]
    require(len(files) > 0, "data", path, f"{rule}: this model knows pictures, no table")
    for first in range(0, len(files), _AT_ONCE):
        some = files[first : first + _AT_ONCE]
        levels = np.stack([form.levels(file, f"data={file}") for file in some])
        names = [file.name if file == path else file.relative_to(path).as_posix() for file in some]
        yield names, levels.astype(np.float32) / np.float32(255)


def _array(path: Path) -> NDArray[Any]:
    """The array of an .npy file, or the only one, or `inputs`, of an .npz file."""
    if path.suffix == ".npy":
        return read_npy(path)
    arrays = read_arrays(path, remedy="save it with numpy.savez(FILE, inputs=…)", most=2**36)
    name = "inputs" if len(arrays) > 1 else next(iter(arrays), "inputs")
    require(name in arrays, "data", path, "an array `inputs`")
    return arrays[name]


main = command_of(predict, "predict", __name__)
