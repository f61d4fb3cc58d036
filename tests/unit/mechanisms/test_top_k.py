"""The top-k mechanisms return the right shapes, refuse impossible counts, and follow their exact distributions.

Further tests are on Laplace top-k with a failure probability, and on the stable sort of counts.
"""

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from pate.accounting import Adjacency, RdpAccountant
from pate.array_types import FloatArray
from pate.mechanisms import (
    CanonicalTopK,
    GammaTopK,
    JointTopK,
    LaplaceTopK,
    LimitedDomainTopK,
    LipschitzTopK,
    OneShotTopK,
    PeelingTopK,
    PermuteAndFlipJointTopK,
    PermuteAndFlipTopK,
    TopStableTopK,
)
from pate.mechanisms.noise.kinds import UNIT_NOISES
from pate.mechanisms.top_k.mechanism import TopKMechanism
from pate.mechanisms.top_k.sorted_counts import stable_sort
from pate.validation import InvalidValue
from tests.refusals import ANY, refused_parameter
from tests.statistical.chi_square import chi_square_p_value

PURE: list[Callable[..., TopKMechanism]] = [
    PeelingTopK,
    PermuteAndFlipTopK,
    OneShotTopK,
    *(partial(LipschitzTopK, noise=noise_kind) for noise_kind in UNIT_NOISES),
    LaplaceTopK,
    partial(LaplaceTopK, max_labels=1),
    GammaTopK,
    JointTopK,
    PermuteAndFlipJointTopK,
    *(partial(CanonicalTopK, noise=noise_kind) for noise_kind in UNIT_NOISES),
]
"""Builds each kind of pure-DP mechanism from `k` and `epsilon`."""


def pure_mechanisms(k: int = 2, epsilon: float = 2.0) -> list[TopKMechanism]:
    """Returns one mechanism of every kind with pure privacy."""
    return [make_mechanism(k=k, epsilon=epsilon) for make_mechanism in PURE]


def domain_mechanisms(failure_prob: float = 0.01) -> list[TopKMechanism]:
    """Returns both mechanisms that choose 2 among the 3 largest counts, at a failure probability."""
    return [
        kind(k=2, domain_size=3, epsilon=2.0, failure_prob=failure_prob)
        for kind in (LimitedDomainTopK, TopStableTopK)
    ]


def id_of(mechanism: TopKMechanism) -> str:
    """Returns the class of a mechanism and its noise, as the id of a test."""
    return f"{type(mechanism).__name__}-{vars(mechanism).get('noise', '')}"


@pytest.mark.parametrize(
    "mechanism", [*pure_mechanisms(), *domain_mechanisms(failure_prob=0.2)], ids=id_of
)
def test_draws_follow_the_exact_distribution(mechanism: TopKMechanism) -> None:
    """20,000 draws of each mechanism follow its exact distribution, which sums to 1, by a chi-square test.

    A query is answered unless its first label is -1.
    """
    counts = np.array([2, 5, 4, 1])
    equal_queries = np.tile(counts, (20_000, 1))
    outcome = mechanism(equal_queries, rng=np.random.default_rng(7))
    distribution = mechanism.distribution(counts)
    assert sum(distribution.values()) == pytest.approx(1, abs=1e-12)
    outcome_counts = Counter(map(tuple, outcome.indices.tolist()))
    assert chi_square_p_value(count_by_outcome=outcome_counts, prob_by_outcome=distribution) > 1e-4
    assert outcome.answered.tolist() == (outcome.indices[:, 0] >= 0).tolist()


@pytest.mark.parametrize("mechanism", pure_mechanisms(k=3, epsilon=1e6), ids=id_of)
def test_with_little_noise_the_largest_counts_come_back(mechanism: TopKMechanism) -> None:
    """At epsilon 1e6, each mechanism returns the three largest counts of two histograms, and of one alone."""
    counts = np.array([[1000, 0, 3000, 2000, 7], [4, 3000, 10**12, 2000, 9]])
    batch = mechanism(counts, rng=np.random.default_rng(0))
    assert (batch.indices.shape, batch.indices.dtype) == ((2, 3), np.int64)
    assert [set(row) for row in batch.indices.tolist()] == [{2, 3, 0}, {2, 1, 3}]
    assert batch.answered.tolist() == [True, True]
    outcome_of_one = mechanism(counts[0], rng=np.random.default_rng(0))
    assert (outcome_of_one.indices.shape, outcome_of_one.answered.shape) == ((3,), ())
    assert set(outcome_of_one.indices.tolist()) == {2, 3, 0}


