"""Tables in files: private, public and test records, with labels in columns of 0 and 1; how a split is read."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import PrivacyUnit
from pate.data.copies import CellNumbers, remarks_on_copies, rounded
from pate.data.dataset import UNIFORM_RULE, Dataset
from pate.data.private_records import PrivateRecords
from pate.data.shared_records import SharedRecords, linked_groups
from pate.data.split import SPLITS, Split, require_files_apart
from pate.data.table.arrow import arrow, is_missing
from pate.data.table.cells import as_numbers, as_texts, with_missing
from pate.data.table.column import STRANGERS, Column
from pate.data.table.column_names import (
    as_column_names,
    as_name,
    column_name,
    require_column,
    require_columns,
)
from pate.data.table.column_remarks import remarks_on_columns
from pate.data.table.encoding import UTF_8, require_encoding
from pate.data.table.files import TableFile
from pate.data.table.label_cells import NoNames, are_bits, is_list, names_in
from pate.data.table.number_column import NumberColumn
from pate.data.table.people import People, names_of
from pate.data.table.remedies import ways_out
from pate.data.table.schema import TableSchema, load_settings
from pate.data.table.spelling import USUAL, Spelling, canonical_word, canonical_words, with_points
from pate.data.table.table_settings import TableSettings
from pate.data.texts.reading import as_strings
from pate.data.texts.tfidf import TfidfVectors
from pate.data.texts.vectors import NUM_COUNTED_TEXTS, TextReader, remarks_on_texts
from pate.files.arrays import Spilled
from pate.files.disk import at_home
from pate.progress import StageOpener, unwatched
from pate.validation import (
    InvalidValue,
    as_setting,
    normalize_field,
    require,
    require_count,
    require_text,
)

_TRUTHS = ("false", "no", "true", "yes")  # in small or capital letters; half of them say no
_UNSEEN = r"^[\s\p{Z}\p{C}]*$"
_GATHERED = 2**25  # bytes of texts in memory
UNGROUPED = "data: no group is named, so each row by itself is protected; "
UNGROUPED += "data.group=COLUMN protects a person's rows at once"
LABEL_HINT = "; yes and no, true and false are taken too, an empty cell is not: leave its row out"
_BETWEEN = "\x1f"
_GONE = "\x00"
_FEWEST_RECORDS = 100  # records; fewer may all be rare ones

Bits = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Numbered = Iterable[tuple[Numbers, Any]]
"""Tables, and the numbers that their rows have in the file."""

_ROLES = ("labels", "group", "id", "budget", "split", "drop")
_FILES = "data.private=, data.public= and data.test=, three files; or one for all, data.path=FILE data.split=COLUMN; "
_FILES += "pate-schema split=.1,.1 deals one file to three"
_LABELS = "the columns that are labels: 'data.labels=[NAME,NAME]'"


@dataclass
class Labels:
    """Labels that have a column each, of 0 and 1, yes and no, or two words; or one column that names all of a record.

    Names, such as flu;cough, are from public knowledge: a list, or the public file. An empty cell names none.
    """

    names: tuple[str, ...]
    # Of a label whose words are not 0 and 1 or yes and no: that for no, or None, and that for yes, see `label_word`
    truths: Mapping[str, tuple[str | None, str]] = field(default_factory=dict)
    hint: str = LABEL_HINT  # what is said where a cell is none of them
    column: str | None = None  # that names all labels
    separator: str = ""  # of names there
    unknown: int = 0  # how often cells named a label that `names` lacks; it counts for nothing

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that hold labels."""
        return self.names if self.column is None else (self.column,)

    @property
    def rule(self) -> str:
        """The rule for a cell that names all labels of a record."""
        return f"names of labels with {self.separator} between them, or a list of names in quotes"

    def read(self, table: Any, spelling: Spelling = USUAL) -> tuple[Bits, Bits]:
        """Labels `[n, L]` of a pyarrow table that has the columns, and which cells are neither 0 nor 1."""
        labels = np.zeros((table.num_rows, len(self.names)), np.bool_)
        wrong = np.zeros_like(labels)
        if self.column is not None:
            return self._named(table)
        for place, name in enumerate(self.names):
            column = table.column(name)
            words = self.truths.get(name)
            if words is None:
                numbers = as_numbers(column, spelling)
                labels[:, place], wrong[:, place] = numbers == 1, ~np.isin(numbers, (0, 1))
                if not wrong[:, place].any():
                    continue
            coded = as_texts(column).dictionary_encode()
            truths = words or _TRUTHS
            place_of = {word: code for code, word in enumerate(truths)}
            if any(map(is_list, coded.dictionary.to_pylist())):
                self.hint = f"; {as_setting('data.label_separator', ';')} reads lists of labels"
            codes = [
                *(place_of.get(label_word(word), -1) for word in coded.dictionary.to_pylist()),
                -1,
            ]
            truth = np.array(codes)[
                coded.indices.fill_null(len(codes) - 1).to_numpy(zero_copy_only=False)
            ]
            rows = (truth >= 0) | (words is not None)
            labels[rows, place] = truth[rows] >= len(truths) // 2
            wrong[rows, place] = truth[rows] < 0
        return labels, wrong

    def _named(self, table: Any) -> tuple[Bits, Bits]:
        """Labels that cells name, and which rows have a cell that names none and is not empty."""
        texts = as_texts(table.column(self.column)).dictionary_encode()
        distinct = texts.dictionary.to_pylist()
        place_of = {canonical_word(name): place for place, name in enumerate(self.names)}
        # the last of an empty cell
        has_label = np.zeros((len(distinct) + 1, len(self.names)), np.bool_)
        wrong = np.zeros_like(has_label)
        is_strange = np.zeros(len(has_label), np.int64)
        for row, text in enumerate(distinct):
            try:
                words = names_in(text, self.separator)
            except NoNames:
                wrong[row] = True
                continue
            has_label[row, [place_of[word] for word in words if word in place_of]] = True
            is_strange[row] = not place_of.keys() >= set(words)
        rows = texts.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
        self.unknown += int(is_strange[rows].sum())
        return np.asarray(has_label[rows]), np.asarray(wrong[rows])


