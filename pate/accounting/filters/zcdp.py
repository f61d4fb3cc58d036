"""The zCDP filter: a sum of rhos."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

from pate.accounting.conversion import zcdp_to_epsilon
from pate.accounting.events import Event
from pate.accounting.filters.privacy_filter import PrivacyFilter, Spent
from pate.accounting.rdp import count_leaves
from pate.accounting.session_event import by_accesses
from pate.accounting.zcdp import zcdp_rho


@dataclass(frozen=True)
class ZCdpFilter(PrivacyFilter):
    """Adds the rho of every event. It needs no order, because a bound on rho holds at all orders.

    Formal guarantees, for the adjacency that the events were made for:
        * Everything admitted is (max_epsilon, target_delta)-DP together, whatever was chosen on the way.

    Args:
        max_epsilon: the cap, > 0.
        target_delta: in (0, 1).
        max_failure_prob: see `FilterRule`.

    Source: Rogers et al. 2016; Whitehouse et al. 2023; docs/proofs/filters.md.
    """

    name: ClassVar[str] = "zcdp"

    @property
    def unit(self) -> str:
        """Rho."""
        return "rho of zCDP"

    def fixed_by(self, first: Event) -> Self:
        """See `PrivacyFilter.fixed_by`."""
        return super().fixed_by(by_accesses(first))

    def price(self, event: Event) -> Spent:
        """What an event adds; a session is counted by its accesses, as it has no rho that hits limit."""
        return super().price(by_accesses(event))

    def amount(self, event: Event) -> float:
        """The event's rho."""
        spent = count_leaves(event).values()
        return math.fsum(
            times * zcdp_rho(leaf) for leaves, counts in spent for leaf, times in zip(leaves, counts, strict=True)
        )

    def epsilon(self, amount: float) -> float:
        """The best conversion over all real orders."""
        return math.inf if math.isinf(amount) else zcdp_to_epsilon(amount, target_delta=self.conversion_delta)
