"""The exact accountant: optimal adaptive composition by dynamic programming, as a guaranteed upper bound."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterator
from typing import Self

from pate.accounting.accountant import Accountant
from pate.accounting.conversion import rdp_to_epsilons
from pate.accounting.events import (
    ApproximateEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    LeafEvent,
    NonPrivateEvent,
    SelfComposedEvent,
    WinnerEvent,
    leaves,
)
from pate.accounting.exact.blocks import work
from pate.accounting.exact.dominating_pairs import DominatingPairs, SampledPair, ShiftedMaximum, dominating_pairs
from pate.accounting.exact.gaussian import gaussian_delta, gaussian_epsilon
from pate.accounting.exact.profile import Profile, composed, largest_loss
from pate.accounting.hit_price import HitPrice
from pate.accounting.rdp import RdpAccountant
from pate.accounting.session_event import by_accesses
from pate.accounting.winner.tree import Winner
from pate.validation import require_count

_LEVELS = (12, 24, 48, 96, 192)  # the grid may end where delta is below 10**-level
_MARGIN = 1e-4  # between a delta that is read off and the grid's smallest
_RENYI_MARGIN = 1e-6  # the same, from the delta of the Renyi accountant
_LEAST = 1e-290
_SMALLEST_REACH, _LARGEST_REACH = 1e-200, 500.0
_ROUNDING = 1e-9

_Steps = list[tuple[DominatingPairs, int]]


class ExactAccountant(Accountant):
    """Composes one-bit, bounded-range, pure-DP, Gaussian and sampled Gaussian events optimally, whoever adapts.

    Formal guarantees, for the adjacency that the events were made for:
        * The best play of an adversary who picks two neighbors anew for every step, having seen all losses before, is
          never better than these figures; their own rounding is covered.
        * Gaussians alone are exact. Sampled Gaussians have one worst pair, whose losses are summed; a unit that comes
          or goes does so in the same way at all of them. A noisy maximum with Gaussian noise is replaced by a pair that
          dominates it; there the bound is not the best play, and the PLD accountant's is tighter.
        * Never above the Renyi accountant, nor above the price of noisy counts whose winner alone is released: the
          smallest of these bounds is returned. A session under target charging is composed as its accesses; the Renyi
          accountant's price by hits is returned where that is smaller.

    Edge cases: steps are taken in the order of the event, so the bound is for that order. But Gaussians, sampled ones
    too, count as the first steps, which gives the adversary of the others the most freedom. More than 180 other steps
    are composed in blocks, some tenths of a percent above the best play. Epsilons above 500 and deltas below 1e-187 are
    those of the Renyi accountant. The first reading takes some tenths of a second whatever the number of steps, a
    second or two for thousands of sampled Gaussians. For optimal tables of the stability test, whose losses can be
    enormous, it takes milliseconds per step. Further readings are fast.

    Raises:
        InvalidValue: from `compose`, for events of other kinds; the Renyi accountant may know them.

    Attributes:
        in_blocks: whether many steps may be composed in blocks; if not, every step takes some milliseconds.
        failure_prob: what approximate events have taken from delta.

    Source: Murtagh & Vadhan 2016; Zhu, Dong & Wang 2022; docs/proofs/exact_composition.md.

    >>> from pate.accounting import BoundedRangeEvent
    >>> event = SelfComposedEvent(BoundedRangeEvent(0.1), 20)
    >>> [round(kind().compose(event).get_epsilon(1e-6), 2) for kind in (RdpAccountant, ExactAccountant)]
    [0.98, 0.93]
    """

    name = "exact"

    def __init__(self, *, in_blocks: bool = True) -> None:
        self.in_blocks = in_blocks
        self._rdp = RdpAccountant()
        self._hits = HitPrice()
        self._steps: _Steps = []
        self._mu_squared = 0.0
        self._mu_squared_of_winners = 0.0  # as releases of their counts
        self.failure_prob = 0.0

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds the event `count` times; nothing is added if any part of it is unknown."""
        for _ in leaves(event, count=require_count("count", count, minimum=0)):
            pass  # refuses what is no event, before anything is added
        hits, event = self._hits.beside(event, count, before=self._rdp), by_accesses(event)
        steps: _Steps = []
        mu_squared = winners = 0.0
        for leaf, times in _in_order(event, count):
            if times == 0:
                continue
            if isinstance(leaf, WinnerEvent) and leaf.noise_multiplier > 0:
                winners = _up(winners + _mu_squared(leaf.noise_multiplier, leaf.num_moving * times))
            if isinstance(leaf, GaussianEvent) and leaf.noise_multiplier > 0:
                mu_squared = _up(mu_squared + _mu_squared(leaf.noise_multiplier, times))
            elif not _is_unbounded(leaf) and (made := dominating_pairs(leaf)) is not None:
                steps.append((made, times))
        self._rdp.compose(event, count)
        self._hits = hits
        self.failure_prob = self._rdp.failure_prob
        self._steps += steps
        self._mu_squared = _up(self._mu_squared + mu_squared) if mu_squared else self._mu_squared
        if winners:
            self._mu_squared_of_winners = _up(self._mu_squared_of_winners + winners)
        return self

    def copy(self) -> Self:
        """An accountant of its own to which the same events were added."""
        made = copy.copy(self)
        made._steps, made._rdp = self._steps.copy(), self._rdp.copy()
        return made

    def get_epsilon(self, target_delta: float) -> float:
        """The smallest epsilon of the profile, at most that of the Renyi accountant."""
        by_hits = self._hits.epsilon(target_delta)
        if self._hits.suffices(self.failure_prob, target_delta):
            return by_hits
        left = self.remaining_delta(target_delta)
        bound = self._rdp.get_epsilon(target_delta)
        if not 0 < bound < math.inf:
            return min(bound, by_hits)
        return min(bound, by_hits, *(self._epsilon(steps, mu, left) for steps, mu in self._bounds()))

    def get_delta(self, target_epsilon: float) -> float:
        """The delta at an epsilon, failure probabilities included, at most that of the Renyi accountant."""
        bound, by_hits = self._rdp.get_delta(target_epsilon), self._hits.delta(target_epsilon)
        left = bound - self.failure_prob
        if left <= 0 or bound >= 1:
            return min(bound, by_hits)
        deltas = (self._delta(steps, mu, target_epsilon, left) for steps, mu in self._bounds())
        return min(bound, by_hits, *(delta + self.failure_prob for delta in deltas))

    def work(self) -> int:
        """How long the first reading takes, in quarters of a step of some milliseconds."""
        return work(tuple(self._steps))

    def _bounds(self) -> Iterator[tuple[_Steps, float]]:
        """What composes to a bound: steps, and mu of all Gaussians as one, rounded up."""
        yield self._steps, _up(math.sqrt(self._mu_squared))
        if self._mu_squared_of_winners:
            others: _Steps = [(pairs, times) for pairs, times in self._steps if not isinstance(pairs, Winner)]
            yield others, _up(math.sqrt(_up(self._mu_squared + self._mu_squared_of_winners)))

    def _epsilon(self, steps: _Steps, mu: float, target_delta: float) -> float:
        if not steps:
            return gaussian_epsilon(mu, target_delta=target_delta) * (1 + _ROUNDING)
        profiles = [self._profile(way, mu, target_delta * _MARGIN) for way in _both_ways(steps)]
        return max(math.inf if p is None else p.epsilon(target_delta) * (1 + _ROUNDING) for p in profiles)

    def _delta(self, steps: _Steps, mu: float, epsilon: float, bound: float) -> float:
        if not steps:
            return gaussian_delta(mu, epsilon=epsilon)
        profiles = [self._profile(way, mu, bound * _RENYI_MARGIN) for way in _both_ways(steps)]
        return max(math.inf if p is None else max(p.delta(epsilon), _LEAST) * (1 + _ROUNDING) for p in profiles)

    def _profile(self, events: _Steps, mu: float, smallest_delta: float) -> Profile | None:
        """The profile down to a delta, one for many questions; None where no grid can hold it."""
        level = next((level for level in _LEVELS if 10.0**-level <= smallest_delta), None)
        if level is None:
            return None
        fixed = Counter[DominatingPairs]()
        for pairs, times in events:
            if isinstance(pairs, SampledPair):
                fixed[pairs] += times
        steps = (*fixed.items(), *(step for step in events if step[0] not in fixed))
        if mu > 0:
            steps = ((ShiftedMaximum(1, mu), 1), *steps)
        epsilons = rdp_to_epsilons(self._rdp.orders, self._rdp.rdp, target_delta=10.0**-level)
        reach = min(float(epsilons.min()), largest_loss(steps))
        if not _SMALLEST_REACH < reach < _LARGEST_REACH:
            return None
        return composed(steps, reach=reach, smallest_delta=10.0**-level, in_blocks=self.in_blocks)


