"""Profiles by docs/proofs/pld.md, against exact pairs, chords, and two releases chosen adaptively."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from scipy.special import expit

from pate.accounting import (
    BoundedRangeEvent,
    GaussianEvent,
    NoisyMaxGaussianEvent,
    OneBitEvent,
    PureDpEvent,
    ZCdpEvent,
)
from pate.accounting.convex import convex_minorant, lower_hull
from pate.accounting.events import LeafEvent
from pate.accounting.loss_distribution import LossDistribution
from pate.accounting.privacy_profile import privacy_profile
from pate.mechanisms.noise.maxima import gaussian_argmax

EPSILONS = np.linspace(-3.0, 3.0, 241)


def hockey_sticks(first_law: np.ndarray, second_law: np.ndarray) -> np.ndarray:
    """Returns the larger hockey stick of the two directions at each epsilon of `EPSILONS`."""
    factor = np.exp(EPSILONS)[:, None]
    return np.maximum(
        np.maximum(first_law - factor * second_law, 0).sum(axis=1),
        np.maximum(second_law - factor * first_law, 0).sum(axis=1),
    )


def pairs(name: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns a random pair of distributions that the event `KINDS[name]` allows."""
    # an exponential mechanism with utilities that move by at most half the range
    if name == "range":
        u = rng.uniform(0, 2, 4)
        moves = rng.uniform(0, 1.2, 4)
        p = np.exp(u)
        q = np.exp(u + moves)
        return p / p.sum(), q / q.sum()
    if name == "pure":
        q = rng.dirichlet(np.ones(4))
        ratio = np.exp(rng.choice([-0.6, 0.6], 4))
        p = q * ratio
        return p / p.sum(), q
    gaps = rng.uniform(0, 3, 5)
    return gaussian_argmax(gaps / 2.0), gaussian_argmax(
        (gaps + rng.choice([-1.0, 0.0, 1.0], 5)) / 2.0
    )


KINDS: dict[str, LeafEvent] = {
    "range": BoundedRangeEvent(epsilon=1.2),
    "pure": PureDpEvent(epsilon=1.2),
    "maximum": NoisyMaxGaussianEvent(noise_multiplier=2.0, num_candidates=5),
}


@pytest.mark.parametrize("name", KINDS)
def test_profiles_are_above_random_pairs_in_both_directions(name: str) -> None:
    """The profile of an event is at least the hockey stick of 60 random pairs that the event allows, in both
    directions.

    At some epsilon, a pair exceeds 30% of the profile.
    """
    rng = np.random.default_rng(0)
    profile = privacy_profile(event=KINDS[name], epsilons=EPSILONS)
    worst = np.zeros_like(EPSILONS)
    for _ in range(60):
        worst = np.maximum(worst, hockey_sticks(*pairs(name, rng)))
    assert (worst <= profile + 1e-9).all()
    assert (worst > 0.3 * profile).any()


def test_the_profile_of_a_bounded_range_is_attained() -> None:
    """The largest delta of two-point pairs, over their larger loss t, is at most the profile of a bounded range.

    For epsilons that are over 0.05 within the range, it equals the profile.
    """
    width = 1.2
    profile = privacy_profile(event=BoundedRangeEvent(epsilon=width), epsilons=EPSILONS)
    t = np.linspace(1e-9, width - 1e-9, 4001)[:, None]
    likely_share = -np.expm1(width - t) / (np.exp(-t) - np.exp(width - t))
    searched = np.maximum(likely_share * -np.expm1(EPSILONS - t), 0.0).max(axis=0)
    assert (searched <= profile + 1e-12).all()
    inside = np.abs(EPSILONS) < width - 0.05
    assert searched[inside] == pytest.approx(profile[inside], abs=1e-6)


def test_the_profile_of_a_maximum_covers_alternating_moves() -> None:
    """Seven gaps are tied and move alternately: their hockey stick is at most the profile of the
    noisy maximum.

    Negative control: the profile for two thirds more noise is exceeded.
    """
    gaps = np.full(7, 1.0)
    p = gaussian_argmax(gaps / 2.0)
    q = gaussian_argmax((gaps + np.where(np.arange(7) % 2, -1.0, 1.0)) / 2.0)
    profile = privacy_profile(
        event=NoisyMaxGaussianEvent(noise_multiplier=2.0, num_candidates=7), epsilons=EPSILONS
    )
    assert (hockey_sticks(first_law=p, second_law=q) <= profile + 1e-9).all()
    smaller = privacy_profile(
        event=NoisyMaxGaussianEvent(noise_multiplier=2.0 / 0.6, num_candidates=7), epsilons=EPSILONS
    )
    assert (hockey_sticks(first_law=p, second_law=q) > smaller + 1e-4).any()


