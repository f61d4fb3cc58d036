"""Precision and recall of all bits together, over all thresholds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_POINTS = 200

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PrecisionRecall:
    """A model's trade between precision and recall, on labels that no epsilon covers.

    Attributes:
        recall: `[P]`, ascending.
        precision: `[P]`, at these.
        chosen: recall and precision of the labels that the model predicts.
        constant: the same of the best constant.
        threshold: the probability from which a label is predicted, one for all or one for each; None without one.
    """

    recall: Floats
    precision: Floats
    chosen: tuple[float, float]
    constant: tuple[float, float]
    threshold: float | tuple[float, ...] | None

    @classmethod
    def of(
        cls,
        scores: NDArray[np.floating],
        predicted: NDArray[np.bool_],
        true: NDArray[np.bool_],
        *,
        constant: NDArray[np.bool_],
        threshold: float | tuple[float, ...] | None,
    ) -> PrecisionRecall | None:
        """At up to 200 levels of recall; None where no bit is true.

        Args:
            scores: `[n, L]`.
            predicted: bool `[n, L]`.
            true: bool `[n, L]`.
            constant: bool `[L]`, the labels of the best constant.
            threshold: see above.
        """
        if not true.any():
            return None
        found, every = np.sort(scores[true]), np.sort(scores, axis=None)
        ranks = np.unique(np.linspace(1, len(found), min(_POINTS, len(found))).round().astype(int))
        levels = found[-ranks]
        above = len(found) - np.searchsorted(found, levels)
        precision = above / (len(every) - np.searchsorted(every, levels))
        constants = np.broadcast_to(constant, true.shape)
        return cls(above / len(found), precision, _point(predicted, true), _point(constants, true), threshold)


def _point(predicted: NDArray[np.bool_], true: NDArray[np.bool_]) -> tuple[float, float]:
    """Recall and precision of predicted bits."""
    hits, real, named = (float(bits.sum()) for bits in (predicted & true, true, predicted))
    return hits / max(real, 1.0), hits / max(named, 1.0)
