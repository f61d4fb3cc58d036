"""The rows of one split of a table: features, labels, the words that name records and groups, and their digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import SPLITS, Split
from pate.data.table.cells import (
    USUAL,
    Spelling,
    arrow,
    as_numbers,
    as_texts,
    as_values,
    column_name,
    counts_of,
    missing_in,
    one_spelling,
    with_points,
)
from pate.data.table.schema import TableSchema
from pate.files.arrays import Spilled
from pate.validation import InvalidValue, require

_TRUE, _FALSE = ("true", "yes"), ("false", "no")  # in small or capital letters
_UNSEEN = r"^[\s\p{Z}\p{C}]*$"
_LONGEST_WORD = 20
LABEL_HINT = "; yes and no, true and false are taken too, an empty cell is not"

_BETWEEN, _GONE = "\x1f", "\x00"


@dataclass(frozen=True)
class Roles:
    """Which columns are what; those of `drop` are not read."""

    labels: tuple[str, ...]
    group: str | None = None  # whose rows belong together, such as a person; None where each row is by itself
    id: str | None = None  # the name of a record; None for the number of its row
    split: str | None = None  # private, public or test; None where each is a file of its own
    drop: tuple[str, ...] = ()
    # Of a label whose words are neither 0 and 1 nor yes and no, those for no and for yes, as `label_word` gives them;
    # None for a word of no that does not occur.
    truths: Mapping[str, tuple[str | None, str]] = field(default_factory=dict)
    true_setting: str | None = None  # that names a word for yes, for messages

    @property
    def needed(self) -> tuple[str, ...]:
        """All columns that are read and are no features."""
        return (*self.labels, *(name for name in (self.group, self.id, self.split) if name is not None))

    @property
    def no_features(self) -> tuple[str, ...]:
        """All that are no features."""
        return (*self.needed, *self.drop)


@dataclass(frozen=True, eq=False)
class Rows:
    """One split."""

    inputs: NDArray[np.float32]  # [n, d]; of a large table a read-only `np.memmap`
    labels: NDArray[np.bool_]  # [n, L]
    groups: Any  # pyarrow words [n], or None
    ids: Any  # likewise
    numbers: NDArray[np.int64]  # [n], the rows of the file, from 0
    labeled: bool = True  # of a public split labels may be missing in all rows, and are False then

    @classmethod
    def read(
        cls,
        batches: Iterable[Any],
        schema: TableSchema,
        roles: Roles,
        *,
        name: str,
        split: str,
        spelling: Spelling = USUAL,
    ) -> Rows:
        """Reads the rows of a split, a batch at a time; features are held in memory, or in a file where they are many.

        Raises:
            InvalidValue: cells that are not what the schema says, labels that are not 0 or 1, rows without a group or
                id, no row; each with column and count.
        """
        reading = _Reading(schema, roles, name, split, spelling)
        for batch in batches:
            reading.add(batch)
        return reading.rows()


class _Reading:
    """What was read so far."""

    def __init__(self, schema: TableSchema, roles: Roles, name: str, split: str, spelling: Spelling) -> None:
        self.schema, self.roles, self.name, self.split, self.spelling = schema, roles, name, split, spelling
        self.inputs, self.labels = Spilled(), Spilled()
        self.words: dict[str, list[Any]] = {"group": [], "id": []}
        self.numbers: list[NDArray[np.int64]] = []
        self.count = 0  # rows of this split
        self.row = 0  # of the file
        self.wrong = np.zeros((2, len(schema.columns)), np.int64)  # counts, first rows
        self.wrong_labels = np.zeros((2, len(roles.labels)), np.int64)
        self.label_words: dict[str, set[str]] = {}  # of labels with wrong cells
        self.labeled = split != "public"

    def add(self, batch: Any) -> None:
        """A batch of the file."""
        numbers = np.arange(self.row, self.row + batch.num_rows)
        self.row += batch.num_rows
        if self.roles.split is not None:
            inside = as_texts(batch.column(self.roles.split))
            mask = arrow().compute.equal(inside, self.split).fill_null(False)
            batch, numbers = batch.filter(mask), numbers[mask.to_numpy(zero_copy_only=False)]
        if not batch.num_rows:
            return
        inputs, wrong = self.schema.encode(batch, self.spelling)
        names = batch.column_names
        batch = self.spelling.known(batch.select([name for name in dict.fromkeys(self.roles.needed) if name in names]))
        _count(self.wrong, wrong, numbers)
        found = [name for name in self.roles.labels if name in batch.column_names]
        if not self.labeled:
            self.labeled = any(not missing_in(as_texts(batch.column(name))).all() for name in found)
        there = found == list(self.roles.labels)
        nothing = np.zeros((batch.num_rows, len(self.roles.labels)), np.bool_)
        known = (self.roles.truths, self.spelling)
        labels, wrong = labels_of(batch, self.roles.labels, *known) if there else (nothing, nothing)
        _count(self.wrong_labels, wrong, numbers)
        for label in np.array(self.roles.labels)[wrong.any(axis=0)].tolist():
            self.label_words.setdefault(label, set()).update(counts_of(as_texts(batch.column(label))))
        self.inputs.append(inputs)
        self.labels.append(labels)
        self.numbers.append(numbers)
        for role, words in self.words.items():
            if (column := getattr(self.roles, role)) is not None:
                words.append(as_texts(batch.column(column)))
        self.count += len(inputs)

    def rows(self) -> Rows:
        """All of them, if nothing is wrong."""
        if not self.count:
            rule = "at least one row" if self.roles.split is None else f"rows with {self.roles.split}={self.split}"
            raise InvalidValue(f"{self.name}: expected {rule}, the table has none")
        self.schema.require_right(self.name, self.wrong[0], self.wrong[1], self.count, self.spelling)
        for label, count, row in zip(self.roles.labels, *self.wrong_labels.tolist(), strict=True):
            if count and self.labeled:
                found = f"{count} of {self.count} rows hold something else, row {row + 1} is the first"
                rule = f"0 or 1 in a label's column, {found}{LABEL_HINT}{self._two_words(label)}"
                raise InvalidValue(f"{self.name}.{label}: expected {rule}")
        words = {role: self._joined(role) for role in self.words}
        numbers = np.concatenate(self.numbers)
        inputs, labels = self.inputs.whole(), self.labels.whole()
        return Rows(inputs, labels, words["group"], words["id"], numbers, self.labeled)

    def _two_words(self, label: str) -> str:
        """What makes labels of a column's words where there are two: they are the names of no and yes, no secret."""
        words = sorted(self.label_words[label])
        short = all(len(word) <= _LONGEST_WORD and word.isprintable() for word in words)
        if self.roles.true_setting is None or not 0 < len(words) <= 2 or not short:
            return ""
        said = f"its words are {' and '.join(words)}" if len(words) == 2 else f"its only word is {words[0]}"
        return f"; {said}: {' or '.join(f'{self.roles.true_setting}={word}' for word in words)} names the one for yes"

    def _joined(self, role: str) -> Any:
        if (column := getattr(self.roles, role)) is None:
            return None
        words = arrow().chunked_array(self.words[role])
        unseen = arrow().compute.sum(arrow().compute.match_substring_regex(words, _UNSEEN)).as_py() or 0
        if words.null_count + unseen:
            found = f"{words.null_count + unseen} of {self.count} rows have none"
            raise InvalidValue(f"{self.name}.{column}: expected a value in each row, as data.{role}, {found}")
        return words


