"""The PLD accountant: composition of privacy-loss distributions (PLDs), computed with Google's dp-accounting.

The *privacy profile* f of an event bounds the delta of every ordered pair of neighbors with output distributions P and
P' (the hockey-stick divergence), at each positive or negative epsilon:

    f(epsilon) >= sup over sets S of  P(S) - e^epsilon P'(S).

The relation between neighbors is symmetric, so one profile holds for both directions. Any function above the supremum
that is convex in e^epsilon, never rises, and is 1 at e^epsilon = 0, is the profile of some pair of distributions. That
pair dominates the event in every adaptive composition. So the accountant convolves the distributions of the privacy
losses of these pairs (Zhu, Dong & Wang 2022; docs/proofs/pld.md).
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

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

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

# the range of epsilons for which a grid is made
_SMALLEST_EPSILON = 1e-9
_LARGEST_EPSILON = 300.0
_NEGLIGIBLE = 1e-13  # the delta where the grid of all releases ends
_NEGLIGIBLE_LEAF = 1e-15  # the delta where the grid of one release ends
_ROUNDING = 1e-13  # added to every profile: above what double precision computes too small
# points on either side of 0 of the grid of all releases
_FEWEST_POINTS = 2.0**10
_MOST_POINTS = 2.0**17
_POINTS_PER_RELEASE = 2**10


def privacy_profile(event: LeafEvent, epsilons: Array) -> Array:
    """Returns an upper bound on the delta of a release at each epsilon, `[num_epsilons]`.

    The returned values are at most 1, and at least max(0, 1 - e^epsilon), the profile of two equal distributions.

    Args:
        event: the price of the release.
        epsilons: rising epsilons, positive or negative, `[num_epsilons]`.
    """
    return np.clip(_profile(event, epsilons), np.maximum(-np.expm1(epsilons), 0.0), 1.0)


def _profile(event: LeafEvent, epsilons: Array) -> Array:
    """Returns the privacy profile of an event, `[num_epsilons]`, before it is limited to its valid range.

    The profile is a closed form where the class of the event has one, and else follows from the Renyi curve.
    """
    # scipy loads slowly. Our own `expit` may differ in the last digit from the totals that ledgers have kept.
    from scipy.special import expit

    factor = np.exp(epsilons)
    match event:
        case events.GaussianEvent() | events.WinnerEvent():
            # The event's own pair (Balle & Wang 2018, Theorem 8). A winner has the profile of its counts: at every
            # epsilon some threshold on two counts attains it (docs/proofs/winner.md).
            mu = 1 / (event.noise_multiplier / getattr(event, "num_moving", 1) ** 0.5)
            near = -epsilons / mu + mu / 2
            far = -epsilons / mu - mu / 2
            return np.asarray(ndtr(near) - np.exp(epsilons + log_ndtr(far)))
        case events.SampledGaussianEvent():
            # the event's own pair; the larger of both directions where the unit may come or go
            return np.asarray(np.max(profiles_both_ways(event, epsilons), axis=0))
        case events.PureDpEvent():
            # randomized response (Kairouz, Oh & Viswanath 2015)
            truth = expit(event.epsilon)
            lie = expit(-event.epsilon)
            return np.asarray(truth - factor * lie)
        case events.BoundedRangeEvent():
            # The supremum over two-point pairs with losses t and t - e is attained at t = (epsilon + e) / 2.
            is_inside = np.abs(epsilons) <= event.epsilon
            gap = -np.expm1((np.where(is_inside, epsilons, 0.0) - event.epsilon) / 2)
            return np.where(is_inside, gap * gap / -math.expm1(-event.epsilon), 0.0)
        case events.BitEvent():
            # the largest over pairs of statistics `reach` apart, both outcomes, both directions
            lower, higher = bit_pairs(event)
            profile = np.zeros_like(epsilons)
            for p_logits, q_logits in (
                (higher, lower),
                (lower, higher),
                (-higher, -lower),
                (-lower, -higher),
            ):
                for p, q in zip(expit(p_logits), expit(q_logits), strict=True):
                    np.maximum(profile, p - factor * q, out=profile)
            return profile
        case events.NoisyMaxGaussianEvent():
            return noisy_maximum_profile(event, epsilons)
    return _profile_by_renyi(event, epsilons)


def _profile_by_renyi(event: LeafEvent, epsilons: Array) -> Array:
    """Returns a privacy profile that follows from the Renyi curve of an event, `[num_epsilons]`.

    At each epsilon the delta is the smallest over the orders of the grid. At epsilon < 0 the two distributions are
    exchanged: f(epsilon) = 1 - e^epsilon + e^epsilon f'(-epsilon). The largest convex function below the result is
    still a valid profile.
    """
    orders = DEFAULT_ORDERS
    rdp = rdp_curve({type(event): ([event], [1])}, orders=DEFAULT_ORDERS)

    def smallest_deltas(epsilons_of_deltas: Array) -> Array:
        """Returns the delta of Canonne, Kamath & Steinke (2020) at the best order for each epsilon."""
        log_deltas = (orders - 1) * (
            rdp - epsilons_of_deltas[:, None] + np.log1p(-1 / orders)
        ) - np.log(orders)
        return np.asarray(np.exp(np.minimum(log_deltas.min(axis=1), 0.0)))

    # Above 0 the exchange would magnify rounding errors by e^epsilon.
    factor = np.exp(np.minimum(epsilons, 0.0))
    exchanged = np.where(epsilons < 0, 1 - factor + factor * smallest_deltas(-epsilons), 1.0)
    return np.asarray(np.minimum(smallest_deltas(epsilons), exchanged))


def profiles_both_ways(event: LeafEvent, epsilons: Array) -> list[Array]:
    """Returns the privacy profiles of both directions between two neighbors, `[num_epsilons]` each.

    The list has one profile where both directions have the same. For a sampled Gaussian under `ADD_REMOVE` the unit is
    missing from the same one of both data sets at every step. So each direction is composed separately, and the larger
    total is the price. A composition of the larger profiles would cost more.

    Args:
        event: the price of the release.
        epsilons: rising epsilons, positive or negative, `[num_epsilons]`.
    """
    if not isinstance(event, events.SampledGaussianEvent):
        return [privacy_profile(event, epsilons)]
    of_equal = np.maximum(-np.expm1(epsilons), 0.0)
    profiles = sampled_gaussian_profiles(event, epsilons)
    # Rounding may let a profile rise by its last digit.
    return [np.minimum.accumulate(np.clip(profile, of_equal, 1.0)) for profile in profiles]


class LossDistribution:
    """The distribution of the summed privacy loss of several releases, on a grid of losses.

    Where no grid can hold the losses, every epsilon is infinite and every delta is 1.

    Args:
        counted_events: pairs of the price of a release and the number of such releases.
    """

    def __init__(self, counted_events: list[tuple[LeafEvent, int]]) -> None:
        # the epsilons that each release, and all of them together, exceed with a negligible probability
        reaches = [
            RdpAccountant().compose(event).get_epsilon(_NEGLIGIBLE_LEAF)
            for event, _ in counted_events
        ]
        reach = RdpAccountant().compose_all(counted_events).get_epsilon(_NEGLIGIBLE)
        self._losses: PrivacyLossDistribution | None = None
        self.allowance = 0.0  # added to every delta for the rounding of Fourier transforms
        if not counted_events or not _SMALLEST_EPSILON < reach < _LARGEST_EPSILON:
            return
        finest = reach / _MOST_POINTS
        coarsest = reach / _FEWEST_POINTS
        spacing = float(np.clip(4 * min(reaches) / _POINTS_PER_RELEASE, finest, coarsest))
        losses = []
        for (event, count), reach_of_part in zip(counted_events, reaches, strict=True):
            loss = _discretized(event, spacing, reach=min(reach_of_part, reach))
            losses.append(loss.self_compose(count))
        self._losses = losses[0]
        for loss in losses[1:]:
            self._losses = self._losses.compose(loss)
        size = 4 * reach / spacing
        num_transforms = len(counted_events) + sum(count for _, count in counted_events)
        rounding_of_one = math.sqrt(size) * math.log2(size) * float(np.finfo(float).eps)
        self.allowance = num_transforms * rounding_of_one

    def epsilon(self, target_delta: float) -> float:
        """Returns an upper bound on epsilon at `target_delta`, with the mass beyond the grid and rounding included."""
        if self._losses is None or target_delta <= self.allowance:
            return math.inf
        return float(self._losses.get_epsilon_for_delta(target_delta - self.allowance))

    def delta(self, target_epsilon: float) -> float:
        """Returns an upper bound on delta at `target_epsilon`, with the mass beyond the grid and rounding included."""
        if self._losses is None:
            return 1.0
        return min(1.0, float(self._losses.get_delta_for_epsilon(target_epsilon)) + self.allowance)


@lru_cache(maxsize=16)  # the price after each query asks again for the same
def _discretized(event: LeafEvent, spacing: float, reach: float) -> Any:
    """Returns the loss distribution of one release as a `PrivacyLossDistribution` of dp-accounting.

    Args:
        event: the price of the release.
        spacing: the distance between two losses of the grid.
        reach: the largest loss of the grid.
    """
    num_cells = math.ceil(reach / spacing)
    stride = math.ceil(num_cells / _POINTS_PER_RELEASE)  # chords over several cells are chords, too
    num_strides = math.ceil(num_cells / stride)
    points = np.arange(-num_strides, num_strides + 1) * stride
    epsilons = np.asarray(points * spacing, dtype=np.float64)
    masses = []
    connect_dots = _load("pld_pmf").create_pmf_pessimistic_connect_dots
    for exact_profile in profiles_both_ways(event, epsilons):
        profile = np.minimum(exact_profile + _ROUNDING, 1.0)
        on_hull = lower_hull(np.exp(epsilons), profile)
        masses.append(connect_dots(spacing, points[on_hull], profile[on_hull]).to_dense_pmf())
    # the second distribution, of the other direction, is None where both directions have the same
    pmf_remove, pmf_add = masses if len(masses) == 2 else (masses[0], None)
    return _load("privacy_loss_distribution").PrivacyLossDistribution(
        pmf_remove=pmf_remove, pmf_add=pmf_add
    )


def _load(module_name: str) -> ModuleType:
    """Imports and returns the module of `dp_accounting.pld` with this name.

    dp-accounting is optional and takes seconds to load. Raises an error that names the extra `pld` where it is missing.
    """
    require_extra("accountant", "pld", "pld")
    return import_module(f"dp_accounting.pld.{module_name}")


class PldAccountant(LossAccountant):
    """An accountant that composes privacy-loss distributions; it needs dp-accounting, the extra `pld`.

    Formal guarantees, for the adjacency that the events were made for:
        * Every event is replaced by a pair of distributions that dominates it in both directions. The profile of the
          pair is exact on a grid of losses and linear in e^epsilon between its points, so it errs upwards.
        * A total is never above that of `RdpAccountant`. The Renyi bound is the smaller one for many bounded-range or
          one-bit releases, because their worst pair differs from one epsilon to the next. The loss distributions give
          the smaller bound for Gaussians, pure DP and the Gaussian noisy maximum.

    Edge cases: epsilons above 300 or below 1e-9 are those of `RdpAccountant`. So are epsilons at tiny deltas, which the
    rounding of the Fourier transform could exceed: below about 2e-9 for 600 releases. Every distinct event takes about
    0.1 s; all Gaussians count as one event, and so do all zCDP releases. Source: Zhu, Dong & Wang 2022; Doroshenko et
    al. 2022 (connect the dots); docs/proofs/pld.md.

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
        # the distribution of all that was spent, made for the first figure
        self._composed: LossDistribution | None = None

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event to the total, `count` times, by the distribution of its privacy loss; returns this accountant.

        Raises `InvalidValue`, and adds nothing, where the accountant cannot price an event within `event`.
        """
        spent = list(
            leaves(by_accesses(event), num_releases=require_count("count", count, minimum=0))
        )
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
        """Returns the distribution of the summed privacy loss of all events, from a cache.

        All Gaussians are replaced by one equivalent Gaussian, and all zCDP events by one with the sum of their rho.
        """
        if self._composed is None:
            counted_events = list[tuple[LeafEvent, int]]()
            multipliers = list[float]()
            rhos = list[float]()
            for leaf, count in self._spent.items():
                if isinstance(leaf, events.GaussianEvent):
                    multipliers.append(leaf.noise_multiplier / math.sqrt(count))
                elif isinstance(leaf, events.ZCdpEvent):
                    rhos.append(count * leaf.rho)
                elif rdp_curve({type(leaf): ([leaf], [1])}, orders=DEFAULT_ORDERS).any():
                    counted_events.append((leaf, count))  # without events that cost nothing
            if multipliers:
                counted_events.append((events.GaussianEvent.composed(multipliers), 1))
            total_rho = math.fsum(rhos)
            if total_rho > 0:
                counted_events.append((events.ZCdpEvent(total_rho), 1))
            self._composed = LossDistribution(counted_events)
        return self._composed
