from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from pate.accounting.exact.loss_grid import LossGrid
from pate.accounting.exact.weighted_sums import WeightedSums, batched


def test_largest_is_that_of_the_sums_one_by_one() -> None:
    grid = LossGrid(first=-40, size=5000, spacing=0.01)
    values = np.exp(-np.linspace(0, 9, grid.size))
    losses = [(up, up - 0.7) for up in np.linspace(0.01, 0.69, 37).tolist()] + [(80.0, -80.0)]
    pad = grid.padding(80.0)  # the last pair leads beyond all points
    padded = grid.padded(values, pad)
    moved = sliding_window_view(padded, grid.size)
    sums = [(grid.shift(up, weight=0.3), grid.shift(down, weight=0.7)) for up, down in losses]
    one_by_one = [sum(grid.moved(padded, pad, shift) for shift in shifts) for shifts in sums]
    together = [WeightedSums(grid, pad, some).largest(moved) for some in batched(sums)]
    assert len(together) == 3
    np.testing.assert_allclose(np.max(together, axis=0), np.max(one_by_one, axis=0), rtol=1e-15)
