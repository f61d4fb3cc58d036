"""Trade-off curves, the least probability of a miss for each of a false alarm, are never above the exact ones.

For pairs of neighbors whose exact curve is known, the curves are close to it.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import gammaln, log_ndtr, ndtri_exp
from scipy.stats import norm

from pate import accounting
from pate.accounting.gaussian_pairs import SampledPair
from pate.array_types import FloatArray

FALSE_ALARM_PROBS = (1e-6, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.8, 0.99)


def exact_curve(
    member_law: FloatArray, other_law: FloatArray, alphas: Sequence[float] = FALSE_ALARM_PROBS
) -> FloatArray:
    """Returns the smallest probability of a miss at each alpha, by the tests of Neyman and Pearson.

    Args:
        member_law: the probabilities of all outcomes if the member takes part, `[num_outcomes]`.
        other_law: the probabilities of all outcomes otherwise, `[num_outcomes]`.
        alphas: the probabilities of a false alarm.
    """
    order = np.argsort(-member_law / other_law)
    false_alarms = np.concatenate([[0.0], np.cumsum(other_law[order])])
    misses = np.concatenate([[1.0], 1 - np.cumsum(member_law[order])])
    return np.asarray(np.interp(alphas, false_alarms, misses))


def randomized_responses(epsilon: float, count: int) -> tuple[FloatArray, FloatArray]:
    """Returns the distributions, on two neighbors, of the number of yes among `count` randomized responses.

    Yes is the true answer on the first neighbor, and no on the second.
    """
    nums_true = np.arange(count + 1)
    nums_false = count - nums_true
    num_orders = np.array(
        [math.comb(count, num_true) for num_true in nums_true.tolist()], dtype=np.float64
    )
    truth_prob = 1 / (1 + math.exp(-epsilon))
    lie_prob = 1 - truth_prob
    return (
        num_orders * truth_prob**nums_true * lie_prob**nums_false,
        num_orders * lie_prob**nums_true * truth_prob**nums_false,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "accountant",
    [accounting.PureDpAccountant, accounting.ExactAccountant, accounting.AutoAccountant],
)
@pytest.mark.parametrize(("epsilon", "count"), [(0.2, 12), (1.0, 1), (2.0, 5)])
def test_randomized_responses_have_their_exact_curve(
    accountant: type[accounting.Accountant], epsilon: float, count: int
) -> None:
    """The curve of pure DP is at most that of randomized responses, and closer than 1e-5 to it.

    Its advantage is at least theirs and as close to it. Its mu is at least theirs, and at most 5% larger.
    """
    spent = accountant().compose(accounting.PureDpEvent(epsilon), count=count)
    member_law, other_law = randomized_responses(epsilon, count)
    exact = exact_curve(member_law, other_law)
    curve = np.array([spent.trade_off(alpha) for alpha in FALSE_ALARM_PROBS])
    assert (curve <= exact + 1e-15).all()
    assert curve == pytest.approx(exact, abs=1e-5)
    advantage = np.abs(member_law - other_law).sum() / 2
    assert advantage <= spent.advantage() + 1e-15
    assert spent.advantage() == pytest.approx(advantage, abs=1e-5)
    false_alarms = np.cumsum(other_law[::-1])[:-1]
    powers = np.cumsum(member_law[::-1])[:-1]
    mu = float(np.max(norm.ppf(powers) - norm.ppf(false_alarms)))
    assert mu <= spent.gdp_mu() <= 1.05 * mu + 1e-9


def test_smaller_price_has_a_curve_above_the_exact_one() -> None:
    """Negative control: a price that is 10% too small has a curve above the exact one, and too small an advantage."""
    spent = accounting.AutoAccountant().compose(accounting.PureDpEvent(epsilon=0.9 * 0.2), count=12)
    member_law, other_law = randomized_responses(epsilon=0.2, count=12)
    curve = np.array([spent.trade_off(alpha) for alpha in FALSE_ALARM_PROBS])
    assert (curve > exact_curve(member_law, other_law)).any()
    assert spent.advantage() < np.abs(member_law - other_law).sum() / 2


def test_mu_of_a_smaller_price_is_too_small() -> None:
    """Negative control: the mu of a Gaussian release with 10% more noise gives a curve above the true one."""
    mu = (
        accounting.AutoAccountant().compose(accounting.GaussianEvent(noise_multiplier=1.1)).gdp_mu()
    )
    alpha = 0.01
    assert norm.cdf(norm.isf(alpha) - mu) > norm.cdf(norm.isf(alpha) - 1.0)


class BitPair(NamedTuple):
    """The logarithms of the probabilities of a bit on two neighbors.

    Attributes:
        log_p: the logarithm of the probability of a 1 on the data set.
        log_not_p: the logarithm of the probability of a 0 on the data set.
        log_q: the logarithm of the probability of a 1 on the neighbor.
        log_not_q: the logarithm of the probability of a 0 on the neighbor.
    """

    log_p: float
    log_not_p: float
    log_q: float
    log_not_q: float


def attained_mu(pair: BitPair, num_bits: int) -> float:
    """Returns the largest mu that a test of the number of ones among `num_bits` equal bits attains at any alpha.

    A Gaussian with a smaller mu has, at some alpha, a curve above that of the bits.
    """
    num_ones = np.arange(num_bits, -1, -1)
    num_zeros = num_bits - num_ones
    log_orders = gammaln(num_bits + 1) - gammaln(num_ones + 1) - gammaln(num_zeros + 1)
    log_power = np.logaddexp.accumulate(
        log_orders + num_ones * pair.log_p + num_zeros * pair.log_not_p
    )
    log_alpha = np.logaddexp.accumulate(
        log_orders + num_ones * pair.log_q + num_zeros * pair.log_not_q
    )
    is_below_one = log_power < -1e-6
    mus = ndtri_exp(log_power[is_below_one]) - ndtri_exp(log_alpha[is_below_one])
    return float(mus.max())


def threshold_pair(distance: float, *, move: float) -> BitPair:
    """Returns the pair of a bit whether a noisy count is above a threshold, if one change moves it by `move`.

    The count lies `distance` above the threshold on the neighbor, and `distance` + `move` above it on the data set.
    Both numbers are in standard deviations of the noise.
    """
    return BitPair(
        log_p=float(log_ndtr(distance + move)),
        log_not_p=float(log_ndtr(-distance - move)),
        log_q=float(log_ndtr(distance)),
        log_not_q=float(log_ndtr(-distance)),
    )


def bit_pair(*, loss_of_one: float, loss_of_zero: float) -> BitPair:
    """Returns the pair of a bit with privacy loss `loss_of_one` > 0 if it is 1, and `loss_of_zero` < 0 if it is 0."""
    log_q = math.log(math.expm1(-loss_of_zero) / math.expm1(loss_of_one - loss_of_zero))
    log_not_q = math.log1p(-math.exp(log_q))
    return BitPair(
        log_p=log_q + loss_of_one,
        log_not_p=log_not_q + loss_of_zero,
        log_q=log_q,
        log_not_q=log_not_q,
    )


@pytest.mark.slow
@pytest.mark.parametrize("reach", [1, 2])
@pytest.mark.parametrize("count", [1, 200])
def test_mu_of_bits_is_attained_by_counts_far_from_the_threshold(reach: int, count: int) -> None:
    """The mu of threshold bits is at most 5% above what pairs of counts attain.

    One change moves a count by `reach`. Many bits at the threshold alone attain less than 85% of the mu that is
    attained.
    """
    noise_std = 20.0
    threshold_event = accounting.ThresholdEvent(noise_std, lowest=-180.0, num_values=361)
    event: accounting.Event = threshold_event
    if reach > 1:
        event = accounting.OneBitEvent(logits=tuple(threshold_event.log_odds.tolist()), reach=reach)
    mu = accounting.AutoAccountant().compose(event, count=count).gdp_mu()
    move = reach / noise_std
    attained = max(
        attained_mu(threshold_pair(distance, move=move), num_bits=count)
        for distance in (0, -3, -9 + move)
    )
    assert attained <= mu <= 1.05 * attained
    assert mu == pytest.approx(math.sqrt(count) * move, rel=1e-6)
    if count > 1:  # control: the mu of the pair in the middle is refuted
        middle_pair = threshold_pair(distance=-move / 2, move=move)
        assert attained_mu(middle_pair, num_bits=count) < 0.85 * attained


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "count"), [(0.1, 1), (1.0, 1), (6.0, 1), (0.1, 600), (0.5, 20)]
)
def test_mu_of_bounded_ranges_is_attained(epsilon: float, count: int) -> None:
    """The exact accountant's mu of bounded ranges is at most 3% above what a pair attains.

    The Renyi accountant's mu is not smaller. Negative control: the mu of a range that is 10% smaller is refuted.
    """
    event = accounting.BoundedRangeEvent(epsilon)
    losses_of_one = epsilon * np.linspace(0.02, 0.98, 49)
    attained = max(
        attained_mu(bit_pair(loss_of_one=loss, loss_of_zero=loss - epsilon), num_bits=count)
        for loss in losses_of_one.tolist()
    )
    exact = accounting.ExactAccountant().compose(event, count=count).gdp_mu()
    by_renyi = accounting.RdpAccountant().compose(event, count=count).gdp_mu()
    assert attained * (1 - 1e-9) <= exact <= 1.03 * attained
    assert exact <= by_renyi <= 1.3 * attained
    # control: a range 10% smaller has a mu that a pair refutes
    smaller_event = accounting.BoundedRangeEvent(epsilon=0.9 * epsilon)
    assert accounting.ExactAccountant().compose(smaller_event, count=count).gdp_mu() < attained


@pytest.mark.parametrize(
    "accountant",
    [accounting.PureDpAccountant, accounting.ExactAccountant, accounting.AutoAccountant],
)
def test_profile_of_many_responses_is_exact_where_renyi_curves_bound_nothing(
    accountant: type[accounting.Accountant],
) -> None:
    """At epsilon 0, 600 randomized responses have the exact delta of a binomial, where the Renyi accountant gives 1."""
    epsilon = 0.2
    event = accounting.PureDpEvent(epsilon)
    member_law, other_law = randomized_responses(epsilon, count=600)
    spent = accountant().compose(event, count=600)
    delta = float(np.maximum(member_law - other_law, 0).sum())
    assert delta * (1 - 1e-12) <= spent.get_delta(target_epsilon=0.0) <= delta + 1e-8
    assert accounting.RdpAccountant().compose(event, count=600).get_delta(target_epsilon=0.0) == 1
    log_truth = -math.log1p(math.exp(-epsilon))
    log_lie = -math.log1p(math.exp(epsilon))
    response_pair = BitPair(log_p=log_truth, log_not_p=log_lie, log_q=log_lie, log_not_q=log_truth)
    attained = attained_mu(response_pair, num_bits=600)
    assert attained <= spent.gdp_mu() <= 1.02 * attained


@pytest.mark.parametrize(
    "event",
    [
        accounting.NonPrivateEvent(),
        accounting.GaussianEvent(noise_multiplier=0.0),
        accounting.PureDpEvent(epsilon=math.inf),
    ],
)
@pytest.mark.parametrize("accountant", [accounting.ExactAccountant, accounting.AutoAccountant])
def test_release_without_noise_beside_others_has_delta_one(
    accountant: type[accounting.Accountant], event: accounting.Event
) -> None:
    """600 releases of epsilon 0.2 each and one without any noise have delta 1 at the epsilons 0 and 30.

    A distribution of privacy losses would leave out the release without noise, so it must not be used here.
    """
    spent = accountant().compose(accounting.PureDpEvent(epsilon=0.2), count=600).compose(event)
    assert spent.get_delta(target_epsilon=0.0) == spent.get_delta(target_epsilon=30.0) == 1


@pytest.mark.slow
@pytest.mark.parametrize("sampling_prob", [0.1, 0.5, 0.9])
def test_curve_of_asymmetric_pair_is_below_both_directions(sampling_prob: float) -> None:
    """The curve of a sampled Gaussian is the convex envelope of the curves of both directions, within 0.002."""
    event = accounting.SampledGaussianEvent(
        noise_multiplier=0.8, sampling_prob=sampling_prob, adjacency=accounting.Adjacency.ADD_REMOVE
    )
    spent = accounting.ExactAccountant().compose(event)
    mean_shift = 1 / 0.8
    pair = SampledPair(sampling_prob=sampling_prob, upper_mean=mean_shift, lower_mean=0.0)
    outcomes = np.linspace(-12.0, 12.0 + mean_shift, 40001)
    present = pair.first_tails(outcomes)
    absent = pair.second_tails(outcomes)

    def lower_curve(alphas: FloatArray) -> FloatArray:
        """Returns the smaller of both directions' probabilities of a miss at each alpha."""
        upward_miss_probs = np.interp(alphas, absent.above[::-1], present.below[::-1])
        downward_miss_probs = np.interp(alphas, present.below, absent.above)
        return np.minimum(upward_miss_probs, downward_miss_probs)

    for alpha, miss_prob in zip(
        FALSE_ALARM_PROBS, lower_curve(np.array(FALSE_ALARM_PROBS)), strict=True
    ):
        assert spent.trade_off(alpha) <= miss_prob + 1e-9
    grid = np.concatenate([np.geomspace(1e-9, 0.01, 2000), np.linspace(0.01, 1, 4000)])
    miss_probs = lower_curve(grid)
    for alpha in (0.01, 0.1, 0.3, 0.5, 0.8):
        # the values at alpha of the lines of each slope that support the lower curve
        supports = [
            float(np.min(miss_probs - slope * (grid - alpha)))
            for slope in np.linspace(-40, 0, 4001)
        ]
        assert spent.trade_off(alpha) == pytest.approx(max(supports), abs=2e-3)


