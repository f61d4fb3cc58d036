"""Discrete Gaussian noise: exact draws where floats are too coarse, tails without an end, and refused variances."""

import numpy as np
import pytest

from pate.mechanisms.noise import discrete_gaussian
from pate.mechanisms.noise.discrete_gaussian import DiscreteGaussian
from pate.mechanisms.noise.lazy_uniforms import LazyUniforms
from tests.refusals import ANY, refused_parameter

LARGEST_WORD = 2**64 - 1


@pytest.mark.slow
@pytest.mark.parametrize("variance", [1, 9, 40])
def test_decisions_in_floats_are_the_exact_ones(
    variance: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same random bits give the same noise if every draw is decided exactly instead of in floats.

    The margin within which floats decide nothing is widened for this.
    """
    noise = DiscreteGaussian(variance=variance)
    usual_noise = noise.sample(shape=(60,), rng=np.random.default_rng(0))
    monkeypatch.setattr(discrete_gaussian, "_TABLE_MARGIN", 2.0)
    noise_by_exact_decisions = noise.sample(shape=(60,), rng=np.random.default_rng(0))
    np.testing.assert_array_equal(noise_by_exact_decisions, usual_noise)


@pytest.mark.parametrize(
    ("reserved_words", "low", "high"),
    [
        pytest.param([0], 85, 100, id="2**-64 beyond, 9 standard deviations"),
        pytest.param([LARGEST_WORD] * 3, 170, 200, id="2**-256 beyond, 18 standard deviations"),
    ],
)
def test_noise_has_no_largest_value(reserved_words: list[int], low: int, high: int) -> None:
    """Noise can lie beyond the end of the table of floats: if all bits of a first word are ones, further words decide.

    The further words are `reserved_words`. The standard deviation is 10, and the absolute value of the noise is between
    `low` and `high`.
    """
    lazy_uniforms = LazyUniforms(
        np.full(1, LARGEST_WORD, dtype=np.uint64),
        rng=np.random.default_rng(0),
        reserved_words=np.array([reserved_words], dtype=np.uint64),
    )
    noise = DiscreteGaussian(variance=100)._quantiles(lazy_uniforms)
    assert low < abs(int(noise[0])) < high


def test_the_largest_variance_does_not_overflow() -> None:
    """Noise of the largest variance, 2^24, has the standard deviation 4096 within 2%."""
    noise = DiscreteGaussian(variance=2**24).sample(shape=(20_000,), rng=np.random.default_rng(1))
    assert noise.std() == pytest.approx(4096, rel=0.02)


@pytest.mark.parametrize("variance", [0, -1, 2**24 + 1, 2.5])
def test_an_invalid_variance_is_refused(variance: float) -> None:
    """A variance that is no whole number in 1..2**24 is refused."""
    with refused_parameter("variance", value=ANY):
        DiscreteGaussian(variance=variance)
