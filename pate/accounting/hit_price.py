"""The price by hits beside an accountant that counts sessions by their accesses."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pate.accounting.events import Event
from pate.accounting.rdp import RdpAccountant
from pate.accounting.session_event import by_accesses


@dataclass(frozen=True)
class HitPrice:
    """The Renyi price of everything composed, each session by its hits; no price before the first session.

    Args:
        rdp: of everything composed; None before the first session.
    """

    rdp: RdpAccountant | None = None

    def beside(self, event: Event, count: int, *, before: RdpAccountant) -> HitPrice:
        """With an event more.

        Args:
            event: as it was composed.
            count: how often.
            before: what was composed before it, if no session was among that.
        """
        if self.rdp is None and by_accesses(event) is event:
            return self
        return HitPrice((self.rdp or before).copy().compose(event, count))

    def epsilon(self, target_delta: float) -> float:
        """At `target_delta`; infinity before the first session."""
        return math.inf if self.rdp is None else self.rdp.get_epsilon(target_delta)

    def delta(self, target_epsilon: float) -> float:
        """At `target_epsilon`; 1 before the first session."""
        return 1.0 if self.rdp is None else self.rdp.get_delta(target_epsilon)

    def suffices(self, failure_prob: float, target_delta: float) -> bool:
        """Whether overruns of accesses leave nothing of a delta, so that this is the only price."""
        return self.rdp is not None and failure_prob >= target_delta
