"""Top-k by noise that is added to all counts once: prices, scales, exact distributions, and refusals."""

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest

from pate.accounting import Adjacency
from pate.mechanisms import (
    LimitedDomainTopK,
    LipschitzTopK,
    OneShotTopK,
    PeelingTopK,
    SubsetPeeling,
    TopStableTopK,
)
from pate.mechanisms.noise import maxima
from pate.mechanisms.noise.drawn_noise import draw_largest
from pate.mechanisms.noise.kinds import KINDS, UNIT_NOISES
from pate.mechanisms.noise.maxima import ordered_distribution
from pate.testing import Claim, verify
from pate.validation import InvalidValue
from tests.refusals import refused_parameter


def test_one_shot_gumbel_is_peeling() -> None:
    """The k largest counts after Gumbel noise have distribution and price of k exponential mechanisms in turn."""
    counts = np.array([4, 0, 3, 3])
    peeling = PeelingTopK(k=3, epsilon=4.0)
    counts_in_scales = (counts - counts.max()) / peeling.noise_scale
    by_quadrature = ordered_distribution(
        values_in_scales=counts_in_scales, k=3, unit_noise=UNIT_NOISES["gumbel"]
    )
    distribution = peeling.distribution(counts)
    assert by_quadrature.keys() == distribution.keys()
    for outcome, probability in distribution.items():
        assert by_quadrature[outcome] == pytest.approx(probability, rel=1e-10)
    assert OneShotTopK(k=3, epsilon=4.0).event == peeling.event


@pytest.mark.parametrize("noise", list(UNIT_NOISES))
def test_noise_agrees_with_its_own_distribution_function(noise: str) -> None:
    """Quantiles of each kind of noise invert its distribution function, and its density is the slope of this function.

    The density at x is at most the probability of noise above x, so that this probability falls no faster than e^-x.
    """
    kind = UNIT_NOISES[noise]
    points = np.linspace(max(kind.negligible_below, -3), 8, num=45)[1:]
    probs_below = kind.cdf(points)
    log_negative_log_probs_below = np.log(-np.log(probs_below))
    log_probs_above = np.log1p(-probs_below)
    quantiles = kind.quantile_of_logs(log_negative_log_probs_below, log_probs_above)
    np.testing.assert_allclose(quantiles, desired=points, rtol=1e-9, atol=1e-9)
    densities = kind.density(points)
    slopes = (kind.cdf(points + 1e-6) - kind.cdf(points - 1e-6)) / 2e-6
    np.testing.assert_allclose(densities, desired=slopes, rtol=1e-6, atol=2e-6)
    assert (densities <= (1 - probs_below) * (1 + 1e-9)).all()


@pytest.mark.parametrize("noise_kind", list(UNIT_NOISES))
@pytest.mark.parametrize("log_num_noises", [5.0, 1000.0])
def test_largest_of_many_noises_has_the_mean_of_its_distribution(
    noise_kind: str, log_num_noises: float
) -> None:
    """The largest of N draws of noise lies near log N and varies like one Gumbel variable, for N up to e^1000.

    The tail of each kind of noise is near exp(-x), half of it for Laplace noise and twice it for half-logistic noise.
    """
    # e^1000, which is no float, is about 10^434.
    num_noises = int(np.exp(log_num_noises)) if log_num_noises < 700 else 10**434

    def exact_num_noises(_row: int, _column: int) -> int:
        return num_noises

    largest = draw_largest(
        noise_kind,
        log_num_noises=np.full((1, 20_000), log_num_noises),
        count_noises=exact_num_noises,
        rng=np.random.default_rng(0),
    )
    excess = largest.values - log_num_noises
    log_tail_factor = {"laplace": -np.log(2), "half_logistic": np.log(2)}.get(noise_kind, 0.0)
    assert excess.mean() - log_tail_factor == pytest.approx(np.euler_gamma, abs=0.06)
    assert excess.std() == pytest.approx(np.pi / np.sqrt(6), rel=0.04)


COUNTS = np.array([6, 2, 5, 4, 0])
CANDIDATE_MASK = np.array([True, False, True, True, True])


