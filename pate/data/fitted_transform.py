"""A transform that is fitted on public data, and the file that stores it.

The file has the format safetensors: arrays by name, and a header with one JSON object that holds the kind, the settings
and the origin. Reading the file executes no code. Equal transforms give equal bytes, so the digest of the file
identifies the transform.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from pate.files.atomic import atomic_write
from pate.files.digests import file_digest
from pate.files.reading import damaged, require_file, unreadable
from pate.validation import InvalidValue

CONTENT_ERRORS = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    MemoryError,
    RuntimeError,
    ArithmeticError,
)
"""The errors that Python and numpy raise where a file's arrays and settings do not fit together."""

# The largest number of characters of the reason in a message.
_MAX_REASON = 100


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class FittedTransform(ABC):
    """A transform that is fitted on public data, or not fitted at all, and that is saved in a safetensors file.

    Attributes:
        arrays: all numbers that were learned or read, as arrays by name.
        settings: values for JSON that determine how the arrays are used.
        origin: values for JSON that describe the data on which the transform was fitted, with digests.
        path: the file from which the transform was read; None if it was not read from a file.
    """

    arrays: Mapping[str, NDArray[Any]]
    settings: Mapping[str, Any]
    origin: Mapping[str, Any]
    path: Path | None = None

    # The name of the class in the file, and the key of the JSON object in the file's header.
    kind: ClassVar[str]
    metadata_key: ClassVar[str]
    # The description of such a file, for messages.
    description: ClassVar[str]

    @classmethod
    @abstractmethod
    def class_for_kind(cls, kind: str) -> type[FittedTransform]:
        """Returns the subclass whose class attribute `kind` has this value; raises `LookupError` if there is none."""

    @abstractmethod
    def _output_for_artificial_input(self) -> NDArray[Any]:
        """Returns the output for an artificial input; raises an error if arrays and settings do not fit together."""

    def validate(self) -> None:
        """Raises an error if arrays and settings do not fit together, or if arrays or their output are not finite.

        The output is computed for an artificial input. The error is one of `CONTENT_ERRORS`, which are errors of Python
        such as ValueError and KeyError.
        """
        float_arrays_of_transform = [
            array for array in self.arrays.values() if array.dtype.kind == "f"
        ]
        if not all(np.isfinite(array).all() for array in float_arrays_of_transform):
            raise ValueError("arrays with numbers that are not finite")
        if not np.isfinite(self._output_for_artificial_input()).all():
            raise ValueError("arrays whose output is not finite")

    @cached_property
    def content(self) -> bytes:
        """The bytes of the file. Transforms with equal arrays, settings and origins have equal bytes."""
        from safetensors.numpy import save  # optional

        header = {"kind": self.kind, "settings": dict(self.settings), "origin": dict(self.origin)}
        arrays = {name: np.ascontiguousarray(array) for name, array in sorted(self.arrays.items())}
        return save(arrays, metadata={self.metadata_key: json.dumps(header, sort_keys=True)})

    @cached_property
    def digest(self) -> str:
        """The SHA-256 digest of the file, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()

    def save(self, path: Path | str) -> None:
        """Writes the file in one step, and replaces an existing file."""
        transform_bytes = self.content
        with atomic_write(path) as file:
            file.write(transform_bytes)

    @classmethod
    def load(
        cls, path: Path | str, *, remedy: str, sha256: str | None = None, **kwargs: Any
    ) -> Self:
        """Reads a file that `save` wrote, and returns the transform.

        Args:
            path: the file.
            remedy: the advice at the end of an error message.
            sha256: the digest that the file must have; None if the digest is not checked.
            kwargs: fields of the transform that the file does not hold.

        Raises:
            DamagedFile: the file is missing, has another digest, or holds arrays and settings that do not fit together.
            OSError: the file cannot be read for another reason, such as a missing permission.
        """
        from safetensors import SafetensorError, safe_open

        if sha256 is not None and file_digest(path, rule=cls.description, remedy=remedy) != sha256:
            raise damaged(path, rule=cls.description, finding="it is another", remedy=remedy)
        require_file(path, rule=cls.description, remedy=remedy)
        try:
            with safe_open(path, framework="numpy") as file:
                header = json.loads((file.metadata() or {})[cls.metadata_key])
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            transform = cls.class_for_kind(header["kind"])(
                arrays=arrays,
                settings=dict(header["settings"]),
                origin=dict(header["origin"]),
                path=Path(path),
                **kwargs,
            )
            transform.validate()
        except OSError as error:
            raise unreadable(path, error, rule=cls.description, remedy=remedy) from error
        except InvalidValue:  # a ValueError, too, whose own message stays
            raise
        except (SafetensorError, *CONTENT_ERRORS) as error:
            reason = f"{type(error).__name__}: {error}"[:_MAX_REASON]
            raise damaged(path, rule=cls.description, finding=reason, remedy=remedy) from None
        return cast("Self", transform)
