from itertools import product

import numpy as np
import pytest

from pate.accounting import Adjacency
from pate.verification.verifier import Neighbors, neighbors
from tests.privacy.divergences import largest_renyi

ADJACENCIES = tuple(Adjacency)
Pair = tuple[tuple[int, ...], tuple[int, ...]]


def found(pairs: Neighbors) -> list[Pair]:
    return list(zip(*(map(tuple, side.tolist()) for side in pairs.pairs), strict=True))


def by_definition(num_labels: int, num_teachers: int, adjacency: Adjacency, *, one_vote: bool) -> set[Pair]:
    """Every vote matrix, every change of one teacher."""
    bits = [np.array(row) for row in product((0, 1), repeat=num_labels)]
    ballots = [row for row in bits if row.sum() == 1] if one_vote else bits
    pairs = set()
    for teachers in product(ballots, repeat=num_teachers):
        votes = np.array(teachers)
        for new in ballots if adjacency == Adjacency.REPLACE_ONE else bits[:1]:
            changed = np.vstack([new, votes[1:]])
            pair = tuple(votes.sum(axis=0).tolist()), tuple(changed.sum(axis=0).tolist())
            pairs |= {pair, pair[::-1]} if pair[0] != pair[1] else set()
    return pairs


@pytest.mark.parametrize("one_vote", [False, True])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(("num_labels", "num_teachers"), [(1, 1), (1, 3), (2, 3), (3, 2), (3, 3)])
def test_pairs_are_those_of_the_definition(
    adjacency: Adjacency, num_labels: int, num_teachers: int, one_vote: bool
) -> None:
    pairs = found(neighbors(num_labels, num_teachers, adjacency, one_vote=one_vote))
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == by_definition(num_labels, num_teachers, adjacency, one_vote=one_vote)


def ranks_distribution(histogram: np.ndarray) -> np.ndarray:
    """A distribution over labels that depends on the sorted counts and on the tie-break."""
    order = np.argsort(-histogram, kind="stable")
    falling = histogram[order]
    weights = np.exp(0.7 * falling) * (1 + 0.3 * np.arange(len(falling)))
    distribution = np.zeros(len(falling))
    distribution[order] = weights / weights.sum()
    return distribution


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_one_pair_of_each_kind_has_all_divergences(adjacency: Adjacency) -> None:
    pairs = neighbors(3, 4, adjacency)
    kinds = pairs.up_to_names()
    assert 2 * len(kinds) < len(pairs)
    assert set(found(kinds)) <= set(found(pairs))

    def divergences(some: Neighbors) -> set[float]:
        distributions = np.array([ranks_distribution(histogram) for histogram in some.histograms])
        return {
            round(float(largest_renyi(distributions[[i]], distributions[[j]], [2.0])[0]), 10)
            for i, j in zip(some.first, some.second, strict=True)
        }

    assert divergences(kinds) == divergences(pairs)
