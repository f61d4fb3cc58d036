"""Peeling, one-shot and peeling from a part: prices, scales, the one distribution that they share, refusals."""

import math
from collections import Counter

import numpy as np
import pytest

from pate.mechanisms import LipschitzTopK, OneShotTopK, PeelingTopK, SubsetPeeling
from pate.mechanisms.noise.kinds import UNIT_NOISES, ordered_distribution
from pate.mechanisms.noise.noisy_order import draw_largest
from pate.validation import InvalidValue


def test_one_shot_gumbel_is_peeling() -> None:
    counts = np.array([4, 0, 3, 3])
    values = (counts - counts.max()) / PeelingTopK(k=3, epsilon=4.0).noise_scale
    by_quadrature = ordered_distribution(values, 3, UNIT_NOISES["gumbel"])
    peeled = PeelingTopK(k=3, epsilon=4.0).distribution(counts)
    assert by_quadrature.keys() == peeled.keys()
    for outcome, probability in peeled.items():
        assert by_quadrature[outcome] == pytest.approx(probability, rel=1e-10)
    assert OneShotTopK(k=3, epsilon=4.0).event == PeelingTopK(k=3, epsilon=4.0).event


@pytest.mark.parametrize("noise", list(UNIT_NOISES))
def test_noise_agrees_with_its_own_distribution_function(noise: str) -> None:
    kind = UNIT_NOISES[noise]
    x = np.linspace(max(kind.low, -3), 8, 45)[1:]
    log_q = np.log(-np.log(kind.cdf(x)))
    np.testing.assert_allclose(kind.quantile_of_log(log_q), x, rtol=1e-9, atol=1e-9)
    slopes = (kind.cdf(x + 1e-6) - kind.cdf(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(kind.density(x), slopes, rtol=1e-6, atol=2e-6)
    assert (kind.density(x) <= (1 - kind.cdf(x)) * (1 + 1e-9)).all()


@pytest.mark.parametrize("noise", list(UNIT_NOISES))
@pytest.mark.parametrize("log_size", [5.0, 1000.0])
def test_the_largest_of_many_has_its_own_distribution(noise: str, log_size: float) -> None:
    """All five have a tail of at most 2 exp(-x), so the largest of N lies around log N and spreads like one Gumbel."""
    rng = np.random.default_rng(0)
    size = int(np.exp(log_size)) if log_size < 700 else 10**434
    values = draw_largest(noise, np.full((1, 20_000), log_size), lambda row, place: size, rng).values - log_size
    shift = {"laplace": -np.log(2), "half_logistic": np.log(2)}.get(noise, 0.0)
    assert values.mean() - shift == pytest.approx(np.euler_gamma, abs=0.06)
    assert values.std() == pytest.approx(np.pi / np.sqrt(6), rel=0.04)


COUNTS = np.array([6, 2, 5, 4, 0])
PART = np.array([True, False, True, True, True])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_j_picks_are_peeling_whose_zcdp_is_that_of_one(size: int) -> None:
    """`PeelingTopK` at the same rho, its outcomes without their order."""
    peeling = SubsetPeeling(noise_scale=3.0)
    ordered = PeelingTopK(k=size, rho=peeling.event.rho).distribution(COUNTS[PART])
    expected: Counter[tuple[int, ...]] = Counter()
    for picks, probability in ordered.items():
        expected[tuple(sorted(np.flatnonzero(PART)[list(picks)].tolist()))] += probability
    distribution = peeling.distribution_of(COUNTS, PART, size)
    assert distribution == pytest.approx(dict(expected), rel=1e-12)


def test_impossible_parameters_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r"noise_scale=nan: expected a number > 0"):
        SubsetPeeling(noise_scale=math.nan)
    with pytest.raises(InvalidValue, match=r"counts=970200 sequences: expected at most 100000"):
        SubsetPeeling(noise_scale=1.0).distribution_of(np.arange(100), np.ones(100, dtype=bool), 3)
    with pytest.raises(InvalidValue, match="noise=laplas: expected one of exponential, gumbel, half_logistic, laplace"):
        LipschitzTopK(k=1, epsilon=0.1, noise="laplas")
