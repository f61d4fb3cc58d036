"""What every accountant offers: compose events, then read off epsilon or delta."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

from pate.accounting.events import Event
from pate.validation import InvalidValue, require_probability


class Accountant(ABC):
    """Composes events and converts what was spent into (epsilon, delta).

    Every figure is an upper bound for the adjacency that the events were made for.

    Attributes:
        name: as in the configuration and in reports.
        failure_prob: the sum of the failure probabilities of what was composed.
    """

    name: ClassVar[str]
    failure_prob: float

    @abstractmethod
    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event, `count` times, and returns the accountant itself.

        Raises:
            InvalidValue: an event of which this accountant cannot price some part; then nothing was added.
        """

    @abstractmethod
    def get_epsilon(self, target_delta: float) -> float:
        """The epsilon spent at `target_delta`; raises if failure probabilities alone reach that."""

    @abstractmethod
    def get_delta(self, target_epsilon: float) -> float:
        """The delta spent at `target_epsilon`, failure probabilities included, at most 1."""

    def winner(self, target_delta: float) -> str:
        """The name of the accountant whose figure `get_epsilon` returns: its own, unless it asks others."""
        return self.name

    def resolution(self, target_delta: float) -> float:
        """The relative error of `get_epsilon`, where it is searched for: nearly equal releases may differ by that."""
        return 0.0

    @property
    def parameters(self) -> dict[str, Any]:
        """What beside its name decides its figures, in JSON's types; a ledger refuses an accountant of others."""
        return {}

    def copy(self) -> Self:
        """An accountant of its own to which the same events were added."""
        return copy.deepcopy(self)

    def remaining_delta(self, target_delta: float) -> float:
        """What failure probabilities leave of `target_delta`, > 0, or raises."""
        left = require_probability("target_delta", target_delta) - self.failure_prob
        if left <= 0:
            raise InvalidValue(
                f"failure_prob: {self.failure_prob:.3g} in all uses up target_delta={target_delta}: "
                "expected the sum over all queries to stay below it"
            )
        return left


def require_maker(accountant: Any) -> Callable[[], Accountant]:
    """Returns what makes an empty accountant, or raises: neither a name nor an accountant does."""
    if not callable(accountant):
        raise InvalidValue(f"accountant={accountant}: expected a class such as pate.accounting.RdpAccountant, uncalled")
    made: Callable[[], Accountant] = accountant
    return made
