"""A budget: the epsilon at a delta that a release may cost, as an accountant bounds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pate.accounting.auto import AutoAccountant
from pate.accounting.rdp import Accountant, require_maker
from pate.validation import require_positive, require_probability


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The most that a release may cost: an epsilon at a delta, as an accountant bounds it.

    >>> from pate.aggregators import GaussianVotes
    >>> from pate.votes import VoteShape
    >>> shape = VoteShape(num_queries=600, num_labels=40, num_teachers=800)
    >>> aggregator = GaussianVotes(noise_std=1.0).fitted(Budget(epsilon=8.0, delta=1e-6), shape)
    >>> round(aggregator.noise_std, 1)
    81.2
    """

    epsilon: float  # > 0
    delta: float  # in (0, 1)
    accountant: Callable[[], Accountant] = AutoAccountant  # makes an empty accountant

    def __post_init__(self) -> None:
        require_positive("target_epsilon", self.epsilon)
        require_probability("target_delta", self.delta)
        require_maker(self.accountant)
