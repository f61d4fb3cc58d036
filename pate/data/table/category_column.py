"""Columns of words: a feature for each category of the public file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from pate.array_types import Float32Array
from pate.data.table.arrow import codes_among, import_pyarrow, is_null
from pate.data.table.cells import as_texts
from pate.data.table.column import MISSING, Column, Encoded
from pate.data.table.spelling import USUAL, CellSpelling, canonical_words
from pate.validation import InvalidValue, require

OTHER = "other"
"""The word in the name of the feature for all words that are no category."""


@dataclass(frozen=True)
class CategoryColumn(Column):
    """A column of words, encoded as one feature of 0 and 1 for each category of the public file.

    One more feature stands for all other words, and one for missing cells if public cells are missing. A word counts as
    a category if both have one canonical form or truth value: 3.0 counts as 3, and true as 1.

    Attributes:
        categories: the words that have a feature, in the order of the features.
    """

    categories: tuple[str, ...]

    kind: ClassVar[str] = "category"
    keys: ClassVar[tuple[str, ...]] = ("categories", "missing")

    def __post_init__(self) -> None:
        are_different = len(set(self.categories)) == len(self.categories)
        require(are_different, self.name, "a category twice", "each once")

    @property
    def expects(self) -> str:
        """The description of a valid cell, which is any word."""
        return "words"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features: one for each category, one for other words, one for missing cells.

        The last exists only if public cells are missing.
        """
        values = (*self.categories, OTHER, *((MISSING,) if self.has_missing else ()))
        return tuple(f"{self.name}={value}" for value in values)

    def encode(self, cells: Any, cell_notation: CellSpelling = USUAL) -> Encoded:
        """Returns the one-hot encoding of cells, `[num_cells, num_features]`, as 0 and 1. No cell is marked as wrong.

        A word that is no category counts as unknown and gets the feature of other words. A missing cell gets the same
        feature if no public cell is missing.
        """
        words = as_texts(cells)
        arrow_categories = import_pyarrow().array(self.categories, import_pyarrow().string())
        codes = codes_among(words, categories=arrow_categories)
        missing = is_null(cells=words)
        if ((codes < 0) & ~missing).any():
            # Words may be written differently, so they are compared in their canonical form.
            words_in_canonical_form = canonical_words(words, number_notation=cell_notation)
            canonical_categories = canonical_words(
                words=arrow_categories, number_notation=cell_notation
            )
            for candidate_words in (
                words_in_canonical_form,
                _with_truths_as_numbers(words_in_canonical_form),
            ):
                candidate_codes = codes_among(candidate_words, categories=canonical_categories)
                codes = np.where(codes < 0, candidate_codes, codes)
            number_codes = codes_among(
                words_in_canonical_form, categories=_with_truths_as_numbers(canonical_categories)
            )
            codes = np.where(codes < 0, number_codes, codes)
        unknown = (codes < 0) & ~missing
        codes[codes < 0] = len(self.categories)
        if self.has_missing:
            codes[missing] = len(self.categories) + 1
        features = np.eye(len(self.feature_names), dtype=np.float32)[codes]
        return Encoded(
            features=features,
            wrong=np.zeros_like(missing),
            num_unknown_and_missing=np.array([unknown.sum(), missing.sum()]),
        )

    def frame_columns(self, encoded_cells: Float32Array) -> dict[str, Any]:
        """Returns the words that features `[num_cells, num_features]` encode, as one categorical column by its name.

        All words that are no category become one word, "other" unless that is a category. Missing cells stay missing if
        public cells are missing, and otherwise become that word.
        """
        from pandas import Categorical

        word_for_others = OTHER if OTHER not in self.categories else f"{OTHER} than {self.name}"
        codes = encoded_cells.argmax(axis=1)
        codes[codes > len(self.categories)] = -1  # missing
        return {
            self.name: Categorical.from_codes(codes, categories=[*self.categories, word_for_others])
        }

    def plain(self) -> dict[str, Any]:
        """Returns the column as values for JSON."""
        return {"kind": self.kind, "categories": list(self.categories), "missing": self.has_missing}

    @classmethod
    def read(cls, name: str, schema_entry: Mapping[str, Any], schema_folder: Path | None) -> Self:
        """Builds the column from the entry that `plain` returned; raises an error if the entry has no list of words.

        For the arguments see `Column.read`.
        """
        categories = schema_entry["categories"]
        are_words = isinstance(categories, list) and all(
            isinstance(category, str) for category in categories
        )
        if not are_words:
            rule = "a list of words, numbers among them in quotes"
            raise InvalidValue(f"{name}.categories", categories, rule=rule)
        return cls(name, has_missing=schema_entry["missing"], categories=tuple(categories))


def _with_truths_as_numbers(words: Any) -> Any:
    """Returns canonical pyarrow words in which True is replaced by 1 and False by 0; all other words are unchanged.

    In a DataFrame, cells that are bool are read as numbers.
    """
    compute = import_pyarrow().compute
    words = compute.if_else(compute.equal(words, "True"), "1", words)
    return compute.if_else(compute.equal(words, "False"), "0", words)
