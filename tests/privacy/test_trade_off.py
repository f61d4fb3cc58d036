"""Trade-off curves are never above the exact curve of a pair of neighbors, and are close to it."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from scipy.special import gammaln, log_ndtr, ndtri_exp
from scipy.stats import norm

import pate.accounting as pa
from pate.accounting.gaussian_pairs import SampledPair
from pate.array_types import FloatArray

ALPHAS = (1e-6, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.8, 0.99)


def exact_curve(first: FloatArray, second: FloatArray, alphas: FloatArray) -> FloatArray:
    """Returns the least probability of a miss at each alpha, by the tests of Neyman and Pearson.

    Args:
        first: the probabilities of all outcomes if the member takes part, `[num_outcomes]`.
        second: the probabilities of all outcomes otherwise, `[num_outcomes]`.
        alphas: the probabilities of a false alarm.
    """
    order = np.argsort(-first / second)
    false_alarms = np.concatenate([[0.0], np.cumsum(second[order])])
    misses = np.concatenate([[1.0], 1 - np.cumsum(first[order])])
    return np.asarray(np.interp(alphas, false_alarms, misses))


def randomized_responses(epsilon: float, count: int) -> tuple[FloatArray, FloatArray]:
    """Returns both distributions of the number of true answers among `count` randomized responses."""
    number = np.arange(count + 1)
    choices = np.array([math.comb(count, int(k)) for k in number], dtype=np.float64)
    truth = 1 / (1 + math.exp(-epsilon))
    lie = 1 - truth
    return (
        choices * truth**number * lie ** (count - number),
        choices * lie**number * truth ** (count - number),
    )


@pytest.mark.parametrize("accountant", [pa.PureDpAccountant, pa.ExactAccountant, pa.AutoAccountant])
@pytest.mark.parametrize(("epsilon", "count"), [(0.2, 12), (1.0, 1), (2.0, 5)])
def test_randomized_responses_have_their_exact_curve(
    accountant: type[pa.Accountant], epsilon: float, count: int
) -> None:
    """The curve of pure DP is that of randomized responses, from below, with their advantage and mu."""
    spent = accountant().compose(pa.PureDpEvent(epsilon), count)
    first, second = randomized_responses(epsilon, count)
    exact = exact_curve(first, second, alphas=np.array(ALPHAS))
    curve = np.array([spent.trade_off(alpha) for alpha in ALPHAS])
    assert (curve <= exact + 1e-15).all()
    assert curve == pytest.approx(exact, abs=1e-5)
    advantage = np.abs(first - second).sum() / 2
    assert advantage <= spent.advantage() + 1e-15
    assert spent.advantage() == pytest.approx(advantage, abs=1e-5)
    false_alarms = np.cumsum(second[::-1])[:-1]
    powers = np.cumsum(first[::-1])[:-1]
    mu = float(np.max(norm.ppf(powers) - norm.ppf(false_alarms)))
    assert mu <= spent.gdp_mu() <= 1.05 * mu + 1e-9


def test_smaller_price_has_a_curve_above_the_exact_one() -> None:
    """Control: a price that is 10% too small has a curve above the exact one, and too small a mu."""
    spent = pa.AutoAccountant().compose(pa.PureDpEvent(epsilon=0.9 * 0.2), count=12)
    first, second = randomized_responses(epsilon=0.2, count=12)
    exact = exact_curve(first, second, alphas=np.array(ALPHAS))
    curve = np.array([spent.trade_off(alpha) for alpha in ALPHAS])
    assert (curve > exact).any()
    assert spent.advantage() < np.abs(first - second).sum() / 2


def test_mu_of_a_smaller_price_is_too_small() -> None:
    """Control: the mu of a Gaussian release with 10% more noise has a curve above the true one."""
    mu = pa.AutoAccountant().compose(pa.GaussianEvent(noise_multiplier=1.1)).gdp_mu()
    alpha = 0.01
    assert norm.cdf(norm.isf(alpha) - mu) > norm.cdf(norm.isf(alpha) - 1.0)


def attained_mu(pair: Sequence[float], count: int) -> float:
    """Returns the largest mu that tests of `count` equal bits show, at alphas down to the least one.

    A test counts the ones of all bits. Its Gaussian with a smaller mu has a curve above that of the bits.

    Args:
        pair: the logarithms of p, 1 - p, q and 1 - q on two neighbors.
        count: the number of bits.
    """
    ones = np.arange(count, -1, -1)
    choices = gammaln(count + 1) - gammaln(ones + 1) - gammaln(count - ones + 1)
    log_p, log_not_p, log_q, log_not_q = pair
    log_power = np.logaddexp.accumulate(choices + ones * log_p + (count - ones) * log_not_p)
    log_alpha = np.logaddexp.accumulate(choices + ones * log_q + (count - ones) * log_not_q)
    is_below_one = log_power < -1e-6
    mus = ndtri_exp(log_power[is_below_one]) - ndtri_exp(log_alpha[is_below_one])
    return float(mus.max())


def threshold_pair(place: float, step: float) -> tuple[float, ...]:
    """Returns the pair of a threshold bit, for a count at `place` noise stds, which one change moves by `step`."""
    return tuple(float(log_ndtr(z)) for z in (place + step, -place - step, place, -place))


def pair_of_losses(loss_of_one: float, epsilon: float) -> tuple[float, ...]:
    """Returns the pair whose losses are `loss_of_one` and `loss_of_one` - epsilon."""
    log_q = math.log(math.expm1(epsilon - loss_of_one) / math.expm1(epsilon))
    log_not_q = math.log1p(-math.exp(log_q))
    return log_q + loss_of_one, log_not_q + loss_of_one - epsilon, log_q, log_not_q


@pytest.mark.slow
@pytest.mark.parametrize("reach", [1, 2])
@pytest.mark.parametrize("count", [1, 200])
def test_mu_of_bits_is_attained_by_counts_far_from_the_threshold(reach: int, count: int) -> None:
    """The mu is hardly too large, though bits at the threshold alone would have one that is a fifth smaller."""
    std = 20.0
    event: pa.Event = pa.ThresholdEvent(std, lowest=-180.0, num_values=361)
    if reach > 1:
        logits = pa.ThresholdEvent(std, lowest=-180.0, num_values=361).log_odds
        event = pa.OneBitEvent(logits=tuple(logits.tolist()), reach=reach)
    mu = pa.AutoAccountant().compose(event, count).gdp_mu()
    step = reach / std
    attained = max(attained_mu(threshold_pair(place, step), count) for place in (0, -3, -9 + step))
    assert attained <= mu <= 1.05 * attained
    assert mu == pytest.approx(math.sqrt(count) * step, rel=1e-6)
    if count > 1:  # control: the mu of the middle is refuted
        assert attained_mu(threshold_pair(-step / 2, step), count) < 0.85 * attained


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "count"), [(0.1, 1), (1.0, 1), (6.0, 1), (0.1, 600), (0.5, 20)]
)
def test_mu_of_bounded_ranges_is_attained(epsilon: float, count: int) -> None:
    """The exact accountant's mu is within 3% of what a pair shows; that of Renyi curves is never below."""
    event = pa.BoundedRangeEvent(epsilon)
    losses = epsilon * np.linspace(0.02, 0.98, 49)
    attained = max(attained_mu(pair_of_losses(float(loss), epsilon), count) for loss in losses)
    exact = pa.ExactAccountant().compose(event, count).gdp_mu()
    by_renyi = pa.RdpAccountant().compose(event, count).gdp_mu()
    assert attained * (1 - 1e-9) <= exact <= 1.03 * attained
    assert exact <= by_renyi <= 1.3 * attained
    # control: a range 10% smaller has a mu that a pair refutes
    assert (
        pa.ExactAccountant().compose(pa.BoundedRangeEvent(epsilon=0.9 * epsilon), count).gdp_mu()
        < attained
    )


