"""The accountant that knows the joint law of a gap selection and its test."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting.accountant import Accountant
from pate.accounting.conversion import rdp_to_epsilons
from pate.accounting.events import ApproximateEvent, ComposedEvent, Event, SelfComposedEvent
from pate.accounting.joint_law.event import SelectThenTestEvent
from pate.accounting.joint_law.largest_divergence import largest_divergence
from pate.accounting.joint_law.types import types_of
from pate.accounting.rdp import RdpAccountant, count_leaves, rdp_curve

Array = NDArray[np.float64]

_STEP = 1.05  # between two orders minus 1, on one grid for all: what was found serves other readings
_STRIDES = (2, 1)  # of the search on that grid
_FARTHEST = 24  # places from where it starts
_LARGEST_RANGE = 20.0  # of a selection; beyond, the parts are as good
_LOWEST_LOGIT = -700.0  # of a gap's test; the probability of passing is a full double then
_LARGEST_LOG = 700.0
_LEAST, _CLOSE = 1e-30, 1.01  # of deltas
_RESOLUTION = 0.003
_WORTH_IT = 0.99  # of the Renyi accountant's price at the first order


class JointLawAccountant(Accountant):
    """Prices a gap selection and the test of what it chose as one release, and all else as `RdpAccountant` does.

    T votes allow few large gaps, so not every gap that may be chosen can also pass its test. Take 40 labels, 600
    queries and an optimal table at epsilon 8. A stable top-k of 400 teachers is a quarter cheaper then, one of 800 a
    seventh, and one of 2,000 a thirtieth. `AutoAccountant` asks it where that may be less than the others say.

    Formal guarantee: an upper bound at each Renyi order that it looks at. It looks at a few, near the best one of
    `RdpAccountant`.

    Edge cases: a price takes about a tenth of a second, and solving for the noise takes several prices. The prices of
    two nearly equal releases may differ by a relative 0.003 more than they would with exact bounds.

    Attributes:
        failure_prob: what approximate events have taken from delta.

    Source: docs/proofs/joint_law.md.
    """

    name = "joint_law"

    def __init__(self) -> None:
        self._rdp = RdpAccountant()
        self._joint: Counter[SelectThenTestEvent] = Counter()
        self.failure_prob = 0.0

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds the event `count` times; nothing is added if any part of it is unknown."""
        self._rdp.compose(event, count)
        self.failure_prob = self._rdp.failure_prob
        self._joint.update(select_then_tests(event, count))
        return self

    def copy(self) -> Self:
        """An accountant of its own to which the same events were added."""
        made = copy.copy(self)
        made._rdp, made._joint = self._rdp.copy(), self._joint.copy()
        return made

    def resolution(self, target_delta: float) -> float:
        """See `Accountant.resolution`."""
        return _RESOLUTION if self._joint else 0.0

    def get_epsilon(self, target_delta: float) -> float:
        """The smallest epsilon over the orders that were looked at."""
        left = self.remaining_delta(target_delta)

        def convert(orders: Array, rdp: Array) -> Array:
            return rdp_to_epsilons(orders, rdp, target_delta=left)

        return self._least(self._rdp.get_epsilon(target_delta), self._rdp.best_order(target_delta), convert)

    def get_delta(self, target_epsilon: float) -> float:
        """The smallest delta whose epsilon is at most this, failure probabilities included; to a relative 0.01."""
        known = self._rdp.get_delta(target_epsilon)
        if not self._joint or not self.failure_prob < known < 1:
            return known
        found, low, high = known, max(_LEAST, 2 * math.ulp(self.failure_prob)), known - self.failure_prob
        while high > low * _CLOSE:
            middle = math.sqrt(low * high)
            delta = self.failure_prob + middle  # above failures alone, as `low` is more than they are rounded by
            if self.get_epsilon(delta) <= target_epsilon:
                found, high = delta, middle
            else:
                low = middle
        return found

    def _least(self, known: float, start: float, convert: Callable[[Array, Array], Array]) -> float:
        """The smallest value at orders about `start`, at most what is known."""
        if not self._joint or not 0 < known < math.inf:
            return known

        def value(place: int) -> float:
            orders = np.array([1 + _STEP**place])
            return float(convert(orders, self._curve(orders))[0])

        middle = round(math.log(start - 1) / math.log(_STEP))
        values = {middle: value(middle)}
        if values[middle] > known * _WORTH_IT:
            return min(known, values[middle])
        for stride in _STRIDES:
            best = min(values, key=values.__getitem__)
            for way in (-stride, stride):
                place = best + way
                while abs(place - middle) <= _FARTHEST and values[place - way] <= min(values.values()):
                    values[place] = value(place)
                    place += way
        return min(known, *values.values())

    def _curve(self, orders: Array) -> Array:
        total = self._rdp.curve(orders)
        for event, count in self._joint.items():
            parts = rdp_curve(count_leaves(event), orders)
            joint = np.array([joint_rdp(event, order) for order in orders.tolist()])
            saved = np.subtract(parts, joint, out=np.zeros_like(parts), where=parts < math.inf)
            total = total - count * saved
        return total


@lru_cache(maxsize=1024)
def joint_rdp(event: SelectThenTestEvent, order: float) -> float:
    """An upper bound on the Renyi divergence of an order > 1 of one query, outside of its failure; at most its parts'.

    >>> from pate.aggregators import StableTopK
    >>> noise = StableTopK(selection_scale=40.0, test_std=60.0)
    >>> event = noise.event_for(num_queries=1, num_labels=40, num_teachers=300).event
    >>> parts = float(rdp_curve(count_leaves(event), np.array([4.0]))[0])
    >>> round(parts, 4), round(joint_rdp(event, 4.0), 4)
    (0.006, 0.0031)
    """

    def divergence(ratios: Array) -> Array:
        with np.errstate(divide="ignore", over="ignore"):
            logs = np.log(ratios)
            return np.asarray(np.expm1((1 - order) * logs) + (order - 1) * np.expm1(logs))

    parts = float(rdp_curve(count_leaves(event), np.array([order]))[0])
    lowest = min((logit for logit in event.bit.logits if logit > -math.inf), default=0.0)
    if not 0 < event.selection.epsilon < _LARGEST_RANGE or lowest < _LOWEST_LOGIT or parts == math.inf:
        return parts
    types = types_of(event)
    largest = largest_divergence(types, divergence)
    largest += math.expm1(min(order * types.rounding, _LARGEST_LOG)) * (largest + order)
    return min(parts, math.log1p(largest) / (order - 1))


def select_then_tests(event: Event, count: int) -> Counter[SelectThenTestEvent]:
    """How often each of them is in an event that happens `count` times."""
    found: Counter[SelectThenTestEvent] = Counter()
    pending = [(event, count)]
    while pending:
        node, times = pending.pop()
        if isinstance(node, SelectThenTestEvent):
            found[node] += times
        elif isinstance(node, SelfComposedEvent):
            pending.append((node.event, times * node.count))
        elif isinstance(node, ApproximateEvent):
            pending.append((node.event, times))
        elif isinstance(node, ComposedEvent):
            pending += [(part, times) for part in node.events]
    return +found  # without those that never happen
