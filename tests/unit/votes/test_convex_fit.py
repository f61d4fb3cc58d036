"""Training with pulls of bounded length: where it ends, and what one record changes."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from pate.votes import convex as convex_fit_module
from pate.votes.convex import convex_fit, steps_to_minimum

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(60, 4))
FEATURES /= np.linalg.norm(FEATURES, axis=1, keepdims=True)
TARGETS = RNG.normal(size=(60, 3)) * RNG.exponential(size=(60, 1)) * 3
COUNTS, LIMITS = RNG.uniform(0.2, 2, size=60), RNG.uniform(0.5, 2, size=60)


def fitted(features: Any = FEATURES, targets: Any = TARGETS, **changes: Any) -> Any:
    total = len(features)
    given = {
        "counts": COUNTS[:total],
        "limits": LIMITS[:total],
        "ridge": 0.7,
        "tolerance": 1e-9,
        "most_steps": 20_000,
    } | changes
    return convex_fit(np.asarray(features), np.asarray(targets), **given)


def loss(flat: Any) -> float:
    weights = flat.reshape(4, 3)
    far = np.linalg.norm(TARGETS - FEATURES @ weights, axis=1)
    huber = np.where(far <= LIMITS, far**2 / 2, LIMITS * far - LIMITS**2 / 2)
    return float(COUNTS @ huber + 0.35 * (weights**2).sum())


def test_it_ends_at_the_minimum_of_hubers_loss() -> None:
    found = minimize(loss, np.zeros(12), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(fitted().ravel(), found.x, atol=1e-6)
    assert (np.linalg.norm(TARGETS - FEATURES @ fitted(), axis=1) > LIMITS).any(), "some records are held back"


def test_without_limits_it_is_ridge_regression() -> None:
    weighted = FEATURES.T * COUNTS
    expected = np.linalg.solve(weighted @ FEATURES + 0.7 * np.eye(4), weighted @ TARGETS)
    np.testing.assert_allclose(fitted(limits=np.full(60, 1e9)), expected, atol=1e-8)


@pytest.mark.parametrize("ridge", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("tolerance", [1e-1, 1e-6])
def test_it_is_as_near_to_the_minimum_as_it_says(ridge: float, tolerance: float) -> None:
    near, exact = fitted(ridge=ridge, tolerance=tolerance), fitted(ridge=ridge, tolerance=1e-10)
    assert np.linalg.norm(near - exact) <= tolerance / ridge


@pytest.mark.parametrize("alike", [False, True])
def test_records_of_any_number_and_likeness_are_fitted(alike: bool) -> None:
    """Where the first guess of a step is too long, shorter ones follow."""
    for total in (1, 2, 2000):
        features = np.tile(FEATURES[:1], (total, 1)) if alike else np.resize(FEATURES, (total, 4))
        even = {"counts": np.full(total, 1.0), "limits": np.full(total, 0.1), "ridge": 1e-3, "tolerance": 1e-6}
        assert np.isfinite(fitted(features, np.resize(TARGETS, (total, 3)), **even)).all()


@pytest.mark.parametrize("guess", [0.0, 1e9])
def test_as_many_steps_as_are_promised_reach_the_minimum(guess: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """However wrong the guess of the curvature is; the control is a two-hundredth of the steps."""
    monkeypatch.setattr(convex_fit_module, "_curvature", lambda features, counts: guess)
    features, targets, counts = FEATURES[:40], TARGETS[:40], np.full(40, 9.0)
    exact = np.linalg.solve(features.T @ features * 9 + 3 * np.eye(4), features.T @ targets * 9)
    pull = float(9 * np.linalg.norm(targets, axis=1).sum())
    steps = int(steps_to_minimum(pull, curvature=360.0, ridge=3.0, tolerance=1e-9))
    assert steps == math.ceil(121 * math.log(2e9 * pull))

    def far(most_steps: int) -> float:
        given = {"counts": counts, "limits": np.full(40, 1e9), "ridge": 3.0, "tolerance": 1e-9}
        return float(np.linalg.norm(fitted(features, targets, **given, most_steps=most_steps) - exact))

    assert far(steps) <= 1e-9 / 3 < far(steps // 200)


@pytest.mark.parametrize("ridge", [1e-30, 1e308])
def test_numbers_that_doubles_cannot_weigh_against_each_other_end(ridge: float) -> None:
    found = fitted(np.tile(FEATURES[:1], (60, 1)), ridge=ridge, tolerance=1e-300, most_steps=50)
    assert np.isfinite(found).all()
