"""The rows of one split of a table: features, labels, the words that name records and groups, and their digest."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import SPLITS, SharedRecords, Split, linked
from pate.data.table import cells
from pate.data.table.cells import USUAL, Spelling, arrow, as_texts, one_spelling
from pate.data.texts import TEXTS_ASKED, remarks_on, texts_of
from pate.files.arrays import Spilled
from pate.validation import InvalidValue, require

_TRUE, _FALSE = ("true", "yes"), ("false", "no")  # in small or capital letters
_UNSEEN = r"^[\s\p{Z}\p{C}]*$"
_GATHERED = 2**25  # bytes of texts in memory
UNGROUPED = (
    "data: no group is named, so each row by itself is protected; data.group=COLUMN protects a person's rows at once"
)
LABEL_HINT = "; yes and no, true and false are taken too, an empty cell is not: leave its row out"
_BETWEEN, _GONE = "\x1f", "\x00"
_FEWEST_RECORDS = 100  # records; fewer may all be rare ones

Bits = NDArray[np.bool_]
Numbered = Iterable[tuple[NDArray[np.int64], Any]]
"""Tables, and the numbers that their rows have in the file."""


@dataclass
class Labels:
    """Labels that have a column each, of 0 and 1, yes and no, or two words; or one column that names all of a record.

    Names, such as flu;cough, are from public knowledge: a list, or the public file. An empty cell names none.
    """

    names: tuple[str, ...]
    # Of a label whose words are neither 0 and 1 nor yes and no, those for no and for yes, as `label_word` gives them;
    # None for a word of no that does not occur.
    truths: Mapping[str, tuple[str | None, str]] = field(default_factory=dict)
    hint: str = LABEL_HINT  # what is said where a cell is none of them
    column: str | None = None  # that names all labels
    separator: str = ""  # of names there
    unknown: int = 0  # how often cells named a label that `names` lacks; it counts for nothing

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names if self.column is None else (self.column,)

    def read(self, table: Any, spelling: Spelling = USUAL) -> tuple[Bits, Bits]:
        """Labels `[n, L]` of a pyarrow table that has the columns, and which cells are neither 0 nor 1."""
        labels = np.zeros((table.num_rows, len(self.names)), np.bool_)
        wrong = np.zeros_like(labels)
        if self.column is not None:
            return self._named(table), wrong
        for place, name in enumerate(self.names):
            column, words = table.column(name), self.truths.get(name)
            if words is None:
                numbers = cells.as_numbers(column, spelling)
                labels[:, place], wrong[:, place] = numbers == 1, ~np.isin(numbers, (0, 1))
                if not wrong[:, place].any():
                    continue
            coded, known = as_texts(column).dictionary_encode(), words or (*_FALSE, *_TRUE)
            place_of = {word: code for code, word in enumerate(known)}
            codes = [*(place_of.get(label_word(word), -1) for word in coded.dictionary.to_pylist()), -1]
            said = np.array(codes)[coded.indices.fill_null(len(codes) - 1).to_numpy(zero_copy_only=False)]
            rows = (said >= 0) | (words is not None)
            labels[rows, place], wrong[rows, place] = said[rows] >= len(known) // 2, said[rows] < 0
        return labels, wrong

    def _named(self, table: Any) -> Bits:
        texts = as_texts(table.column(self.column)).dictionary_encode()
        place_of = {one_spelling(name): place for place, name in enumerate(self.names)}
        said = [label_words(text, self.separator) for text in texts.dictionary.to_pylist()]
        known, strange = np.zeros((len(said) + 1, len(self.names)), np.bool_), np.zeros(len(said) + 1, np.int64)
        for row, words in enumerate(said):
            known[row, [place_of[word] for word in words if word in place_of]] = True
            strange[row] = not place_of.keys() >= set(words)
        rows = texts.indices.fill_null(len(said)).to_numpy(zero_copy_only=False)
        self.unknown += int(strange[rows].sum())
        return np.asarray(known[rows])


class Rows:
    """One split, read a batch at a time; raises with column and count where cells, labels, groups or ids are wrong."""

    def __init__(
        self,
        batches: Numbered,
        schema: Any,  # a `TableSchema`, or what encodes batches as it does
        labels: Labels,
        *,
        name: str,
        split: str,
        spelling: Spelling = USUAL,
        group: tuple[str, ...] = (),
        id: str | None = None,
        budget: str | None = None,
    ) -> None:
        self._schema, self._labels, self._spelling = schema, labels, spelling
        self.inputs, self.labels = (Spilled(), Spilled())  # type: Any, Any
        self._words: dict[str, list[Any]] = {each: [] for each in (*group, id, budget) if each is not None}
        self._wrong, self._wrong_labels = (
            np.zeros((2, len(each)), np.int64) for each in (schema.columns, labels.names)
        )
        self.strange = np.zeros((len(schema.columns), 2), np.int64)  # see `Encoded`
        self.texts: dict[str, list[str]] = {column: [] for column in schema.texts}  # the first of each column of text
        self.labeled = split != "public"  # false where all public labels are missing; they are False then
        # int64 `[n]`, of the rows of the file, from 0
        self.numbers = np.concatenate([np.zeros(0, np.int64), *(self._add(*each) for each in batches)])
        schema.require_right(name, self._wrong, len(self.numbers), spelling)
        for label, count, row in zip(labels.names, *self._wrong_labels.tolist(), strict=True):
            if count and self.labeled:
                found = f"{count} of {len(self.numbers)} rows hold something else, row {row + 1} is the first"
                raise InvalidValue(f"{name}.{label}: expected 0 or 1 in a label's column, {found}{labels.hint}")
        words: dict[str, Any] = {column: _joined(f"{name}.{column}", chunks) for column, chunks in self._words.items()}
        self.groups = [words[column] for column in group]  # words `[n]` of each column that says whose a row is
        self.ids, self.budgets = words.get(id or ""), words.get(budget or "")  # type: Any, Any  # words `[n]`, or None
        # features `[n, d]`, of a large table a read-only `np.memmap`; bits `[n, L]`
        self.inputs, self.labels = self.inputs.whole(), self.labels.whole()

    def _add(self, numbers: NDArray[np.int64], batch: Any) -> NDArray[np.int64]:
        """Rows of a batch, which have these numbers in the file."""
        features, wrong, strange = self._schema.encode(batch, self._spelling)
        self.inputs.append(features)
        self.strange += strange
        _count(self._wrong, wrong, numbers)
        for column, known in self.texts.items():
            known += texts_of(as_texts(batch.column(column)[: TEXTS_ASKED - len(known)]))
        there = [column for column in self._labels.columns if column in batch.column_names]
        batch = self._spelling.known(batch.select(list(dict.fromkeys((*there, *self._words)))))
        bits = np.zeros((len(numbers), len(self._labels.names)), np.bool_)
        if len(there) == len(self._labels.columns):
            bits, wrong = self._labels.read(batch, self._spelling)
            _count(self._wrong_labels, wrong, numbers)
        self.labels.append(bits)
        self.labeled |= any(not cells.missing_in(as_texts(batch.column(column))).all() for column in there)
        for column, words in self._words.items():
            words.append(as_texts(batch.column(column)))
        return numbers


def _joined(name: str, chunks: list[Any]) -> Any:
    """Words of all batches, or raises where a row has none."""
    words = arrow().chunked_array(chunks)
    unseen = arrow().compute.sum(arrow().compute.match_substring_regex(words, _UNSEEN)).as_py() or 0
    if missing := words.null_count + unseen:
        raise InvalidValue(f"{name}: expected a value in each row, {missing} of {len(words)} rows have none")
    return words


def gathered(batches: Numbered, size: int, advance: Callable[[int], object]) -> Iterator[Any]:
    """Batches of a file with texts, so many together that all cores have some; tells how many kB are done, at most."""
    numbers, waiting, done = list[Any](), list[Any](), 0
    for rows, batch in batches:
        numbers.append(rows)
        waiting.append(batch)
        if sum(each.nbytes for each in waiting) >= _GATHERED:
            yield np.concatenate(numbers), (whole := arrow().concat_tables(waiting))
            numbers, waiting, done = [], [], done + whole.nbytes // 1000
            advance(min(done, size))
    if waiting:
        yield np.concatenate(numbers), arrow().concat_tables(waiting)
        advance(size)


def _count(found: NDArray[np.int64], wrong: NDArray[np.bool_], numbers: NDArray[np.int64]) -> None:
    """Adds a batch's wrong cells: how many of each column, and the first row with one."""
    first = numbers[wrong.argmax(axis=0)]
    new = wrong.any(axis=0) & (found[0] == 0)
    found[1][new] = first[new]
    found[0] += wrong.sum(axis=0)


