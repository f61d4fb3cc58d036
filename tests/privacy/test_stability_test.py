"""The price of StabilityTest against its bit's exact distribution on all neighboring histograms; it is attained."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pate.accounting import Adjacency
from pate.mechanisms import StabilityTest, optimal_stability_table
from tests.privacy.divergences import (
    ORDERS,
    assert_covered,
    assert_delta_covered,
    assert_refuted,
    largest_delta,
    largest_renyi,
    price_curve,
)
from tests.privacy.histograms import gap_pairs

ADJACENCIES = tuple(Adjacency)
KINDS = ("gaussian", "laplace", "table")
SIZES = [(labels, teachers) for labels in (2, 3, 4) for teachers in (1, 2, 3, 4, 5, 6)]
Array = NDArray[np.float64]


def make_test(kind: str, adjacency: Adjacency, *, num_teachers: int = 6, failure_prob: float = 0.05) -> StabilityTest:
    shape = {"num_teachers": num_teachers, "adjacency": adjacency}
    if kind == "table":
        table = optimal_stability_table(order=4.0, rdp_budget=0.5, failure_prob=failure_prob, num_levels=7)
        return StabilityTest.from_table(table, **shape)
    make = StabilityTest.gaussian if kind == "gaussian" else StabilityTest.laplace
    return make(test_std=1.0, failure_prob=failure_prob, **shape)


def distributions_of(
    test: StabilityTest, *, num_labels: int, adjacency: Adjacency | None = None
) -> tuple[Array, Array, Array]:
    """The bit's distributions for every neighbor and every k, `[M, 2]`, and whether the k best are the same, `[M]`."""
    pairs = gap_pairs(num_labels, test.num_teachers, adjacency or test.adjacency, padded=False)
    passed = [np.array(test.pass_probs)[gaps.ravel()] for gaps in (pairs.first, pairs.second)]
    first, second = (np.column_stack([p, 1 - p]) for p in passed)
    return first, second, pairs.same_set.ravel()


def released_distributions(first: Array, second: Array, same: NDArray[np.bool_]) -> tuple[Array, Array]:
    """The set as released, where it differs two outcomes, or the refusal: `[M, 4]`."""
    nothing = np.zeros(len(same))
    mine = np.column_stack([np.where(same, first[:, 0], 0), np.where(same, 0, first[:, 0]), nothing, first[:, 1]])
    other = np.column_stack([np.where(same, second[:, 0], 0), nothing, np.where(same, 0, second[:, 0]), second[:, 1]])
    return mine, other


@pytest.mark.parametrize("failure_prob", [0.3, 0.05, 1e-4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_price_covers_all_neighbors_and_is_attained(adjacency: Adjacency, kind: str, failure_prob: float) -> None:
    for num_labels, num_teachers in SIZES:
        test = make_test(kind, adjacency, num_teachers=num_teachers, failure_prob=failure_prob)
        first, second, same = distributions_of(test, num_labels=num_labels)
        tightness = assert_covered(largest_renyi(first[same], second[same]), price_curve(test.event))
        assert_delta_covered(*released_distributions(first, second, same), test.event)
    assert tightness == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_price_10_percent_too_small_fails(adjacency: Adjacency, kind: str) -> None:
    test = make_test(kind, adjacency)
    first, second, same = distributions_of(test, num_labels=3)
    assert_refuted(largest_renyi(first[same], second[same]), 0.9 * price_curve(test.event))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_unstable_sets_pass_with_the_failure_probability_and_no_more(adjacency: Adjacency, kind: str) -> None:
    for num_labels, num_teachers in SIZES[1:]:
        test = make_test(kind, adjacency, num_teachers=num_teachers)
        first, second, same = distributions_of(test, num_labels=num_labels)
        unstable = np.maximum(first[~same, 0].max(), second[~same, 0].max())
        assert unstable == pytest.approx(test.failure_prob, rel=1e-9)
        assert unstable <= test.failure_prob
        assert largest_delta(*released_distributions(first, second, same), 50.0) == pytest.approx(
            test.failure_prob, rel=1e-9
        )


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_gaussian_bit_costs_less_than_the_noisy_gap_it_hides(adjacency: Adjacency) -> None:
    """One bit costs less than releasing the gap with the same noise, a sens**2 / (2 test_std**2)."""
    for test_std in (0.5, 1.0, 3.0):
        test = StabilityTest.gaussian(test_std=test_std, failure_prob=0.05, num_teachers=6, adjacency=adjacency)
        noisy_gap = ORDERS * adjacency.gap_sensitivity**2 / (2 * test_std**2)
        assert (price_curve(test.event) <= noisy_gap).all()


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_table_costs_its_budget_at_its_order(adjacency: Adjacency) -> None:
    test = make_test("table", adjacency, num_teachers=20)
    assert price_curve(test.event, np.array([4.0]))[0] == pytest.approx(0.5, rel=1e-6)
    assert price_curve(test.event, np.array([8.0]))[0] > 0.5
