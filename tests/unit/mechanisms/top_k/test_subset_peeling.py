"""Peeling from a part: distribution, noise by the number of picks, a price that does not depend on it, refusals."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from pate.accounting import ZCdpEvent
from pate.mechanisms import PeelingTopK, SubsetPeeling
from pate.validation import InvalidValue

COUNTS = np.array([6, 2, 5, 4, 0])
PART = np.array([True, False, True, True, True])


def test_price_by_hand() -> None:
    assert SubsetPeeling(noise_scale=4.0).event == ZCdpEvent((2 / 4) ** 2 / 8)
    assert SubsetPeeling(noise_scale=4.0, adjacency="add_remove").event == ZCdpEvent((1 / 4) ** 2 / 8)


def test_distribution_of_one_pick_by_hand() -> None:
    """Weights exp(count / scale) over the part."""
    distribution = SubsetPeeling(noise_scale=2.0).distribution_of(COUNTS, PART, 1)
    weights = np.exp(COUNTS[PART] / 2)
    assert distribution.keys() == {(0,), (2,), (3,), (4,)}
    np.testing.assert_allclose(list(distribution.values()), weights / weights.sum(), rtol=1e-12)


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


def test_none_and_all_are_certain() -> None:
    peeling = SubsetPeeling(noise_scale=3.0)
    assert peeling.distribution_of(COUNTS, PART, 0) == {(): 1.0}
    assert peeling.distribution_of(COUNTS, PART, 4) == pytest.approx({(0, 2, 3, 4): 1.0})
    assert peeling.distribution_of(COUNTS, np.zeros(5, dtype=bool), 0) == {(): 1.0}


@pytest.mark.parametrize(("size", "scale", "fits"), [(1, 3.0, True), (2, 3.0, True), (2, 2.4, False), (3, 3.0, True)])
def test_draws_follow_the_exact_distribution_and_not_that_of_another_scale(size: int, scale: float, fits: bool) -> None:
    draws = 40_000
    picked = SubsetPeeling(noise_scale=3.0)(
        np.tile(COUNTS, (draws, 1)), part=PART, size=size, rng=np.random.default_rng(5)
    )
    assert (picked.sum(axis=1) == size).all()
    assert not picked[:, ~PART].any()
    seen = Counter(tuple(np.flatnonzero(row).tolist()) for row in picked)
    distribution = SubsetPeeling(noise_scale=scale).distribution_of(COUNTS, PART, size)
    assert seen.keys() <= distribution.keys()
    pvalue = chisquare([seen[key] for key in distribution], np.array(list(distribution.values())) * draws).pvalue
    assert (pvalue > 1e-4) if fits else (pvalue < 1e-12)


def test_a_batch_of_different_parts_and_sizes() -> None:
    counts = np.array([[900, 0, 500], [0, 900, 500], [1, 2, 3], [900, 500, 700]])
    part = np.array([[True, True, True], [True, False, True], [False, False, False], [True, True, True]])
    picked = SubsetPeeling(noise_scale=0.1)(counts, part=part, size=[1, 1, 0, 2], rng=np.random.default_rng(0))
    assert picked.astype(int).tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0], [1, 0, 1]]
    single = SubsetPeeling(noise_scale=0.1)(counts[0], part=part[0], size=2, rng=np.random.default_rng(0))
    assert single.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 5}, r"size=\[5\]: expected 0\.\.the number of indices that compete"),
        ({"size": -1}, r"size=\[-1\]: expected 0\.\.the number of indices that compete"),
        ({"counts": [1.0, 2, 3, 4, 5]}, r"counts\.dtype=float64: expected integer vote counts"),
        ({"counts": [-1, 2, 3, 4, 5]}, r"counts\[0\]: expected counts in"),
        ({"rng": 0}, r"rng=0: expected a numpy\.random\.Generator, not a seed"),
    ],
)
def test_impossible_arguments_are_refused(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"counts": COUNTS, "part": PART, "size": 2, "rng": np.random.default_rng(0)} | changes
    with pytest.raises(InvalidValue, match=message):
        SubsetPeeling(noise_scale=1.0)(arguments.pop("counts"), **arguments)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_impossible_scales_are_refused(scale: float) -> None:
    with pytest.raises(InvalidValue, match=rf"noise_scale={scale}: expected a number > 0"):
        SubsetPeeling(noise_scale=scale)


def test_long_distributions_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r"counts=970200 sequences: expected at most 100000"):
        SubsetPeeling(noise_scale=1.0).distribution_of(np.arange(100), np.ones(100, dtype=bool), 3)
