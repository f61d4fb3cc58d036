"""The linear programs of one query's laws, at corners: between two ratios of refusals, at one growth of all weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pate.accounting.joint_law.linear_programs import LinearPrograms
from pate.accounting.joint_law.types import CandidateTypes

Array = NDArray[np.float64]
Places = NDArray[np.int64]
Divergence = Callable[[Array], Array]
"""A convex function >= 0 of Q / P, 0 at 1: what an outcome adds per mass under P."""

_FAILS, _MOVED, _MOVED_FAILS, _ONE, _LIMITS = 0, 1, 2, 3, slice(4, 7)  # the parts of the programs
_VALUES, _EVEN, _SHARED, _REFUSED = 0, 1, slice(2, 5), slice(5, 7)  # their values and rows


class Corner(NamedTuple):
    """Where a program is made: the log of the ratio of refusals is in low..high, that of the weights' growth is known.

    All in units of the largest move.
    """

    low: float
    high: float
    growth: float


class Corners:
    """The programs at corners, and how to make them.

    What a type adds counts refusals by the chord between their two ratios, or by its own ratio where a ratio is
    missing. The rows are "the weights grow by this", those of the types, and two on refusals.

    Attributes:
        places: of each corner in the arrays.
        shares: `[N]`, what the moved weights are multiplied by, so that all together are 1 again.
        limited: `[N, 2]`, whether refusals are limited from below and from above.
        moved: `[2, K]`: by how much a type's weight is multiplied, and its refusals.
    """

    def __init__(self, types: CandidateTypes, divergence: Divergence) -> None:
        self._types, self._divergence = types, divergence
        self.moved = np.stack([types.moved, types.moved * types.moved_fails])
        self._parts = np.stack([types.fails, *self.moved, np.ones_like(types.fails), *types.limits])
        self.places: dict[Corner, int] = {}
        self.shares, self.limited = np.zeros(0), np.zeros((0, 2), dtype=bool)
        self._weights, self._sizes = np.zeros((0, 7, 7)), np.zeros((0, 7))
        self._added: list[Array] = []
        self._kept: dict[tuple[float, bool], Array] = {}

    def add(self, corners: Iterable[Corner]) -> Places:
        """Makes programs where there are none, and returns their places."""
        known = len(self.places)
        for corner in corners:
            self.places.setdefault(corner, len(self.places))
        if new := list(self.places)[known:]:
            self._make(new)
        return np.arange(known, len(self.places))

    def programs(self, places: Places, some: Places | slice = slice(None)) -> LinearPrograms:
        """Those at some corners, over some types."""
        added = np.stack([self._added[place][some] for place in places.tolist()])
        return LinearPrograms(self._parts[:, some], self._weights[places], self._sizes[places], added)

    def _make(self, corners: list[Corner]) -> None:
        low, high, growth = np.array(corners).T
        low, high, share = (np.exp(self._types.largest * logs) for logs in (low, high, -growth))
        limited = np.column_stack([low > 0, high < np.inf])
        near, far = self._divergence(np.stack([low, high]))
        chord = limited.all(axis=1) & np.isfinite(near) & np.isfinite(far)
        slope = np.where(chord, (far - near) / (high - low), 0.0)
        added = [self._of_growth(*of) for of in zip(growth.tolist(), chord.tolist(), strict=True)]

        weights = np.zeros((len(corners), 7, 7))
        weights[:, _VALUES, _FAILS] = np.where(chord, near - slope * low, 0.0)
        weights[:, _VALUES, _MOVED_FAILS] = slope * share
        weights[:, _EVEN, _MOVED], weights[:, _EVEN, _ONE] = share, -1
        weights[:, _SHARED, _LIMITS] = np.eye(3)
        of_refusals = np.stack([[low, -share], [-high, share]])
        weights[:, _REFUSED, _FAILS:_ONE:2] = np.where(limited[:, :, None], of_refusals.transpose(2, 0, 1), 0.0)
        sizes = np.abs(weights) @ np.abs(self._parts).max(axis=1)
        sizes[:, _VALUES] += np.where(chord, 2 * np.abs(slope * low), 0.0) + [np.abs(part).max() for part in added]

        self.shares, self.limited = np.append(self.shares, share), np.append(self.limited, limited, axis=0)
        self._weights, self._sizes = np.append(self._weights, weights, axis=0), np.append(self._sizes, sizes, axis=0)
        self._added += added

    def _of_growth(self, growth: float, by_chord: bool) -> Array:
        """What passing adds to the divergence, and refusing where that is not by the chord; kept for other corners."""
        if (growth, by_chord) not in self._kept:
            types, share = self._types, math.exp(-self._types.largest * growth)
            if by_chord:
                ratios = np.where(types.passes > 0, types.moved * types.moved_passes * share / types.passes, 1.0)
                added = np.where(types.passes > 0, types.passes * self._divergence(ratios), 0.0)
            else:
                ratios = types.moved * types.moved_fails * share / types.fails
                added = self._of_growth(growth, True) + types.fails * self._divergence(ratios)
            self._kept[growth, by_chord] = added
        return self._kept[growth, by_chord]
