"""Canonical top-k: classes of sets against their definition, and the distributions of the five kinds of noise."""

from collections import Counter
from itertools import combinations, product
from math import comb

import numpy as np
import pytest

from pate.accounting import BoundedRangeEvent, PureDpEvent
from pate.mechanisms import CanonicalTopK
from pate.mechanisms.noise.kinds import UNIT_NOISES
from pate.mechanisms.noise.maxima import ordered_distribution
from pate.mechanisms.top_k.canonical_classes import CanonicalClasses
from tests.refusals import refused
from tests.statistical.chi_square import p_value


def loss_by_definition(counts: np.ndarray, chosen: tuple[int, ...], gamma: float) -> float:
    """Returns (1 - gamma) max(largest count outside, smallest count inside) - gamma (smallest count inside) for
    a set.
    """
    missing = [int(counts[i]) for i in range(len(counts)) if i not in chosen]
    worst = min(int(counts[i]) for i in chosen)
    return (1 - gamma) * max([*missing, worst]) - gamma * worst


def four_partitions(falling_counts: np.ndarray, k: int) -> list[CanonicalClasses]:
    """Returns four partitions of the sets of k ranks into classes, given counts in falling order.

    The first has a class for each pair of the first missing rank and the last rank; the second has a class for each
    last rank. The others have the likely classes for the gammas 0 and 0.5.
    """
    likely = (
        CanonicalClasses.likely(falling_counts, k, loss_weight=0.01, gamma=gamma)
        for gamma in (0.0, 0.5)
    )
    return [
        CanonicalClasses.all(len(falling_counts), k),
        CanonicalClasses.by_worst(num_ranks=len(falling_counts), k=k),
        *likely,
    ]


@pytest.mark.parametrize("size", range(1, 9))
def test_class_sizes_count_every_set_once(size: int) -> None:
    """The sizes of all classes of sets with equal loss sum to the number of sets of k labels, for
    every k.
    """
    falling_counts = -np.sort(-np.random.default_rng(size).integers(low=0, high=4, size=size))
    for k in range(1, size + 1):
        for classes in four_partitions(falling_counts=falling_counts, k=k):
            sizes = [classes.size(place) for place in range(len(classes.first))]
            assert min(sizes) >= 1
            assert sum(sizes) == comb(size, k)
            np.testing.assert_allclose(classes.log_sizes, np.log(sizes), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(4))
def test_members_are_uniform_and_all_sets_occur(kind: int) -> None:
    """Sets drawn from a class are uniform over its members; together the classes have every set of
    3 of 6 labels once.
    """
    rng = np.random.default_rng(0)
    draws = 2_000
    classes = four_partitions(falling_counts=np.array([5, 5, 3, 3, 3, 1]), k=3)[kind]
    seen: set[tuple[int, ...]] = set()
    for place in range(len(classes.first)):
        size = classes.size(place)
        members = Counter(
            map(tuple, classes.draw_members(class_indices=np.full(draws, place), rng=rng).tolist())
        )
        assert len(members) == size
        assert max(abs(n - draws / size) for n in members.values()) <= 6 * np.sqrt(draws / size)
        assert not seen & members.keys()
        seen |= members.keys()
    assert seen == set(combinations(range(6), 3))


@pytest.mark.parametrize("gamma", [0.0, 0.5])
@pytest.mark.parametrize("weight", [0.05, 0.5, 5.0])
def test_classes_that_weigh_nothing_are_left_out(weight: float, gamma: float) -> None:
    """Of 400 labels with random counts, only likely classes of sets of 8 labels are kept.

    The classes that are left out have less than e^-120 of the weight.
    """
    falling_counts = -np.sort(-np.random.default_rng(2).integers(low=0, high=3_000, size=400))
    k = 8
    every = CanonicalClasses.all(400, 8)
    likely = CanonicalClasses.likely(falling_counts, k, loss_weight=weight, gamma=gamma)
    weights = [
        c.log_sizes - weight * c.losses(falling_counts=falling_counts[None], gamma=gamma)[0]
        for c in (every, likely)
    ]
    assert np.logaddexp.reduce(weights[0]) == pytest.approx(
        np.logaddexp.reduce(weights[1]), rel=1e-12
    )
    inside = (every.first >= likely.first.min()) & (every.high <= likely.high.max())
    assert np.logaddexp.reduce(weights[0][~inside], initial=-np.inf) < -120
    assert len(likely.first) < len(every.first)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "gamma"), [("gumbel", 0.4), ("half_logistic", 0.0)])
