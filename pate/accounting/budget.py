"""A budget: the largest epsilon of a release, its delta, and the accountant that computes the epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from pate.accounting.accountant import Accountant, require_maker
from pate.accounting.auto import AutoAccountant
from pate.accounting.event_tree import failure_probability
from pate.accounting.events import Event
from pate.validation import InvalidValue, require_positive, require_probability


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The largest price that a release may have: an epsilon at a delta, computed by an accountant.

    >>> from pate.aggregators import GaussianVotes
    >>> from pate.votes import VoteShape
    >>> shape = VoteShape(num_queries=600, num_labels=40, num_teachers=800)
    >>> budget = Budget(epsilon=8.0, delta=1e-6)
    >>> aggregator = GaussianVotes(noise_std=1.0).fitted(budget, shape)
    >>> round(aggregator.noise_std, 1), budget.epsilon_of(aggregator.event(shape)) <= 8.0
    (81.2, True)
    """

    delta: float  # in (0, 1)
    epsilon: float | None = None  # > 0, which noise is solved for; None takes the noise as it is
    accountant: Callable[[], Accountant] = AutoAccountant  # makes an empty accountant

    # The setting that errors name; that of a subclass differs.
    _setting_of_epsilon: ClassVar[str] = "target_epsilon"

    def __post_init__(self) -> None:
        require_probability("target_delta", self.delta)
        if self.epsilon is not None:
            require_positive(self._setting_of_epsilon, self.epsilon)
        require_maker(self.accountant)

    def epsilon_of(self, event: Event) -> float:
        """Returns the epsilon of an event at the budget's delta.

        Returns infinity where the failure probabilities in the event sum to delta or more.
        """
        if failure_probability(event) >= self.delta:
            return math.inf
        return self.accountant().compose(event).get_epsilon(self.delta)

    def required_epsilon(self) -> float:
        """Returns the epsilon of the budget; raises `InvalidValue` where `epsilon` is None."""
        if self.epsilon is None:
            raise InvalidValue(self._setting_of_epsilon, None, rule="a number > 0")
        return self.epsilon
