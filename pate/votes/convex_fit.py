"""The fit of a linear model with a strongly convex loss, Huber's function of each record's distance plus a ridge.

One record moves the minimum little, since its gradient is at most as long as its weight times its limit. `convex_fit`
comes near the minimum, and `steps_to_minimum` bounds the number of steps that it needs.
"""

from __future__ import annotations

import math

import numpy as np

from pate.array_types import FloatArray

# Lengths are divided by at least this number.
_MIN_LENGTH = 1e-300
# The number of steps of the power method, which estimates the curvature.
_NUM_POWER_STEPS = 8
# The factor by which the estimate of the curvature may be too small.
_CURVATURE_MARGIN = 1.1


def convex_fit(
    features: FloatArray,
    targets: FloatArray,
    *,
    record_weights: FloatArray,
    residual_limits: FloatArray,
    ridge: float,
    tolerance: float,
    max_steps: int,
) -> FloatArray:
    """Returns weights W near the minimum of sum_i w_i h(|target_i - features_i W|) + ridge |W|^2 / 2.

    The result is `[num_features, num_labels]`. The sum is over records i of weight w_i. h is Huber's function of the
    distance of a record over all labels together: half the square up to the record's limit, linear beyond. So the
    gradient of a record is at most as long as its weight times its limit.

    Gradient descent first tries a step size for the estimated curvature, and halves the step size whenever the gradient
    does not become shorter. If that does not reach the tolerance, descent starts again at 0 with a step size that is
    small enough for any records.

    Formal guarantee: the fit ends for any records, after at most 2 `max_steps` steps. If `max_steps` is at least
    `steps_to_minimum`, the weights are nearer than `tolerance / ridge` to the minimum.

    Args:
        features: `[num_records, num_features]`, of length at most 1.
        targets: `[num_records, num_labels]`, finite.
        record_weights: `[num_records]`, > 0, the factor of each record in the sum.
        residual_limits: `[num_records]`, > 0, the limit of h for each record.
        ridge: the factor of |W|^2 / 2, > 0.
        tolerance: the fit ends when the gradient is shorter than this length.
        max_steps: the largest number of steps of each of the two tries.

    Source: docs/proofs/vote_rounds.md#convex-teachers.
    """

    def gradient(weight_matrix: FloatArray) -> FloatArray:
        residuals = targets - features @ weight_matrix
        lengths = np.sqrt(np.einsum("ij,ij->i", residuals, residuals))
        huber_weights = np.minimum(1.0, residual_limits / np.maximum(lengths, _MIN_LENGTH))
        residuals *= (record_weights * huber_weights)[:, None]
        return np.asarray(ridge * weight_matrix - features.T @ residuals)

    # No eigenvalue of the Hessian is above ridge + the sum of the record weights, as features have length 1 at most. So
    # a step of at most `sure_step` multiplies the distance to the minimum by at most 1 - step * ridge.
    sure_step = 1 / (ridge + float(record_weights.sum()))
    curvature_estimate = _CURVATURE_MARGIN * _estimate_curvature(
        features, record_weights=record_weights
    )
    # 2 / (smallest + largest curvature) is the best step of a quadratic (Nesterov 2004, Theorem 2.1.15). The smallest
    # curvature is at least `ridge`, the largest about `ridge + curvature_estimate`.
    likely_step = 2 / (2 * ridge + curvature_estimate)
    for first_step in (max(likely_step, sure_step), sure_step):
        step = first_step
        weight_matrix = np.zeros((features.shape[1], targets.shape[1]))
        length_before = math.inf
        for _ in range(max_steps):
            loss_gradient = gradient(weight_matrix)
            gradient_length = float(np.linalg.norm(loss_gradient))
            if gradient_length < tolerance:
                return weight_matrix
            if not gradient_length < length_before:
                step = max(step / 2, sure_step)
            weight_matrix -= step * loss_gradient
            length_before = gradient_length
    return weight_matrix


def _estimate_curvature(features: FloatArray, *, record_weights: FloatArray) -> float:
    """Returns an estimate from below of the largest eigenvalue of sum_i w_i f_i^T f_i, by the power method.

    f_i is the row of features of record i, and w_i the weight of the record.

    Args:
        features: `[num_records, num_features]`.
        record_weights: `[num_records]`, the weight of each record.
    """
    vector = record_weights @ features + 1
    for _ in range(_NUM_POWER_STEPS):
        unit_vector = vector / max(float(np.linalg.norm(vector)), _MIN_LENGTH)
        vector = (record_weights * (features @ unit_vector)) @ features
    # The matrix makes a unit vector at most as long as its largest eigenvalue.
    return float(np.linalg.norm(vector))


def steps_to_minimum(
    max_gradient_length: float, *, max_curvature: float, ridge: float, tolerance: float
) -> int:
    """Returns the number of gradient steps from 0 that come nearer than half of `tolerance / ridge` to the minimum.

    The minimum is at most `max_gradient_length / ridge` away from 0. After n steps the distance is at most
    e^(-n ridge / (ridge + max_curvature)) of that.

    Args:
        max_gradient_length: an upper bound on the length of the sum of all records' gradients.
        max_curvature: an upper bound on the sum of the record weights.
        ridge: the factor of the quadratic penalty, > 0.
        tolerance: the gradient length at which the fit ends, > 0.
    """
    distance_ratio = max(2 * max_gradient_length / tolerance, 2.0)
    return math.ceil((1 + max_curvature / ridge) * math.log(distance_ratio))
