"""What all top-k mechanisms share: shapes, refusals, and draws that follow the exact distribution; Laplace top-k."""

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
from pate.mechanisms.top_k.ranking import stable_sort
from pate.validation import InvalidValue
from tests.refusals import ANY, refused
from tests.statistical.chi_square import p_value

PURE: list[Callable[..., TopKMechanism]] = [
    PeelingTopK,
    PermuteAndFlipTopK,
    OneShotTopK,
    *(partial(LipschitzTopK, noise=noise) for noise in UNIT_NOISES),
    LaplaceTopK,
    partial(LaplaceTopK, max_labels=1),
    GammaTopK,
    JointTopK,
    PermuteAndFlipJointTopK,
    *(partial(CanonicalTopK, noise=noise) for noise in UNIT_NOISES),
]
"""Builds each kind of pure-DP mechanism from `k` and `epsilon`."""


def mechanisms(k: int = 2, epsilon: float = 2.0) -> list[TopKMechanism]:
    """Returns one mechanism of every kind with pure privacy."""
    return [make(k=k, epsilon=epsilon) for make in PURE]


def of_a_domain(
    k: int = 2, epsilon: float = 2.0, failure_prob: float = 0.01
) -> list[TopKMechanism]:
    """Returns both mechanisms that choose among the largest k + 1 counts, at a failure probability."""
    return [
        kind(k=k, domain_size=k + 1, epsilon=epsilon, failure_prob=failure_prob)
        for kind in (LimitedDomainTopK, TopStableTopK)
    ]


def name(mechanism: TopKMechanism) -> str:
    """Returns the class of a mechanism and its noise, as the id of a test."""
    return f"{type(mechanism).__name__}-{vars(mechanism).get('noise', '')}"


@pytest.mark.parametrize("mechanism", [*mechanisms(), *of_a_domain(failure_prob=0.2)], ids=name)
def test_draws_follow_the_exact_distribution(mechanism: TopKMechanism) -> None:
    """20,000 draws of each mechanism follow its exact distribution, which sums to 1, by a
    chi-square test.

    A query is answered unless its first label is -1.
    """
    counts = np.array([2, 5, 4, 1])
    draws = 20_000
    outcome = mechanism(np.tile(counts, (draws, 1)), rng=np.random.default_rng(7))
    distribution = mechanism.distribution(counts)
    assert sum(distribution.values()) == pytest.approx(1, abs=1e-12)
    assert (
        p_value(
            outcome_counts=Counter(map(tuple, outcome.indices.tolist())), distribution=distribution
        )
        > 1e-4
    )
    assert outcome.answered.tolist() == (outcome.indices[:, 0] >= 0).tolist()


@pytest.mark.parametrize("mechanism", mechanisms(k=3, epsilon=1e6), ids=name)
def test_with_little_noise_the_largest_counts_come_back(mechanism: TopKMechanism) -> None:
    """At epsilon 1e6, each mechanism returns the three largest counts of both rows, and of a single
    histogram.
    """
    counts = np.array([[1000, 0, 3000, 2000, 7], [4, 3000, 10**12, 2000, 9]])
    batch = mechanism(counts, rng=np.random.default_rng(0))
    assert (batch.indices.shape, batch.indices.dtype) == ((2, 3), np.int64)
    assert [set(row) for row in batch.indices.tolist()] == [{2, 3, 0}, {2, 1, 3}]
    assert batch.answered.tolist() == [True, True]
    one = mechanism(counts[0], rng=np.random.default_rng(0))
    assert (one.indices.shape, one.answered.shape) == ((3,), ())
    assert set(one.indices.tolist()) == {2, 3, 0}


WRONG: list[Any] = [
    np.array([1, -1, 2]),
    np.array([2.0, 1.0, 0.0]),
    np.array([True, False, True]),
    np.array([], dtype=int),
    [[1, 2], [3]],
    np.array([4]),
    np.zeros((2, 2, 2), dtype=int),
    np.array([2**60, 0]),
]


@pytest.mark.parametrize("mechanism", [*mechanisms(), *of_a_domain()], ids=name)
def test_impossible_counts_and_seeds_are_refused_in_one_line(mechanism: TopKMechanism) -> None:
    """Each mechanism refuses eight impossible arrays of counts, and a seed in place of a random
    generator.
    """
    for counts in WRONG:
        with pytest.raises(InvalidValue, match=r"^(counts|k=2)[^\n]*: expected [^\n]*$"):
            mechanism(counts, rng=np.random.default_rng(0))
    with refused("rng", value=3):
        mechanism(np.array([1, 2, 3]), rng=3)


def test_distributions_are_for_one_small_histogram() -> None:
    """Exact distributions are refused for a batch, for counts that spread widely, and for many
    labels.
    """
    with refused("counts.shape", value=(1, 3)):
        PeelingTopK(k=1, epsilon=1.0).distribution(np.array([[1, 2, 3]]))
    with refused("spread", value=ANY, rule="values at most 5000"):
        LaplaceTopK(k=1, epsilon=1e6).distribution(np.array([1, 2, 3]))
    with refused("counts", value="970200 sequences", rule="at most 100000"):
        PeelingTopK(k=3, epsilon=1.0).distribution(np.arange(100))


