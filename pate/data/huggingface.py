"""Data sets of the Hugging Face library `datasets`, from disk or from the hub."""

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import Dataset, Kind
from pate.data.image_form import ImageForm
from pate.data.label_list_column import LabelListColumn
from pate.data.list_column import ListColumn
from pate.data.picture_column import PictureColumn
from pate.data.pictures import is_white
from pate.data.preprocessing import Preprocessing
from pate.data.split import SPLITS
from pate.data.table.arrow import import_pyarrow
from pate.data.table.column import Column
from pate.data.table.column_names import as_column_names, as_name, require_column
from pate.data.table.column_remarks import remarks_on_dates
from pate.data.table.date_column import DateColumn
from pate.data.table.fingerprints import cell_digest, row_fingerprints
from pate.data.table.labels import Labels
from pate.data.table.rows import Roles, Rows
from pate.data.table.schema import TableSchema
from pate.data.table.spelling import CellSpelling
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

# The number of rows that are read together.
_BATCH_ROWS = 16384


@dataclass(frozen=True)
class HuggingFace(TextReader):
    """A reader of a Hugging Face data set with three splits, from a `save_to_disk` folder or from the hub.

    Inputs are one column of pictures, or one column of lists of numbers (such as embeddings), or any number of columns
    of numbers, dates, words and texts. The last become features as in `Table`, and the public split alone determines
    how. Labels are columns of 0 and 1, or one column of lists. A list holds the classes that apply
    (`List(ClassLabel)`), or a 0 or 1 for each label. A missing cell or a missing item of the second kind of list is an
    unknown label; a missing list means that all labels of its record are unknown.

    Attributes:
        path: the folder that `save_to_disk` wrote, or the name of a data set on the hub.
        config: the configuration of a data set on the hub that has several.
        private: the name of the split of private records.
        public: the name of the split of public records, whose labels may be missing, and only measure unless
            `data.public_labels` is set.
        test: the name of the split of the test set.
        inputs: the columns that become inputs.
        text: the columns of free text, which become inputs as well, as for `Table`.
        category: inputs of codes, whose numbers or dates are treated as words, as for `Table`.
        date_order: the order of day, month and year in dates of numbers if the public split is ambiguous, as for
            `Table`.
        first_year: the earliest year that two digits of dates can mean; None if a year of two digits is an error.
        labels: the columns that are labels, or the one column of lists.
        missing: words that mean a missing cell, as for `Table`.
        uncertain: what -1, ? and uncertain mean as a label: missing, positive or negative, as for `Table`.
        uncertain_words: words that mean the same as -1, ? and uncertain, such as maybe.
        group: the column that names the owner of each record, such as a person; None if records have no owners.
        id: the column that names each record; None numbers the records. Public ids are published.
        image_size: height and width to which pictures are brought, in pixels.
        channels: 3 for color, 1 for gray.
        fit: crop or stretch, see `ImageForm`.
        white: the level that is white in gray pictures of more than 8 bits: 65535, or 4095 from a camera of 12 bits.
        name: the name of the data set, in the report and on the card.
        seed: the seed of the order of the public records.
    """

    path: str | None = None
    config: str | None = None
    private: str = "private"
    public: str = "public"
    test: str = "test"
    inputs: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    date_order: str | None = None
    first_year: int | None = None
    labels: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    uncertain: str | None = None
    uncertain_words: tuple[str, ...] = ()
    group: str | None = None
    id: str | None = None
    image_size: int = field(default=64, metadata={"public": True})
    channels: int = field(default=3, metadata={"public": True})
    fit: str = field(default="crop", metadata={"public": True})
    white: float | None = field(default=None, metadata={"public": True})
    name: str = field(default="huggingface", metadata={"public": True})
    seed: int = 0

    def __post_init__(self) -> None:
        require_text("data.name", self.name)
        require_count("data.seed", self.seed, minimum=0)
        require_count("data.image_size", self.image_size)
        require_choice("data.fit", self.fit, ("crop", "stretch"))
        require(is_white(self.white), "data.white", self.white, "a number > 0, or null")
        normalize_field(self, "path", at_home(self.path))
        for name in ("missing", "uncertain_words"):
            normalize_field(self, name, as_words(getattr(self, name)))
        self._cell_notation.require(setting_prefix="data.")
        self._reading_of_uncertain_cells.require()
        for name in ("inputs", "text", "category", "labels"):
            normalize_field(self, name, as_column_names(f"data.{name}", values=getattr(self, name)))
        normalize_field(self, "inputs", tuple(dict.fromkeys((*self.inputs, *self.text))))
        for name in ("group", "id"):
            normalize_field(self, name, as_name(getattr(self, name)))
        are_different = len({self.private, self.public, self.test}) == len(SPLITS)
        public_split_name = self.public
        require(are_different, "data.public", public_split_name, "three different splits")

    def require_settings(self) -> None:
        """Raises `InvalidValue` if the settings name no data set, no input or no label."""
        has_path = self.path is not None
        require(has_path, "data.path", self.path, "a folder of save_to_disk, or a name on the hub")
        for name in ("inputs", "labels"):
            columns = list(getattr(self, name))
            require(len(columns) > 0, f"data.{name}", columns, "columns: [NAME,NAME]")

    def load(self, stage: StageOpener = unwatched) -> Dataset:
        """Reads the three splits and returns the data set.

        The method executes no code of the data set, and writes nothing into its folder.

        Raises:
            InvalidValue: a setting names a data set, split or column that does not exist, or cells have the wrong type.
        """
        self.require_settings()
        input_column = self._input_column()
        if input_column is None:
            schema = self._table_schema(open_stage=stage)
        else:
            schema = TableSchema(columns=(input_column,), spelling=self._cell_notation)
        roles = Roles(group=() if self.group is None else (self.group,), id=self.id)
        label_form = Labels(
            self._label_names, reading_of_uncertain_cells=self._reading_of_uncertain_cells
        )
        encoded_rows_of_splits = {}
        for split in SPLITS:
            self._require_columns(split_name=split)
            encoded_rows_of_splits[split] = Rows(
                batches=self._batches(split),
                schema=schema,
                label_form=label_form,
                roles=roles,
                setting_name=f"data.{split}",
                split_name=split,
            )
        input_kind: Kind = "features"
        preprocessing: Preprocessing | None = None
        notes: tuple[str, ...] = () if self.group is not None else (UNGROUPED,)
        cell_digests = None
        compute_fingerprints = None
        if isinstance(input_column, PictureColumn):
            input_kind = "images"
            preprocessing = input_column.form
            for rows in encoded_rows_of_splits.values():
                rows.inputs = input_column.pixels(rows.inputs)
        elif input_column is None:
            preprocessing = schema
            notes += self._remarks_on_dates(schema)
            cell_digests = {
                split_name: cell_digest(self._batches(split_name))
                for split_name in ("private", "test")
            }
            compute_fingerprints = partial(self._fingerprints, schema)
        return make_dataset(
            encoded_rows_of_splits=encoded_rows_of_splits,
            schema=schema,
            roles=roles,
            name=self.name,
            input_kind=input_kind,
            label_names=label_form.names,
            seed=self.seed,
            notes=notes,
            preprocessing=preprocessing,
            cell_digests=cell_digests,
            compute_fingerprints=compute_fingerprints,
        )

    @property
    def _cell_notation(self) -> CellSpelling:
        """The notation of the cells: the words for missing cells, and how dates are written."""
        return CellSpelling(
            missing=self.missing, date_order=self.date_order, first_year=self.first_year
        )

    @property
    def _reading_of_uncertain_cells(self) -> UncertainLabels:
        """The words that call a label uncertain, and how cells with such words are read."""
        return UncertainLabels(reading=self.uncertain, words=self.uncertain_words)

    @cached_property
    def _splits(self) -> dict[str, Any]:
        """The table of each split, an object of the library `datasets`, by private, public and test.

        Raises:
            InvalidValue: the path is no data set, or the data set lacks a split.
        """
        require_extra("data", extra="huggingface", value="huggingface")
        import datasets  # optional, and loads slowly

        path = str(self.path)
        try:
            if Path(path, "dataset_dict.json").is_file():
                dataset = datasets.load_from_disk(path)
            else:
                dataset = datasets.load_dataset(path, self.config)
        except Exception as error:  # files, connections and formats raise errors of many libraries
            rule = f"a folder that DatasetDict.save_to_disk wrote, or a data set of the hub ({type(error).__name__})"
            raise InvalidValue("data.path", self.path, rule=rule) from error
        split_names = tuple(map(str, dataset)) if isinstance(dataset, dict) else ()
        for split in SPLITS:
            split_name = getattr(self, split)
            if split_name not in split_names:
                listed = ", ".join(split_names) or "of a DatasetDict"
                rule = f"one of the splits {listed}{nearest(split_name, choices=split_names)}"
                raise InvalidValue(f"data.{split}", split_name, rule=rule)
        return {split: dataset[getattr(self, split)] for split in SPLITS}

    @cached_property
    def _label_list_column(self) -> LabelListColumn | None:
        """The column whose lists hold the labels of a record; None if each label has a column."""
        if len(self.labels) > 1:
            return None
        column_name = self.labels[0]
        return LabelListColumn.from_feature(
            column_name,
            feature=self._splits["private"].features.get(column_name),
            other_columns=(*self.inputs, self.group, self.id),
        )

    @property
    def _label_names(self) -> tuple[str, ...]:
        """The names of the labels."""
        column = self._label_list_column
        return self.labels if column is None else column.label_names

    def _input_column(self) -> Column | None:
        """Returns the column of pictures or of lists of numbers.

        The result is None if inputs are columns of numbers, dates, words or free text, as in `Table`.
        """
        public = self._splits["public"]
        self._require_columns("public")
        if len(self.inputs) > 1 or self.text:
            return None
        column_name = self.inputs[0]
        if type(public.features[column_name]).__name__ == "Image":
            form = ImageForm(
                channels=self.channels,
                height=self.image_size,
                width=self.image_size,
                fit=self.fit,
                white=self.white,
            )
            return PictureColumn(
                name=column_name, has_missing=False, form=form, find_picture_file=_find_picture_file
            )
        first_cell = public.select_columns([column_name]).with_format("arrow")[:1].column(0)
        types = import_pyarrow().types
        list_checks = (types.is_list, types.is_large_list, types.is_fixed_size_list)
        if any(is_list_type(first_cell.type) for is_list_type in list_checks):
            numbers = first_cell[0].as_py() or ()
            return ListColumn(name=column_name, has_missing=False, length=len(numbers))
        return None

    def _table_schema(self, open_stage: StageOpener) -> TableSchema:
        """Returns the schema of columns of numbers, dates, words and texts, learned from the public split.

        Args:
            open_stage: opens the stages that report the progress of fitting vectors to public texts; none without
                columns of text.
        """
        schema = TableSchema.fit(
            self._public_table(),
            code_columns=self.category,
            text_columns=self.text,
            spelling=self._cell_notation,
        )
        schema.require_usable(setting_name="data.public", text_columns=self.text)
        if not self.text:
            return schema
        return schema.with_text_vectors(
            self._public_table(),
            text_columns=self.text,
            fit_vectors=self.text_fit or TfidfVectors.fit,
            open_stage=open_stage,
        )

    def _fingerprints(self, schema: TableSchema, split_name: str) -> NDArray[np.uint64]:
        """Returns a number for each row of a split, uint64 `[num_rows]`: a hash of the cells that become features.

        Rows with equal cells have equal numbers; see `row_fingerprints`.
        """
        return row_fingerprints(self._batches(split_name), schema=schema)

    def _remarks_on_dates(self, schema: TableSchema) -> tuple[str, ...]:
        """Returns remarks for the owner on the order of day and month in public dates, and on placeholder dates."""
        table = self._public_table()
        return tuple(
            f"{column.name}: {line}"
            for column in schema.columns
            if isinstance(column, DateColumn)
            for line in remarks_on_dates(
                column, cells=table.column(column.name), cell_notation=schema.spelling
            )
        )

    def _public_table(self) -> Any:
        """Returns the inputs of the public split as a pyarrow table."""
        return self._splits["public"].select_columns(list(self.inputs)).with_format("arrow")[:]

    def _require_columns(self, split_name: str) -> None:
        """Raises `InvalidValue` if a split lacks a column that settings name. A public split may lack all labels."""
        column_names = list(self._splits[split_name].column_names)
        columns_of_role = {
            "inputs": self.inputs,
            "labels": self.labels,
            "group": () if self.group is None else (self.group,),
            "id": () if self.id is None else (self.id,),
        }
        has_labels = any(label in column_names for label in self.labels)
        if split_name == "public" and not has_labels:
            del columns_of_role["labels"]
        for role, columns in columns_of_role.items():
            for column in columns:
                require_column(
                    f"data.{role}",
                    column_name=column,
                    column_names=column_names,
                    table_description=f"the split {getattr(self, split_name)}",
                )

    def _batches(self, split_name: str) -> Iterator[NumberedBatch]:
        """Yields pairs of row numbers, from 0, and a pyarrow table with these rows of a split.

        The table has the columns of inputs, labels, owners and ids. Lists of labels are replaced by a column for each
        label.
        """
        split_dataset = self._splits[split_name]
        wanted_columns = [
            *self.inputs,
            *self.labels,
            *(column for column in (self.group, self.id) if column is not None),
        ]
        column_names = [
            column
            for column in dict.fromkeys(wanted_columns)
            if column in split_dataset.column_names
        ]
        label_lists = self._label_list_column
        num_rows = 0
        tables = split_dataset.select_columns(column_names).with_format("arrow")
        for table in tables.iter(batch_size=_BATCH_ROWS):
            row_numbers = num_rows + np.arange(len(table))
            yield row_numbers, table if label_lists is None else label_lists.with_bits(table)
            num_rows += len(table)


def _find_picture_file(cell: Any) -> Any:
    """Returns what a cell of pictures holds, a stream of bytes or else the path of a file; None for an empty cell."""
    picture = cell or {}
    content = picture.get("bytes")
    return picture.get("path") if content is None else io.BytesIO(content)
