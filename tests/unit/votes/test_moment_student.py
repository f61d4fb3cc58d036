"""The student that is learned from noisy moments: its weights, their shrinkage, and their variances."""

import numpy as np

from pate.accounting.special import expit
from pate.votes.moment_student import MomentStudent
from pate.votes.noisy_moments import NoisyMoments
from pate.votes.recipe import DEFAULT_RECIPE

NUM_FEATURES = 12
NUM_LABELS = 8
NUM_PUBLIC = 3000
RNG = np.random.default_rng(0)
CONSTANT = DEFAULT_RECIPE.constant_feature
FEATURES_WITHOUT_CONSTANT = RNG.standard_normal((NUM_PUBLIC, NUM_FEATURES)) / np.sqrt(NUM_FEATURES)
FEATURES = np.append(FEATURES_WITHOUT_CONSTANT, np.full((NUM_PUBLIC, 1), CONSTANT), axis=1)
TRUE_WEIGHTS = RNG.standard_normal((NUM_FEATURES, NUM_LABELS))
PROBABILITIES = expit(FEATURES_WITHOUT_CONSTANT @ TRUE_WEIGHTS - 1)
PREVALENCE = PROBABILITIES.mean(axis=0)
STUDENT = MomentStudent(
    public_features=FEATURES.astype(np.float32),
    feature_variances=np.ones(NUM_FEATURES),
    recipe=DEFAULT_RECIPE,
)


def noisy_moments(noise_std: float, num_records: float = 1e6) -> NoisyMoments:
    """Returns the expected moments of labels with the probabilities `PROBABILITIES`, plus noise."""
    feature_label_products = FEATURES.T @ PROBABILITIES / NUM_PUBLIC
    noise = noise_std * np.random.default_rng(1).standard_normal(feature_label_products.shape)
    return STUDENT.moments_from_products(
        feature_label_products + noise,
        prevalence=PREVALENCE,
        noise_variance=np.full(NUM_LABELS, noise_std**2),
        num_records=num_records,
    )


def correlation_with_true_weights(weights: np.ndarray) -> float:
    """Returns the correlation of a student's weights with the true ones."""
    return float(np.corrcoef(weights[:-1].ravel(), TRUE_WEIGHTS.ravel())[0, 1])


def test_exact_moments_give_the_model_that_made_them() -> None:
    """Without noise, the weights and constants are close to those of the model behind the moments."""
    weights = STUDENT.fit(noisy_moments=noisy_moments(noise_std=0.0), prevalence=PREVALENCE)
    assert correlation_with_true_weights(weights=weights) > 0.99
    np.testing.assert_allclose(weights[:-1], TRUE_WEIGHTS, atol=0.3)
    np.testing.assert_allclose(weights[-1] * CONSTANT, -1, atol=0.1)


def test_noisy_moments_give_a_shrunk_student() -> None:
    """The more noise the moments have, the shorter the weights are, down to 0 at a noise of 0.3.

    At a noise of 0.003, their correlation with the true weights is above 0.9.
    """

    def fitted_weights(noise_std: float) -> np.ndarray:
        return STUDENT.fit(noisy_moments=noisy_moments(noise_std=noise_std), prevalence=PREVALENCE)

    lengths = [
        np.linalg.norm(fitted_weights(noise_std=noise_std)[:-1]) for noise_std in (0.0, 0.03, 0.3)
    ]
    assert lengths[0] > lengths[1] > lengths[2] == 0
    assert correlation_with_true_weights(weights=fitted_weights(noise_std=0.003)) > 0.9


def test_mean_probabilities_are_the_prevalence() -> None:
    """The mean probability of each label on the public rows is the prevalence."""
    weights = STUDENT.fit(noisy_moments=noisy_moments(noise_std=0.01), prevalence=PREVALENCE)
    np.testing.assert_allclose(expit(FEATURES @ weights).mean(axis=0), PREVALENCE, atol=1e-4)


def test_a_start_states_smaller_variances_with_less_noise() -> None:
    """The less noise the moments have, the smaller is the variance of each weight of the start that they give."""
    precise = STUDENT.as_start(noisy_moments=noisy_moments(noise_std=0.001), prevalence=PREVALENCE)
    vague = STUDENT.as_start(noisy_moments=noisy_moments(noise_std=0.1), prevalence=PREVALENCE)
    assert (precise.variances < vague.variances).all()
    assert (precise.variances > 0).all()
    assert precise.feature_label_moments is not None


def test_variance_of_moments_grows_with_fewer_records() -> None:
    """Without noise, moments of a hundredth of the records have 100 times the variance, that of sampling the people."""
    variances_of_many_records = noisy_moments(noise_std=0.0, num_records=1e4).variances
    variances_of_few_records = noisy_moments(noise_std=0.0, num_records=1e2).variances
    np.testing.assert_allclose(variances_of_few_records, 100 * variances_of_many_records)
