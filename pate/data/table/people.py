"""Who a row belongs to: which words of a column name one person, and which look as if they might."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.split import SPLITS
from pate.data.table.arrow import arrow
from pate.data.table.spelling import USUAL, Spelling, canonical_word, canonical_words

Numbers = NDArray[np.int64]

_DASHES = re.compile("[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]")
_AROUND = "{}()[]<>\"'`\u2018\u2019\u201c\u201d\u00ab\u00bb "
_UUID = re.compile(
    r"(?:urn:uuid:)?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})"
)
_ADDRESS = re.compile(r"(?:mailto:|.*<)([^<>@\s]+@[^<>@\s]+)>?", re.IGNORECASE)
# Words that `person_name` may change: others are as short as a number and have letters, digits and dashes alone.
_UNUSUAL = r"[^0-9A-Za-z_.-]|^.{32,}$"
# 100,001
_GROUPED = r"^[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+$|^[+-]?[1-9][0-9]{0,2}(?:[.' ][0-9]{3})+$"
# two persons hardly have its digits in one order, whatever stands between them
_LONG_NUMBER = r"^(?:[^0-9]*[0-9]){7}"


def person_name(word: str) -> str:
    r"""Returns the one name of whoever a word names: two words with one name are one person.

    A name is a canonical word, see `canonical_word`. Every dash is a hyphen, brackets and quotes around a word are no
    part of the name, a UUID is 32 digits, and an address with @ has small letters and no name or mailto: before it. 007
    is not 7, and a-1 not A-1: they look alike, and `People.remarks` counts such names.

    >>> [person_name(word) for word in (" 7.0", "P\u20137", "{x}", "Ann <Ann@Example.org>", "007")]
    ['7', 'P-7', 'x', 'ann@example.org', '007']
    >>> person_name("{6F9619FF-8B86-D011-B42D-00CF4FC964FF}")
    '6f9619ff8b86d011b42d00cf4fc964ff'
    """
    word = _DASHES.sub("-", canonical_word(word))
    address = _ADDRESS.fullmatch(word)
    inner = word.strip(_AROUND) or word if address is None else address[1]
    uuid = _UUID.fullmatch(inner.lower())
    if uuid is not None:
        return "".join(uuid.groups())
    return inner.casefold() if "@" in inner else inner


def names_of(words: Any, spelling: Spelling = USUAL) -> Any:
    """Returns the names of the persons of pyarrow words `[n]`: see `person_name`."""
    pa = arrow()
    words = canonical_words(words, spelling)
    unusual = pa.compute.match_substring_regex(words, _UNUSUAL).fill_null(False)
    names = pa.array([person_name(word) for word in words.filter(unusual).to_pylist()], words.type)
    return pa.compute.replace_with_mask(words, unusual, names)


def looks_of(names: Any) -> Any:
    """Returns what names `[n]` look like: equal ones differ in letter case, accents, signs and leading zeros alone.

    Signs between digits count where there are few digits: 1-11 and 11-1 are different people. They do not between
    thousands, as in 100,001. What an address has from a + to the @ does not count.
    """
    compute = arrow().compute
    letters = compute.replace_substring_regex(
        _folded(compute.utf8_normalize(names, "NFKD")), r"\p{M}+", ""
    )
    letters = compute.replace_substring_regex(letters, r"\+[^@]*@", "@")
    grouped = compute.match_substring_regex(letters, _GROUPED)
    letters = compute.if_else(
        grouped, compute.replace_substring_regex(letters, r"[,.' ]", ""), letters
    )
    plain = compute.utf8_trim(compute.replace_substring_regex(letters, r"[^\p{L}\p{N}]+", "-"), "-")
    separated = compute.replace_substring_regex(
        compute.replace_substring_regex(plain, r"([^0-9])-", r"\1"), r"-([^0-9])", r"\1"
    )
    is_long = compute.match_substring_regex(plain, _LONG_NUMBER)
    looks = compute.if_else(is_long, compute.replace_substring_regex(plain, "-", ""), separated)
    return compute.replace_substring_regex(looks, r"(^|[^0-9])0+([0-9])", r"\1\2")


def _folded(names: Any) -> Any:
    """Returns names `[n]` in small letters: STRASSE is straße then, as it is in capital ones."""
    compute = arrow().compute
    return compute.replace_substring(compute.utf8_lower(names), "\u00df", "ss")


@dataclass(frozen=True, eq=False)
class People:
    """Persons of the rows of each split, by the words of a column.

    `of` numbers them in the order in which they first occur, those of the first split first.
    """

    # `[n]` of each split: the person of each row, the same in all splits
    numbers: tuple[Numbers, ...]
    folds: Numbers  # `[num_persons]`, equal where names differ in letter case alone
    looks: Numbers  # `[num_persons]`, equal where names look alike: see `looks_of`

    @classmethod
    def of(cls, columns: Sequence[Any], spelling: Spelling = USUAL) -> People:
        """Reads chunked arrays of words, one for each split, none missing."""
        pa = arrow()
        coded = pa.chunked_array(
            [chunk for column in columns for chunk in column.chunks]
        ).dictionary_encode()
        chunks = coded.unify_dictionaries().chunks
        names = names_of(chunks[-1].dictionary, spelling).dictionary_encode(null_encoding="encode")
        number_of_word = names.indices.to_numpy().astype(np.int64)
        numbers = np.concatenate([number_of_word[chunk.indices.to_numpy()] for chunk in chunks])
        ends = np.cumsum([len(column) for column in columns])[:-1]
        return cls(
            tuple(np.split(numbers, ends)),
            folds=_codes(_folded(names.dictionary)),
            looks=_codes(looks_of(names.dictionary)),
        )

    def groups(self) -> list[Numbers]:
        """Returns the group of each row: in the first split names that differ in letter case alone are one group.

        Whoever has one of the names is then protected with all rows of both.
        """
        return [_merged(self.numbers[0], self.folds), *self.numbers[1:]]

    def merged_by_looks(self) -> list[Numbers]:
        """Returns groups of which no two look alike, numbered from 0 in the order of their first rows."""
        merged = _merged(np.concatenate(self.numbers), self.looks)
        numbered = np.unique(merged, return_inverse=True)[1].astype(np.int64)
        return np.split(numbered, np.cumsum([len(numbers) for numbers in self.numbers])[:-1])

    def remarks(self, setting: str) -> Iterator[str]:
        """Yields lines for the owner of the records on persons that look alike, with counts and no name."""
        differ = "in letter case, accents, signs or leading zeros alone"
        remedy = "where two are one person, write them alike"
        persons = [np.unique(numbers) for numbers in self.numbers]
        for first in range(len(persons)):
            for second in range(first + 1, len(persons)):
                count = len(np.intersect1d(self.looks[persons[first]], self.looks[persons[second]]))
                if count:
                    where = f"{SPLITS[first]} and {SPLITS[second]}"
                    yield f"{setting}: {count} values of {where} look alike, they differ {differ}; {remedy}"
        private = np.unique(_merged(persons[0], self.folds))
        _, counts = np.unique(self.looks[private], return_counts=True)
        if count := int(counts[counts > 1].sum()):
            yield f"{setting}: {count} values of private look like another, they differ {differ}; {remedy}"


def first_of_each(groups: Numbers, numbers: Numbers) -> Numbers:
    """Returns for each row `[n]` the smallest number of the rows of its group."""
    smallest = np.full(int(groups.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(smallest, groups, numbers)
    return np.asarray(smallest[groups], np.int64)


def _codes(words: Any) -> Numbers:
    """Numbers words `[n]`, equal ones alike."""
    return np.asarray(words.dictionary_encode(null_encoding="encode").indices.to_numpy(), np.int64)


def _merged(numbers: Numbers, alike: Numbers) -> Numbers:
    """Returns numbers in which those of equal `alike[number]` are replaced by the smallest of them that occurs."""
    persons = np.unique(numbers)
    _, first, person_of = np.unique(alike[persons], return_index=True, return_inverse=True)
    smallest = np.arange(len(alike))
    smallest[persons] = persons[first][person_of]
    return np.asarray(smallest[numbers], np.int64)
