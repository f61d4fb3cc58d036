"""The arrays that the pictures of a run are drawn from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pate.array_types import BoolArray, FloatArray, IntArray
from pate.report.precision_recall import PrecisionRecall


@dataclass(frozen=True)
class PictureArrays:
    """The arrays that the pictures of a run are drawn from. No epsilon covers most of them: do not publish them.

    A gap of a query is a difference of vote counts, which `gap_name` names. In the report of a run, it is the largest
    difference between neighbors in the sorted counts, with 0 and the number of teachers among them. A stability test
    lets an answer pass with a probability that grows with the gap.

    Attributes:
        label_names: the names of the labels.
        answered: true for each answered query, bool `[num_queries]`.
        labels: the released labels, bool `[num_queries, num_labels]`; rows of refused queries are not read.
        epsilon_after_query: the epsilon of all queries up to each query, `[num_queries]`.
        gaps: the gaps without noise, `[num_queries]`; None if votes are numbers, which cannot be counted. No epsilon
            covers them.
        gap_name: the name of the gap, on an axis.
        vote_counts: the votes without noise, int `[num_queries, num_labels]`; None where `gaps` is. No epsilon covers
            them.
        num_teachers: the number of teachers, where the axes of votes end; None if it is not known.
        pass_gaps: rising gaps whose pass probability is drawn, `[num_gaps]`; None without a stability test.
        pass_probability: the probability that the stability test passes at each of `pass_gaps`, `[num_gaps]`; None
            without a stability test.
        per_label: the metrics of each label, `[num_labels]`, by model and by metric.
        precision_recall: the precision-recall curve of the student; None without a student, or if no test sample has a
            label.
        student_curve: the losses of each epoch, `[num_epochs]`, by name; empty for a student that is solved in one
            step.
    """

    label_names: tuple[str, ...]
    answered: BoolArray
    labels: BoolArray
    epsilon_after_query: FloatArray
    gaps: IntArray | FloatArray | None = None
    gap_name: str = "gap at the chosen k"
    vote_counts: IntArray | None = None
    num_teachers: int | None = None
    pass_gaps: IntArray | FloatArray | None = None
    pass_probability: FloatArray | None = None
    per_label: Mapping[str, Mapping[str, FloatArray]] = field(default_factory=dict)
    precision_recall: PrecisionRecall | None = None
    student_curve: Mapping[str, FloatArray] = field(default_factory=dict)
