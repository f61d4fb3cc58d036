"""Records that do not look like the public ones: columns in which none of them says what the public file knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from pate.data.preprocessing import Preprocessing

_FEWEST = 100  # records; fewer may all be rare ones
_BLOCK = 5000


class UnlikePublic(UserWarning):
    """A warning: a column of these records tells a model nothing."""


def unlike_public(name: str, form: Preprocessing, inputs: NDArray[np.float32]) -> Iterator[str]:
    """A line for each such column of inputs `[n, …]`; it reads them until each column has told something."""
    tells: dict[str, bool] = {}
    for first in range(0, len(inputs), _BLOCK):
        for column, told in form.tells(inputs[first : first + _BLOCK]).items():
            tells[column] = told or tells.get(column, False)
        if all(tells.values()):
            return
    yield from untold(name, tells, len(inputs))


def untold(name: str, tells: Mapping[str, bool], num_records: int) -> Iterator[str]:
    """A line for each column that tells nothing; none where there are few records."""
    rule = "every cell is missing, or no word of the public file, or at one end of its range; in other words or units?"
    for column, told in tells.items():
        if not told and num_records >= _FEWEST:
            yield f"{name}.{column}: {rule}"
