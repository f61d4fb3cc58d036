"""Shares of noise are together as wide as required, and no share is wider than can be drawn."""

import numpy as np
import pytest

from pate_federated.noise_shares import NoiseShares
from tests.refusals import ANY, refused_parameter


def test_counted_shares_have_at_least_the_required_noise() -> None:
    """The shares that are counted have together the required variance, and at most 1/64 more, for up to 10,000 holders.

    The failure probability of 10^9 noisy counts is below 1e-200.
    """
    for noise_std in (0.01, 0.7, 3.0, 50.0, 1234.5):
        for holders, dropouts, colluders in (
            (1, 0, 0),
            (2, 1, 0),
            (40, 4, 4),
            (10_000, 100, 1_000),
        ):
            shares = NoiseShares(
                noise_std=noise_std,
                num_holders=holders,
                max_dropouts=dropouts,
                max_colluders=colluders,
            )
            assert noise_std**2 * (1 - 1e-12) <= shares.variance <= noise_std**2 * (1 + 1 / 64)
            assert shares.share_variance >= 64
            assert 0 <= shares.failure_prob(num_counts=10**9) < 1e-200


def test_shares_too_wide_for_one_draw_are_drawn_several_times() -> None:
    """Fifty shares of standard deviation 1000, whose sum is too wide for one draw, have a sum of the right deviation.

    The deviation of 5,000 sums is right within 5%.
    """
    shares = NoiseShares(noise_std=1000.0, num_holders=50, max_dropouts=49)
    together = shares.drawn_together(shape=(5_000,), rng=np.random.default_rng(2))
    assert together.std() == pytest.approx(1000 * 50**0.5, rel=0.05)


@pytest.mark.parametrize(
    ("name", "noise_std", "num_holders", "max_dropouts", "max_colluders"),
    [
        ("num_holders", 1.0, 3, 2, 1),
        ("num_holders", 1.0, 0, 0, 0),
        ("max_dropouts", 1.0, 3, -1, 0),
        ("noise_std", 0.0, 3, 0, 0),
    ],
)
def test_impossible_shares_are_refused_by_name(
    name: str, noise_std: float, num_holders: int, max_dropouts: int, max_colluders: int
) -> None:
    """Impossible numbers of holders or dropouts, and noise of 0, are refused with the name of the parameter."""
    with refused_parameter(name, value=ANY):
        NoiseShares(
            noise_std=noise_std,
            num_holders=num_holders,
            max_dropouts=max_dropouts,
            max_colluders=max_colluders,
        )


def test_a_share_too_wide_to_draw_is_refused() -> None:
    """A share of noise with a standard deviation of 500,000 is refused with the name `noise_std`."""
    with refused_parameter("noise_std", value=ANY):
        _ = NoiseShares(noise_std=1e6, num_holders=4).share
