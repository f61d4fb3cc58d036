"""The PLD accountant: composes dominating pairs as privacy-loss distributions, through Google's dp-accounting."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Self

from pate.accounting.accountant import Accountant
from pate.accounting.events import Event, LeafEvent, leaves
from pate.accounting.hit_price import HitPrice
from pate.accounting.pld.distribution import (
    LARGEST_EPSILON,
    SMALLEST_EPSILON,
    LossDistribution,
    merged,
    require_dp_accounting,
)
from pate.accounting.rdp import RdpAccountant
from pate.accounting.session_event import by_accesses
from pate.validation import require_count


class PldAccountant(Accountant):
    """Composes the privacy-loss distributions of dominating pairs; needs dp-accounting, the extra `pld`.

    Formal guarantees, for the adjacency that the events were made for:
        * Every event is replaced by a pair that dominates it in both directions: the largest hockey stick between
          neighbors, joined by chords on a grid of losses, so the grid errs upwards.
        * Never above the Renyi accountant: both bounds are valid, and the smaller one is returned. For Gaussians, pure
          DP and the Gaussian noisy maximum the distributions are tighter. For many bounded-range or one-bit releases
          the Renyi bound is tighter, because their worst pair differs from one epsilon to the next.

    Edge cases: epsilons above 300 or below 1e-9 are those of the Renyi accountant, and so are those at deltas that the
    rounding of the Fourier transform could hide (below about 2e-9 for 600 releases). Every different event is composed
    for itself, in about 0.1 s; Gaussians and zCDP releases count as one.

    Raises:
        InvalidValue: dp-accounting is not installed.

    Attributes:
        failure_prob: what approximate events have taken from delta.

    Source: Zhu, Dong & Wang 2022; Doroshenko et al. 2022 (connect the dots); docs/proofs/pld.md.

    >>> from pate.accounting import GaussianEvent, PureDpEvent
    >>> accountant = PldAccountant().compose(GaussianEvent(10.0), 20).compose(PureDpEvent(0.5))
    >>> round(accountant.get_epsilon(1e-6), 2)
    2.45
    """

    name = "pld"

    def __init__(self) -> None:
        require_dp_accounting()
        self._rdp = RdpAccountant()
        self._hits = HitPrice()
        self._spent: Counter[LeafEvent] = Counter()
        self._composed: LossDistribution | None = None
        self.failure_prob = 0.0

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds the event `count` times; nothing is added if any part of it is unknown."""
        hits, event = self._hits.beside(event, count, before=self._rdp), by_accesses(event)
        spent: Counter[LeafEvent] = Counter()
        for leaf, times in leaves(event, count=require_count("count", count, minimum=0)):
            if times > 0:
                spent[leaf] += times
        self._rdp.compose(event, count)
        self._hits = hits
        self.failure_prob = self._rdp.failure_prob
        self._spent.update(spent)
        self._composed = None
        return self

    def copy(self) -> Self:
        """An accountant of its own to which the same events were added."""
        made = copy.copy(self)
        made._spent, made._rdp = self._spent.copy(), self._rdp.copy()
        return made

    def get_epsilon(self, target_delta: float) -> float:
        """The smaller of the distribution's epsilon and Renyi's."""
        by_hits = self._hits.epsilon(target_delta)
        if self._hits.suffices(self.failure_prob, target_delta):
            return by_hits
        left = self.remaining_delta(target_delta)
        bound = min(by_hits, self._rdp.get_epsilon(target_delta))
        if not SMALLEST_EPSILON < bound < LARGEST_EPSILON:
            return bound
        return min(bound, self._distribution().epsilon(left))

    def get_delta(self, target_epsilon: float) -> float:
        """The smaller of the distribution's delta and Renyi's, failure probabilities included."""
        bound = min(self._hits.delta(target_epsilon), self._rdp.get_delta(target_epsilon))
        if bound <= self.failure_prob or not bound < 1:
            return bound
        return min(bound, self._distribution().delta(target_epsilon) + self.failure_prob)

    def _distribution(self) -> LossDistribution:
        """Of all that was spent, made when it is first asked for."""
        if self._composed is None:
            self._composed = LossDistribution(merged(self._spent))
        return self._composed