def column_names(name: str, values: Any) -> tuple[str, ...]:
    """A setting that lists different columns, as a tuple, or raises."""
    good = isinstance(values, (list, tuple)) and all(isinstance(each, str) for each in values)
    require(
        good and len(set(values)) == len(values), name, values, f"a list of columns, each once: '{name}=[NAME,NAME]'"
    )
    return tuple(map(cells.column_name, values))


def require_apart(role: str, column: str | None, ids: list[NDArray[np.int64]]) -> None:
    """Raises where a group or record, `role`, is in two splits, whose ids are given."""
    for first, second in ((0, 1), (0, 2), (1, 2)):
        if shared := len(np.intersect1d(ids[first], ids[second])):
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
    """What a `Dataset` needs of its splits, public ones in a random order; raises for ids or groups twice."""
    parts, private, public = [rows[split] for split in SPLITS], rows["private"], rows["public"]
    ids, groups, shared = _numbers_of(parts, group, id, spelling)
    splits = {
        split: Split(shown(part.inputs), part.labels, *numbers)
        for split, part, *numbers in zip(SPLITS, parts, ids, groups, strict=True)
    }
    order = np.random.default_rng(seed).permutation(len(public.labels))
    names = public.numbers if public.ids is None else np.array(public.ids.to_pylist(), np.str_)
    notes = [line for name, vectors in schema.texts.items() for line in remarks_on(name, vectors, private.texts[name])]
    notes += [] if shared is None else [shared.said()]
    notes += [line for split in ("private", "test") for line in unlike_public(split, schema.columns, rows[split])]
    owners = {"id": [] if private.ids is None else [private.ids], "group": private.groups}

    def values(columns: list[Any]) -> frozenset[bytes]:
        """The words of columns, in one spelling each."""
        said = (cells.as_values(column.unique(), spelling).to_pylist() for column in columns)
        return frozenset(str(word).encode() for words in said for word in words)

    return {
        **splits,
        "public": splits["public"].take(order),
        "public_ids": names[order],
        "public_labeled": public.labeled,
        "shared": shared,
        "owners": {kind: values(named) for kind, named in owners.items() if named},
        "budgets": private.budgets and np.array(cells.as_values(private.budgets, spelling).to_pylist(), np.str_),
        "notes": tuple(notes),
    }


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
    """The ids of a split; rows of one id may be in one group, which is protected, and get others from `free` on."""
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


def label_words(text: str, separator: str) -> list[str]:
    """The labels that a cell names, each in one spelling."""
    return [word for part in text.split(separator) if (word := one_spelling(part))]


def private_cells(tables: Iterable[Any], *, of_text: bool = False) -> str:
    """SHA-256 in hexadecimal of all cells of private rows, in whatever order they stand. Covered by no epsilon.

    Of a CSV file (`of_text`) a decimal comma is a point, whatever settings say: none makes the records new ones.
    """
    from pandas.util import hash_array  # loads slowly

    names, rows = list[str](), []
    for table in tables:
        names = sorted(table.column_names)
        texts = [as_texts(table.column(name)).fill_null(_GONE) for name in names]
        if of_text:
            texts = [cells.with_points(each) for each in texts]
        lines = arrow().compute.binary_join_element_wise(*texts, _BETWEEN)
        rows.append(hash_array(np.array(lines.to_pylist(), dtype=object), categorize=False))
    digest = hashlib.sha256(_BETWEEN.join(names).encode())
    digest.update(np.sort(np.concatenate(rows)).astype("<u8").tobytes())
    return digest.hexdigest()