IMPOSSIBLE_COUNTS: list[Any] = [
    np.array([1, -1, 2]),
    np.array([2.0, 1.0, 0.0]),
    np.array([True, False, True]),
    np.array([], dtype=int),
    [[1, 2], [3]],
    np.array([4]),
    np.zeros((2, 2, 2), dtype=int),
    np.array([2**60, 0]),
]


@pytest.mark.parametrize("mechanism", [*pure_mechanisms(), *domain_mechanisms()], ids=id_of)
def test_impossible_counts_and_seeds_are_refused_in_one_line(mechanism: TopKMechanism) -> None:
    """Each mechanism refuses eight impossible arrays of counts, and a seed in place of a random generator."""
    for counts in IMPOSSIBLE_COUNTS:
        with pytest.raises(InvalidValue, match=r"^(counts|k=2)[^\n]*: expected [^\n]*$"):
            mechanism(counts, rng=np.random.default_rng(0))
    with refused_parameter("rng", value=3):
        mechanism(np.array([1, 2, 3]), rng=3)


def test_distributions_are_for_one_small_histogram() -> None:
    """Exact distributions are refused for a batch, for counts that span too many noise scales, and for many labels."""
    with refused_parameter("counts.shape", value=(1, 3)):
        PeelingTopK(k=1, epsilon=1.0).distribution(np.array([[1, 2, 3]]))
    with refused_parameter("spread", value=ANY, rule_words="values at most 5000"):
        LaplaceTopK(k=1, epsilon=1e6).distribution(np.array([1, 2, 3]))
    with refused_parameter("counts", value="970200 sequences", rule_words="at most 100000"):
        PeelingTopK(k=3, epsilon=1.0).distribution(np.arange(100))


@pytest.mark.parametrize("mechanism", pure_mechanisms(k=3, epsilon=0.6), ids=id_of)
def test_the_accountant_charges_hardly_more_than_epsilon(mechanism: TopKMechanism) -> None:
    """The Renyi accountant's epsilon at delta 1e-12 exceeds the epsilon of the mechanism by at most 0.01%.

    The accountant's Renyi orders end at a finite one, so its epsilon can be slightly above.
    """
    epsilon = RdpAccountant().compose(mechanism.event).get_epsilon(target_delta=1e-12)
    assert 0 < epsilon <= 0.6 * (1 + 1e-4)


def test_with_a_failure_the_order_of_the_noise_is_not_released() -> None:
    """The approximate Laplace mechanism publishes its labels by increasing index, not by falling noisy counts."""
    mechanism = LaplaceTopK(k=3, epsilon=0.2, failure_prob=0.05)
    tied_counts = np.full((50, 6), 7)
    indices = mechanism(tied_counts, rng=np.random.default_rng(0)).indices
    assert (np.diff(indices, axis=1) > 0).all()
    distribution = mechanism.distribution(np.array([2, 1, 1, 0]))
    assert list(distribution) == [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]
    assert sum(distribution.values()) == pytest.approx(1, abs=1e-12)


def test_the_approximate_price_is_refused_outside_its_range() -> None:
    """`LaplaceTopK` with a failure probability refuses parameters outside the range of its proof.

    These are `epsilon`, `failure_prob` and `max_labels`.
    """
    with refused_parameter("epsilon", value=0.3):
        LaplaceTopK(k=1, epsilon=0.3, failure_prob=0.01)
    for failure_prob in (0.0, 0.06, math.nan):
        with refused_parameter("failure_prob", value=failure_prob):
            LaplaceTopK(k=1, epsilon=0.1, failure_prob=failure_prob)
    for max_labels in (2, 0):
        with refused_parameter("max_labels", value=max_labels):
            LaplaceTopK(k=1, epsilon=0.1, failure_prob=0.01, max_labels=max_labels)


def laplace_tail(deviations: FloatArray) -> FloatArray:
    """Returns the probability that Laplace noise of scale 1 exceeds each deviation."""
    density = np.exp(-np.abs(deviations)) / 2
    return np.where(deviations > 0, density, 1 - density)


