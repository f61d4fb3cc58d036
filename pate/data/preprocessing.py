"""The function from raw samples, such as rows of a table or pictures, to the inputs of a model.

A published model includes its preprocessing, so that anybody can apply the model to raw samples. Hence the
preprocessing must not depend on private records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pate.array_types import Float32Array


class Preprocessing(ABC):
    """A function from raw samples to inputs, which is fitted on public data alone or not fitted at all."""

    # The name of the kind of preprocessing in a file.
    kind: ClassVar[str]

    @property
    @abstractmethod
    def feature_names(self) -> tuple[str, ...]:
        """The name of each number in an input; an empty tuple if inputs are pictures."""

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input, without the axis of samples."""

    @abstractmethod
    def inputs(self, samples: Any) -> Float32Array:
        """Returns the inputs for raw samples, float32 `[num_samples, *input_shape]`.

        Args:
            samples: the raw samples, such as a DataFrame or a list of pictures.

        Raises:
            InvalidValue: a sample lacks a column, or has the wrong type.
        """

    @property
    def origin(self) -> Mapping[str, str | int | float | bool | None]:
        """The description of the public data on which the features of pictures or texts were fitted, with digests.

        The mapping is empty if no such features were fitted.
        """
        return {}

    def save(self, folder: Path | str) -> None:  # noqa: B027 - most kinds have no such arrays
        """Writes the arrays that JSON cannot hold into the folder of a published model; most kinds have none."""

    @abstractmethod
    def plain(self) -> dict[str, Any]:
        """Returns the preprocessing as values for JSON, without the arrays that `save` writes."""
