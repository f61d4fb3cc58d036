"""Top-k by noise on counts once: prices, scales, laws in closed form and of the noisy maximum, refusals."""

import math
from collections import Counter
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
from pate.mechanisms.noise.kinds import UNIT_NOISES
from pate.mechanisms.noise.maxima import ordered_distribution
from pate.testing import Claim, verify
from pate.validation import InvalidValue
from tests.refusals import refused


def test_one_shot_gumbel_is_peeling() -> None:
    """The k largest counts after Gumbel noise have the distribution of k exponential mechanisms in
    turn, and the same price.
    """
    counts = np.array([4, 0, 3, 3])
    values = (counts - counts.max()) / PeelingTopK(k=3, epsilon=4.0).noise_scale
    by_quadrature = ordered_distribution(values, k=3, noise_kind=UNIT_NOISES["gumbel"])
    peeled = PeelingTopK(k=3, epsilon=4.0).distribution(counts)
    assert by_quadrature.keys() == peeled.keys()
    for outcome, probability in peeled.items():
        assert by_quadrature[outcome] == pytest.approx(probability, rel=1e-10)
    assert OneShotTopK(k=3, epsilon=4.0).event == PeelingTopK(k=3, epsilon=4.0).event


@pytest.mark.parametrize("noise", list(UNIT_NOISES))
def test_noise_agrees_with_its_own_distribution_function(noise: str) -> None:
    """Quantiles of each kind of noise invert its distribution function, and its density is the slope of this
    function.

    The density is at most the probability of larger noise, so that this probability falls no faster than e^-x.
    """
    kind = UNIT_NOISES[noise]
    x = np.linspace(max(kind.low, -3), 8, 45)[1:]
    log_q = np.log(-np.log(kind.cdf(x)))
    np.testing.assert_allclose(
        kind.quantile_of_log(log_q, np.log1p(-kind.cdf(x))), desired=x, rtol=1e-9, atol=1e-9
    )
    slopes = (kind.cdf(x + 1e-6) - kind.cdf(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(kind.density(x), slopes, rtol=1e-6, atol=2e-6)
    assert (kind.density(x) <= (1 - kind.cdf(x)) * (1 + 1e-9)).all()


@pytest.mark.parametrize("noise", list(UNIT_NOISES))
@pytest.mark.parametrize("log_size", [5.0, 1000.0])
def test_largest_of_many_noises_has_the_mean_of_its_distribution(
    noise: str, log_size: float
) -> None:
    """The largest of N draws of noise lies near log N and varies like one Gumbel variable, for N up
    to e^1000.

    Each kind of noise has a tail of at most 2 exp(-x).
    """
    rng = np.random.default_rng(0)
    size = int(np.exp(log_size)) if log_size < 700 else 10**434
    values = (
        draw_largest(
            noise,
            log_num_noises=np.full((1, 20_000), log_size),
            exact_num_noises=lambda row, place: size,
            rng=rng,
        ).values
        - log_size
    )
    shift = {"laplace": -np.log(2), "half_logistic": np.log(2)}.get(noise, 0.0)
    assert values.mean() - shift == pytest.approx(np.euler_gamma, abs=0.06)
    assert values.std() == pytest.approx(np.pi / np.sqrt(6), rel=0.04)


COUNTS = np.array([6, 2, 5, 4, 0])
PART = np.array([True, False, True, True, True])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_j_picks_of_subset_peeling_have_the_distribution_of_peeling(size: int) -> None:
    """Subset peeling picks `size` labels among a part of all labels.

    Its distribution is that of `PeelingTopK` at the same rho on that part, without the order of the
    picks.
    """
    peeling = SubsetPeeling(noise_scale=3.0)
    ordered = PeelingTopK(k=size, rho=peeling.event.rho).distribution(COUNTS[PART])
    expected: Counter[tuple[int, ...]] = Counter()
    for picks, probability in ordered.items():
        expected[tuple(sorted(np.flatnonzero(PART)[list(picks)].tolist()))] += probability
    distribution = peeling.distribution_of(COUNTS, candidate_mask=PART, num_picks=size)
    assert distribution == pytest.approx(dict(expected), rel=1e-12)


def test_impossible_parameters_are_refused() -> None:
    """Subset peeling refuses a noise scale of nan, and an exact distribution over too many sequences.

    `LipschitzTopK` refuses an unknown noise.
    """
    with refused("noise_scale", value="nan", rule="a number > 0"):
        SubsetPeeling(noise_scale=math.nan)
    with refused("counts", value="970200 sequences", rule="at most 100000"):
        SubsetPeeling(noise_scale=1.0).distribution_of(
            np.arange(100), candidate_mask=np.ones(100, dtype=bool), num_picks=3
        )
    with refused("noise", value="laplas"):
        LipschitzTopK(k=1, epsilon=0.1, noise="laplas")


def mechanism(
    k: int = 2, domain_size: int = 3, epsilon: float = 6.0, failure_prob: float = 0.1
) -> LimitedDomainTopK:
    """Returns a limited-domain top-k mechanism."""
    return LimitedDomainTopK(
        k=k, domain_size=domain_size, epsilon=epsilon, failure_prob=failure_prob
    )


def test_nothing_outside_the_domain_is_released_and_nothing_below_the_bottom() -> None:
    """Of 4 labels, the 3 with the largest counts are the domain, and only these are drawn.

    -1 stands for the bottom; if it comes first, no label follows.
    """
    outcome = mechanism()(np.tile([2, 5, 4, 1], (5_000, 1)), rng=np.random.default_rng(0)).indices
    assert set(outcome.ravel().tolist()) == {-1, 0, 1, 2}
    assert (outcome[outcome[:, 0] < 0] == -1).all()


def mechanism_of_top_stable(
    k: int = 1,
    domain_size: int = 3,
    epsilon: float = 3.0,
    failure_prob: float = 0.2,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
) -> TopStableTopK:
    """Returns a top-stable top-k mechanism."""
    return TopStableTopK(
        k=k,
        domain_size=domain_size,
        epsilon=epsilon,
        failure_prob=failure_prob,
        adjacency=adjacency,
    )


def test_the_smallest_protected_gap_passes_with_the_failure_probability() -> None:
    """The gap below the third label is as large as one teacher can close: the top three are
    released with the failure probability.

    The scale of the gap's noise is 4 times the gap sensitivity over epsilon.
    """
    for adjacency in Adjacency:
        made = mechanism_of_top_stable(adjacency=adjacency, k=3, failure_prob=1e-3)
        counts = np.array([9, 9, 9, 9 - adjacency.gap_sensitivity])
        assert made.distribution(counts)[0, 1, 2] == pytest.approx(1e-3, rel=1e-9)
        assert mechanism_of_top_stable(k=3, failure_prob=0.9).threshold == 0
        assert made.gap_scale == 2 * made.threshold_scale == 4 * adjacency.gap_sensitivity / 3.0


def test_the_price_of_add_remove_does_not_hold_for_replacing_a_record() -> None:
    """A mechanism for the add-remove adjacency is refuted when its price is verified for
    replace-one.

    This is the negative control of `privacy/test_shipped.py`, which verifies the price for
    add-remove.
    """
    made = mechanism_of_top_stable(
        k=1, domain_size=2, epsilon=2.0, failure_prob=0.01, adjacency=Adjacency.ADD_REMOVE
    )
    assert verify(
        made.distribution,
        event=Claim(deltas=((2.0, 0.01),)),
        num_labels=3,
        num_teachers=4,
        adjacency=Adjacency.REPLACE_ONE,
    ).refuted


@pytest.mark.parametrize("make", [mechanism, mechanism_of_top_stable])
def test_impossible_arguments_and_counts_are_refused(make: Any) -> None:
    """Both mechanisms with a domain refuse impossible sizes, failure probabilities and epsilons,
    and impossible counts.
    """
    for name, value in (
        ("domain_size", 0),
        ("failure_prob", 0),
        ("failure_prob", 1.0),
        ("epsilon", -1),
    ):
        with refused(name, value=value):
            make(**{name: value})
    for counts, name in (([1, 2], "domain_size"), ([1, 2, -4], "counts")):
        with pytest.raises(InvalidValue, match=rf"^{name}.*: expected"):
            make()(np.array(counts), rng=np.random.default_rng(0))
    with refused("domain_size", value=3, rule="at most 2"):
        mechanism_of_top_stable()(np.array([3, 2, 1]), rng=np.random.default_rng(0))


ARGMAX_DISTRIBUTIONS = {
    name: getattr(maxima, f"{name}_argmax")
    for name in ("gumbel", "exponential", "gaussian", "laplace")
}


@pytest.mark.parametrize("name", ARGMAX_DISTRIBUTIONS)
@pytest.mark.parametrize("size", [1, 2, 40])
def test_equal_values_are_equally_likely(name: str, size: int) -> None:
    """Candidates with equal values win with equal probability, for each kind of noise and 1, 2 or
    40 candidates.
    """
    np.testing.assert_allclose(
        ARGMAX_DISTRIBUTIONS[name](np.full((1, size), 3.7)), np.full((1, size), 1 / size), rtol=1e-9
    )


def test_two_candidates_in_closed_form() -> None:
    """The first of two candidates, 1.3 noise scales ahead, wins with the probability that the
    difference of two draws of noise gives.
    """
    x = mpmath.mpf("1.3")
    expected = {
        "gumbel": 1 / (1 + mpmath.exp(-x)),
        "exponential": 1 - mpmath.exp(-x) / 2,
        "gaussian": mpmath.ncdf(x / mpmath.sqrt(2)),
        "laplace": 1 - mpmath.exp(-x) * (2 + x) / 4,
    }
    for name, distribution in ARGMAX_DISTRIBUTIONS.items():
        assert distribution(np.array([[1.3, 0.0]]))[0, 0] == pytest.approx(
            float(expected[name]), rel=1e-10
        ), name
