"""Parts of private methods without teachers: schedules, gradients of groups, posteriors of weights, and covariances."""

import numpy as np
import pytest
from scipy.special import expit

from pate.comparison.alternatives.feature_covariance import CovarianceRelease, FeatureAxes
from pate.comparison.alternatives.group_gradients import GroupGradients
from pate.comparison.alternatives.noisy_gradient import NoisyClippedSum
from pate.comparison.alternatives.public_directions import PublicDirections
from pate.comparison.alternatives.schedule import Schedule
from pate.comparison.alternatives.signal_posterior import SignalPosterior

# The clip in typical lengths of a gradient, and the variance of the log-odds, of all schedules.
CLIP_FACTOR = 0.5
LOG_ODDS_VARIANCE = 2.0


def public_pool() -> np.ndarray:
    """Returns 300 random public inputs of six columns; the standard deviation of column i is i, for i from 1 to 6."""
    rng = np.random.default_rng(1)
    return (rng.normal(size=(300, 6)) * np.arange(1, 7)).astype(np.float32)


def best_schedule(
    prevalences: np.ndarray,
    noise_variance_of_step_mean: float,
    *,
    signal_is_concentrated: bool = False,
) -> Schedule:
    """Returns the schedule with the least expected error on the public pool.

    Args:
        prevalences: the prevalence of each label.
        noise_variance_of_step_mean: the variance of the noise in an entry of a mean gradient, divided by the number of
            steps.
        signal_is_concentrated: whether all signal is along the widest direction.
    """
    return Schedule.best(
        public_feature_map=PublicDirections.fit(public_inputs=public_pool()),
        public_inputs=public_pool(),
        prevalence=prevalences,
        noise_rate=noise_variance_of_step_mean,
        clip_in_typical_lengths=CLIP_FACTOR,
        signal_variance=LOG_ODDS_VARIANCE,
        signal_is_concentrated=signal_is_concentrated,
    )


def test_more_noise_shortens_learning_and_raises_the_expected_error() -> None:
    """More noise shortens the shortest learning time of a label in the best schedule, and raises the expected error.

    The learning time of a label is its learning rate times the number of steps.
    """
    prevalences = np.array([0.05, 0.3])
    little, more, most = (
        best_schedule(prevalences, noise_variance_of_step_mean=noise_rate)
        for noise_rate in (1e-8, 1e-5, 1e-2)
    )
    assert (
        little.label_learning_times.min()
        > more.label_learning_times.min()
        > most.label_learning_times.min()
    )
    assert (
        little.expected_squared_error
        < more.expected_squared_error
        < most.expected_squared_error
        <= LOG_ODDS_VARIANCE * 1.001
    )
    assert all(10 <= schedule.num_steps <= 100 for schedule in (little, more, most))


def test_a_signal_in_one_direction_is_learned_better_at_large_noise() -> None:
    """At large noise, the expected gain is over twice as large if all signal is along the widest direction.

    The gain is the variance of the log-odds minus the expected error.
    """
    prevalences = np.array([0.05, 0.3])
    schedule_of_spread_signal = best_schedule(prevalences, noise_variance_of_step_mean=1e-2)
    schedule_of_concentrated_signal = best_schedule(
        prevalences, noise_variance_of_step_mean=1e-2, signal_is_concentrated=True
    )
    gain = LOG_ODDS_VARIANCE - schedule_of_spread_signal.expected_squared_error
    assert LOG_ODDS_VARIANCE - schedule_of_concentrated_signal.expected_squared_error > 2 * gain > 0


def test_noise_of_trained_weights_has_the_expected_variance() -> None:
    """The log-odds of gradient descent on noise alone have the schedule's `log_odds_noise_variance`, within 35%.

    The descent runs 400 times.
    """
    rng = np.random.default_rng(0)
    prevalences = np.array([0.2, 0.4])
    noise_variance_of_step_mean = 1e-4
    schedule = best_schedule(prevalences, noise_variance_of_step_mean=noise_variance_of_step_mean)
    directions = PublicDirections.fit(public_inputs=public_pool())
    features = directions.features(public_pool(), ridge=schedule.ridge)
    curvature = CLIP_FACTOR * prevalences * (1 - prevalences)
    num_descents = 400
    weights_of_descents = np.zeros((num_descents, features.shape[1], len(prevalences)))
    learning_rates = schedule.label_learning_times / schedule.num_steps
    covariance = features.T @ features / len(features)
    for _ in range(schedule.num_steps):
        noise_std = np.sqrt(noise_variance_of_step_mean * schedule.num_steps)
        gradient_noise = noise_std * rng.normal(size=weights_of_descents.shape)
        weights_of_descents += learning_rates * (
            gradient_noise - curvature * (covariance @ weights_of_descents)
        )
    log_odds = np.einsum("nk,rkl->rnl", features[:, :-1], weights_of_descents[:, :-1])
    variance_of_labels = log_odds.var(axis=(0, 1))
    np.testing.assert_allclose(variance_of_labels, schedule.log_odds_noise_variance, rtol=0.35)


