"""The way from raw samples, rows of a table or pictures, to the inputs of a model.

A published model carries its preprocessing along, so that a stranger can apply the model to raw samples. Hence nothing
in it may depend on private records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray


class Preprocessing(ABC):
    """A function from raw samples to inputs, fitted on public data alone or on nothing."""

    kind: ClassVar[str]  # its name in a file

    @property
    @abstractmethod
    def feature_names(self) -> tuple[str, ...]:
        """A name for each number of an input, or none where inputs are pictures."""

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input, without the axis of samples."""

    @abstractmethod
    def inputs(self, given: Any) -> NDArray[np.float32]:
        """Returns the inputs of raw samples, float32 `[n, *input_shape]`.

        Raises:
            InvalidValue: a sample lacks something, or is of another kind.
        """

    @property
    def origin(self) -> Mapping[str, str | int | float | bool | None]:
        """The features that stand for pictures: what they were fitted on, and digests. Empty where inputs are plain."""
        return {}

    def save(self, folder: Path | str) -> None:  # noqa: B027 - there may be nothing
        """Writes what JSON cannot hold into the folder of a bundle."""

    @abstractmethod
    def plain(self) -> dict[str, Any]:
        """Returns the whole preprocessing as values for JSON."""