def column_names(name: str, values: Any) -> tuple[str, ...]:
    """A setting that lists different columns, as a tuple, or raises."""
    if isinstance(values, str):
        raise InvalidValue(f"{name}={values}: expected a list of columns: {name}=[{values}]")
    good = isinstance(values, (list, tuple)) and all(isinstance(each, str) for each in values)
    require(good, name, values, f"a list of columns: {name}=[NAME,NAME]")
    require(len(set(values)) == len(values), name, list(values), "each column once")
    return tuple(map(column_name, values))


def numbered(columns: list[Any], spelling: Spelling = USUAL) -> list[NDArray[np.int64]]:
    """A number for each word, the same for one value however it is spelled, see `one_spelling`.

    Those of the first column do not depend on the others.
    """
    pa = arrow()
    coded = pa.chunked_array([chunk for column in columns for chunk in column.chunks]).dictionary_encode()
    chunks = coded.unify_dictionaries().chunks
    values = as_values(chunks[-1].dictionary, spelling).dictionary_encode(null_encoding="encode")
    number_of = values.indices.to_numpy().astype(np.int64)
    numbers = np.concatenate([number_of[chunk.indices.to_numpy()] for chunk in chunks])
    return np.split(numbers, np.cumsum([len(column) for column in columns])[:-1])


