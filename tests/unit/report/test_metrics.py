"""Metrics against values by hand and scikit-learn's, constant predictions, intervals, and membership attacks."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from pate.report import metric_intervals, multilabel_metrics, per_label_metrics
from pate.report.constants import Constant
from pate.report.intervals import _metrics_of_block, _precision_function, _resample_weights
from pate.report.membership import Membership, deviations_from_references, label_losses
from pate.report.metrics import average_precisions
from tests.refusals import ANY, refused_parameter

# Worked out by hand. Columns: one mixed label, one without positives, one with positives only.
TRUE = np.array([[1, 0, 1], [1, 0, 1], [0, 0, 1], [0, 0, 1]], dtype=bool)
PREDICTED = np.array([[1, 0, 1], [0, 1, 1], [0, 0, 0], [1, 0, 1]], dtype=bool)
SCORES = np.array([[0.9, 0.1, 0.9], [0.2, 0.6, 0.8], [0.1, 0.2, 0.3], [0.8, 0.3, 0.7]])


def test_metrics_equal_values_computed_by_hand() -> None:
    """Five metrics of twelve bits are those computed by hand."""
    metrics = multilabel_metrics(predicted_labels=PREDICTED, scores=SCORES, true_labels=TRUE)
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


@pytest.mark.parametrize(
    ("predicted", "scores", "true_labels", "name"),
    [
        (PREDICTED.astype(int), SCORES, TRUE, "predicted.dtype"),
        (PREDICTED, SCORES, TRUE.astype(float), "true.dtype"),
        (PREDICTED, SCORES > 0.5, TRUE, "scores.dtype"),
        (PREDICTED[:2], SCORES, TRUE, "predicted.shape"),
        (PREDICTED, SCORES[:, :1], TRUE, "scores.shape"),
        (PREDICTED, np.where(SCORES > 0.8, np.nan, SCORES), TRUE, "scores"),
        (PREDICTED[0], SCORES[0], TRUE[0], "predicted.shape"),
        (PREDICTED[:0], SCORES[:0], TRUE[:0], "predicted.shape"),
    ],
)
def test_invalid_predictions_are_refused(
    predicted: NDArray[np.generic],
    scores: NDArray[np.generic],
    true_labels: NDArray[np.generic],
    name: str,
) -> None:
    """Predicted labels, scores or true labels of a wrong type or shape, or with NaN, are refused under their name."""
    with refused_parameter(name, value=ANY):
        multilabel_metrics(predicted_labels=predicted, scores=scores, true_labels=true_labels)


@pytest.mark.parametrize("digits", [0, 1, 9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_average_precision_equals_scikit_learn_with_ties(digits: int, dtype: type) -> None:
    """Average precisions are those of scikit-learn, with ties and with a constant score."""
    rng = np.random.default_rng(digits)
    true_labels = rng.random((300, 6)) < (0.5, 0.2, 0.05, 0.01, 0.9, 0.3)
    scores = np.round(rng.random((300, 6)) + 0.3 * true_labels, digits).astype(dtype)
    scores[:, 5] = 0.25
    expected = [
        average_precision_score(true_labels[:, label], scores[:, label]) for label in range(6)
    ]
    np.testing.assert_allclose(
        average_precisions(scores, true_labels=true_labels), expected, rtol=1e-12
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_best_constant_has_the_best_micro_f1(seed: int) -> None:
    """`Constant.best` has the best micro-F1 of all 64 predictions of six labels that are the same for all samples."""
    rng = np.random.default_rng(seed)
    prob_of_label = rng.random(6) ** 2
    true_labels = rng.random((200, 6)) < prob_of_label
    label_frequencies = true_labels.mean(axis=0)
    best = Constant.best(label_frequencies).metrics(true_labels).micro_f1
    all_constants = [
        Constant(labels=np.array(bits), frequencies=label_frequencies)
        for bits in product((False, True), repeat=6)
    ]
    assert best == max(constant.metrics(true_labels).micro_f1 for constant in all_constants)


def draw_sample(
    *, num_samples: int, seed: int, score_digits: int = 2
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns predicted labels, scores and true labels of samples with five labels.

    Scores are rounded to `score_digits` decimals.
    """
    rng = np.random.default_rng(seed)
    true_labels = rng.random((num_samples, 5)) < (0.3, 0.1, 0.02, 0.5, 0.0)
    scores = np.round(rng.random((num_samples, 5)) + true_labels * 0.4, score_digits)
    return scores > 0.8, scores, true_labels


