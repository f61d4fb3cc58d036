"""The enumeration of neighbors is what it says, and gaps and sets are those of the ranking."""

import numpy as np
import pytest

from pate.accounting import Adjacency
from pate.mechanisms.gap_selection import Ranking
from tests.privacy.histograms import all_histograms, gaps_of, neighbors, top_sets


def test_the_largest_instance_has_all_histograms_and_pairs() -> None:
    assert len(all_histograms(4, 6)) == 7**4
    assert len(neighbors(4, 6, Adjacency.REPLACE_ONE)[0]) == (7 + 6 + 6) ** 4 - 7**4
    assert len(neighbors(4, 6, Adjacency.ADD_REMOVE)[0]) == 2 * ((6 + 6) ** 4 - 6**4)


@pytest.mark.parametrize("padded", [False, True])
def test_gaps_and_top_sets_agree_with_the_ranking(padded: bool) -> None:
    counts = all_histograms(4, 4)
    ranking, sets = Ranking.of(counts), top_sets(counts)
    expected = gaps_of(counts, num_teachers=4, padded=padded)
    np.testing.assert_array_equal(ranking.gaps(padded=padded, num_teachers=4), expected)
    for k in range(5):
        np.testing.assert_array_equal(ranking.top(np.full(len(counts), k)) @ (1 << np.arange(4)), sets[:, k])
