"""The schema of a table: the columns that become features, fitted to a public table alone, and its file."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import yaml

from pate.array_types import Float32Array, IntArray
from pate.data.preprocessing import Preprocessing
from pate.data.table.cells import as_texts, with_missing
from pate.data.table.column import Column, Encoded, row_in_words, wrong_cells_in_words
from pate.data.table.column_kinds import fit_column, read_column
from pate.data.table.column_names import column_name, require_columns
from pate.data.table.date_column import DateColumn
from pate.data.table.frames import as_table
from pate.data.table.number_column import NumberColumn
from pate.data.table.remedies import text_remedy, ways_out
from pate.data.table.spelling import USUAL, CellSpelling
from pate.data.table.table_settings import TableSettings
from pate.data.table.text_column import TextColumn
from pate.data.texts.reading import as_strings, evenly_spaced
from pate.data.texts.vectors import TextFit, TextVectors
from pate.errors import users_stack_level
from pate.files.atomic import write_text
from pate.files.plain_yaml import read_yaml
from pate.progress import StageOpener, unwatched
from pate.validation import InvalidValue, printable

# The largest number of columns that have a remark of their own.
_MAX_COLUMNS_SHOWN = 5
# Days from 1970, about 8,200 years: a column of dates that reaches so far shows its range as numbers.
_MAX_DAYS_FROM_1970 = 3e6
# The comment at the beginning of a schema's file.
_HEADING = """\
# What the public file says of each column. Change what you know better: a kind (number, date, category), the
# categories, a range. Never copy anything from the private file into this one: it is published with the model.
# `settings` are those of pate-schema, which a run takes where its command names none; they are not published.
"""


class UnlikePublic(UserWarning):
    """A warning: records have cells unlike those of the public file.

    Such cells are words that are no category, texts without a known word, numbers beyond the public range, and missing
    cells of a column without a feature for them.
    """


@dataclass(frozen=True)
class TableSchema(Preprocessing):
    """The columns of a table that become features, in order, as learned from a public table.

    The schema encodes any table that has these columns as inputs.

    Attributes:
        columns: the columns, each fitted to its public cells.
        spelling: the notation of numbers, dates and missing cells in the public file. Other files have the same
            notation unless a setting names another. Two schemas that differ in notation alone are equal, as their
            features are.
    """

    columns: tuple[Column, ...]
    spelling: CellSpelling = field(default=USUAL, compare=False)

    kind: ClassVar[str] = "table"

    @classmethod
    def fit(
        cls,
        table: Any,
        *,
        code_columns: Collection[str] = (),
        text_columns: Collection[str] = (),
        spelling: CellSpelling = USUAL,
    ) -> Self:
        """Returns the schema that is learned from a public pyarrow table, by `fit_column` for each column.

        Args:
            table: the public table.
            code_columns: the columns whose numbers and dates are treated as words.
            text_columns: the columns of free text, which become features only after `with_text_vectors`.
            spelling: the notation of the table's cells.

        Raises:
            InvalidValue: cells are numbers in another notation, or dates of which the order of day and month, or the
                century, is ambiguous.
        """
        values = with_missing(
            table=_without_columns(table, column_names=text_columns), cell_notation=spelling
        )
        columns: list[Column] = []
        for name in table.column_names:
            if name in text_columns:
                columns.append(TextColumn(name))
                continue
            columns.append(
                fit_column(
                    name,
                    cells=values.column(name),
                    is_code=name in code_columns,
                    cell_notation=spelling,
                )
            )
        return cls(columns=tuple(columns), spelling=spelling)

    def with_text_vectors(
        self,
        table: Any,
        text_columns: Collection[str],
        fit_vectors: TextFit,
        open_stage: StageOpener = unwatched,
    ) -> TableSchema:
        """Returns the schema in which columns of text become vectors, fitted to a public pyarrow table.

        Rule: vectors are scaled so that, in the public pool, the total variance of all columns of text equals that of
        all other columns, and columns of text share it equally. Without other columns, vectors have length 1. At most
        10,000 rows of the table are used, evenly spaced.

        Args:
            table: the public table, with all columns of the schema.
            text_columns: the columns of text.
            fit_vectors: the function that fits vectors to public texts.
            open_stage: opens the stages that report progress.
        """
        schema_of_other_columns = self.without(text_columns)
        table = table.take(evenly_spaced(range(table.num_rows)))
        target_variance = 0.0
        if schema_of_other_columns.columns:
            variance_of_others = _total_variance(schema_of_other_columns.encode(table).features)
            target_variance = variance_of_others / len(text_columns)
        columns = []
        for column in self.columns:
            if column.name not in text_columns:
                columns.append(column)
                continue
            texts = as_strings(as_texts(table.column(column.name)))
            text_transform = fit_vectors(texts, open_stage)
            variance = _total_variance(text_transform.vectors(texts))
            weight = 1.0
            if target_variance > 0 and variance > 0:
                weight = float(np.float32(np.sqrt(target_variance / variance)))
            columns.append(TextColumn(column.name, text_transform=text_transform, weight=weight))
        return replace(self, columns=tuple(columns))

    @property
    def texts(self) -> dict[str, TextVectors]:
        """The transform from texts to vectors of each column of text that has one, by the column's name."""
        return {
            column.name: column.text_transform
            for column in self.columns
            if isinstance(column, TextColumn) and column.text_transform is not None
        }

    @property
    def origin(self) -> Mapping[str, str | int | float | bool | None]:
        """The description of the public texts to which vectors were fitted, with digests; empty without vectors.

        If columns have different values for a key, the values are joined by blanks.
        """
        text_transforms = self.texts.values()
        if not text_transforms:
            return {}
        kinds = ", ".join(dict.fromkeys(transform.kind for transform in text_transforms))
        origin: dict[str, str | int] = {
            "features": f"{kinds} of the texts {', '.join(self.texts)}",
            "dimension": sum(transform.dimension for transform in text_transforms),
        }
        for key in dict.fromkeys(key for transform in text_transforms for key in transform.origin):
            values = [str(transform.origin.get(key, "")) for transform in text_transforms]
            origin[key] = " ".join(dict.fromkeys(values)).strip()
        origin["extractor_sha256"] = " ".join(transform.digest for transform in text_transforms)
        return origin

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of all features, in the order of the columns."""
        return tuple(name for column in self.columns for name in column.feature_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input: `(num_features,)`."""
        return (len(self.feature_names),)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def without(self, column_names: Collection[str]) -> TableSchema:
        """Returns the schema without the named columns."""
        columns = tuple(column for column in self.columns if column.name not in column_names)
        return replace(self, columns=columns)

    def require_usable(
        self,
        setting_name: str,
        remark_of_column: Mapping[str, str] | None = None,
        text_columns: Collection[str] = (),
        *,
        owner_columns_in_words: str | None = None,
        public_file_of_new_schema: Path | None = None,
    ) -> None:
        """Raises `InvalidValue` if the schema has no column, or a column cannot become a feature (see `fit_column`).

        Args:
            setting_name: the name of the setting that names the public file, for messages.
            remark_of_column: for some columns, a remark that is added to the message.
            text_columns: the columns that get text vectors later; they are not checked.
            owner_columns_in_words: the columns that name the owner of a row; None if settings name none. The advice in
                the message depends on them.
            public_file_of_new_schema: the public file from which pate-schema has to write a new schema before a column
                of texts has features, as this schema was read from a file; None if it was learned in this run.
        """
        useless = [
            column
            for column in self.columns
            if not column.feature_names and column.name not in text_columns
        ]
        if useless:
            column = useless[0]
            remedy = ways_out(
                column_names=[column.name for column in useless],
                owner_columns_in_words=owner_columns_in_words,
            )
            if isinstance(column, TextColumn):
                remedy += f"; {text_remedy(column.name, public_file_of_new_schema=public_file_of_new_schema)}"
            if remark_of_column is not None and column.name in remark_of_column:
                remedy += f"; {remark_of_column[column.name]}"
            raise InvalidValue(f"{setting_name}.{column.name}", rule=f"{column.expects}; {remedy}")
        if not self.columns:
            rule = "a column that is no label, group or id"
            raise InvalidValue(f"{setting_name}.columns", 0, rule=rule)

    def encode(self, table: Any) -> Encoded:
        """Returns the features `[num_rows, num_features]` of a pyarrow table that has the schema's columns.

        Cells are read in the notation of the schema. A wrong cell, such as a word among numbers, is marked and raises
        no error.
        """
        text_columns = [column.name for column in self.columns if isinstance(column, TextColumn)]
        table_of_features = table.select(list(self.names))
        values = with_missing(
            table=_without_columns(table=table_of_features, column_names=text_columns),
            cell_notation=self.spelling,
        )
        encoded_columns = []
        for column in self.columns:
            # A text is read as it stands: the words of `spelling.missing` make cells missing in other columns only.
            source = table if column.name in text_columns else values
            encoded_columns.append(column.encode(source.column(column.name), self.spelling))
        return Encoded(
            features=np.concatenate([encoded.features for encoded in encoded_columns], axis=1),
            wrong=np.stack([encoded.wrong for encoded in encoded_columns], axis=1),
            num_unknown_and_missing=np.stack(
                [encoded.num_unknown_and_missing for encoded in encoded_columns]
            ),
            broken_rules=tuple(
                broken_rule for encoded in encoded_columns for broken_rule in encoded.broken_rules
            ),
        )

    def frame(self, inputs: Float32Array) -> Any:
        """Returns a pandas DataFrame of the cells from which inputs `[num_rows, num_features]` were made.

        Cells are recovered as far as the features determine them: numbers beyond the public range stay clipped to the
        range, and dates are days since 1970.
        """
        from pandas import DataFrame

        column_ends = np.cumsum([len(column.feature_names) for column in self.columns])
        blocks = np.split(inputs, column_ends[:-1], axis=1)
        frame_columns = {}
        for column, block in zip(self.columns, blocks, strict=True):
            frame_columns.update(column.frame_columns(block))
        return DataFrame(frame_columns)

    def inputs(self, samples: Any, *, name: str = "data") -> Float32Array:
        """Returns the features of records, `[num_rows, num_features]`.

        Args:
            samples: a DataFrame, a pyarrow table, or a mapping from names to columns.
            name: the name of the records in error messages.

        Raises:
            InvalidValue: a column is missing or a cell is wrong.
        """
        return self.read_table(as_table(samples), name=name).features

    def inputs_with_warnings(self, samples: Any, *, name: str = "data") -> Float32Array:
        """Returns the features of records as `inputs` does, and warns of cells that the public file does not know.

        The warnings are `UnlikePublic`.

        Args:
            samples: a DataFrame, a pyarrow table, or a mapping from names to columns.
            name: the name of the records in errors and warnings.

        Raises:
            InvalidValue: a column is missing or a cell is wrong.
        """
        encoded = self.read_table(as_table(samples), name=name)
        remarks = self.unknown_cell_remarks(
            name=name,
            num_unknown_and_missing=encoded.num_unknown_and_missing,
            num_records=len(encoded.features),
        )
        for remark in remarks:
            warnings.warn(printable(remark), UnlikePublic, stacklevel=users_stack_level())
        return encoded.features

    def read_table(self, arrow_table: Any, *, first_row: int = 0, name: str = "data") -> Encoded:
        """Returns the features of a pyarrow table as `encode` does, but checks columns and cells.

        Args:
            arrow_table: the table.
            first_row: the number of the first row, counted from 0, for messages.
            name: the name of the table in messages.

        Raises:
            InvalidValue: a column is missing or a cell is wrong.
        """
        require_columns(name, column_names=arrow_table.column_names, required=self.names)
        encoded = self.encode(arrow_table)
        if arrow_table.num_rows:
            self.require_no_wrong_cell(
                name,
                num_wrong_per_column=encoded.wrong.sum(axis=0),
                first_wrong_row_per_column=encoded.wrong.argmax(axis=0) + first_row,
                broken_rules=encoded.broken_rules,
                num_rows=arrow_table.num_rows,
            )
        return encoded

    def require_no_wrong_cell(
        self,
        name: str,
        num_wrong_per_column: IntArray,
        first_wrong_row_per_column: IntArray,
        *,
        broken_rules: Sequence[str | None],
        num_rows: int,
        describe_row: Callable[[int], str] = row_in_words,
    ) -> None:
        """Raises `InvalidValue` for the first column with a wrong cell. The message does not show the cell.

        Args:
            name: the name of the setting that names the table, for messages.
            num_wrong_per_column: the number of wrong cells, such as words among numbers, in each column,
                `[num_columns]`.
            first_wrong_row_per_column: the number of the first row with a wrong cell in each column, from 0,
                `[num_columns]`.
            broken_rules: the rule that the first wrong cell of each column violates; None for `Column.expects`.
            num_rows: the number of rows of the table.
            describe_row: returns the words for a row in the message, from its number.
        """
        rows = zip(
            self.columns,
            num_wrong_per_column.tolist(),
            first_wrong_row_per_column.tolist(),
            broken_rules,
            strict=True,
        )
        for schema_column, num_wrong_cells, first_wrong_row, broken_rule in rows:
            if num_wrong_cells:
                wrong_cells = wrong_cells_in_words(
                    num_wrong=num_wrong_cells,
                    num_rows=num_rows,
                    first_row_in_words=describe_row(first_wrong_row),
                )
                rule = f"{broken_rule or schema_column.expects}, {wrong_cells}"
                # A run names its tables data.public, say, and its settings have the same prefix. Other tables, such as
                # data or X, have none.
                setting_prefix = "data." if "." in name else ""
                hint = self._hint_for(schema_column, setting_prefix)
                raise InvalidValue(f"{name}.{schema_column.name}", rule=rule, hint=hint)

    def _hint_for(self, schema_column: Column, setting_prefix: str) -> str:
        """Returns advice: the settings with which wrong cells of a column might be readable; empty if there are none.

        Args:
            schema_column: the column.
            setting_prefix: the text before the name of a setting, such as `data.`.
        """
        if isinstance(schema_column, DateColumn):
            if schema_column.order is not None:
                return ""
            return f"dates in other orders need {setting_prefix}date_order=dmy, say"
        if not isinstance(schema_column, NumberColumn):
            return ""
        decimal = "comma"
        if self.spelling.decimal_mark == ",":
            decimal = f"point or {setting_prefix}thousands=."
        return (
            f"other numbers need {setting_prefix}decimal={decimal}, words for a missing cell "
            f"{setting_prefix}missing=[WORD]"
        )

    def unknown_cell_remarks(
        self, name: str, num_unknown_and_missing: IntArray, num_records: int
    ) -> Iterator[str]:
        """Yields remarks on columns with cells that the public file does not know: on up to five, and on how many more.

        Such cells are words without a feature, or numbers beyond the range of public cells. Columns with most of them
        come first. Missing cells are counted if the column has no feature for them, or if all are missing in this
        table.

        Args:
            name: the name of the setting that names the table.
            num_unknown_and_missing: the numbers of unknown and of missing cells, `[num_columns, 2]`: sums of
                `Encoded.num_unknown_and_missing`.
            num_records: the number of rows of the table.
        """
        counted_lines: list[tuple[int, str]] = []  # the number of such cells, and the remark
        for column, (num_unknown, num_missing) in zip(
            self.columns, num_unknown_and_missing.tolist(), strict=True
        ):
            is_missing_usual = column.has_missing and num_missing < num_records
            num_unexpected_missing = 0 if is_missing_usual else num_missing
            odd_cells_in_words = []
            if num_unknown:
                odd_cells_in_words.append(f"{num_unknown:,} {_unknown_cells_in_words(column)}")
            if num_unexpected_missing:
                odd_cells_in_words.append(f"{num_unexpected_missing:,} missing")
            if odd_cells_in_words:
                line = (
                    f"{name}.{column.name}: {num_records:,} cells, {', '.join(odd_cells_in_words)}"
                )
                counted_lines.append((num_unknown + num_unexpected_missing, line))
        counted_lines.sort(key=itemgetter(0), reverse=True)
        yield from (line for _, line in counted_lines[:_MAX_COLUMNS_SHOWN])
        num_others = len(counted_lines) - _MAX_COLUMNS_SHOWN
        if num_others > 0:
            yield f"{name}: {num_others} more columns have such cells"

    def plain(self) -> dict[str, Any]:
        """Returns the schema as values for JSON; parts of the notation that are the default are left out."""
        spelling = {
            key: value
            for key, value in asdict(self.spelling).items()
            if value != getattr(USUAL, key)
        }
        columns = {column.name: column.plain() for column in self.columns}
        return {"kind": self.kind, **spelling, "columns": columns}

    @classmethod
    def read(cls, content: Any, *, name: str, folder: Path | str | None = None) -> Self:
        """Builds the schema from the values that `plain` returned.

        Args:
            content: the values.
            name: the name of the setting that names the file, for messages.
            folder: the folder into which `save` wrote; None if the schema has no columns of text.

        Raises:
            InvalidValue: the content is no schema.
            DamagedFile: the file of a transform is missing, or has another digest than the content says.
        """
        entries = content.get("columns") if isinstance(content, Mapping) else None
        if not isinstance(entries, Mapping) or not entries:
            raise InvalidValue(
                name, rule="`columns`, what is known of each, as pate-schema writes it"
            )
        columns = tuple(
            read_column(
                column_name(str(key)),
                schema_entry=entry,
                setting=name,
                schema_folder=None if folder is None else Path(folder),
            )
            for key, entry in entries.items()
        )
        missing = content.get("missing", ())
        spelling = CellSpelling(
            decimal=content.get("decimal", USUAL.decimal),  # "point" or "comma"
            thousands=content.get("thousands"),
            missing=tuple(missing) if isinstance(missing, list) else missing,
            date_order=content.get("date_order"),
            first_year=content.get("first_year"),
        )
        spelling.require(setting_prefix=f"{name}.")
        return cls(columns=columns, spelling=spelling)

    def save(self, folder: Path | str) -> None:
        """Writes the transform of each column of text into a file of its own in a folder, and nothing else."""
        for text_transform in self.texts.values():
            text_transform.save(path=Path(folder, text_transform.file))

    def write(self, path: Path | str, settings: TableSettings | None = None) -> None:
        """Writes the schema as YAML, and the transforms of texts into files in the same folder.

        Args:
            path: the file.
            settings: settings of the table that are written as well; None for none.
        """
        content = self.plain()
        columns = content.pop("columns")
        plain_settings = {} if settings is None else settings.plain()
        if plain_settings:
            content["settings"] = plain_settings
        schema_yaml = yaml.safe_dump(
            {**content, "columns": columns}, sort_keys=False, allow_unicode=True, width=110
        )
        self.save(folder=Path(path).parent)
        write_text(path, text=_HEADING + schema_yaml)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Reads the YAML file that `write` wrote, with the files of transforms in the same folder."""
        setting_name = f"data.schema={path}"
        schema_content = _read_schema_file(Path(path), setting_name=setting_name)
        return cls.read(schema_content, name=setting_name, folder=Path(path).parent)


def load_settings(path: Path | str) -> TableSettings:
    """Returns the settings of a table that a schema's file stores; the defaults if it stores none.

    Raises `InvalidValue` if the file cannot be read, and as `TableSettings.read` does.
    """
    setting_name = f"data.schema={path}"
    return TableSettings.read(
        _read_schema_file(Path(path), setting_name=setting_name), setting_name=setting_name
    )


def _read_schema_file(path: Path, setting_name: str) -> Any:
    """Returns the value of the YAML in a schema's file; raises `InvalidValue` if the file is missing or no YAML.

    Args:
        path: the file.
        setting_name: the name of the setting that names the file, for messages.
    """
    try:
        schema_yaml = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(
            setting_name, rule=f"a file that pate-schema wrote ({type(error).__name__})"
        ) from error
    return read_yaml(schema_yaml, setting_name, rule="YAML as pate-schema writes it")


def _without_columns(table: Any, column_names: Collection[str]) -> Any:
    """Returns a pyarrow table without the named columns."""
    return table.select([name for name in table.column_names if name not in column_names])


def _total_variance(features: Float32Array) -> float:
    """Returns the sum of the variances of all columns of an array of features `[num_rows, num_features]`."""
    return float(features.var(axis=0, dtype=np.float64).sum())


def _unknown_cells_in_words(column: Column) -> str:
    """Returns a phrase for unknown cells of a column, such as "outside the public range 0 to 9"."""
    if isinstance(column, TextColumn):
        return "without a known word"
    if not isinstance(column, NumberColumn):
        return "with a word that is no category of the public file"
    largest_absolute = max(abs(column.min), abs(column.max))
    if isinstance(column, DateColumn) and largest_absolute < _MAX_DAYS_FROM_1970:
        first_day = np.datetime64(int(column.min // 1), "D")
        last_day = np.datetime64(int(column.max // 1), "D")
        return f"outside the public range {first_day} to {last_day}"
    return f"outside the public range {column.min:.6g} to {column.max:.6g}"
