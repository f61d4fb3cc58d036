"""Minibatches for teachers trained side by side, each in an order of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Minibatches:
    """Draws, step by step, one minibatch for each of several parts.

    Every part is walked through in a fresh random order each epoch, in `ceil(size / batch_size)` steps; the
    order depends on the part's own size and generator alone. A part that has done its epochs sits the
    remaining steps out.

    Attributes:
        num_steps: steps until the part with the most steps has done its epochs.
    """

    def __init__(self, sizes: Sequence[int], batch_size: int, epochs: int, rngs: Sequence[np.random.Generator]) -> None:
        self._sizes, self._batch_size, self._rngs = sizes, batch_size, rngs
        self._steps_per_epoch = [-(-size // batch_size) for size in sizes]
        self._last_step = [epochs * steps for steps in self._steps_per_epoch]
        self._orders: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * len(sizes)
        self.num_steps = max(self._last_step)
        self._next = 0

    def draw(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the next step's rows, int64 `[num_parts, b]`, and how many of them count, `[num_parts]`.

        Rows behind a part's count are 0; a part that has done its epochs has count 0.
        """
        step, self._next = self._next, self._next + 1
        rows = np.zeros((len(self._sizes), min(self._batch_size, max(self._sizes))), np.int64)
        counts = np.zeros(len(self._sizes), np.int64)
        for part, per_epoch in enumerate(self._steps_per_epoch):
            if step >= self._last_step[part]:
                continue
            if step % per_epoch == 0:
                self._orders[part] = self._rngs[part].permutation(self._sizes[part])
            first = step % per_epoch * self._batch_size
            taken = self._orders[part][first : first + self._batch_size]
            rows[part, : len(taken)], counts[part] = taken, len(taken)
        return rows, counts
