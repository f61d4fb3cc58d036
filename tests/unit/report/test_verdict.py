"""The verdict: a share of the reachable, what is beaten, and where the rest was lost."""

from dataclasses import replace

import pytest

from pate.aggregators import Aggregator, CenteredVotes
from pate.report.metrics import Scores
from pate.report.verdict import Baselines, StudentVerdict
from tests.unit.report.conftest import BASELINES, STUDENT_SCORES


def verdict_of(
    student: Scores | None, baselines: Baselines, num_answered: int = 3
) -> StudentVerdict:
    """Returns the verdict of a release without remedies of its own."""
    return StudentVerdict.from_scores(
        student, baselines, num_answered=num_answered, remedies=Aggregator.remedies
    )


def test_the_share_is_measured_between_a_constant_and_the_ceiling() -> None:
    """The share of the reachable is measured between the prior and the all-records model.

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
    """A student above the all-records model is called above the reachable, and no loss is named."""
    verdict = verdict_of(
        student=replace(STUDENT_SCORES, mean_average_precision=0.7), baselines=BASELINES
    )
    assert verdict.text.startswith("Above what counts as reachable")
    assert "lost" not in verdict.text.lower()


def test_a_student_that_a_constant_beats_is_told_so_by_metric() -> None:
    """The verdict names the metrics in which a constant or the prior is not beaten."""
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


def baselines_at(
    votes: float | None, true_labels: float | None, all_records: float | None
) -> Baselines:
    """Returns the baselines with these mean average precisions; None for a model that was not trained.

    Args:
        votes: of the majority-vote student.
        true_labels: of the true-label student.
        all_records: of the all-records model.
    """
    votes_scores, true_scores, all_scores = (
        None if level is None else replace(STUDENT_SCORES, mean_average_precision=level)
        for level in (votes, true_labels, all_records)
    )
    return replace(
        BASELINES,
        majority_vote_student=votes_scores,
        true_label_student=true_scores,
        all_records_model=all_scores,
    )


@pytest.mark.parametrize(
    ("first_high", "lost"),
    [(0, "lost to noise"), (1, "lost to the teachers"), (2, "lost to the number of queries")],
)
def test_the_largest_loss_is_named_with_its_remedy(first_high: int, lost: str) -> None:
    """Of the causes noise, teachers and number of queries, one alone loses 0.6 in mean average precision.

    The verdict names it, with the aggregator's remedy.
    """
    student = replace(STUDENT_SCORES, mean_average_precision=0.3)
    votes, true_labels, all_records = (0.9 if place >= first_high else 0.3 for place in range(3))
    baselines = baselines_at(votes=votes, true_labels=true_labels, all_records=all_records)
    text = verdict_of(student=student, baselines=baselines).text
    assert (
        f"{lost} (0.600); what helps: {Aggregator.remedies[lost.removeprefix('lost to ')]}." in text
    )
    centered = StudentVerdict.from_scores(
        student, baselines, num_answered=3, remedies=CenteredVotes.remedies
    ).text
    assert "queries" not in centered.partition("in every metric.")[2]
    assert ("what helps: a larger epsilon, or more private groups." in centered) == (
        first_high == 0
    )


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ((0.301, None, 0.55), ""),  # .001 of .25: the rest is lost to nobody knows what
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
    levels: tuple[float | None, ...], said: str
) -> None:
    """The verdict says "most" of a cause with half of the loss, and lists all causes otherwise."""
    student = replace(STUDENT_SCORES, mean_average_precision=0.3)
    votes, true_labels, all_records = levels
    baselines = baselines_at(votes=votes, true_labels=true_labels, all_records=all_records)
    text = verdict_of(student=student, baselines=baselines).text
    assert (said in text) if said else ("ost " not in text)


def test_models_worse_than_the_student_cause_no_loss() -> None:
    """Models below the student name no loss.

    Centered votes learn more from private records than the true labels of the queries would say.
    """
    student = replace(STUDENT_SCORES, mean_average_precision=0.58)
    queries = replace(STUDENT_SCORES, mean_average_precision=0.47)
    text = verdict_of(
        student=student,
        baselines=replace(BASELINES, majority_vote_student=None, true_label_student=queries),
    ).text
    assert "lost" not in text
    assert (
        "lost to the number of queries"
        in verdict_of(
            student=queries,
            baselines=replace(BASELINES, majority_vote_student=None, true_label_student=queries),
        ).text
    )


def test_a_loss_that_would_be_shown_as_zero_is_not_named() -> None:
    """A loss of 0.0004 is not named."""
    votes = replace(
        STUDENT_SCORES, mean_average_precision=STUDENT_SCORES.mean_average_precision + 0.0004
    )
    assert (
        "lost"
        not in verdict_of(
            student=STUDENT_SCORES,
            baselines=replace(
                BASELINES,
                majority_vote_student=votes,
                true_label_student=None,
                all_records_model=None,
            ),
        ).text
    )


def test_a_verdict_without_answers_or_scores_has_no_share() -> None:
    """Without answers, a student or a defined score, there is no share of the reachable."""
    silent = verdict_of(student=STUDENT_SCORES, baselines=BASELINES, num_answered=0)
    assert silent == verdict_of(student=None, baselines=BASELINES)
    assert silent.share_of_reachable is None
    assert silent.text.startswith("No query was answered")
    undefined = replace(BASELINES, prior=replace(BASELINES.prior, mean_average_precision=None))
    verdict = verdict_of(student=STUDENT_SCORES, baselines=undefined)
    assert verdict.share_of_reachable is None
    assert "undefined" in verdict.text
