"""Base classes of accountants that combine a bound by another method with the bound of the Renyi accountant."""

import copy
import math
from abc import abstractmethod
from typing import Self

import numpy as np

from pate.accounting.accountant import Accountant
from pate.accounting.event_tree import priced_by_accesses
from pate.accounting.events import Event
from pate.accounting.rdp import RdpAccountant
from pate.accounting.trade_off import DeltaFreeBounds


class AccountantBesideRenyi(Accountant):
    """The base class of accountants that return the smaller of a Renyi bound and of a bound by another method.

    The Renyi bound is that of `RdpAccountant`. Events may be replaced for it by others that cost at least as much, such
    as a session by its accesses.
    """

    def __init__(self) -> None:
        self._rdp = RdpAccountant()
        self.failure_prob = 0.0

    @property
    def _counts_in_words(self) -> dict[str, str]:
        return self._rdp._counts_in_words | super()._counts_in_words

    def _delta_free_bounds(self) -> DeltaFreeBounds:
        return self._rdp._delta_free_bounds().with_failures(self.failure_prob)

    def copy(self) -> Self:
        """Returns an independent accountant with the same events; adding events to the copy leaves this one as is."""
        duplicate = copy.copy(self)
        # Lists, dictionaries and accountants change in place, so the copy gets its own. Other values are replaced.
        for attribute_name, attribute_value in vars(self).items():
            if isinstance(attribute_value, (list, dict, Accountant)):
                setattr(duplicate, attribute_name, attribute_value.copy())
        return duplicate


class LossAccountant(AccountantBesideRenyi):
    """The base class of accountants that compose distributions of the privacy loss.

    Every epsilon and delta is the smallest of three bounds: the composition of privacy losses, the Renyi bound with
    sessions priced by their accesses, and the Renyi bound with sessions priced by their hits. Losses also price a
    session by its accesses. `SessionEvent` explains sessions.
    """

    def __init__(self) -> None:
        super().__init__()
        # the Renyi bound of all events with sessions priced by their hits; None before the first session
        self._renyi_pricing_hits: RdpAccountant | None = None

    def _compose_renyi(self, event: Event, num_times: int) -> None:
        """Adds an event, `num_times` times, to both Renyi bounds; where an error is raised, to neither.

        One of the bounds prices sessions by their accesses, and the other prices them by their hits.
        """
        event_priced_by_accesses = priced_by_accesses(event)
        renyi_pricing_hits = self._renyi_pricing_hits
        if renyi_pricing_hits is not None or event_priced_by_accesses is not event:
            # Up to the first session both bounds are the same. A copy, so that an error leaves this object as it was.
            renyi_pricing_hits = (
                (renyi_pricing_hits or self._rdp).copy().compose(event, count=num_times)
            )
        self._rdp.compose(event_priced_by_accesses, count=num_times)
        self._renyi_pricing_hits = renyi_pricing_hits
        self.failure_prob = self._rdp.failure_prob

    @abstractmethod
    def _epsilon(self, target_delta: float, renyi_epsilon: float) -> float:
        """Returns the epsilon by the composition of privacy losses; infinity where it cannot be computed.

        Args:
            target_delta: the delta, from which failure probabilities have been subtracted.
            renyi_epsilon: an epsilon that is known to hold: the smaller one of both Renyi bounds.
        """

    @abstractmethod
    def _delta(self, target_epsilon: float, renyi_delta: float) -> float:
        """Returns the delta by the composition of privacy losses, without failure probabilities.

        Args:
            target_epsilon: the epsilon, >= 0.
            renyi_delta: the smaller one of both Renyi bounds on the total delta, less the failure probabilities, > 0. A
                result above this number is of no use.
        """

    def get_epsilon(self, target_delta: float) -> float:
        """Returns the smallest of the class's three bounds on epsilon: one by privacy losses, two by Renyi divergences.

        Raises `InvalidValue` where the failure probabilities of the events, with sessions priced by their hits, sum to
        `target_delta` or more. Accesses may overrun: where only their failures sum to that, the bound by hits is
        returned.
        """
        epsilon_by_hits = math.inf
        if self._renyi_pricing_hits is not None:
            epsilon_by_hits = self._renyi_pricing_hits.get_epsilon(target_delta)
            # The number of accesses may overrun with a probability that uses up delta. Hits have no overrun.
            if self.failure_prob >= target_delta:
                return epsilon_by_hits
        remaining_delta = self.remaining_delta(target_delta)
        renyi_epsilon = min(epsilon_by_hits, self._rdp.get_epsilon(target_delta))
        # The losses leave out events without protection, whose Renyi epsilon is infinite. And no epsilon is below 0.
        if not 0 < renyi_epsilon < math.inf:
            return renyi_epsilon
        return min(renyi_epsilon, self._epsilon(remaining_delta, renyi_epsilon=renyi_epsilon))

    def get_delta(self, target_epsilon: float) -> float:
        """Returns the smallest of three bounds on delta: one by privacy losses, two by Renyi divergences.

        Failure probabilities are included.
        """
        delta_by_hits = (
            1.0
            if self._renyi_pricing_hits is None
            else self._renyi_pricing_hits.get_delta(target_epsilon)
        )
        renyi_delta = min(delta_by_hits, self._rdp.get_delta(target_epsilon))
        # The bound by losses is not below the failure probabilities. And the losses leave out events without
        # protection, whose divergence is infinite at every order.
        if renyi_delta <= self.failure_prob or np.isinf(self._rdp.rdp).all():
            return renyi_delta
        delta_by_losses = self._delta(target_epsilon, renyi_delta=renyi_delta - self.failure_prob)
        return min(renyi_delta, delta_by_losses + self.failure_prob)
