"""The PLD accountant: composes dominating pairs as privacy-loss distributions, through Google's dp-accounting.

A profile f(epsilon) bounds sup over events S of P(S) - e^epsilon P'(S) for every ordered pair of neighbors, epsilon of
either sign. The relation between neighbors is symmetric, so one profile serves both directions. Any convex function of
e^epsilon above the true supremum, 1 at 0 and never rising, is the profile of some pair of distributions, and that pair
dominates the event in every adaptive composition (Zhu, Dong & Wang 2022; docs/proofs/pld.md).
"""

import math
from collections import Counter
from functools import lru_cache, reduce
from importlib import import_module
from types import ModuleType
from typing import Any, Self

import numpy as np

from pate.accounting import events
from pate.accounting.bit_pairs import bit_pairs
from pate.accounting.event_tree import by_accesses, leaves
from pate.accounting.events import Event, LeafEvent
from pate.accounting.loss_accountant import LossAccountant
from pate.accounting.noisy_maximum import noisy_maximum_profile
from pate.accounting.rdp import DEFAULT_ORDERS, RdpAccountant, rdp_curve
from pate.accounting.sampled_gaussian import sampled_gaussian_profiles
from pate.accounting.special import Array, log_ndtr, lower_hull, ndtr
from pate.extras import require_extra
from pate.validation import require_count

# no grid is made for epsilons outside this range
_SMALLEST_EPSILON = 1e-9
_LARGEST_EPSILON = 300.0
_NEGLIGIBLE = 1e-13  # of delta: where the grid of all releases ends
_NEGLIGIBLE_LEAF = 1e-15  # where the grid of one release ends
_ROUNDING = 1e-13  # added to every profile: above what double precision computes too small
# on either side of 0, of the grid of all releases
_FEWEST_POINTS = 2.0**10
_MOST_POINTS = 2.0**17
_POINTS_PER_RELEASE = 2**10


def privacy_profile(event: LeafEvent, epsilons: Array) -> Array:
    """Upper bounds for the largest hockey stick at rising epsilons of either sign: `[E]`."""
    # No profile is below that of two equal distributions, nor above 1.
    return np.clip(_profile(event, epsilons), np.maximum(-np.expm1(epsilons), 0.0), 1.0)


def _profile(event: LeafEvent, epsilons: Array) -> Array:
    # loads slowly; to the digits of the totals that ledgers have kept
    from scipy.special import expit

    factor = np.exp(epsilons)
    match event:
        case events.GaussianEvent() | events.WinnerEvent():
            # Its own pair (Balle & Wang 2018). Of a winner that of its counts: at every epsilon there is a threshold on
            # two of them that attains it.
            mu = 1 / (event.noise_multiplier / getattr(event, "num_moving", 1) ** 0.5)
            near = -epsilons / mu + mu / 2
            far = -epsilons / mu - mu / 2
            return np.asarray(ndtr(near) - np.exp(epsilons + log_ndtr(far)))
        # its own pair; the larger of both ways where the unit may come or go
        case events.SampledGaussianEvent():
            return np.asarray(np.max(both_ways(event, epsilons), axis=0))
        case events.PureDpEvent():  # randomized response
            yes = expit(event.epsilon)
            no = expit(-event.epsilon)
            return np.asarray(yes - factor * no)
        case events.BoundedRangeEvent():
            # The supremum over two-point pairs with losses t and t - e is attained at t = (epsilon + e) / 2.
            inside = np.abs(epsilons) <= event.epsilon
            gap = -np.expm1((np.where(inside, epsilons, 0.0) - event.epsilon) / 2)
            return np.where(inside, gap * gap / -math.expm1(-event.epsilon), 0.0)
        # the largest over pairs of statistics `reach` apart, both outcomes, both ways round
        case events.BitEvent():
            (near, far) = bit_pairs(event)
            profile = np.zeros_like(epsilons)
            for p, q in ((far, near), (near, far), (-far, -near), (-near, -far)):
                for more, less in zip(expit(p), expit(q), strict=True):
                    np.maximum(profile, more - factor * less, out=profile)
            return profile
        case events.NoisyMaxGaussianEvent():
            return noisy_maximum_profile(event, epsilons)
    # The best conversion of the Renyi curve at any order, both ways round. Its convex minorant is what dominates.
    orders = DEFAULT_ORDERS
    rdp = rdp_curve({type(event): ([event], [1])}, DEFAULT_ORDERS)
    logs = (
        (orders - 1) * (rdp - x[:, None] + np.log1p(-1 / orders)) - np.log(orders)
        for x in (epsilons, -epsilons)
    )
    # [E]
    forward, backward = (np.exp(np.minimum(log_deltas.min(axis=1), 0.0)) for log_deltas in logs)
    # above 0 the exchange would magnify rounding errors by e^epsilon
    factor = np.exp(np.minimum(epsilons, 0.0))
    return np.asarray(
        np.minimum(forward, np.where(epsilons < 0, 1 - factor + factor * backward, 1.0))
    )