class Named(NamedTuple):
    """Columns that name things."""

    group: tuple[str, ...] = ()  # who a row belongs to, of each kind of owner
    id: str | None = None  # the record
    budget: str | None = None  # what a group agreed to

    @property
    def group_unit(self) -> PrivacyUnit:
        """The unit of privacy that the columns of groups make."""
        if len(self.group) > 1:
            return PrivacyUnit.of_owners(self.group)
        return PrivacyUnit.of_column(self.group[0]) if self.group else PrivacyUnit("one row")


class Rows:
    """One split, read a batch at a time; raises with column and count where cells, labels, groups or ids are wrong."""

    def __init__(
        self,
        batches: Numbered,
        schema: TableSchema,
        labels: Labels,
        named: Named,
        *,
        name: str,
        split: str,
    ) -> None:
        self._schema = schema
        self._labels = labels
        self.inputs, self.labels = (Spilled(), Spilled())  # type: Any, Any
        of_names = (*named.group, named.id, named.budget)
        self._words: dict[str, list[Any]] = {name: [] for name in of_names if name is not None}
        # How many cells of each column and label are wrong, and the first row with one.
        self._wrong = np.zeros((2, len(schema.columns) + len(labels.names)), np.int64)
        self.strange = np.zeros((len(schema.columns), 2), np.int64)  # see `Encoded`
        # the first of each column of text
        self.texts: dict[str, list[str]] = {column: [] for column in schema.texts}
        # false where all public labels are missing; they are False then
        self.labeled = split != "public"
        # int64 `[n]`, of the rows of the file, from 0
        self.numbers = np.concatenate(
            [np.zeros(0, np.int64), *(self._add(*batch) for batch in batches)]
        )
        wrong, wrong_labels = np.split(self._wrong, [len(schema.columns)], axis=1)
        schema.require_right(name, wrong[0], wrong[1], num_rows=len(self.numbers))
        for label, count, row in zip(labels.names, *wrong_labels.tolist(), strict=True):
            if count and self.labeled:
                strangers = STRANGERS.format(count, len(self.numbers), row + 1)
                if labels.column is not None:
                    raise InvalidValue(
                        f"{name}.{labels.column}", rule=f"{labels.rule}, {strangers}"
                    )
                raise InvalidValue(
                    f"{name}.{label}", rule=f"0 or 1 in a label's column, {strangers}{labels.hint}"
                )
        words = {column: arrow().chunked_array(chunks) for column, chunks in self._words.items()}
        for column, cells_of_column in words.items():
            unseen = (
                arrow()
                .compute.sum(arrow().compute.match_substring_regex(cells_of_column, _UNSEEN))
                .as_py()
                or 0
            )
            if missing := cells_of_column.null_count + unseen:
                rule = f"a value in each row, {missing} of {len(cells_of_column)} rows have none"
                raise InvalidValue(f"{name}.{column}", rule=rule)
        # words `[n]` of each column that says whose a row is
        self.groups = [words[column] for column in named.group]
        self.ids: Any = words.get(named.id or "")  # words `[n]`, or None
        self.budgets: Any = words.get(named.budget or "")  # likewise
        # features `[n, d]`, of a large table a read-only `np.memmap`; bits `[n, L]`
        self.inputs, self.labels = self.inputs.whole(), self.labels.whole()

    def _add(self, numbers: Numbers, batch: Any) -> Numbers:
        features, wrong, strange = self._schema.encode(batch)
        self.inputs.append(features)
        self.strange += strange
        for column, texts in self.texts.items():
            texts += as_strings(as_texts(batch.column(column)[: NUM_COUNTED_TEXTS - len(texts)]))
        label_columns = [column for column in self._labels.columns if column in batch.column_names]
        batch = with_missing(
            batch.select(list(dict.fromkeys((*label_columns, *self._words)))), self._schema.spelling
        )
        bits = wrong_bits = np.zeros((len(numbers), len(self._labels.names)), np.bool_)
        if len(label_columns) == len(self._labels.columns):
            bits, wrong_bits = self._labels.read(batch, self._schema.spelling)
        wrong = np.concatenate([wrong, wrong_bits], axis=1)
        self._wrong[1] = np.where(self._wrong[0], self._wrong[1], numbers[wrong.argmax(axis=0)])
        self._wrong[0] += wrong.sum(axis=0)
        self.labels.append(bits)
        self.labeled |= any(
            not is_missing(as_texts(batch.column(column))).all() for column in label_columns
        )
        for column, words in self._words.items():
            words.append(as_texts(batch.column(column)))
        return numbers


