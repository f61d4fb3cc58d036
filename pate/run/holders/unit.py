"""Whom the epsilon of a release covers where votes come from many places, in words and with prices for groups."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pate.accounting import Adjacency, Event, SelfComposedEvent
from pate.pricing import Budget
from pate.report import format_epsilon
from pate.run.holders.group_price import group_epsilon
from pate.validation import require, require_count

_BOTH = 2  # holders of one person, the case that a card prices


@dataclass(frozen=True)
class Places:
    """How teachers are spread over holders; public.

    Attributes:
        num_holders: H.
        teachers_each: the most teachers that one holder has.
    """

    num_holders: int
    teachers_each: int

    @classmethod
    def evenly(cls, num_teachers: int, num_holders: int) -> Places:
        """Of teachers that are dealt to holders, as many to each."""
        require_count("holders", num_holders)
        rule = f"a number that divides the {num_teachers} teachers"
        require(num_teachers % num_holders == 0, "holders", num_holders, rule)
        return cls(num_holders, num_teachers // num_holders)

    def said(self, event: Event, budget: Budget, adjacency: Adjacency, *, num_draws: int = 1) -> tuple[str, ...]:
        """A sentence or two for each question that a holder asks; no line says more than its proof.

        Args:
            event: the release, as one unit is charged for it.
            budget: delta and accountant.
            adjacency: what one unit is.
            num_draws: how often it was drawn with fresh noise.
        """
        event = event if num_draws == 1 else SelfComposedEvent(event, num_draws)
        some = self.teachers_each
        replace = adjacency is Adjacency.REPLACE_ONE
        unit = "one teacher's votes replaced by any others" if replace else "one teacher added or removed"
        spread = "each of which is one teacher" if some == 1 else f"each of which has up to {some} teachers"
        lines = [f"The votes come from {self.num_holders} holders of records, {spread}. The epsilon is for {unit}."]
        price = self._price(some, event, budget)
        if some == 1 and replace:
            lines.append("A record of a holder, any number of its records, and the holder itself are covered by it.")
        elif some == 1:
            lines.append("A holder that comes or goes is covered by it; a record of a holder is at group size 2.")
        elif replace:
            lines.append(
                "One record of a holder, or one group of records that the holder keeps together, is covered by it. "
                f"The holder itself, all of its records, is covered at group size {some}: {price}."
            )
        else:
            lines.append(f"A holder that comes or goes is covered at group size {some}: {price}.")
        both = _BOTH if replace else 2 * _BOTH
        price = self._price(both, event, budget)
        lines.append(
            "Whoever has records at m holders changes a teacher at each of them. For m = 2 that is "
            f"group size {both}: {price}. No holder can know of the others' records, so this cannot be excluded."
        )
        return tuple(lines)

    def _price(self, size: int, event: Event, budget: Budget) -> str:
        epsilon = group_epsilon(event, size, budget)
        return f"epsilon {format_epsilon(epsilon)}" if math.isfinite(epsilon) else "no finite epsilon at this delta"
