"""The average precision of all labels at once is scikit-learn's, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score

from pate.report.metrics import average_precisions, micro_f1


@pytest.mark.parametrize("digits", [0, 1, 9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_that_of_scikit_learn(digits: int, dtype: type) -> None:
    rng = np.random.default_rng(digits)
    true = rng.random((300, 6)) < (0.5, 0.2, 0.05, 0.01, 0.9, 0.3)
    scores = np.round(rng.random((300, 6)) + 0.3 * true, digits).astype(dtype)
    scores[:, 5] = 0.25
    expected = [average_precision_score(true[:, label], scores[:, label]) for label in range(6)]
    np.testing.assert_allclose(average_precisions(scores, true), expected, rtol=1e-12)


def test_without_a_positive_it_is_undefined() -> None:
    assert np.isnan(average_precisions(np.ones((4, 1)), np.zeros((4, 1), bool))).all()


def test_micro_f1_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    true, predicted = rng.random((2, 200, 5)) < 0.2
    assert micro_f1(predicted, true) == pytest.approx(f1_score(true, predicted, average="micro"))
    assert micro_f1(np.zeros((3, 2), bool), np.zeros((3, 2), bool)) == 0.0
