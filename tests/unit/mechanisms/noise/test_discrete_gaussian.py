"""Discrete Gaussian noise and shares of it: limits, messages, and what floats cannot decide."""

from __future__ import annotations

import numpy as np
import pytest

from pate.mechanisms.noise import whole_numbers
from pate.mechanisms.noise.uniforms import LazyUniforms
from pate.mechanisms.noise.whole_numbers import DiscreteGaussian, NoiseShares
from pate.validation import InvalidValue


def test_the_mass_of_small_numbers_worked_out_by_hand() -> None:
    """At variance 1 the weights are 1, e^-1/2, e^-2, e^-9/2, …; their sum over all whole numbers is 2.5066283."""
    np.testing.assert_allclose(
        DiscreteGaussian(1).mass([0, 1, -2, 3]), np.exp([0, -0.5, -2, -4.5]) / 2.506628288, rtol=1e-8
    )


@pytest.mark.parametrize("variance", [1, 9, 40])
def test_every_decision_in_floats_is_the_exact_one(variance: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = DiscreteGaussian(variance).sample((60,), np.random.default_rng(0))
    monkeypatch.setattr(whole_numbers, "_TABLE_MARGIN", 2.0)  # which decides nothing in floats
    np.testing.assert_array_equal(DiscreteGaussian(variance).sample((60,), np.random.default_rng(0)), expected)


def test_u_next_to_one_is_a_number_far_out_that_more_bits_decide() -> None:
    """No table ends the noise: all 64 first bits of u are ones, and so are the next ones."""
    first = np.full(1, 2**64 - 1, dtype=np.uint64)
    near = LazyUniforms(first, np.random.default_rng(0), np.zeros((1, 1), dtype=np.uint64))
    far = LazyUniforms(first, np.random.default_rng(0), np.full((1, 3), 2**64 - 1, dtype=np.uint64))
    noise = DiscreteGaussian(100)
    found = [abs(int(noise._drawn(uniforms)[0])) for uniforms in (near, far)]
    assert 85 < found[0] < 100  # 2**-64 beyond: 9 standard deviations
    assert 170 < found[1] < 200  # 2**-256 beyond: 18


def test_no_number_overflows_at_the_widest() -> None:
    drawn = DiscreteGaussian(2**24).sample((20_000,), np.random.default_rng(1))
    assert drawn.std() == pytest.approx(4096, rel=0.02)
    together = NoiseShares(noise_std=1000.0, num_holders=50, max_dropouts=49).drawn_together(
        (5_000,), np.random.default_rng(2)
    )
    assert together.std() == pytest.approx(1000 * 50**0.5, rel=0.05)  # several draws of the widest


@pytest.mark.parametrize("variance", [0, -1, 2**24 + 1, 2.5])
def test_impossible_variances_are_refused(variance: int) -> None:
    with pytest.raises(InvalidValue, match=r"variance=.*: expected "):
        DiscreteGaussian(variance)


def test_shares_that_are_counted_on_have_at_least_the_noise_that_was_asked_for() -> None:
    for noise_std in (0.01, 0.7, 3.0, 50.0, 1234.5):
        for holders, dropouts, colluders in ((1, 0, 0), (2, 1, 0), (40, 4, 4), (10_000, 100, 1_000)):
            shares = NoiseShares(
                noise_std=noise_std, num_holders=holders, max_dropouts=dropouts, max_colluders=colluders
            )
            assert noise_std**2 * (1 - 1e-12) <= shares.variance <= noise_std**2 * (1 + 1 / 64)
            assert shares.share_variance >= 64
            assert 0 <= shares.failure_prob(10**9) < 1e-200


def test_more_noise_is_asked_for_more_noise_is_drawn() -> None:
    """So a calibration by bisection finds the least."""
    variances = [NoiseShares(noise_std=std, num_holders=7).variance for std in np.geomspace(0.1, 100, 500).tolist()]
    assert (np.diff(variances) >= 0).all()


def test_fewer_shares_have_to_be_wider() -> None:
    all_of_them = NoiseShares(noise_std=40.0, num_holders=40)
    some = NoiseShares(noise_std=40.0, num_holders=40, max_dropouts=20)
    ratio = (some.share_variance / some.steps**2) / (all_of_them.share_variance / all_of_them.steps**2)
    assert ratio == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_holders": 3, "max_dropouts": 2, "max_colluders": 1}, r"num_holders=3: expected more than max_dropouts"),
        ({"num_holders": 0}, r"num_holders=0: expected"),
        ({"num_holders": 3, "max_dropouts": -1}, r"max_dropouts=-1: expected"),
        ({"num_holders": 3, "noise_std": 0.0}, r"noise_std=0\.0: expected a number > 0"),
    ],
)
def test_impossible_shares_are_refused(given: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        NoiseShares(**({"noise_std": 1.0} | given))  # type: ignore[arg-type]


def test_noise_that_is_too_wide_to_draw_is_refused_by_name() -> None:
    shares = NoiseShares(noise_std=1e6, num_holders=4)
    with pytest.raises(InvalidValue, match=r"noise_std=1000000\.0: expected at most 8192"):
        _ = shares.share