@pytest.mark.parametrize(
    "num_groups", [5, 20, 60], ids=["large groups", "small groups", "single records"]
)
def test_gradients_of_groups_are_those_of_a_loop(num_groups: int) -> None:
    """The sum of the clipped mean gradients of 80 records in groups equals that of a loop over the groups."""
    rng = np.random.default_rng(3)
    features = rng.normal(size=(80, 4))
    labels = rng.random(size=(80, 3)) < 0.4
    group_ids = rng.integers(low=0, high=num_groups, size=80)
    weights = rng.normal(size=(4, 3))
    bias = rng.normal(size=3)
    clip = 0.8
    residuals = labels - expit(features @ weights + bias)
    expected_gradient_sum = np.zeros_like(weights)
    for group in np.unique(group_ids):
        rows = group_ids == group
        gradient = features[rows].T @ residuals[rows] / rows.sum()
        expected_gradient_sum += gradient * min(1.0, clip / np.linalg.norm(gradient))
    groups = GroupGradients.from_records(features, labels, group_ids=group_ids)
    clipped_gradient_sum = groups.clipped_sum(model_weights=weights, bias=bias, clip=clip)
    np.testing.assert_allclose(clipped_gradient_sum, expected_gradient_sum)


def test_a_group_whose_records_cancel_adds_less_than_its_clip() -> None:
    """The clipped gradient of two records with nearly opposite features is above 0 and shorter than the clip, 1e-9."""
    features = np.array([[1.0, 0.0], [-1.0, 1e-9]])
    labels = np.zeros((2, 1), bool)
    group = GroupGradients.from_records(features, labels, group_ids=np.zeros(2, dtype=int))
    clipped_gradient_sum = group.clipped_sum(
        model_weights=np.zeros((2, 1)), bias=np.array([20.0]), clip=1e-9
    )
    assert 0 < np.linalg.norm(clipped_gradient_sum) < 1e-9


def test_the_noise_of_a_gradient_has_the_stated_standard_deviation() -> None:
    """The standard deviation of a released sum of zeros is the noise multiplier times the sensitivity, about 3.

    The sensitivity is counted in steps of the grid to which sums are rounded.
    """
    max_groups = 1000
    noisy_gradient = NoisyClippedSum(clip=0.5, noise_per_sensitivity=3.0, max_units=max_groups)
    zero_gradient_sum = np.zeros((200, 50))
    noise = noisy_gradient.release(zero_gradient_sum, rng=np.random.default_rng(0))
    sensitivity_in_steps = noisy_gradient.sensitivity_in_steps(num_entries=noise.size)
    noise_std = 3.0 * sensitivity_in_steps * noisy_gradient.grid_step(num_entries=noise.size)
    assert noise.std() == pytest.approx(noise_std, rel=0.03)
    assert noise_std == pytest.approx(3.0, rel=1e-5)


def test_a_posterior_shrinks_by_the_known_noise() -> None:
    """The posterior of a weight that was observed twice has the mean and the variance that are computed by hand.

    The weight is observed as 2 with noise of variance 1, and as 0.5 with noise of variance 2. The weighted mean of the
    observations is 1.5, with precision 1 + 1/2. If the prior has mean 0 and variance v, the posterior mean is
    1.5 v / (v + 1 / 1.5), and the posterior variance is 1 / (1 / v + 1.5).
    """
    posterior = (
        SignalPosterior.before_observations(prior_variances=np.ones(1), num_labels=1)
        .with_observation(
            observed_weights=np.array([[2.0]]), observation_variances=np.array([[1.0]])
        )
        .with_observation(
            observed_weights=np.array([[0.5]]), observation_variances=np.array([[2.0]])
        )
    )
    # The most likely variance of the weight, 1.5**2 - 1 / 1.5, is between the scales 1 and 2.
    assert posterior.scale in (1.0, 2.0)
    weight_variance = posterior.scale
    assert posterior.mean.item() == pytest.approx(
        1.5 * weight_variance / (weight_variance + 1 / 1.5)
    )
    assert posterior.variances.item() == pytest.approx(1 / (1 / weight_variance + 1.5))