def owners_of(rows: Rows, spelling: Spelling = USUAL) -> dict[str, frozenset[bytes]]:
    """Who is in a split: ids and groups in one spelling each, by kind, as far as there are columns for them."""
    columns = {"id": rows.ids, "group": rows.groups}
    return {
        kind: frozenset(
            str(word).encode() for word in as_values(column.unique(), spelling).to_pylist() if word is not None
        )
        for kind, column in columns.items()
        if column is not None
    }


def require_apart(role: str, column: str | None, ids: list[NDArray[np.int64]]) -> None:
    """Raises where a group or record, `role`, is in two splits, whose ids are given."""
    for first, second in ((0, 1), (0, 2), (1, 2)):
        shared = len(np.intersect1d(ids[first], ids[second]))
        if shared:
            both = f"{SPLITS[first]} and {SPLITS[second]}"
            raise InvalidValue(f"data.{role}={column}: expected each {column} in one split, {shared} are in {both}")


def three_splits(
    rows: Mapping[str, Rows],
    *,
    group: str | None,
    id: str | None,
    seed: int,
    spelling: Spelling = USUAL,
    shown: Callable[[NDArray[Any]], Any] = lambda inputs: inputs,
) -> tuple[dict[str, Split], NDArray[Any]]:
    """The splits by name, public records in a random order, and what those are called where they are published.

    Args:
        rows: of each of `SPLITS`.
        group: the column that says which rows belong together; None where each is by itself.
        id: the column that names each; None for the numbers of rows, with the split in the upper bits.
        seed: of the order.
        spelling: of groups and ids.
        shown: makes inputs of those that were read.

    Raises:
        InvalidValue: an id twice, or a group or record in two splits.
    """
    if id is None:
        ids = [rows[split].numbers | (place << 48) for place, split in enumerate(SPLITS)]
    else:
        ids = numbered([rows[split].ids for split in SPLITS], spelling)
        for split, numbers in zip(SPLITS, ids, strict=True):
            if repeated := len(numbers) - len(np.unique(numbers)):
                found = f"{repeated} of {len(numbers)} rows of {split} have that of another row"
                raise InvalidValue(f"data.id={id}: expected another id in each row, {found}")
        require_apart("id", id, ids)
    groups = ids
    if group is not None:
        groups = numbered([rows[split].groups for split in SPLITS], spelling)
        require_apart("group", group, groups)
    parts = {
        split: Split(shown(rows[split].inputs), rows[split].labels, record_ids, group_ids)
        for split, record_ids, group_ids in zip(SPLITS, ids, groups, strict=True)
    }
    public = rows["public"]
    order = np.random.default_rng(seed).permutation(len(public.labels))
    names = public.numbers if public.ids is None else np.array(public.ids.to_pylist(), np.str_)
    return parts | {"public": parts["public"].take(order)}, names[order]


def label_word(word: str) -> str:
    """A word of a label's column as words are compared there: one spelling, in small letters."""
    return one_spelling(word).casefold()


