"""The verdict on a student: does it beat constant predictions, and how close is it to a model without privacy?

The *reachable* is the distance in mean average precision from a constant prediction up to the *ceiling*, a model
without privacy. The verdict states the share of it that the student has reached, and the cause of the largest loss.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from pate.report.metrics import Scores
from pate.report.wording import HEADLINE_METRIC, METRIC_NAMES

# The names of the metrics in sentences, by their keys in report.json.
_METRICS_IN_WORDS = METRIC_NAMES | {
    HEADLINE_METRIC: "mean average precision",
    "balanced_accuracy": "balanced accuracy",
}
# The models from the student up to the ceiling, with the cause of the loss between each model and the model before it.
_CAUSE_BY_MODEL = {
    "student": "",
    "majority_vote_student": "noise",
    "true_label_student": "the teachers",
    "all_records_model": "the number of queries",
}


@dataclass(frozen=True)
class Baselines:
    """The scores of the models that the student is compared with; None for a model that was not trained.

    No epsilon covers these scores.

    Attributes:
        prior: the constant prediction of the labels that more than half of the private records have.
        best_constant: the constant prediction of the most frequent labels whose number has the best micro-F1 on the
            private records.
        majority_vote_student: the student that learned from the votes without noise.
        true_label_student: the student that learned from the true labels of the queries.
        all_records_model: the best model of all private records, linear or a network, without privacy: the ceiling.
        start_alone: the public model from which the training of the student began, before any vote; None also if it
            began from none.
    """

    prior: Scores | None
    best_constant: Scores | None
    majority_vote_student: Scores | None
    true_label_student: Scores | None
    all_records_model: Scores | None
    start_alone: Scores | None = None


@dataclass(frozen=True)
class StudentVerdict:
    """A judgment of a student: its score between that of a constant and that of a model without privacy.

    Attributes:
        share_of_reachable: the share that the student has reached of the distance in mean average precision from the
            prior up to the all-records model, or up to the true-label student if there is no such model. It is below 0
            for a student that is worse than the prior, and None if it is undefined.
        beats_constant: whether the student beats the best constant in every metric that is defined for both; None
            without a student or without the constant.
        beats_prior: the same for the prior in place of the best constant.
        text: the verdict in words, with the cause of the largest loss if it is known.
    """

    share_of_reachable: float | None
    beats_constant: bool | None
    beats_prior: bool | None
    text: str

    @classmethod
    def from_scores(
        cls,
        student_scores: Scores | None,
        baseline_scores: Baselines,
        *,
        num_answered: int,
        remedy_of_cause: Mapping[str, str],
        better_model_remark: str = "",
        ceiling_records_in_words: str = "all private records",
    ) -> Self:
        """Returns the verdict on a student.

        Args:
            student_scores: the scores of the student; None if it has none.
            baseline_scores: the scores of the models that the student is compared with.
            num_answered: the number of answered queries.
            remedy_of_cause: the advice against each cause of a loss in mean average precision, such as "noise"; the
                keys are those of `Aggregator.remedies`.
            better_model_remark: a sentence that recommends another method, or "".
            ceiling_records_in_words: the private records, in words, that the all-records model (the ceiling) learned
                from.
        """
        if student_scores is None or not num_answered:
            remedy = f"What helps: {remedy_of_cause['noise']}, or another aggregator."
            text = f"No query was answered, so the student learned nothing. {remedy} {better_model_remark}"
            return cls(
                share_of_reachable=None, beats_constant=None, beats_prior=None, text=text.strip()
            )
        mean_precision_by_model = {
            model_key: getattr(scores, HEADLINE_METRIC, None)
            for model_key, scores in vars(baseline_scores).items()
        }
        mean_precision_by_model["student"] = getattr(student_scores, HEADLINE_METRIC)
        has_ceiling = baseline_scores.all_records_model is not None
        reached_share, share_text = _reached_share(
            mean_precision_by_model=mean_precision_by_model,
            ceiling_records_in_words=ceiling_records_in_words if has_ceiling else None,
        )
        scores_by_constant = {
            "the best constant": baseline_scores.best_constant,
            "the prior": baseline_scores.prior,
        }
        # The metrics in which the student does not beat a constant, by the name of the constant.
        unbeaten_metrics_by_constant = {
            constant_name: _unbeaten_metrics(
                student_scores=student_scores, constant_scores=constant_scores
            )
            for constant_name, constant_scores in scores_by_constant.items()
            if constant_scores is not None
        }
        beats_by_constant = {
            constant_name: not metric_names
            for constant_name, metric_names in unbeaten_metrics_by_constant.items()
        }
        is_above_ceiling = reached_share is not None and reached_share > 1
        loss_text = (
            ""
            if is_above_ceiling
            else _loss_text(
                mean_precision_by_model=mean_precision_by_model, remedy_of_cause=remedy_of_cause
            )
        )
        start_text = ""
        if mean_precision_by_model["start_alone"] is not None:
            start_text = f"Its start alone has {mean_precision_by_model['start_alone']:.3f}."
        sentences = (
            share_text,
            start_text,
            _constants_text(unbeaten_metrics_by_constant=unbeaten_metrics_by_constant),
            loss_text,
            better_model_remark,
        )
        return cls(
            share_of_reachable=reached_share,
            beats_constant=beats_by_constant.get("the best constant"),
            beats_prior=beats_by_constant.get("the prior"),
            text=" ".join(filter(None, sentences)),
        )


def _constants_text(unbeaten_metrics_by_constant: Mapping[str, list[str]]) -> str:
    """Returns a sentence on the constant predictions that the student does not beat, and in which metrics.

    If it beats all of them in every metric, the sentence says so. It is empty without constant predictions.

    Args:
        unbeaten_metrics_by_constant: the metrics in which the student is not better, by the name of the constant.
    """
    failures = [
        f"{constant_name} in {_enumeration(items=metric_names)}"
        for constant_name, metric_names in unbeaten_metrics_by_constant.items()
        if metric_names
    ]
    if failures:
        return f"No better than {' and than '.join(failures)}."
    if unbeaten_metrics_by_constant:
        return f"Better than {' and '.join(unbeaten_metrics_by_constant)} in every metric."
    return ""


def _unbeaten_metrics(student_scores: Scores, constant_scores: Scores) -> list[str]:
    """Returns the names of the metrics in which a student is no better than a constant prediction.

    A metric that is undefined for one of them is left out.
    """
    metrics_no_better_than_constant = []
    for metric_key, metric_name in _METRICS_IN_WORDS.items():
        student_score = getattr(student_scores, metric_key)
        constant_score = getattr(constant_scores, metric_key)
        is_defined = student_score is not None and constant_score is not None
        if is_defined and student_score <= constant_score:
            metrics_no_better_than_constant.append(metric_name)
    return metrics_no_better_than_constant


def _reached_share(
    mean_precision_by_model: Mapping[str, float | None], *, ceiling_records_in_words: str | None
) -> tuple[float | None, str]:
    """Returns how far the student got from the prior's score up to the ceiling's, as a share, and a sentence on it.

    The ceiling is the model of all private records, or, if it was not trained, the student of the true labels. The
    share is None if a score is missing, or if the ceiling is no better than the prior.

    Args:
        mean_precision_by_model: the mean average precision of each model by the model's name; None if it was not
            trained.
        ceiling_records_in_words: the private records that the model of all private records learned from, in words; None
            if it was not trained.
    """
    if ceiling_records_in_words is None:
        ceiling_name = "true_label_student"
        ceiling_text = "a student of the queries' true labels"
    else:
        ceiling_name = "all_records_model"
        ceiling_text = f"a model of {ceiling_records_in_words} without privacy"
    prior_score = mean_precision_by_model["prior"]
    ceiling_score = mean_precision_by_model[ceiling_name]
    student_score = mean_precision_by_model["student"]
    if (
        prior_score is None
        or ceiling_score is None
        or student_score is None
        or ceiling_score <= prior_score
    ):
        text = "The share of the reachable is undefined here: it needs a constant and a ceiling above it."
        return None, text
    reached_share = (student_score - prior_score) / (ceiling_score - prior_score)
    scale = f"{student_score:.3f}, where a constant has {prior_score:.3f}, {ceiling_text} {ceiling_score:.3f}."
    if reached_share > 1:
        return reached_share, f"Above what counts as reachable in mean average precision: {scale}"
    return (
        reached_share,
        f"Reached {reached_share:.0%} of the reachable mean average precision: {scale}",
    )


def _loss_text(
    mean_precision_by_model: Mapping[str, float | None], remedy_of_cause: Mapping[str, str]
) -> str:
    """Returns a sentence on the causes of the student's loss in mean average precision, compared with better models.

    The models are ordered: the student, the student of the votes without noise, that of the true labels, and the model
    of all private records. The difference of two neighbors is the loss by one cause: noise, the teachers, or the number
    of queries. If a model was not trained, the two losses next to it are unknown, but count in the whole loss. A loss
    is ignored if the first of its two models is worse than the student.

    If one cause has at least half of the whole loss, the sentence has advice against it. The sentence is empty if the
    known losses are less than half of the whole.

    Args:
        mean_precision_by_model: the mean average precision of each model by the model's name; None if it was not
            trained.
        remedy_of_cause: advice against each cause of a loss, by the cause; other causes are ignored.
    """
    student_score = mean_precision_by_model["student"] or 0.0
    highest_score = student_score
    for model_name in _CAUSE_BY_MODEL:
        model_score = mean_precision_by_model[model_name]
        if model_score is not None:
            highest_score = max(highest_score, model_score)
    whole_loss = highest_score - student_score
    lost_mean_precision_by_cause = {}
    for worse_model, better_model in pairwise(_CAUSE_BY_MODEL):
        worse_score = mean_precision_by_model[worse_model]
        better_score = mean_precision_by_model[better_model]
        cause = _CAUSE_BY_MODEL[better_model]
        if (
            cause not in remedy_of_cause
            or worse_score is None
            or better_score is None
            or worse_score < student_score
        ):
            continue
        if round(better_score - worse_score, 3) > 0:
            lost_mean_precision_by_cause[cause] = better_score - worse_score
    if (
        not lost_mean_precision_by_cause
        or sum(lost_mean_precision_by_cause.values()) < whole_loss / 2
    ):
        return ""
    main_cause = max(lost_mean_precision_by_cause, key=lost_mean_precision_by_cause.__getitem__)
    main_loss = lost_mean_precision_by_cause[main_cause]
    if main_loss >= whole_loss / 2:
        return f"Most was lost to {main_cause} ({main_loss:.3f}); what helps: {remedy_of_cause[main_cause]}."
    causes_with_losses = [
        f"{cause} ({loss:.3f})" for cause, loss in lost_mean_precision_by_cause.items()
    ]
    return f"Lost to {_enumeration(items=causes_with_losses)}, to none of them most."


def _enumeration(items: list[str]) -> str:
    """Returns names as one text, such as "a, b and c"; there must be at least one."""
    if len(items) == 1:
        return items[0]
    return f"{', '.join(items[:-1])} and {items[-1]}"
