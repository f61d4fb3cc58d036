"""Public directions (principal components of public rows): their features, and how many of them the noise allows.

The height is a feature for the length of a row: a 1 that is appended before the row is scaled to length 1. Kernel
components are nonlinear features.
"""

import numpy as np
import pytest

from pate.votes.public_pca import PublicPCA, affordable_directions
from pate.votes.recipe import DEFAULT_RECIPE
from tests.refusals import refused_parameter

CONSTANT = DEFAULT_RECIPE.constant_feature

RNG = np.random.default_rng(0)
POOL = RNG.normal(size=(400, 6)) * np.array([5.0, 4.0, 3.0, 2.0, 1.0, 0.1])


def test_features_have_length_one_and_small_weight_at_low_variance() -> None:
    """The features of public records have length 1, and are smaller for directions of lower variance.

    Only an input at the mean of all records has another length: its features are all 0.
    """
    public_pca = PublicPCA.fit(POOL, max_directions=4)
    features = public_pca.features(POOL)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), desired=1)
    np.testing.assert_allclose(public_pca.variances, np.sort(POOL.var(axis=0))[::-1][:4], rtol=0.05)
    projected = (POOL - public_pca.center) @ public_pca.projection
    ridge = 0.1 * POOL.var(axis=0).mean()
    mean_squares = public_pca.variances / (public_pca.variances + ridge)
    np.testing.assert_allclose(
        projected.T @ projected / len(POOL),
        np.diag(mean_squares / mean_squares.mean()),
        atol=1e-12,
    )
    assert not public_pca.features(POOL.mean(axis=0, keepdims=True)).any()


def test_without_all_directions_there_is_no_height() -> None:
    """With 4 of 6 directions, the features are the directions and one constant, without a height."""
    public_pca = PublicPCA.fit(POOL, max_directions=4)
    features = public_pca.with_constant(POOL)
    np.testing.assert_allclose(
        features[:, :4], np.sqrt(1 - CONSTANT**2) * public_pca.features(POOL)
    )
    assert features.shape == (400, 5)
    np.testing.assert_array_equal(public_pca.feature_variances, public_pca.variances)


@pytest.mark.slow
def test_kernel_components_explain_nonlinear_labels() -> None:
    """Labels that are the sign of a product of two inputs are explained by kernel components, not by linear features.

    The linear features keep their directions. A row has the same bits of features alone and in another order of rows.
    """
    input_rows = np.random.default_rng(1).normal(size=(1500, 4))
    signs = np.sign(input_rows[:, 0] * input_rows[:, 1])
    correlations = {}
    for multiple_of_linear_features in (None, 1.0):
        public_pca = PublicPCA.fit(
            input_rows[:1000], max_directions=105, kernel_from_multiple=multiple_of_linear_features
        )
        features = public_pca.with_constant(input_rows)
        assert (
            features.shape[1]
            == public_pca.width + 1
            == (6 if multiple_of_linear_features is None else 26)
        )
        np.testing.assert_allclose(np.linalg.norm(features, axis=1), desired=1)
        fitted_weights = np.linalg.lstsq(features[:1000], signs[:1000], rcond=None)[0]
        predicted_signs = features[1000:] @ fitted_weights
        correlations[multiple_of_linear_features] = np.corrcoef(predicted_signs, signs[1000:])[0, 1]
    correlation_without_kernel = correlations[None]
    correlation_with_kernel = correlations[1.0]
    assert abs(correlation_without_kernel) < 0.1 < 0.7 < correlation_with_kernel
    linear_pca = PublicPCA.fit(input_rows[:1000], max_directions=5)
    linear_features = linear_pca.with_constant(input_rows)[:, :5]
    np.testing.assert_allclose(
        np.einsum("ij,ij->i", features[:, :5], linear_features) ** 2,
        (features[:, :5] ** 2).sum(axis=1) * (1 - CONSTANT**2),
    )
    row_order = np.random.default_rng(2).permutation(1500)
    np.testing.assert_array_equal(
        public_pca.with_constant(input_rows[row_order]), features[row_order]
    )
    np.testing.assert_array_equal(public_pca.with_constant(input_rows[7:8])[0], features[7])


