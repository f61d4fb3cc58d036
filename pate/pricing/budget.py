"""What a release may cost, and how that is counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pate.accounting import Accountant, AutoAccountant, Event
from pate.accounting.accountant import require_maker
from pate.accounting.events import failure_probability
from pate.validation import InvalidValue, require_positive, require_probability


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The delta of a release, and the epsilon to meet, if any.

    Attributes:
        target_delta: in (0, 1).
        target_epsilon: the noise is solved for so that the release costs this; None takes the noise as it is.
        max_epsilon: as many queries are asked as this pays for; None asks all of them.
        accountant: makes an empty accountant.

    Raises:
        InvalidValue: a value out of range, or both epsilons at once.
    """

    target_delta: float
    target_epsilon: float | None = None
    max_epsilon: float | None = None
    accountant: Callable[[], Accountant] = AutoAccountant

    def __post_init__(self) -> None:
        require_probability("target_delta", self.target_delta)
        for name, epsilon in (("target_epsilon", self.target_epsilon), ("max_epsilon", self.max_epsilon)):
            if epsilon is not None:
                require_positive(name, epsilon)
        require_maker(self.accountant)
        if self.target_epsilon is not None and self.max_epsilon is not None:
            raise InvalidValue(
                f"max_epsilon={self.max_epsilon}: expected no target_epsilon beside it; "
                "one solves for the queries, the other for the noise"
            )

    def epsilon_of(self, event: Event) -> float:
        """The epsilon of an event at `target_delta`; infinity where failure probabilities alone use up delta."""
        if failure_probability(event) >= self.target_delta:
            return math.inf
        return self.accountant().compose(event).get_epsilon(self.target_delta)
