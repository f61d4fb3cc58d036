"""The model of records by which scores are estimated: scores by hand, influences as derivatives, and recalibration.

The influence of a record is how much one more such record moves a score, to first order.
"""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from pate.accounting.special import expit
from pate.array_types import BoolArray, FloatArray
from pate.run.score_model import ScoreModel

STEP = 1e-4
NUM_RECORDS = 3000


def drawn_probabilities(num_records: int = NUM_RECORDS) -> FloatArray:
    """Returns probabilities of three labels."""
    logits = np.random.default_rng(0).standard_normal((num_records, 3)) * 1.5 - [0.0, 1.0, 2.0]
    return np.asarray(expit(logits))


def score_model_of(probabilities: FloatArray) -> ScoreModel:
    """Returns the model of a student that predicts the labels with a probability of at least 0.4."""
    return ScoreModel.of_public(probabilities, predicted=probabilities >= 0.4)


def weighted_scores(
    probabilities: FloatArray, labels: BoolArray, weights: FloatArray
) -> FloatArray:
    """Returns macro-F1 and the mean average precision of weighted records, computed without a model."""
    predicted = probabilities >= 0.4
    hits = weights @ (predicted & labels)
    errors = weights @ (predicted ^ labels)
    precisions = [
        average_precision_score(labels[:, label], probabilities[:, label], sample_weight=weights)
        for label in range(labels.shape[1])
    ]
    return np.array([(2 * hits / (2 * hits + errors)).mean(), np.mean(precisions)])


def test_sure_student_expects_perfect_scores() -> None:
    """A student with probabilities near 0 and 1 expects scores near 1."""
    probabilities = np.where(np.random.default_rng(0).random((100, 2)) < 0.3, 0.9999, 0.0001)
    macro_f1, mean_average_precision = score_model_of(probabilities=probabilities).scores
    assert macro_f1 == pytest.approx(1.0, abs=0.001)
    assert mean_average_precision == pytest.approx(1.0, abs=0.001)


def test_constant_student_expects_the_share_as_precision() -> None:
    """If all records have the probability 0.25 and no label is predicted, the average precision is 0.25 and F1 is 0."""
    model = score_model_of(probabilities=np.full((100, 1), 0.25))
    macro_f1, mean_average_precision = model.scores
    assert macro_f1 == pytest.approx(0.0, abs=0.01)
    assert mean_average_precision == pytest.approx(0.25, abs=0.01)


def test_model_expects_the_scores_of_labels_drawn_from_it() -> None:
    """Scores of labels that are drawn by the probabilities are those of the model within 0.01."""
    probabilities = drawn_probabilities(num_records=60_000)
    labels = np.random.default_rng(1).random(probabilities.shape) < probabilities
    scores_of_drawn_labels = weighted_scores(
        probabilities=probabilities, labels=labels, weights=np.ones(len(labels))
    )
    assert score_model_of(probabilities=probabilities).scores == pytest.approx(
        scores_of_drawn_labels, abs=0.01
    )


def test_influences_vanish_for_records_as_expected() -> None:
    """The mean influences on macro-F1 and average precision are 0 if labels are distributed as the student expects."""
    model = score_model_of(probabilities=drawn_probabilities())
    assert model.expected(model.influences_of_labels) == pytest.approx((0.0, 0.0), abs=1e-12)


@pytest.mark.parametrize(("intercept", "slope"), [(0.3, 1.0), (0.0, 0.7), (-0.4, 1.2)])
def test_influences_are_the_first_order_of_scores(intercept: float, slope: float) -> None:
    """For a small change of the labels' shares, the change of a score is the mean influence, within 2%.

    The logits of the shares are changed by a line, with 1e-4 times `intercept` and `slope` - 1.
    """
    model = score_model_of(probabilities=drawn_probabilities())
    changed_model = model.recalibrated(
        intercept=STEP * intercept,
        slope=1 + STEP * (slope - 1),
    )
    mean_influences = changed_model.expected(model.influences_of_labels)
    score_changes = np.subtract(changed_model.scores, model.scores)
    assert mean_influences == pytest.approx(score_changes, rel=0.02)


def test_influences_tell_scores_of_true_labels() -> None:
    """The true scores of a student that is too sure are those of its model plus the mean influences, within 0.01."""
    probabilities = drawn_probabilities(num_records=20_000)
    shares = expit(0.85 * np.log(probabilities / (1 - probabilities)))
    labels = np.random.default_rng(2).random(shares.shape) < shares
    model = score_model_of(probabilities=probabilities)
    influences = model.influences_of_labels
    mean_influences = (
        influences.of_f1(predicted=probabilities >= 0.4, labels=labels).sum(axis=1).mean(),
        influences.of_precision(probabilities, labels=labels).sum(axis=1).mean(),
    )
    true_f1_and_precision = weighted_scores(
        probabilities=probabilities, labels=labels, weights=np.ones(len(labels))
    )
    assert np.add(model.scores, mean_influences) == pytest.approx(true_f1_and_precision, abs=0.01)
    assert np.abs(true_f1_and_precision - model.scores).max() > 0.02


def test_labels_that_nobody_expects_move_scores_little() -> None:
    """For a label with probability 1e-6, one of three, no influence is above 2/3 times the number of public records."""
    probabilities = drawn_probabilities(num_records=100)
    probabilities[:, 0] = 1e-6
    influences = score_model_of(probabilities=probabilities).influences_of_labels
    precision_influence_by_cell = influences.precision_influence_of_present[:, 0]
    assert 0 < influences.f1_influence_of_hit[0] <= 2 * 100 / 3
    assert np.abs(precision_influence_by_cell).max() <= 2 * 100 / 3


def test_line_is_found_from_calibration_sums() -> None:
    """The right recalibration of a student that is too sure is found from its calibration sums.

    For sums whose variance is 1e-3, two other models are returned. At the highest probability, one has a smaller share
    of present labels than the likeliest model, and one a larger share.
    """
    model = score_model_of(probabilities=drawn_probabilities())
    true_model = model.recalibrated(intercept=-0.2, slope=0.8)
    bins = (model.positive_share_by_cell * 10).astype(int)
    mass_by_cell = model.masses_by_predicted_cell_label.sum(axis=(0, 2))
    positive_mass_change_by_cell = mass_by_cell * (
        true_model.positive_share_by_cell - model.positive_share_by_cell
    )
    label_minus_probability_by_bin = np.bincount(
        bins, weights=positive_mass_change_by_cell, minlength=10
    )
    likeliest, _, _ = model.corrected(
        label_minus_probability_by_bin=label_minus_probability_by_bin,
        difference_variances=np.full(10, 1e-10),
    )
    assert likeliest.positive_share_by_cell == pytest.approx(
        true_model.positive_share_by_cell, abs=1e-3
    )
    likeliest, low, high = model.corrected(
        label_minus_probability_by_bin=label_minus_probability_by_bin,
        difference_variances=np.full(10, 1e-3),
    )
    assert (
        low.positive_share_by_cell[0]
        < likeliest.positive_share_by_cell[0]
        < high.positive_share_by_cell[0]
    )