def both_ways(event: LeafEvent, epsilons: Array) -> list[Array]:
    """The profile of an ordered pair of neighbors and of the same two exchanged, `[E]`; one where they are equal."""
    # A unit that may come or go is in the same one of the two data sets at every step. So each way is composed for
    # itself and the larger result is the price: less than the larger profile, composed, would cost.
    if not isinstance(event, events.SampledGaussianEvent):
        return [privacy_profile(event, epsilons)]
    trivial = np.maximum(-np.expm1(epsilons), 0.0)
    # which rounding may let rise by its last digit
    profiles = sampled_gaussian_profiles(event, epsilons)
    return [np.minimum.accumulate(np.clip(profile, trivial, 1.0)) for profile in profiles]


class LossDistribution:
    """The distribution of the summed losses of counted events on one grid; knows nothing where no grid fits."""

    def __init__(self, parts: list[tuple[LeafEvent, int]]) -> None:
        # epsilons that each release, and all of them, exceed with so small a probability at most
        alone = [RdpAccountant().compose(part).get_epsilon(_NEGLIGIBLE_LEAF) for part, _ in parts]
        reach = RdpAccountant().compose_all(parts).get_epsilon(_NEGLIGIBLE)
        self._losses: Any = None
        self.allowance = 0.0  # added to every delta for the rounding of Fourier transforms
        if not parts or not _SMALLEST_EPSILON < reach < _LARGEST_EPSILON:
            return
        finest = reach / _MOST_POINTS
        coarsest = reach / _FEWEST_POINTS
        spacing = float(np.clip(4 * min(alone) / _POINTS_PER_RELEASE, finest, coarsest))
        each = zip(parts, alone, strict=True)
        losses = [
            _discretized(part, spacing, min(most, reach)).self_compose(count)
            for (part, count), most in each
        ]
        self._losses = reduce(lambda one, other: one.compose(other), losses)
        size = 4 * reach / spacing
        releases = len(parts) + sum(count for _, count in parts)
        self.allowance = releases * math.sqrt(size) * math.log2(size) * float(np.finfo(float).eps)

    def epsilon(self, target_delta: float) -> float:
        """Returns the epsilon at a delta, what was cut off included."""
        if self._losses is None or target_delta <= self.allowance:
            return math.inf
        return float(self._losses.get_epsilon_for_delta(target_delta - self.allowance))

    def delta(self, target_epsilon: float) -> float:
        """Returns the delta at an epsilon, what was cut off included."""
        if self._losses is None:
            return 1.0
        return min(1.0, float(self._losses.get_delta_for_epsilon(target_epsilon)) + self.allowance)