def _both_ways(steps: _Steps) -> list[_Steps]:
    """The steps, and the same with two neighbors exchanged where that makes a difference: a unit comes or goes."""
    exchanged = [(pairs.exchanged if isinstance(pairs, SampledPair) else pairs, times) for pairs, times in steps]
    return [steps] if exchanged == steps else [steps, exchanged]


def _mu_squared(noise_multiplier: float, count: int) -> float:
    """Of that many Gaussians, rounded up."""
    return _up(_up(max(count / noise_multiplier / noise_multiplier, _LEAST)))


def _up(number: float) -> float:
    """The next larger float, which covers a rounding error; 0 stays."""
    return math.nextafter(number, math.inf) if number else number


def _is_unbounded(leaf: LeafEvent) -> bool:
    """Events without protection have no dominating pair; the Renyi accountant prices them, at infinity."""
    price = getattr(leaf, "epsilon", 0.0)
    return isinstance(leaf, NonPrivateEvent) or price == math.inf or getattr(leaf, "noise_multiplier", 1.0) == 0


def _in_order(event: Event, count: int) -> Iterator[tuple[LeafEvent, int]]:
    """The leaves of an event in the order in which they happen."""
    if isinstance(event, LeafEvent):
        yield event, count
    elif isinstance(event, SelfComposedEvent):
        if isinstance(event.event, LeafEvent):
            yield event.event, count * event.count
        else:
            for _ in range(count * event.count):
                yield from _in_order(event.event, 1)
    elif isinstance(event, ApproximateEvent):
        yield from _in_order(event.event, count)
    elif isinstance(event, ComposedEvent):
        for _ in range(count):
            for part in event.events:
                if isinstance(part, LeafEvent):
                    yield part, 1
                else:
                    yield from _in_order(part, 1)
