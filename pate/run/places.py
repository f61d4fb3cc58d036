"""The price of a release for several teachers together, and the statement of whom a price protects among holders.

A holder is somebody who holds private records, such as a hospital, and trains one teacher or several with them.
"""

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
from pate.validation import InvalidValue, require_count

# The second rule of `group_epsilon` tries this many deltas, down to the smallest one.
_SMALLEST_DELTA = 1e-60
_NUM_DELTAS = 48
# The card prices a person whose records are at two holders.
_NUM_HOLDERS_OF_PERSON = 2


def group_epsilon(event: Event, group_size: int, budget: Budget) -> float:
    """Returns an upper bound on epsilon, at the budget's delta, for data sets that differ in up to `group_size` units.

    There are two rules for k = `group_size` above 1. A composition of Gaussian events alone costs a group as much as
    events with 1 / k of the noise multiplier cost one unit, by the budget's accountant. Any other event that is
    (e, d)-private for one unit is (k e, d (exp(k e) - 1) / (exp(e) - 1))-private for k units. The second term is at
    most d k exp((k - 1) e). The Renyi accountant finds e for 48 values of d. The result is the least k e for which this
    bound is at most the budget's delta, or infinity if there is none. Source: docs/proofs/many_places.md.

    Args:
        event: the price of the release for one unit, such as one teacher.
        group_size: the number of units in the group.
        budget: the budget of the release, with its delta and its accountant.
    """
    if require_count("group_size", group_size) == 1:
        return budget.epsilon_of(event)
    group_event = _group_event(event_of_one_unit=event, num_units=group_size)
    if group_event is not None:
        return budget.epsilon_of(group_event)
    # Every accountant gives a bound, and the Renyi accountant is quick.
    composed_accountant = RdpAccountant().compose(event)
    least_epsilon = math.inf
    for tried_delta in np.geomspace(budget.delta, _SMALLEST_DELTA, _NUM_DELTAS).tolist():
        try:
            epsilon_of_one_unit = composed_accountant.get_epsilon(tried_delta)
        except InvalidValue:  # the failure probability of the mechanism exceeds this delta
            continue
        # at least the log of (exp(k e) - 1) / (exp(e) - 1), a sum of k terms
        log_growth = (group_size - 1) * epsilon_of_one_unit + math.log(group_size)
        if math.isfinite(epsilon_of_one_unit) and math.log(tried_delta) + log_growth <= math.log(
            budget.delta
        ):
            least_epsilon = min(least_epsilon, group_size * epsilon_of_one_unit)
    return least_epsilon


def _group_event(event_of_one_unit: Event, *, num_units: int) -> Event | None:
    """Returns the price of an event of Gaussian noise for data sets that differ in `num_units` units, as an event.

    Every noise multiplier is divided by `num_units`. The result is None if the event has a part that is not Gaussian.
    """
    if type(event_of_one_unit) is GaussianEvent:
        return GaussianEvent(noise_multiplier=event_of_one_unit.noise_multiplier / num_units)
    if type(event_of_one_unit) is SelfComposedEvent:
        repeated_group_event = _group_event(
            event_of_one_unit=event_of_one_unit.event, num_units=num_units
        )
        return (
            None
            if repeated_group_event is None
            else SelfComposedEvent(repeated_group_event, count=event_of_one_unit.count)
        )
    if type(event_of_one_unit) is ComposedEvent:
        group_events = []
        for part_of_one_unit in event_of_one_unit.events:
            group_event = _group_event(event_of_one_unit=part_of_one_unit, num_units=num_units)
            if group_event is None:
                return None
            group_events.append(group_event)
        return ComposedEvent(tuple(group_events))
    return None


