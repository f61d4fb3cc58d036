"""The fit of convex teachers ends near the minimum of Huber's loss, and extreme records give finite weights."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from pate.array_types import FloatArray
from pate.votes.convex_fit import convex_fit, steps_to_minimum

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(60, 4))
FEATURES /= np.linalg.norm(FEATURES, axis=1, keepdims=True)
TARGETS = RNG.normal(size=(60, 3)) * RNG.exponential(size=(60, 1)) * 3
RECORD_WEIGHTS = RNG.uniform(low=0.2, high=2, size=60)
LIMITS = RNG.uniform(low=0.5, high=2, size=60)
RIDGE = 0.7
NO_LIMIT = 1e9


def fit(
    features: FloatArray = FEATURES,
    targets: FloatArray = TARGETS,
    *,
    record_weights: FloatArray = RECORD_WEIGHTS,
    limits: FloatArray = LIMITS,
    ridge: float = RIDGE,
    tolerance: float = 1e-9,
    max_steps: int = 20_000,
) -> FloatArray:
    """Returns the weights `[num_features, num_labels]` of the convex fit of the records."""
    return convex_fit(
        features,
        targets,
        record_weights=record_weights,
        residual_limits=limits,
        ridge=ridge,
        tolerance=tolerance,
        max_steps=max_steps,
    )


def loss(flat_weights: Any) -> float:
    """Returns the weighted Huber loss of the records with the ridge penalty, for weights in one row."""
    weights = flat_weights.reshape(4, 3)
    distances = np.linalg.norm(TARGETS - FEATURES @ weights, axis=1)
    lines = LIMITS * distances - LIMITS**2 / 2
    huber = np.where(distances <= LIMITS, distances**2 / 2, lines)
    return float(RECORD_WEIGHTS @ huber + RIDGE / 2 * (weights**2).sum())


def test_fit_ends_at_the_minimum_of_hubers_loss() -> None:
    """The weights agree with SciPy's minimum of Huber's loss, and some records are beyond their limit."""
    minimum = minimize(loss, np.zeros(12), method="BFGS", options={"gtol": 1e-7})
    weights = fit()
    np.testing.assert_allclose(weights.ravel(), minimum.x, atol=1e-6)
    is_limited = np.linalg.norm(TARGETS - FEATURES @ weights, axis=1) > LIMITS
    assert is_limited.any()


def test_fit_without_limits_equals_ridge_regression() -> None:
    """With limits that no record reaches, the weights are those of weighted ridge regression."""
    weighted_features = FEATURES.T * RECORD_WEIGHTS
    expected = np.linalg.solve(
        weighted_features @ FEATURES + RIDGE * np.eye(4), weighted_features @ TARGETS
    )
    np.testing.assert_allclose(fit(limits=np.full(60, NO_LIMIT)), expected, atol=1e-8)


@pytest.mark.parametrize("ridge", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("tolerance", [1e-1, 1e-6])
def test_fit_is_within_its_tolerance_of_the_minimum(ridge: float, tolerance: float) -> None:
    """The weights are within tolerance / ridge of those of a much more accurate fit."""
    weights = fit(ridge=ridge, tolerance=tolerance)
    exact = fit(ridge=ridge, tolerance=1e-10)
    assert np.linalg.norm(weights - exact) <= tolerance / ridge


@pytest.mark.parametrize("num_records", [1, 2, 2000])
@pytest.mark.parametrize("is_one_record", [False, True])
def test_any_number_of_records_is_fitted(num_records: int, is_one_record: bool) -> None:
    """Features of 1, 2 or 2000 records, different ones or copies of one record, give finite weights."""
    features = np.resize(FEATURES, (num_records, 4))
    if is_one_record:
        features = np.tile(FEATURES[:1], (num_records, 1))
    weights = fit(
        features,
        targets=np.resize(TARGETS, (num_records, 3)),
        record_weights=np.full(num_records, 1.0),
        limits=np.full(num_records, 0.1),
        ridge=1e-3,
        tolerance=1e-6,
    )
    assert np.isfinite(weights).all()


@pytest.mark.parametrize("curvature_margin", [0.0, 1e9])
def test_steps_to_minimum_reach_the_minimum(
    curvature_margin: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of steps by `steps_to_minimum` brings the fit within tolerance / ridge of the minimum.

    The curvature is estimated as 0 or as far too large. Negative control: 1/200 of the steps end outside.
    """
    monkeypatch.setattr("pate.votes.convex_fit._CURVATURE_MARGIN", curvature_margin)
    features = FEATURES[:40]
    targets = TARGETS[:40]
    record_weight = 9.0
    ridge = 3.0
    exact_weights = np.linalg.solve(
        record_weight * features.T @ features + ridge * np.eye(4),
        record_weight * features.T @ targets,
    )
    max_gradient_length = float(record_weight * np.linalg.norm(targets, axis=1).sum())
    num_steps = steps_to_minimum(
        max_gradient_length, max_curvature=360.0, ridge=ridge, tolerance=1e-9
    )
    assert num_steps == math.ceil(121 * math.log(2e9 * max_gradient_length))

    def distance_to_minimum(max_steps: int) -> float:
        weights = fit(
            features,
            targets,
            record_weights=np.full(40, record_weight),
            limits=np.full(40, NO_LIMIT),
            ridge=ridge,
            tolerance=1e-9,
            max_steps=max_steps,
        )
        return float(np.linalg.norm(weights - exact_weights))

    assert (
        distance_to_minimum(max_steps=num_steps)
        <= 1e-9 / ridge
        < distance_to_minimum(max_steps=num_steps // 200)
    )


@pytest.mark.parametrize("ridge", [1e-30, 1e308])
def test_fit_ends_if_ridge_is_beyond_double_precision(ridge: float) -> None:
    """A ridge of 1e-30 or 1e308 gives finite weights within the limited number of steps."""
    features = np.tile(FEATURES[:1], (60, 1))
    weights = fit(features, ridge=ridge, tolerance=1e-300, max_steps=50)
    assert np.isfinite(weights).all()
