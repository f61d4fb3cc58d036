"""The gap that is released: one gap of g votes among gaps of 0, which selection must find and test must pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np

from pate.accounting.events import NoOpEvent
from pate.mechanisms.stable.gap_selection import GapSelection
from pate.mechanisms.stable.stability_test import StabilityTest
from pate.validation import require_probability


class SelectThenTest(Protocol):
    """Whoever chooses a size by its gap and then tests that gap, as `StableTopK` does."""

    def gap_selection(self, *, num_labels: int, num_teachers: int) -> GapSelection:
        """The first step."""

    def stability_test(self, *, num_teachers: int) -> StabilityTest:
        """The second step."""


def release_probability(aggregator: SelectThenTest, gap: int, *, num_labels: int, num_teachers: int) -> float:
    """The probability that the set above a lone gap is released: chosen among all other gaps at 0, then passed.

    Real histograms have smaller gaps beside their largest, which makes it likelier that something is released and
    likelier that it is another set. Never falls in the gap. Leaves the regularizer out.

    >>> from pate.aggregators import StableTopK
    >>> aggregator = StableTopK(selection_scale=20.0, test_std=10.0)
    >>> round(release_probability(aggregator, 100, num_labels=40, num_teachers=200), 3)
    0.796
    """
    selection = aggregator.gap_selection(num_labels=num_labels, num_teachers=num_teachers)
    chosen = 1.0
    if selection.event != NoOpEvent():
        num_candidates = len(selection.candidates)
        plain = replace(selection, padded=False, regularizer=None, max_k=None, num_labels=num_candidates + 1)
        votes = np.zeros(num_candidates + 1, dtype=np.int64)
        votes[0] = gap
        chosen = float(plain.probabilities(votes)[0])
    return chosen * aggregator.stability_test(num_teachers=num_teachers).pass_probs[gap]


def gap_to_release(aggregator: SelectThenTest, probability: float, *, num_labels: int, num_teachers: int) -> int | None:
    """The smallest lone gap that is released with at least this probability; None where no gap of T teachers is.

    >>> from pate.aggregators import StableTopK
    >>> aggregator = StableTopK(selection_scale=20.0, test_std=10.0)
    >>> gap_to_release(aggregator, 0.5, num_labels=40, num_teachers=200)
    77
    """
    require_probability("probability", probability)
    shape = {"num_labels": num_labels, "num_teachers": num_teachers}
    if release_probability(aggregator, num_teachers, **shape) < probability:
        return None
    low, high = -1, num_teachers
    while high - low > 1:
        middle = (low + high) // 2
        enough = release_probability(aggregator, middle, **shape) >= probability
        low, high = (low, middle) if enough else (middle, high)
    return high