def test_few_and_many_classes_have_the_same_distribution(noise: str, gamma: float) -> None:
    """The draws for few classes and for many classes both follow the exact distribution by a
    chi-square test with a fixed seed.
    """
    rng = np.random.default_rng(4)
    counts = np.array([4, 4, 2, 1, 0])
    mechanism = CanonicalTopK(k=2, epsilon=2.0, noise=noise, gamma=gamma)
    distribution = mechanism.distribution(counts)
    block = mechanism._draw_block(rng, counts=np.tile(counts, (20_000, 1)), has_few_classes=True)
    single = np.concatenate(
        [mechanism._draw_block(rng, counts[None], has_few_classes=False) for _ in range(3_000)]
    )
    for drawn in (block, single):
        assert (
            p_value(outcome_counts=Counter(map(tuple, drawn.tolist())), distribution=distribution)
            > 1e-4
        )


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("noise", list(UNIT_NOISES))
def test_distribution_is_the_noisy_minimum_of_the_loss_over_all_sets(
    noise: str, gamma: float
) -> None:
    """The distribution of canonical top-k equals that of the set with the smallest loss after
    noise, over all pairs of four labels.
    """
    counts = np.array([1, 4, 0, 3])
    mechanism = CanonicalTopK(k=2, epsilon=3.0, noise=noise, gamma=gamma)
    sets = list(combinations(range(4), 2))
    values = np.array(
        [
            -mechanism.weight_for(len(counts))
            * loss_by_definition(counts=counts, chosen=chosen, gamma=gamma)
            for chosen in sets
        ]
    )
    expected = ordered_distribution(values, k=1, noise_kind=UNIT_NOISES[noise])
    distribution = mechanism.distribution(counts)
    assert distribution.keys() == set(sets)
    for place, chosen in enumerate(sets):
        assert distribution[chosen] == pytest.approx(expected[(place,)], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.0, 0.25, 0.5, 0.8, 1.0])
@pytest.mark.parametrize(("k", "d"), [(1, 3), (2, 3), (1, 4), (2, 4), (3, 4)])
def test_losses_times_their_weight_move_by_the_price_at_most(k: int, d: int, gamma: float) -> None:
    """For all counts up to 4, weight times the range of the losses' changes by one teacher is at most 1.

    The losses of all sets of k of d labels are compared before and after every change of a teacher. The 1 is reached,
    except with k = 1 and gamma = 0.
    """
    for adjacency, moves in (("replace_one", (-1, 0, 1)), ("add_remove", (0, 1))):
        weight = CanonicalTopK(k=k, epsilon=1.0, gamma=gamma, adjacency=adjacency).weight_for(d)
        sets = list(combinations(range(d), k))
        widest = 0.0
        for counts in product(range(5), repeat=d):
            if list(counts) != sorted(counts, reverse=True):
                continue
            before = np.array(
                [
                    loss_by_definition(counts=np.array(counts), chosen=chosen, gamma=gamma)
                    for chosen in sets
                ]
            )
            for move in product(moves, repeat=d):
                if min(np.array(counts) + move) < 0:
                    continue
                after = [
                    loss_by_definition(counts=np.array(counts) + move, chosen=chosen, gamma=gamma)
                    for chosen in sets
                ]
                widest = max(widest, float(np.ptp(np.array(after) - before)))
        assert weight * widest <= 1 + 1e-12
        if k > 1 or gamma > 0:
            assert weight * widest >= 1 - 1e-12


def test_prices_and_refusals() -> None:
    """The event is bounded range for Gumbel noise, given epsilon or rho, and pure DP for Laplace noise.

    The weight of a loss at epsilon 2 is 1; it is 2 under add-remove, or if k is 1 or one less than the number of
    labels. Impossible values of `gamma`, `noise` and `rho` are refused.
    """
    assert CanonicalTopK(k=3, epsilon=2.0).event == BoundedRangeEvent(epsilon=2.0)
    assert CanonicalTopK(k=3, rho=0.5).event == BoundedRangeEvent(epsilon=2.0)
    assert CanonicalTopK(k=3, epsilon=2.0, noise="laplace").event == PureDpEvent(epsilon=2.0)
    assert CanonicalTopK(k=3, epsilon=2.0).weight_for(num_counts=9) == 1.0
    assert CanonicalTopK(k=3, epsilon=2.0, adjacency="add_remove").weight_for(num_counts=9) == 2.0
    assert (
        CanonicalTopK(k=1, epsilon=2.0).weight_for(num_counts=9)
        == CanonicalTopK(k=8, epsilon=2.0).weight_for(num_counts=9)
        == 2.0
    )
    for gamma in (-0.1, 1.1, np.nan):
        with refused("gamma", value=gamma):
            CanonicalTopK(k=1, epsilon=1.0, noise="laplace", gamma=gamma)
    with refused("noise", value="cauchy"):
        CanonicalTopK(k=1, epsilon=1.0, noise="cauchy")
    with refused("rho", value=0.1):
        CanonicalTopK(k=1, rho=0.1, noise="laplace")
