"""Bases of the accountants that have a bound of their own beside the Renyi accountant's."""

import copy
import math
from abc import abstractmethod
from typing import Self

from pate.accounting.accountant import Accountant
from pate.accounting.event_tree import by_accesses
from pate.accounting.events import Event
from pate.accounting.rdp import RdpAccountant


class AccountantBesideRenyi(Accountant):
    """An accountant with a bound of its own that is never above the Renyi accountant's."""

    def __init__(self) -> None:
        self._rdp = RdpAccountant()
        self.failure_prob = 0.0

    @property
    def _counts_in_words(self) -> dict[str, str]:
        return self._rdp._counts_in_words | super()._counts_in_words

    def copy(self) -> Self:
        """Returns an independent accountant to which the same events were added."""
        duplicate = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, (list, dict, Accountant)):
                setattr(duplicate, name, value.copy())
        return duplicate


class LossAccountant(AccountantBesideRenyi):
    """An accountant that composes privacy losses, and takes a session by its accesses.

    Every figure is the least of three bounds: that by losses, Renyi's bound of the accesses, and Renyi's bound of the
    sessions by their hits.
    """

    def __init__(self) -> None:
        super().__init__()
        # the Renyi bound of all events with sessions by their hits; None before the first session
        self._by_hits: RdpAccountant | None = None

    def _compose_renyi(self, event: Event, count: int) -> None:
        """Adds an event to both Renyi bounds, or to neither where one of them raises."""
        accesses = by_accesses(event)
        by_hits = self._by_hits
        if by_hits is not None or accesses is not event:
            by_hits = (by_hits or self._rdp).copy().compose(event, count)
        self._rdp.compose(accesses, count)
        self._by_hits = by_hits
        self.failure_prob = self._rdp.failure_prob

    @abstractmethod
    def _epsilon(self, target_delta: float, bound: float) -> float:
        """Returns the epsilon by losses at the delta that failures have left; infinity where it is not known.

        `bound` is the epsilon of Renyi's bounds.
        """

    @abstractmethod
    def _delta(self, target_epsilon: float, bound: float) -> float:
        """Returns the delta by losses, without failures. `bound` is that of Renyi's bounds, without failures."""

    def get_epsilon(self, target_delta: float) -> float:
        """Returns the least of the epsilons by losses, by hits and by Renyi."""
        by_hits = math.inf
        if self._by_hits is not None:
            by_hits = self._by_hits.get_epsilon(target_delta)
            # The accesses may overrun with a probability that uses up delta, where hits have no overrun.
            if self.failure_prob >= target_delta:
                return by_hits
        left = self.remaining_delta(target_delta)
        bound = min(by_hits, self._rdp.get_epsilon(target_delta))
        return min(bound, self._epsilon(left, bound)) if 0 < bound < math.inf else bound

    def get_delta(self, target_epsilon: float) -> float:
        """Returns the least of the deltas by losses, by hits and by Renyi."""
        by_hits = 1.0 if self._by_hits is None else self._by_hits.get_delta(target_epsilon)
        bound = min(by_hits, self._rdp.get_delta(target_epsilon))
        if not self.failure_prob < bound < 1:
            return bound
        by_losses = self._delta(target_epsilon, bound - self.failure_prob)
        return min(bound, by_losses + self.failure_prob)
