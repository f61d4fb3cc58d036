"""One step over all laws of a winner: the largest expectation over a tree of discrete pairs."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from pate.accounting.exact.loss_grid import LossGrid
from pate.accounting.winner.pairs import Pair
from pate.accounting.winner.tree import Winner

Array = NDArray[np.float64]
Places = list[int]

_ROUNDING = 2.0**-46
_SLACK = 1e-4  # relative, per step: a pair above many is accepted whose value is this little above a law's
_USES_OF_A_COVER = 12
_NARROW = 1.5  # a bank's kernels are at most this much longer than its shortest


class WinnerStep:
    """The largest over all laws of a winner, or little more.

    As for boxes of bits, a pair is replaced by those that it stands for only where its value exceeds what laws attain,
    and the pairs that were not replaced serve several steps.
    """

    def __init__(self, grid: LossGrid, tree: Winner, negligible: float) -> None:
        self._grid, self._tree, self._slack = grid, tree, negligible
        self._kernels = [[_Kernel(grid, pair) for pair in level] for level in tree.levels]
        self._pad = 1 + max(max(-kernel.first, kernel.last) for level in self._kernels for kernel in level)
        self._cover: list[_Bank] = []
        self._laws: list[_Bank] = []
        self._splits = self._uses_left = 0

    def __call__(self, values: Array) -> Array:
        """The new V on the grid's points."""
        padded = self._grid.padded(values, self._pad)
        if self._uses_left > 0:
            self._uses_left -= 1
            best = self._largest(self._cover, padded)
        else:
            best = self._split(padded)
            self._splits += 1
            self._uses_left = min(2 ** (self._splits // 2), _USES_OF_A_COVER)
        return np.minimum(best * (1 + _ROUNDING + 2 * self._pad * 2.0**-52), 1.0)

    def _split(self, padded: Array) -> Array:
        """The largest from the root of the tree down; renews the cover."""
        attained = self._largest(self._laws, padded)
        best, kept, places = attained, list[_Kernel](), list(range(len(self._kernels[0])))
        for level, kernels in enumerate(self._kernels):
            some = [kernels[place] for place in places]
            if level == len(self._kernels) - 1:
                self._laws = _banks(some)
                best = np.maximum(best, self._largest(self._laws, padded))
                break
            opened: Places = []
            for kernel, place in zip(some, places, strict=True):
                bound = kernel.expectation(padded, self._pad, self._grid.size)
                if (bound > attained * (1 + _SLACK) + self._slack).any():
                    opened += self._tree.children[level][place]
                else:
                    best = np.maximum(best, bound)
                    kept.append(kernel)
            places = opened
        self._cover = [*_banks(kept), *self._laws]
        return best

    def _largest(self, banks: list[_Bank], padded: Array) -> Array:
        best = np.zeros(self._grid.size)
        for bank in banks:
            np.maximum(best, bank.expectations(padded, self._pad, self._grid.size).max(axis=1), out=best)
        return best


class _Kernel:
    """The weights of V at consecutive points whose sum is the expectation over one pair."""

    def __init__(self, grid: LossGrid, pair: Pair) -> None:
        losses = np.array([grid.outward(loss) for loss in pair.losses.tolist()])
        shifts = [
            grid.shift(loss, weight=mass)
            for loss, mass in zip(losses.tolist(), (pair.masses * (1 + pair.excess)).tolist(), strict=True)
        ]
        far = [shift for shift in shifts if shift.whole <= -grid.size]
        near = [shift for shift in shifts if shift.whole > -grid.size]
        self.first, self.last = min(shift.whole for shift in near), max(shift.whole for shift in near) + 1
        self.weights = np.zeros(self.last - self.first + 1)
        for shift in near:
            self.weights[shift.whole - self.first] += shift.lower
            self.weights[shift.whole - self.first + 1] += shift.upper
        self.missing = pair.missing + sum(shift.lower for shift in far)

    def expectation(self, padded: Array, pad: int, size: int) -> Array:
        """`[size]`."""
        reached = padded[pad + self.first : pad + self.last + size]
        return np.asarray(np.convolve(reached, self.weights[::-1], mode="valid") + self.missing)


class _Bank:
    """Kernels of about the same length, side by side."""

    def __init__(self, kernels: list[_Kernel]) -> None:
        self._first, last = min(k.first for k in kernels), max(k.last for k in kernels)
        self._weights = np.zeros((last - self._first + 1, len(kernels)))
        for column, kernel in enumerate(kernels):
            start = kernel.first - self._first
            self._weights[start : start + len(kernel.weights), column] = kernel.weights
        self._missing = np.array([kernel.missing for kernel in kernels])

    def expectations(self, padded: Array, pad: int, size: int) -> Array:
        """`[size, kernels]`."""
        start, length = pad + self._first, len(self._weights)
        windows = sliding_window_view(padded[start : start + size + length - 1], length)
        return np.asarray(np.ascontiguousarray(windows) @ self._weights + self._missing)


def _banks(kernels: list[_Kernel]) -> list[_Bank]:
    made: list[list[_Kernel]] = []
    for kernel in sorted(kernels, key=lambda kernel: len(kernel.weights)):
        if not made or len(kernel.weights) > _NARROW * len(made[-1][0].weights):
            made.append([])
        made[-1].append(kernel)
    return [_Bank(some) for some in made]
