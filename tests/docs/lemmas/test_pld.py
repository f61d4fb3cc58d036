"""Privacy profiles by docs/proofs/pld.md, against exact pairs, chords, and two releases chosen adaptively."""

import math
from collections.abc import Callable
from itertools import combinations

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


def larger_hockey_sticks(first_law: np.ndarray, second_law: np.ndarray) -> np.ndarray:
    """Returns the larger hockey stick of the two directions at each epsilon of `EPSILONS`."""
    factor = np.exp(EPSILONS)[:, None]
    return np.maximum(
        np.maximum(first_law - factor * second_law, 0).sum(axis=1),
        np.maximum(second_law - factor * first_law, 0).sum(axis=1),
    )


def draw_bounded_range_pair(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns the laws of an exponential mechanism whose utilities move by up to 1.2."""
    utilities = rng.uniform(high=2, size=4)
    utility_moves = rng.uniform(high=1.2, size=4)
    first_weights = np.exp(utilities)
    second_weights = np.exp(utilities + utility_moves)
    return first_weights / first_weights.sum(), second_weights / second_weights.sum()


def draw_pure_pair(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns two laws whose ratios are within e^1.2."""
    second_law = rng.dirichlet(np.ones(4))
    first_weights = second_law * np.exp(rng.choice([-0.6, 0.6], size=4))
    return first_weights / first_weights.sum(), second_law


def draw_maximum_pair(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns the laws of which of five gaps is largest with noise of std 2, before and after moves of up to 1."""
    gaps = rng.uniform(high=3, size=5)
    gap_moves = rng.choice([-1.0, 0.0, 1.0], size=5)
    return gaussian_argmax(gaps / 2.0), gaussian_argmax((gaps + gap_moves) / 2.0)


@pytest.mark.parametrize(
    ("event", "draw_pair"),
    [
        (BoundedRangeEvent(epsilon=1.2), draw_bounded_range_pair),
        (PureDpEvent(epsilon=1.2), draw_pure_pair),
        (NoisyMaxGaussianEvent(noise_multiplier=2.0, num_candidates=5), draw_maximum_pair),
    ],
    ids=["range", "pure", "maximum"],
)
def test_profiles_are_above_random_pairs_in_both_directions(
    event: LeafEvent, draw_pair: Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]
) -> None:
    """The profile of an event is at least the hockey stick of 60 random pairs that the event allows, both ways round.

    At some epsilon a pair exceeds 30% of the profile.
    """
    rng = np.random.default_rng(0)
    profile = privacy_profile(event, epsilons=EPSILONS)
    largest_sticks = np.zeros_like(EPSILONS)
    for _ in range(60):
        first_law, second_law = draw_pair(rng)
        largest_sticks = np.maximum(largest_sticks, larger_hockey_sticks(first_law, second_law))
    assert (largest_sticks <= profile + 1e-9).all()
    assert (largest_sticks > 0.3 * profile).any()


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
    """If seven tied gaps move up and down in turn, their hockey stick is at most the profile of the noisy maximum.

    Negative control: the profile for two thirds more noise is exceeded.
    """
    gaps = np.full(7, 1.0)
    gap_moves = np.where(np.arange(7) % 2, -1.0, 1.0)
    sticks = larger_hockey_sticks(
        first_law=gaussian_argmax(gaps / 2.0), second_law=gaussian_argmax((gaps + gap_moves) / 2.0)
    )
    profile, smaller_profile = (
        privacy_profile(
            event=NoisyMaxGaussianEvent(noise_multiplier=noise_multiplier, num_candidates=7),
            epsilons=EPSILONS,
        )
        for noise_multiplier in (2.0, 2.0 / 0.6)
    )
    assert (sticks <= profile + 1e-9).all()
    assert (sticks > smaller_profile + 1e-4).any()


def test_bits_within_reach_both_ways_round() -> None:
    """A noisy bit's profile is the largest hockey stick of two logits at most 2 places apart, both ways round.

    Places are those in the list of logits.
    """
    logits = (-4.0, -1.0, 0.5, 0.7, 6.0)
    laws = [np.array([expit(logit), expit(-logit)]) for logit in logits]
    sticks_of_pairs = [
        larger_hockey_sticks(laws[first], second_law=laws[second])
        for first, second in combinations(range(len(laws)), 2)
        if second - first <= 2
    ]
    profile = privacy_profile(event=OneBitEvent(logits=logits, reach=2), epsilons=EPSILONS)
    assert profile == pytest.approx(np.max(sticks_of_pairs, axis=0), abs=1e-12)


def test_a_profile_of_zcdp_is_above_the_gaussian_of_that_rho() -> None:
    """The convex minorant of the profile of rho-zCDP is at least the profile of the Gaussian of the same rho.

    Negative control: the profile of half of the rho is exceeded.
    """
    rho = 0.08
    gaussian_profile, zcdp_profile, half_zcdp_profile = (
        privacy_profile(event, epsilons=EPSILONS)
        for event in (
            GaussianEvent(noise_multiplier=1 / math.sqrt(2 * rho)),
            ZCdpEvent(rho=rho),
            ZCdpEvent(rho=0.5 * rho),
        )
    )
    assert (gaussian_profile <= convex_minorant(x=np.exp(EPSILONS), y=zcdp_profile) + 1e-12).all()
    assert (gaussian_profile > half_zcdp_profile).any()


def test_the_minorant_is_the_largest_convex_function_below_the_points() -> None:
    """The convex minorant of random points above a convex function is at most the points, and at least that function.

    The minorant is also at least the chords of that function between the corners of the minorant.
    """
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(high=5, size=60))
    convex = np.exp(-x)
    y = convex + rng.uniform(high=0.2, size=60)
    lower_hull_corners = lower_hull(x, y)
    minorant = convex_minorant(x=x, y=y)
    lower_hull_slopes = np.diff(y[lower_hull_corners]) / np.diff(x[lower_hull_corners])
    assert (np.diff(lower_hull_slopes) > 0).all()
    assert (minorant <= y + 1e-12).all()
    # chords of the convex function below y
    assert (
        np.interp(x, x[lower_hull_corners], convex[lower_hull_corners]) <= minorant + 1e-12
    ).all()
    assert (convex <= minorant + 1e-12).all()


def test_two_releases_the_second_chosen_after_the_first() -> None:
    """The composed loss distribution has at least the delta of an adversary who sees one release before the other.

    The first release is pure DP, and the second, which the adversary then chooses, has a bounded range. Delta is at
    most 5% and 0.001 more. Negative control: events that are 10% smaller have less than the adversary's delta.
    """
    events = (PureDpEvent(epsilon=0.4), BoundedRangeEvent(epsilon=0.9))
    composed = LossDistribution(counted_events=[(event, 1) for event in events])
    composed_of_smaller_events = LossDistribution(
        counted_events=[(PureDpEvent(epsilon=0.36), 1), (BoundedRangeEvent(epsilon=0.81), 1)]
    )

    def largest_second_delta(first_loss: float, epsilon: float) -> float:
        """Returns the largest delta after a loss of the first release, over 33 pairs of two points of the second."""
        up_losses = np.linspace(0.05, 0.85, 33)
        down_losses = up_losses - 0.9
        up_probs = np.expm1(-down_losses) / (np.exp(-down_losses) - np.exp(-up_losses))
        after_up = np.maximum(0.0, -np.expm1(epsilon - first_loss - up_losses))
        after_down = np.maximum(0.0, -np.expm1(epsilon - first_loss - down_losses))
        return float((up_probs * after_up + (1 - up_probs) * after_down).max())

    truth_prob = float(expit(0.4))
    for epsilon in (0.1, 0.5, 0.9):
        after_truth = largest_second_delta(first_loss=0.4, epsilon=epsilon)
        after_lie = largest_second_delta(first_loss=-0.4, epsilon=epsilon)
        delta_of_best_adversary = truth_prob * after_truth + (1 - truth_prob) * after_lie
        assert (
            delta_of_best_adversary
            <= composed.delta(epsilon)
            <= delta_of_best_adversary * 1.05 + 1e-3
        )
        assert composed_of_smaller_events.delta(epsilon) < delta_of_best_adversary
