"""The verdict on a student: its share of the reachable score, comparison with constants, and causes of loss."""

from dataclasses import replace

import pytest

from pate.aggregators import Aggregator, CenteredVotes
from pate.report.metrics import Scores
from pate.report.verdict import Baselines, StudentVerdict
from tests.unit.report.conftest import BASELINES, STUDENT_SCORES


def verdict_of(
    student: Scores | None, baselines: Baselines, num_answered: int = 3
) -> StudentVerdict:
    """Returns the verdict of a release whose aggregator has only the usual remedies."""
    advice_by_cause = Aggregator.remedies
    return StudentVerdict.from_scores(
        student, baselines, num_answered=num_answered, remedy_of_cause=advice_by_cause
    )


def test_the_share_is_measured_between_a_constant_and_the_ceiling() -> None:
    """The share of the reachable is measured between the constant by prevalence and the all-records model.

    Without that model, the true-label student takes its place.
    """
    verdict = verdict_of(student=STUDENT_SCORES, baselines=BASELINES)
    assert verdict.share_of_reachable == pytest.approx((0.31375 - 0.11675) / (0.61675 - 0.11675))
    assert verdict.text.startswith("Reached 39% of the reachable mean average precision: 0.314")
    without_ceiling = verdict_of(
        student=STUDENT_SCORES, baselines=replace(BASELINES, all_records_model=None)
    )
    assert without_ceiling.share_of_reachable == pytest.approx(
        (0.31375 - 0.11675) / (0.51575 - 0.11675)
    )
    assert "true labels" in without_ceiling.text


def test_a_student_above_the_ceiling_lost_nothing() -> None:
    """A student that scores above the all-records model is said to be above the reachable, and no loss is named."""
    verdict = verdict_of(
        student=replace(STUDENT_SCORES, mean_average_precision=0.7), baselines=BASELINES
    )
    assert verdict.text.startswith("Above what counts as reachable")
    assert "lost" not in verdict.text.lower()


def test_a_student_that_a_constant_beats_is_told_so_by_metric() -> None:
    """The verdict names the metrics in which the student does not beat a constant prediction."""
    verdict = verdict_of(student=STUDENT_SCORES, baselines=BASELINES)
    assert (verdict.beats_constant, verdict.beats_prior) == (False, True)
    assert "No better than the best constant in micro-F1." in verdict.text
    better = verdict_of(student=replace(STUDENT_SCORES, micro_f1=0.5), baselines=BASELINES)
    assert (better.beats_constant, better.beats_prior) == (True, True)
    assert "Better than the best constant and the prior in every metric." in better.text
    worse = verdict_of(
        student=replace(STUDENT_SCORES, accuracy=0.8, micro_f1=0.5), baselines=BASELINES
    )
    assert (
        "No better than the best constant in accuracy and than the prior in accuracy." in worse.text
    )


def baselines_with_precisions(
    *,
    majority_vote_student: float | None,
    true_label_student: float | None,
    all_records_model: float | None,
) -> Baselines:
    """Returns baselines with given mean average precisions of three models; None for a model that was not trained."""
    vote_scores, true_label_scores, all_records_scores = (
        None if precision is None else replace(STUDENT_SCORES, mean_average_precision=precision)
        for precision in (majority_vote_student, true_label_student, all_records_model)
    )
    return replace(
        BASELINES,
        majority_vote_student=vote_scores,
        true_label_student=true_label_scores,
        all_records_model=all_records_scores,
    )


@pytest.mark.parametrize(
    ("first_high", "lost"),
    [(0, "lost to noise"), (1, "lost to the teachers"), (2, "lost to the number of queries")],
)
def test_the_largest_loss_is_named_with_its_remedy(first_high: int, lost: str) -> None:
    """The verdict names the only cause of a loss of 0.6 in mean average precision, with the aggregator's remedy.

    The causes are noise, teachers and number of queries. Of three models, those from the index `first_high` on have a
    high score: the student of votes, the one of true labels, and the model of all records.
    """
    student = replace(STUDENT_SCORES, mean_average_precision=0.3)
    votes, true_labels, all_records = (0.9 if index >= first_high else 0.3 for index in range(3))
    baselines = baselines_with_precisions(
        majority_vote_student=votes, true_label_student=true_labels, all_records_model=all_records
    )
    text = verdict_of(student=student, baselines=baselines).text
    assert (
        f"{lost} (0.600); what helps: {Aggregator.remedies[lost.removeprefix('lost to ')]}." in text
    )
    centered = StudentVerdict.from_scores(
        student, baselines, num_answered=3, remedy_of_cause=CenteredVotes.remedies
    ).text
    assert "queries" not in centered.partition("in every metric.")[2]
    assert ("what helps: a larger epsilon, or more private groups." in centered) == (
        first_high == 0
    )


