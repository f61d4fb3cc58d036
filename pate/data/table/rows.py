"""The rows of one split of a table: features, labels, the words that name records and groups, and their digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import SPLITS, SharedRecords, Split, linked
from pate.data.table import cells
from pate.data.table.cells import USUAL, Spelling, arrow, as_texts, one_spelling
from pate.data.texts import TEXTS_ASKED, remarks_on, texts_of
from pate.files.arrays import Spilled
from pate.validation import InvalidValue, as_setting, require

_TRUE, _FALSE = ("true", "yes"), ("false", "no")  # in small or capital letters
_UNSEEN = r"^[\s\p{Z}\p{C}]*$"
_LONGEST_WORD = 20
_GATHERED = 2**25  # bytes of texts in memory
LABEL_HINT = "; yes and no, true and false are taken too, an empty cell is not: leave its row out"
_BETWEEN, _GONE = "\x1f", "\x00"
_FEWEST_RECORDS = 100  # records; fewer may all be rare ones

Bits = NDArray[np.bool_]


@dataclass(frozen=True)
class LabelColumns:
    """Labels that have a column each, of 0 and 1, yes and no, or two words of which one is said to be yes."""

    names: tuple[str, ...]
    # Of a label whose words are neither 0 and 1 nor yes and no, those for no and for yes, as `label_word` gives them;
    # None for a word of no that does not occur.
    truths: Mapping[str, tuple[str | None, str]] = field(default_factory=dict)
    true_setting: str | None = None  # that names a word for yes, for messages

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    def read(self, table: Any, spelling: Spelling = USUAL) -> tuple[Bits, Bits]:
        """Labels `[n, L]` of a pyarrow table that has the columns, and which cells are neither 0 nor 1."""
        labels = np.zeros((table.num_rows, len(self.names)), np.bool_)
        wrong = np.zeros_like(labels)
        for place, name in enumerate(self.names):
            column = table.column(name)
            if name in self.truths:
                codes = _coded(column, self.truths[name])
                labels[:, place], wrong[:, place] = codes == 1, codes < 0
                continue
            numbers = cells.as_numbers(column, spelling)
            labels[:, place], wrong[:, place] = numbers == 1, ~np.isin(numbers, (0, 1))
            if wrong[:, place].any():
                codes = _coded(column, (*_FALSE, *_TRUE))
                said = wrong[:, place] & (codes >= 0)
                labels[said, place], wrong[said, place] = codes[said] >= len(_FALSE), False
        return labels, wrong

    def hint(self, label: str, words: Collection[str]) -> str:
        """The settings that read a label whose cells have two words: the names of no and yes, which are no secret."""
        short = all(len(word) <= _LONGEST_WORD and word.isprintable() for word in words)
        told = self.true_setting is None or label in self.truths
        if told or not 0 < len(words) <= 2 or not short:
            return LABEL_HINT
        said = f"its {'words are' if len(words) == 2 else 'only word is'} {' and '.join(sorted(words))}"
        ways = " or ".join(f"{self.true_setting}={word}" for word in sorted(words))
        return f"{LABEL_HINT}; {said}: {ways} names the one for yes"


@dataclass
class LabelSets:
    """A column of words that name all labels of a record, such as flu;cough. An empty cell names none."""

    column: str
    names: tuple[str, ...]  # of the labels, from public knowledge: a list, or the public file
    separator: str
    unknown: int = 0  # how often cells named a label that `names` lacks; it counts for nothing

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def read(self, table: Any, spelling: Spelling = USUAL) -> tuple[Bits, Bits]:
        """As `LabelColumns.read`; nothing is wrong."""
        texts = as_texts(table.column(self.column)).dictionary_encode()
        place_of = {one_spelling(name): place for place, name in enumerate(self.names)}
        said = [label_words(text, self.separator) for text in texts.dictionary.to_pylist()]
        known = np.zeros((len(said) + 1, len(self.names)), np.bool_)
        for row, words in enumerate(said):
            known[row, [place_of[word] for word in words if word in place_of]] = True
        strange = np.array([*(any(word not in place_of for word in words) for words in said), False], np.int64)
        rows = texts.indices.fill_null(len(said)).to_numpy(zero_copy_only=False)
        self.unknown += int(strange[rows].sum())
        return known[rows], np.zeros((len(rows), len(self.names)), np.bool_)

    def hint(self, label: str, words: Collection[str]) -> str:
        return ""


class Rows:
    """One split, read a batch at a time; raises with column and count where cells, labels, groups or ids are wrong.

    Attributes:
        numbers: int64 `[n]`, of the rows of the file, from 0.
        inputs: features `[n, d]`, of a large table a read-only `np.memmap`.
        labels: bits `[n, L]`.
        labeled: false where all public labels are missing; they are False then.
        groups: words `[n]` of each column that says whose a row is.
        ids: words `[n]`, or None.
        budgets: likewise.
        strange: counts `[columns, 2]`: see `Encoded`.
        texts: the first of each column of text.
    """

    def __init__(
        self,
        batches: Iterable[Any],
        schema: Any,  # a `TableSchema`, or what encodes batches as it does
        labels: Any,  # `LabelColumns`, or what reads batches as these do
        *,
        name: str,
        split: str,
        spelling: Spelling = USUAL,
        split_column: str | None = None,  # of a file whose rows are of several splits
        group: tuple[str, ...] = (),
        id: str | None = None,
        budget: str | None = None,
    ) -> None:
        self._schema, self._labels, self._name, self._spelling = schema, labels, name, spelling
        self.inputs, self.labels = (Spilled(), Spilled())  # type: Any, Any
        roles = {"id": id, "budget": budget if split == "private" else None}
        self._words: dict[str, list[Any]] = {each: [] for each in (*group, *roles.values()) if each is not None}
        self._wrong = np.zeros((2, len(schema.columns)), np.int64)  # counts, first rows
        self._wrong_labels = np.zeros((2, len(labels.names)), np.int64)
        self._label_words: dict[str, set[str]] = {}  # of labels with wrong cells
        self.strange = np.zeros((len(schema.columns), 2), np.int64)
        self.texts: dict[str, list[str]] = {name: [] for name in schema.texts}
        self.labeled = split != "public"
        numbers, done = [np.zeros(0, np.int64)], 0
        for batch in batches:
            rows = np.arange(done, done + batch.num_rows)
            done += batch.num_rows
            if split_column is not None:
                mask = arrow().compute.equal(as_texts(batch.column(split_column)), split).fill_null(False)
                batch, rows = batch.filter(mask), rows[mask.to_numpy(zero_copy_only=False)]
            if batch.num_rows:
                numbers.append(rows)
                self._add(batch, rows)
        self.numbers = np.concatenate(numbers)
        rule = "at least one row" if split_column is None else f"rows with {split_column}={split}"
        if not len(self.numbers):
            raise InvalidValue(f"{name}: expected {rule}, the table has none")
        self._require_right()
        self.groups = [self._joined("group", column) for column in group]
        self.ids, self.budgets = (self._joined(role, column) for role, column in roles.items())
        self.inputs, self.labels = self.inputs.whole(), self.labels.whole()

    def _add(self, batch: Any, numbers: NDArray[np.int64]) -> None:
        """Rows of a batch, which have these numbers in the file."""
        features, wrong, strange = self._schema.encode(batch, self._spelling)
        self.inputs.append(features)
        self.strange += strange
        _count(self._wrong, wrong, numbers)
        for name, known in self.texts.items():
            known += texts_of(as_texts(batch.column(name)[: TEXTS_ASKED - len(known)]))
        there = [name for name in self._labels.columns if name in batch.column_names]
        batch = self._spelling.known(batch.select(list(dict.fromkeys((*there, *self._words)))))
        bits = np.zeros((batch.num_rows, len(self._labels.names)), np.bool_)
        if len(there) == len(self._labels.columns):
            bits, wrong = self._labels.read(batch, self._spelling)
            _count(self._wrong_labels, wrong, numbers)
            for label in set(np.array(self._labels.names)[wrong.any(axis=0)].tolist()) & set(there):
                said = cells.counts_of(as_texts(batch.column(label)))
                self._label_words.setdefault(label, set()).update(said)
        self.labels.append(bits)
        self.labeled = self.labeled or any(not cells.missing_in(as_texts(batch.column(name))).all() for name in there)
        for column, words in self._words.items():
            words.append(as_texts(batch.column(column)))

    def _require_right(self) -> None:
        count = len(self.numbers)
        self._schema.require_right(self._name, self._wrong, count, self._spelling)
        for label, wrong, row in zip(self._labels.names, *self._wrong_labels.tolist(), strict=True):
            if wrong and self.labeled:
                found = f"{wrong} of {count} rows hold something else, row {row + 1} is the first"
                rule = (
                    f"0 or 1 in a label's column, {found}{self._labels.hint(label, self._label_words.get(label, ()))}"
                )
                raise InvalidValue(f"{self._name}.{label}: expected {rule}")

    def _joined(self, role: str, column: str | None) -> Any:
        if column is None:
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


def require_apart(role: str, column: str | None, ids: list[NDArray[np.int64]]) -> None:
    """Raises where a group or record, `role`, is in two splits, whose ids are given."""
    for first, second in ((0, 1), (0, 2), (1, 2)):
        shared = len(np.intersect1d(ids[first], ids[second]))
        if shared:
            both = f"{SPLITS[first]} and {SPLITS[second]}"
            raise InvalidValue(f"data.{role}={column}: expected each {column} in one split, {shared} are in {both}")


def unlike_public(split: str, columns: Sequence[Any], rows: Rows) -> Iterator[str]:
    """A line for each column that tells a model nothing of these records."""
    rule = "every cell is missing, or no word of the public file, or outside its range; in other words or units?"
    for column, count in zip(columns, rows.strange.sum(axis=1).tolist(), strict=True):
        if count == len(rows.numbers) >= _FEWEST_RECORDS:
            yield f"data.{split}.{column.name}: {rule}"


def parts_of(
    rows: Mapping[str, Rows],
    schema: Any,
    *,
    group: tuple[str, ...],
    id: str | None,
    seed: int,
    spelling: Spelling = USUAL,
    shown: Callable[[NDArray[Any]], Any] = lambda inputs: inputs,
) -> dict[str, Any]:
    """What a `Dataset` needs of its splits; the public records are in a random order.

    `group` and `id` are the columns that were read; `shown` makes inputs of those that were read. Raises where an id
    occurs twice (but in one group of private or test records), or a group or record is in two splits.
    """
    parts, private, public = [rows[split] for split in SPLITS], rows["private"], rows["public"]
    ids, groups, shared = _numbers_of(parts, group, id, spelling)
    splits = {
        split: Split(shown(part.inputs), part.labels, *numbers)
        for split, part, *numbers in zip(SPLITS, parts, ids, groups, strict=True)
    }
    order = np.random.default_rng(seed).permutation(len(public.labels))
    names = public.numbers if public.ids is None else np.array(public.ids.to_pylist(), np.str_)
    owners = {"id": [private.ids] if private.ids is not None else [], "group": private.groups}
    budgets = None if private.budgets is None else cells.as_values(private.budgets, spelling).to_pylist()
    notes = [line for name, vectors in schema.texts.items() for line in remarks_on(name, vectors, private.texts[name])]
    notes += [] if shared is None else [shared.said()]
    notes += [line for split in ("private", "test") for line in unlike_public(split, schema.columns, rows[split])]
    return {
        **splits,
        "public": splits["public"].take(order),
        "public_ids": names[order],
        "public_labeled": public.labeled,
        "shared": shared,
        "owners": {kind: _values(named, spelling) for kind, named in owners.items() if named},
        "budgets": None if budgets is None else np.array(budgets, np.str_),
        "notes": tuple(notes),
    }


def _values(columns: list[Any], spelling: Spelling) -> frozenset[bytes]:
    """The words of columns, in one spelling each."""
    said = (cells.as_values(column.unique(), spelling).to_pylist() for column in columns)
    return frozenset(str(word).encode() for words in said for word in words)


def _numbers_of(parts: list[Rows], group: tuple[str, ...], id: str | None, spelling: Spelling) -> Any:
    """The ids and groups of the records of each split, and what those of several owners count."""
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
    return ids, groups, shared


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


def _coded(column: Any, words: tuple[str | None, ...]) -> NDArray[np.int64]:
    """The place of each cell among words `[n]`, -1 where it is none of them."""
    coded = as_texts(column).dictionary_encode()
    place_of = {word: place for place, word in enumerate(words) if word is not None}
    places = np.array([place_of.get(label_word(word), -1) for word in coded.dictionary.to_pylist()], np.int64)
    indices = coded.indices.fill_null(len(places)).to_numpy(zero_copy_only=False)
    return np.asarray(np.append(places, -1)[indices], np.int64)


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