@dataclass(frozen=True)
class Places:
    """The distribution of teachers over holders of records; both numbers are public.

    Attributes:
        num_holders: the number of holders.
        teachers_per_holder: the largest number of teachers of one holder.
    """

    num_holders: int
    teachers_per_holder: int

    @classmethod
    def from_holders(cls, num_teachers_of_holder: Mapping[str, int]) -> Places:
        """Returns the distribution of teachers over holders.

        Args:
            num_teachers_of_holder: the number of teachers of each holder, by the holder's name.
        """
        return cls(
            num_holders=len(num_teachers_of_holder),
            teachers_per_holder=max(num_teachers_of_holder.values()),
        )

    @classmethod
    def with_equal_holders(cls, num_teachers: int, num_holders: int) -> Places:
        """Returns the distribution of teachers of whom each holder has the same number.

        Raises:
            InvalidValue: the number of holders does not divide the number of teachers.
        """
        require_count("holders", num_holders)
        if num_teachers % num_holders != 0:
            rule = f"a number that divides the {num_teachers} teachers"
            raise InvalidValue("holders", num_holders, rule=rule)
        return cls(num_holders=num_holders, teachers_per_holder=num_teachers // num_holders)

    def promises(
        self,
        release: Release,
        *,
        budget: Budget,
        num_draws: int = 1,
        tuned_event: Event | None = None,
    ) -> tuple[str, ...]:
        """Returns sentences for the privacy card that state whose data the price protects.

        They treat a whole holder and a person with records at two holders. They also treat records of one holder,
        except for add/remove with several teachers of a holder. No sentence claims more than docs/proofs/many_places.md
        proves.

        Args:
            release: the drawn release, with its event and adjacency for one unit.
            budget: the budget of the release, with its delta and its accountant.
            num_draws: how often the release was drawn with fresh noise.
            tuned_event: the price of the best run of a tuning, if the release is that run; None otherwise.
        """
        event = release.event if tuned_event is None else tuned_event
        if num_draws > 1:
            event = SelfComposedEvent(event, count=num_draws)
        num_teachers_at_holder = self.teachers_per_holder
        price_of_holder = _price_of_group(
            num_units=num_teachers_at_holder, event=event, budget=budget
        )
        is_replaced = release.adjacency is Adjacency.REPLACE_ONE
        unit = "one teacher added or removed"
        if is_replaced:
            unit = "one teacher's votes replaced by any others"
        spread = f"each of which has up to {num_teachers_at_holder} teachers"
        if num_teachers_at_holder == 1:
            spread = "each of which is one teacher"
        lines = [
            f"The votes come from {self.num_holders} holders of records, {spread}. The epsilon is for {unit}."
        ]
        if num_teachers_at_holder == 1 and is_replaced:
            lines.append(
                "A record of a holder, any number of its records, and the holder itself are covered by it."
            )
        elif num_teachers_at_holder == 1:
            lines.append(
                "A holder that comes or goes is covered by it; a record of a holder is at group size 2."
            )
        elif is_replaced:
            lines.append(
                "One record of a holder, or one group of records that the holder keeps together, is covered by it. "
                f"The holder itself, all of its records, is covered at group size {num_teachers_at_holder}: "
                f"{price_of_holder}."
            )
        else:
            lines.append(
                f"A holder that comes or goes is covered at group size {num_teachers_at_holder}: {price_of_holder}."
            )
        num_changed_teachers = _NUM_HOLDERS_OF_PERSON if is_replaced else 2 * _NUM_HOLDERS_OF_PERSON
        price_of_person = _price_of_group(
            num_units=num_changed_teachers, event=event, budget=budget
        )
        lines.append(
            "Whoever has records at m holders changes a teacher at each of them. For m = 2 that is "
            f"group size {num_changed_teachers}: {price_of_person}. "
            "No holder can know of the others' records, so this cannot be excluded."
        )
        return tuple(lines)


def _price_of_group(num_units: int, *, event: Event, budget: Budget) -> str:
    """Returns, as a phrase, the bound on epsilon for data sets that differ in up to `num_units` units.

    Args:
        num_units: the number of units, such as teachers.
        event: the event of the release, whose own epsilon is for one unit.
        budget: the budget of the release, with its delta and its accountant.
    """
    epsilon = group_epsilon(event, group_size=num_units, budget=budget)
    if math.isinf(epsilon):
        return "no finite epsilon at this delta"
    return f"epsilon {format_epsilon(epsilon)}"
