"""Scores of a student on private test records, which were released at a price of their own, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pate.accounting.rounding import format_delta, format_epsilon
from pate.validation import require, require_count, require_positive

NAMES = {
    "micro_f1": "micro-F1",
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "mean_average_precision": "mean average precision",
    "calibration_error": "calibration error",
}
"""The released scores in the order of cards, by their names in `privacy.json`."""


@dataclass(frozen=True)
class ReleasedScore:
    """A released score with its 95% interval, which covers the noise and the draw of the test records.

    Attributes:
        value: the score, in [0, 1].
        low: the lower end of the interval, at most `value`.
        high: the upper end of the interval, at least `value`.

    >>> str(ReleasedScore(value=0.6862, low=0.6711, high=0.7013))
    '0.686 (0.671 to 0.702)'
    """

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        is_ordered = 0 <= self.low <= self.value <= self.high <= 1
        interval_text = f"{self.low:g}, {self.value:g}, {self.high:g}"
        require(is_ordered, "score", interval_text, "low <= value <= high in [0, 1]")

    @property
    def interval(self) -> str:
        """The ends of the interval with three decimals, rounded outwards."""
        interval_low = math.floor(self.low * 1000) / 1000
        interval_high = math.ceil(self.high * 1000) / 1000
        return f"{interval_low:.3f} to {interval_high:.3f}"

    def __str__(self) -> str:
        """Returns the score with three decimals, and its interval."""
        return f"{self.value:.3f} ({self.interval})"


@dataclass(frozen=True, kw_only=True)
class ReleasedScores:
    """The scores of a student on private test records, released together at one price.

    The people in the test records pay the price. The student did not learn from their records. All fields may be
    published.

    Attributes:
        epsilon: the price of all scores together, rounded up. If the release was drawn several times with scores, it is
            the price of the scores of all draws.
        delta: the delta at which `epsilon` holds, rounded up.
        unit: what one change replaces, in words: a group of test records.
        noise_multiplier: the standard deviation of the noise, divided by the l2 sensitivity of all counts together, by
            which the price can be computed again. For scores of n draws, that of one draw is divided by sqrt(n).
        num_groups: the number of groups of test records.
        micro_f1: the micro-averaged F1.
        accuracy: the share of right answers to whether a record has a label.
        macro_f1: the mean over labels of F1.
        mean_average_precision: the mean over labels of the average precision. Its terms of second order, and those of
            macro-F1, are modeled by the student's probabilities on public records (docs/proofs/scores.md).
        calibration_error: the mean distance of probability and share, over ten bins of probability.
        subgroups: micro-F1 by column and value, such as `subgroups["sex"]["f"]`; empty without `score_groups`.
        confidence: the share of releases in which an interval holds the score.
    """

    epsilon: float
    delta: float
    unit: str
    noise_multiplier: float
    num_groups: int
    micro_f1: ReleasedScore
    accuracy: ReleasedScore
    macro_f1: ReleasedScore
    mean_average_precision: ReleasedScore
    calibration_error: ReleasedScore
    subgroups: Mapping[str, Mapping[str, ReleasedScore]] = field(default_factory=dict)
    confidence: float = 0.95

    def __post_init__(self) -> None:
        require(self.epsilon > 0, "scores.epsilon", self.epsilon, "a number > 0")
        require(0 < self.delta < 1, "scores.delta", self.delta, "a number in (0, 1)")
        require_positive("scores.noise_multiplier", self.noise_multiplier)
        require_count("scores.num_groups", self.num_groups)

    @property
    def by_name(self) -> dict[str, ReleasedScore]:
        """The scores over all test records, by their names on cards, such as "micro-F1"; without those of subgroups."""
        return {score_name: getattr(self, field_name) for field_name, score_name in NAMES.items()}

    @property
    def guarantee(self) -> str:
        """The price of the scores in one line."""
        return (
            f"epsilon <= {format_epsilon(self.epsilon)} at delta = {format_delta(self.delta)} "
            f"(replace_one, unit among the test records: {self.unit})"
        )

    @property
    def promise(self) -> str:
        """Two sentences on whom the price of the scores protects, and on who pays other prices, too.

        It protects the people in the test records. None of them is in the private records of the data set. Whoever has
        records in another release as well pays the sum.
        """
        return (
            f"The scores are ({format_epsilon(self.epsilon)}, {format_delta(self.delta)})-differentially private for "
            "the people in the test records. Nobody in this data set is in both the test records and the private "
            "records, so nobody pays both prices; whoever has records in another release as well pays the sum."
        )

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The price and the scores as rows (name, text)."""
        rows = [
            ("epsilon of the scores", format_epsilon(self.epsilon)),
            ("groups of test records", str(self.num_groups)),
            ("noise multiplier of the scores", str(self.noise_multiplier)),
        ]
        rows += [
            (f"{score_name} on test records", str(score))
            for score_name, score in self.by_name.items()
        ]
        for column, scores in self.subgroups.items():
            rows += [
                (f"micro-F1 on test records, {column} = {value}", str(score))
                for value, score in scores.items()
            ]
        return rows