@pytest.mark.parametrize(
    ("precisions", "text_on_loss"),
    [
        ((0.301, None, 0.55), ""),  # Of .25 that was lost, .001 has a known cause.
        ((0.301, 0.302, 0.55), "Most was lost to the number of queries (0.248); what helps"),
        ((0.43, 0.5, 0.55), "Most was lost to noise (0.130); what helps"),
        (
            (0.4, 0.49, 0.58),
            "Lost to noise (0.100), the teachers (0.090) and the number of queries (0.090), to none",
        ),
        ((None, 0.302, 0.55), "Most was lost to the number of queries (0.248)"),
        ((0.4, None, None), "Most was lost to noise (0.100)"),
    ],
)
def test_a_cause_of_half_of_the_loss_is_called_most(
    precisions: tuple[float | None, ...], text_on_loss: str
) -> None:
    """The verdict says "most" of a cause with over half of the loss, and lists all causes if none has so much.

    No cause is named if most of the loss has no known one.
    """
    student = replace(STUDENT_SCORES, mean_average_precision=0.3)
    votes, true_labels, all_records = precisions
    baselines = baselines_with_precisions(
        majority_vote_student=votes, true_label_student=true_labels, all_records_model=all_records
    )
    text = verdict_of(student=student, baselines=baselines).text
    assert (text_on_loss in text) if text_on_loss else ("ost " not in text)


def test_models_worse_than_the_student_cause_no_loss() -> None:
    """No loss is blamed on a model whose score is below the student's.

    Centered votes may learn more from private records than the true labels of the queries tell.
    """
    student = replace(STUDENT_SCORES, mean_average_precision=0.58)
    worse_scores = replace(STUDENT_SCORES, mean_average_precision=0.47)
    text = verdict_of(
        student=student,
        baselines=replace(BASELINES, majority_vote_student=None, true_label_student=worse_scores),
    ).text
    assert "lost" not in text
    assert (
        "lost to the number of queries"
        in verdict_of(
            student=worse_scores,
            baselines=replace(
                BASELINES, majority_vote_student=None, true_label_student=worse_scores
            ),
        ).text
    )


def test_a_loss_that_would_be_shown_as_zero_is_not_named() -> None:
    """A loss of 0.0004, which is printed as 0.000, is not named."""
    slightly_better_scores = replace(
        STUDENT_SCORES, mean_average_precision=STUDENT_SCORES.mean_average_precision + 0.0004
    )
    assert (
        "lost"
        not in verdict_of(
            student=STUDENT_SCORES,
            baselines=replace(
                BASELINES,
                majority_vote_student=slightly_better_scores,
                true_label_student=None,
                all_records_model=None,
            ),
        ).text
    )


def test_a_verdict_without_answers_or_scores_has_no_share() -> None:
    """Without answers, a student or a defined score, there is no share of the reachable."""
    verdict_without_answers = verdict_of(
        student=STUDENT_SCORES, baselines=BASELINES, num_answered=0
    )
    assert verdict_without_answers == verdict_of(student=None, baselines=BASELINES)
    assert verdict_without_answers.share_of_reachable is None
    assert verdict_without_answers.text.startswith("No query was answered")
    undefined_baselines = replace(
        BASELINES, prior=replace(BASELINES.prior, mean_average_precision=None)
    )
    verdict = verdict_of(student=STUDENT_SCORES, baselines=undefined_baselines)
    assert verdict.share_of_reachable is None
    assert "undefined" in verdict.text
