"""The PLD accountant: composition of privacy-loss distributions (PLDs), computed with Google's dp-accounting.

The module `privacy_profile` bounds the delta of each event at every epsilon. The module `loss_distribution` replaces
each profile by a pair of distributions on a grid of losses, and convolves the losses (docs/proofs/pld.md).
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Self

from pate.accounting import events
from pate.accounting.event_tree import count_leaves, leaves, priced_by_accesses
from pate.accounting.events import Event, LeafEvent
from pate.accounting.loss_accountant import LossAccountant
from pate.accounting.loss_distribution import (
    LARGEST_EPSILON,
    SMALLEST_EPSILON,
    LossDistribution,
)
from pate.accounting.rdp import DEFAULT_ORDERS, rdp_curve
from pate.extras import require_extra
from pate.validation import require_count


class PldAccountant(LossAccountant):
    """An accountant that composes privacy-loss distributions; it needs dp-accounting, the extra `pld`.

    Formal guarantees, for the adjacency that the events were made for:
        * Every event is replaced by a pair of distributions that dominates it in both directions; a sampled Gaussian
          under `ADD_REMOVE` is replaced by one pair for each direction. The profile of the pair is a bound on that of
          the event on a grid of losses, and linear in e^epsilon between its points, so it errs upwards.
        * A total is never above that of `RdpAccountant`. The Renyi bound is the smaller one for many bounded-range or
          one-bit releases, because their worst pair differs from one epsilon to the next. The loss distributions give
          the smaller bound for Gaussians, pure DP and the Gaussian noisy maximum.

    Edge cases: epsilons above 300 or below 1e-9 are those of `RdpAccountant`. So are epsilons at tiny deltas, which the
    rounding of the Fourier transform could exceed; for 600 equal releases such deltas are below 2e-9. Every distinct
    event takes about 0.1 s; all Gaussians count as one event, and so do all zCDP releases. Source: Zhu, Dong & Wang
    2022; Doroshenko et al. 2022 (connect the dots); docs/proofs/pld.md.

    >>> from pate.accounting import GaussianEvent, PureDpEvent
    >>> accountant = PldAccountant().compose(GaussianEvent(10.0), 20).compose(PureDpEvent(0.5))
    >>> round(accountant.get_epsilon(1e-6), 2)
    2.45
    """

    name = "pld"
    any_event_order = True

    def __init__(self) -> None:
        require_extra("accountant", extra="pld", value="pld")
        super().__init__()
        self._spent: Counter[LeafEvent] = Counter()
        # The distribution of the loss of all events, computed for the first epsilon or delta.
        self._composed: LossDistribution | None = None

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event to the total, `count` times, by the distribution of its privacy loss; returns this accountant.

        Raises `InvalidValue`, and adds nothing, where the accountant cannot price an event within `event`.
        """
        counted_leaves = list(
            leaves(priced_by_accesses(event), num_releases=require_count("count", count, minimum=0))
        )
        self._compose_renyi(event, num_times=count)
        for leaf, times in counted_leaves:
            if times > 0:
                self._spent[leaf] += times
        self._composed = None
        return self

    def _epsilon(self, target_delta: float, renyi_epsilon: float) -> float:
        """Returns the epsilon of the summed losses at `target_delta`; infinity unless 1e-9 < `renyi_epsilon` < 300.

        With infinity the caller takes `renyi_epsilon`, the epsilon by Renyi divergences.
        """
        if not SMALLEST_EPSILON < renyi_epsilon < LARGEST_EPSILON:
            return math.inf
        return self._distribution().epsilon(target_delta)

    def _delta(self, target_epsilon: float, renyi_delta: float) -> float:
        # `renyi_delta` is not needed: a loss distribution has a delta at every epsilon.
        return self._distribution().delta(target_epsilon)

    def _distribution(self) -> LossDistribution:
        """Returns the distribution of the summed privacy loss of all events, from a cache.

        All Gaussians are replaced by one equivalent Gaussian, and all zCDP events by one with the sum of their rho.
        """
        if self._composed is None:
            counted_events: list[tuple[LeafEvent, int]] = []
            multipliers: list[float] = []
            rhos: list[float] = []
            for leaf, count in self._spent.items():
                if isinstance(leaf, events.GaussianEvent):
                    multipliers.append(leaf.noise_multiplier / math.sqrt(count))
                elif isinstance(leaf, events.ZCdpEvent):
                    rhos.append(count * leaf.rho)
                elif rdp_curve(count_leaves(leaf), orders=DEFAULT_ORDERS).any():
                    # The Renyi curve is not 0, so the event costs something.
                    counted_events.append((leaf, count))
            if multipliers:
                counted_events.append((events.GaussianEvent.composed(multipliers), 1))
            total_rho = math.fsum(rhos)
            if total_rho > 0:
                counted_events.append((events.ZCdpEvent(rho=total_rho), 1))
            self._composed = LossDistribution(counted_events)
        return self._composed
