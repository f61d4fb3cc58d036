"""The alternatives: how far one group can move a sum, and two densities against the price of a sampled step."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from pate.accounting import GaussianEvent, PldAccountant, RdpAccountant, SampledGaussianEvent, SelfComposedEvent
from pate.accounting.pld.profile import privacy_profile
from pate.comparison.alternatives.group_gradients import GroupGradients, NoisySum
from pate.verification import verify_densities

Array = NDArray[np.float64]
CLIP = 0.4


def mixture(sampling_prob: float, shift: float, std: float) -> object:
    """Log density of a sum that a unit moves by `shift`, if it takes part."""

    def log_density(x: Array) -> Array:
        away = math.log(sampling_prob) + norm.logpdf(x, shift, std)
        if sampling_prob == 1:
            return np.asarray(away)
        return np.logaddexp(math.log1p(-sampling_prob) + norm.logpdf(x, 0, std), away)

    return log_density


@pytest.mark.parametrize("sampling_prob", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("std", [0.8, 3.0])
def test_two_densities_of_a_replaced_unit_are_within_the_price(sampling_prob: float, std: float) -> None:
    """A unit that counts for +1, and for -1 in the neighbor. The control: sensitivity 1 in place of 2."""
    sides = [mixture(sampling_prob, shift, std) for shift in (1.0, -1.0)]
    ends = {"low": -12 * std - 2, "high": 12 * std + 2}
    price = SampledGaussianEvent(std / 2, sampling_prob)
    assert verify_densities(*sides, **ends, event=price).sound  # type: ignore[arg-type]
    false = SampledGaussianEvent(std / 1, sampling_prob)
    assert verify_densities(*sides, **ends, event=false).refuted  # type: ignore[arg-type]


@pytest.mark.parametrize(("sampling_prob", "std"), [(0.05, 0.7), (0.05, 2.0), (0.5, 0.7), (0.5, 2.0)])
def test_hockey_sticks_of_replaced_units_are_below_the_profile(sampling_prob: float, std: float) -> None:
    """In the plane, at all angles and lengths of what the unit was and is, by quadrature."""
    axis = np.linspace(-9 * std, 9 * std, 321)
    x, y = np.meshgrid(axis, axis)
    cell = (axis[1] - axis[0]) ** 2
    epsilons = np.linspace(-2, 3, 11)
    profile = privacy_profile(SampledGaussianEvent(std / 2, sampling_prob), epsilons)
    false = privacy_profile(SampledGaussianEvent(std, sampling_prob), epsilons)

    def density(place: tuple[float, float]) -> Array:
        def normal(u: float, v: float) -> Array:
            return np.asarray(norm.pdf(x, u, std) * norm.pdf(y, v, std))

        return (1 - sampling_prob) * normal(0, 0) + sampling_prob * normal(*place)

    worst = np.zeros_like(epsilons)
    for angle, length in product(np.linspace(0, math.pi, 4), (0.0, 0.5, 1.0)):
        first, second = density((1.0, 0.0)), density((length * math.cos(angle), length * math.sin(angle)))
        for p, q in ((first, second), (second, first)):
            found = [float(np.maximum(p - math.exp(e) * q, 0).sum() * cell) for e in epsilons]
            worst = np.maximum(worst, found)
    assert (worst <= profile + 1e-6).all()
    assert (worst > false + 1e-4).any()


def test_a_sampled_price_is_above_that_of_others_for_units_added_and_near_it() -> None:
    """Google's dp-accounting prices a unit that comes or goes; the bound here serves both adjacencies."""
    pld = pytest.importorskip("dp_accounting.pld.pld_privacy_accountant")
    for noise, sampling_prob, steps in ((3.3, 0.066, 100), (6.0, 0.5, 60)):
        event = SelfComposedEvent(SampledGaussianEvent(noise, sampling_prob), steps)
        theirs = pld.PLDAccountant().compose(event.to_dp_event()).get_epsilon(1e-6)
        found = PldAccountant().compose(event).get_epsilon(1e-6)
        renyi = RdpAccountant().compose(event).get_epsilon(1e-6)
        assert theirs * 0.999 < found < 1.1 * theirs
        assert found < renyi < 1.15 * found


def test_without_sampling_it_is_a_gaussian() -> None:
    for accountant in (RdpAccountant, PldAccountant):
        sampled = accountant().compose(SampledGaussianEvent(2.0, 1.0), 9).get_epsilon(1e-5)
        assert sampled == pytest.approx(accountant().compose(GaussianEvent(2.0), 9).get_epsilon(1e-5), rel=2e-3)


def test_a_rarer_sample_is_never_dearer() -> None:
    for accountant in (RdpAccountant, PldAccountant):
        prices = [
            accountant().compose(SampledGaussianEvent(1.0, share), 5).get_epsilon(1e-5)
            for share in (1e-6, 1e-3, 0.1, 0.5, 0.9, 1.0)
        ]
        assert all(low <= high * (1 + 1e-6) for low, high in pairwise(prices))


def adversaries(rng: np.random.Generator) -> list[tuple[Array, NDArray[np.bool_]]]:
    """What a group may be: one record or many, agreeing or not, of length 1."""
    found = []
    for size in (1, 1, 2, 3, 40):
        features = rng.normal(size=(size, 3))
        features[0] = [1.0, 0.0, 0.0]
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        found += [(features, rng.random((size, 2)) < 0.5), (features, np.ones((size, 2), bool))]
        found += [(np.repeat(sign * features[:1], size, 0), np.ones((size, 2), bool)) for sign in (1, -1)]
    return found


def test_a_group_moves_the_rounded_sum_by_at_most_the_sensitivity() -> None:
    """Whatever a group is replaced by, of any number of records. The control: one clip is not enough."""
    rng = np.random.default_rng(0)
    rest = rng.normal(size=(30, 3))
    rest /= np.linalg.norm(rest, axis=1, keepdims=True)
    labels, ids = rng.random((30, 2)) < 0.3, np.arange(30) // 2
    noisy = NoisySum(CLIP, 1.0, 16)
    weights, bias = rng.normal(size=(3, 2)), np.array([-1.0, 0.5])
    sums = []
    for features, given in adversaries(rng):
        groups = GroupGradients.of(
            np.concatenate([rest, features]),
            np.concatenate([labels, given]),
            np.concatenate([ids, np.full(len(features), 99)]),
        )
        assert groups.num_groups == 16
        sums.append(np.rint(groups.clipped_sum(weights, bias, CLIP) / noisy.step(6)))
    furthest = max(float(np.linalg.norm(first - second)) for first, second in product(sums, sums))
    assert furthest <= noisy.sensitivity(6)
    assert furthest > 0.9 * noisy.sensitivity(6)  # so a sensitivity of one clip is refuted


def test_unclipped_sums_of_a_groups_records_would_move_further() -> None:
    """The control: clipping each record, and adding a group's up, is not the group's privacy."""
    features, labels = np.tile([1.0, 0.0], (40, 1)), np.ones((40, 2), bool)
    apart = GroupGradients.of(features, labels, np.arange(40)).clipped_sum(np.zeros((2, 2)), np.zeros(2), CLIP)
    together = GroupGradients.of(features, labels, np.zeros(40, int)).clipped_sum(np.zeros((2, 2)), np.zeros(2), CLIP)
    assert np.linalg.norm(together) <= CLIP * (1 + 1e-12)
    assert np.linalg.norm(apart) == pytest.approx(40 * CLIP)
