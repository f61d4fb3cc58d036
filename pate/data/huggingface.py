"""Data sets of the Hugging Face library `datasets`, from disk or from the hub."""

import io
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import Dataset
from pate.data.image_folder import PictureColumn
from pate.data.image_form import ImageForm
from pate.data.pictures import is_white
from pate.data.split import SPLITS
from pate.data.table.arrow import arrow, is_missing
from pate.data.table.cells import as_numbers
from pate.data.table.column import Column, Encoded
from pate.data.table.column_names import as_column_names, as_name, require_column
from pate.data.table.column_remarks import remarks_on_dates
from pate.data.table.date_column import DateColumn
from pate.data.table.fingerprints import private_digest, row_numbers
from pate.data.table.labels import Labels
from pate.data.table.rows import Roles, Rows
from pate.data.table.schema import TableSchema
from pate.data.table.spelling import USUAL, CellSpelling
from pate.data.table.table_dataset import UNGROUPED, make_dataset
from pate.data.table.table_file import NumberedBatch
from pate.data.table.uncertain import UncertainLabels, as_words
from pate.data.texts.tfidf import TfidfVectors
from pate.data.texts.vectors import TextReader
from pate.extras import require_extra
from pate.files.paths import at_home
from pate.progress import StageOpener, unwatched
from pate.validation import (
    InvalidValue,
    nearest,
    normalize_field,
    require,
    require_choice,
    require_count,
    require_text,
)

_BATCH = 16384  # rows that are read together
_NO_BIT = 127  # stands for an item of a list that is neither 0 nor 1


@dataclass(frozen=True)
class ListColumn(Column):
    """A column whose cells are lists of numbers; each list is an input."""

    length: int

    @property
    def expects(self) -> str:
        """The description of a valid cell, for an error message."""
        return f"lists of {self.length} finite numbers"

    def encode(self, cells: Any, spelling: CellSpelling = USUAL) -> Encoded:
        """Returns lists of numbers as features `[num_cells, length]`.

        A cell is marked as wrong if it is no list of `length` finite numbers.
        """
        rows = np.full((len(cells), self.length), np.nan, np.float32)
        for row, cell in enumerate(cells.to_pylist()):
            with suppress(TypeError, ValueError):  # no list, or numbers that are missing
                if len(cell) == self.length and np.isfinite(cell).all():
                    rows[row] = cell
        is_list = np.isfinite(rows).all(axis=1) & np.array(self.length > 0)
        return Encoded(rows, ~is_list, np.zeros(2, np.int64))


