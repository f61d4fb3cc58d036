"""The threshold at which a student's probabilities become labels, found on released rows alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LOWEST = 1e-3  # above the probability 0 of a label that was never released


def best_threshold(probabilities: NDArray[np.floating], labels: NDArray[np.bool_]) -> tuple[float, float]:
    """The threshold, one for all labels, with the best micro-F1 on held-out probabilities.

    Per-label thresholds were tried and lost on rare labels: a few rows cannot place them.

    Args:
        probabilities: `[n, num_labels]`, each predicted without its own row.
        labels: bool `[n, num_labels]`.

    Returns:
        The threshold in (0, 1], halfway between two neighboring probabilities, and its micro-F1; 0.5 and
        0.0 where no label holds.
    """
    if not labels.any():
        return 0.5, 0.0
    order = np.argsort(-probabilities, axis=None, kind="stable")
    sorted_probabilities, sorted_labels = probabilities.ravel()[order], labels.ravel()[order]
    predicted = np.arange(1, len(order) + 1)
    micro_f1 = 2 * np.cumsum(sorted_labels) / (predicted + sorted_labels.sum())
    following = np.append(sorted_probabilities[1:], 0.0)
    micro_f1[sorted_probabilities == following] = -1  # equal probabilities cannot be told apart
    best = int(np.argmax(micro_f1))
    threshold = (sorted_probabilities[best] + following[best]) / 2
    return float(np.clip(threshold, _LOWEST, 1.0)), float(micro_f1[best])


def matched_threshold(probabilities: NDArray[np.floating], labels_per_sample: float) -> float:
    """The threshold at which held-out probabilities `[n, num_labels]` predict that many labels a sample."""
    share = min(labels_per_sample / probabilities.shape[1], 1.0)
    return float(np.clip(np.quantile(probabilities, 1 - share), _LOWEST, 1.0))
