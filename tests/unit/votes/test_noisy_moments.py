"""Noisy moments: their average over releases, and their conversion to other features."""

import numpy as np
import pytest

from pate.votes.noisy_moments import NoisyMoments

NUM_FEATURES = 30
NUM_LABELS = 20
RNG = np.random.default_rng(0)
TRUE_MOMENTS = RNG.standard_normal((NUM_FEATURES, NUM_LABELS))
ONES = np.ones_like(TRUE_MOMENTS)


def moments_with_noise(true_moments: np.ndarray, noise_variance: float, seed: int) -> NoisyMoments:
    """Returns moments with noise of one variance."""
    noise = np.random.default_rng(seed).standard_normal(true_moments.shape)
    values = true_moments + np.sqrt(noise_variance) * noise
    return NoisyMoments(values=values, variances=noise_variance * ONES)


def moments_in_new_features(
    moments: NoisyMoments, earlier_features: np.ndarray, features: np.ndarray
) -> NoisyMoments:
    """Returns moments for new features, for weights of variance 1 and labels that half of the people have."""
    return moments.in_features(
        earlier_features,
        new_features=features,
        weight_variances=np.ones(features.shape[1]),
        curvature=np.full(NUM_LABELS, 0.25),
    )


def test_moments_of_alike_people_are_averaged_by_their_variances() -> None:
    """Moments with variances 0.01 and 0.04 are averaged about with the weights 0.8 and 0.2.

    The average has about the variance 0.008.
    """
    own_moments = moments_with_noise(true_moments=TRUE_MOMENTS, noise_variance=0.01, seed=1)
    moments_of_earlier_release = moments_with_noise(
        true_moments=TRUE_MOMENTS, noise_variance=0.04, seed=2
    )
    average_moments = own_moments.average_with(
        moments_of_earlier_release, expected_squared_moments=ONES
    )
    np.testing.assert_allclose(
        average_moments.values,
        0.8 * own_moments.values + 0.2 * moments_of_earlier_release.values,
        atol=0.03,
    )
    np.testing.assert_allclose(average_moments.variances, 0.008, rtol=0.05)


def test_moments_of_weaker_labels_are_scaled() -> None:
    """Earlier moments that are half as large for all features are doubled, so their variance is four times as large."""
    own_moments = moments_with_noise(true_moments=TRUE_MOMENTS, noise_variance=0.01, seed=1)
    moments_of_earlier_release = moments_with_noise(
        true_moments=TRUE_MOMENTS / 2, noise_variance=0.01, seed=2
    )
    average_moments = own_moments.average_with(
        moments_of_earlier_release, expected_squared_moments=ONES
    )
    np.testing.assert_allclose(
        average_moments.values,
        0.8 * own_moments.values + 0.2 * 2 * moments_of_earlier_release.values,
        atol=0.05,
    )
    np.testing.assert_allclose(average_moments.variances, 0.008, rtol=0.1)


@pytest.mark.parametrize("strength", [0.0, 1.0])
def test_moments_of_unlike_people_hardly_count(strength: float) -> None:
    """Earlier moments without a signal, or with an unrelated one, leave the present moments nearly as they are."""
    own_moments = moments_with_noise(true_moments=TRUE_MOMENTS, noise_variance=0.01, seed=1)
    unlike_moments = strength * np.random.default_rng(9).standard_normal(TRUE_MOMENTS.shape)
    average_moments = own_moments.average_with(
        moments_with_noise(true_moments=unlike_moments, noise_variance=0.01, seed=2),
        expected_squared_moments=ONES,
    )
    np.testing.assert_allclose(average_moments.variances, 0.01, rtol=0.02)
    assert np.abs(average_moments.values - own_moments.values).max() < 0.1


def test_equal_features_keep_moments() -> None:
    """Moments that are converted to the same features stay the same, also if a fit has to find the conversion."""
    moments = moments_with_noise(true_moments=TRUE_MOMENTS, noise_variance=0.5, seed=1)
    features = RNG.standard_normal((200, NUM_FEATURES))
    assert (
        moments_in_new_features(moments=moments, earlier_features=features, features=features)
        is moments
    )
    refitted_moments = moments_in_new_features(
        moments=moments, earlier_features=features, features=features * (1 + 1e-12)
    )
    np.testing.assert_allclose(refitted_moments.values, moments.values, rtol=1e-6)
    np.testing.assert_allclose(refitted_moments.variances, moments.variances, rtol=1e-6)


def test_scaled_features_scale_moments() -> None:
    """Moments for features of twice the size are twice as large, with four times the variance."""
    moments = moments_with_noise(true_moments=TRUE_MOMENTS, noise_variance=0.5, seed=1)
    features = RNG.standard_normal((200, NUM_FEATURES))
    scaled_moments = moments_in_new_features(
        moments=moments, earlier_features=features, features=2 * features
    )
    np.testing.assert_allclose(scaled_moments.values, 2 * moments.values, rtol=1e-6)
    np.testing.assert_allclose(scaled_moments.variances, 2.0, rtol=1e-6)


def test_a_new_feature_has_a_moment_of_large_variance() -> None:
    """The moment of a new feature that no earlier one explains has over 50 times the variance of earlier moments."""
    moments = moments_with_noise(true_moments=TRUE_MOMENTS, noise_variance=0.5, seed=1)
    features = RNG.standard_normal((2000, NUM_FEATURES + 1))
    converted_moments = moments_in_new_features(
        moments=moments, earlier_features=features[:, :-1], features=features
    )
    np.testing.assert_allclose(converted_moments.values[:-1], moments.values, rtol=1e-6)
    assert (converted_moments.variances[-1] > 50 * moments.variances[-1]).all()
