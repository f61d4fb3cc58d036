"""Columns of free text: a vector for each text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from pate.data.table.cells import as_texts
from pate.data.table.column import Column, Encoded
from pate.data.table.spelling import USUAL, CellSpelling
from pate.data.texts.reading import as_strings
from pate.data.texts.vectors import TextVectors
from pate.validation import require


@dataclass(frozen=True)
class TextColumn(Column):
    """A column of free text, or of words too many of which differ for categories, such as names or comments.

    The column cannot become a feature until it has a `text_transform`. A text is then encoded as a vector of length
    `weight`, or as 0 if all its words are unknown. A missing text is encoded like an empty text.

    Attributes:
        has_missing: always False, as no feature marks missing texts.
        text_transform: the transform from texts to vectors of length 1; None if there is none yet.
        weight: the length of the vector of a text, above 0.
    """

    has_missing: bool = False
    text_transform: TextVectors | None = None
    weight: float = 1.0

    kind: ClassVar[str] = "text"

    @property
    def expects(self) -> str:
        """The description of what the public file would have to hold for a feature without text vectors."""
        return "numbers, dates such as 2025-01-31, or words that occur again"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of each component of a text's vector; an empty tuple without `text_transform`."""
        if self.text_transform is None:
            return ()
        return tuple(
            f"{self.name}[{dimension}]" for dimension in range(self.text_transform.dimension)
        )

    def encode(self, cells: Any, cell_notation: CellSpelling = USUAL) -> Encoded:
        """Returns texts as vectors `[num_cells, dimension]` of length `weight`; `[num_cells, 0]` without a transform.

        A text without a known word has the vector 0, and counts as unknown unless it is missing.
        """
        encoded = super().encode(cells, cell_notation=cell_notation)
        if self.text_transform is None:
            return encoded
        features = self.text_transform.vectors(as_strings(as_texts(cells))) * np.float32(
            self.weight
        )
        _, num_missing = encoded.num_unknown_and_missing.tolist()
        num_zero = int((~features.any(axis=1)).sum())  # missing texts are among them
        return Encoded(
            features=features,
            wrong=encoded.wrong,
            num_unknown_and_missing=np.array([num_zero - num_missing, num_missing]),
        )

    def plain(self) -> dict[str, Any]:
        """Returns the column as values for JSON, with the name and the digest of the file of its vectors.

        The transform itself is in that file, in the same folder as the schema.
        """
        text_transform = self.text_transform
        if text_transform is None:
            return super().plain()
        return {
            "kind": self.kind,
            "weight": self.weight,
            "vectors": text_transform.kind,
            "dimension": text_transform.dimension,
            **text_transform.origin,
            "file": text_transform.file,
            "sha256": text_transform.digest,
        }

    @classmethod
    def read(cls, name: str, schema_entry: Mapping[str, Any], schema_folder: Path | None) -> Self:
        """Builds the column from the entry that `plain` returned, with the file of vectors in the folder.

        If the entry names no file, or `schema_folder` is None, the column has no vectors. For the arguments see
        `Column.read`.
        """
        if "file" not in schema_entry or schema_folder is None:
            return cls(name)
        weight = float(schema_entry["weight"])
        require(0 < weight < np.inf, f"{name}.weight", weight, "a number > 0")
        # The file is one of this folder, whatever the entry says.
        file_name = Path(str(schema_entry["file"])).name
        text_transform = TextVectors.load(
            schema_folder / file_name,
            sha256=str(schema_entry["sha256"]),
            remedy="copy it from where the schema comes from; it stands beside it",
        )
        return cls(name, text_transform=text_transform, weight=weight)
