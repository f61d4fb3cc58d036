"""The threshold on probabilities that has the best expected micro-F1."""

import numpy as np
from numpy.typing import NDArray

# The smallest threshold: a label with probability 0 must not be predicted.
_MIN_THRESHOLD = 1e-3


def expected_f1_threshold(probabilities: NDArray[np.floating]) -> float:
    """Returns the threshold on probabilities with the best expected micro-F1, for rows without labels.

    The probabilities are assumed to be right. Let the m entries with the highest probabilities be predicted. Their
    expected micro-F1 is 2 (sum of the m probabilities) / (m + sum of all probabilities). The threshold is the smallest
    of the m probabilities at the best m, but at least 0.001.

    Args:
        probabilities: `[num_rows, num_labels]`.

    >>> expected_f1_threshold(np.array([[0.9, 0.4], [0.3, 0.1]]))
    0.4
    """
    all_falling_probabilities = np.sort(probabilities.ravel().astype(np.float64))[::-1]
    f1_of_counts = np.cumsum(all_falling_probabilities) / (
        np.arange(1, len(all_falling_probabilities) + 1) + all_falling_probabilities.sum()
    )
    best_threshold = all_falling_probabilities[int(np.argmax(f1_of_counts))]
    return float(np.clip(best_threshold, a_min=_MIN_THRESHOLD, a_max=1.0))