def test_bits_within_reach_both_ways_round() -> None:
    """The profile of a noisy bit is the largest hockey stick of all pairs of logits at most 2 places apart.

    Both directions count.
    """
    logits = (-4.0, -1.0, 0.5, 0.7, 6.0)
    worst = np.zeros_like(EPSILONS)
    for i, j in combinations(range(5), 2):
        if j - i <= 2:
            p, q = (np.array([expit(logits[k]), expit(-logits[k])]) for k in (i, j))
            worst = np.maximum(worst, hockey_sticks(first_law=p, second_law=q))
    assert privacy_profile(event=OneBitEvent(logits, reach=2), epsilons=EPSILONS) == pytest.approx(
        worst, abs=1e-12
    )


def test_a_profile_of_zcdp_is_above_the_gaussian_of_that_rho() -> None:
    """The convex minorant of the profile of rho-zCDP is at least the profile of the Gaussian of the same rho.

    Negative control: the profile of half of the rho is exceeded.
    """
    rho = 0.08
    gaussian = privacy_profile(
        event=GaussianEvent(noise_multiplier=1 / math.sqrt(2 * rho)), epsilons=EPSILONS
    )
    assert (
        gaussian
        <= convex_minorant(
            x=np.exp(EPSILONS), y=privacy_profile(event=ZCdpEvent(rho), epsilons=EPSILONS)
        )
        + 1e-12
    ).all()
    assert (gaussian > privacy_profile(event=ZCdpEvent(rho=0.5 * rho), epsilons=EPSILONS)).any()


def test_the_minorant_is_the_largest_convex_function_below_the_points() -> None:
    """Random points lie above a convex function: their minorant is convex, at most the points, and
    at least this function and its chords.
    """
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0, 5, 60))
    convex = np.exp(-x)
    y = convex + rng.uniform(0, 0.2, 60)
    corners = lower_hull(x, y)
    minorant = convex_minorant(x, y)
    slopes = np.diff(y[corners]) / np.diff(x[corners])
    assert (np.diff(slopes) > 0).all()
    assert (minorant <= y + 1e-12).all()
    # chords of any convex function below y
    assert (np.interp(x, x[corners], convex[corners]) <= minorant + 1e-12).all()
    assert (convex <= minorant + 1e-12).all()


def test_two_releases_the_second_chosen_after_the_first() -> None:
    """The best adversary on a pure-DP release and a bounded range, whose pair it chooses afterwards, is within the
    price.

    The composed distributions have at least its delta, and at most 5% and 0.001 more. Negative control: events that are
    10% smaller have less than its delta.
    """
    events = (PureDpEvent(epsilon=0.4), BoundedRangeEvent(epsilon=0.9))
    composed = LossDistribution(counted_events=[(event, 1) for event in events])
    truth = float(expit(0.4))
    first = [(truth, 0.4), (1 - truth, -0.4)]
    choices = [
        [(float(p), t), (float(1 - p), t - 0.9)]
        for t in np.linspace(0.05, 0.85, 33)
        for p in (np.expm1(0.9 - t) / (np.exp(0.9 - t) - np.exp(-t)),)
    ]
    for target in (0.1, 0.5, 0.9):
        values = [
            sum(
                p * max(0.0, -math.expm1(target - loss - more))
                for (_, loss), (p, more) in product([outcome], choice)
            )
            for outcome in first
            for choice in choices
        ]
        by_outcome = np.array(values).reshape(2, len(choices)).max(axis=1)
        best = sum(mass * value for (mass, _), value in zip(first, by_outcome, strict=True))
        assert best <= composed.delta(target) <= best * 1.05 + 1e-3
        cheaper = LossDistribution(
            counted_events=[(PureDpEvent(epsilon=0.36), 1), (BoundedRangeEvent(epsilon=0.81), 1)]
        )
        assert cheaper.delta(target) < best
