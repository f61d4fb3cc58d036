"""The data-dependent epsilon of a release: a private number that is not a guarantee, and so has its own type."""

from dataclasses import dataclass

from pate.accounting.rounding import format_delta, format_epsilon
from pate.validation import InvalidValue


class UnknownCost(InvalidValue):
    """The error for a release whose data-dependent epsilon is not bounded by any known theorem."""


@dataclass(frozen=True)
class DataDependentEpsilon:
    """The epsilon of a release for the actual votes, and not for the worst votes, at one delta.

    The number depends on the private votes, so it is private too. It is not a guarantee, and must not be added to one,
    so the class has no arithmetic. `pate.auditing` computes it.
    """

    value: float  # >= 0; infinity is allowed
    delta: float  # in (0, 1)

    def __str__(self) -> str:
        return (
            f"{format_epsilon(self.value)} at delta = {format_delta(self.delta)} on "
            "these votes: private, no guarantee"
        )