@pytest.mark.parametrize("digits", [1, 9])
def test_each_resample_has_the_metrics_of_its_samples(digits: int) -> None:
    """The metrics of a resample that is given by weights are those of its repeated samples."""
    predicted_labels, scores, true_labels = draw_sample(
        num_samples=150, seed=3, score_digits=digits
    )
    weights_by_sample_and_resample = next(
        _resample_weights(num_samples=len(true_labels), num_resamples=6, seed=1)
    )
    precision_functions = [
        _precision_function(scores[:, label], has_label=true_labels[:, label]) for label in range(5)
    ]
    metric_values_of_resamples = _metrics_of_block(
        weights_by_sample_and_resample,
        predicted_labels=predicted_labels,
        true_labels=true_labels,
        precision_functions=precision_functions,
    )
    for resample in range(6):
        rows = np.repeat(
            np.arange(len(true_labels)), weights_by_sample_and_resample[:, resample].astype(int)
        )
        expected = vars(
            multilabel_metrics(
                predicted_labels=predicted_labels[rows],
                scores=scores[rows],
                true_labels=true_labels[rows],
            )
        )
        assert {
            name: values_of_resamples[resample]
            for name, values_of_resamples in metric_values_of_resamples.items()
        } == pytest.approx(expected)


@pytest.mark.slow
def test_the_interval_of_the_accuracy_is_that_of_its_standard_error() -> None:
    """The interval of the accuracy is as wide as 2 * 1.96 standard errors, within 8%."""
    predicted_labels, scores, true_labels = draw_sample(num_samples=4000, seed=6)
    low, high = metric_intervals(
        predicted_labels=predicted_labels,
        scores=scores,
        true_labels=true_labels,
        num_resamples=2000,
    )["accuracy"]
    error = (predicted_labels == true_labels).mean(axis=1).std() / np.sqrt(4000)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.08)


