"""The event of a gap selection and the test of what it chose."""

from __future__ import annotations

from dataclasses import dataclass

from pate.accounting.events import ApproximateEvent, BoundedRangeEvent, ComposedEvent, OneBitEvent
from pate.validation import InvalidValue, require, require_count


@dataclass(frozen=True, slots=True)
class SelectThenTestEvent(ComposedEvent):
    """A gap that was chosen with Gumbel noise, released where the test of that very gap passes.

    Costs at most what its parts do. An accountant that knows the joint law of both finds less where there are few
    votes: their gaps cannot all be large.

    Attributes:
        events: the selection, a `BoundedRangeEvent`, and its test, an `ApproximateEvent` of a `OneBitEvent` whose
            statistic is the gap, from 0 to the number T of votes.
        num_candidates: how many gaps compete, >= 2. Their sum is at most T; each moves by at most the bit's `reach`,
            and so does their sum. No regularizer is added to them.
    """

    num_candidates: int

    def __post_init__(self) -> None:
        super(SelectThenTestEvent, self).__post_init__()
        require_count("num_candidates", self.num_candidates, minimum=2)
        logits = self._parts()[1].logits
        require(len(logits) > 1, "logits", logits, "those of the gaps 0 to T, T >= 1")

    @property
    def selection(self) -> BoundedRangeEvent:
        """The first part."""
        return self._parts()[0]

    @property
    def bit(self) -> OneBitEvent:
        """The second part, given that the test does not fail."""
        return self._parts()[1]

    @property
    def num_teachers(self) -> int:
        """T, the votes that all gaps share."""
        return len(self.bit.logits) - 1

    def _parts(self) -> tuple[BoundedRangeEvent, OneBitEvent]:
        match self.events:
            case (BoundedRangeEvent() as selection, ApproximateEvent(event=OneBitEvent() as bit)):
                return selection, bit
        kinds = ", ".join(type(event).__name__ for event in self.events)
        raise InvalidValue(f"events=({kinds}): expected a BoundedRangeEvent and an ApproximateEvent of a OneBitEvent")
