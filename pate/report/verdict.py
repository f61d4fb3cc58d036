"""The verdict on a run in words: the share of the reachable, what it beats, and where the rest was lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pate.report.metrics import Scores

HEADLINE = "mean_average_precision"

_NAMES = {
    "mean_average_precision": "mean average precision",
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
}
_STEPS = (
    ("majority_vote_student", "student", "noise"),
    ("true_label_student", "majority_vote_student", "the teachers"),
    ("all_records_model", "true_label_student", "the number of queries"),
)


@dataclass(frozen=True)
class Baselines:
    """Models to compare the private student with. No epsilon covers them. None where one was not trained.

    Attributes:
        prior: always predicts each label's majority.
        best_constant: always predicts the one set of labels with the best micro-F1.
        majority_vote_student: the student trained on the votes without noise.
        true_label_student: the student trained on the true labels of the queries.
        all_records_model: a model like the student, trained on all private records: the ceiling.
    """

    prior: Scores | None
    best_constant: Scores | None
    majority_vote_student: Scores | None
    true_label_student: Scores | None
    all_records_model: Scores | None


@dataclass(frozen=True)
class Verdict:
    """What a run is worth.

    Attributes:
        share_of_reachable: of the mean average precision between a constant and the all-records model, or in its place
            the true-label student; below 0 for a student worse than a constant. None where it is undefined.
        beats_constant: whether the student is better than the best constant in every metric; None without a student.
        beats_prior: the same for the prior.
        text: both in words, and where the rest was lost.
    """

    share_of_reachable: float | None
    beats_constant: bool | None
    beats_prior: bool | None
    text: str

    @classmethod
    def of(
        cls,
        student: Scores | None,
        baselines: Baselines,
        *,
        num_answered: int,
        remedies: Mapping[str, str],
        better: str = "",
    ) -> Verdict:
        """The verdict on a student.

        Args:
            student: None where there is none.
            baselines: what it is held against.
            num_answered: queries that were answered.
            remedies: of the aggregator.
            better: a method that would do far better on these data, in a sentence.
        """
        if student is None or not num_answered:
            helps = f"What helps: {remedies['noise']}, or another aggregator."
            text = f"No query was answered, so the student learned nothing. {helps} {better}"
            return cls(None, None, None, text.strip())
        behind = {name: _behind(student, constant) for name, constant in _constants(baselines).items()}
        share = _share(student, baselines)
        loss = _loss_text(student, baselines, remedies)
        said = [_share_text(student, baselines, share), _beaten_text(behind), loss, better]
        text = " ".join(sentence for sentence in said if sentence)
        beats = {name: not metrics for name, metrics in behind.items()}
        return cls(share, beats.get("best_constant"), beats.get("prior"), text)


def _constants(baselines: Baselines) -> dict[str, Scores]:
    """The constants that were scored."""
    found = {"best_constant": baselines.best_constant, "prior": baselines.prior}
    return {name: scores for name, scores in found.items() if scores is not None}


def _behind(student: Scores, constant: Scores) -> list[str]:
    """The metrics in which a constant is at least as good."""
    pairs = ((name, getattr(student, key), getattr(constant, key)) for key, name in _NAMES.items())
    return [name for name, own, other in pairs if own is not None and other is not None and own <= other]


def _ceiling(baselines: Baselines) -> tuple[str, Scores] | None:
    """What is reachable, and what it is called."""
    if baselines.all_records_model is not None:
        return "a model of all private records without privacy", baselines.all_records_model
    if baselines.true_label_student is not None:
        return "a student of the queries' true labels", baselines.true_label_student
    return None


def _share(student: Scores, baselines: Baselines) -> float | None:
    """The student's share of the way from a constant to the ceiling."""
    ceiling = _ceiling(baselines)
    low = baselines.prior.mean_average_precision if baselines.prior else None
    high = ceiling[1].mean_average_precision if ceiling else None
    reached = student.mean_average_precision
    if low is None or high is None or reached is None or high <= low:
        return None
    return (reached - low) / (high - low)


def _share_text(student: Scores, baselines: Baselines, share: float | None) -> str:
    ceiling = _ceiling(baselines)
    if share is None or ceiling is None or baselines.prior is None:
        return "The share of the reachable is undefined here: it needs a constant and a ceiling above it."
    low, high = baselines.prior.mean_average_precision, ceiling[1].mean_average_precision
    mean = student.mean_average_precision
    scale = f"a constant has {low:.3f}, {ceiling[0]} {high:.3f}"
    if share > 1:
        return f"Above what counts as reachable in mean average precision: {mean:.3f}, where {scale}."
    reached = f"{mean:.3f}, where {scale}"
    return f"Reached {share:.0%} of the reachable mean average precision: {reached}."


def _beaten_text(behind: dict[str, list[str]]) -> str:
    """Whether the student beats the constants, by name where it does not."""
    words = {"best_constant": "the best constant", "prior": "the prior"}
    lost = [f"{words[name]} in {_listed(metrics)}" for name, metrics in behind.items() if metrics]
    if lost:
        return f"No better than {' and than '.join(lost)}."
    return f"Better than {' and '.join(words[name] for name in behind)} in every metric." if behind else ""


def _loss_text(student: Scores, baselines: Baselines, remedies: Mapping[str, str]) -> str:
    """The steps from the ceiling down to the student, none below it: the one that lost at least half, and what helps.

    Steps between levels that are not there cannot be told, and count to the whole all the same.
    """
    levels = {name: getattr(found, HEADLINE, None) for name, found in (vars(baselines) | {"student": student}).items()}
    own = levels["student"] or 0.0
    names = {name for better, worse, _ in _STEPS for name in (better, worse)}
    whole = max((level for name in names if (level := levels[name]) is not None), default=own) - own
    losses = {}
    for better, worse, name in _STEPS:
        high, low = levels[better], levels[worse]
        if name in remedies and high is not None and low is not None and low >= own and round(high - low, 3) > 0:
            losses[name] = high - low
    if not losses or sum(losses.values()) < whole / 2:
        return ""
    most = max(losses, key=losses.__getitem__)
    if losses[most] >= whole / 2:
        return f"Most was lost to {most} ({losses[most]:.3f}); what helps: {remedies[most]}."
    return f"Lost to {_listed([f'{name} ({lost:.3f})' for name, lost in losses.items()])}, to none of them most."


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
