"""Families of two-point pairs: what a mechanism can do in one step, as privacy losses of two outcomes.

A pair (up, down) with up > 0 > down stands for two outcomes whose log-likelihood ratios are `up` and `down`; both
probabilities follow from the ratios. A pair with a larger `up` and a smaller `down` dominates: it can be garbled into
the other one, so replacing pairs by a box that contains them is an upper bound for every later composition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from itertools import pairwise

import numpy as np
from scipy.special import log_expit

from pate.accounting.events import BoundedRangeEvent, LeafEvent, OneBitEvent, PureDpEvent
from pate.validation import InvalidValue

_CELLS = 1024


@dataclass(frozen=True, eq=False)
class Box:
    """The pair that dominates a run of neighbouring pairs of a family, and the two halves of the run.

    Attributes:
        up: the largest loss of the first outcome.
        down: the smallest loss of the second outcome.
        halves: empty for a single pair.
    """

    up: float
    down: float
    halves: tuple[Box, ...]

    @property
    def probability(self) -> float:
        """Of the first outcome, under the distribution that the losses favour."""
        below, above = -math.expm1(self.down), -math.expm1(-self.up)
        return below / (below + math.exp(self.down) * above)


@lru_cache(maxsize=256)
def family(event: LeafEvent) -> Box | None:
    """The root box of all pairs that an event can produce between neighbours; None where nothing can happen.

    Raises:
        InvalidValue: an event that is not made of two-point pairs.
    """
    return _family(event)


@singledispatch
def _family(event: LeafEvent) -> Box | None:
    raise InvalidValue(f"event={type(event).__name__}: expected an event that the exact accountant can compose")


@_family.register
def _(event: PureDpEvent) -> Box | None:
    return Box(event.epsilon, -event.epsilon, ()) if event.epsilon > 0 else None


@_family.register
def _(event: BoundedRangeEvent) -> Box | None:
    """Losses t and t - epsilon for every t in (0, epsilon), in cells: each covers an interval of t."""
    if event.epsilon == 0:
        return None
    edges = np.linspace(0, event.epsilon, _CELLS + 1)
    return _tree([Box(float(high), float(low - event.epsilon), ()) for low, high in pairwise(edges)])


@_family.register
def _(event: OneBitEvent) -> Box | None:
    """The bit at two statistics that differ by the reach, either way round, less the pairs that others dominate."""
    logits = np.array(event.logits)
    farther = logits[np.minimum(np.arange(len(logits)) + event.reach, len(logits) - 1)]
    one = log_expit(farther) - log_expit(logits)  # loss of a 1, >= 0
    zero = log_expit(-farther) - log_expit(-logits)  # loss of a 0, <= 0
    ups, downs = np.concatenate([one, -zero]), np.concatenate([zero, -one])
    moving = (ups > 0) & (downs < 0)
    if not moving.any():
        return None
    ups, downs = ups[moving], downs[moving]
    order = np.lexsort((downs, -ups))  # falling up; among equals the smallest down first
    ups, downs = ups[order], downs[order]
    lowest_before = np.concatenate([[np.inf], np.minimum.accumulate(downs)[:-1]])
    kept = downs < lowest_before
    return _tree([Box(float(up), float(down), ()) for up, down in zip(ups[kept], downs[kept], strict=True)])


def _tree(boxes: list[Box]) -> Box:
    """A balanced tree over neighbouring boxes."""
    while len(boxes) > 1:
        pairs = [boxes[start : start + 2] for start in range(0, len(boxes), 2)]
        boxes = [
            Box(max(b.up for b in pair), min(b.down for b in pair), tuple(pair)) if len(pair) > 1 else pair[0]
            for pair in pairs
        ]
    return boxes[0]
