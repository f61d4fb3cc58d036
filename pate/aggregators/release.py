"""A release: what an aggregator hands out, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event


@dataclass(frozen=True)
class Release:
    """The outcome of aggregating the votes on Q queries.

    Attributes:
        labels: bool `[Q, L]`; rows of refused queries are all False and not to be read.
        answered: bool `[Q]`.
        event: what it cost: independent of the votes, of the generator and of which queries were refused.
        adjacency: what the event is priced for.
    """

    labels: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    event: Event
    adjacency: Adjacency

    @property
    def num_queries(self) -> int:
        """Q, refused queries included."""
        return len(self.answered)

    @property
    def num_answered(self) -> int:
        """How many queries were answered."""
        return int(self.answered.sum())
