"""The rows of one split of a table: features, labels, the words that name records and groups, and their digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import SPLITS, SharedRecords, Split, linked
from pate.data.table import cells
from pate.data.table.cells import USUAL, Spelling, arrow, as_texts, one_spelling
from pate.data.table.schema import TableSchema
from pate.files.arrays import Spilled
from pate.validation import InvalidValue, as_setting, require

_TRUE, _FALSE = ("true", "yes"), ("false", "no")  # in small or capital letters
_UNSEEN = r"^[\s\p{Z}\p{C}]*$"
_LONGEST_WORD = 20
_GATHERED = 2**25  # bytes of texts in memory
LABEL_HINT = "; yes and no, true and false are taken too, an empty cell is not: leave its row out"
_BETWEEN, _GONE = "\x1f", "\x00"


@dataclass(frozen=True)
class Roles:
    """Which columns are what."""

    labels: tuple[str, ...]
    group: tuple[str, ...] = ()  # whose rows belong together, such as a person; none where each row is by itself
    id: str | None = None  # the name of a record; None for the number of its row
    split: str | None = None  # private, public or test; None where each is a file of its own
    # Of a label whose words are neither 0 and 1 nor yes and no, those for no and for yes, as `label_word` gives them;
    # None for a word of no that does not occur.
    truths: Mapping[str, tuple[str | None, str]] = field(default_factory=dict)
    true_setting: str | None = None  # that names a word for yes, for messages
    budget: str | None = None  # the class of a private row's group


class Rows:
    """One split, read a batch at a time; raises with column and count where cells, labels, groups or ids are wrong."""

    def __init__(
        self, batches: Iterable[Any], schema: TableSchema, roles: Roles, name: str, split: str, spelling: Any = USUAL
    ) -> None:
        self._schema, self._roles, self._name, self._split, self._spelling = schema, roles, name, split, spelling
        self._blocks = Spilled(), Spilled()  # of inputs, of labels
        named = (*roles.group, roles.id, roles.budget if split == "private" else None)
        self._words: dict[str, list[Any]] = {column: [] for column in named if column is not None}
        self._numbers = [np.zeros(0, np.int64)]
        self._wrong = np.zeros((2, len(schema.columns)), np.int64)  # counts, first rows
        self._wrong_labels = np.zeros((2, len(roles.labels)), np.int64)
        self._label_words: dict[str, set[str]] = {}  # of labels with wrong cells
        self.labeled = split != "public"  # public labels may be missing in all rows, and are False then
        done = 0
        for batch in batches:
            self._add(batch, np.arange(done, done + batch.num_rows))
            done += batch.num_rows
        self.numbers = np.concatenate(self._numbers)  # of the rows of the file, from 0, [n]
        self._require_right()
        self.groups = [self._joined("group", column) for column in roles.group]  # words [n], of each column
        self.ids, self.budgets = self._joined("id", roles.id), self._joined("budget", roles.budget)  # words or None
        # features [n, d], of a large table a read-only `np.memmap`, and bits [n, L]
        self.inputs, self.labels = (blocks.whole() for blocks in self._blocks)

    def _add(self, batch: Any, numbers: NDArray[np.int64]) -> None:
        """The rows of this split in a batch of the file, whose rows have these numbers."""
        roles = self._roles
        if roles.split is not None:
            mask = arrow().compute.equal(as_texts(batch.column(roles.split)), self._split).fill_null(False)
            batch, numbers = batch.filter(mask), numbers[mask.to_numpy(zero_copy_only=False)]
        if not batch.num_rows:
            return
        inputs, wrong = self._schema.encode(batch, self._spelling)
        _count(self._wrong, wrong, numbers)
        wanted = [name for name in dict.fromkeys((*roles.labels, *self._words)) if name in batch.column_names]
        batch = self._spelling.known(batch.select(wanted))
        labels = np.zeros((batch.num_rows, len(roles.labels)), np.bool_)
        there = [name for name in roles.labels if name in batch.column_names]
        if there == list(roles.labels):
            labels, wrong = labels_of(batch, roles.labels, roles.truths, self._spelling)
            _count(self._wrong_labels, wrong, numbers)
            for label in np.array(roles.labels)[wrong.any(axis=0)].tolist():
                said = cells.counts_of(as_texts(batch.column(label)))
                self._label_words.setdefault(label, set()).update(said)
        if not self.labeled:
            self.labeled = any(not cells.missing_in(as_texts(batch.column(name))).all() for name in there)
        self._numbers.append(numbers)
        for blocks, block in zip(self._blocks, (inputs, labels), strict=True):
            blocks.append(block)
        for column, words in self._words.items():
            words.append(as_texts(batch.column(column)))

    def _require_right(self) -> None:
        count, split = len(self.numbers), self._roles.split
        if not count:
            rule = "at least one row" if split is None else f"rows with {split}={self._split}"
            raise InvalidValue(f"{self._name}: expected {rule}, the table has none")
        self._schema.require_right(self._name, self._wrong, count, self._spelling)
        for label, wrong, row in zip(self._roles.labels, *self._wrong_labels.tolist(), strict=True):
            if wrong and self.labeled:
                found = f"{wrong} of {count} rows hold something else, row {row + 1} is the first"
                words, setting, hint = sorted(self._label_words[label]), self._roles.true_setting, ""
                short = all(len(word) <= _LONGEST_WORD and word.isprintable() for word in words)
                told = setting is None or label in self._roles.truths
                if not told and 0 < len(words) <= 2 and short:  # the names of no and yes, which are no secret
                    said = f"its words are {' and '.join(words)}" if len(words) == 2 else f"its only word is {words[0]}"
                    hint = f"; {said}: {' or '.join(f'{setting}={word}' for word in words)} names the one for yes"
                rule = f"0 or 1 in a label's column, {found}{LABEL_HINT}{hint}"
                raise InvalidValue(f"{self._name}.{label}: expected {rule}")

    def _joined(self, role: str, column: str | None) -> Any:
        if column not in self._words:
            return None
        words = arrow().chunked_array(self._words[column])
        unseen = arrow().compute.sum(arrow().compute.match_substring_regex(words, _UNSEEN)).as_py() or 0
        if words.null_count + unseen:
            found = f"{words.null_count + unseen} of {len(words)} rows have none"
            raise InvalidValue(f"{self._name}.{column}: expected a value in each row, as data.{role}, {found}")
        return words


def gathered(batches: Iterable[Any], size: int, advance: Callable[[int], object]) -> Iterator[Any]:
    """Batches of a file with texts, so many together that all cores have some; tells how many kB are done, at most."""
    waiting, done = list[Any](), 0
    for batch in batches:
        waiting.append(batch)
        if sum(each.nbytes for each in waiting) >= _GATHERED:
            yield (whole := arrow().concat_tables(waiting))
            waiting, done = [], done + whole.nbytes // 1000
            advance(min(done, size))
    if waiting:
        yield arrow().concat_tables(waiting)
        advance(size)


def _count(found: NDArray[np.int64], wrong: NDArray[np.bool_], numbers: NDArray[np.int64]) -> None:
    """Adds a batch's wrong cells: how many of each column, and the first row with one."""
    first = numbers[wrong.argmax(axis=0)]
    new = wrong.any(axis=0) & (found[0] == 0)
    found[1][new] = first[new]
    found[0] += wrong.sum(axis=0)


