"""docs/proofs/stable_top_k.md: the decomposition on all small instances."""

from __future__ import annotations

from itertools import product

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
