"""The two steps of stable top-k on one query: a selection of the size k, and a test of the set of the k top labels.

The selection is a noisy maximum over the gaps between sorted counts. The test is a bit with noise on the chosen gap.
`StableTopK` describes both. `SelectThenTest` has the price of both steps, and the probability that together they
release a set.

Source: Zhu & Wang 2022; docs/proofs/stable_top_k.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pate.accounting import ComposedEvent, NoOpEvent
from pate.accounting.events import SelectThenTestEvent
from pate.mechanisms.gap_selection import GapSelection
from pate.mechanisms.stability_test import StabilityTest
from pate.validation import require_probability


@dataclass(frozen=True)
class SelectThenTest:
    """The two steps of stable top-k for votes of one shape; `StableTopK.steps` returns it.

    Attributes:
        selection: draws the size k of the set.
        test: decides whether the set is released.
    """

    selection: GapSelection
    test: StabilityTest

    @cached_property
    def event(self) -> ComposedEvent:
        """The price of both steps on one query."""
        step_events = (self.selection.event, self.test.event)
        if not self.selection.is_softmax_of_gaps:
            return ComposedEvent(step_events)
        # Where the table of the test does not reach all gaps, the joint law of both steps needs the number of teachers.
        is_table_cut = len(self.test.pass_probs) <= self.test.num_teachers
        return SelectThenTestEvent(
            events=step_events,
            num_candidates=len(self.selection.candidates),
            num_votes=self.test.num_teachers if is_table_cut else 0,
        )

    def release_probability(self, gap: int) -> float:
        """Returns the probability that the set of labels above a gap is selected and passes the test of its gap.

        All other gaps of the query are taken to be 0, and the regularizer is left out.
        """
        pass_prob = float(self.test.pass_probabilities(np.array(gap)))
        if self.selection.event == NoOpEvent():
            return pass_prob
        # n gaps lie between n + 1 counts.
        counts_of_labels = np.zeros(len(self.selection.candidates) + 1, dtype=np.int64)
        counts_of_labels[0] = gap
        plain_selection = replace(
            self.selection,
            padded=False,
            regularizer=None,
            max_k=None,
            num_labels=len(counts_of_labels),
        )
        selection_probs_of_gaps = plain_selection.probabilities(counts_of_labels)
        selection_prob = float(selection_probs_of_gaps[0])
        return selection_prob * pass_prob

    def gap_to_release(self, probability: float) -> int | None:
        """Returns the smallest gap whose set is released with at least this probability, if all other gaps are 0.

        The result is None if even a gap of all teachers has a lower probability.

        >>> from pate.aggregators import StableTopK
        >>> steps = StableTopK(selection_scale=20.0, test_std=10.0).steps(num_labels=40, num_teachers=200)
        >>> steps.gap_to_release(0.5), round(steps.release_probability(100), 3)
        (77, 0.796)
        """
        require_probability("probability", probability)
        gaps = range(self.selection.num_teachers + 1)
        if self.release_probability(gap=self.selection.num_teachers) < probability:
            return None

        def is_released(gap: int) -> bool:
            return self.release_probability(gap=gap) >= probability

        return bisect_left(gaps, True, key=is_released)

    def released_gap_key(self) -> tuple[float, float]:
        """Returns a key to sort steps by: the smaller the key, the smaller the gap that the steps release.

        The first number is the gap whose set is released with probability 1/2 if all other gaps are 0, interpolated
        between whole votes; it is infinite if no gap's set is released so often. The second is minus the probability
        that the set above a gap of all teachers is released, which compares steps with the same first number.
        """
        probability_at_top = self.release_probability(gap=self.selection.num_teachers)
        return self._gap_at_half(), -probability_at_top

    def _gap_at_half(self) -> float:
        """Returns the gap that is released with probability 1/2, interpolated between whole votes; infinite if none."""
        gap = self.gap_to_release(probability=0.5)
        if gap is None:
            return math.inf
        if gap == 0:
            return 0.0
        probability_below = self.release_probability(gap=gap - 1)
        probability_above = self.release_probability(gap=gap)
        part_of_vote = float(np.interp(0.5, (probability_below, probability_above), (0.0, 1.0)))
        return gap - 1 + part_of_vote
