"""The metrics of a model, and the models that a student is held against."""

from __future__ import annotations

from dataclasses import dataclass

from pate.validation import require


@dataclass(frozen=True)
class Scores:
    """The five metrics that stand beside each other in every table, as `multilabel_metrics` defines them."""

    accuracy: float
    balanced_accuracy: float | None
    micro_f1: float
    macro_f1: float
    mean_average_precision: float | None

    def __post_init__(self) -> None:
        """Refuses a metric outside [0, 1]."""
        for name, value in vars(self).items():
            require(value is None or 0 <= value <= 1, name, value, "a number in [0, 1]")


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
