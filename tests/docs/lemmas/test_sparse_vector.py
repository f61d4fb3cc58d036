"""docs/proofs/sparse_vector.md: its steps, with code of their own."""

from __future__ import annotations

import numpy as np
import pytest


def worlds(rng: np.random.Generator, item_hits: int, *, exchanged: bool) -> tuple[list[int], list[int], int]:
    """One stream of outcomes, played in both worlds: differences of sums, a - a', and hits of differing calls."""
    num_queries, num_items = 40, 6
    bits = rng.random((num_queries, num_items)) < 0.6
    other = bits.copy()
    other[:, 0] = rng.random(num_queries) < 0.6 if exchanged else False
    hits = [np.zeros(num_items, dtype=int), np.zeros(num_items, dtype=int)]
    differences, changes, paid = [], [], 0
    for query in range(num_queries):
        counted = [row & (sofar < item_hits) for row, sofar in zip((bits[query], other[query]), hits, strict=True)]
        differences.append(int(counted[0].sum()) - int(counted[1].sum()))
        changes.append(int(counted[0][0]) - int(counted[1][0]))
        if rng.random() < 0.5:  # released: the outcome is the same in both worlds
            paid += changes[-1] != 0
            hits = [sofar + row for sofar, row in zip(hits, counted, strict=True)]
    return differences, changes, paid


@pytest.mark.parametrize("exchanged", [False, True])
@pytest.mark.parametrize("item_hits", [1, 3])
def test_worlds_differ_by_the_item_alone_and_pay_for_few_hits(item_hits: int, exchanged: bool) -> None:
    rng = np.random.default_rng(0)
    bound = item_hits * (2 if exchanged else 1)
    most = 0
    for _ in range(100):
        differences, changes, paid = worlds(rng, item_hits, exchanged=exchanged)
        assert differences == changes
        assert max(map(abs, differences)) <= 1
        most = max(most, paid)
    assert most == bound
