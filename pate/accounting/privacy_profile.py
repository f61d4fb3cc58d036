"""The privacy profile of an event: a bound on delta at every epsilon.

The *privacy profile* f of an event bounds the delta of every ordered pair of neighbors with output distributions P and
P' (the hockey-stick divergence), at each positive or negative epsilon:

    f(epsilon) >= sup over sets S of  P(S) - e^epsilon P'(S).

The relation between neighbors is symmetric, so one profile holds for both directions. Any function above the supremum
that is convex in e^epsilon, never rises, and is 1 at e^epsilon = 0, is the profile of some pair of distributions. That
pair dominates the event in every adaptive composition (Zhu, Dong & Wang 2022; docs/proofs/pld.md).
"""

from __future__ import annotations

import math

import numpy as np

from pate.accounting import events
from pate.accounting.bit_pairs import bit_pairs
from pate.accounting.event_tree import count_leaves
from pate.accounting.events import LeafEvent
from pate.accounting.noisy_maximum import noisy_maximum_profile
from pate.accounting.rdp import DEFAULT_ORDERS, rdp_curve
from pate.accounting.sampled_gaussian import sampled_gaussian_profiles
from pate.accounting.special import log_ndtr, ndtr
from pate.array_types import FloatArray


def privacy_profile(event: LeafEvent, epsilons: FloatArray) -> FloatArray:
    """Returns an upper bound on the delta of a release at each epsilon, `[num_epsilons]`.

    The returned values are at most 1, and at least max(0, 1 - e^epsilon), the profile of two equal distributions.

    Args:
        event: the price of the release.
        epsilons: rising epsilons, positive or negative, `[num_epsilons]`.
    """
    profile_of_equal_distributions = np.maximum(-np.expm1(epsilons), 0.0)
    return np.clip(_profile(event, epsilons), profile_of_equal_distributions, 1.0)


def profiles_both_ways(event: LeafEvent, epsilons: FloatArray) -> list[FloatArray]:
    """Returns the privacy profiles of both directions between two neighbors, `[num_epsilons]` each.

    The directions are the two orders (D, D') and (D', D) of the neighbors. The list has one profile where both
    directions have the same. For a sampled Gaussian under `ADD_REMOVE` the unit is missing from the same one of the two
    data sets at every step. So each direction is composed separately, and the larger total is the price. A composition
    of the larger profiles would cost more.

    Args:
        event: the price of the release.
        epsilons: rising epsilons, positive or negative, `[num_epsilons]`.
    """
    if not isinstance(event, events.SampledGaussianEvent):
        return [privacy_profile(event, epsilons)]
    profile_of_equal_distributions = np.maximum(-np.expm1(epsilons), 0.0)
    profiles = [
        np.clip(profile, profile_of_equal_distributions, 1.0)
        for profile in sampled_gaussian_profiles(event, epsilons)
    ]
    # Rounding may let a profile rise by its last digit.
    return [np.minimum.accumulate(profile) for profile in profiles]


def _profile(event: LeafEvent, epsilons: FloatArray) -> FloatArray:
    """Returns the privacy profile of an event, `[num_epsilons]`, before the limits of every profile are applied.

    The limits are 1 above, and max(0, 1 - e^epsilon) below. Where the class of the event has no profile of its own,
    the result follows from the Renyi curve.
    """
    # scipy loads slowly. Our own `expit` may differ in the last digit from the totals that ledgers have kept.
    from scipy.special import expit

    match event:
        case events.GaussianEvent():
            return _gaussian_profile(event.noise_multiplier, epsilons)
        case events.WinnerEvent():
            # A winner has the profile of its counts: at every epsilon some threshold on two counts attains it
            # (docs/proofs/winner.md).
            return _gaussian_profile(event.noise_multiplier / event.num_moving**0.5, epsilons)
        case events.SampledGaussianEvent():
            # If a unit is added or removed, this is the larger of both directions.
            return np.asarray(np.max(profiles_both_ways(event, epsilons), axis=0))
        case events.PureDpEvent():
            # Randomized response is the worst release (Kairouz, Oh & Viswanath 2015).
            prob_of_truth = expit(event.epsilon)
            prob_of_lie = expit(-event.epsilon)
            return np.asarray(prob_of_truth - np.exp(epsilons) * prob_of_lie)
        case events.BoundedRangeEvent():
            # The worst pair has two outcomes, with the losses t and t - r, where r is the range. At an epsilon x with
            # |x| <= r the largest delta is that of t = (r + x) / 2, which is (1 - e^((x - r) / 2))^2 / (1 - e^-r).
            event_range = event.epsilon
            is_within_range = np.abs(epsilons) <= event_range
            root = -np.expm1((np.where(is_within_range, epsilons, 0.0) - event_range) / 2)
            return np.where(is_within_range, root * root / -math.expm1(-event_range), 0.0)
        case events.BitEvent():
            return _bit_profile(event, epsilons)
        case events.NoisyMaxGaussianEvent():
            return noisy_maximum_profile(event, epsilons)
    return _profile_by_renyi(event, epsilons)