@pytest.mark.slow
def test_intervals_of_many_samples_are_those_of_a_part_scaled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Intervals of 40,000 samples are computed on a part of the samples and scaled to all.

    The widths are those of intervals on all samples within a third. The centers differ by at most 0.4 widths. Without
    the scaling, the intervals would be 1.6 times as wide.
    """
    rng = np.random.default_rng(0)
    true_labels = rng.random((40_000, 2)) < (0.3, 0.02)
    scores = 0.3 * true_labels + rng.random(true_labels.shape)
    predicted_labels = scores > 0.8
    intervals_from_part_of_samples = metric_intervals(
        predicted_labels, scores=scores, true_labels=true_labels
    )
    monkeypatch.setattr("pate.report.intervals._MAX_SAMPLES", 10**6)
    intervals_from_all_samples = metric_intervals(
        predicted_labels, scores=scores, true_labels=true_labels
    )
    for name, (low, high) in intervals_from_all_samples.items():
        part_low, part_high = intervals_from_part_of_samples[name]
        width = high - low
        assert (part_high - part_low) / width == pytest.approx(1, abs=0.33)
        assert (part_low + part_high) / 2 == pytest.approx((low + high) / 2, abs=0.4 * width)


@pytest.mark.slow
@pytest.mark.parametrize("digits", [8, 1], ids=["no ties", "mostly ties"])
def test_an_attack_on_equal_records_rarely_leaves_the_chance_interval(digits: int) -> None:
    """At each false alarm rate, under 8.3% of 400 attacks on records of one distribution are beyond or below chance."""
    rng = np.random.default_rng(3)
    beyond_chance_by_attack_and_rate = []
    for _ in range(400):
        attack = Membership.from_losses(
            private_losses=rng.random(1500).round(digits),
            test_losses=rng.random(2000).round(digits),
        )
        assert attack is not None
        lowest_by_chance, highest_by_chance = attack.low, attack.high
        is_above = np.greater(attack.tpr, highest_by_chance)
        is_below = np.less(attack.tpr, lowest_by_chance)
        beyond_chance_by_attack_and_rate.append(is_above | is_below)
    assert {0.001, 0.01} <= set(attack.fpr)
    # The expected share at each rate is 5%, and three standard errors more are 8.3%.
    shares = np.mean(beyond_chance_by_attack_and_rate, axis=0)
    assert shares.max() < 0.083
    # The interval is no wider than it needs to be.
    assert shares.mean() > (0.03 if digits == 8 else -1)


def test_an_attack_recognizes_records_only_if_the_student_memorizes() -> None:
    """The attack recognizes all private records of a student that repeats their labels.

    If the student gives every label the probability 0.5, the attack takes the same share of private records and of test
    records for private, which is chance. Without private records, or with one test record, there is no attack.
    """
    rng = np.random.default_rng(4)
    private_labels = rng.random((500, 5)) < 0.3
    test_labels = rng.random((700, 5)) < 0.3
    random_probabilities = rng.random((700, 5))
    attack = Membership.from_losses(
        label_losses(probabilities=private_labels.astype(np.float32), true_labels=private_labels),
        test_losses=label_losses(random_probabilities, true_labels=test_labels),
    )
    assert attack is not None
    assert min(attack.tpr) == 1.0
    assert "rate of 0.14% it finds 100% of them, beyond chance" in attack.text
    private_losses = label_losses(
        probabilities=np.full(private_labels.shape, 0.5), true_labels=private_labels
    )
    test_losses = label_losses(
        probabilities=np.full(test_labels.shape, 0.5), true_labels=test_labels
    )
    attack = Membership.from_losses(private_losses, test_losses=test_losses)
    assert attack is not None
    assert attack.tpr == pytest.approx(attack.fpr)
    assert attack.text.count("nothing beyond chance") == 2
    assert Membership.from_losses(private_losses[:0], test_losses=test_losses) is None
    assert Membership.from_losses(private_losses, test_losses=test_losses[:1]) is None


def test_reference_models_find_members_that_losses_alone_do_not() -> None:
    """If training moves log-odds by less than records differ, the attack by reference models is beyond chance.

    The attack by losses is not. If training moves nothing, neither attack is beyond chance. The false alarm rate is 1%.
    """
    rng = np.random.default_rng(6)
    # The log-odds of records have a standard deviation of 30, and eight models differ by 1 on each record.
    mean_log_odds_of_records = rng.normal(loc=0, scale=30, size=2000)
    log_odds_by_model_and_record = mean_log_odds_of_records + rng.normal(
        loc=0, scale=1, size=(8, 2000)
    )
    log_odds_before_training = log_odds_by_model_and_record.mean(axis=0) + rng.normal(
        loc=0, scale=1, size=2000
    )
    is_member = np.arange(2000) < 1000
    for training_effect, beyond in ((3.0, True), (0.0, False)):
        student_log_odds_by_record = log_odds_before_training + training_effect * is_member
        deviations = deviations_from_references(
            student_log_odds=student_log_odds_by_record,
            reference_log_odds=log_odds_by_model_and_record,
        )
        private_log_odds_deviations, test_log_odds_deviations = np.split(deviations, [1000])
        attack = Membership.from_losses(
            private_losses=-student_log_odds_by_record[:1000],
            test_losses=-student_log_odds_by_record[1000:],
            private_log_odds_deviations=private_log_odds_deviations,
            test_log_odds_deviations=test_log_odds_deviations,
        )
        assert attack is not None
        index = attack.fpr.index(0.01)
        assert (attack.tpr_by_reference[index] > attack.high[index]) is beyond
        assert attack.tpr[index] <= attack.high[index]
        assert "by reference models, " + ("beyond" if beyond else "nothing beyond") in attack.text


# Four labels that are known for about half, about a fifth, all and none of 60 samples.
KNOWN = np.random.default_rng(5).random((60, 4)) < [0.5, 0.2, 1.0, 0.0]


def test_unknown_labels_are_left_out_of_every_metric() -> None:
    """The metrics of each label are computed from the samples for which it is known, whose number is stated."""
    rng = np.random.default_rng(3)
    true_labels = (rng.random(KNOWN.shape) < 0.4) & KNOWN
    scores = rng.random(KNOWN.shape).round(1)
    predicted_labels = scores > 0.6
    by_label = per_label_metrics(
        predicted_labels, scores=scores, true_labels=true_labels, known=KNOWN
    )
    for label in range(3):
        rows = KNOWN[:, label]
        one_label = slice(label, label + 1)
        metrics_of_known = per_label_metrics(
            predicted_labels[rows, one_label],
            scores=scores[rows, one_label],
            true_labels=true_labels[rows, one_label],
        )
        for name, values in metrics_of_known.items():
            assert by_label[name][label] == pytest.approx(values[0]), name
    assert by_label["num_known"].tolist() == KNOWN.sum(axis=0).tolist()
    metrics = multilabel_metrics(
        predicted_labels, scores=scores, true_labels=true_labels, known=KNOWN
    )
    assert metrics.accuracy == pytest.approx((predicted_labels == true_labels)[KNOWN].mean())
    assert metrics.micro_f1 == pytest.approx(f1_score(true_labels[KNOWN], predicted_labels[KNOWN]))
    assert metrics.macro_f1 == pytest.approx(by_label["f1"][:3].mean())


def test_an_unknown_label_that_is_true_is_refused() -> None:
    """A mask of known labels that hides a true label, has another shape, or has no known label is refused."""
    for known in (~TRUE, np.ones((2, 3), np.bool_)):
        with refused_parameter("known", value=ANY):
            multilabel_metrics(PREDICTED, scores=SCORES, true_labels=TRUE, known=known)
    no_labels = np.zeros(TRUE.shape, np.bool_)
    with refused_parameter("known", value=0, rule_words="at least one label that is known"):
        multilabel_metrics(PREDICTED, scores=SCORES, true_labels=no_labels, known=no_labels)


@pytest.mark.slow
def test_resamples_leave_unknown_labels_out() -> None:
    """The metrics of a resample leave unknown labels out, and the interval of each metric contains the metric."""
    rng = np.random.default_rng(4)
    known = KNOWN[:, :3]
    true_labels = (rng.random(known.shape) < 0.4) & known
    scores = rng.random(known.shape).round(1)
    scores[:, 2] = 0.5
    predicted_labels = scores > 0.4
    weights_by_sample_and_resample = next(
        _resample_weights(num_samples=len(true_labels), num_resamples=9, seed=1)
    )
    precision_functions = [
        _precision_function(
            scores[:, label], has_label=true_labels[:, label], is_label_known=known[:, label]
        )
        for label in range(3)
    ]
    metric_values_of_resamples = _metrics_of_block(
        weights_by_sample_and_resample,
        predicted_labels=predicted_labels & known,
        true_labels=true_labels,
        precision_functions=precision_functions,
        known=known,
    )
    for resample, repeats_of_samples in enumerate(weights_by_sample_and_resample.T.astype(int)):
        rows = np.repeat(np.arange(len(true_labels)), repeats_of_samples)
        expected = multilabel_metrics(
            predicted_labels[rows],
            scores=scores[rows],
            true_labels=true_labels[rows],
            known=known[rows],
        )
        for name, value in vars(expected).items():
            assert metric_values_of_resamples[name][resample] == pytest.approx(value, abs=1e-6), (
                name
            )
    intervals = metric_intervals(
        predicted_labels, scores=scores, true_labels=true_labels, known=known
    )
    expected = multilabel_metrics(
        predicted_labels, scores=scores, true_labels=true_labels, known=known
    )
    for name, (low, high) in intervals.items():
        assert low <= vars(expected)[name] <= high, name


def test_areas_under_roc_equal_those_of_scikit_learn() -> None:
    """The area under the ROC curve of each label is scikit-learn's on its known rows, with ties of scores.

    A label that no known row has, or that every known row has, has no area.
    """
    rng = np.random.default_rng(0)
    true_labels = rng.random((200, 4)) < np.array([0.5, 0.1, 0.0, 1.0])
    scores = rng.integers(0, 20, true_labels.shape) / 20 + 0.2 * true_labels
    known = rng.random(true_labels.shape) < 0.7
    for mask in (None, known):
        known_labels = true_labels if mask is None else true_labels & mask
        auroc_by_label = per_label_metrics(
            predicted_labels=known_labels, scores=scores, true_labels=known_labels, known=mask
        )["auroc"]
        rows = [np.ones(200, bool) if mask is None else mask[:, label] for label in range(2)]
        expected = [
            roc_auc_score(true_labels[rows[label], label], scores[rows[label], label])
            for label in range(2)
        ]
        assert auroc_by_label[:2] == pytest.approx(expected, abs=1e-12)
        assert np.isnan(auroc_by_label[2:]).all()