@pytest.mark.parametrize("accountant", [pa.PureDpAccountant, pa.ExactAccountant, pa.AutoAccountant])
def test_profile_of_many_responses_is_exact_where_renyi_curves_bound_nothing(
    accountant: type[pa.Accountant],
) -> None:
    """600 randomized responses have the delta of a binomial at epsilon 0, where Renyi curves give 1."""
    event = pa.PureDpEvent(epsilon=0.2)
    first, second = randomized_responses(epsilon=0.2, count=600)
    spent = accountant().compose(event, count=600)
    delta = float(np.maximum(first - second, 0).sum())
    assert delta * (1 - 1e-12) <= spent.get_delta(target_epsilon=0.0) <= delta + 1e-8
    assert pa.RdpAccountant().compose(event, count=600).get_delta(target_epsilon=0.0) == 1
    pair = (-math.log1p(math.exp(-0.2)), -math.log1p(math.exp(0.2)))
    attained = attained_mu((*pair, *pair[::-1]), 600)
    assert attained <= spent.gdp_mu() <= 1.02 * attained


@pytest.mark.parametrize(
    "event",
    [
        pa.NonPrivateEvent(),
        pa.GaussianEvent(noise_multiplier=0.0),
        pa.PureDpEvent(epsilon=math.inf),
    ],
)
@pytest.mark.parametrize("accountant", [pa.ExactAccountant, pa.AutoAccountant])
def test_release_without_noise_beside_others_has_delta_one(
    accountant: type[pa.Accountant], event: pa.Event
) -> None:
    """600 releases at epsilon 0.2 and one without any protection have delta 1 at every epsilon.

    The distribution of losses leaves out the latter, so it must not be used here.
    """
    spent = accountant().compose(pa.PureDpEvent(epsilon=0.2), count=600).compose(event)
    assert spent.get_delta(target_epsilon=0.0) == spent.get_delta(target_epsilon=30.0) == 1


