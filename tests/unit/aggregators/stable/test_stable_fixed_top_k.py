"""StableFixedTopK: exactly k labels, how they come about, its price as the sum of its parts, calibration, refusals."""

import dataclasses
import math

import numpy as np
import pytest

import pate.accounting as pa
from pate.accounting.conversion import zcdp_to_epsilon_classic
from pate.accounting.events import count_leaves, failure_probability
from pate.accounting.rdp import rdp_curve
from pate.aggregators import StableFixedTopK
from pate.mechanisms import optimal_stability_table

SHAPE = {"num_queries": 600, "num_labels": 40, "num_teachers": 800}
GOAL = {"target_epsilon": 8.0, "target_delta": 1e-6}
PLAIN = StableFixedTopK(k=2, selection_scale=2.0, test_std=1.0, peel_scale=3.0)
TABLE = StableFixedTopK(k=4, selection_scale=1.0, test="table", table_order=2.0, table_budget=1.0, peel_scale=1.0)


def epsilon_of(aggregator: StableFixedTopK, **shape: int) -> float:
    return pa.RdpAccountant().compose(aggregator.event_for(**(SHAPE | shape))).get_epsilon(1e-6)


def released(aggregator: StableFixedTopK, votes: list[int], *, num_teachers: int, queries: int = 200) -> np.ndarray:
    rows = np.tile(votes, (queries, 1))
    return aggregator.aggregate(rows, num_teachers=num_teachers, rng=np.random.default_rng(0)).labels


def test_price_is_that_of_selection_test_and_peel_once_a_query() -> None:
    event = PLAIN.event_for(num_queries=7, num_labels=5, num_teachers=30)
    first = PLAIN.stable_top_k
    selection = first.gap_selection(num_labels=5, num_teachers=30).event
    test = first.stability_test(num_teachers=30).event
    assert event == pa.SelfComposedEvent(pa.ComposedEvent((selection, test, pa.ZCdpEvent((2 / 3) ** 2 / 8))), 7)
    assert failure_probability(event) == pytest.approx(7e-9, rel=1e-12)


def test_the_papers_parameters_cost_rho_under_add_remove() -> None:
    """With scales sqrt(2 / rho) and a peel of e = 2 sqrt(rho) per query: rho-zCDP, the upper bound of every part."""
    rho = 0.002
    scales = {"selection_scale": math.sqrt(2 / rho), "test_std": math.sqrt(2 / rho), "peel_scale": 0.5 / math.sqrt(rho)}
    paper = StableFixedTopK(k=4, adjacency=pa.Adjacency.ADD_REMOVE, **scales)
    orders = np.array([1.5, 3.0, 8.0, 30.0])
    curve = rdp_curve(count_leaves(paper.event_for(**SHAPE | {"num_queries": 1})), orders)
    assert (curve <= rho * orders).all()
    assert (curve >= 0.85 * rho * orders).all()  # one bit costs 2 / pi of its quarter of rho


@pytest.mark.parametrize("adjacency", pa.Adjacency)
def test_all_labels_depend_on_nothing_and_cost_nothing(adjacency: pa.Adjacency) -> None:
    for num_labels in (1, 4):
        everything = dataclasses.replace(PLAIN, k=num_labels, adjacency=adjacency)
        shape = {"num_queries": 9, "num_labels": num_labels, "num_teachers": 5}
        assert everything.event_for(**shape) == pa.SelfComposedEvent(pa.NoOpEvent(), 9)
        assert released(everything, [3] * num_labels, num_teachers=5).all()
        assert everything.distribution(np.array([3] * num_labels), num_teachers=5) == {tuple(range(num_labels)): 1.0}
        everything.calibrated(**GOAL, **shape)


@pytest.mark.parametrize("adjacency", pa.Adjacency)
@pytest.mark.parametrize("votes", [[0, 0, 0], [9, 9, 9]])
def test_no_label_and_all_labels_are_stable_sets_that_leave_the_peel_to_decide(
    adjacency: pa.Adjacency, votes: list[int]
) -> None:
    padded = StableFixedTopK(k=2, selection_scale=0.1, test_std=50.0, peel_scale=3.0, padded=True, adjacency=adjacency)
    distribution = padded.distribution(np.array(votes), num_teachers=9)
    assert distribution == pytest.approx({(0, 1): 1 / 3, (0, 2): 1 / 3, (1, 2): 1 / 3}, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("adjacency", pa.Adjacency)
def test_table_calibration_gives_the_peel_its_share(adjacency: pa.Adjacency, share: float) -> None:
    calibrated = dataclasses.replace(TABLE, adjacency=adjacency, peel_share=share).calibrated(**GOAL, **SHAPE)
    assert 7.95 <= epsilon_of(calibrated) <= 8.0
    order = np.array([calibrated.table_order])
    whole = rdp_curve(count_leaves(calibrated.event_for(**SHAPE | {"num_queries": 1})), order)[0]
    assert calibrated.peeling.event.rho * order[0] == pytest.approx(share * whole, rel=1e-3)


def test_a_ready_table_stays_as_it_is_and_brings_its_failure_probability() -> None:
    table = optimal_stability_table(order=4.0, rdp_budget=1e-3, failure_prob=2e-10, num_levels=400)
    ready = dataclasses.replace(TABLE, table=table, peel_scale=0.5)
    assert (ready.failure_prob, ready.table_order, ready.table_budget) == (2e-10, None, None)
    assert failure_probability(ready.event_for(**SHAPE)) == pytest.approx(600 * 2e-10, rel=1e-12)
    calibrated = ready.calibrated(**GOAL, **SHAPE)
    assert 7.95 <= epsilon_of(calibrated) <= 8.0
    assert calibrated.table == table
    assert calibrated.peel_scale / calibrated.selection_scale == pytest.approx(0.5, rel=1e-12)


def test_paper_epsilon_adds_the_peel_to_the_papers_formula() -> None:
    paper = dataclasses.replace(PLAIN, selection_noise="gaussian", selection_scale=50.0, test_std=60.0, peel_scale=20.0)
    rho = 600 * (1 / (2 * 50.0**2) + 1 / (2 * 60.0**2) + 1 / (8 * 20.0**2))
    printed = paper.paper_epsilon(num_queries=600, target_delta=1e-6)
    assert printed == pytest.approx(zcdp_to_epsilon_classic(rho, target_delta=4e-7), rel=1e-12)
    assert epsilon_of(paper) > printed
    named = dataclasses.replace(paper, failure_prob=1e-9)
    assert named.paper_epsilon(num_queries=1001, target_delta=1e-6) == math.inf
    assert PLAIN.paper_epsilon(num_queries=600, target_delta=1e-6) is None
    assert TABLE.paper_epsilon(num_queries=600, target_delta=1e-6) is None
