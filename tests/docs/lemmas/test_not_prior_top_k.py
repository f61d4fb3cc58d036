"""docs/proofs/not_prior_top_k.md: the margin's sensitivity, and why accesses may be listed first."""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import pytest


def margin(counts: tuple[int, ...], chosen: tuple[int, ...]) -> int:
    inside = [count for count, bit in zip(counts, chosen, strict=True) if bit]
    return min(inside) - max([count for count, bit in zip(counts, chosen, strict=True) if not bit], default=0)


@pytest.mark.parametrize(("moves", "sens"), [((-1, 0, 1), 2), ((0, 1), 1)])
def test_a_margin_moves_by_the_sensitivity_of_a_gap(moves: tuple[int, ...], sens: int) -> None:
    largest = 0
    for counts, change in product(product(range(1, 5), repeat=3), product(moves, repeat=3)):
        moved = tuple(a + b for a, b in zip(counts, change, strict=True))
        for chosen in product((0, 1), repeat=3):
            if any(chosen):
                largest = max(largest, abs(margin(counts, chosen) - margin(moved, chosen)))
    assert largest == sens


ACCESS = (0.4, -0.4)
RELEASES = ((1.0, -0.05), (0.05, -1.0), (0.3, -0.3))
"""Log-ratios of the two outcomes of an access, and of the pairs that a release may choose from."""


def play(x: float, accesses: int, releases: int, *, accesses_first: bool) -> float:
    """The largest hockey stick of an adversary who sees all so far: free order, or accesses before releases."""

    @cache
    def value(x: float, accesses: int, releases: int) -> float:
        if accesses + releases == 0:
            return max(0.0, -math.expm1(x))
        choices = []
        if accesses:
            choices += [after(x, ACCESS, accesses - 1, releases)]
        if releases and not (accesses and accesses_first):
            choices += [after(x, pair, accesses, releases - 1) for pair in RELEASES]
        return max(choices)

    def after(x: float, pair: tuple[float, float], accesses: int, releases: int) -> float:
        up, down = pair
        chance = -math.expm1(down) / (math.exp(up) - math.exp(down)) * math.exp(up)
        return chance * value(round(x - up, 9), accesses, releases) + (1 - chance) * value(
            round(x - down, 9), accesses, releases
        )

    return value(x, accesses, releases)


@pytest.mark.parametrize("x", [0.0, 0.3, 0.9, 1.6])
def test_accesses_first_bound_every_order(x: float) -> None:
    free = play(x, 3, 3, accesses_first=False)
    assert free == pytest.approx(play(x, 3, 3, accesses_first=True), rel=1e-9)
    assert free > 0
