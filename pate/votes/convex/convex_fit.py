"""Linear models whose training is strongly convex, and in which no record pulls harder than a fixed length."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_TINY = 1e-300
_GUESSES = 8
_ABOVE_GUESS = 1.1


def convex_fit(
    features: Array, targets: Array, *, counts: Array, limits: Array, ridge: float, tolerance: float, most_steps: int
) -> Array:
    """Nearly the weights W `[D, L]` that minimize the sum of counts h(|target - features W|) + ridge |W|^2 / 2.

    h is Huber's function of a record's distance over all labels together: a square up to the record's limit, a line
    from there on. So the gradient of a record is at most as long as its count times its limit. Gradient descent comes
    first with a step for the curvature that there seems to be, halved wherever it has not made the gradient shorter.
    If that does not end, it begins again at 0 with a step that is short enough for any records.

    Formal guarantee: it ends, whatever the records are. The weights are nearer than `tolerance / ridge` to the minimum,
    where `most_steps` is at least `steps_to_minimum`. Costs at most twice as many steps.

    Args:
        features: `[n, D]`, of length at most 1.
        targets: `[n, L]`, finite.
        counts: `[n]`, > 0.
        limits: `[n]`, > 0.
        ridge: > 0.
        tolerance: > 0.
        most_steps: >= 1.

    Source: docs/proofs/vote_rounds.md.
    """

    def gradient(weights: Array) -> Array:
        left = targets - features @ weights
        lengths = np.sqrt(np.einsum("ij,ij->i", left, left))
        left *= (counts * np.minimum(1.0, limits / np.maximum(lengths, _TINY)))[:, None]
        return np.asarray(ridge * weights - features.T @ left)

    # No eigenvalue of the Hessian is above ridge + sum of counts, as features have length 1 at most. Up to that step
    # every step takes the distance to the minimum down to 1 - step ridge of it.
    surely = 1 / (ridge + float(counts.sum()))
    probably = 2 / (2 * ridge + _ABOVE_GUESS * _curvature(features, counts))
    for step, least in ((max(probably, surely), surely), (surely, surely)):
        weights, before = np.zeros((features.shape[1], targets.shape[1])), math.inf
        for _ in range(most_steps):
            slope = gradient(weights)
            length = float(np.linalg.norm(slope))
            if length < tolerance:
                return weights
            if not length < before:
                step = max(step / 2, least)
            weights -= step * slope
            before = length
    return weights


def steps_to_minimum(pull: float, *, curvature: float, ridge: float, tolerance: float) -> float:
    """After so many steps from 0 weights are nearer than half of `tolerance / ridge` to the minimum.

    The minimum is no farther from 0 than `pull / ridge`, and n steps leave at most e^(-n ridge / (ridge + curvature))
    of that.

    Args:
        pull: of all records together, the most that it may be.
        curvature: the most that the counts may add up to.
        ridge: > 0.
        tolerance: > 0.
    """
    return math.ceil((1 + curvature / ridge) * math.log(max(2 * pull / tolerance, 2.0)))


def _curvature(features: Array, counts: Array) -> float:
    """About the largest eigenvalue of the weighted Gram matrix, and no more than that: by the power method."""
    direction = counts @ features + 1
    for _ in range(_GUESSES):
        unit = direction / max(float(np.linalg.norm(direction)), _TINY)
        direction = (counts * (features @ unit)) @ features
    return float(np.linalg.norm(direction))
