"""The arrays that the pictures of a run are drawn from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pate.array_types import BoolArray, FloatArray, IntArray
from pate.report.precision_recall import PrecisionRecall


@dataclass(frozen=True)
class RunFigures:
    """The arrays that the pictures of a run are drawn from. No epsilon covers most of them: do not publish them."""

    label_names: tuple[str, ...]  # the L names
    answered: BoolArray  # bool `[Q]`
    labels: BoolArray  # bool `[Q, L]`, the released labels; rows of refused queries are not read
    epsilon_after_query: FloatArray  # float `[Q]`, the epsilon of the first q + 1 queries
    # `[Q]`, noiseless gaps in votes, or None; no epsilon covers them
    gaps: IntArray | FloatArray | None = None
    gap_name: str = "gap at the chosen k"  # the name of the gap, on an axis
    # int `[Q, L]`, the noiseless votes, or None; no epsilon covers them
    histogram: IntArray | None = None
    num_teachers: int | None = None  # the end of the axes that count votes; None if not known
    # `[G]`, in votes, rising: gaps with a pass probability, or None
    pass_gaps: IntArray | FloatArray | None = None
    # `[G]`, the probability that the stability test passes at each of these gaps, or None
    pass_probability: FloatArray | None = None
    # `[L]`, values of each label, by model and by metric
    per_label: Mapping[str, Mapping[str, FloatArray]] = field(default_factory=dict)
    precision_recall: PrecisionRecall | None = None  # of the student, or None
    # `[E]`, the losses of each epoch by name; empty for a student that is solved in one step
    student_curve: Mapping[str, FloatArray] = field(default_factory=dict)
