"""Columns of free text: a vector for each text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from pate.data.table.cells import as_texts
from pate.data.table.column import Column, Encoded
from pate.data.table.spelling import USUAL, Spelling
from pate.data.texts.reading import as_strings
from pate.data.texts.vectors import TextVectors
from pate.validation import require


@dataclass(frozen=True)
class TextColumn(Column):
    """Words that are nearly all different, such as names or remarks.

    They can be no feature before they have `vectors`. Then a text is a vector of length `weight`, or 0 where nothing is
    known of it. A missing text is an empty text.
    """

    vectors: TextVectors | None = None
    weight: float = 1.0

    kind = "text"

    @property
    def expects(self) -> str:
        """The rule for the public file, where the column can be no feature."""
        return "numbers, dates such as 2025-01-31, or words that occur again"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A name for each component of a text's vector."""
        if self.vectors is None:
            return ()
        return tuple(f"{self.name}[{place}]" for place in range(self.vectors.dimension))

    def encode(self, array: Any, spelling: Spelling = USUAL) -> Encoded:
        """Encodes texts as weighted vectors `[n, dimension]`; of an unknown text nothing is known."""
        cells = super().encode(array, spelling)
        if self.vectors is None:
            return cells
        features = self.vectors.vectors(as_strings(as_texts(array))) * np.float32(self.weight)
        num_missing = int(cells.unknown_and_missing[1])
        num_zero = int((~features.any(axis=1)).sum())  # missing texts are among them
        return Encoded(
            features=features,
            wrong=cells.wrong,
            unknown_and_missing=np.array([num_zero - num_missing, num_missing]),
        )

    def plain(self) -> dict[str, Any]:
        """Returns the column as JSON can hold it; the vectors lie in a file beside the schema."""
        vectors = self.vectors
        if vectors is None:
            return super().plain()
        return {
            "kind": self.kind,
            "weight": self.weight,
            "vectors": vectors.kind,
            "dimension": vectors.dimension,
            **vectors.origin,
            "file": vectors.file,
            "sha256": vectors.digest,
        }

    @classmethod
    def read(cls, name: str, entry: Mapping[str, Any], folder: Path | None) -> Self:
        """Reads the entry that `plain` gave, with the file of vectors in the folder."""
        if "file" not in entry or folder is None:
            return cls(name, missing=False)
        weight = float(entry["weight"])
        require(0 < weight < np.inf, f"{name}.weight", weight, "a number > 0")
        vectors = TextVectors.load(
            folder
            / Path(str(entry["file"])).name,  # a file of this folder, whatever the entry says
            sha256=str(entry["sha256"]),
            remedy="copy it from where the schema comes from; it stands beside it",
        )
        return cls(name, missing=False, vectors=vectors, weight=weight)
