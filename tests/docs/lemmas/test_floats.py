"""Single steps of docs/proofs/floats.md."""

from __future__ import annotations

from fractions import Fraction

import numpy as np


def test_running_sums_in_floats_are_off_by_less_than_the_margin() -> None:
    rng = np.random.default_rng(0)
    for n in (2, 40, 1000):
        weights = np.exp(-rng.exponential(8.0, n))
        exact, worst = Fraction(0), Fraction(0)
        for weight, found in zip(weights.tolist(), np.cumsum(weights).tolist(), strict=True):
            exact += Fraction(weight)
            worst = max(worst, abs(Fraction(found) - exact))
        assert worst < (2.0**-46 + n * 2.0**-49) * float(exact) / 8