def _gaussian_profile(noise_multiplier: float, epsilons: FloatArray) -> FloatArray:
    """Returns the privacy profile of a Gaussian release, `[num_epsilons]` (Balle & Wang 2018, Theorem 8).

    Args:
        noise_multiplier: noise std / l2 sensitivity.
        epsilons: rising epsilons, positive or negative, `[num_epsilons]`.
    """
    mu = 1 / noise_multiplier
    first_quantile = -epsilons / mu + mu / 2
    second_quantile = -epsilons / mu - mu / 2
    # Phi(first_quantile) - e^epsilon Phi(second_quantile)
    return np.asarray(ndtr(first_quantile) - np.exp(epsilons + log_ndtr(second_quantile)))


def _bit_profile(event: events.BitEvent, epsilons: FloatArray) -> FloatArray:
    """Returns the privacy profile of the release of one bit, `[num_epsilons]`.

    The profile is the largest over both outcomes, and over all neighbors in either order. The bit depends on an integer
    statistic, which differs by at most `event.reach` between neighbors.
    """
    from scipy.special import expit

    exp_epsilons = np.exp(epsilons)
    lower_logits, higher_logits = bit_pairs(event)
    # both directions between the neighbors, for a 1 and for a 0
    logit_pairs = (
        (higher_logits, lower_logits),
        (lower_logits, higher_logits),
        (-higher_logits, -lower_logits),
        (-lower_logits, -higher_logits),
    )
    profile = np.zeros_like(epsilons)
    for bit_logits_under_p, bit_logits_under_q in logit_pairs:
        for p, q in zip(expit(bit_logits_under_p), expit(bit_logits_under_q), strict=True):
            np.maximum(profile, p - exp_epsilons * q, out=profile)
    return profile


def _profile_by_renyi(event: LeafEvent, epsilons: FloatArray) -> FloatArray:
    """Returns a privacy profile that follows from the Renyi curve of an event, `[num_epsilons]`.

    At each epsilon it is the smallest delta over the default grid of orders. At epsilon < 0 it is at most the bound
    that the exchanged neighbors, which have the same Renyi curve, give: 1 - e^epsilon + e^epsilon delta(-epsilon). The
    result need not be convex in e^epsilon, and is not made so.
    """
    orders = DEFAULT_ORDERS
    rdp = rdp_curve(count_leaves(event), orders=DEFAULT_ORDERS)

    def smallest_deltas_at(epsilons_of_deltas: FloatArray) -> FloatArray:
        """Returns the smallest delta of the event over all `orders`, given its divergences `rdp`, for each epsilon.

        The formula is that of Canonne et al. (2020).
        """
        log_deltas_by_epsilon_and_order = (orders - 1) * (
            rdp - epsilons_of_deltas[:, None] + np.log1p(-1 / orders)
        ) - np.log(orders)
        return np.asarray(np.exp(np.minimum(log_deltas_by_epsilon_and_order.min(axis=1), 0.0)))

    # At epsilons above 0 the exchange is left out, because it would multiply rounding errors by e^epsilon.
    exp_epsilons = np.exp(np.minimum(epsilons, 0.0))
    exchanged_deltas = np.where(
        epsilons < 0, 1 - exp_epsilons + exp_epsilons * smallest_deltas_at(-epsilons), 1.0
    )
    return np.asarray(np.minimum(smallest_deltas_at(epsilons), exchanged_deltas))