def gathered(batches: Numbered, size: int, advance: Callable[[int], object]) -> Iterator[Any]:
    """Batches of a file with texts, so many together that all cores have some; tells how many kB are done, at most."""
    numbers = list[Numbers]()
    tables = list[Any]()
    done = 0
    for rows, table in batches:
        numbers.append(rows)
        tables.append(table)
        if (held := sum(table.nbytes for table in tables)) >= _GATHERED:
            yield np.concatenate(numbers), arrow().concat_tables(tables)
            numbers = []
            tables = []
            done = done + held // 1000
            advance(min(done, size))
    if tables:
        yield np.concatenate(numbers), arrow().concat_tables(tables)
        advance(size)


def require_apart(role: str, column: str | None, ids: list[Numbers]) -> None:
    """Raises where a group or record, `role`, is in two splits, whose ids are given."""
    for first, second in ((0, 1), (0, 2), (1, 2)):
        if shared := len(np.intersect1d(ids[first], ids[second])):
            both = f"{SPLITS[first]} and {SPLITS[second]}"
            raise InvalidValue(
                f"data.{role}", column, rule=f"each {column} in one split, {shared} are in {both}"
            )


def unlike_public(split: str, columns: Sequence[Column], rows: Rows) -> Iterator[str]:
    """A line for each column that tells a model nothing of these records."""
    rule = "every cell is missing, or no word of the public file, or outside its range; in other words or units?"
    for column, count in zip(columns, rows.strange.sum(axis=1).tolist(), strict=True):
        if count == len(rows.numbers) >= _FEWEST_RECORDS:
            yield f"data.{split}.{column.name}: {rule}"


def dataset_of(
    rows: Mapping[str, Rows],
    schema: TableSchema,
    named: Named,
    *,
    seed: int,
    notes: tuple[str, ...],
    cells_of: CellNumbers | None = None,
    **known: Any,
) -> Dataset:
    """Makes a data set of splits and what else is `known`, public ones shuffled.

    Raises for ids or groups in two splits. `cells_of` is that of `remarks_on_copies`.
    """
    parts = [rows[split] for split in SPLITS]
    private = rows["private"]
    public = rows["public"]
    ids, groups, shared, alike = _numbers_of(parts, named, schema.spelling)
    rows_of_splits = zip(SPLITS, parts, ids, groups, strict=True)
    splits: dict[str, Any] = {
        split: Split(part.inputs, part.labels, *row_names)
        for split, part, *row_names in rows_of_splits
    }
    order = np.random.default_rng(seed).permutation(len(public.labels))
    names = public.numbers if public.ids is None else np.array(public.ids.to_pylist(), np.str_)
    told = [
        line
        for name, vectors in schema.texts.items()
        for line in remarks_on_texts(name, vectors, private.texts[name])
    ]
    told += [] if shared is None else [shared.description()]
    told += alike
    told += remarks_on_copies(splits["private"], splits["public"], splits["test"], cells_of)
    told += [
        line
        for split in ("private", "test")
        for line in unlike_public(split, schema.columns, rows[split])
    ]
    owners = {"id": [] if private.ids is None else [private.ids], "group": private.groups}

    def values(columns: list[Any]) -> frozenset[bytes]:
        """Values as they are spelled, by which older ledgers know them, and names of persons in any letters."""
        spellings = set[str]()
        for column in columns:
            words = column.unique()
            names = names_of(words, schema.spelling).to_pylist()
            spellings.update(canonical_words(words, schema.spelling).to_pylist())
            spellings.update(names)
            spellings.update(map(str.casefold, names))
        return frozenset(word.encode() for word in spellings)

    return Dataset(
        real=True,
        **splits | {"public": splits["public"].take(order)},
        public_ids=names[order],
        public_labeled=public.labeled,
        shared=shared,
        owners={kind: values(columns) for kind, columns in owners.items() if columns},
        budgets=private.budgets
        and np.array(canonical_words(private.budgets, schema.spelling).to_pylist(), np.str_),
        notes=(*notes, *told),
        group_unit=named.group_unit,
        **known,
    )


def split_numbers(numbers: Sequence[Numbers]) -> list[Numbers]:
    """Numbers of the rows of each split, made different between splits: the split is in the upper bits."""
    return [rows | (place << 48) for place, rows in enumerate(numbers)]


def _numbers_of(parts: list[Rows], named: Named, spelling: Spelling) -> Any:
    """The ids and groups of the records of each split, what those of several owners count, and lines on who look alike.

    Raises where a person or a record is in two splits, under whichever spelling of the name.
    """
    group, id, _ = named
    remarks = list[str]()
    ids = split_numbers([part.numbers for part in parts])
    if id is not None:
        records = People.of([part.ids for part in parts], spelling)
        ids = list(records.numbers)
        require_apart("id", id, ids)
        if id not in group:
            remarks += records.remarks(f"data.id={id}")
    owners = []
    for column, *words in zip(group, *(part.groups for part in parts), strict=True):
        people = People.of(words, spelling)
        require_apart("group", column, list(people.numbers))
        owners.append(people.groups())
        remarks += people.remarks(f"data.group={column}")
    shared = None
    groups = owners[0] if owners else None
    if len(owners) > 1:
        shared = SharedRecords.from_owners(group, [owner[0] for owner in owners])
        all_owners = [np.concatenate(owner) for owner in owners]  # no owner is in two splits
        groups = np.split(
            linked_groups(all_owners), np.cumsum([len(rows) for rows in owners[0]])[:-1]
        )
    if id is not None:
        free = 1 + max(int(numbers.max()) for numbers in ids)
        splits = zip(SPLITS, ids, groups or ids, strict=True)
        ids = [_told_apart(id, *each, free + place * 2**48) for place, each in enumerate(splits)]
    if groups is None or (shared is not None and shared.weights is not None):
        groups = ids
    return ids, groups, shared, remarks


