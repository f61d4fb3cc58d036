"""The epsilon of a release on its own votes: a type apart from every guarantee."""

from dataclasses import dataclass

from pate.accounting.rounding import format_delta, format_epsilon
from pate.validation import InvalidValue


class UnknownCost(InvalidValue):
    """A refusal to state the cost of a release on the votes at hand: no theorem bounds it."""


@dataclass(frozen=True)
class DataDependentEpsilon:
    """The cost of a release on the votes at hand at one delta.

    The number is private like the votes. It is no guarantee and adds up with none, so it has a type of its own and no
    arithmetic. `pate.auditing` computes it.
    """

    value: float  # >= 0; infinity is allowed
    delta: float  # in (0, 1)

    def __str__(self) -> str:
        return (
            f"{format_epsilon(self.value)} at delta = {format_delta(self.delta)} on "
            "these votes: private, no guarantee"
        )