def labels_of(
    batch: Any,
    names: tuple[str, ...],
    truths: Mapping[str, tuple[str | None, str]] | None = None,
    spelling: Spelling = USUAL,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Labels `[n, L]` of a pyarrow table that has their columns, and which cells are neither 0 nor 1."""
    labels = np.zeros((batch.num_rows, len(names)), np.bool_)
    wrong = np.zeros_like(labels)
    for place, name in enumerate(names):
        column = batch.column(name)
        if truths and name in truths:
            codes = _coded(column, truths[name])
            labels[:, place], wrong[:, place] = codes == 1, codes < 0
            continue
        cells = as_numbers(column, spelling)
        labels[:, place] = cells.values == 1
        wrong[:, place] = cells.missing | cells.wrong | ~np.isin(cells.values, (0, 1))
        if wrong[:, place].any():
            codes = _coded(column, (*_FALSE, *_TRUE))
            said = wrong[:, place] & (codes >= 0)
            labels[said, place] = codes[said] >= len(_FALSE)
            wrong[said, place] = False
    return labels, wrong


def _coded(column: Any, words: tuple[str | None, ...]) -> NDArray[np.int64]:
    """The place of each cell among words `[n]`, -1 where it is none of them."""
    coded = as_texts(column).dictionary_encode()
    place_of = {word: place for place, word in enumerate(words) if word is not None}
    places = np.array([place_of.get(label_word(word), -1) for word in coded.dictionary.to_pylist()], np.int64)
    indices = coded.indices.fill_null(len(places)).to_numpy(zero_copy_only=False)
    return np.asarray(np.append(places, -1)[indices], np.int64)


def _count(found: NDArray[np.int64], wrong: NDArray[np.bool_], numbers: NDArray[np.int64]) -> None:
    """Adds a batch's wrong cells: how many of each column, and the first row with one."""
    first = numbers[wrong.argmax(axis=0)]
    new = wrong.any(axis=0) & (found[0] == 0)
    found[1][new] = first[new]
    found[0] += wrong.sum(axis=0)


class LabelSets:
    """A column of words that name all labels of a record, such as flu;cough. An empty cell names none.

    Attributes:
        column: its name.
        names: of the labels, from public knowledge: a list, or the public file.
        separator: what stands between two labels.
        unknown: how often cells named a label that `names` lacks; it counts for nothing.
    """

    def __init__(self, column: str, names: tuple[str, ...], separator: str) -> None:
        self.column, self.names, self.separator, self.unknown = column, names, separator, 0

    def unfolded(self, batch: Any, *, count: bool = False) -> Any:
        """A batch with a column of 0 and 1 for each label in the column's place; as it is where it has no such column.

        Args:
            batch: a pyarrow table.
            count: whether cells that name an unknown label are counted.
        """
        if self.column not in batch.column_names:
            return batch
        pa, texts = arrow(), as_texts(batch.column(self.column)).dictionary_encode()
        place_of = {one_spelling(name): place for place, name in enumerate(self.names)}
        said = [label_words(text, self.separator) for text in texts.dictionary.to_pylist()]
        known = np.zeros((len(said) + 1, len(self.names)), np.int8)
        for row, words in enumerate(said):
            known[row, [place_of[word] for word in words if word in place_of]] = 1
        rows = texts.indices.fill_null(len(said)).to_numpy(zero_copy_only=False)
        if count:
            strange = np.array([*(any(word not in place_of for word in words) for words in said), False], np.int64)
            self.unknown += int(strange[rows].sum())
        batch = batch.drop_columns([self.column])
        for place, name in enumerate(self.names):
            batch = batch.append_column(name, pa.array(known[rows, place]))
        return batch


def label_words(text: str, separator: str) -> list[str]:
    """The labels that a cell names, each in one spelling."""
    return [word for part in text.split(separator) if (word := one_spelling(part))]


def private_cells(batches: Iterable[Any], *, split: str | None, of_text: bool = False) -> str:
    """SHA-256 in hexadecimal of all cells of the private rows, in whatever order they stand. Covered by no epsilon.

    Args:
        batches: of all columns of the file.
        split: the column that says private, public or test; None where all rows are private.
        of_text: whether the cells are words of a CSV file: a decimal comma is a point then, whatever settings say of
            them, so that no setting makes the records new ones.
    """
    from pandas.util import hash_array  # loads slowly

    pa = arrow()
    names: list[str] = []
    rows = []
    for batch in batches:
        if split is not None:
            said = as_texts(batch.column(split))
            batch = batch.filter(pa.compute.equal(said, "private").fill_null(False))
        names = sorted(batch.column_names)
        texts = [as_texts(batch.column(name)).fill_null(_GONE) for name in names]
        if of_text:
            texts = [with_points(each) for each in texts]
        lines = pa.compute.binary_join_element_wise(*texts, _BETWEEN)
        rows.append(hash_array(np.array(lines.to_pylist(), dtype=object), categorize=False))
    digest = hashlib.sha256(_BETWEEN.join(names).encode())
    digest.update(np.sort(np.concatenate(rows)).astype("<u8").tobytes())
    return digest.hexdigest()