@pytest.mark.parametrize("make", PURE)
def test_the_accountant_never_charges_more_than_epsilon(
    make: Callable[..., TopKMechanism],
) -> None:
    """The Renyi accountant's epsilon at delta 1e-12 is at most the epsilon of the mechanism."""
    event = make(k=3, epsilon=0.6).event
    printed = RdpAccountant().compose(event).get_epsilon(target_delta=1e-12)
    assert 0 < printed <= 0.6 * (1 + 1e-4)  # Renyi orders end at a finite one


def test_with_a_failure_the_order_of_the_noise_is_not_released() -> None:
    """The approximate Laplace mechanism publishes its labels by increasing index, not by falling
    noisy counts.
    """
    mechanism = LaplaceTopK(k=3, epsilon=0.2, failure_prob=0.05)
    drawn = mechanism(np.full((50, 6), 7), rng=np.random.default_rng(0)).indices
    assert (np.diff(drawn, axis=1) > 0).all()
    distribution = mechanism.distribution(np.array([2, 1, 1, 0]))
    assert list(distribution) == [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]
    assert sum(distribution.values()) == pytest.approx(1, abs=1e-12)


def test_the_approximate_price_is_refused_outside_its_range() -> None:
    """`LaplaceTopK` with a failure probability refuses an epsilon, failure probability or
    `max_labels` outside of its proof's range.
    """
    with refused("epsilon", value=0.3):
        LaplaceTopK(k=1, epsilon=0.3, failure_prob=0.01)
    for failure_prob in (0.0, 0.06, math.nan):
        with refused("failure_prob", value=failure_prob):
            LaplaceTopK(k=1, epsilon=0.1, failure_prob=failure_prob)
    for max_labels in (2, 0):
        with refused("max_labels", value=max_labels):
            LaplaceTopK(k=1, epsilon=0.1, failure_prob=0.01, max_labels=max_labels)


def distribution_of_chosen_counts(values: tuple[float, float]) -> np.ndarray:
    """Returns the probabilities `[201]` that 0 to 200 of 200 counts of a first value are among the 200 largest noisy
    counts.

    There are 400 counts, of which the other 200 have a second value. The noise is Laplace noise of scale 1.
    """
    nodes, weights = np.polynomial.legendre.leggauss(16)
    edges = np.unique([*np.linspace(-6, 6, 61), *values])
    half = np.diff(edges)[:, None] / 2
    points = (edges[:-1, None] + half * (1 + nodes)).ravel()
    weight = (half * weights).ravel()
    away = [points - value for value in values]
    density = [np.exp(-np.abs(x)) / 2 for x in away]
    exceeds_first, exceeds_second = (
        np.where(x > 0, f, 1 - f) for x, f in zip(away, density, strict=True)
    )
    num_equal = 200  # counts of either value
    num_first = np.arange(num_equal + 1)[:, None]
    last_is_first = (
        num_equal
        * binom.pmf(num_first - 1, n=num_equal - 1, p=exceeds_first)
        * binom.pmf(num_equal - num_first, n=num_equal, p=exceeds_second)
        * density[0]
    )
    last_is_second = (
        num_equal
        * binom.pmf(num_first, n=num_equal, p=exceeds_first)
        * binom.pmf(num_equal - 1 - num_first, n=num_equal - 1, p=exceeds_second)
        * density[1]
    )
    return np.asarray((last_is_first + last_is_second) @ weight)


@pytest.mark.slow
@pytest.mark.parametrize("lead", [0, 3, 15])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_approximate_price_covers_many_counts_of_two_kinds(
    adjacency: Adjacency, lead: int
) -> None:
    """200 counts exceed 200 others by `lead` votes: the exact delta over all moves of both values
    is at most the claimed 0.05.

    Negative control: with a thirtieth of the noise it exceeds 0.05.
    """
    mechanism = LaplaceTopK(k=200, epsilon=0.2, failure_prob=0.05, adjacency=adjacency)
    scale = mechanism.noise_scale(num_counts=400)
    assert scale < 200 * mechanism.adjacency.gap_sensitivity / 0.2  # less noise than one shot takes
    steps = [0, 1] if adjacency is Adjacency.ADD_REMOVE else [-1, 0, 1]
    for share, covered in ((1.0, True), (1 / 30, False)):
        distribution = distribution_of_chosen_counts(values=(lead / scale / share, 0.0))
        assert distribution.sum() == pytest.approx(1)
        deltas = []
        for first, second in product(steps, steps):
            other = distribution_of_chosen_counts(
                values=((lead + first) / scale / share, second / scale / share)
            )
            deltas += [
                np.maximum(p - math.exp(0.2) * q, 0).sum()
                for p, q in ((distribution, other), (other, distribution))
            ]
        assert (max(deltas) <= 0.05) == covered


@pytest.mark.parametrize("largest", [3, 2**40, 2**61])
def test_stable_sort_is_stable_for_small_and_huge_values(
    largest: int,
) -> None:
    """`stable_sort` returns, for each row, the indices in order of rising values, and the rising values.

    Equal values keep the order of their indices. Small values are sorted as integers that hold a value and its index,
    and huge values otherwise.
    """
    values = np.array([[largest, 0, largest, 1, 0], [0, 0, 0, 0, largest]])
    order, rising = stable_sort(values)
    assert order.tolist() == [[1, 4, 3, 0, 2], [0, 1, 2, 3, 4]]
    assert rising.tolist() == [[0, 0, 1, largest, largest], [0, 0, 0, 0, largest]]
