"""What makes features of pictures, once it is fitted: numbers and settings, in one file."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from pate.files.atomic import replacing
from pate.files.reading import damaged, require_file, unreadable
from pate.validation import InvalidValue, require

_RULE = "an extractor of features"
_KINDS = {"patches": "patch_extractor.PatchExtractor", "backbone": "backbone_extractor.BackboneExtractor"}
_ENTRY = "extractor"
_MODERATE, _TIMES = 2**24, 16  # numbers that a file may ask for, whatever it holds, and per number in it


@dataclass(frozen=True, eq=False)
class Extractor(ABC):
    """From pictures to features. It was fitted on public pictures, or on nothing.

    Attributes:
        arrays: all that was learned or read, by name; float32.
        settings: plain values that say how the arrays are used.
        origin: plain values: what it was fitted on, with digests.
    """

    arrays: Mapping[str, NDArray[np.float32]]
    settings: Mapping[str, Any]
    origin: Mapping[str, Any]

    kind: ClassVar[str]

    @property
    def picture_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of the pictures that it takes."""
        channels, height, width = self.settings["picture_shape"]
        return int(channels), int(height), int(width)

    @property
    def num_features(self) -> int:
        """Numbers a picture."""
        return int(self.arrays["projection"].shape[1])

    @property
    def batch_size(self) -> int:
        """Pictures that are worked on at once; features are the same bytes for the same batches."""
        return 64

    @abstractmethod
    def _numbers_at_once(self) -> int:
        """About how many numbers are in memory for one picture, by settings and shapes alone.

        Raises:
            ValueError: arrays of other shapes than the settings say.
        """

    @abstractmethod
    def features(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Features `[n, num_features]` of one batch of pictures `[n, channels, height, width]` in [0, 1]."""

    def features_of(self, images: Any) -> NDArray[np.float32]:
        """Features of any number of pictures, in memory.

        Raises:
            InvalidValue: pictures of another shape.
        """
        found, wanted = tuple(images.shape[1:]), self.picture_shape
        require(found == wanted, "pictures.shape[1:]", found, f"{wanted}, as the features were made for")
        features = np.empty((len(images), self.num_features), np.float32)
        for first in range(0, len(images), self.batch_size):
            batch = np.zeros((self.batch_size, *wanted), np.float32)  # full: products of one shape treat pictures alike
            shown = np.asarray(images[first : first + self.batch_size], np.float32)
            batch[: len(shown)] = shown
            features[first : first + len(shown)] = self.features(batch)[: len(shown)]
        return features

    def to_bytes(self) -> bytes:
        """The file: safetensors, with kind, settings and origin in its head; equal extractors give equal bytes."""
        said = {"kind": self.kind, "settings": dict(self.settings), "origin": dict(self.origin)}
        arrays = {name: np.ascontiguousarray(array, np.float32) for name, array in sorted(self.arrays.items())}
        return save(arrays, metadata={_ENTRY: json.dumps(said, sort_keys=True)})

    def digest(self) -> str:
        """SHA-256 of the file, in hexadecimal."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def save(self, path: Path) -> None:
        """Writes the file, whole or not at all."""
        with replacing(path) as file:
            file.write(self.to_bytes())

    @staticmethod
    def load(path: Path, *, remedy: str) -> Extractor:
        """Reads what `save` wrote; nothing is unpickled and nothing is run.

        Raises:
            InvalidValue: no such file; it is damaged; what it needs is not installed.
        """
        require_file(path, rule=_RULE, remedy=remedy)
        try:
            with safe_open(path, framework="numpy") as file:
                said = json.loads((file.metadata() or {})[_ENTRY])
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            module, _, name = _KINDS[said["kind"]].partition(".")
            settings, origin = dict(said["settings"]), dict(said["origin"])
        except OSError as error:
            raise unreadable(path, error, rule=_RULE, remedy=remedy) from error
        except (SafetensorError, ValueError, LookupError, TypeError, RecursionError, MemoryError) as error:
            raise damaged(path, _RULE, type(error).__name__, remedy) from None
        made: Extractor = getattr(import_module(f"pate.features.{module}"), name)(arrays, settings, origin)
        made._require_usable(path, remedy)
        return made

    def _require_usable(self, path: Path, remedy: str) -> None:
        """Raises where the arrays do not make an extractor of this kind: asked for one picture, it has to answer."""
        try:
            good = all(array.dtype == np.float32 and np.isfinite(array).all() for array in self.arrays.values())
            held = sum(array.size for array in self.arrays.values())
            good = good and all(size > 0 for size in self.picture_shape)
            good = good and self._numbers_at_once() <= _MODERATE + _TIMES * held
            found = self.features(np.full((1, *self.picture_shape), 0.5, np.float32)) if good else None
        except InvalidValue:
            raise
        except (LookupError, ValueError, ArithmeticError, RuntimeError, TypeError, AttributeError, MemoryError):
            found = None
        if found is None or not np.isfinite(found).all():
            raise damaged(path, _RULE, "arrays that give no features", remedy)
