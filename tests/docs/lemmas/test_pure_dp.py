"""docs/proofs/pure_dp.md: split losses, best events, adaptive choices."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from pate.accounting import PureDpAccountant, PureDpEvent


def adaptive_delta(epsilons: list[float], x: float, choices: np.ndarray) -> float:
    """The best play with any pair of losses in [-epsilon, epsilon] at every step, chosen after the past."""
    if not epsilons:
        return max(0.0, -math.expm1(x))
    best = 0.0
    for up, down in product(choices * epsilons[0], -choices * epsilons[0]):
        mass = math.expm1(-down) / (math.exp(-down) - math.exp(-up))
        later = [adaptive_delta(epsilons[1:], x - loss, choices) for loss in (up, down)]
        best = max(best, mass * later[0] + (1 - mass) * later[1])
    return best


@pytest.mark.parametrize("shrink", [1.0, 0.9])
def test_choosing_other_pairs_on_the_way_does_not_help_and_smaller_epsilons_fail(shrink: float) -> None:
    epsilons = [0.8, 0.3, 0.5]
    made = PureDpAccountant()
    for epsilon in epsilons:
        made.compose(PureDpEvent(shrink * epsilon))
    for x in (0.1, 0.6, 1.2):
        played = adaptive_delta(epsilons, x, np.array([0.2, 0.6, 1.0]))
        assert (played <= made.get_delta(x)) == (shrink == 1.0)
