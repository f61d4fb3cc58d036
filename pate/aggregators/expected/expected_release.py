"""What to expect of a release whose votes nobody has looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

NUM_QUERIES = 256
"""Made-up queries that an aggregator is run on."""

LEAST_ANSWERED, _LEAST_RIGHT = 1 / 3, 0.75


@dataclass(frozen=True)
class ExpectedRelease:
    """How many labels of a query a release gets right, if teachers agree to a known degree.

    Attributes:
        answered: the probability that a query is answered, in [0, 1].
        present: the share of labels that are present and said to be, in an answer; 0 without an answer.
        absent: the share of labels that are absent and said to be, in an answer; 0 without an answer.
    """

    answered: float
    present: float
    absent: float

    @property
    def success(self) -> float:
        """`answered` times `right`: 1 at best."""
        return self.answered * self.right

    @property
    def right(self) -> float:
        """The mean of the two shares: 1/2 for answers that are drawn blindly."""
        return (self.present + self.absent) / 2

    @property
    def is_useless(self) -> bool:
        """Whether fewer than a third of the queries are answered, or more than a quarter of the bits are wrong."""
        return self.answered < LEAST_ANSWERED or self.right < _LEAST_RIGHT

    @classmethod
    def counted(cls, labels: NDArray[np.bool_], answered: NDArray[np.bool_], true: NDArray[np.bool_]) -> Self:
        """What was released `[Q, L]` and answered `[Q]` against the labels that the queries have."""
        if not answered.any():
            return cls(0.0, 0.0, 0.0)
        said, true = labels[answered], true[answered]
        present = float(said[true].mean()) if true.any() else 1.0
        absent = float((~said[~true]).mean()) if not true.all() else 1.0
        return cls(float(answered.mean()), present, absent)

    @classmethod
    def together(cls, parts: Sequence[tuple[int, Self]]) -> Self:
        """Of several parts of a release, each with its number of queries."""
        answers = np.array([count * part.answered for count, part in parts])
        if not answers.any():
            return cls(0.0, 0.0, 0.0)
        present, absent = (
            float(np.average([getattr(part, name) for _, part in parts], weights=answers))
            for name in ("present", "absent")
        )
        return cls(float(answers.sum() / sum(count for count, _ in parts)), present, absent)
