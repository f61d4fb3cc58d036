"""Whom a price covers where holders of records are teachers, and what a release costs a group."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pate.accounting import (
    Adjacency,
    Budget,
    ComposedEvent,
    Event,
    GaussianEvent,
    RdpAccountant,
    SelfComposedEvent,
)
from pate.aggregators import Release
from pate.report import format_epsilon
from pate.validation import InvalidValue, require, require_count

_SMALLEST_DELTA = 1e-60
_POINTS = 48
_BOTH = 2  # holders of one person, the case that a card prices


def group_epsilon(event: Event, size: int, budget: Budget) -> float:
    """A bound on epsilon at the budget's delta for outcomes of data that differ in up to `size` units.

    Rule: Gaussian events of noise multiplier s, composed, cost a group what those of s / size cost one unit. Any event
    that is (e, d)-private for one unit is (k e, d (exp(k e) - 1) / (exp(e) - 1))-private for k: d is chosen so that
    this is the budget's delta.

    `event` is the release for one unit. Infinity where neither rule gives a bound. Source: docs/proofs/many_places.md.
    """
    if require_count("size", size) == 1:
        return budget.epsilon_of(event)
    if (wider := _shared_by(event, size)) is not None:
        return budget.epsilon_of(wider)
    # any accountant's bound will do, and this one is quick
    spent = RdpAccountant().compose(event)
    found = math.inf
    for delta in np.geomspace(budget.delta, _SMALLEST_DELTA, _POINTS).tolist():
        try:
            epsilon = spent.get_epsilon(delta)
        except InvalidValue:  # failures of the mechanism use up that delta
            continue
        log_growth = (size - 1) * epsilon + math.log(size)  # at least the log of the geometric sum
        if math.isfinite(epsilon) and math.log(delta) + log_growth <= math.log(budget.delta):
            found = min(found, size * epsilon)
    return found


def _shared_by(event: Event, size: int) -> Event | None:
    """The event of a group, where all that is in it is Gaussian."""
    if type(event) is GaussianEvent:
        return GaussianEvent(event.noise_multiplier / size)
    if type(event) is SelfComposedEvent:
        inner = _shared_by(event.event, size)
        return None if inner is None else SelfComposedEvent(inner, event.count)
    if type(event) is ComposedEvent:
        parts = [_shared_by(part, size) for part in event.events]
        return (
            None
            if None in parts
            else ComposedEvent(tuple(part for part in parts if part is not None))
        )
    return None


@dataclass(frozen=True)
class Places:
    """How teachers are spread over holders; public."""

    num_holders: int  # H
    teachers_each: int  # the most teachers that one holder has

    @classmethod
    def of(cls, holders: Mapping[str, int]) -> Places:
        """Makes the places of a roll's holders, the largest of which has the most teachers."""
        return cls(len(holders), max(holders.values()))

    @classmethod
    def evenly(cls, num_teachers: int, num_holders: int) -> Places:
        """Of teachers that are dealt to holders, as many to each."""
        require_count("holders", num_holders)
        rule = f"a number that divides the {num_teachers} teachers"
        require(num_teachers % num_holders == 0, "holders", num_holders, rule)
        return cls(num_holders, num_teachers // num_holders)

    def said(self, release: Release, budget: Budget, *, num_draws: int = 1) -> tuple[str, ...]:
        """A sentence or two for each question that a holder asks; no line says more than its proof.

        The release, drawn `num_draws` times with fresh noise, has its event, as one unit is charged for it.
        """

        def priced(size: int) -> str:
            epsilon = group_epsilon(event, size, budget)
            return (
                f"epsilon {format_epsilon(epsilon)}"
                if math.isfinite(epsilon)
                else "no finite epsilon at this delta"
            )

        event = release.event if num_draws == 1 else SelfComposedEvent(release.event, num_draws)
        some = self.teachers_each
        replace = release.adjacency is Adjacency.REPLACE_ONE
        unit = (
            "one teacher's votes replaced by any others"
            if replace
            else "one teacher added or removed"
        )
        spread = (
            "each of which is one teacher"
            if some == 1
            else f"each of which has up to {some} teachers"
        )
        lines = [
            f"The votes come from {self.num_holders} holders of records, {spread}. The epsilon is for {unit}."
        ]
        if some == 1 and replace:
            lines.append(
                "A record of a holder, any number of its records, and the holder itself are covered by it."
            )
        elif some == 1:
            lines.append(
                "A holder that comes or goes is covered by it; a record of a holder is at group size 2."
            )
        elif replace:
            lines.append(
                "One record of a holder, or one group of records that the holder keeps together, is covered by it. "
                f"The holder itself, all of its records, is covered at group size {some}: {priced(some)}."
            )
        else:
            lines.append(
                f"A holder that comes or goes is covered at group size {some}: {priced(some)}."
            )
        both = _BOTH if replace else 2 * _BOTH
        lines.append(
            "Whoever has records at m holders changes a teacher at each of them. For m = 2 that is "
            f"group size {both}: {priced(both)}. No holder can know of the others' records, so this cannot be excluded."
        )
        return tuple(lines)
