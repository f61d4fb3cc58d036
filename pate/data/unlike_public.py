"""Records that do not look like the public ones: columns in which none of them says what the public file knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from pate.data.preprocessing import Preprocessing

_FEWEST = 10  # records; fewer may all be rare ones
_MOST = 5000


class UnlikePublic(UserWarning):
    """A warning: a column of these records tells a model nothing."""


def unlike_public(name: str, form: Preprocessing, inputs: NDArray[np.float32]) -> Iterator[str]:
    """A line for each such column, by the inputs `[n, …]` of some thousand records spread over all of them."""
    yield from untold(name, form.tells(inputs[:: max(1, len(inputs) // _MOST)]), len(inputs))


def untold(name: str, tells: Mapping[str, bool], num_records: int) -> Iterator[str]:
    """A line for each column that tells nothing; none where there are few records."""
    rule = "every cell is missing or is no word of the public file; is it written otherwise there?"
    for column, told in tells.items():
        if not told and num_records >= _FEWEST:
            yield f"{name}.{column}: {rule}"