def column_names(name: str, values: Any) -> tuple[str, ...]:
    """A setting that lists different columns, as a tuple, or raises."""
    if isinstance(values, str):
        raise InvalidValue(f"{name}={values}: expected a list of columns: {as_setting(name, [values])}")
    good = isinstance(values, (list, tuple)) and all(isinstance(each, str) for each in values)
    require(good, name, values, f"a list of columns: '{name}=[NAME,NAME]'")
    require(len(set(values)) == len(values), name, list(values), "each column once")
    return tuple(map(cells.column_name, values))


def owners_of(rows: Rows, spelling: Spelling = USUAL) -> dict[str, frozenset[bytes]]:
    """Who is in a split: ids and groups in one spelling each, by kind, as far as there are columns for them."""

    def words(columns: list[Any]) -> frozenset[bytes]:
        values = (cells.as_values(column.unique(), spelling).to_pylist() for column in columns)
        return frozenset(str(word).encode() for column in values for word in column if word is not None)

    columns = {"id": [rows.ids] if rows.ids is not None else [], "group": rows.groups}
    return {kind: words(named) for kind, named in columns.items() if named}


def budgets_of(rows: Rows, spelling: Spelling = USUAL) -> NDArray[np.str_] | None:
    """The budget class of each private row, in one spelling; None without a column for it."""
    if rows.budgets is None:
        return None
    coded = rows.budgets.combine_chunks().dictionary_encode()
    words = np.array([str(word) for word in cells.as_values(coded.dictionary, spelling).to_pylist()])
    return np.asarray(words[coded.indices.to_numpy()], np.str_)


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
    group: tuple[str, ...],
    id: str | None,
    seed: int,
    spelling: Spelling = USUAL,
    shown: Callable[[NDArray[Any]], Any] = lambda inputs: inputs,
) -> tuple[dict[str, Any], NDArray[Any]]:
    """The splits by name and `shared`, public records in a random order, and what those are called when published.

    `group` and `id` are the columns that were read; `shown` makes inputs of those that were read. Raises where an id
    occurs twice (but in one group of private or test records), or a group or record is in two splits.
    """
    parts = [rows[split] for split in SPLITS]
    if id is None:
        ids = [part.numbers | (place << 48) for place, part in enumerate(parts)]  # the split in upper bits
    else:
        ids = cells.numbered([part.ids for part in parts], spelling)
        require_apart("id", id, ids)
    owners = [cells.numbered(list(each), spelling) for each in zip(*(part.groups for part in parts), strict=True)]
    for column, found in zip(group, owners, strict=True):
        require_apart("group", column, found)
    shared, groups = None, owners[0] if owners else None
    if len(owners) > 1:
        shared = SharedRecords.of(group, [each[0] for each in owners])
        whole = linked([np.concatenate(each) for each in owners])  # no owner is in two splits
        groups = np.split(whole, np.cumsum([len(each) for each in owners[0]])[:-1])
    if id is not None:
        free = 1 + max(int(each.max()) for each in ids)
        named = zip(SPLITS, ids, groups or ids, strict=True)
        ids = [_told_apart(id, *each, free + place * 2**48) for place, each in enumerate(named)]
    if groups is None or (shared is not None and shared.weights is not None):
        groups = ids
    split_of = {
        split: Split(shown(part.inputs), part.labels, record_ids, group_ids)
        for split, part, record_ids, group_ids in zip(SPLITS, parts, ids, groups, strict=True)
    }
    public = rows["public"]
    order = np.random.default_rng(seed).permutation(len(public.labels))
    names = public.numbers if public.ids is None else np.array(public.ids.to_pylist(), np.str_)
    return {**split_of, "public": split_of["public"].take(order), "shared": shared}, names[order]


