import numpy as np
import pytest
from numpy.typing import NDArray

from pate.report import multilabel_metrics, per_label_metrics
from pate.validation import InvalidValue

# Worked out by hand. Columns: one mixed label, one without positives, one with positives only.
TRUE = np.array([[1, 0, 1], [1, 0, 1], [0, 0, 1], [0, 0, 1]], dtype=bool)
PREDICTED = np.array([[1, 0, 1], [0, 1, 1], [0, 0, 0], [1, 0, 1]], dtype=bool)
SCORES = np.array([[0.9, 0.1, 0.9], [0.2, 0.6, 0.8], [0.1, 0.2, 0.3], [0.8, 0.3, 0.7]])


def test_against_values_worked_out_by_hand() -> None:
    metrics = multilabel_metrics(PREDICTED, SCORES, TRUE)
    # correct bits: 2 + 3 + 3 of 12
    assert metrics.accuracy == pytest.approx(8 / 12)
    # only the first label has both classes: recalls 1/2 and 1/2
    assert metrics.balanced_accuracy == pytest.approx(0.5)
    # true positives 1 + 0 + 3, false positives 1 + 1 + 0, false negatives 1 + 0 + 1
    assert metrics.micro_f1 == pytest.approx(2 * 4 / (2 * 4 + 2 + 2))
    # F1: 1/2, 0, 6/7
    assert metrics.macro_f1 == pytest.approx((1 / 2 + 0 + 6 / 7) / 3)
    # first label: ranks 1 and 3 of the scores, (1/1 + 2/3)/2; third: 1; second has no positive
    assert metrics.mean_average_precision == pytest.approx(((1 + 2 / 3) / 2 + 1) / 2)


def test_per_label_marks_the_undefined_with_nan() -> None:
    metrics = per_label_metrics(PREDICTED, SCORES, TRUE)
    np.testing.assert_allclose(metrics["balanced_accuracy"], [0.5, np.nan, np.nan])
    np.testing.assert_allclose(metrics["average_precision"], [5 / 6, np.nan, 1])
    np.testing.assert_allclose(metrics["recall"], [0.5, np.nan, 0.75])
    np.testing.assert_allclose(metrics["precision"], [0.5, 0, 1])
    np.testing.assert_allclose(metrics["f1"], [0.5, 0, 6 / 7])
    np.testing.assert_allclose(metrics["accuracy"], [0.5, 0.75, 0.75])
    np.testing.assert_allclose(metrics["prevalence"], [0.5, 0, 1])


def test_a_constant_guess_has_balanced_accuracy_one_half() -> None:
    rng = np.random.default_rng(1)
    true = rng.random((200, 5)) < [0.02, 0.2, 0.5, 0.8, 0.0]
    guess = np.broadcast_to(true.mean(axis=0) > 0.5, true.shape)
    assert multilabel_metrics(guess, guess.astype(float), true).balanced_accuracy == pytest.approx(0.5)


@pytest.mark.parametrize("num_samples", [1, 30])
@pytest.mark.parametrize("num_labels", [1, 7])
def test_a_perfect_prediction_scores_one(num_samples: int, num_labels: int) -> None:
    true = np.random.default_rng(2).random((num_samples, num_labels)) < 0.5
    true[0] = True
    metrics = multilabel_metrics(true, true.astype(np.float32), true)
    one_class = bool(true.all(axis=0).all())
    assert vars(metrics) == {
        "accuracy": 1.0,
        "balanced_accuracy": None if one_class else 1.0,
        "micro_f1": 1.0,
        "macro_f1": 1.0,
        "mean_average_precision": 1.0,
    }


def test_one_label_is_scored_as_a_label_and_not_as_two_classes() -> None:
    true = np.array([[1], [0], [0], [0]], dtype=bool)
    predicted = np.array([[0], [0], [0], [0]], dtype=bool)
    metrics = multilabel_metrics(predicted, np.zeros((4, 1)), true)
    assert (metrics.accuracy, metrics.micro_f1, metrics.macro_f1) == (0.75, 0.0, 0.0)


def test_nothing_positive_anywhere() -> None:
    nothing = np.zeros((3, 2), dtype=bool)
    metrics = multilabel_metrics(nothing, np.zeros((3, 2)), nothing)
    assert vars(metrics) == {
        "accuracy": 1.0,
        "balanced_accuracy": None,
        "micro_f1": 0.0,
        "macro_f1": 0.0,
        "mean_average_precision": None,
    }


@pytest.mark.parametrize(
    ("predicted", "scores", "true", "message"),
    [
        (PREDICTED.astype(int), SCORES, TRUE, r"predicted.dtype=int64: expected bool"),
        (PREDICTED, SCORES, TRUE.astype(float), r"true.dtype=float64: expected bool"),
        (PREDICTED, SCORES > 0.5, TRUE, r"scores.dtype=bool: expected a floating type"),
        (PREDICTED[:2], SCORES, TRUE, r"predicted.shape=\(2, 3\): expected the shape of true, \(4, 3\)"),
        (PREDICTED, SCORES[:, :1], TRUE, r"scores.shape=\(4, 1\): expected the shape of true"),
        (PREDICTED, np.where(SCORES > 0.8, np.nan, SCORES), TRUE, r"scores=nan: expected finite numbers"),
        (PREDICTED[0], SCORES[0], TRUE[0], r"predicted.shape=\(3,\): expected \[num_samples, num_labels\]"),
        (PREDICTED[:0], SCORES[:0], TRUE[:0], r"predicted.shape=\(0, 3\): expected .* not empty"),
    ],
)
def test_refuses(
    predicted: NDArray[np.generic], scores: NDArray[np.generic], true: NDArray[np.generic], message: str
) -> None:
    with pytest.raises(InvalidValue, match=message):
        multilabel_metrics(predicted, scores, true)
