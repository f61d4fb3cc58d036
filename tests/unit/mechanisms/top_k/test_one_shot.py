"""One-shot top-k and peeling: prices, scales, and the one distribution that they share."""

from __future__ import annotations

import numpy as np
import pytest

from pate.accounting import BoundedRangeEvent, PureDpEvent, SelfComposedEvent
from pate.mechanisms import LipschitzTopK, OneShotTopK, PeelingTopK, PermuteAndFlipTopK
from pate.mechanisms.noise.kinds import UNIT_NOISES
from pate.mechanisms.noise.laws import ordered_distribution
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


def test_scales_and_events() -> None:
    assert PeelingTopK(k=4, epsilon=2.0).noise_scale == 4.0
    assert PeelingTopK(k=4, epsilon=2.0, adjacency="add_remove").noise_scale == 2.0
    assert PeelingTopK(k=4, epsilon=2.0).event == SelfComposedEvent(BoundedRangeEvent(0.5), 4)
    assert PeelingTopK(k=2, rho=1.0).event == SelfComposedEvent(BoundedRangeEvent(2.0), 2)
    assert PermuteAndFlipTopK(k=4, epsilon=2.0).event == SelfComposedEvent(PureDpEvent(0.5), 4)
    assert PermuteAndFlipTopK(k=4, epsilon=2.0).noise_scale == 4.0
    assert LipschitzTopK(k=4, epsilon=2.0, noise="laplace").event == PureDpEvent(2.0)
    assert LipschitzTopK(k=4, epsilon=2.0).noise_scale == 4.0


def test_kinds_of_noise_are_checked() -> None:
    with pytest.raises(InvalidValue, match="noise=laplas: expected one of exponential, gumbel, half_logistic, laplace"):
        LipschitzTopK(k=1, epsilon=0.1, noise="laplas")


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
