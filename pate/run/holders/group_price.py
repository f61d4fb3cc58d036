"""What a release costs a group of teachers that change together, from its price for one."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ComposedEvent, Event, GaussianEvent, RdpAccountant, SelfComposedEvent
from pate.pricing import Budget
from pate.validation import InvalidValue, require_count

_SMALLEST_DELTA = 1e-60
_POINTS = 48


def group_epsilon(event: Event, size: int, budget: Budget) -> float:
    """A bound on epsilon at the budget's delta for outcomes of data that differ in up to `size` units.

    Rule: Gaussian events of noise multiplier s, composed, cost a group what those of s / size cost one unit. Any event
    that is (e, d)-private for one unit is (k e, d (exp(k e) - 1) / (exp(e) - 1))-private for k: d is chosen so that
    this is the budget's delta.

    Args:
        event: the release, as one unit is charged for it.
        size: units that change, >= 1.
        budget: delta, and the accountant of the first rule.

    Returns:
        The bound; infinity where none of these rules gives one.

    Source: docs/proofs/many_places.md.
    """
    if require_count("size", size) == 1:
        return budget.epsilon_of(event)
    wider = _shared_by(event, size)
    if wider is not None:
        return budget.epsilon_of(wider)
    spent = RdpAccountant().compose(event)  # any accountant's bound will do, and this one is quick
    found = (_of_pair(spent, size, float(delta), budget.target_delta) for delta in _deltas(budget))
    return min(found, default=math.inf)


def _shared_by(event: Event, size: int) -> Event | None:
    """The event of a group, where all that is in it is Gaussian."""
    if type(event) is GaussianEvent:
        return GaussianEvent(event.noise_multiplier / size)
    if type(event) is SelfComposedEvent:
        inner = _shared_by(event.event, size)
        return None if inner is None else SelfComposedEvent(inner, event.count)
    if type(event) is ComposedEvent:
        parts = [_shared_by(part, size) for part in event.events]
        return None if None in parts else ComposedEvent(tuple(part for part in parts if part is not None))
    return None


def _deltas(budget: Budget) -> NDArray[np.float64]:
    return np.geomspace(budget.target_delta, _SMALLEST_DELTA, _POINTS)


def _of_pair(spent: RdpAccountant, size: int, delta: float, target_delta: float) -> float:
    """`size` times epsilon at a smaller delta, where what becomes of that delta fits into the target."""
    try:
        epsilon = spent.get_epsilon(delta)
    except InvalidValue:  # failures of the mechanism use up that delta
        return math.inf
    if not math.isfinite(epsilon):
        return math.inf
    log_growth = (size - 1) * epsilon + math.log(size)  # at least the log of the geometric sum
    return size * epsilon if math.log(delta) + log_growth <= math.log(target_delta) else math.inf