def _told_apart(id: str, split: str, ids: Numbers, groups: Numbers, free: int) -> Numbers:
    """The ids of a split; rows of one id may be in one group, which is protected, and get others from `free` on."""
    _, first, again = np.unique(ids, return_index=True, return_inverse=True)
    later = np.setdiff1d(np.arange(len(ids)), first)
    alike = split != "public" and groups is not ids and np.array_equal(groups[first][again], groups)
    if len(later) and not alike:
        repeats = f"{len(later)} of {len(ids)} rows of {split} have that of another row"
        raise InvalidValue("data.id", id, rule=f"another id in each row, {repeats}")
    ids = ids.copy()
    ids[later] = free + np.arange(len(later))
    return ids


def label_word(word: str) -> str:
    """A word of a label's column as words are compared there: one spelling, in small letters."""
    return canonical_word(word).casefold()


def cell_numbers(batches: Numbered, schema: TableSchema) -> NDArray[np.uint64]:
    """Returns a number for each row, which rows share whose cells in the schema's columns have the same values.

    Numbers that are not whole are equal to 16 bits, as inputs are where copies are looked for.
    """
    from pandas.util import hash_array  # loads slowly

    rows = []
    for _, table in batches:
        values = [
            _values_of(table.column(column.name), column, schema.spelling)
            for column in schema.columns
        ]
        lines = arrow().compute.binary_join_element_wise(*values, _BETWEEN)
        rows.append(hash_array(np.array(lines.to_pylist(), dtype=object), categorize=False))
    return np.concatenate(rows)


def _values_of(array: Any, column: Column, spelling: Spelling) -> Any:
    """Returns cells as words, one for each value; a missing one has a word, too."""
    if isinstance(column, NumberColumn):
        numbers = column.numbers(array, spelling)
        is_whole = np.isfinite(numbers) & (numbers % 1 == 0)
        with np.errstate(over="ignore"):
            values = np.where(is_whole, numbers, rounded(numbers.astype(np.float32)))
        return arrow().array(values).cast(arrow().string())
    return canonical_words(as_texts(array), spelling).fill_null(_GONE)


def private_cells(batches: Numbered, *, of_text: bool = False) -> str:
    """SHA-256 in hexadecimal of all cells of private rows, in whatever order they stand. Covered by no epsilon.

    Of a CSV file (`of_text`) a decimal comma is a point, whatever settings say: none makes the records new ones.
    """
    from pandas.util import hash_array  # loads slowly

    names = list[str]()
    rows = []
    for _, table in batches:
        names = sorted(table.column_names)
        texts = [as_texts(table.column(name)).fill_null(_GONE) for name in names]
        if of_text:
            texts = [with_points(column) for column in texts]
        lines = arrow().compute.binary_join_element_wise(*texts, _BETWEEN)
        rows.append(hash_array(np.array(lines.to_pylist(), dtype=object), categorize=False))
    digest = hashlib.sha256(_BETWEEN.join(names).encode())
    digest.update(np.sort(np.concatenate(rows)).astype("<u8").tobytes())
    return digest.hexdigest()


_MOST_NAMED = 5  # columns in a line


def _few(names: list[str]) -> str:
    """Lists columns by name, at most five of them."""
    listed = ", ".join(names[:_MOST_NAMED])
    more = len(names) - _MOST_NAMED
    columns = "column" if len(names) == 1 else "columns"
    return f"{columns} {listed} and {more} more" if more > 0 else f"{columns} {listed}"


