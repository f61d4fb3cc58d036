"""The arrays behind the pictures of a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pate.report.precision_recall import PrecisionRecall
from pate.validation import require

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class RunFigures:
    """The figures behind the pictures of one run. Do not publish them.

    Attributes:
        label_names: the L names.
        answered: bool `[Q]`.
        labels: bool `[Q, L]`, the released labels; rows of refused queries are not read.
        epsilon_after_query: float `[Q]`, the epsilon of the first q + 1 queries.
        gaps: `[Q]`, the noiseless gap of every query in votes, or None. No epsilon covers it.
        gap_name: which gap that is, as it reads on an axis.
        histogram: int `[Q, L]`, the noiseless votes, or None. No epsilon covers it.
        num_teachers: teachers behind the votes, the end of the axes that count votes; None if not known.
        pass_gaps: `[G]`, gaps in votes at which the pass probability is given, increasing, or None.
        pass_probability: `[G]`, the probability that the stability test passes at that gap, or None.
        per_label: float `[L]` by metric, as `per_label_metrics` gives them, by model; empty without a student.
        precision_recall: the student's, or None.
        student_curve: values after each epoch by name, `[E]`; empty for a student solved in one step.
    """

    label_names: tuple[str, ...]
    answered: NDArray[np.bool_]
    labels: NDArray[np.bool_]
    epsilon_after_query: Floats
    gaps: Counts | Floats | None = None
    gap_name: str = "gap at the chosen k"
    histogram: Counts | None = None
    num_teachers: int | None = None
    pass_gaps: Counts | Floats | None = None
    pass_probability: Floats | None = None
    per_label: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict)
    precision_recall: PrecisionRecall | None = None
    student_curve: Mapping[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuses arrays whose shapes do not fit together."""
        for name in ("answered", "labels"):
            kind = getattr(self, name).dtype
            require(kind == np.bool_, f"figures.{name}.dtype", kind, "bool")
        num_labels, num_queries = len(self.label_names), len(self.answered)
        require(num_labels > 0, "figures.label_names", self.label_names, "at least one name")
        _require_shape("answered", self.answered, (num_queries,))
        _require_shape("labels", self.labels, (num_queries, num_labels))
        _require_shape("epsilon_after_query", self.epsilon_after_query, (num_queries,))
        _require_shape("gaps", self.gaps, (num_queries,))
        _require_shape("histogram", self.histogram, (num_queries, num_labels))
        if self.pass_gaps is None:
            alone = self.pass_probability is None
            require(alone, "figures.pass_gaps", None, "the gaps that pass_probability is given at")
        else:
            require(
                self.pass_probability is not None,
                "figures.pass_probability",
                None,
                "one for each of pass_gaps",
            )
            _require_shape("pass_probability", self.pass_probability, (len(self.pass_gaps),))
        for model, metrics in self.per_label.items():
            for name, values in metrics.items():
                _require_shape(f"per_label[{model}][{name}]", values, (num_labels,))


def _require_shape(name: str, array: NDArray[np.generic] | None, shape: tuple[int, ...]) -> None:
    """Refuses an array of another shape; None passes."""
    if array is not None:
        require(np.shape(array) == shape, f"figures.{name}.shape", np.shape(array), f"{shape}")