@dataclass(frozen=True)
class HuggingFace(TextReader):
    """A reader of a Hugging Face data set with three splits, from a `save_to_disk` folder or from the hub.

    Inputs are one column of pictures, or one column of lists of numbers (such as embeddings), or any number of columns
    of numbers, dates and words. The last become features as in `Table`, and the public split alone determines how.
    Labels are columns of 0 and 1, or one column of lists. A list holds the classes that apply (`List(ClassLabel)`), or
    a 0 or 1 for each label. A missing cell or a missing item of the second kind of list is an unknown label; a missing
    list means that all labels of its record are unknown.
    """

    path: str | None = None  # folder or name
    config: str | None = None  # of a data set that has several, on the hub
    private: str = "private"  # name of the split of private records
    # name of the split of public records, whose labels serve measurements alone and may be missing
    public: str = "public"
    test: str = "test"  # name of the split of the test set
    inputs: tuple[str, ...] = ()  # columns that become inputs
    text: tuple[str, ...] = ()  # columns of free text, which become inputs as well: see `Table`
    category: tuple[str, ...] = ()  # inputs of codes, whose numbers or dates are words: see `Table`
    # of dates in numbers, where the public split does not say it: see `Table`
    date_order: str | None = None
    first_year: int | None = None  # the earliest year that two digits of dates mean
    labels: tuple[str, ...] = ()  # columns that are labels
    missing: tuple[str, ...] = ()  # words that mean a missing cell: see `Table`
    # what -1, ? and uncertain mean as a label: missing, positive or negative, see `Table`
    uncertain: str | None = None
    uncertain_words: tuple[str, ...] = ()  # words that mean the same
    # column that names the owner of each record, such as a person
    group: str | None = None
    id: str | None = None  # column that names each record; public ids are published
    # height and width that pictures are brought to
    image_size: int = field(default=64, metadata={"public": True})
    channels: int = field(default=3, metadata={"public": True})  # 3 for color, 1 for gray
    fit: str = field(default="crop", metadata={"public": True})  # crop or stretch, see `ImageForm`
    # the level that is white in gray pictures of more than 8 bits: 65535, or 4095 where a camera has 12 bits
    white: float | None = field(default=None, metadata={"public": True})
    # of the data set, in report and on card
    name: str = field(default="huggingface", metadata={"public": True})
    seed: int = 0  # of the public records' order

    def __post_init__(self) -> None:
        require_text("data.name", self.name)
        require_count("data.seed", self.seed, minimum=0)
        require_count("data.image_size", self.image_size)
        require_choice("data.fit", self.fit, ("crop", "stretch"))
        require(is_white(self.white), "data.white", self.white, "a number > 0, or null")
        normalize_field(self, "path", at_home(self.path))
        for name in ("missing", "uncertain_words"):
            normalize_field(self, name, as_words(getattr(self, name)))
        self._spelling.require(lambda setting: f"data.{setting}")
        self._uncertain.require()
        for name in ("inputs", "text", "category", "labels"):
            normalize_field(self, name, as_column_names(f"data.{name}", values=getattr(self, name)))
        normalize_field(self, "inputs", tuple(dict.fromkeys((*self.inputs, *self.text))))
        for name in ("group", "id"):
            normalize_field(self, name, as_name(getattr(self, name)))
        parts = [getattr(self, split) for split in SPLITS]
        require(len(set(parts)) == len(parts), "data.public", self.public, "three different splits")

    @property
    def _spelling(self) -> CellSpelling:
        return CellSpelling(
            missing=self.missing, date_order=self.date_order, first_year=self.first_year
        )

    @property
    def _uncertain(self) -> UncertainLabels:
        return UncertainLabels(self.uncertain, self.uncertain_words)

    def require_settings(self) -> None:
        """Raises `InvalidValue` if the settings name no data set, no input or no label."""
        require(
            self.path is not None,
            "data.path",
            self.path,
            "a folder of save_to_disk, or a name on the hub",
        )
        for name in ("inputs", "labels"):
            require(
                len(getattr(self, name)) > 0,
                f"data.{name}",
                list(getattr(self, name)),
                "columns: [NAME,NAME]",
            )

    def load(self, stage: StageOpener = unwatched) -> Dataset:
        """Reads the three splits and returns the data set.

        The method executes no code of the data set, and writes nothing into its folder.

        Raises:
            InvalidValue: a setting names a data set, split or column that does not exist, or cells have the wrong type.
        """
        self.require_settings()
        schema, column = self._schema()
        if self.text:
            schema = schema.with_text_vectors(
                self._public_table(),
                text_columns=self.text,
                fit_vectors=self.text_fit or TfidfVectors.fit,
                stage=stage,
            )
        roles = Roles(() if self.group is None else (self.group,), self.id)
        rows = {}
        label_names = self.labels if self._listed is None else self._listed[0]
        labels = Labels(label_names, uncertain=self._uncertain)
        for split in SPLITS:
            self._require_columns(split)
            rows[split] = Rows(
                self._batches(split), schema, labels, roles, name=f"data.{split}", split=split
            )
        notes = () if self.group is not None else (UNGROUPED,)
        dataset_with = partial(
            make_dataset,
            rows,
            schema,
            roles,
            name=self.name,
            label_names=labels.names,
            seed=self.seed,
        )
        if isinstance(column, PictureColumn):
            for table_rows in rows.values():
                table_rows.inputs = column.pixels(table_rows.inputs)
            return dataset_with(input_kind="images", preprocessing=column.form, notes=notes)
        if column is not None:
            return dataset_with(input_kind="features", notes=notes)

        def fingerprints_of_split(split: str) -> NDArray[np.uint64]:
            return row_numbers(self._batches(split), schema)

        return dataset_with(
            input_kind="features",
            preprocessing=schema,
            notes=notes + self._remarks_on_dates(schema),
            private_cell_digest=private_digest(self._batches("private")),
            fingerprints_of_split=fingerprints_of_split,
        )

    @cached_property
    def _parts(self) -> dict[str, Any]:
        require_extra("data", "huggingface", "huggingface")
        import datasets  # loads slowly, and is optional

        path = str(self.path)
        saved = Path(str(self.path), "dataset_dict.json").is_file()
        try:
            opened = (
                datasets.load_from_disk(path) if saved else datasets.load_dataset(path, self.config)
            )
        except Exception as error:  # files, connections and formats raise errors of many libraries
            rule = f"a folder that DatasetDict.save_to_disk wrote, or a data set of the hub ({type(error).__name__})"
            raise InvalidValue("data.path", self.path, rule=rule) from error
        split_names = tuple(map(str, opened)) if isinstance(opened, dict) else ()
        for split in SPLITS:
            split_name = getattr(self, split)
            if split_name not in split_names:
                listed = ", ".join(split_names) or "of a DatasetDict"
                rule = f"one of the splits {listed}{nearest(split_name, choices=split_names)}"
                raise InvalidValue(f"data.{split}", split_name, rule=rule)
        return {split: opened[getattr(self, split)] for split in SPLITS}

    @cached_property
    def _listed(self) -> tuple[tuple[str, ...], bool] | None:
        """The names of the labels if one column holds lists of labels; None if each label has a column.

        The second value is true if a list holds the classes that apply, and false if it holds a bit for each label.
        """
        name, *other_columns = self.labels
        feature = None if other_columns else self._parts["private"].features.get(name)
        inner = getattr(feature, "feature", None)
        if inner is None:
            return None
        require(name not in self.inputs, "data.labels", name, "a list that is no input")
        names = getattr(inner, "names", None)
        if names is not None:
            clash = next(
                (
                    column
                    for column in map(str, names)
                    if column in (*self.inputs, self.group, self.id)
                ),
                None,
            )
            require(
                clash is None,
                "data.labels",
                clash,
                "classes called otherwise than the columns that are read",
            )
            return tuple(map(str, names)), True
        length = getattr(feature, "length", -1)
        rule = "columns of 0 and 1, lists of classes (ClassLabel with names), or lists of a length that the data say"
        require(length > 0, "data.labels", name, rule)
        return tuple(f"{name}_{place}" for place in range(length)), False

    def _schema(self) -> tuple[TableSchema, Column | None]:
        """Returns the schema of the inputs, which is learned from the public split.

        The second value is the column of pictures or of lists of numbers; None if inputs are columns as in `Table`.
        """
        public = self._parts["public"]
        types = arrow().types
        self._require_columns("public")
        column: Column | None = None
        if len(self.inputs) == 1 and not self.text:
            feature = public.features[self.inputs[0]]
            first = public.select_columns([self.inputs[0]]).with_format("arrow")[:1].column(0)
            if type(feature).__name__ == "Image":
                form = ImageForm(
                    channels=self.channels,
                    height=self.image_size,
                    width=self.image_size,
                    fit=self.fit,
                    white=self.white,
                )
                column = PictureColumn(self.inputs[0], missing=False, form=form, open=_picture)
            elif any(
                is_kind(first.type)
                for is_kind in (types.is_list, types.is_large_list, types.is_fixed_size_list)
            ):
                column = ListColumn(
                    self.inputs[0], missing=False, length=len(first[0].as_py() or ())
                )
        if column is not None:
            return TableSchema((column,), self._spelling), column
        schema = TableSchema.fit(
            self._public_table(),
            code_columns=self.category,
            text_columns=self.text,
            spelling=self._spelling,
        )
        schema.require_usable(setting_name="data.public", text_columns=self.text)
        return schema, None

    def _remarks_on_dates(self, schema: TableSchema) -> tuple[str, ...]:
        """Returns remarks for the owner on the order of day and month in public dates, and on placeholder dates."""
        table = self._public_table()
        return tuple(
            f"{column.name}: {line}"
            for column in schema.columns
            if isinstance(column, DateColumn)
            for line in remarks_on_dates(
                column, cells=table.column(column.name), spelling=schema.spelling
            )
        )

    def _public_table(self) -> Any:
        return self._parts["public"].select_columns(list(self.inputs)).with_format("arrow")[:]

    def _require_columns(self, split: str) -> None:
        column_names = list(self._parts[split].column_names)
        unlabeled = split == "public" and not set(self.labels) & set(column_names)
        for role in ("inputs", "labels", "group", "id"):
            role_columns = getattr(self, role) or ()
            for column in (role_columns,) if isinstance(role_columns, str) else role_columns:
                if role != "labels" or not unlabeled:
                    require_column(
                        f"data.{role}", column, column_names, f"the split {getattr(self, split)}"
                    )

    def _batches(self, split: str) -> Iterator[NumberedBatch]:
        rows_of_split = self._parts[split]
        done = 0
        wanted_columns = [
            *self.inputs,
            *self.labels,
            *(column for column in (self.group, self.id) if column is not None),
        ]
        columns = [
            column
            for column in dict.fromkeys(wanted_columns)
            if column in rows_of_split.column_names
        ]
        for table in (
            rows_of_split.select_columns(columns).with_format("arrow").iter(batch_size=_BATCH)
        ):
            yield done + np.arange(len(table)), self._bitwise(table)
            done += len(table)

    def _bitwise(self, table: Any) -> Any:
        """Returns a batch in which the column of lists of labels is replaced by a column of bits for each label.

        A bit is null if the list or the item is missing, -1 if the item is -1, and `_NO_BIT` if the list does not
        determine it.
        """
        if self._listed is None or self.labels[0] not in table.column_names:
            return table
        (names, of_classes) = self._listed
        pa = arrow()
        column = table.column(self.labels[0]).combine_chunks()
        rows = pa.compute.list_parent_indices(column).to_numpy()
        flat = pa.compute.list_flatten(column)
        unknown = np.repeat(is_missing(column)[:, None], len(names), axis=1)
        bits = np.zeros(unknown.shape, np.int8)
        if of_classes:
            classes = flat.cast(pa.int64()).fill_null(-1).to_numpy()
            is_class = (classes >= 0) & (classes < len(names))
            bits[rows[is_class], classes[is_class]] = 1
            bits[rows[~is_class]] = _NO_BIT
        else:
            items_per_row = np.bincount(rows, minlength=len(column))
            first = np.cumsum(items_per_row) - items_per_row
            other = items_per_row != len(names)
            listed = [flat.take(pa.array(first + place, mask=other)) for place in range(len(names))]
            read = Labels(names).read(pa.table(listed, names=names))
            bits[read.bits] = 1
            bits[read.wrong] = _NO_BIT
            for place, items in enumerate(listed):
                bits[as_numbers(items) == -1, place] = -1
            bits[other] = _NO_BIT
            unknown |= ~read.known & ~read.wrong & ~other[:, None]
        table = table.drop_columns([self.labels[0]])
        columns = zip(names, bits.T, unknown.T, strict=True)
        for name, column_bits, is_unknown in columns:
            table = table.append_column(name, pa.array(column_bits, mask=is_unknown))
        return table


def _picture(cell: Any) -> Any:
    """Returns the picture in a cell, as a stream of bytes or as the path of a file; None for an empty cell."""
    content = (cell or {}).get("bytes")
    path = (cell or {}).get("path")
    return path if content is None else io.BytesIO(content)