@pytest.mark.parametrize(
    ("max_directions", "multiple_of_linear_features", "width"),
    [
        (5, 1.0, 5),
        (6, 1.0, 7),
        (7, 1.0, 7),
        (8, 1.0, 8),
        (27, 4.0, 7),
        (29, 4.0, 27),
        (400, 1.0, 27),
    ],
)
def test_components_need_room_and_a_pool(
    max_directions: int, multiple_of_linear_features: float, width: int
) -> None:
    """For `max_directions` features from 400 public rows of 6 numbers, `PublicPCA` makes `width` features.

    First come up to 6 directions. If there are all 6, the height follows, even as feature `max_directions` + 1. Kernel
    components follow if `max_directions` is above 7 * `multiple_of_linear_features`: as many as `max_directions` still
    allows, and at most one for every 20 rows.
    """
    assert (
        PublicPCA.fit(
            POOL, max_directions=max_directions, kernel_from_multiple=multiple_of_linear_features
        ).width
        == width
    )
    linear_width = min(max_directions + (max_directions == 6), 7)
    assert PublicPCA.fit(POOL, max_directions=max_directions).width == linear_width


def test_a_pool_of_few_different_inputs_has_no_components() -> None:
    """A pool of three different inputs has no kernel components and width 3, as linear features explain it."""
    public_pca = PublicPCA.fit(POOL[[0, 1, 2] * 100], max_directions=400, kernel_from_multiple=1.0)
    assert public_pca.kernel is None
    assert public_pca.width == 3


def test_the_span_keeps_lengths() -> None:
    """The span of 30 queries is an orthonormal basis of the columns of their features.

    Fewer queries than directions are refused.
    """
    public_pca = PublicPCA.fit(POOL, max_directions=5)
    span = public_pca.span(POOL[:30])
    np.testing.assert_allclose(span.T @ span, np.eye(5), atol=1e-12)
    features = public_pca.features(POOL[:30])
    np.testing.assert_allclose(span @ (span.T @ features), features)
    with refused_parameter("num_queries", value=3, rule_words="at least 5"):
        public_pca.span(POOL[:3])


def num_affordable_directions(noise_multiplier: float) -> int:
    """Returns the largest number of directions at which noise is at most a quarter of the labels' variance."""
    return affordable_directions(
        noise_multiplier=noise_multiplier,
        num_teachers=400,
        num_records=62_115,
        num_labels=40,
        noise_share=0.25,
    )


@pytest.mark.parametrize("noise_multiplier", [1.0, 5.0, 30.0])
def test_noise_stays_within_its_share_of_the_labels_variance(noise_multiplier: float) -> None:
    """The affordable number k of directions keeps the noise to a quarter of the labels' variance, and k + 1 does not.

    For L labels, n records, N teachers and noise multiplier z, the variance of the noise is the share
    4 k^2 L z^2 / (n N) of the labels' variance.
    """

    def noise_share(num_directions: int) -> float:
        return 4 * num_directions**2 * 40 * noise_multiplier**2 / (62_115 * 400)

    num_directions = num_affordable_directions(noise_multiplier=noise_multiplier)
    assert (
        noise_share(num_directions=num_directions)
        <= 0.25
        < noise_share(num_directions=num_directions + 1)
    )


def test_much_noise_leaves_one_direction() -> None:
    """At a noise multiplier of 1e9, one direction is affordable."""
    assert num_affordable_directions(noise_multiplier=1e9) == 1


def test_noise_share_matches_a_simulation() -> None:
    """The formula for the noise's share of the labels' variance agrees with simulated noise within 2%.

    The clip is the usual length of the mean of a teacher's 20 centered label vectors.
    """
    rng = np.random.default_rng(1)
    num_directions = 8
    num_labels = 5
    num_teachers = 50
    records_per_teacher = 20
    multiplier = 3.0
    variance_of_all_labels = num_labels * 0.25  # for labels with prevalence 1/2
    clip = np.sqrt(variance_of_all_labels / records_per_teacher)
    noise_std = 2 * clip * multiplier / num_teachers
    noise = rng.normal(loc=0, scale=noise_std, size=(4000, num_directions, num_labels))
    # The regression is on features of covariance 1 / num_directions.
    weights_from_noise = num_directions * noise
    squared_lengths = np.square(weights_from_noise).sum(axis=(1, 2))
    noise_share = squared_lengths.mean() / num_directions / variance_of_all_labels
    num_records = num_teachers * records_per_teacher
    expected_share = (
        4 * num_directions**2 * num_labels * multiplier**2 / (num_records * num_teachers)
    )
    assert noise_share == pytest.approx(expected_share, rel=0.02)
