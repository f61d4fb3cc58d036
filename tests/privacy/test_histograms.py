"""The enumeration of neighbors is what it says, and the reduction to gaps loses nothing."""

import numpy as np
import pytest

from pate.accounting import Adjacency
from pate.aggregators import StableTopK
from pate.mechanisms import GapSelection
from pate.mechanisms.gap_selection import SELECTION_NOISES, Ranking
from tests.privacy.distributions import distributions_end_to_end, selection_distribution
from tests.privacy.divergences import EPSILONS, largest_delta
from tests.privacy.histograms import all_histograms, gap_pairs, gaps_of, neighbors, top_sets

ADJACENCIES = tuple(Adjacency)


def test_the_largest_instance_has_all_histograms_and_pairs() -> None:
    assert len(all_histograms(4, 6)) == 7**4
    assert len(neighbors(4, 6, Adjacency.REPLACE_ONE)[0]) == (7 + 6 + 6) ** 4 - 7**4
    assert len(neighbors(4, 6, Adjacency.ADD_REMOVE)[0]) == 2 * ((6 + 6) ** 4 - 6**4)


@pytest.mark.parametrize("padded", [False, True])
def test_gaps_and_top_sets_agree_with_the_ranking(padded: bool) -> None:
    counts = all_histograms(4, 4)
    ranking = Ranking.of(counts)
    expected = gaps_of(counts, num_teachers=4, padded=padded)
    np.testing.assert_array_equal(ranking.gaps(padded=padded, num_teachers=4), expected)
    sets = top_sets(counts)
    for k in range(5):
        bits = ranking.top(np.full(len(counts), k))
        np.testing.assert_array_equal(bits @ (1 << np.arange(4)), sets[:, k])


@pytest.mark.parametrize("noise", SELECTION_NOISES)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_distributions_of_the_package_are_the_exact_ones(noise: str, padded: bool, scale: float) -> None:
    counts = np.unique(-np.sort(-all_histograms(4, 6), axis=1), axis=0)
    selection = GapSelection(noise_scale=scale, noise=noise, num_labels=4, num_teachers=6, padded=padded)
    expected = selection_distribution(noise, gaps_of(counts, num_teachers=6, padded=padded), scale)
    np.testing.assert_allclose(selection.probabilities(counts), expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("padded", [False, True])
def test_reduction_to_gaps_loses_nothing(padded: bool) -> None:
    """Divergences over distributions of named sets, for every pair of histograms, against those over gap pairs."""
    aggregator = StableTopK(selection_scale=1.0, test_std=1.0, failure_prob=0.05, padded=padded)
    named = {tuple(counts): _named_distribution(aggregator, counts) for counts in all_histograms(3, 3)}
    first, second = (
        np.array([named[tuple(counts)] for counts in side]) for side in neighbors(3, 3, Adjacency.REPLACE_ONE)
    )
    reduced = distributions_end_to_end(aggregator, gap_pairs(3, 3, Adjacency.REPLACE_ONE, padded=padded))
    for epsilon in EPSILONS:
        expected = largest_delta(first, second, epsilon)
        assert largest_delta(*reduced, epsilon) == pytest.approx(expected, rel=1e-9), epsilon


def _named_distribution(aggregator: StableTopK, counts: np.ndarray) -> np.ndarray:
    """The package's own distribution over all 8 sets of labels and the refusal."""
    distribution = np.zeros(9)
    for labels, probability in aggregator.distribution(counts, num_teachers=3).items():
        distribution[8 if labels is None else sum(1 << label for label in labels)] += probability
    return distribution
