"""Labels of public rows as a start of the student: the fit, the choice of the prior, and labels with gaps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from pate.array_types import BoolArray, Float32Array, IntArray
from pate.votes.label_gaps import labels_with_gaps
from pate.votes.labeled_rows import LabeledFeatures, LabeledRows
from pate.votes.round_votes import RoundQuestion, RoundVotes

TRUE_WEIGHTS = np.array([[4.0, 0.0], [-3.0, 2.0], [0.0, -5.0]])


class PublicFeatures(RoundVotes):
    """Votes of nobody, with public features alone."""

    num_teachers = 1
    num_labels = 2
    records_per_teacher = 1.0

    def __init__(self, features: Float32Array) -> None:
        self.public_features = features
        self.feature_variances = np.ones(features.shape[1] - 1)

    def total(self, question: RoundQuestion) -> IntArray:
        raise NotImplementedError


def public_features(num_rows: int = 2000) -> PublicFeatures:
    """Returns random features of length 1, the last of which is the constant feature."""
    rows = np.random.default_rng(3).normal(size=(num_rows, 3))
    rows *= np.sqrt(0.96) / np.linalg.norm(rows, axis=1, keepdims=True)
    return PublicFeatures(np.append(rows, np.full((num_rows, 1), 0.2), axis=1).astype(np.float32))


def labels_drawn_for_first_rows(
    public_pool: PublicFeatures, num_rows: int, seed: int = 0
) -> BoolArray:
    """Returns labels of the first rows, drawn by a logistic model of weights `TRUE_WEIGHTS` and constant -0.5."""
    logits = public_pool.public_features[:num_rows, :-1] @ TRUE_WEIGHTS - 0.5
    return np.random.default_rng(seed).random(logits.shape) < expit(logits)


def error_of_weights(public_pool: PublicFeatures, public_labels: BoolArray) -> float:
    """Returns the root mean squared error of the weights that are learned from public labels."""
    weights = LabeledRows(labels=public_labels).public_start(public_pool).weights
    return float(np.sqrt(((weights - TRUE_WEIGHTS) ** 2).mean()))


@pytest.mark.slow
def test_more_labeled_rows_come_nearer_to_the_weights_behind_the_labels() -> None:
    """The error of the weights falls with the number of labeled rows."""
    public_pool = public_features()
    distances = [
        error_of_weights(
            public_pool=public_pool,
            public_labels=labels_drawn_for_first_rows(public_pool=public_pool, num_rows=num_rows),
        )
        for num_rows in (30, 300, 2000)
    ]
    assert distances[2] < 0.4 < distances[1] < distances[0]


@pytest.mark.slow
def test_stated_variances_are_about_the_squared_errors_of_weights() -> None:
    """Over ten draws of labels, the mean squared error of weights is half to twice the mean of the stated variances."""
    public_pool = public_features()
    starts = [
        LabeledRows(
            labels=labels_drawn_for_first_rows(public_pool=public_pool, num_rows=300, seed=seed)
        ).public_start(public_pool)
        for seed in range(10)
    ]
    squared_error = np.mean([((start.weights - TRUE_WEIGHTS) ** 2).mean() for start in starts])
    stated_variance = np.mean([start.variances.mean() for start in starts])
    assert 0.5 < squared_error / stated_variance < 2


@pytest.mark.slow
def test_labels_unrelated_to_the_inputs_give_small_weights() -> None:
    """Labels that do not depend on the inputs give small weights, and over 0.7 times the variances without labels."""
    public_pool = public_features()
    random_labels = np.random.default_rng(1).random((300, 2)) < 0.4
    start = LabeledRows(labels=random_labels).public_start(public_pool)
    assert np.abs(start.weights).max() < 0.5
    variances_without_labels = 2 / 3 / np.square(public_pool.public_features[:, :-1]).mean(axis=0)
    assert (start.variances > 0.7 * variances_without_labels[:, None]).all()


def test_rows_with_an_unknown_label_do_not_change_its_weights() -> None:
    """A label that 200 of 300 rows do not know is learned as from the other 100 rows alone."""
    public_pool = public_features()
    labels = labels_drawn_for_first_rows(public_pool=public_pool, num_rows=300)
    known = np.ones_like(labels)
    known[100:, 1] = False
    features = public_pool.public_features[:300, :-1].astype(np.float64)
    prior_weight_variances = np.ones(3)
    labels_with_unknown = labels_with_gaps(labels, known_label_mask=known)
    fit = LabeledFeatures.from_labels(labels_with_unknown, features=features).fit(
        prior_weight_variances
    )
    first_rows = LabeledFeatures.from_labels(labels[:100], features=features[:100])
    fit_of_100_rows = first_rows.fit(prior_weight_variances)
    np.testing.assert_allclose(fit.weights[:, 1], fit_of_100_rows.weights[:, 1], atol=1e-3)


def test_labels_of_rows_without_features_are_left_out() -> None:
    """The labels of 500 rows give the same weights as those of the 400 rows that have features."""
    public_pool = public_features(num_rows=400)
    labels = labels_drawn_for_first_rows(public_pool=public_features(num_rows=500), num_rows=500)
    all_rows = LabeledRows(labels=labels).public_start(public_pool)
    first_rows = LabeledRows(labels=labels[:400]).public_start(public_pool)
    np.testing.assert_array_equal(all_rows.weights, first_rows.weights)


@pytest.mark.parametrize("num_rows", [1, 2, 5])
def test_a_handful_of_labeled_rows_gives_finite_weights(num_rows: int) -> None:
    """One, two or five labeled rows give a start of finite numbers."""
    public_pool = public_features()
    start = LabeledRows(
        labels=labels_drawn_for_first_rows(public_pool=public_pool, num_rows=num_rows)
    ).public_start(public_pool)
    assert np.isfinite(start.weights).all()
    assert (start.variances > 0).all()


@pytest.mark.parametrize(
    ("num_rows", "least_directions"), [(1, 4), (100, 40), (300, 69), (1000, 126)]
)
def test_labels_need_four_times_the_root_of_their_number_of_directions(
    num_rows: int, least_directions: int
) -> None:
    """The least number of directions is 4 times the root of the number of labeled rows, rounded down."""
    assert (
        LabeledRows(labels=np.zeros((num_rows, 2), np.bool_)).least_directions == least_directions
    )


def test_identity_differs_between_different_labels() -> None:
    """Labels that differ in one entry have different identities, and equal labels have the same."""
    labels = labels_drawn_for_first_rows(public_pool=public_features(), num_rows=20)
    changed_labels = labels.copy()
    changed_labels[3, 1] ^= True
    assert LabeledRows(labels=labels).identity == LabeledRows(labels=labels.copy()).identity
    assert LabeledRows(labels=labels).identity != LabeledRows(labels=changed_labels).identity
