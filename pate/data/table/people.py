"""Persons who own rows: the names in a column that mean the same person, and names that are suspiciously similar."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from pate.array_types import IntArray
from pate.data.id_arrays import count_shared, distinct
from pate.data.split import SPLITS
from pate.data.table.arrow import codes_among, import_pyarrow
from pate.data.table.cells import as_texts
from pate.data.table.spelling import USUAL, CellSpelling, canonical_word, canonical_words

# Dashes, hyphens and minus signs other than ASCII's hyphen.
_DASHES = re.compile("[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]")
# The characters that are removed from both ends of a name.
_ENCLOSING = "{}()[]<>\"'`\u2018\u2019\u201c\u201d\u00ab\u00bb "
_UUID = re.compile(
    r"(?:urn:uuid:)?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})"
)
_ADDRESS = re.compile(r"(?:mailto:|.*<)([^<>@\s]+@[^<>@\s]+)>?", re.IGNORECASE)
# Canonical words that `person_name` may change. All others are short and have only ASCII letters, digits, underscores,
# points and hyphens.
_UNUSUAL = r"[^0-9A-Za-z_.-]|^.{32,}$"
# Numbers with marks between thousands, such as 100,001.
_GROUPED = r"^[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+$|^[+-]?[1-9][0-9]{0,2}(?:[.' ][0-9]{3})+$"
# Words with at least seven digits. Two persons hardly have the same ones in the same order.
_LONG_NUMBER = r"^(?:[^0-9]*[0-9]){7}"


def person_name(word: str) -> str:
    r"""Returns the normalized name of a person: two words with the same normalized name mean the same person.

    The result is a canonical word, see `canonical_word`. In addition, every dash becomes a hyphen, and surrounding
    brackets and quotation marks are removed. A UUID becomes its 32 digits. An email address is in lower case, without a
    name or mailto: before it. 007 and 7 remain different, and so do a-1 and A-1; `People.remarks` counts such similar
    names.

    >>> [person_name(word) for word in (" 7.0", "P\u20137", "{x}", "Ann <Ann@Example.org>", "007")]
    ['7', 'P-7', 'x', 'ann@example.org', '007']
    >>> person_name("{6F9619FF-8B86-D011-B42D-00CF4FC964FF}")
    '6f9619ff8b86d011b42d00cf4fc964ff'
    """
    word = _DASHES.sub("-", canonical_word(word))
    address = _ADDRESS.fullmatch(word)
    name = address[1] if address is not None else word.strip(_ENCLOSING) or word
    uuid = _UUID.fullmatch(name.lower())
    if uuid is not None:
        return "".join(uuid.groups())
    return name.casefold() if "@" in name else name


def person_names(words: Any, cell_notation: CellSpelling = USUAL) -> Any:
    """Returns the normalized names of persons as a pyarrow array `[num_words]`: see `person_name`.

    Args:
        words: a pyarrow array of words that name persons.
        cell_notation: the notation of numbers.
    """
    pa = import_pyarrow()
    words = canonical_words(words, number_notation=cell_notation)
    is_unusual = pa.compute.match_substring_regex(words, _UNUSUAL).fill_null(False)
    names = [person_name(word) for word in words.filter(is_unusual).to_pylist()]
    return pa.compute.replace_with_mask(words, is_unusual, pa.array(names, words.type))


def simplified_names(owner_names: Any) -> Any:
    """Returns a simplified form of each name, a pyarrow array `[num_names]`; similar names have equal forms.

    Similar names differ only in letter case, accents, punctuation, blanks and leading zeros. Punctuation between digits
    counts if there are fewer than seven digits, because 1-11 and 11-1 are different people. Punctuation between
    thousands, as in 100,001, does not count. The part of an email address from a + to the @ is ignored.

    Args:
        owner_names: a pyarrow array of names, `[num_names]`.
    """
    compute = import_pyarrow().compute
    substitute = compute.replace_substring_regex
    # The compatibility decomposition separates letters from their accents, which are marks (Unicode's category M).
    decomposed_names = _in_lower_case(compute.utf8_normalize(owner_names, form="NFKD"))
    letters = substitute(decomposed_names, pattern=r"\p{M}+", replacement="")
    letters = substitute(letters, pattern=r"\+[^@]*@", replacement="@")
    is_grouped = compute.match_substring_regex(letters, pattern=_GROUPED)
    without_marks = substitute(letters, pattern=r"[,.' ]", replacement="")
    letters = compute.if_else(is_grouped, without_marks, letters)
    hyphenated_names = substitute(letters, pattern=r"[^\p{L}\p{N}]+", replacement="-")
    hyphenated_names = compute.utf8_trim(hyphenated_names, characters="-")
    # In a name with few digits, hyphens stay only between two digits.
    names_hyphened_between_digits = substitute(
        hyphenated_names, pattern=r"([^0-9])-", replacement=r"\1"
    )
    names_hyphened_between_digits = substitute(
        names_hyphened_between_digits, pattern=r"-([^0-9])", replacement=r"\1"
    )
    has_long_number = compute.match_substring_regex(hyphenated_names, pattern=_LONG_NUMBER)
    without_hyphens = substitute(hyphenated_names, pattern="-", replacement="")
    simple_names = compute.if_else(has_long_number, without_hyphens, names_hyphened_between_digits)
    return substitute(simple_names, pattern=r"(^|[^0-9])0+([0-9])", replacement=r"\1\2")


def _in_lower_case(owner_names: Any) -> Any:
    """Returns pyarrow names `[num_names]` in lower case. Straße becomes strasse, as STRASSE does."""
    compute = import_pyarrow().compute
    lowered_names = compute.utf8_lower(owner_names)
    return compute.replace_substring(lowered_names, pattern="\u00df", replacement="ss")


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class People:
    """The persons who own the rows of each split, as numbers.

    Persons are numbered from 0 in the order of their first row, where the rows of the first split come first.

    Attributes:
        person_arrays_of_splits: for each split, the person of each row, `[num_rows]`. A person has the same number in
            all splits.
        lowercase_name_codes: whole numbers `[num_persons]`, equal for persons whose names differ only in letter case.
        similar_name_codes: whole numbers `[num_persons]`, equal for persons with similar names: see `simplified_names`.
    """

    person_arrays_of_splits: tuple[IntArray, ...]
    lowercase_name_codes: IntArray
    similar_name_codes: IntArray

    @classmethod
    def from_names(
        cls, cells_of_splits: Sequence[Any], cell_notation: CellSpelling = USUAL
    ) -> People:
        """Returns the persons whom the cells of a column name.

        Args:
            cells_of_splits: for each split, a chunked pyarrow array of the cells, words or int64; no cell is missing. A
                whole number names the same person as the word of its digits.
            cell_notation: the notation of numbers.
        """
        pa = import_pyarrow()
        if all(cells.type == pa.int64() for cells in cells_of_splits):
            return cls._from_numbers([cells.to_numpy() for cells in cells_of_splits])
        words = pa.chunked_array([as_texts(cells) for cells in cells_of_splits])
        distinct_words = words.unique()
        names = person_names(distinct_words, cell_notation=cell_notation)
        coded = names.dictionary_encode(null_encoding="encode")
        person_of_word = coded.indices.to_numpy().astype(np.int64)
        person_of_row = person_of_word[codes_among(words, categories=distinct_words)]
        return cls(
            person_arrays_of_splits=_divided(
                person_of_row, num_rows_of_splits=list(map(len, cells_of_splits))
            ),
            lowercase_name_codes=_codes(_in_lower_case(coded.dictionary)),
            similar_name_codes=_codes(simplified_names(coded.dictionary)),
        )

    @classmethod
    def _from_numbers(cls, numbers_of_splits: Sequence[IntArray]) -> People:
        """Returns the persons whom whole numbers name, as `from_names` does.

        `numbers_of_splits` has an array `[num_rows]` for each split. Two numbers look alike if they differ in their
        sign alone.
        """
        numbers, first_row_of_number, number_of_row = np.unique(
            np.concatenate(numbers_of_splits), return_index=True, return_inverse=True
        )
        order = np.argsort(first_row_of_number)
        person_of_number = np.empty_like(order)
        person_of_number[order] = np.arange(len(order))
        absolute_numbers = np.abs(numbers[order])
        return cls(
            person_arrays_of_splits=_divided(
                person_of_number[number_of_row],
                num_rows_of_splits=list(map(len, numbers_of_splits)),
            ),
            lowercase_name_codes=np.arange(len(numbers)),
            similar_name_codes=np.unique(absolute_numbers, return_inverse=True)[1].astype(np.int64),
        )

    def groups(self) -> list[IntArray]:
        """Returns, for each split, the group of each row, `[num_rows]`.

        In the first split, persons whose names differ only in letter case form one group. So a person whose name is
        written in capital and in small letters is protected with all rows.
        """
        return [
            _merged(
                person_of_row=self.person_arrays_of_splits[0],
                codes_of_persons=self.lowercase_name_codes,
            ),
            *self.person_arrays_of_splits[1:],
        ]

    def merged_by_similar_names(self) -> list[IntArray]:
        """Returns, for each split, the group of each row, `[num_rows]`: persons with similar names are one group.

        See `simplified_names` for similar names. Groups are numbered from 0 in the order of their first rows, over all
        splits.
        """
        merged = _merged(
            person_of_row=np.concatenate(self.person_arrays_of_splits),
            codes_of_persons=self.similar_name_codes,
        )
        _, groups = np.unique(merged, return_inverse=True)
        num_rows_of_splits = list(map(len, self.person_arrays_of_splits))
        return list(_divided(groups.astype(np.int64), num_rows_of_splits=num_rows_of_splits))

    def remarks(self, setting: str) -> Iterator[str]:
        """Yields remarks for the owner of the records on persons with similar names. Remarks have counts, but no name.

        Args:
            setting: the setting that names the column, such as `data.group=NAME`, for the remarks.
        """
        reason = (
            "they differ in letter case, accents, signs or leading zeros alone; where two are one person, "
            "write them alike"
        )
        persons_of_split = [distinct(persons) for persons in self.person_arrays_of_splits]
        # A holder of votes reads private records alone, so there may be fewer splits than names.
        similar_name_codes_of_split = dict(
            zip(
                SPLITS,
                (self.similar_name_codes[persons] for persons in persons_of_split),
                strict=False,
            )
        )
        for first_split, second_split in combinations(similar_name_codes_of_split, 2):
            num_shared = count_shared(
                similar_name_codes_of_split[first_split],
                other_ids=similar_name_codes_of_split[second_split],
            )
            if num_shared:
                yield f"{setting}: {num_shared} values of {first_split} and {second_split} look alike, {reason}"
        private_persons = distinct(
            _merged(person_of_row=persons_of_split[0], codes_of_persons=self.lowercase_name_codes)
        )
        _, num_persons_per_similar_name = np.unique(
            self.similar_name_codes[private_persons], return_counts=True
        )
        num_alike = int(num_persons_per_similar_name[num_persons_per_similar_name > 1].sum())
        if num_alike:
            yield f"{setting}: {num_alike} values of private look like another, {reason}"


def _divided(number_of_row: IntArray, num_rows_of_splits: Sequence[int]) -> tuple[IntArray, ...]:
    """Divides an array with a number for each row into an array for each split, and returns these.

    Args:
        number_of_row: a whole number for each row, such as that of its owner, `[num_rows]`, where the rows of one
            split follow those of another.
        num_rows_of_splits: the number of rows of each split; they sum to num_rows.
    """
    return tuple(np.split(number_of_row, np.cumsum(num_rows_of_splits)[:-1]))


def smallest_of_group(group_of_row: IntArray, value_of_row: IntArray) -> IntArray:
    """Returns, for each row, the smallest number among the rows of its group, `[num_rows]`.

    Args:
        group_of_row: the group of each row, from 0, `[num_rows]`.
        value_of_row: a whole number for each row, `[num_rows]`.
    """
    smallest_of_groups = np.full(int(group_of_row.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(smallest_of_groups, group_of_row, value_of_row)
    return np.asarray(smallest_of_groups[group_of_row], np.int64)


def _codes(words: Any) -> IntArray:
    """Returns a number from 0 for each word of a pyarrow array, `[num_words]`; equal words have equal numbers."""
    return np.asarray(words.dictionary_encode(null_encoding="encode").indices.to_numpy(), np.int64)


def _merged(person_of_row: IntArray, codes_of_persons: IntArray) -> IntArray:
    """Returns the person of each row, `[num_rows]`, after persons with equal codes are merged into one.

    Of the merged persons that occur in these rows, the one with the smallest number stands for all.

    Args:
        person_of_row: the person of each row, `[num_rows]`.
        codes_of_persons: for each person, a whole number that is equal for persons to be merged, `[num_persons]`.
    """
    distinct_persons = distinct(person_of_row)
    _, first_indices, person_codes = np.unique(
        codes_of_persons[distinct_persons], return_index=True, return_inverse=True
    )
    representative_person = np.arange(len(codes_of_persons))
    representative_person[distinct_persons] = distinct_persons[first_indices][person_codes]
    return np.asarray(representative_person[person_of_row], np.int64)
