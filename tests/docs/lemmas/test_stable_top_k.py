"""docs/proofs/stable_top_k.md: the decomposition on all small instances, and lower bounds for the paper's settings."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.special import logsumexp

from pate.accounting import Adjacency
from pate.accounting.events import count_leaves, failure_probability
from pate.accounting.rdp import rdp_curve
from pate.aggregators import StableTopK

ORDERS = np.array([1.3, 3.0, 8.0])
Counts = tuple[int, ...]
Distribution = dict[Counts | None, float]


def good_parts(
    chances: dict[Counts, np.ndarray], table: tuple[float, ...], one: Counts, two: Counts, *, first_k: int
) -> tuple[Distribution, Distribution]:
    """A and A' of the proof, assembled from the two steps: chances of each k, and the table of the test."""
    num_teachers, distributions = len(table) - 1, ({}, {})
    for k in range(first_k, first_k + len(chances[one])):
        sets, gaps = [], []
        for counts in (one, two):
            ranked = sorted(range(len(counts)), key=lambda label, c=counts: (-c[label], label))
            falling = [num_teachers, *(counts[label] for label in ranked), 0]
            sets.append(tuple(sorted(ranked[:k])))
            gaps.append(falling[k] - falling[k + 1])
        for distribution, counts, chosen, gap in zip(distributions, (one, two), sets, gaps, strict=True):
            constant = k in (0, len(counts))
            passes = 1.0 if constant else table[gap] if sets[0] == sets[1] else 0.0
            chance = float(chances[counts][k - first_k])
            distribution[chosen] = distribution.get(chosen, 0.0) + chance * passes
            distribution[None] = distribution.get(None, 0.0) + chance * (1 - passes)
    return distributions


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("padded", [True, False])
def test_the_release_is_a_mixture_whose_good_parts_obey_the_price(adjacency: Adjacency, padded: bool) -> None:
    shape, failure_prob = {"num_labels": 3, "num_teachers": 4}, 0.03
    aggregator = StableTopK(
        selection_scale=2.0, test_std=1.2, failure_prob=failure_prob, padded=padded, adjacency=adjacency
    )
    event = aggregator.event_for(num_queries=1, **shape)
    assert failure_probability(event) == failure_prob
    price, table = rdp_curve(count_leaves(event), ORDERS), aggregator.stability_test(num_teachers=4).pass_probs
    histograms = list(product(range(5), repeat=3))
    selection = aggregator.gap_selection(**shape)
    chances = dict(zip(histograms, selection.probabilities(np.array(histograms)), strict=True))
    released = {counts: aggregator.distribution(np.array(counts), num_teachers=4) for counts in histograms}
    moves = (-1, 0, 1) if adjacency is Adjacency.REPLACE_ONE else (0, 1)
    for counts, change in product(histograms, product(moves, repeat=3)):
        moved = tuple(a + b for a, b in zip(counts, change, strict=True))
        if moved not in chances:
            continue
        one, two = good_parts(chances, table, counts, moved, first_k=int(selection.candidates[0]))
        for distribution, whole in ((one, released[counts]), (two, released[moved])):
            for outcome, mass in distribution.items():
                assert (1 - failure_prob) * mass <= whole.get(outcome, 0.0) + 1e-12
        common = [outcome for outcome in one if max(one[outcome], two.get(outcome, 0.0)) > 0]
        p, q = (np.log([distribution[outcome] for outcome in common])[:, None] for distribution in (one, two))
        for a, b in ((p, q), (q, p)):
            assert (logsumexp(ORDERS * a + (1 - ORDERS) * b, axis=0) / (ORDERS - 1) <= price + 1e-9).all()


def epsilon_at_least(one: Distribution, two: Distribution, *, num_queries: int, delta: float) -> float:
    """A lower bound on any sound epsilon: exact composition with every loss rounded down to a grid."""
    step, cap, size = 1e-5, 5.0, 2**22
    grid = np.zeros(size)
    for outcome, mass in one.items():
        other = two.get(outcome, 0.0)
        ratio = mass / other if other > 0 else math.inf
        if ratio > math.exp(-cap):  # mass with a lower loss is dropped, which lowers the bound
            grid[math.floor(min(math.log(ratio), cap) / step)] += mass  # a negative index is a negative loss
    composed = np.fft.irfft(np.fft.rfft(grid) ** num_queries, size)
    losses, mass = step * np.arange(size // 2), composed[: size // 2]
    above = np.cumsum(mass[::-1])[::-1]
    weighted = np.cumsum((mass * np.exp(-losses))[::-1])[::-1]
    deltas = above - np.exp(losses) * weighted  # at epsilon = losses
    return float(losses[np.flatnonzero(deltas > delta).max(initial=0)])


def paper_distribution(counts: list[int], num_teachers: int, adjacency: Adjacency) -> Distribution:
    aggregator = StableTopK(
        selection_scale=50.0,
        selection_noise="gaussian",
        test_std=60.0,
        failure_prob=1e-9,
        padded=False,
        adjacency=adjacency,
    )
    return aggregator.distribution(np.array(counts), num_teachers=num_teachers)


@pytest.mark.slow
def test_one_pair_of_800_teachers_exceeds_the_paper_s_epsilon_under_replace_one() -> None:
    one = paper_distribution([799, 401] + [1] * 38, 800, Adjacency.REPLACE_ONE)
    two = paper_distribution([800, 400] + [2] * 38, 800, Adjacency.REPLACE_ONE)
    bounds = [epsilon_at_least(a, b, num_queries=600, delta=1e-6) for a, b in ((one, two), (two, one))]
    assert 6.34 <= max(bounds) <= 6.37


@pytest.mark.slow
def test_one_pair_of_29640_teachers_exceeds_it_under_add_remove() -> None:
    counts = [760 * (39 - rank) for rank in range(40)]
    added = [count + rank % 2 for rank, count in enumerate(counts)]
    assert {a - b for a, b in pairwise(counts)} == {760}
    one, two = (paper_distribution(c, counts[0], Adjacency.ADD_REMOVE) for c in (counts, added))
    bounds = [epsilon_at_least(a, b, num_queries=600, delta=1e-6) for a, b in ((one, two), (two, one))]
    assert 5.31 <= max(bounds) <= 5.33


@pytest.mark.slow
def test_the_lower_bound_agrees_with_a_closed_form() -> None:
    """Randomized response, composed: its exact delta is a binomial sum."""
    p = 1 / (1 + math.exp(-0.1))
    distribution: tuple[Distribution, Distribution] = ({(0,): p, None: 1 - p}, {(0,): 1 - p, None: p})
    bound = epsilon_at_least(*distribution, num_queries=100, delta=1e-6)

    def delta_at(epsilon: float) -> float:
        ks = np.arange(101)
        log_mass = np.array([math.lgamma(101) - math.lgamma(k + 1) - math.lgamma(101 - k) for k in ks])
        mass = np.exp(log_mass + ks * math.log(p) + (100 - ks) * math.log(1 - p))
        return float((mass * np.maximum(-np.expm1(epsilon - 0.1 * (2 * ks - 100)), 0)).sum())

    assert delta_at(bound) >= 1e-6
    assert delta_at(bound + 2e-3) < 1e-6
