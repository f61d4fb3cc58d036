"""The charge of a sanitizer before its draw, and the sentence that may be published with the released cost."""

from __future__ import annotations

import math
from typing import Protocol

from pate.accounting.adjacency import Adjacency
from pate.accounting.conversion import rdp_to_epsilons
from pate.accounting.data_dependent.cost import order_array
from pate.accounting.events import Event
from pate.accounting.ledger import Ledger, require_ledger
from pate.accounting.rdp import RdpAccountant


class Sanitizer(Protocol):
    """Whatever releases a cost at one order under an event of its own."""

    @property
    def order(self) -> float:
        """The order at which the cost is released."""

    @property
    def event(self) -> Event:
        """The price of the release."""

    @property
    def adjacency(self) -> Adjacency:
        """What the event was made for."""


def charge(sanitizer: Sanitizer, ledger: Ledger | None) -> None:
    """Charges a release before it is drawn; each call is a release of its own."""
    if ledger is not None:
        description = f"cost, {sanitizer!r}"
        require_ledger(ledger).charge(sanitizer.event, adjacency=sanitizer.adjacency, description=description)


def estimated_epsilon(sanitizer: Sanitizer, released: float, *, target_delta: float) -> float:
    """The epsilon at `target_delta` of a released cost and of its release, both at the sanitizer's order.

    An estimate: the true cost may be larger than what was released.

    Args:
        sanitizer: the one that released the cost.
        released: what it released.
        target_delta: in (0, 1).
    """
    order = order_array(sanitizer.order)
    rdp = max(released, 0.0) + RdpAccountant(orders=order).compose(sanitizer.event).rdp
    return float(rdp_to_epsilons(order, rdp, target_delta=target_delta)[0])


def statement(sanitizer: Sanitizer, released: float, *, target_delta: float) -> str:
    """A sentence that may be published with a released cost, and says what it is and what it is not.

    Args:
        sanitizer: the one that released the cost.
        released: what it released, or its `upper_bound`.
        target_delta: in (0, 1).
    """
    spent = estimated_epsilon(sanitizer, released, target_delta=target_delta)
    price = RdpAccountant().compose(sanitizer.event).get_epsilon(target_delta)
    return (
        f"Estimate, not a guarantee: epsilon = {_up(spent)} at delta = {target_delta} was spent on the votes at hand, "
        f"from order {sanitizer.order:g}, the release of this number included. The number was computed from private "
        f"votes and carries noise; it alone is ({_up(price)}, {target_delta})-DP ({sanitizer.adjacency}). What holds "
        "for all votes is the price of the queries fixed in advance, composed with that release."
    )


def _up(epsilon: float) -> str:
    """Two decimals, rounded up: what is printed is a bound as well."""
    return "inf" if math.isinf(epsilon) else f"{math.ceil(100 * epsilon) / 100:.2f}"