def distribution_of_chosen_counts(first_value: float, second_value: float) -> FloatArray:
    """Returns the probability, `[201]`, that 0 to 200 of the counts with the first value are chosen.

    Of 400 counts, 200 have the first value and 200 have the second. The 200 largest counts are chosen after Laplace
    noise of scale 1. The smallest chosen noisy count is integrated over.
    """
    nodes, node_weights = np.polynomial.legendre.leggauss(16)
    edges = np.unique([*np.linspace(-6, 6, 61), first_value, second_value])
    half_widths = np.diff(edges)[:, None] / 2
    points = (edges[:-1, None] + half_widths * (1 + nodes)).ravel()
    point_weights = (half_widths * node_weights).ravel()
    prob_first_exceeds = laplace_tail(points - first_value)
    prob_second_exceeds = laplace_tail(points - second_value)
    first_density = np.exp(-np.abs(points - first_value)) / 2
    second_density = np.exp(-np.abs(points - second_value)) / 2
    num_equal = 200  # counts of either value
    num_first = np.arange(num_equal + 1)[:, None]
    density_if_last_is_first = (
        num_equal
        * binom.pmf(num_first - 1, n=num_equal - 1, p=prob_first_exceeds)
        * binom.pmf(num_equal - num_first, n=num_equal, p=prob_second_exceeds)
        * first_density
    )
    density_if_last_is_second = (
        num_equal
        * binom.pmf(num_first, n=num_equal, p=prob_first_exceeds)
        * binom.pmf(num_equal - 1 - num_first, n=num_equal - 1, p=prob_second_exceeds)
        * second_density
    )
    return np.asarray((density_if_last_is_first + density_if_last_is_second) @ point_weights)


@pytest.mark.slow
@pytest.mark.parametrize("lead", [0, 3, 15])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_approximate_price_covers_many_counts_of_two_kinds(
    adjacency: Adjacency, lead: int
) -> None:
    """If 200 counts exceed 200 others by `lead` votes, the exact delta over certain moves is at most the claimed 0.05.

    A move, by one teacher, adds one number to the 200 larger counts and one to the others, each -1, 0 or 1 (0 or 1 for
    add-remove). Negative control: with a thirtieth of the noise, delta exceeds 0.05.
    """
    mechanism = LaplaceTopK(k=200, epsilon=0.2, failure_prob=0.05, adjacency=adjacency)
    scale = mechanism.noise_scale(num_counts=400)
    scale_of_one_shot = 200 * mechanism.adjacency.gap_sensitivity / 0.2
    assert scale < scale_of_one_shot
    moves = [0, 1] if adjacency is Adjacency.ADD_REMOVE else [-1, 0, 1]
    for drawn_scale, covered in ((scale, True), (scale / 30, False)):
        distribution = distribution_of_chosen_counts(
            first_value=lead / drawn_scale, second_value=0.0
        )
        assert distribution.sum() == pytest.approx(1)
        deltas = []
        for first_move, second_move in product(moves, repeat=2):
            moved = distribution_of_chosen_counts(
                first_value=(lead + first_move) / drawn_scale,
                second_value=second_move / drawn_scale,
            )
            deltas.append(np.maximum(distribution - math.exp(0.2) * moved, 0).sum())
            deltas.append(np.maximum(moved - math.exp(0.2) * distribution, 0).sum())
        assert (max(deltas) <= 0.05) == covered


@pytest.mark.parametrize("largest", [3, 2**40, 2**61])
def test_stable_sort_is_stable_for_small_and_huge_values(
    largest: int,
) -> None:
    """`stable_sort` returns, for each row, the indices in order of rising values, and the rising values.

    Equal values keep the order of their indices. Small values are sorted as integers that hold a value and its index.
    Huge values do not fit into such integers, and are sorted by an argsort.
    """
    values = np.array([[largest, 0, largest, 1, 0], [0, 0, 0, 0, largest]])
    order, rising = stable_sort(values)
    assert order.tolist() == [[1, 4, 3, 0, 2], [0, 1, 2, 3, 4]]
    assert rising.tolist() == [[0, 0, 1, largest, largest], [0, 0, 0, 0, largest]]
