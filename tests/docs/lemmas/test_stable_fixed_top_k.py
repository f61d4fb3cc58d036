"""docs/proofs/stable_fixed_top_k.md, step by step."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from pate.accounting import Adjacency
from pate.accounting.renyi import bounded_range_rdp
from pate.aggregators import StableFixedTopK
from tests.privacy.distributions import distributions_of, pairs_of
from tests.privacy.histograms import neighbors

ORDERS = np.array([1.05, 1.5, 2.0, 4.0, 8.0, 30.0, 200.0])


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("k", [1, 2])
def test_the_release_is_a_mixture_with_good_parts_of_weight_one_minus_f(adjacency: Adjacency, k: int) -> None:
    aggregator = StableFixedTopK(
        k=k, selection_scale=1.0, test_std=1.2, failure_prob=0.05, peel_scale=2.0, adjacency=adjacency
    )
    distributions, rows = distributions_of(aggregator, 3, 5), pairs_of(3, 5, adjacency)
    same = distributions.masks[rows[0]] == distributions.masks[rows[1]]
    assert not same.all()
    for side in rows:
        good, whole = distributions.steps(side, same), distributions.steps(side)
        np.testing.assert_allclose(good.sum(axis=1), 1, rtol=1e-9)
        assert ((1 - 0.05) * good <= whole + 1e-12).all()
        assert ((1 - 0.04) * good > whole + 1e-12).any()  # no larger weight will do


@pytest.mark.parametrize("adjacency", Adjacency)
def test_in_any_part_the_log_ratios_of_a_pick_span_at_most_w(adjacency: Adjacency) -> None:
    """At noise of scale 1: the labels that are left, whichever they are, compete by the differences of their counts."""
    first, second = neighbors(4, 3, adjacency)
    for part in range(1, 16):
        inside = np.array([part >> label & 1 for label in range(4)], dtype=bool)
        distributions = [np.exp(counts[:, inside] * 1.0) for counts in (first, second)]
        ratios = np.log(
            distributions[0]
            / distributions[0].sum(axis=1, keepdims=True)
            * distributions[1].sum(axis=1, keepdims=True)
            / distributions[1]
        )
        spread = (ratios.max(axis=1) - ratios.min(axis=1)).max()
        assert spread <= adjacency.gap_sensitivity * (1 + 1e-9)
        assert (spread > 0.99 * adjacency.gap_sensitivity) == (inside.sum() > 1)


@pytest.mark.parametrize("width", [0.01, 0.1, 0.5, 2.0, 8.0])
def test_j_picks_never_cost_more_than_the_limit_of_many(width: float) -> None:
    curves = [j * bounded_range_rdp(width / math.sqrt(j), ORDERS) for j in (1, 2, 3, 4, 8, 40, 1000)]
    for fewer, more in pairwise(curves):
        assert (fewer <= more * (1 + 1e-7)).all()
    assert (curves[-1] <= ORDERS * width**2 / 8 * (1 + 1e-9)).all()


def largest_delta(width: float, picks: int) -> float:
    """The largest hockey stick at epsilon 0 of adaptive picks of one bounded range, by dynamic programming."""
    x = np.linspace(-3, 3, 6001)
    values = np.maximum(0, -np.expm1(x))
    for _ in range(picks):
        best = np.zeros_like(values)
        for up in np.linspace(0, width, 41)[1:-1]:
            chance = -math.expm1(up - width) / -math.expm1(-width)  # of the loss `up`, so that ratios average to 1
            moved = [np.interp(x - loss, x, values) for loss in (up, up - width)]
            best = np.maximum(best, chance * moved[0] + (1 - chance) * moved[1])
        values = best
    return float(np.interp(0, x, values))


def test_many_picks_do_not_stand_for_one_in_delta() -> None:
    """Total variation: tanh(e / 4) for one pick of range e, less for four picks of e / 2."""
    one, four = largest_delta(0.4, 1), largest_delta(0.2, 4)
    assert one == pytest.approx(math.tanh(0.1), rel=1e-3)
    assert four < 0.9 * one
