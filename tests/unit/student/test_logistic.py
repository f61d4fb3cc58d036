import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from pate.student import LinearStudent, LogisticStudent, LowRankStudent
from pate.student.linear import _White
from pate.validation import InvalidValue


def test_equals_logistic_regression_with_the_same_penalty(make_rows, held_out):
    rows, labels = make_rows(400)
    white = _White.of(rows)
    features = white.features(rows)
    weights, bias = white.of_inputs(white.fit(features, labels, 1e-2, white.start(labels)))
    spread = np.square(rows - rows.mean(axis=0)).sum(axis=1).mean()
    scores = held_out[0] @ weights + bias
    for label in range(6):
        strength = 1 / (1e-2 * spread * len(rows))
        model = LogisticRegression(C=strength, tol=1e-8, max_iter=1000).fit(rows, labels[:, label])
        np.testing.assert_allclose(scores[:, label], model.decision_function(held_out[0]), atol=0.02)


def test_many_true_labels_are_learned_better_than_by_squares(make_rows, held_out):
    rows = make_rows(3000)

    def precision(student):
        return average_precision_score(held_out[1], student.fit(*rows, seed=0).predict_proba(held_out[0]))

    assert precision(LogisticStudent()) > precision(LinearStudent())
    assert isinstance(LinearStudent().ceiling, LogisticStudent)
    assert isinstance(LowRankStudent().ceiling, LogisticStudent)


def test_noise_is_penalized_more(make_rows):
    rows, labels = make_rows(400)
    noise = np.random.default_rng(0).random(labels.shape) < 0.3
    clean = LogisticStudent().fit(rows, labels, seed=0).choices["penalty"]
    assert LogisticStudent().fit(rows, noise, seed=0).choices["penalty"] > clean


def test_refuses_what_it_cannot_use():
    with pytest.raises(InvalidValue, match="penalties"):
        LogisticStudent(penalties=())
    with pytest.raises(InvalidValue, match="held_out=1"):
        LogisticStudent(held_out=1.0)
