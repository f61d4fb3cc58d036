import numpy as np
import pytest
from sklearn.metrics import f1_score

from pate.student.threshold import best_threshold, matched_threshold


def test_a_hand_worked_case():
    probabilities = np.array([[0.9, 0.8], [0.6, 0.2], [0.4, 0.1]])
    labels = np.array([[1, 1], [0, 0], [1, 0]], bool)
    # predicting the top 2: F1 = 4/5; the top 4: 6/7; fewer or more do worse
    assert best_threshold(probabilities, labels) == (pytest.approx(0.3), pytest.approx(6 / 7))


def test_no_threshold_does_better():
    rng = np.random.default_rng(0)
    labels = rng.random((40, 5)) < 0.2
    probabilities = (labels * 0.3 + rng.random((40, 5)) * 0.6).round(2)  # with ties
    threshold, micro_f1 = best_threshold(probabilities, labels)
    assert f1_score(labels, probabilities >= threshold, average="micro") == pytest.approx(micro_f1)
    others = [f1_score(labels, probabilities >= t, average="micro") for t in np.linspace(0.005, 0.995, 100)]
    assert micro_f1 == pytest.approx(max(others))


def test_stays_above_zero_and_has_a_default():
    assert best_threshold(np.array([[0.0, 0.0]]), np.array([[True, True]]))[0] > 0
    assert best_threshold(np.zeros((3, 2)), np.zeros((3, 2), bool)) == (0.5, 0.0)


def test_matches_a_number_of_labels():
    probabilities = np.linspace(0, 1, 100).reshape(25, 4)
    assert (probabilities >= matched_threshold(probabilities, 1.0)).sum() == 25
    assert matched_threshold(probabilities, 9.0) == 1e-3
