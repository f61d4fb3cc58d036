"""Lower bounds of the CelebA experiment's price, from the exact laws of single pairs of neighbors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from pate.accounting import Adjacency
from pate.array_types import FloatArray
from pate.mechanisms.noise.maxima import gaussian_argmax
from pate.testing.composition import compose
from pate.testing.divergences import hockey_stick
from pate.testing.verifier import distribution_table
from reproductions.stable_top_k.celeba_prices import (
    NUM_LABELS,
    NUM_QUERIES,
    NUM_TEACHERS,
    SELECTION_STD,
    TARGET_DELTA,
    celeba_aggregator,
)

Law = Mapping[Any, float]


@dataclass(frozen=True)
class Floor:
    """A lower bound from one pair of neighbors: no sound epsilon is below it."""

    pair: str  # the neighbors
    adjacency: Adjacency  # under which they are
    epsilon_at_least: float  # of 600 releases, from the pair's exact laws


def floors() -> list[Floor]:
    """Returns pairs that refute the paper's 3.6, for its own noise."""
    tied = np.full(NUM_LABELS - 1, 10.0)
    alternating = np.where(np.arange(NUM_LABELS - 1) % 2 == 0, -1.0, 1.0)
    falling = [760 * (NUM_LABELS - 1 - rank) for rank in range(NUM_LABELS)]
    raised = [count + rank % 2 for rank, count in enumerate(falling)]
    counts = [799, 401] + [1] * 38
    neighbor = [800, 400] + [2] * 38
    return [
        *(
            Floor(
                pair="39 tied gaps, every second one moves; k released",
                adjacency=adjacency,
                epsilon_at_least=_at_least(
                    *(_choice(tied + move) for move in (0, adjacency.gap_sensitivity * alternating))
                ),
            )
            for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
        ),
        Floor(
            f"{falling[0]:,} teachers, 39 gaps of 760; one votes for every second rank",
            adjacency=Adjacency.ADD_REMOVE,
            epsilon_at_least=_at_least(
                *(_released(counts, adjacency=Adjacency.ADD_REMOVE) for counts in (falling, raised))
            ),
        ),
        Floor(
            pair="800 teachers: (799, 401, 1, …, 1) and (800, 400, 2, …, 2)",
            adjacency=Adjacency.REPLACE_ONE,
            epsilon_at_least=_at_least(
                *(
                    _released(counts, adjacency=Adjacency.REPLACE_ONE)
                    for counts in (counts, neighbor)
                )
            ),
        ),
    ]


def _choice(gaps: FloatArray) -> Law:
    """Returns the law of the noisy maximum."""
    return dict(enumerate(gaussian_argmax(gaps / SELECTION_STD).tolist()))


def _released(counts: list[int], adjacency: Adjacency) -> Law:
    """Returns the law of one query, with k hidden where it is refused; the first label has all the votes."""
    aggregator = celeba_aggregator(adjacency, noise="gaussian", scale=SELECTION_STD)
    return aggregator.distribution(np.array(counts), num_teachers=max(counts[0], NUM_TEACHERS))


def _at_least(first_law: Law, second_law: Law) -> float:
    """Returns the larger epsilon of the two directions, which merging outcomes only lowers."""
    first, second = distribution_table((first_law, second_law), distribution_names=("one", "two"))

    def epsilon(p: FloatArray, q: FloatArray) -> float:
        p, q = compose(p, q, NUM_QUERIES, num_cells=512)
        return float(
            brentq(lambda e: hockey_stick(p[None], q[None], e).max() - TARGET_DELTA, 0.0, 100.0)
        )

    return max(epsilon(first, second), epsilon(second, first))