@pytest.mark.parametrize("sampling_prob", [0.1, 0.5, 0.9])
def test_curve_of_asymmetric_pair_is_below_both_directions(sampling_prob: float) -> None:
    """The curve of a sampled Gaussian is the convex envelope of the curves of both directions."""
    event = pa.SampledGaussianEvent(
        noise_multiplier=0.8, sampling_prob=sampling_prob, adjacency=pa.Adjacency.ADD_REMOVE
    )
    spent = pa.ExactAccountant().compose(event)
    shift = 1 / 0.8
    pair = SampledPair(sampling_prob=sampling_prob, upper_mean=shift, lower_mean=0.0)
    x = np.linspace(-12.0, 12.0 + shift, 40001)
    present = pair.first(x)
    absent = pair.second(x)
    exact_curves = [
        partial(np.interp, xp=absent.above[::-1], fp=present.below[::-1]),
        partial(np.interp, xp=present.below, fp=absent.above),
    ]
    for alpha in ALPHAS:
        # the line of each slope that supports the lower of both curves
        for curve in exact_curves:
            assert spent.trade_off(alpha) <= curve(alpha) + 1e-9
    grid = np.concatenate([np.geomspace(1e-9, 0.01, 2000), np.linspace(0.01, 1, 4000)])
    lower = np.minimum(*(curve(grid) for curve in exact_curves))
    for alpha in (0.01, 0.1, 0.3, 0.5, 0.8):
        slopes = np.linspace(-40, 0, 4001)
        supports = [float(np.min(lower - slope * (grid - alpha))) for slope in slopes]
        assert spent.trade_off(alpha) == pytest.approx(max(supports), abs=2e-3)


def test_failures_bound_the_curve_of_a_release_that_fails() -> None:
    """A release that fails with probability .01 is shown by a curve below 0.99 of the curve without failures."""
    failing = pa.ApproximateEvent(pa.GaussianEvent(noise_multiplier=1.0), failure_prob=0.01)
    spent = pa.AutoAccountant().compose(failing)
    for alpha in ALPHAS:
        # P = .99 N(1, 1) + .01 "failed", Q = .99 N(0, 1) + .01 "fine"
        threshold = norm.isf(min(alpha / 0.99, 1.0))
        assert spent.trade_off(alpha) <= 0.99 * norm.cdf(threshold - 1.0) + 1e-12
    assert spent.gdp_mu() == math.inf


def test_mixture_of_gaussian_and_ranges_is_no_better_than_its_parts() -> None:
    """Gaussians beside bounded ranges have a mu from that of the Gaussians to the sum of the squares of all."""
    ranges = pa.SelfComposedEvent(pa.BoundedRangeEvent(epsilon=0.2), count=50)
    both = pa.ExactAccountant().compose(pa.GaussianEvent(noise_multiplier=1.0)).compose(ranges)
    of_ranges = pa.ExactAccountant().compose(ranges).gdp_mu()
    # a pair of losses 0.1 and -0.1 is one that a bounded range allows
    first, second = randomized_responses(epsilon=0.1, count=50)
    losses = np.log(first / second)
    x = np.linspace(-12, 14, 200001)
    loss_of_gaussian = x - 0.5
    total = losses[:, None] + loss_of_gaussian[::20]
    weights = np.diff(norm.cdf(x - 1.0)[::20], prepend=0.0)
    neighbors = np.diff(norm.cdf(x)[::20], prepend=0.0)
    p = (first[:, None] * weights).ravel()
    q = (second[:, None] * neighbors).ravel()
    exact = exact_curve(first=p + 1e-300, second=q + 1e-300, alphas=np.array(ALPHAS))
    assert total.shape == (51, 10001)
    for alpha, beta in zip(ALPHAS, exact, strict=True):
        assert both.trade_off(alpha) <= beta + 1e-4
    assert 1.0 < both.gdp_mu() <= math.hypot(1.0, of_ranges) * 1.02