@lru_cache(maxsize=16)  # the price after each query asks again for the same
def _discretized(event: LeafEvent, spacing: float, reach: float) -> Any:
    """The distribution of one release, in dp-accounting's class, its losses multiples of `spacing`."""
    ends = math.ceil(reach / spacing)
    stride = math.ceil(ends / _POINTS_PER_RELEASE)  # chords over several cells are chords, too
    points = np.arange(-math.ceil(ends / stride), math.ceil(ends / stride) + 1) * stride
    epsilons = np.asarray(points * spacing, dtype=np.float64)
    masses = []
    connect_dots = _load("pld_pmf").create_pmf_pessimistic_connect_dots
    for exact in both_ways(event, epsilons):
        profile = np.minimum(exact + _ROUNDING, 1.0)
        on_hull = lower_hull(np.exp(epsilons), profile)
        masses.append(connect_dots(spacing, points[on_hull], profile[on_hull]).to_dense_pmf())
    return _load("privacy_loss_distribution").PrivacyLossDistribution(*masses)


def _load(module: str) -> ModuleType:
    """A module of `dp_accounting.pld`, which takes seconds to load and is an optional dependency."""
    require_extra("accountant", "pld", "pld")
    return import_module(f"dp_accounting.pld.{module}")


class PldAccountant(LossAccountant):
    """Composes the privacy-loss distributions of dominating pairs; needs dp-accounting, the extra `pld`.

    Formal guarantees, for the adjacency that the events were made for:
        * Every event is replaced by a pair that dominates it in both directions: the largest hockey stick between
          neighbors, joined by chords on a grid of losses, so the grid errs upwards.
        * Never above the Renyi accountant, whose bound is the tighter one for many bounded-range or one-bit releases:
          their worst pair differs from one epsilon to the next. For Gaussians, pure DP and the Gaussian noisy maximum
          the distributions are tighter.

    Edge cases: epsilons above 300 or below 1e-9 are those of the Renyi accountant, and so are those at deltas that the
    rounding of the Fourier transform could hide (below about 2e-9 for 600 releases). Every different event takes about
    0.1 s; Gaussians and zCDP releases count as one. Source: Zhu, Dong & Wang 2022; Doroshenko et al. 2022 (connect the
    dots); docs/proofs/pld.md.

    >>> from pate.accounting import GaussianEvent, PureDpEvent
    >>> accountant = PldAccountant().compose(GaussianEvent(10.0), 20).compose(PureDpEvent(0.5))
    >>> round(accountant.get_epsilon(1e-6), 2)
    2.45
    """

    name = "pld"
    any_order = True

    def __init__(self) -> None:
        _load("privacy_loss_distribution")
        super().__init__()
        self._spent: Counter[LeafEvent] = Counter()
        # of all that was spent, made when it is first asked for
        self._composed: LossDistribution | None = None

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event `count` times, by the distribution of its privacy loss."""
        spent = list(leaves(by_accesses(event), count=require_count("count", count, minimum=0)))
        self._compose_renyi(event, count)
        for leaf, times in spent:
            if times > 0:
                self._spent[leaf] += times
        self._composed = None
        return self

    def _epsilon(self, target_delta: float, bound: float) -> float:
        is_in_reach = _SMALLEST_EPSILON < bound < _LARGEST_EPSILON
        return self._distribution().epsilon(target_delta) if is_in_reach else math.inf

    def _delta(self, target_epsilon: float, bound: float) -> float:
        return self._distribution().delta(target_epsilon)

    def _distribution(self) -> LossDistribution:
        if self._composed is None:
            # all Gaussians as one, and all zCDP releases as one of the summed rho; without free ones
            parts = list[tuple[LeafEvent, int]]()
            multipliers = list[float]()
            rhos = list[float]()
            for leaf, count in self._spent.items():
                if isinstance(leaf, events.GaussianEvent):
                    multipliers.append(leaf.noise_multiplier / math.sqrt(count))
                elif isinstance(leaf, events.ZCdpEvent):
                    rhos.append(count * leaf.rho)
                # else all neighbors' laws are equal
                elif rdp_curve({type(leaf): ([leaf], [1])}, DEFAULT_ORDERS).any():
                    parts.append((leaf, count))
            if multipliers:
                parts.append((events.GaussianEvent.composed(multipliers), 1))
            if (rho := math.fsum(rhos)) > 0:
                parts.append((events.ZCdpEvent(rho), 1))
            self._composed = LossDistribution(parts)
        return self._composed
