"""Features, the rule for learning, gradients of groups, thresholds: against values worked out another way."""

import numpy as np
import pytest
from scipy.special import expit

from pate.comparison.alternatives.feature_covariance import CovarianceRelease, FeatureAxes
from pate.comparison.alternatives.group_gradients import GroupGradients
from pate.comparison.alternatives.noisy_gradient import NoisyGradient
from pate.comparison.alternatives.public_directions import PublicDirections
from pate.comparison.alternatives.schedule import Schedule
from pate.comparison.alternatives.signal_posterior import SignalPosterior

RULE = {"clip_factor": 0.5, "signal_variance": 2.0}


def public_pool(rows: int = 300, width: int = 6) -> np.ndarray:
    """Returns random public inputs `[rows, width]`, whose spread grows with the column."""
    rng = np.random.default_rng(1)
    return (rng.normal(size=(rows, width)) * np.arange(1, width + 1)).astype(np.float32)


def test_more_noise_learns_for_shorter_and_expects_more_error() -> None:
    """The larger the noise, the shorter the learning times and the larger the expected error of the
    best schedule.

    If the signal is in one direction, the expected gain at large noise is over twice as large.
    """
    directions = PublicDirections.fit(public_inputs=public_pool())
    prevalence = np.array([0.05, 0.3])
    found = [
        Schedule.best(
            directions,
            public_inputs=public_pool(),
            prevalence=prevalence,
            noise_rate=rate,
            clip_factor=0.5,
            signal_variance=2.0,
        )
        for rate in (1e-8, 1e-5, 1e-2)
    ]
    assert found[0].times.min() > found[1].times.min() > found[2].times.min()
    assert found[0].error < found[1].error < found[2].error <= 2.0 * 1.001
    assert all(10 <= each.num_steps <= 100 for each in found)
    at_best = [
        Schedule.best(
            directions,
            public_inputs=public_pool(),
            prevalence=prevalence,
            noise_rate=1e-2,
            clip_factor=0.5,
            signal_variance=2.0,
            concentrated=yes,
        )
        for yes in (False, True)
    ]
    assert 2 - at_best[1].error > 2 * (2 - at_best[0].error) > 0  # what a refusal goes by


def test_noise_of_trained_weights_has_the_expected_variance() -> None:
    """Gradient descent runs on noise without any signal: the variance of the scores is the
    schedule's `noise_variance` within 35%.
    """
    rng = np.random.default_rng(0)
    directions = PublicDirections.fit(public_inputs=public_pool())
    prevalence = np.array([0.2, 0.4])
    rate = 1e-4
    schedule = Schedule.best(
        directions,
        public_inputs=public_pool(),
        prevalence=prevalence,
        noise_rate=rate,
        clip_factor=0.5,
        signal_variance=2.0,
    )
    features = directions.features(public_pool(), ridge=schedule.ridge)
    curvature = RULE["clip_factor"] * prevalence * (1 - prevalence)
    weights = np.zeros((400, 8, 2))
    step = schedule.times / schedule.num_steps
    second = features.T @ features / len(features)
    for _ in range(schedule.num_steps):
        noise = np.sqrt(rate * schedule.num_steps) * rng.normal(size=weights.shape)
        weights += step * (noise - curvature * (second @ weights))
    scores = np.einsum("nk,rkl->rnl", features[:, :-1], weights[:, :-1])
    np.testing.assert_allclose(scores.var(axis=(0, 1)), schedule.noise_variance, rtol=0.35)


@pytest.mark.parametrize("num_groups", [5, 20, 60])  # of more records than 8, of a few, of one
def test_gradients_of_groups_are_those_of_a_loop(num_groups: int) -> None:
    """The clipped sum of the groups' mean gradients equals that of a loop over groups of one, a few
    or many records.
    """
    rng = np.random.default_rng(3)
    features = rng.normal(size=(80, 4))
    labels = rng.random(size=(80, 3)) < 0.4
    ids = rng.integers(low=0, high=num_groups, size=80)
    weights = rng.normal(size=(4, 3))
    bias = rng.normal(size=3)
    clip = 0.8
    total = np.zeros((4, 3))
    for group in np.unique(ids):
        rows = ids == group
        gradient = (
            features[rows].T @ (labels[rows] - expit(features[rows] @ weights + bias)) / rows.sum()
        )
        total += gradient * min(1.0, clip / np.linalg.norm(gradient))
    groups = GroupGradients.from_records(features, labels, group_ids=ids)
    np.testing.assert_allclose(groups.clipped_sum(weights, bias, clip), total)


def test_a_group_whose_records_cancel_counts_for_less_than_its_clip() -> None:
    """A group has two records with nearly opposite features: its clipped mean gradient is above 0 and shorter than
    1e-9, the clip.
    """
    features = np.array([[1.0, 0.0], [-1.0, 1e-9]])
    labels = np.zeros((2, 1), bool)
    total = GroupGradients.from_records(features, labels, group_ids=np.zeros(2, int)).clipped_sum(
        np.zeros((2, 1)), bias=np.full(1, 20.0), clip=1e-9
    )
    assert 0 < np.linalg.norm(total) < 1e-9


