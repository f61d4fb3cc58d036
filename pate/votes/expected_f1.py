"""Where calibrated probabilities become labels: at the best micro-F1 that they expect of themselves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def expected_f1_threshold(probabilities: NDArray[np.floating]) -> float:
    """The threshold with the best expected micro-F1 on rows that nobody labeled, if the probabilities are true.

    Of all labels of all rows those with the highest probabilities are predicted, as many as make
    2 (sum of these) / (their number + sum of all) largest.

    Args:
        probabilities: `[n, L]`, n > 0.

    Returns:
        The smallest probability that is predicted, in (0, 1].

    >>> expected_f1_threshold(np.array([[0.9, 0.4], [0.3, 0.1]]))
    0.4
    """
    falling = np.sort(probabilities.ravel().astype(np.float64))[::-1]
    gain = np.cumsum(falling) / (np.arange(1, len(falling) + 1) + falling.sum())
    return float(np.clip(falling[int(np.argmax(gain))], 1e-3, 1.0))