@pytest.mark.parametrize("scale", [0.25, 8.0])
def test_the_most_likely_scale_is_that_of_the_weights(scale: float) -> None:
    """The scale of the weights' variances is estimated right from weights that were observed with noise.

    The error of the posterior mean agrees with the posterior variances, and is smaller than the noise.
    """
    rng = np.random.default_rng(0)
    prior_variances_of_axes = np.geomspace(0.1, 10, num=200)
    stds = np.sqrt(scale * prior_variances_of_axes[:, None])
    weights = stds * rng.normal(size=(200, 30))
    observed_weights = weights + 2.0 * rng.normal(size=weights.shape)
    posterior = SignalPosterior.before_observations(
        prior_variances_of_axes, num_labels=30
    ).with_observation(
        observed_weights=observed_weights, observation_variances=np.full_like(weights, 4.0)
    )
    assert posterior.scale == scale
    error = np.square(posterior.mean - weights).mean()
    assert error == pytest.approx(posterior.variances.mean(), rel=0.1)
    assert error < np.square(observed_weights - weights).mean() / 1.5


def test_axes_of_a_noisy_covariance_have_no_variance_below_the_noise() -> None:
    """The variances along axes are the eigenvalues of the covariance; smaller ones are raised to the noise's largest.

    The largest eigenvalue that noise alone is expected to have is 2 `noise_std` sqrt(D), for D features.
    """
    noisy_covariance = np.diag([0.5, 0.3, -0.1])
    exact_covariance = noisy_covariance[:2, :2]
    exact_axes = FeatureAxes.of_covariance(exact_covariance)
    assert np.sort(exact_axes.variances) == pytest.approx([0.3, 0.5])
    noisy_axes = FeatureAxes.of_covariance(noisy_covariance, noise_std=0.1)
    num_features = len(noisy_covariance)
    largest_noise_eigenvalue = 2 * 0.1 * np.sqrt(num_features)
    assert np.sort(noisy_axes.variances) == pytest.approx(
        [largest_noise_eigenvalue, largest_noise_eigenvalue, 0.5]
    )


@pytest.mark.slow
def test_a_released_covariance_is_unbiased_with_the_claimed_noise() -> None:
    """The mean of 2,000 releases is the covariance, in which each group counts once for any number of records.

    The noise of an entry has the standard deviation `noise_std`, and that of an entry on the diagonal is sqrt(2) times
    larger. The mean squared error is at most `squared_error`, and close to it.
    """
    rng = np.random.default_rng(2)
    features = rng.normal(size=(60, 4))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    group_ids = np.repeat(np.arange(24), [1, 4] * 12)
    mechanism = CovarianceRelease(noise_multiplier=2.0, num_groups=24)
    released_covariances = np.array(
        [mechanism.release(features, group_ids, rng=rng) for _ in range(2000)]
    )
    covariances_of_groups = []
    for group in range(24):
        rows = features[group_ids == group]
        covariances_of_groups.append(rows.T @ rows / len(rows))
    covariance = np.mean(covariances_of_groups, axis=0)
    sampling_error = 4 * mechanism.noise_std * np.sqrt(2 / 2000)
    assert released_covariances.mean(axis=0) == pytest.approx(covariance, abs=sampling_error)
    stds_of_entries = released_covariances.std(axis=0)
    is_off_diagonal = ~np.eye(4, dtype=bool)
    assert stds_of_entries[is_off_diagonal] == pytest.approx(mechanism.noise_std, rel=0.08)
    assert stds_of_entries[~is_off_diagonal] == pytest.approx(
        np.sqrt(2) * mechanism.noise_std, rel=0.08
    )
    assert (released_covariances == np.swapaxes(released_covariances, 1, 2)).all()
    squared_error = np.square(released_covariances - covariance).sum(axis=(1, 2)).mean()
    assert squared_error <= mechanism.squared_error(num_features=4) < 1.2 * squared_error + 1 / 24