@dataclass(frozen=True)
class Table(TextReader):
    """Records in CSV, Parquet, Feather or Arrow files, one per split, or one for all with a column that says which.

    Every column that is no label, group, id or split and is not dropped becomes features, as a schema says. The schema
    is learned from the public file alone; no private cell has a part in it. Numbers and dates are within the public
    range and in units of the public spread, or of what lies between them where there are two; long tails get a power.
    Words are categories, with one for all others. Missing cells have a feature.

    Settings that do not go together are an `InvalidValue`; what is wrong with a file is said by `load`, with column,
    count and split, and no cell.
    """

    private: str | None = None  # file of the private records
    # file of the public ones; its rows are shuffled, and the first of them are asked about. Their labels serve
    # measurements alone: the file may lack all columns of labels, or all their cells.
    public: str | None = None
    test: str | None = None  # file of the records that measure
    path: str | None = None  # one file for all three, in their place
    split: str | None = None  # its column that holds private, public or test
    # names of the columns that are labels. With a `label_separator` the one column that names all labels of a record,
    # and behind it the labels that there are; or these alone. Where none are named they are those of the public file,
    # never those of private rows.
    labels: tuple[str, ...] = ()
    # column that says which rows belong together, such as a person: epsilon protects all of them at once. None for rows
    # that have nothing to do with each other. A list where rows have several owners, such as a patient and a doctor:
    # epsilon protects all rows of each, but not who belongs with whom.
    group: str | tuple[str, ...] | None = None
    # private column that says what epsilon a group agreed to, or a class of `budgets=`; public, and nothing protects it
    budget: str | None = None
    # column that names each record; None for the number of the row. Public ids are published
    id: str | None = None
    drop: tuple[str, ...] = ()  # columns that are not read
    # columns of codes: their numbers or dates are words, each a category
    category: tuple[str, ...] = ()
    # columns of free text, which become vectors as `features=text` says; by default tf-idf of the public texts.
    text: tuple[str, ...] = ()
    # file that `pate-schema` wrote; None learns it anew from the public file. Labels, group, id, columns to drop, the
    # separator of labels and the encoding are those that it was given, where they are not said here.
    schema: str | None = None
    # of files of text that are not UTF-8: one for all of them, or one for each split that has another than UTF-8. Text
    # that is UTF-8 is read so whatever is named here, and a byte-order mark says which encoding it is.
    encoding: str | Mapping[str, str] = UTF_8
    # `comma` where numbers of CSV files read 3,5; None for what the schema's file says, or else a point.
    decimal: str | None = None
    # what stands between thousands, one of . , ' _ or a blank; None as for `decimal`
    thousands: str | None = None
    # words that are missing cells, beside empty cells and NA; none as for `decimal`
    missing: tuple[str, ...] = ()
    # `dmy`, `mdy` or `ymd`: the order of dates in numbers where the public file does not say it, such as 04.03.2024
    date_order: str | None = None
    # the earliest year that two digits of dates mean: 1930 makes 45 1945 and 22 2022
    first_year: int | None = None
    # the word for yes where labels are two other words than 0 and 1, such as ja
    true: str | None = None
    # what stands between labels where one column names them all, such as flu;cough
    label_separator: str | None = None
    # of the data set, in the report and on the card
    name: str = field(default="table", metadata={"public": True})
    seed: int = 0  # of the public rows' order; part of the data, not of the noise

    def __post_init__(self) -> None:
        require_count("data.seed", self.seed, minimum=0)
        require_text("data.name", self.name)
        keep = partial(normalize_field, self)
        for name in (*SPLITS, "path", "schema"):
            keep(name, at_home(getattr(self, name)))
        for name in ("labels", "drop", "category", "text"):
            keep(name, as_column_names(f"data.{name}", getattr(self, name)))
        for name in ("split", "group", "budget", "id", "true", "label_separator"):
            keep(name, as_name(getattr(self, name)))
        is_list = isinstance(self.missing, (list, tuple))
        keep("missing", tuple(map(as_name, self.missing)) if is_list else self.missing)
        if self.group is not None and not isinstance(self.group, str):
            owners = as_column_names("data.group", self.group)
            require(
                len(owners) > 0, "data.group", "[]", "null, or the columns that say whose a row is"
            )
            keep("group", owners if len(owners) > 1 else owners[0])
        several = isinstance(self.group, tuple)
        require(
            not several or self.budget is None,
            "data.budget",
            self.budget,
            "one column in data.group beside it",
        )
        for name in (
            *SPLITS,
            "path",
            "split",
            "group",
            "budget",
            "id",
            "schema",
            "true",
            "label_separator",
        ):
            value = getattr(self, name)
            is_name = isinstance(value, str) and value != ""
            require(
                value is None or is_name or (name == "group" and several),
                f"data.{name}",
                value,
                "a name",
            )
            if name in _ROLES and is_name:
                keep(name, column_name(value))
        self._require_encodings()
        both = self.true is not None and self.label_separator is not None
        require(
            not both,
            "data.true",
            self.true,
            "nothing beside data.label_separator, whose cells name labels",
        )
        role_of: dict[str, str] = {}
        for role in (*_ROLES, "text"):
            for column in self._named(role):
                first_role = role_of.setdefault(column, role)
                alike = first_role == role or {first_role, role} == {"group", "id"}
                require(alike, f"data.{role}", column, f"another column than data.{first_role}")
        twice = next((column for column in self.text if column in self.category), None)
        require(twice is None, "data.text", twice, "another column than data.category")

    def _require_encodings(self) -> None:
        """Raises unless `encoding` is the name of one, or such names by split where each split has its file."""
        if not isinstance(self.encoding, Mapping):
            require_encoding("data.encoding", self.encoding)
            return
        rule = "an encoding, or one for each split: 'data.encoding={private: cp1252, test: utf-16}'"
        good = self.encoding.keys() <= set(SPLITS) and self.path is None
        require(good, "data.encoding", dict(self.encoding), rule)
        for split, encoding in self.encoding.items():
            require_encoding(f"data.encoding.{split}", encoding)

    def load(self, stage: StageOpener = unwatched) -> Dataset:
        """Reads the files. Record ids are the rows of each file, with its split in the upper bits."""
        return self.completed()._load(stage)

    def completed(self) -> Self:
        """Returns the same reader with what its schema's file says where settings say nothing; opens no other file.

        A group that the file names is taken over: to protect something else, `group` names it.
        """
        public_words = self._said
        changes: dict[str, Any] = {}
        if not self.labels and public_words.labels:
            changes["labels"] = public_words.labels
            changes["label_separator"] = self.label_separator or public_words.label_separator
        for name in ("group", "id"):
            if getattr(self, name) is None and getattr(public_words, name) is not None:
                changes[name] = getattr(public_words, name)
        if self.encoding == UTF_8 and public_words.encoding != UTF_8:
            changes["encoding"] = public_words.encoding
        if not changes:
            return self
        table = replace(self, **changes)
        return table if self.text_fit is None else table.with_text(self.text_fit)

    @cached_property
    def _said(self) -> TableSettings:
        """The settings that the schema's file holds; none without such a file."""
        return TableSettings() if self.schema is None else load_settings(self.schema)

    def _load(self, stage: StageOpener) -> Dataset:
        self.require_settings()
        self._require_columns()
        schema = self._with_vectors(self._table_schema(), stage)
        spelled = replace(schema, spelling=self._public.spelling(schema.spelling))
        private = self._files["private"]
        splits = {split: self._rows(split, spelled, stage) for split in SPLITS}
        columns = list(schema.names)

        def cells_of(split: str) -> NDArray[np.uint64]:
            return cell_numbers(self._files[split].rows(columns), spelled)

        return dataset_of(
            splits,
            spelled,
            Named(self._named("group"), self.id),
            cells_of=cells_of,
            name=self.name,
            kind="features",
            label_names=self._label_form.names,
            preprocessing=schema,
            notes=self._notes(),
            seed=self.seed,
            private_cells=private_cells(private.rows(), of_text=private.is_text),
        )

    def private_records(self) -> PrivateRecords:
        """The file of private records alone, for a holder whose queries come from elsewhere; every holder's schema."""
        rule = "the file that pate-schema wrote of the public samples, the same at every place"
        require(self.schema is not None, "data.schema", self.schema, rule)
        require(
            self.private is not None,
            "data.private",
            self.private,
            "the file of the private records",
        )
        return self.completed()._private_records()

    def _private_records(self) -> PrivateRecords:
        require(len(self.labels) > 0, "data.labels", list(self.labels), _LABELS)
        require(self.budget is None, "data.budget", self.budget, UNIFORM_RULE)
        require(
            not isinstance(self.group, tuple),
            "data.group",
            list(self._named("group")),
            UNIFORM_RULE,
        )
        schema = TableSchema.load(Path(self.schema or "")).without(self._no_features)
        file = self._files["private"]
        spelling = file.spelling(schema.spelling)
        read = self._rows("private", replace(schema, spelling=spelling))
        ids = read.numbers if self.id is None else People.of([read.ids], spelling).numbers[0]
        people = None if self.group is None else People.of(read.groups, spelling)
        groups = ids if people is None else people.groups()[0]
        alike = () if people is None else tuple(people.remarks(f"data.group={self.group}"))
        private_words = private_cells(file.rows(), of_text=file.is_text)
        records = Split(read.inputs, read.labels, ids, groups)
        notes = (*self._notes(), *alike, *unlike_public("private", schema.columns, read))
        return PrivateRecords(
            self.name,
            self._label_form.names,
            records,
            schema,
            private_words,
            notes=notes,
            group_unit=Named(self._named("group"), self.id).group_unit,
        )

    def require_settings(self) -> None:
        """Raises unless settings name labels and three files, or one with a column of splits; no file is opened."""
        paths = {split: getattr(self, split) for split in SPLITS}
        if self.path is not None:
            good = not any(paths.values()) and self.split is not None
            require(
                good,
                "data.path",
                self.path,
                f"data.split=COLUMN and no other file beside it: {_FILES}",
            )
        if self.path is None:
            for split, path in paths.items():
                require(path is not None and self.split is None, f"data.{split}", path, _FILES)
            require_files_apart({split: str(path) for split, path in paths.items()})
        labels = self.labels or self._said.labels
        require(len(labels) > 0, "data.labels", list(labels), _LABELS)

    def public_schema(self) -> TableSchema:
        """What the public records say of all columns that settings do not call something else."""
        return self._with_vectors(self._public_reading[0])

    def _with_vectors(self, schema: TableSchema, stage: StageOpener = unwatched) -> TableSchema:
        if not self.text:
            return schema
        return schema.with_text_vectors(
            self._public.read(list(schema.names)),
            self.text,
            self.text_fit or TfidfVectors.fit,
            stage,
        )

    def public_remarks(self) -> tuple[str, ...]:
        """Lines for the owner on public columns that may be meant otherwise, on units, and on the group."""
        schema, said = self._public_reading
        numbers = [column for column in schema.columns if isinstance(column, NumberColumn)]
        flags = [column.name for column in numbers if column.power == 1 != column.unit]
        bent = [column.name for column in numbers if column.power != 1]
        units = []
        if flags:
            units.append(
                f"data: {_few(flags)}: two numbers alone, such as 0 and 1, which are taken as they are"
            )
        if bent:
            reason = "a few numbers far larger than all others, which a power brings closer to them"
            units.append(f"data: {_few(bent)}: {reason}; the schema has it as power")
        return (*(line for _, line in said), *units, *[UNGROUPED] * (self.group is None))

    @cached_property
    def _public_reading(self) -> tuple[TableSchema, tuple[tuple[str, str], ...]]:
        """The schema that the public records give, and by the names of columns what is to be said of them."""
        file = self._public
        self._wanted("public")
        features = [name for name in file.names if name not in self._no_features]
        require(len(features) > 0, file.name, file.path, "a column that is no label, group or id")
        for role in ("category", "text"):
            for column in self._named(role):
                require_column(f"data.{role}", column, features, f"{file.name} that is a feature")
        table = file.read(features)
        spelling = file.spelling()
        schema = TableSchema.fit(table, codes=self.category, texts=self.text, spelling=spelling)
        features_table = table.select([name for name in features if name not in self.text])
        return schema, tuple(
            remarks_on_columns(features_table, schema, codes=self.category, group=self._owners)
        )

    def _notes(self) -> tuple[str, ...]:
        form = self._label_form
        names = ", ".join(self._label_form.names)
        words = [
            f"data.labels={label}: {yes} is 1, {no} is 0"
            for label, (no, yes) in form.truths.items()
        ]
        if self.labels == (form.column,):
            words.append(
                f"data.labels={form.column}: the labels that the public file names: {names}"
            )
        if form.unknown:
            unknown_labels = (
                f"{form.unknown} rows name a label that is none of {names}: it is left out"
            )
            words.append(f"data.labels={form.column}: {unknown_labels}")
        words += dict.fromkeys(
            line for file in self._files.values() if (line := file.encoding_remark()) is not None
        )
        return (
            *words,
            *(self.public_remarks() if self.schema is None else [UNGROUPED] * (self.group is None)),
        )

    @cached_property
    def _label_form(self) -> Labels:
        if self.label_separator is None or not self.labels:
            hint = (
                LABEL_HINT
                if self.true
                else f"{LABEL_HINT}; data.true=WORD names another word for yes"
            )
            return Labels(self.labels, self._truths(), hint)
        column_names = [name for file in self._files.values() for name in file.names]
        column = self.labels[0]
        names = self.labels[1:]
        separator = self.label_separator
        file = self._files.get("public")
        named = dict[str, set[str]]()
        if file is not None and not (names and column in column_names):
            whole_file = replace(file, whole_lists=tuple(file.names))
            for name, texts in _words_in(
                whole_file, [column] if column in column_names else file.names
            ).items():
                named[name] = self._label_names(
                    name, texts, may_be_other=column not in column_names
                )
        # the public column whose cells name the labels of the setting and no other
        if column not in column_names:
            names = self.labels
            wanted_labels = {canonical_word(label) for label in names}
            wanted_labels |= {word for label in names for word in names_in(label, separator)}
            column, *other_columns = [
                name for name, words in named.items() if words and words <= wanted_labels
            ] or [""]
            rule = "first the column that names them, behind it the labels: [COLUMN,NAME,NAME]"
            require(
                bool(column) and not other_columns,
                "data.labels",
                f"[{','.join(self.labels)}]",
                rule,
            )
        names = names or tuple(sorted(named.get(column, ())))
        rule = f"the labels too, [{column},NAME,NAME]: the public file names none, and those of private rows are secret"
        require(len(names) > 0, "data.labels", f"[{column}]", rule)
        clash = next((name for name in names if name in column_names), None)
        require(
            clash is None,
            "data.labels",
            clash,
            "a label that is called otherwise than every column",
        )
        return Labels(names, column=column, separator=separator)

    def _label_names(self, column: str, texts: set[str], *, may_be_other: bool) -> set[str]:
        """The names in a column of the public file; none where it may be another column and has no names."""
        separator = str(self.label_separator)
        try:
            names = {name for text in texts for name in names_in(text, separator)}
        except NoNames:
            if may_be_other:
                return set()
            raise InvalidValue(
                f"data.public.{column}", rule=Labels((), separator=separator).rule
            ) from None
        if not may_be_other and are_bits(texts):
            rule = "names of labels, found lists of 0 and 1: a column for each label says the same"
            raise InvalidValue(f"data.public.{column}", rule=rule)
        return names

    def _truths(self) -> dict[str, tuple[str | None, str]]:
        """The words for no and yes of each label that has the word for yes somewhere."""
        if self.true is None or not self.labels:
            return {}
        yes = label_word(self.true)
        words = {label: set[str]() for label in self.labels}
        for file in self._files.values():
            for label, said in _words_in(file, self.labels).items():
                words[label] |= set(map(label_word, said))
        found = {label: sorted(said - {yes}) for label, said in words.items() if yes in said}
        require(
            len(found) > 0, "data.true", self.true, "a word of some label's column, and none has it"
        )
        for label, other_words in found.items():
            rule = f"{self.true} and one other word in {label}, it has {len(other_words)} others"
            require(len(other_words) < 2, "data.true", self.true, rule)
        return {label: (next(iter(other_words), None), yes) for label, other_words in found.items()}

    def _table_schema(self) -> TableSchema:
        if self.schema is None:
            schema, lines = self._public_reading
            first_lines = dict(reversed(lines))  # of each column
            schema.require_usable(self._public.name, first_lines, self.text, group=self._owners)
            return schema
        for role in ("category", "text"):
            rule = f"none beside data.schema, whose kinds hold; pate-schema {role}=[…] writes them there"
            require(not self._named(role), f"data.{role}", list(self._named(role)), rule)
        schema = TableSchema.load(Path(self.schema)).without(self._no_features)
        expected = {*schema.names, *self._no_features}
        for name in self._public.names:
            if name not in expected:
                rule = f"no other column in {self._public.name} than it lists, and there is {name}"
                raise InvalidValue(
                    "data.schema", self.schema, rule=f"{rule}; {ways_out([name], self._owners)}"
                )
        schema.require_usable(self._public.name, group=self._owners)
        return schema

    @cached_property
    def _no_features(self) -> set[str]:
        other_roles = {
            column for role in ("drop", "group", "budget", "id") for column in self._named(role)
        }
        # Columns that the schema's file leaves out stay so, also where settings name other labels or another id.
        other_roles |= {
            *self._said.drop,
            *self._said.labels,
            *([] if self._said.id is None else [self._said.id]),
        }
        return {*self._label_form.names, *self._label_form.columns, *other_roles}

    @cached_property
    # of each split that settings name: its own, or the rows of one for all
    def _files(self) -> dict[str, TableFile]:
        given = {split: getattr(self, split) for split in SPLITS}
        if self.path is not None:
            path = Path(self.path)
            encoding = str(self.encoding)
            return {
                split: TableFile(
                    path,
                    "data.path",
                    encoding,
                    self.decimal,
                    self.thousands,
                    self.missing,
                    self.split,
                    split,
                    date_order=self.date_order,
                    first_year=self.first_year,
                )
                for split in SPLITS
            }
        encodings = (
            self.encoding
            if isinstance(self.encoding, Mapping)
            else dict.fromkeys(SPLITS, self.encoding)
        )
        return {
            split: TableFile(
                Path(path),
                f"data.{split}",
                encodings.get(split, UTF_8),
                self.decimal,
                self.thousands,
                self.missing,
                date_order=self.date_order,
                first_year=self.first_year,
            )
            for split, path in given.items()
            if path
        }

    @property
    def _public(self) -> TableFile:
        require("public" in self._files, "data.public", None, "the file of the public records")
        return self._files["public"]

    def _wanted(self, split: str) -> list[str]:
        """The columns that settings name and a file has to have, or raises: a public one may have no label at all."""
        file = self._files[split]
        folded_names = {name.casefold() for name in self._files[split].names}
        named = {
            role: self._named(role) for role in ("group", "id", *["budget"] * (split == "private"))
        }
        labels = self._label_form.columns
        if split != "public" or any(name.casefold() in folded_names for name in labels):
            named = {"labels": labels, **named}
        for role, columns in named.items():
            for column in columns:
                is_whose = role == "group" and split != "private"
                remedy = "; each person there needs a number, too" if is_whose else ""
                require_column(f"data.{role}", column, file.names, file.name, remedy=remedy)
        return [column for columns in named.values() for column in columns]

    @property
    def _owners(self) -> str | None:
        """The columns that say whose a row is, for messages."""
        return ", ".join(self._named("group")) or None

    def _named(self, role: str) -> tuple[str, ...]:
        role_columns = getattr(self, role) or ()
        return (role_columns,) if isinstance(role_columns, str) else role_columns

    def _require_columns(self) -> None:
        """Raises unless each file has the columns that settings name, and those of the public file."""
        column_names = list(
            dict.fromkeys(name for file in self._files.values() for name in file.names)
        )
        for column in self.drop:
            require_column("data.drop", column, column_names, "a file")
        names_of = {split: frozenset(file.names) for split, file in self._files.items()}
        for split, file in self._files.items():
            self._wanted(split)
            for name in file.names:
                lacking = next((split for split in SPLITS if name not in names_of[split]), None)
                if lacking is not None and name not in self._no_features:
                    rule = f"it in every file, data.{lacking} lacks it; {ways_out([name], self._owners)}"
                    raise InvalidValue(f"{file.name}.{name}", rule=rule)

    def _rows(self, split: str, schema: TableSchema, stage: StageOpener = unwatched) -> Rows:
        labels = self._label_form.column
        file = self._files[split]
        # another file object reads the names of columns, and the encoding, anew
        if labels is not None:
            file = replace(file, whole_lists=(labels,))
        columns = list(dict.fromkeys((*schema.names, *self._wanted(split))))
        require_columns(file.name, file.names, columns)
        name = file.name if self.path is None else f"data.path, {split}"
        batches = file.rows(columns)
        size = file.path.stat().st_size // 1000
        roles = Named(self._named("group"), self.id, self.budget if split == "private" else None)
        with (
            stage(f"texts of {split} records, kB", size)
            if schema.texts
            else unwatched("", 0) as advance
        ):
            batches = gathered(batches, size, advance) if schema.texts else batches
            return Rows(batches, schema, self._label_form, roles, name=name, split=split)


def _words_in(file: TableFile, names: Iterable[str]) -> dict[str, set[str]]:
    """The words in columns of a file, as far as it has them."""
    file_columns = frozenset(file.names)
    words = {name: set[str]() for name in names if name in file_columns}
    for _, batch in file.rows([*words]) if words else ():
        known_cells = with_missing(batch, file.spelling())
        for name, cell_words in words.items():
            cell_words.update(as_texts(known_cells.column(name)).drop_null().unique().to_pylist())
    return words
