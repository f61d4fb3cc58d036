"""Votes in a public space of few dimensions: a teacher's weights there, in place of its votes on every query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.validation import require

_TOLERANCE = 2.0**-30


@dataclass(frozen=True, eq=False)
class LowRankVotes:
    """A block of teachers whose votes minus the center are `span @ weights[t]`.

    The span is orthonormal, so the votes `[Q, L]` are as long as the weights `[r, L]`: clipping and adding need no
    votes, and millions of teachers are a few products of matrices.

    Attributes:
        span: `[Q, r]`, public, orthonormal columns.
        weights: `[c, r, L]`, one matrix per teacher.

    Raises:
        InvalidValue: shapes that do not match, or columns that are not orthonormal.
    """

    span: NDArray[np.float64]
    weights: NDArray[np.float64]

    def __post_init__(self) -> None:
        require(self.span.ndim == 2 and self.span.size > 0, "span.shape", self.span.shape, "[num_queries, r]")
        width = self.span.shape[1]
        good = self.weights.ndim == 3 and self.weights.size > 0 and self.weights.shape[1] == width
        require(good, "weights.shape", self.weights.shape, f"[c, {width}, num_labels]")
        error = float(np.abs(self.span.T @ self.span - np.eye(width)).max())
        require(error <= _TOLERANCE, "span", f"{error:.2g} off", "orthonormal columns")

    def __len__(self) -> int:
        return len(self.weights)

    def votes(self) -> NDArray[np.float64]:
        """The votes minus the center, `[c, Q, L]`."""
        return np.asarray(self.span @ self.weights)
