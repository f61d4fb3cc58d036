"""Stable top-k of any and of a fixed k: price, distribution, calibration, the split of a target, the lone gap."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

import pate.accounting as pa
from pate.accounting import (
    Adjacency,
    BoundedRangeEvent,
    NoOpEvent,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
)
from pate.accounting.conversion import zcdp_to_epsilon_classic
from pate.accounting.event_tree import count_leaves, failure_probability
from pate.accounting.rdp import rdp_curve
from pate.aggregators import FixedTopK, StableFixedTopK, StableTopK
from pate.aggregators.failures import failure_prob_of, with_failure_prob_for
from pate.aggregators.fixed_top_k import MECHANISMS
from pate.mechanisms import CertifiedTable, optimal_stability_table
from pate.votes import VoteShape
from tests.refusals import ANY, refused

PLAIN = StableTopK(selection_scale=2.0, test_std=1.0)
TABLE = StableTopK(selection_scale=1.0, test="table", table_order=2.0, table_budget=1.0)

GAUSSIAN = StableTopK(selection_scale=38.985, test_std=60.0)


def test_each_query_costs_one_selection_and_one_test() -> None:
    """The event of 7 queries composes 7 selections with their tests by their joint law.

    Variants (padding, a regularizer, Laplace noise) compose selection and test one after the other,
    without the joint law.
    """
    event = PLAIN.event_for(num_queries=7, num_labels=5, num_teachers=30)
    selection = PLAIN.gap_selection(num_labels=5, num_teachers=30).event
    test = PLAIN.stability_test(num_teachers=30).event
    assert event == pa.SelfComposedEvent(
        pa.SelectThenTestEvent(events=(selection, test), num_candidates=4), count=7
    )
    for variant in (
        dataclasses.replace(PLAIN, padded=True),
        dataclasses.replace(PLAIN, regularizer=float),
        dataclasses.replace(PLAIN, selection_noise="laplace"),
    ):
        changed = variant.event_for(num_queries=1, num_labels=5, num_teachers=30)
        assert isinstance(changed, pa.SelfComposedEvent)
        assert type(changed.event) is pa.ComposedEvent  # the joint law is of gaps alone
    assert isinstance(test, pa.ApproximateEvent)
    assert failure_probability(event) == pytest.approx(7e-9, rel=1e-12)


def test_no_label_and_all_labels_need_no_test() -> None:
    """With padding, 40 teachers who agree on no label or on all labels are answered rightly
    although the test's noise has a std of 50.

    Padding makes the gaps of the empty and the full set large.
    """
    padded = StableTopK(selection_scale=0.5, test_std=50.0, padded=True)
    assert padded.distribution(np.array([0, 0, 0]), num_teachers=40)[()] == pytest.approx(
        1, rel=1e-9
    )
    assert padded.distribution(np.array([40, 40, 40]), num_teachers=40)[0, 1, 2] == pytest.approx(
        1, rel=1e-9
    )
    votes = np.tile([40, 40, 40], (10, 1))
    release = padded.aggregate(votes, num_teachers=40, rng=np.random.default_rng(0))
    assert release.answered.all()
    assert release.labels.all()


def test_identity_has_the_values_of_the_regularizer() -> None:
    """Two regularizers that differ by 1e-12 make unequal aggregators with different identities; an array is kept as a
    tuple.

    Two functions that return equal numbers give one identity, and a function that returns other numbers gives
    another.
    """
    first, second = (
        dataclasses.replace(PLAIN, regularizer=np.array([0.0, 1e-12 * scale, 1.0]))
        for scale in (1, 2)
    )
    assert first.regularizer == (0.0, 1e-12, 1.0)
    assert first != second
    assert hash(first) == hash(dataclasses.replace(first))
    shape = VoteShape(num_queries=1, num_labels=4, num_teachers=9)
    assert first.identity(shape) != second.identity(shape)
    functions = [
        dataclasses.replace(PLAIN, regularizer=lambda k, step=step: step * k)
        for step in (1.0, 1.0, 2.0)
    ]
    names = [function.identity(shape) for function in functions]
    assert names[0] == names[1] != names[2]


def test_calibration_refuses_failure_probabilities_above_delta() -> None:
    """A failure probability of 1e-8 for each of 600 queries exceeds delta 1e-6: calibration is
    refused, with two remedies.
    """
    for base in (TABLE, PLAIN):
        with refused("failure_prob", value=1e-08, remedies=("failure_prob", "num_queries")):
            dataclasses.replace(base, failure_prob=1e-8).calibrated(
                target_epsilon=8.0,
                target_delta=1e-6,
                num_queries=600,
                num_labels=40,
                num_teachers=800,
            )


@pytest.mark.parametrize("base", [PLAIN, TABLE])
def test_default_failure_prob_depends_on_queries_and_delta(base: StableTopK) -> None:
    """Without a set failure probability, the plan lowers it from 1e-9 as queries grow or delta
    falls.

    The event and the draws are those of an aggregator with this failure probability set.
    """
    assert failure_prob_of(aggregator=base) == 1e-9
    for num_queries, delta, failure_prob in (
        (600, 1e-6, 1e-9),
        (10_000, 1e-6, 6e-11),
        (10_000, 1e-8, 6e-13),
    ):
        planned = with_failure_prob_for(aggregator=base, delta=delta, num_queries=num_queries)
        assert planned.failure_prob == failure_prob
    with_named_failure = dataclasses.replace(base, failure_prob=6e-11)
    events = [
        aggregator.event_for(num_queries=10_000, num_labels=40, num_teachers=800)
        for aggregator in (base, with_named_failure)
    ]
    assert events[0] == events[1]
    assert (
        with_failure_prob_for(aggregator=with_named_failure, delta=1e-6, num_queries=10**9)
        is with_named_failure
    )
    votes = np.tile([[800, 700, 3, 0], [800, 400, 399, 0]], (5000, 1))
    releases = [
        aggregator.aggregate(votes, num_teachers=800, rng=np.random.default_rng(0))
        for aggregator in (base, with_named_failure)
    ]
    assert np.array_equal(releases[0].labels, releases[1].labels)
    assert np.array_equal(releases[0].answered, releases[1].answered)
    assert failure_probability(releases[0].event) == pytest.approx(6e-7)


@pytest.mark.parametrize("noise", ["gumbel", "gaussian", "laplace", "exponential"])
def test_release_probability_matches_the_exact_distribution(noise: str) -> None:
    """The largest gap is 25 votes: `release_probability` is the exact probability that this label
    is selected and passes its test.
    """
    aggregator = StableTopK(selection_scale=4.0, selection_noise=noise, test_std=2.0)
    votes = np.array([25, 0, 0, 0])  # gaps 25, 0, 0
    exact = aggregator.distribution(votes, num_teachers=40)[0,]
    assert aggregator.steps(num_labels=4, num_teachers=40).release_probability(
        gap=25
    ) == pytest.approx(exact, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("base", [TABLE, GAUSSIAN], ids=lambda base: str(base.test))
def test_free_selection_share_releases_the_smallest_gap(base: StableTopK) -> None:
    """Calibration may choose how the budget is split between the selection and the test.

    The gap that it releases half of the time is at most 1 vote larger than with any of three fixed splits.
    """

    def calibrated(aggregator: StableTopK) -> StableTopK:
        return aggregator.calibrated(
            target_epsilon=8.0,
            target_delta=1e-6,
            num_queries=600,
            num_labels=40,
            num_teachers=300,
            accountant=pa.RdpAccountant,
        )

    def gap_of_likely_release(aggregator: StableTopK) -> int | None:
        return aggregator.steps(num_labels=40, num_teachers=300).gap_to_release(probability=0.5)

    base = dataclasses.replace(base, selection_share=None)
    best = calibrated(base)
    assert (
        7.98
        < pa.RdpAccountant()
        .compose(best.event_for(num_queries=600, num_labels=40, num_teachers=300))
        .get_epsilon(target_delta=1e-6)
        <= 8
    )
    smallest = gap_of_likely_release(aggregator=best)
    assert smallest is not None
    rivals = [dataclasses.replace(base, selection_share=share) for share in (0.3, 0.5, 0.8)]
    if base.test != "table":
        rivals = [
            dataclasses.replace(base, test_std=38.985 * ratio, selection_share=0.5)
            for ratio in (0.4, 0.9, 1.5)
        ]
    for rival in rivals:
        assert smallest <= (gap_of_likely_release(aggregator=calibrated(rival)) or math.inf) + 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "adjacency", "gap"),
    [
        (TABLE, "replace_one", 200),
        (dataclasses.replace(GAUSSIAN, selection_share=None), "add_remove", 800),
    ],
    ids=["table", "gumbel"],
)
def test_epsilon_3_6_by_the_sum_of_both_prices(base: StableTopK, adjacency: str, gap: int) -> None:
    """An aggregator is calibrated to epsilon 3.6 by the Renyi accountant, which adds the prices of
    selection and test.

    The exact accountant prices it at 3.3 to 3.6, and a gap of at most `gap` votes passes half of
    the time.
    """
    calibrated = dataclasses.replace(base, adjacency=adjacency).calibrated(
        target_epsilon=3.6,
        target_delta=1e-6,
        num_queries=600,
        num_labels=40,
        num_teachers=800,
        accountant=pa.RdpAccountant,
    )
    exact = (
        pa.ExactAccountant()
        .compose(calibrated.event_for(num_queries=600, num_labels=40, num_teachers=800))
        .get_epsilon(target_delta=1e-6)
    )
    assert 3.3 <= exact <= 3.6
    needed = calibrated.stability_test(num_teachers=800).gap_to_pass(probability=0.5)
    assert needed is not None and needed <= gap


@pytest.mark.slow
def test_a_ready_table_is_kept_and_the_selection_meets_the_target(tmp_path: Any) -> None:
    """A table from a file stays as it is, and calibration fits only the scale of the selection."""

    def calibrated(aggregator: StableTopK) -> StableTopK:
        return aggregator.calibrated(
            target_epsilon=3.6,
            target_delta=1e-6,
            num_queries=600,
            num_labels=40,
            num_teachers=800,
            accountant=pa.RdpAccountant,
        )

    fitted = calibrated(TABLE)
    order = float(fitted.table_order or 0)
    CertifiedTable.from_test(fitted.stability_test(num_teachers=800), order=order).save(
        tmp_path / "table.json"
    )
    ready = StableTopK(
        selection_scale=1.0, test="table", table=str(tmp_path / "table.json"), failure_prob=0.5
    )
    assert ready.failure_prob == fitted.failure_prob
    again = calibrated(ready)
    assert again.table == ready.table
    assert again.selection_scale == pytest.approx(fitted.selection_scale, rel=5e-3)
    assert again.stability_test(num_teachers=800) == fitted.stability_test(num_teachers=800)


def test_given_table_is_refused_for_other_votes(tmp_path: Any) -> None:
    """A table certified for 30 teachers and replace-one is refused for 31 teachers, for add-remove,
    with other test settings, and for a target below its own price.
    """
    test = GAUSSIAN.stability_test(num_teachers=30)
    ready = StableTopK(
        selection_scale=1.0, test="table", table=CertifiedTable.from_test(test, order=3.0)
    )
    assert "sha256=" in repr(ready)
    with refused("num_teachers", value=31, rule="30"):
        ready.event_for(num_queries=1, num_labels=4, num_teachers=31)
    with refused("adjacency", value="add_remove"):
        dataclasses.replace(ready, adjacency="add_remove").event_for(
            num_queries=1, num_labels=4, num_teachers=30
        )
    with refused("test", value="gaussian"):
        dataclasses.replace(ready, test="gaussian", test_std=1.0)
    with refused("target_epsilon", value=0.01):
        ready.calibrated(
            target_epsilon=0.01,
            target_delta=1e-6,
            num_queries=600,
            num_labels=40,
            num_teachers=30,
            accountant=pa.RdpAccountant,
        )


@pytest.mark.parametrize("target", ["x", -1, float("nan")])
def test_target_epsilon_must_be_a_positive_number(target: Any) -> None:
    """Calibration refuses a text, a negative number and nan as its target epsilon."""
    with refused("target_epsilon", value=ANY, rule="a number > 0"):
        GAUSSIAN.calibrated(
            target_epsilon=target,
            target_delta=1e-6,
            num_queries=600,
            num_labels=40,
            num_teachers=800,
        )


FIXED = StableFixedTopK(k=2, selection_scale=2.0, test_std=1.0, peel_scale=3.0)
FIXED_TABLE = StableFixedTopK(
    k=4, selection_scale=1.0, test="table", table_order=2.0, table_budget=1.0, peel_scale=1.0
)


def renyi_epsilon_of(aggregator: StableFixedTopK) -> float:
    """Returns the Renyi epsilon of an aggregator for 600 queries, 40 labels and 800 teachers at
    delta 1e-6.
    """
    event = aggregator.event_for(num_queries=600, num_labels=40, num_teachers=800)
    return pa.RdpAccountant().compose(event).get_epsilon(target_delta=1e-6)


def released_labels(
    aggregator: StableFixedTopK,
    counts_of_query: list[int],
    *,
    num_teachers: int,
    num_queries: int = 200,
) -> np.ndarray:
    """Returns the labels `[queries, num_labels]` that are released for equal histograms."""
    rows = np.tile(counts_of_query, (num_queries, 1))
    return aggregator.aggregate(
        rows, num_teachers=num_teachers, rng=np.random.default_rng(0)
    ).labels


def test_each_query_costs_selection_test_and_peel() -> None:
    """The event of 7 queries composes 7 selections, tests and peels.

    The peel is the selection of further labels until k labels are released.
    """
    event = FIXED.event_for(num_queries=7, num_labels=5, num_teachers=30)
    first = FIXED.stable_top_k
    selection = first.gap_selection(num_labels=5, num_teachers=30).event
    test = first.stability_test(num_teachers=30).event
    assert event == pa.SelfComposedEvent(
        pa.ComposedEvent((selection, test, pa.ZCdpEvent(rho=(2 / 3) ** 2 / 8))), count=7
    )
    assert failure_probability(event) == pytest.approx(7e-9, rel=1e-12)


def test_the_papers_parameters_cost_rho_under_add_remove() -> None:
    """Selection and test have the noise scale sqrt(2 / rho), and the peel has the scale 1 / (2 sqrt(rho)).

    At four Renyi orders, a query's Renyi divergence is at most that of rho-zCDP and at least 85% of it.
    """
    rho = 0.002
    paper = StableFixedTopK(
        k=4,
        adjacency=pa.Adjacency.ADD_REMOVE,
        selection_scale=math.sqrt(2 / rho),
        test_std=math.sqrt(2 / rho),
        peel_scale=0.5 / math.sqrt(rho),
    )
    orders = np.array([1.5, 3.0, 8.0, 30.0])
    curve = rdp_curve(
        count_leaves(paper.event_for(num_queries=1, num_labels=40, num_teachers=800)), orders
    )
    assert (curve <= rho * orders).all()
    assert (curve >= 0.85 * rho * orders).all()  # one bit costs 2 / pi of its quarter of rho


@pytest.mark.parametrize("adjacency", pa.Adjacency)
def test_answer_with_all_labels_costs_nothing(adjacency: pa.Adjacency) -> None:
    """k is the number of labels: the event is a no-op, every release has all labels, and
    calibration succeeds.
    """
    for num_labels in (1, 4):
        everything = dataclasses.replace(FIXED, k=num_labels, adjacency=adjacency)
        assert everything.event_for(
            num_queries=9, num_labels=num_labels, num_teachers=5
        ) == pa.SelfComposedEvent(pa.NoOpEvent(), count=9)
        assert released_labels(everything, counts_of_query=[3] * num_labels, num_teachers=5).all()
        assert everything.distribution(np.array([3] * num_labels), num_teachers=5) == {
            tuple(range(num_labels)): 1.0
        }
        everything.calibrated(
            target_epsilon=8.0,
            target_delta=1e-6,
            num_queries=9,
            num_labels=num_labels,
            num_teachers=5,
        )


@pytest.mark.parametrize("adjacency", pa.Adjacency)
@pytest.mark.parametrize("votes", [[0, 0, 0], [9, 9, 9]])
def test_peel_decides_after_empty_and_full_stable_sets(
    adjacency: pa.Adjacency, votes: list[int]
) -> None:
    """The stable set has no label or all three, so the peel chooses: each pair of labels has
    probability 1/3.
    """
    padded = StableFixedTopK(
        k=2, selection_scale=0.1, test_std=50.0, peel_scale=3.0, padded=True, adjacency=adjacency
    )
    distribution = padded.distribution(np.array(votes), num_teachers=9)
    assert distribution == pytest.approx({(0, 1): 1 / 3, (0, 2): 1 / 3, (1, 2): 1 / 3}, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("adjacency", pa.Adjacency)
def test_table_calibration_gives_the_peel_its_share(adjacency: pa.Adjacency, share: float) -> None:
    """Calibration to epsilon 8 gives the peel the share `peel_share` of the Renyi divergence of a
    query.
    """
    calibrated = dataclasses.replace(FIXED_TABLE, adjacency=adjacency, peel_share=share).calibrated(
        target_epsilon=8.0, target_delta=1e-6, num_queries=600, num_labels=40, num_teachers=800
    )
    assert 7.95 <= renyi_epsilon_of(aggregator=calibrated) <= 8.0
    order = np.array([calibrated.table_order])
    rdp_of_query = rdp_curve(
        count_leaves(calibrated.event_for(num_queries=1, num_labels=40, num_teachers=800)),
        orders=order,
    )[0]
    assert calibrated.peeling.event.rho * order[0] == pytest.approx(share * rdp_of_query, rel=1e-3)


def test_given_table_is_kept_with_its_failure_probability() -> None:
    """An aggregator with a ready table has the table's failure probability, and calibration fits
    only the selection and the peel, at their fixed ratio.
    """
    table = optimal_stability_table(order=4.0, rdp_budget=1e-3, failure_prob=2e-10, num_levels=400)
    ready = dataclasses.replace(FIXED_TABLE, table=table, peel_scale=0.5)
    assert (ready.failure_prob, ready.table_order, ready.table_budget) == (2e-10, None, None)
    assert failure_probability(
        ready.event_for(num_queries=600, num_labels=40, num_teachers=800)
    ) == pytest.approx(600 * 2e-10, rel=1e-12)
    calibrated = ready.calibrated(
        target_epsilon=8.0, target_delta=1e-6, num_queries=600, num_labels=40, num_teachers=800
    )
    assert 7.95 <= renyi_epsilon_of(aggregator=calibrated) <= 8.0
    assert calibrated.table == table
    assert calibrated.peel_scale / calibrated.selection_scale == pytest.approx(0.5, rel=1e-12)


def test_paper_epsilon_adds_the_peel_to_the_papers_formula() -> None:
    """`paper_epsilon` is the paper's zCDP formula with the peel's rho added, below the Renyi
    epsilon.

    It is infinite if failures use up delta, and None for a selection or test that the paper does
    not have.
    """
    paper = dataclasses.replace(
        FIXED, selection_noise="gaussian", selection_scale=50.0, test_std=60.0, peel_scale=20.0
    )
    rho = 600 * (1 / (2 * 50.0**2) + 1 / (2 * 60.0**2) + 1 / (8 * 20.0**2))
    printed = paper.paper_epsilon(num_queries=600, target_delta=1e-6)
    assert printed == pytest.approx(zcdp_to_epsilon_classic(rho, target_delta=4e-7), rel=1e-12)
    assert renyi_epsilon_of(aggregator=paper) > printed
    with_named_failure = dataclasses.replace(paper, failure_prob=1e-9)
    assert with_named_failure.paper_epsilon(num_queries=1001, target_delta=1e-6) == math.inf
    assert FIXED.paper_epsilon(num_queries=600, target_delta=1e-6) is None
    assert FIXED_TABLE.paper_epsilon(num_queries=600, target_delta=1e-6) is None


VOTES = np.array([9, 4, 8, 0])


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_draws_follow_the_exact_distribution(mechanism: str, adjacency: Adjacency) -> None:
    """8000 draws of fixed top-k answer with two labels each, in frequencies within 5 standard
    deviations of the exact distribution.
    """
    aggregator = FixedTopK(k=2, epsilon=1.0, mechanism=mechanism, adjacency=adjacency)
    draws = 8_000
    release = aggregator.aggregate(
        np.tile(VOTES, (draws, 1)), num_teachers=10, rng=np.random.default_rng(5)
    )
    assert release.answered.all()
    assert (release.labels.sum(axis=1) == 2).all()
    distribution = aggregator.distribution(VOTES, num_teachers=10)
    assert sum(distribution.values()) == pytest.approx(1)
    for labels, probability in distribution.items():
        frequency = release.labels[:, list(labels or ())].all(axis=1).mean()
        assert (
            abs(frequency - probability)
            < 5 * np.sqrt(probability * (1 - probability) / draws) + 1e-9
        )


def test_each_mechanism_costs_its_own_event() -> None:
    """A query costs bounded range, pure DP, or nothing if all labels are released.

    Four times the noise lowers the epsilon to less than half.
    """
    ranged = BoundedRangeEvent(epsilon=1.0)
    pure = PureDpEvent(epsilon=1.0)
    for k, mechanism, event in (
        (2, "joint", ranged),
        (2, "permute_and_flip_joint", pure),
        (4, "peeling", NoOpEvent()),
    ):
        aggregator = FixedTopK(k=k, epsilon=1.0, mechanism=mechanism)
        assert aggregator.event_for(
            num_queries=6, num_labels=4, num_teachers=10
        ) == SelfComposedEvent(event, count=6)
    picks_of_one, four = (
        FixedTopK(k=1, epsilon=0.1)
        .scaled(factor)
        .event_for(num_queries=6, num_labels=4, num_teachers=10)
        for factor in (1.0, 4.0)
    )
    prices = [
        RdpAccountant().compose(event).get_epsilon(target_delta=1e-5)
        for event in (picks_of_one, four)
    ]
    assert prices[1] < prices[0] / 2
