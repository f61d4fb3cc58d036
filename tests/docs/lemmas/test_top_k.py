"""The constants of docs/proofs/laplace_top_k.md for sets of many indices."""

import numpy as np
import pytest


@pytest.mark.parametrize("epsilon", [0.2, 1e-3])
@pytest.mark.parametrize("log_ratio", [np.log(40), 10.0, 30.0])
def test_the_constants_for_sets_of_many_fit(epsilon: float, log_ratio: float) -> None:
    """The inequalities between the constants of the proof hold for 500 sizes k of a set.

    The sizes range from 16 to 10^6 times `log_ratio`, the logarithm L in the proof's condition k > 16 L.
    """

    def h(u: np.ndarray) -> np.ndarray:
        return (1 + u) * np.log1p(u) - u

    set_sizes = log_ratio * np.geomspace(16, 1e6, 500)
    step = epsilon / (4 * np.sqrt(set_sizes * log_ratio))  # m / b
    t = 0.9785 * epsilon / (1.95 * np.sqrt(set_sizes * log_ratio))
    assert (step <= epsilon / (16 * log_ratio) * (1 + 1e-12)).all()
    assert (2 * step * np.exp(step) <= t).all()
    assert (0.9785 * epsilon + step < epsilon).all()
    limits_of_sums = set_sizes + 1.9 * np.sqrt(set_sizes * log_ratio)
    assert (limits_of_sums <= 1.4872 * set_sizes).all()
    assert (limits_of_sums * h(1 - set_sizes / limits_of_sums) >= log_ratio).all()
    assert (t**2 * limits_of_sums <= 0.0213 * epsilon).all()
    assert (1 / (1 - t) <= 1.0073).all()
    largest = 1.0073 * t
    variance = 1.509 * t**2 * set_sizes
    fall = (0.9785 - 0.0213) * epsilon
    assert (variance / largest**2 * h(largest * fall / variance) >= 1.08 * log_ratio).all()