def test_noise_has_the_std_that_it_says() -> None:
    """The standard deviation of released zeros is the noise multiplier times sensitivity and step,
    about 3.
    """
    noisy = NoisyGradient(clip=0.5, noise_multiplier=3.0, num_units=1000)
    drawn = noisy.release(gradient_sum=np.zeros((200, 50)), rng=np.random.default_rng(0))
    std = 3.0 * noisy.sensitivity(num_entries=drawn.size) * noisy.step(num_entries=drawn.size)
    assert drawn.std() == pytest.approx(std, rel=0.03)
    assert std == pytest.approx(3.0, rel=1e-5)


def test_a_posterior_shrinks_by_the_known_noise() -> None:
    """Two observations of a weight of variance 1 with noise of variance 1 and 2: mean and variance worked out by hand.

    A weighted mean of 1.5 has the precision 1 + 1/2. At scale 1 it shrinks by 1.5 / 2.5, and the variance is 1 / 2.5.
    """
    one = np.ones((1, 1))
    posterior = (
        SignalPosterior.before_observations(prior_variances=np.ones(1), num_labels=1)
        .with_observation(2.0 * one, one)
        .with_observation(0.5 * one, 2.0 * one)
    )
    # the likeliest variance of the weight, 1.5**2 - 1 / 1.5, is between the scales 1 and 2
    assert posterior.scale in (1.0, 2.0)
    variance = posterior.scale
    assert posterior.mean.item() == pytest.approx(1.5 * variance / (variance + 1 / 1.5))
    assert posterior.variances.item() == pytest.approx(1 / (1 / variance + 1.5))


@pytest.mark.parametrize("scale", [0.25, 8.0])
def test_the_likeliest_scale_is_that_of_the_weights(scale: float) -> None:
    """Weights of a known variance, observed with noise: the posterior finds the variance, of those in factors of 2."""
    rng = np.random.default_rng(0)
    prior_variances = np.geomspace(0.1, 10, 200)
    spread = np.sqrt(scale * prior_variances[:, None])
    weights = spread * rng.normal(size=(200, 30))
    variances = np.full_like(weights, 4.0)
    observed = weights + 2.0 * rng.normal(size=weights.shape)
    posterior = SignalPosterior.before_observations(prior_variances, num_labels=30)
    posterior = posterior.with_observation(observed, variances)
    assert posterior.scale == scale
    error = np.square(posterior.mean - weights).mean()
    assert error == pytest.approx(posterior.variances.mean(), rel=0.1)
    assert error < np.square(observed - weights).mean() / 1.5


def test_axes_of_a_noisy_covariance_have_no_variance_below_the_noise() -> None:
    """The variances along the axes are eigenvalues, raised to the largest eigenvalue of the noise."""
    covariance = np.diag([0.5, 0.3, -0.1])
    exact = FeatureAxes.of_covariance(covariance[:2, :2])
    assert np.sort(exact.variances) == pytest.approx([0.3, 0.5])
    noisy = FeatureAxes.of_covariance(covariance, noise_std=0.1)
    assert np.sort(noisy.variances) == pytest.approx([2 * 0.1 * np.sqrt(3)] * 2 + [0.5])


@pytest.mark.slow
def test_a_released_covariance_is_unbiased_with_the_claimed_noise() -> None:
    """Many releases: their mean is that of the groups, and their noise has the standard deviation of `noise_std`.

    Groups count once each, whatever their number of records.
    """
    rng = np.random.default_rng(2)
    features = rng.normal(size=(60, 4))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    group_ids = np.repeat(np.arange(24), [1, 4] * 12)
    release = CovarianceRelease(noise_multiplier=2.0, num_groups=24)
    released = np.array([release.release(features, group_ids, rng=rng) for _ in range(2000)])
    of_groups = [
        np.mean([np.outer(x, x) for x in features[group_ids == group]], axis=0)
        for group in range(24)
    ]
    error = 4 * release.noise_std * np.sqrt(2 / 2000)
    assert released.mean(axis=0) == pytest.approx(np.mean(of_groups, axis=0), abs=error)
    spread = released.std(axis=0)
    off_diagonal = ~np.eye(4, dtype=bool)
    assert spread[off_diagonal] == pytest.approx(release.noise_std, rel=0.08)
    assert spread[~off_diagonal] == pytest.approx(np.sqrt(2) * release.noise_std, rel=0.08)
    assert (released == released.transpose(0, 2, 1)).all()
    squared = np.square(released - np.mean(of_groups, axis=0)).sum(axis=(1, 2)).mean()
    assert squared <= release.squared_error(num_features=4) < 1.2 * squared + 1 / 24