@pytest.mark.parametrize("num_picks", [1, 2, 3])
def test_picks_of_subset_peeling_have_the_distribution_of_peeling(num_picks: int) -> None:
    """Subset peeling has the distribution of `PeelingTopK` at the same rho on its candidates.

    The order of the picks does not count.
    """
    peeling = SubsetPeeling(noise_scale=3.0)
    candidates = np.flatnonzero(CANDIDATE_MASK)
    ordered_peeling = PeelingTopK(k=num_picks, rho=peeling.event.rho)
    expected: Counter[tuple[int, ...]] = Counter()
    for picks, probability in ordered_peeling.distribution(COUNTS[candidates]).items():
        labels = np.sort(candidates[list(picks)])
        expected[tuple(labels.tolist())] += probability
    distribution = peeling.distribution_of(
        COUNTS, candidate_mask=CANDIDATE_MASK, num_picks=num_picks
    )
    assert distribution == pytest.approx(dict(expected), rel=1e-12)


def test_impossible_parameters_are_refused() -> None:
    """Subset peeling refuses a noise scale of nan, and an exact distribution over too many sequences.

    `LipschitzTopK` refuses the name of an unknown noise.
    """
    with refused_parameter("noise_scale", value="nan", rule_words="a number > 0"):
        SubsetPeeling(noise_scale=math.nan)
    with refused_parameter("counts", value="970200 sequences", rule_words="at most 100000"):
        SubsetPeeling(noise_scale=1.0).distribution_of(
            np.arange(100), candidate_mask=np.ones(100, dtype=bool), num_picks=3
        )
    with refused_parameter("noise", value="laplas"):
        LipschitzTopK(k=1, epsilon=0.1, noise="laplas")


LIMITED_DOMAIN = LimitedDomainTopK(k=2, domain_size=3, epsilon=6.0, failure_prob=0.1)
TOP_STABLE = TopStableTopK(k=1, domain_size=3, epsilon=3.0, failure_prob=0.2)


def test_nothing_outside_the_domain_is_released_and_nothing_below_the_bottom() -> None:
    """Only the 3 of 4 labels with the largest counts (the domain) are drawn, and no label follows the bottom symbol.

    The bottom symbol is -1.
    """
    equal_queries = np.tile([2, 5, 4, 1], (5_000, 1))
    labels = LIMITED_DOMAIN(equal_queries, rng=np.random.default_rng(0)).indices
    assert set(labels.ravel().tolist()) == {-1, 0, 1, 2}
    begins_with_bottom = labels[:, 0] < 0
    assert (labels[begins_with_bottom] == -1).all()


def test_the_smallest_protected_gap_passes_with_the_failure_probability() -> None:
    """If one teacher can close the gap below the third label, the top three are released with the failure probability.

    The scale of the gap's noise is 4 times the gap sensitivity, divided by the epsilon of 3. With a failure probability
    of 0.9, the threshold is 0.
    """
    for adjacency in Adjacency:
        mechanism = replace(TOP_STABLE, k=3, failure_prob=1e-3, adjacency=adjacency)
        counts = np.array([9, 9, 9, 9 - adjacency.gap_sensitivity])
        assert mechanism.distribution(counts)[0, 1, 2] == pytest.approx(1e-3, rel=1e-9)
        assert mechanism.gap_scale == 2 * mechanism.threshold_scale
        assert mechanism.gap_scale == 4 * adjacency.gap_sensitivity / 3.0
    assert replace(TOP_STABLE, k=3, failure_prob=0.9).threshold == 0


@pytest.mark.parametrize("failure_prob", [0.1, 1e-3, 3e-6, 1e-9, 7e-14])
def test_a_rounded_threshold_is_not_passed_too_often(failure_prob: float) -> None:
    """Noise alone exceeds the threshold with at most `failure_prob / domain_size`, computed with 50 digits."""
    for domain_size in range(1, 9):
        mechanism = replace(TOP_STABLE, k=1, domain_size=domain_size, failure_prob=failure_prob)
        with mpmath.workdps(50):
            u = mpmath.exp(-mpmath.mpf(mechanism.threshold) / mechanism.threshold_scale / 2)
            pass_probability = (4 * u - u * u) / 6
            assert pass_probability * domain_size <= mpmath.mpf(failure_prob)


def test_the_price_of_add_remove_does_not_hold_for_replacing_a_record() -> None:
    """The price of a mechanism for the add-remove adjacency is refuted when it is verified for replace-one.

    This is the negative control of `privacy/test_shipped.py`, which verifies the price for add-remove.
    """
    mechanism = TopStableTopK(
        k=1, domain_size=2, epsilon=2.0, failure_prob=0.01, adjacency=Adjacency.ADD_REMOVE
    )
    assert verify(
        mechanism.distribution,
        event=Claim(deltas=((2.0, 0.01),)),
        num_labels=3,
        num_teachers=4,
        adjacency=Adjacency.REPLACE_ONE,
    ).refuted


