"""What makes a model's inputs of what its users have: public, and published with the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray


class Preprocessing(ABC):
    """From a table or pictures to inputs. It was fitted on public data alone, or on nothing.

    Attributes:
        kind: its name in a file, of the class.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def feature_names(self) -> tuple[str, ...]:
        """A name for each number of an input, or none where inputs are pictures."""

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""

    @abstractmethod
    def inputs(self, given: Any) -> NDArray[np.float32]:
        """Inputs float32 `[n, …]`; raises `InvalidValue` where something is missing or of another kind."""

    def tells(self, inputs: NDArray[np.float32]) -> Mapping[str, bool]:
        """Of each column, whether inputs `[n, …]` say something of it that the public file knows; {} of pictures."""
        return {}

    @property
    def origin(self) -> Mapping[str, str | int | float | bool | None]:
        """Which features stand for pictures, what they were fitted on, and digests; nothing where inputs are plain."""
        return {}

    def save(self, folder: Path) -> None:
        """Writes what JSON cannot hold into the folder of a bundle; there may be nothing."""
        return

    @abstractmethod
    def plain(self) -> dict[str, Any]:
        """All of it, for JSON."""
