"""Bootstrap intervals: each resample has scikit-learn's metrics, and the interval covers what it should."""

from __future__ import annotations

import numpy as np
import pytest

from pate.report.intervals import _metrics, _RankedLabel, _weights, metric_intervals
from pate.report.metrics import multilabel_metrics
from pate.validation import InvalidValue


def sample(n: int, seed: int, digits: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    true = rng.random((n, 5)) < (0.3, 0.1, 0.02, 0.5, 0.0)
    scores = np.round(rng.random((n, 5)) + true * 0.4, digits)
    return scores > 0.8, scores, true


@pytest.mark.parametrize("digits", [1, 9])
def test_each_resample_has_the_metrics_of_its_samples(digits: int) -> None:
    predicted, scores, true = sample(150, 3, digits)
    weights = next(_weights(len(true), 6, seed=1))
    ranked = [_RankedLabel.of(scores[:, label], true[:, label]) for label in range(5)]
    found = _metrics(weights, predicted, true, ranked)
    for column in range(6):
        rows = np.repeat(np.arange(len(true)), weights[:, column].astype(int))
        wanted = vars(multilabel_metrics(predicted[rows], scores[rows], true[rows]))
        assert {name: values[column] for name, values in found.items()} == pytest.approx(wanted)


def test_blocks_draw_the_same_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    predicted, scores, true = sample(80, 4)
    whole = metric_intervals(predicted, scores, true)
    monkeypatch.setattr("pate.report.intervals._MOST_WEIGHTS", 4 * 80 * 7)
    assert metric_intervals(predicted, scores, true) == whole


def test_an_interval_holds_the_metric_and_narrows() -> None:
    few, many = (metric_intervals(*sample(n, 5)) for n in (200, 5000))
    whole = vars(multilabel_metrics(*sample(5000, 5)))
    for name, (low, high) in many.items():
        assert 0 <= low <= whole[name] <= high <= 1
        assert high - low < (few[name][1] - few[name][0]) / 2


def test_the_interval_of_the_accuracy_is_that_of_its_standard_error() -> None:
    predicted, scores, true = sample(4000, 6)
    low, high = metric_intervals(predicted, scores, true, resamples=2000)["accuracy"]
    error = (predicted == true).mean(axis=1).std() / np.sqrt(4000)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.08)


def test_a_metric_that_is_undefined_has_no_interval() -> None:
    true = np.zeros((20, 2), dtype=bool)
    found = metric_intervals(true, np.zeros((20, 2)), true)
    assert found["accuracy"] == (1.0, 1.0)
    assert {"mean_average_precision", "balanced_accuracy"}.isdisjoint(found)


def test_refuses_what_it_cannot_use() -> None:
    predicted, scores, true = sample(20, 0)
    with pytest.raises(InvalidValue, match="level=1"):
        metric_intervals(predicted, scores, true, level=1.0)
    with pytest.raises(InvalidValue, match="resamples=1"):
        metric_intervals(predicted, scores, true, resamples=1)
    with pytest.raises(InvalidValue, match=r"predicted\.shape"):
        metric_intervals(predicted[:5], scores, true)