def _told_apart(id: str, split: str, ids: NDArray[np.int64], groups: NDArray[np.int64], free: int) -> NDArray[np.int64]:
    """The ids of a split, with others from `free` on for rows that have that of another row; or raises.

    Rows of one id may be where all of them are of one group, which is what is protected, and no id is published.
    """
    _, first, again = np.unique(ids, return_index=True, return_inverse=True)
    later = np.setdiff1d(np.arange(len(ids)), first)
    alike = split != "public" and groups is not ids and np.array_equal(groups[first][again], groups)
    if len(later) and not alike:
        found = f"{len(later)} of {len(ids)} rows of {split} have that of another row"
        raise InvalidValue(f"data.id={id}: expected another id in each row, {found}")
    ids = ids.copy()
    ids[later] = free + np.arange(len(later))
    return ids


def label_word(word: str) -> str:
    """A word of a label's column as words are compared there: one spelling, in small letters."""
    return one_spelling(word).casefold()


def labels_of(
    batch: Any, names: tuple[str, ...], truths: Mapping[str, Any] | None = None, spelling: Spelling = USUAL
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
        read = cells.as_numbers(column, spelling)
        labels[:, place] = read.values == 1
        wrong[:, place] = read.missing | read.wrong | ~np.isin(read.values, (0, 1))
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


class LabelSets:
    """A column of words that name all labels of a record, such as flu;cough. An empty cell names none."""

    def __init__(self, column: str, names: tuple[str, ...], separator: str) -> None:
        self.column, self.separator = column, separator
        self.names = names  # of the labels, from public knowledge: a list, or the public file
        self.unknown = 0  # how often cells named a label that `names` lacks; it counts for nothing

    def unfolded(self, batch: Any, *, count: bool = False) -> Any:
        """A batch with a column of 0 and 1 for each label in the column's place; `count`s cells with unknown labels."""
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

    Of a CSV file (`of_text`) a decimal comma is a point, whatever settings say: none makes the records new ones.
    """
    from pandas.util import hash_array  # loads slowly

    pa = arrow()
    names: list[str] = []
    rows = []
    for batch in batches:
        batch, names = cells.of_split(batch, split, "private"), sorted(batch.column_names)
        texts = [as_texts(batch.column(name)).fill_null(_GONE) for name in names]
        if of_text:
            texts = [cells.with_points(each) for each in texts]
        lines = pa.compute.binary_join_element_wise(*texts, _BETWEEN)
        rows.append(hash_array(np.array(lines.to_pylist(), dtype=object), categorize=False))
    digest = hashlib.sha256(_BETWEEN.join(names).encode())
    digest.update(np.sort(np.concatenate(rows)).astype("<u8").tobytes())
    return digest.hexdigest()
