"""Moments to a calibrated student: what is matched, what noise does, and the threshold that it expects to be best."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from pate.votes.moment_fit import MomentFit, NoisyMoments, expected_f1_threshold

Array = NDArray[np.float64]
TRUE = np.array([[1.5, 0.0], [-1.0, 0.5], [0.0, 2.0], [-1.0, -2.0]])


def features(count: int, seed: int = 0) -> Array:
    rows = np.random.default_rng(seed).normal(size=(count, 4))
    rows[:, -1] = 1
    return rows


def one_round(fit: MomentFit, noise: float, start: Array, seed: int = 0, count: int = 200_000) -> NoisyMoments:
    """What a round of many private records of `TRUE` gives."""
    rows, rng = features(count, 5), np.random.default_rng(seed)
    labels = rng.random((count, 2)) < expit(rows @ TRUE)
    residuals = rows.T @ (labels - expit(rows @ start)) / count
    residuals += noise * rng.standard_normal(residuals.shape)
    return NoisyMoments(residuals, np.full(2, noise), fit.probabilities(start))


@pytest.fixture
def fit() -> MomentFit:
    prevalence = expit(features(100_000, 7) @ TRUE).mean(axis=0)
    return MomentFit(features(4000).astype(np.float32), prevalence, 200_000, np.ones(3))


def test_without_noise_the_weights_of_the_records_are_found(fit: MomentFit) -> None:
    start = fit.start()
    first = one_round(fit, 0.0, start)
    weights = fit.fit([first], start)
    again = fit.fit([first, one_round(fit, 0.0, weights)], weights)
    assert np.abs(weights - TRUE).max() < 0.25
    assert np.abs(again - TRUE).max() < 0.1 < np.abs(start - TRUE).max()
    assert np.abs(again - TRUE).max() < np.abs(weights - TRUE).max()


def test_probabilities_are_calibrated_with_and_without_noise(fit: MomentFit) -> None:
    for noise in (0.0, 0.005):
        weights = fit.fit([one_round(fit, noise, fit.start())], fit.start())
        rows = features(50_000, 9)
        true, said = expit(rows @ TRUE), expit(rows @ weights)
        for label in range(2):
            bins = np.digitize(said[:, label], [0.2, 0.5, 0.8])
            gaps = [abs(float((said - true)[bins == at, label].mean())) for at in range(4) if (bins == at).sum() > 500]
            assert max(gaps) < 0.05


def test_noise_alone_teaches_nothing(fit: MomentFit) -> None:
    rng, start = np.random.default_rng(0), fit.start()
    rounds = [
        NoisyMoments(rng.standard_normal((4, 2)) * 0.5, np.full(2, 0.5), fit.probabilities(start)) for _ in range(3)
    ]
    weights = fit.fit(rounds, start)
    assert np.abs(weights[:-1]).max() < 0.1


@pytest.mark.parametrize("size", [0.5, 2.0, 20.0])
def test_moments_that_no_weights_have_leave_each_label_its_share(fit: MomentFit, size: float) -> None:
    """Noise can ask for more of a direction than probabilities between 0 and 1 give."""
    residuals = np.zeros((4, 2))
    residuals[0, 0] = residuals[1, 0] = size
    weights = fit.fit([NoisyMoments(residuals, np.full(2, 0.01), fit.probabilities(fit.start()))], fit.start())
    said = fit.probabilities(weights)
    assert np.isfinite(weights).all()
    np.testing.assert_allclose(said.mean(axis=0), fit.prevalence, atol=0.006)
    assert np.corrcoef(said[:, 0], fit.public[:, 0] + fit.public[:, 1])[0, 1] > 0.7


def test_noise_that_asks_for_a_share_below_0_gives_a_rare_label(fit: MomentFit) -> None:
    residuals = np.zeros((4, 2))
    residuals[-1, 0] = -2.0
    weights = fit.fit([NoisyMoments(residuals, np.full(2, 0.01), fit.probabilities(fit.start()))], fit.start())
    assert np.isfinite(weights).all()
    assert fit.probabilities(weights)[:, 0].mean() < 0.02


def test_a_precise_round_counts_for_more_than_a_noisy_one(fit: MomentFit) -> None:
    start = fit.start()
    good, bad = one_round(fit, 1e-4, start), one_round(fit, 0.3, start, seed=3)
    alone, both = fit.fit([good], start), fit.fit([bad, good], start)
    assert np.abs(alone - both).max() < 0.01
    assert np.abs(fit.fit([bad], start) - alone).max() > 0.2


def test_equal_rounds_give_equal_weights(fit: MomentFit) -> None:
    moments = one_round(fit, 0.01, fit.start())
    np.testing.assert_array_equal(fit.fit([moments], fit.start()), fit.fit([moments], fit.start()))


def test_the_threshold_is_the_best_of_all_by_what_the_probabilities_expect() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        said = rng.beta(0.4, 2.0, size=(30, 4))

        def expected(threshold: float, said: Any = said) -> float:
            chosen = said[said >= threshold]
            return float(2 * chosen.sum() / (len(chosen) + said.sum()))

        best = expected_f1_threshold(said)
        assert expected(best) == pytest.approx(max(expected(value) for value in said.ravel()))
    assert expected_f1_threshold(np.zeros((2, 2))) > 0
