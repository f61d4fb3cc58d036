"""The verdict on a run in words: the share of the reachable, what it beats, and where the rest was lost."""

from __future__ import annotations

from dataclasses import dataclass

from pate.report.scores import Baselines, Scores

HEADLINE = "mean_average_precision"

_NAMES = {
    "mean_average_precision": "mean average precision",
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
}
_LOSSES = (
    ("majority_vote_student", "student", "noise", "more teachers, fewer queries or a larger epsilon"),
    ("true_label_student", "majority_vote_student", "the teachers", "more records for each teacher, or scaled inputs"),
    ("all_records_model", "true_label_student", "the number of queries", "more queries"),
)


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
    def of(cls, student: Scores | None, baselines: Baselines, *, num_answered: int, centered: bool = False) -> Verdict:
        """The verdict on a student and its number of answered queries; `centered`, where the votes were already."""
        if student is None or not num_answered:
            remedy = "more teachers, fewer queries, a larger epsilon or another aggregator"
            text = f"No query was answered, so the student learned nothing. What helps: {remedy}."
            return cls(None, None, None, text)
        behind = {name: _behind(student, constant) for name, constant in _constants(baselines).items()}
        share = _share(student, baselines)
        loss = _loss_text(student, baselines, centered)
        text = " ".join([_share_text(student, baselines, share), _beaten_text(behind), loss])
        beats = {name: not metrics for name, metrics in behind.items()}
        return cls(share, beats.get("best_constant"), beats.get("prior"), text.strip())


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


def _loss_text(student: Scores, baselines: Baselines, centered: bool) -> str:
    """The step from the ceiling down to the student that lost most, and what helps; none below the student."""
    losses = []
    found = vars(baselines) | {"student": student}
    for better, worse, name, remedy in _LOSSES:
        high, low = (getattr(found[key], HEADLINE, None) for key in (better, worse))
        if high is not None and low is not None and low >= (getattr(student, HEADLINE) or 0.0):
            losses.append((high - low, name, remedy))
    lost, name, remedy = max(losses, default=(0.0, "", ""))
    if name == "noise" and not centered:
        remedy += ", or aggregator=centered_votes"
    return f"Most was lost to {name} ({lost:.3f}); what helps: {remedy}." if round(lost, 3) > 0 else ""


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