def test_failures_bound_the_curve_of_a_release_that_fails() -> None:
    """The curve for a Gaussian release that fails with probability 0.01 is at most the true curve of such a release.

    If this release fails, it tells which of two neighbors the data set is. Otherwise it is N(1, 1) on one neighbor and
    N(0, 1) on the other. So its true curve at alpha is 0.99 times the Gaussian curve at alpha / 0.99. The mu that the
    accountant returns for a release that may fail is infinite.
    """
    failing = accounting.ApproximateEvent(
        accounting.GaussianEvent(noise_multiplier=1.0), failure_prob=0.01
    )
    spent = accounting.AutoAccountant().compose(failing)
    for alpha in FALSE_ALARM_PROBS:
        # P = .99 N(1, 1) + .01 "failed", Q = .99 N(0, 1) + .01 "fine"
        threshold = norm.isf(min(alpha / 0.99, 1.0))
        assert spent.trade_off(alpha) <= 0.99 * norm.cdf(threshold - 1.0) + 1e-12
    assert spent.gdp_mu() == math.inf


@pytest.mark.slow
def test_mixture_of_gaussian_and_ranges_is_no_better_than_its_parts() -> None:
    """The mu of a Gaussian release beside bounded ranges lies above that of the Gaussian alone.

    It is at most 2% above the root of the sum of two squares: of the Gaussian's mu and of the mu of the ranges. The
    curve of all these releases is at most that of an exact pair.
    """
    ranges = accounting.SelfComposedEvent(accounting.BoundedRangeEvent(epsilon=0.2), count=50)
    both = (
        accounting.ExactAccountant()
        .compose(accounting.GaussianEvent(noise_multiplier=1.0))
        .compose(ranges)
    )
    mu_of_ranges = accounting.ExactAccountant().compose(ranges).gdp_mu()
    # a pair of losses 0.1 and -0.1 is one that a bounded range allows
    member_responses, other_responses = randomized_responses(epsilon=0.1, count=50)
    edges = np.linspace(-12, 14, 10001)
    member_gaussian = np.diff(norm.cdf(edges - 1.0), prepend=0.0)
    other_gaussian = np.diff(norm.cdf(edges), prepend=0.0)
    exact = exact_curve(
        member_law=np.outer(member_responses, member_gaussian).ravel() + 1e-300,
        other_law=np.outer(other_responses, other_gaussian).ravel() + 1e-300,
    )
    for alpha, miss_prob in zip(FALSE_ALARM_PROBS, exact, strict=True):
        assert both.trade_off(alpha) <= miss_prob + 1e-4
    assert 1.0 < both.gdp_mu() <= math.hypot(1.0, mu_of_ranges) * 1.02