@pytest.mark.parametrize("mechanism", [LIMITED_DOMAIN, TOP_STABLE], ids=["limited", "stable"])
def test_impossible_arguments_and_counts_are_refused(mechanism: Any) -> None:
    """`LimitedDomainTopK` and `TopStableTopK` refuse impossible failure probabilities, epsilons and counts.

    They choose among the largest counts, the domain, and refuse an impossible number of these, too.
    """
    with refused_parameter("domain_size", value=0):
        replace(mechanism, domain_size=0)
    with refused_parameter("failure_prob", value=0):
        replace(mechanism, failure_prob=0)
    with refused_parameter("failure_prob", value=1.0):
        replace(mechanism, failure_prob=1.0)
    with refused_parameter("epsilon", value=-1):
        replace(mechanism, epsilon=-1)
    for counts, name in (([1, 2], "domain_size"), ([1, 2, -4], "counts")):
        with pytest.raises(InvalidValue, match=rf"^{name}.*: expected"):
            mechanism(np.array(counts), rng=np.random.default_rng(0))


def test_a_stable_set_needs_a_label_outside_its_domain() -> None:
    """`TopStableTopK`, which chooses among the 3 largest counts, refuses counts of only 3 labels."""
    with refused_parameter("domain_size", value=3, rule_words="at most 2"):
        TOP_STABLE(np.array([3, 2, 1]), rng=np.random.default_rng(0))


ARGMAX_DISTRIBUTIONS = {
    "gumbel": maxima.gumbel_noise_argmax,
    "exponential": maxima.exponential_noise_argmax,
    "gaussian": maxima.gaussian_argmax,
    "laplace": maxima.laplace_argmax,
}


@pytest.mark.parametrize("noise", ARGMAX_DISTRIBUTIONS)
@pytest.mark.parametrize("num_candidates", [1, 2, 40])
def test_equal_values_are_equally_likely(noise: str, num_candidates: int) -> None:
    """Candidates with equal values win with equal probability, for each kind of noise."""
    equal_values = np.full((1, num_candidates), 3.7)
    probabilities = ARGMAX_DISTRIBUTIONS[noise](equal_values)
    assert probabilities.shape == (1, num_candidates)
    np.testing.assert_allclose(probabilities, desired=1 / num_candidates, rtol=1e-9)


@pytest.mark.parametrize("num_values", [2, 32, 33, 100, 300])
def test_uniform_noise_of_many_tied_values_in_closed_form(num_values: int) -> None:
    """Uniform noise on [-1, 1] is added to n - 1 tied values and to one that is 0.3 larger.

    The larger one lies above 1 with probability .15, and then wins for sure. The probability that it lies below 1 and
    wins is (1 - .15^n) / n, the integral of ((x + 1) / 2)^(n - 1) / 2 from -.7 to 1.
    """
    values = np.zeros(num_values)
    values[0] = 0.3
    distribution = ordered_distribution(values, k=1, unit_noise=KINDS["uniform"])
    win_below_1 = (1 - 0.15**num_values) / num_values
    assert distribution[(0,)] == pytest.approx(0.15 + win_below_1, rel=1e-12)


def test_two_candidates_in_closed_form() -> None:
    """A candidate that is 1.3 noise scales ahead wins if the difference of two draws of noise is at most 1.3.

    This probability has a closed form for each kind of noise.
    """
    lead = mpmath.mpf("1.3")
    expected = {
        "gumbel": 1 / (1 + mpmath.exp(-lead)),
        "exponential": 1 - mpmath.exp(-lead) / 2,
        "gaussian": mpmath.ncdf(lead / mpmath.sqrt(2)),
        "laplace": 1 - mpmath.exp(-lead) * (2 + lead) / 4,
    }
    values_in_scales = np.array([[1.3, 0.0]])
    for noise, argmax_distribution in ARGMAX_DISTRIBUTIONS.items():
        probabilities = argmax_distribution(values_in_scales)
        assert probabilities[0, 0] == pytest.approx(float(expected[noise]), rel=1e-10), noise
