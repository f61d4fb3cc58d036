"""Linear models whose training is strongly convex, and in which no record pulls harder than a fixed length."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue

Array = NDArray[np.float64]

_TINY = 1e-300
_GUESSES = 8
_ABOVE_GUESS = 1.1
_SMALLEST_STEP = 2.0**-60  # over that of a loss without records


def convex_fit(
    features: Array, targets: Array, *, counts: Array, limits: Array, ridge: float, tolerance: float
) -> Array:
    """Nearly the weights W `[D, L]` that minimize the sum of counts h(|target - features W|) + ridge |W|^2 / 2.

    h is Huber's function of a record's distance over all labels together: a square up to the record's limit, a line
    from there on. So the gradient of a record is at most as long as its count times its limit. Gradient descent:
    wherever a step has not made the gradient shorter, later steps are half as long. Short steps always do.

    Formal guarantee: at the weights that are returned, the loss has a gradient shorter than `tolerance`. They are
    nearer than `tolerance / ridge` to the minimum.

    Args:
        features: `[n, D]`, of length at most 1.
        targets: `[n, L]`.
        counts: `[n]`, > 0.
        limits: `[n]`, > 0.
        ridge: > 0.
        tolerance: > 0.

    Raises:
        InvalidValue: targets that are not finite.
        ArithmeticError: numbers so far apart that doubles do not get there.

    Source: docs/proofs/vote_rounds.md.
    """
    if not np.isfinite(targets).all():
        raise InvalidValue("votes=NaN or infinity: expected finite numbers below 1e150")
    weights = np.zeros((features.shape[1], targets.shape[1]))
    step = 2 / (2 * ridge + _ABOVE_GUESS * _curvature(features, counts))
    before = np.inf
    while True:
        left = targets - features @ weights
        lengths = np.sqrt(np.einsum("ij,ij->i", left, left))
        left *= (counts * np.minimum(1.0, limits / np.maximum(lengths, _TINY)))[:, None]
        gradient = ridge * weights - features.T @ left
        length = float(np.linalg.norm(gradient))
        if length < tolerance:
            return weights
        if not length < before:
            step /= 2
        if not (np.isfinite(length) and step * ridge > _SMALLEST_STEP):
            raise ArithmeticError(f"training ends at a gradient of {length:g}, above {tolerance:g}")
        weights -= step * gradient
        before = length


def _curvature(features: Array, counts: Array) -> float:
    """About the largest eigenvalue of the weighted Gram matrix, and no more than that: by the power method."""
    direction = counts @ features + 1
    for _ in range(_GUESSES):
        unit = direction / max(float(np.linalg.norm(direction)), _TINY)
        direction = (counts * (features @ unit)) @ features
    return float(np.linalg.norm(direction))
