"""Gap selection and the test of what it chose, for votes of one shape: their prices, and which gap they release."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pate.accounting.events import ComposedEvent, NoOpEvent, SelectThenTestEvent
from pate.aggregators.stable.test_parameters import StabilityTestParameters
from pate.mechanisms.gap_selection import GapSelection
from pate.mechanisms.stability_test import StabilityTest
from pate.validation import require_probability


@dataclass(frozen=True)
class SelectThenTest:
    """The two steps of a stable top-k, as `StableTopK.steps` gives them.

    Attributes:
        selection: chooses k, for the numbers of labels and teachers of the votes.
        parameters: of the test.
    """

    selection: GapSelection
    parameters: StabilityTestParameters

    @property
    def test(self) -> StabilityTest:
        """The second step."""
        return self.parameters.stability_test(num_teachers=self.selection.num_teachers)

    @property
    def event(self) -> ComposedEvent:
        """The price of one query."""
        parts = (self.selection.event, self.test.event)
        if self.selection.weighs_gaps_alone:
            return SelectThenTestEvent(parts, len(self.selection.candidates))
        return ComposedEvent(parts)

    def release_probability(self, gap: int) -> float:
        """The probability that the set above a lone gap is released: chosen among all other gaps at 0, then passed.

        Real histograms have smaller gaps beside their largest, which makes it likelier that something is released and
        likelier that it is another set. Never falls in the gap. Leaves the regularizer out.

        >>> from pate.aggregators import StableTopK
        >>> steps = StableTopK(selection_scale=20.0, test_std=10.0).steps(num_labels=40, num_teachers=200)
        >>> round(steps.release_probability(100), 3)
        0.796
        """
        chosen = 1.0
        if self.selection.event != NoOpEvent():
            num_candidates = len(self.selection.candidates)
            plain = replace(self.selection, padded=False, regularizer=None, max_k=None, num_labels=num_candidates + 1)
            votes = np.zeros(num_candidates + 1, dtype=np.int64)
            votes[0] = gap
            chosen = float(plain.probabilities(votes)[0])
        return chosen * self.test.pass_probs[gap]

    def gap_to_release(self, probability: float) -> int | None:
        """The smallest lone gap that is released with at least this probability; None where no gap of T teachers is.

        >>> from pate.aggregators import StableTopK
        >>> steps = StableTopK(selection_scale=20.0, test_std=10.0).steps(num_labels=40, num_teachers=200)
        >>> steps.gap_to_release(0.5)
        77
        """
        require_probability("probability", probability)
        num_teachers = self.selection.num_teachers
        if self.release_probability(num_teachers) < probability:
            return None
        low, high = -1, num_teachers
        while high - low > 1:
            middle = (low + high) // 2
            enough = self.release_probability(middle) >= probability
            low, high = (low, middle) if enough else (middle, high)
        return high
