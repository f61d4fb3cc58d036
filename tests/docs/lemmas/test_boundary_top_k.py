"""docs/proofs/boundary_top_k.md: sets that differ add to delta once, on all small pairs of histograms."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from pate.accounting import Adjacency
from pate.aggregators import BoundaryTopK

NUM_LABELS, NUM_TEACHERS = 3, 5
Counts = tuple[int, ...]


def neighbors_of(counts: Counts, adjacency: Adjacency) -> list[Counts]:
    moves = (-1, 0, 1) if adjacency is Adjacency.REPLACE_ONE else (0, 1)
    moved = (tuple(a + b for a, b in zip(counts, change, strict=True)) for change in product(moves, repeat=3))
    return [other for other in moved if all(0 <= count <= NUM_TEACHERS for count in other)]


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(("scale", "std", "failure_prob"), [(2.0, 1.0, 0.1), (50.0, 0.7, 0.01)])
def test_a_query_with_its_set_leaves_the_wrapped_epsilon_by_the_failure_at_most(
    adjacency: Adjacency, scale: float, std: float, failure_prob: float
) -> None:
    aggregator = BoundaryTopK(selection_scale=scale, test_std=std, failure_prob=failure_prob, adjacency=adjacency)
    sens = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    call = 2 * sens / scale + sens * math.sqrt(2) / std  # Laplace noise of that std
    wrapped = call + math.log(3 * math.exp(call) / (2 * math.exp(call) + 1))
    distributions = {
        counts: aggregator.distribution(np.array(counts), num_teachers=NUM_TEACHERS)
        for counts in product(range(NUM_TEACHERS + 1), repeat=NUM_LABELS)
    }
    largest = 0.0
    for counts in distributions:
        for other in neighbors_of(counts, adjacency):
            for first, second in (
                (distributions[counts], distributions[other]),
                (distributions[other], distributions[counts]),
            ):
                excess = sum(
                    max(0.0, mass - math.exp(wrapped + 1e-6) * second.get(outcome, 0.0))
                    for outcome, mass in first.items()
                )
                largest = max(largest, excess)
    assert 0.1 * failure_prob < largest <= failure_prob
