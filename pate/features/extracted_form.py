"""Pictures as inputs of a model that takes features: brought to one size, then through the extractor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import Preprocessing
from pate.data.image_form import ImageForm
from pate.features.extractor import Extractor
from pate.files.reading import damaged, file_digest
from pate.validation import InvalidValue, require

FILE = "extractor.safetensors"
"""Its name in the bundle."""

_LEVELS = np.float32(255)


@dataclass(frozen=True, eq=False)
class ExtractedForm(Preprocessing):
    """See `Preprocessing`.

    Attributes:
        pictures: how pictures are brought to the size of the extractor's; None where only arrays can be given.
        extractor: makes features of them.
    """

    pictures: ImageForm | None
    extractor: Extractor

    kind: ClassVar[str] = "extracted"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """None: nobody gives them."""
        return ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """See `Preprocessing.input_shape`."""
        return (self.extractor.num_features,)

    @property
    def origin(self) -> Mapping[str, Any]:
        """See `Preprocessing.origin`."""
        return {
            "features": self.extractor.kind,
            "dimension": self.extractor.num_features,
            **self.extractor.origin,
            "extractor_sha256": self.extractor.digest(),
        }

    def inputs(self, given: Any) -> NDArray[np.float32]:
        """See `Preprocessing.inputs`: of a list of files or of PIL images, or of an array of pictures."""
        if isinstance(given, np.ndarray):
            return self._of_array(given)
        if self.pictures is None:
            shape = ", ".join(map(str, self.extractor.picture_shape))
            raise InvalidValue(f"data={type(given).__name__}: expected an array of pictures [n, {shape}]")
        return self.extractor.features_of(self.pictures.inputs(given))

    def _of_array(self, given: NDArray[Any]) -> NDArray[np.float32]:
        """Of pictures `[n, channels, height, width]`, as bytes or as numbers in [0, 1]."""
        wanted = self.extractor.picture_shape
        require(given.shape[1:] == wanted, "data.shape", given.shape, f"[n, {', '.join(map(str, wanted))}]")
        shown = given.astype(np.float32)
        return self.extractor.features_of(shown / _LEVELS if given.dtype == np.uint8 else shown)

    def plain(self) -> dict[str, Any]:
        """See `Preprocessing.plain`; the arrays are in the file beside."""
        return {
            "kind": self.kind,
            "pictures": None if self.pictures is None else self.pictures.plain(),
            "extractor": {
                "kind": self.extractor.kind,
                "file": FILE,
                "sha256": self.extractor.digest(),
                "settings": dict(self.extractor.settings),
                "origin": dict(self.extractor.origin),
            },
        }

    def save(self, folder: Path) -> None:
        """See `Preprocessing.save`."""
        self.extractor.save(folder / FILE)

    @classmethod
    def read(cls, said: Mapping[str, Any], folder: Path, *, remedy: str) -> Self:
        """From what `plain` gave, and the file beside it."""
        path, rule = folder / FILE, "the extractor that the schema names"
        if file_digest(path, rule=rule, remedy=remedy) != said["extractor"]["sha256"]:
            raise damaged(path, rule, "it is another", remedy)
        extractor = Extractor.load(path, remedy=remedy)
        pictures = None if said["pictures"] is None else ImageForm.read(said["pictures"])
        if pictures is not None:
            found = pictures.input_shape
            require(found == extractor.picture_shape, "pictures", found, f"pictures {extractor.picture_shape}")
        return cls(pictures, extractor)
