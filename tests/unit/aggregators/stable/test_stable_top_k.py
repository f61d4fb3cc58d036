"""StableTopK: parameters, price as the sum of its parts, distribution, calibration of tables, the paper's figure."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from pate.accounting import (
    Adjacency,
    ApproximateEvent,
    ComposedEvent,
    RdpAccountant,
    SelectThenTestEvent,
    SelfComposedEvent,
)
from pate.accounting.events import count_leaves, failure_probability
from pate.accounting.rdp import rdp_curve
from pate.aggregators import StableTopK
from pate.mechanisms import optimal_stability_table
from pate.validation import InvalidValue

SHAPE = {"num_queries": 600, "num_labels": 40, "num_teachers": 800}
PAPER = StableTopK(
    selection_noise="gaussian", selection_scale=50.0, test_std=60.0, failure_prob=1e-9, adjacency=Adjacency.ADD_REMOVE
)
PLAIN = StableTopK(selection_scale=2.0, test_std=1.0)
TABLE = StableTopK(selection_scale=1.0, test="table", table_order=2.0, table_budget=1.0)


def epsilon_of(aggregator: StableTopK, target_delta: float = 1e-6, **shape: int) -> float:
    event = aggregator.event_for(**(SHAPE | shape))
    return RdpAccountant().compose(event).get_epsilon(target_delta)


def test_price_is_that_of_selection_and_test_once_a_query() -> None:
    event = PLAIN.event_for(num_queries=7, num_labels=5, num_teachers=30)
    selection = PLAIN.gap_selection(num_labels=5, num_teachers=30).event
    test = PLAIN.stability_test(num_teachers=30).event
    assert event == SelfComposedEvent(SelectThenTestEvent((selection, test), 4), 7)
    for other in ({"padded": True}, {"regularizer": lambda k: float(k)}, {"selection_noise": "laplace"}):
        changed = dataclasses.replace(PLAIN, **other).event_for(num_queries=1, num_labels=5, num_teachers=30)
        assert isinstance(changed, SelfComposedEvent)
        assert type(changed.event) is ComposedEvent  # the joint law is of gaps alone
    assert isinstance(test, ApproximateEvent)
    assert failure_probability(event) == pytest.approx(7e-9, rel=1e-12)


def test_distribution_by_hand() -> None:
    """Gaps (1, 6) at beta 2: selection weights exp(gap / 2); the set passes by its own gap."""
    votes = np.array([8, 7, 1])
    distribution = PLAIN.distribution(votes, num_teachers=8)
    weights = np.exp(np.array([1, 6]) / 2)
    chosen = weights / weights.sum()
    passed = PLAIN.stability_test(num_teachers=8).pass_probabilities(np.array([1, 6]))
    assert distribution.keys() == {None, (0,), (0, 1)}
    assert distribution[0,] == pytest.approx(chosen[0] * passed[0], rel=1e-12)
    assert distribution[0, 1] == pytest.approx(chosen[1] * passed[1], rel=1e-12)
    assert sum(distribution.values()) == pytest.approx(1, rel=1e-12)


def test_no_label_and_all_labels_need_no_test() -> None:
    padded = StableTopK(selection_scale=0.5, test_std=50.0, padded=True)
    assert padded.distribution(np.array([0, 0, 0]), num_teachers=40)[()] == pytest.approx(1, rel=1e-9)
    assert padded.distribution(np.array([40, 40, 40]), num_teachers=40)[0, 1, 2] == pytest.approx(1, rel=1e-9)
    votes = np.tile([40, 40, 40], (10, 1))
    release = padded.aggregate(votes, num_teachers=40, rng=np.random.default_rng(0))
    assert release.answered.all()
    assert release.labels.all()


def test_with_max_k_the_distribution_needs_the_best_counts_only() -> None:
    """An unknown domain: labels below the best max_k + 1, and how many there are, change nothing."""
    restricted = dataclasses.replace(PLAIN, max_k=2)
    distributions = [
        restricted.distribution(np.array(votes), num_teachers=9) for votes in ([9, 8, 2], [9, 8, 2, 1, 0, 2])
    ]
    assert distributions[0] == distributions[1]
    assert distributions[0].keys() == {None, (0,), (0, 1)}
    shapes = [{"num_queries": 3, "num_labels": labels, "num_teachers": 9} for labels in (3, 4000)]
    assert restricted.event_for(**shapes[0]) == restricted.event_for(**shapes[1])
    votes = np.tile([9, 9, 9, 0], (200, 1))
    release = restricted.aggregate(votes, num_teachers=9, rng=np.random.default_rng(0))
    assert release.labels.sum(axis=1).max() <= 2
    with pytest.raises(InvalidValue, match=r"max_k=0: expected a whole number >= 1"):
        dataclasses.replace(PLAIN, max_k=0)


@pytest.mark.parametrize("regularizer", [[0.0, math.nan], [0.0, math.inf], lambda k: math.nan])
def test_a_regularizer_has_finite_values(regularizer: Any) -> None:
    with pytest.raises(InvalidValue, match=r"regularizer=(nan|inf): expected finite numbers"):
        dataclasses.replace(PLAIN, regularizer=regularizer)


def test_regularizer_is_kept_as_numbers_that_compare_and_name_the_release() -> None:
    first, second = (dataclasses.replace(PLAIN, regularizer=np.array([0.0, 1e-12 * scale, 1.0])) for scale in (1, 2))
    assert first.regularizer == (0.0, 1e-12, 1.0)
    assert first != second
    assert hash(first) == hash(dataclasses.replace(first))
    shape = {"num_labels": 4, "num_teachers": 9}
    assert first.identity(**shape) != second.identity(**shape)
    functions = [dataclasses.replace(PLAIN, regularizer=lambda k, step=step: step * k) for step in (1.0, 1.0, 2.0)]
    names = [function.identity(**shape) for function in functions]
    assert names[0] == names[1] != names[2]


def test_a_ready_table_is_the_one_made_from_its_parameters() -> None:
    shape = {"num_queries": 1, "num_labels": 4, "num_teachers": 60}
    made = StableTopK(selection_scale=2.0, test="table", table_order=6.0, table_budget=0.2)
    table = optimal_stability_table(order=6.0, rdp_budget=0.2, failure_prob=1e-9, num_levels=60)
    ready = StableTopK(selection_scale=2.0, test="table", table=table)
    assert ready.event_for(**shape) == made.event_for(**shape)
    with pytest.raises(
        InvalidValue, match="table: expected table_order and table_budget, a ready table cannot be scal"
    ):
        ready.scaled(2.0)


def test_a_ready_table_that_promises_too_much_is_priced_by_what_it_does() -> None:
    """A table that names an order and a budget that it does not keep, and a failure probability below its own."""
    honest = optimal_stability_table(order=6.0, rdp_budget=0.5, failure_prob=1e-3, num_levels=60)
    lying = dataclasses.replace(honest, rdp_budget=1e-9, failure_prob=1e-6)
    test = StableTopK(selection_scale=2.0, test="table", table=lying).stability_test(num_teachers=60)
    price = float(rdp_curve(count_leaves(test.event), np.array([6.0]))[0])
    assert price >= 0.5 > lying.rdp_budget
    assert test.pass_probs[2] <= failure_probability(test.event) == 1e-6


def test_numbers_of_a_regularizer_must_fit_the_labels() -> None:
    aggregator = dataclasses.replace(PLAIN, regularizer=(0.0, 1.0))
    aggregator.event_for(num_queries=1, num_labels=3, num_teachers=5)
    with pytest.raises(InvalidValue, match=r"regularizer=\(2,\): expected 3 numbers"):
        aggregator.event_for(num_queries=1, num_labels=4, num_teachers=5)


def test_scaling_multiplies_noise_and_divides_a_budget_by_the_square() -> None:
    scaled = PLAIN.scaled(3.0)
    assert (scaled.selection_scale, scaled.test_std) == (6.0, 3.0)
    table = TABLE.scaled(3.0)
    assert (table.selection_scale, table.table_order) == (3.0, 2.0)
    assert table.table_budget == pytest.approx(1 / 9, rel=1e-12)


def test_paper_epsilon_is_the_papers_and_below_every_sound_figure() -> None:
    """The EXP3 formula gives 3.66; the sound price under add/remove is 9.19."""
    printed = PAPER.paper_epsilon(num_queries=600, target_delta=1e-6)
    assert printed == pytest.approx(3.66, abs=0.01)
    rho = 600 * (1 / (2 * 50.0**2) + 1 / (2 * 60.0**2))
    assert printed == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1 / 4e-7)), rel=1e-9)
    assert epsilon_of(PAPER) > 2.5 * printed


def test_paper_epsilon_exists_for_gaussian_noise_only_and_not_beyond_delta() -> None:
    assert PLAIN.paper_epsilon(num_queries=600, target_delta=1e-6) is None
    assert TABLE.paper_epsilon(num_queries=600, target_delta=1e-6) is None
    assert PAPER.paper_epsilon(num_queries=1001, target_delta=1e-6) == math.inf


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "target"), [("replace_one", 8.0), ("add_remove", 3.6), ("replace_one", 0.5)])
def test_calibrated_table_beats_a_calibrated_gaussian_test(adjacency: Adjacency, target: float) -> None:
    """At the same epsilon, by the sum of both prices, the table passes smaller gaps (160 against 482 votes at 3.6)."""
    goal: dict[str, Any] = {"target_epsilon": target, "target_delta": 1e-6, "accountant": RdpAccountant}
    table = dataclasses.replace(TABLE, adjacency=adjacency).calibrated(**goal, **SHAPE)
    gaussian = StableTopK(selection_scale=85.0, test_std=100.0, adjacency=adjacency).calibrated(**goal, **SHAPE)
    assert 0.99 * target <= epsilon_of(table) <= target
    needs = [aggregator.stability_test(num_teachers=100_000).gap_to_pass(0.95) for aggregator in (table, gaussian)]
    assert needs[0] < 0.6 * needs[1]


@pytest.mark.slow
def test_table_calibration_splits_the_budget_by_the_share() -> None:
    goal = {"target_epsilon": 8.0, "target_delta": 1e-6}
    scales = [
        dataclasses.replace(TABLE, selection_share=share).calibrated(**goal, **SHAPE).selection_scale
        for share in (0.2, 0.5, 0.8)
    ]
    assert scales[0] > scales[1] > scales[2]


def test_calibration_names_failures_that_use_up_delta() -> None:
    goal = {"target_epsilon": 8.0, "target_delta": 1e-6}
    works = "what works: failure_prob=1e-09, or num_queries=60$"
    for base in (TABLE, PLAIN):
        with pytest.raises(
            InvalidValue, match=rf"failure_prob=1e-08: 6e-06 in all uses up target_delta=1e-06: .*{works}"
        ):
            dataclasses.replace(base, failure_prob=1e-8).calibrated(**goal, **SHAPE)


@pytest.mark.parametrize("base", [PLAIN, TABLE])
def test_failures_that_nobody_named_follow_the_queries_and_delta(base: StableTopK) -> None:
    """Up to 600 queries at 1e-6 as ever; the draws have the probability that the event counts."""
    assert base.settled(num_queries=600).failure_prob == 1e-9
    assert base.settled(num_queries=10_000).failure_prob == 6e-11
    assert base.settled(num_queries=10_000, target_delta=1e-8).failure_prob == 6e-13
    named = dataclasses.replace(base, failure_prob=6e-11)
    many = SHAPE | {"num_queries": 10_000}
    assert base.event_for(**many) == named.event_for(**many)
    assert named.settled(num_queries=10**9) is named
    votes = np.tile([[800, 700, 3, 0], [800, 400, 399, 0]], (5000, 1))
    drawn = [each.aggregate(votes, num_teachers=800, rng=np.random.default_rng(0)) for each in (base, named)]
    assert np.array_equal(drawn[0].labels, drawn[1].labels)
    assert np.array_equal(drawn[0].answered, drawn[1].answered)
    assert failure_probability(drawn[0].event) == pytest.approx(6e-7)


@pytest.mark.parametrize("base", [PLAIN, TABLE])
@pytest.mark.parametrize("target", [0.0, -1.0, math.nan])
def test_impossible_targets_are_refused(base: StableTopK, target: float) -> None:
    with pytest.raises(InvalidValue, match=rf"target_epsilon={target}: expected"):
        base.calibrated(target_epsilon=target, target_delta=1e-6, **SHAPE)
