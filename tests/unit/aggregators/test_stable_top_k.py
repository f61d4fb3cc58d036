"""Stable top-k for a free and for a fixed number k of labels, and plain top-k without a stability test.

Each query costs a noisy selection of a gap between sorted counts and a noisy test of this gap. For a fixed k, the
peel then changes the selected set, which has about k labels, to exactly k labels.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting import (
    Adjacency,
    ApproximateEvent,
    BoundedRangeEvent,
    ComposedEvent,
    Event,
    ExactAccountant,
    NoOpEvent,
    PureDpEvent,
    RdpAccountant,
    SelectThenTestEvent,
    SelfComposedEvent,
    ZCdpEvent,
)
from pate.accounting.conversion import zcdp_to_epsilon_classic
from pate.accounting.event_tree import count_leaves, failure_probability
from pate.accounting.rdp import rdp_curve
from pate.aggregators import FixedTopK, StableFixedTopK, StableTopK
from pate.aggregators.failures import failure_prob_of, with_failure_prob_for
from pate.aggregators.fixed_top_k import MECHANISMS
from pate.array_types import BoolArray
from pate.mechanisms import CertifiedTable, optimal_stability_table
from pate.votes import VoteShape
from tests.refusals import ANY, refused_parameter

PLAIN_AGGREGATOR = StableTopK(selection_scale=2.0, test_std=1.0)
WITH_TABLE = StableTopK(selection_scale=1.0, test="table", table_order=2.0, table_budget=1.0)
WITH_GAUSSIAN_TEST = StableTopK(selection_scale=38.985, test_std=60.0)


def test_each_query_costs_one_selection_and_one_test() -> None:
    """The event of 7 queries composes 7 selections with their tests by their joint law.

    Variants (padding, a regularizer, Laplace noise) compose selection and test one after the other,
    without the joint law.
    """
    event = PLAIN_AGGREGATOR.event_for(num_queries=7, num_labels=5, num_teachers=30)
    selection_event = PLAIN_AGGREGATOR.gap_selection(num_labels=5, num_teachers=30).event
    test_event = PLAIN_AGGREGATOR.stability_test(num_teachers=30).event
    assert event == SelfComposedEvent(
        SelectThenTestEvent(events=(selection_event, test_event), num_candidates=4), count=7
    )

    def bonus_of_candidate(k: int) -> float:
        return float(k)

    for variant in (
        replace(PLAIN_AGGREGATOR, padded=True),
        replace(PLAIN_AGGREGATOR, regularizer=bonus_of_candidate),
        replace(PLAIN_AGGREGATOR, selection_noise="laplace"),
    ):
        variant_event = variant.event_for(num_queries=1, num_labels=5, num_teachers=30)
        assert isinstance(variant_event, SelfComposedEvent)
        # The joint law is known for Gumbel noise on the gaps alone.
        assert type(variant_event.event) is ComposedEvent
    assert isinstance(test_event, ApproximateEvent)
    assert failure_probability(event) == pytest.approx(7e-9, rel=1e-12)


def test_no_label_and_all_labels_need_no_test() -> None:
    """With padding, 40 teachers who agree on no label or on all labels are answered rightly.

    The noise of the test has a standard deviation of 50 votes, but padding makes the gaps of the empty and the full set
    large.
    """
    padded = StableTopK(selection_scale=0.5, test_std=50.0, padded=True)
    counts_of_no_votes = np.array([0, 0, 0])
    distribution = padded.distribution(counts_of_no_votes, num_teachers=40)
    assert distribution[()] == pytest.approx(1, rel=1e-9)
    counts_of_all_votes = np.array([40, 40, 40])
    distribution = padded.distribution(counts_of_all_votes, num_teachers=40)
    assert distribution[0, 1, 2] == pytest.approx(1, rel=1e-9)
    vote_counts = np.tile(counts_of_all_votes, (10, 1))
    release = padded.aggregate(vote_counts, num_teachers=40, rng=np.random.default_rng(0))
    assert release.answered.all()
    assert release.labels.all()


def test_identity_has_the_values_of_the_regularizer() -> None:
    """The identity of an aggregator has the values of its regularizer; a difference of 1e-12 gives another identity.

    An array is kept as a tuple. Two functions that return equal numbers give one identity, and a function that returns
    other numbers gives another.
    """
    with_array = replace(PLAIN_AGGREGATOR, regularizer=np.array([0.0, 1e-12, 1.0]))
    with_other_array = replace(PLAIN_AGGREGATOR, regularizer=np.array([0.0, 2e-12, 1.0]))
    assert with_array.regularizer == (0.0, 1e-12, 1.0)
    assert with_array != with_other_array
    assert hash(with_array) == hash(replace(with_array))
    vote_shape = VoteShape(num_queries=1, num_labels=4, num_teachers=9)
    assert with_array.identity(vote_shape) != with_other_array.identity(vote_shape)
    with_function = replace(PLAIN_AGGREGATOR, regularizer=lambda k: 1.0 * k)
    with_equal_function = replace(PLAIN_AGGREGATOR, regularizer=lambda k: k + 0.0)
    with_other_function = replace(PLAIN_AGGREGATOR, regularizer=lambda k: 2.0 * k)
    assert with_function.identity(vote_shape) == with_equal_function.identity(vote_shape)
    assert with_function.identity(vote_shape) != with_other_function.identity(vote_shape)


def test_calibration_refuses_failure_probabilities_above_delta() -> None:
    """Calibration is refused, with two remedies, if the queries' failure probabilities together exceed delta.

    A probability of 1e-8 for each of 600 queries exceeds delta 1e-6.
    """
    for aggregator in (WITH_TABLE, PLAIN_AGGREGATOR):
        with refused_parameter(
            "failure_prob", value=1e-08, remedies=("failure_prob", "num_queries")
        ):
            replace(aggregator, failure_prob=1e-8).calibrated(
                target_epsilon=8.0,
                target_delta=1e-6,
                num_queries=600,
                num_labels=40,
                num_teachers=800,
            )


@pytest.mark.parametrize(
    "aggregator",
    [
        pytest.param(PLAIN_AGGREGATOR, id="gaussian test"),
        pytest.param(WITH_TABLE, id="table"),
    ],
)
def test_default_failure_prob_depends_on_queries_and_delta(aggregator: StableTopK) -> None:
    """An unset failure probability is 1e-9, and is lowered for 10,000 queries and again for a smaller delta.

    The event and the draws are those of an aggregator with the lowered failure probability set.
    """
    assert failure_prob_of(aggregator=aggregator) == 1e-9
    for num_queries, delta, failure_prob in (
        (600, 1e-6, 1e-9),
        (10_000, 1e-6, 6e-11),
        (10_000, 1e-8, 6e-13),
    ):
        planned = with_failure_prob_for(aggregator=aggregator, delta=delta, num_queries=num_queries)
        assert planned.failure_prob == failure_prob
    with_set_failure_prob = replace(aggregator, failure_prob=6e-11)
    assert aggregator.event_for(
        num_queries=10_000, num_labels=40, num_teachers=800
    ) == with_set_failure_prob.event_for(num_queries=10_000, num_labels=40, num_teachers=800)
    replanned = with_failure_prob_for(
        aggregator=with_set_failure_prob, delta=1e-6, num_queries=10**9
    )
    assert replanned is with_set_failure_prob
    vote_counts = np.tile([[800, 700, 3, 0], [800, 400, 399, 0]], (5000, 1))
    release = aggregator.aggregate(vote_counts, num_teachers=800, rng=np.random.default_rng(0))
    release_with_set_prob = with_set_failure_prob.aggregate(
        vote_counts, num_teachers=800, rng=np.random.default_rng(0)
    )
    assert np.array_equal(release.labels, release_with_set_prob.labels)
    assert np.array_equal(release.answered, release_with_set_prob.answered)
    assert failure_probability(release.event) == pytest.approx(6e-7)


@pytest.mark.parametrize("noise", ["gumbel", "gaussian", "laplace", "exponential"])
def test_release_probability_matches_the_exact_distribution(noise: str) -> None:
    """`release_probability(25)` is the exact probability that the label above a gap of 25 votes is released."""
    aggregator = StableTopK(selection_scale=4.0, selection_noise=noise, test_std=2.0)
    counts_with_gaps_25_0_0 = np.array([25, 0, 0, 0])
    exact_probs = aggregator.distribution(counts_with_gaps_25_0_0, num_teachers=40)
    release_prob = aggregator.steps(num_labels=4, num_teachers=40).release_probability(gap=25)
    assert release_prob == pytest.approx(exact_probs[0,], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "uncalibrated",
    [pytest.param(WITH_TABLE, id="table"), pytest.param(WITH_GAUSSIAN_TEST, id="gaussian")],
)
def test_free_selection_share_releases_the_smallest_gap(uncalibrated: StableTopK) -> None:
    """If calibration may choose how selection and test split the budget, it releases nearly the smallest gap.

    The gap that is released half of the time is at most 1 vote larger than with any of three fixed splits.
    """

    def calibrate(aggregator: StableTopK) -> StableTopK:
        return aggregator.calibrated(
            target_epsilon=8.0,
            target_delta=1e-6,
            num_queries=600,
            num_labels=40,
            num_teachers=300,
            accountant=RdpAccountant,
        )

    def gap_of_likely_release(aggregator: StableTopK) -> int | None:
        return aggregator.steps(num_labels=40, num_teachers=300).gap_to_release(probability=0.5)

    calibrated = calibrate(replace(uncalibrated, selection_share=None))
    event = calibrated.event_for(num_queries=600, num_labels=40, num_teachers=300)
    epsilon = RdpAccountant().compose(event).get_epsilon(target_delta=1e-6)
    assert 7.98 < epsilon <= 8
    smallest_gap = gap_of_likely_release(aggregator=calibrated)
    assert smallest_gap is not None
    if uncalibrated.test == "table":
        fixed_splits = [replace(uncalibrated, selection_share=share) for share in (0.3, 0.5, 0.8)]
    else:
        # The scale of the selection is 38.985, and the noise of the test is `ratio` times as large.
        fixed_splits = [
            replace(uncalibrated, test_std=38.985 * ratio, selection_share=0.5)
            for ratio in (0.4, 0.9, 1.5)
        ]
    for fixed_split in fixed_splits:
        rival_gap = gap_of_likely_release(aggregator=calibrate(fixed_split))
        assert rival_gap is None or smallest_gap <= rival_gap + 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("uncalibrated", "adjacency", "max_gap"),
    [
        (WITH_TABLE, "replace_one", 200),
        (replace(WITH_GAUSSIAN_TEST, selection_share=None), "add_remove", 800),
    ],
    ids=["table", "gumbel"],
)
def test_epsilon_3_6_by_the_sum_of_both_prices(
    uncalibrated: StableTopK, adjacency: str, max_gap: int
) -> None:
    """An aggregator is calibrated to epsilon 3.6 by the Renyi accountant, which adds the prices of selection and test.

    The exact accountant prices it at 3.3 to 3.6, and a gap of at most `max_gap` votes passes half of
    the time.
    """
    calibrated = replace(uncalibrated, adjacency=adjacency).calibrated(
        target_epsilon=3.6,
        target_delta=1e-6,
        num_queries=600,
        num_labels=40,
        num_teachers=800,
        accountant=RdpAccountant,
    )
    event = calibrated.event_for(num_queries=600, num_labels=40, num_teachers=800)
    exact_epsilon = ExactAccountant().compose(event).get_epsilon(target_delta=1e-6)
    assert 3.3 <= exact_epsilon <= 3.6
    gap_to_pass = calibrated.stability_test(num_teachers=800).gap_to_pass(probability=0.5)
    assert gap_to_pass is not None and gap_to_pass <= max_gap


@pytest.mark.slow
def test_a_ready_table_is_kept_and_the_selection_meets_the_target(tmp_path: Path) -> None:
    """A table from a file stays as it is, and calibration fits only the scale of the selection."""

    def calibrate(aggregator: StableTopK) -> StableTopK:
        return aggregator.calibrated(
            target_epsilon=3.6,
            target_delta=1e-6,
            num_queries=600,
            num_labels=40,
            num_teachers=800,
            accountant=RdpAccountant,
        )

    calibrated = calibrate(WITH_TABLE)
    assert calibrated.table_order is not None
    stability_test = calibrated.stability_test(num_teachers=800)
    table_path = tmp_path / "table.json"
    CertifiedTable.from_test(stability_test, order=calibrated.table_order).save(table_path)
    with_ready_table = StableTopK(
        selection_scale=1.0, test="table", table=str(table_path), failure_prob=0.5
    )
    assert with_ready_table.failure_prob == calibrated.failure_prob
    recalibrated = calibrate(with_ready_table)
    assert recalibrated.table == with_ready_table.table
    assert recalibrated.selection_scale == pytest.approx(calibrated.selection_scale, rel=5e-3)
    assert recalibrated.stability_test(num_teachers=800) == stability_test


def test_a_ready_table_is_refused_for_other_votes() -> None:
    """A table for 30 teachers and replace-one is refused for 31 teachers, and for add-remove.

    The table is also refused beside other settings of a test, and for a target below its own price.
    """
    stability_test = WITH_GAUSSIAN_TEST.stability_test(num_teachers=30)
    with_ready_table = StableTopK(
        selection_scale=1.0,
        test="table",
        table=CertifiedTable.from_test(stability_test, order=3.0),
    )
    assert "sha256=" in repr(with_ready_table)
    with refused_parameter("num_teachers", value=31, rule_words="30"):
        with_ready_table.event_for(num_queries=1, num_labels=4, num_teachers=31)
    with refused_parameter("adjacency", value="add_remove"):
        replace(with_ready_table, adjacency="add_remove").event_for(
            num_queries=1, num_labels=4, num_teachers=30
        )
    with refused_parameter("test", value="gaussian"):
        replace(with_ready_table, test="gaussian", test_std=1.0)
    with refused_parameter("target_epsilon", value=0.01):
        with_ready_table.calibrated(
            target_epsilon=0.01,
            target_delta=1e-6,
            num_queries=600,
            num_labels=40,
            num_teachers=30,
            accountant=RdpAccountant,
        )


@pytest.mark.parametrize("target_epsilon", ["x", -1, math.nan])
def test_target_epsilon_must_be_a_positive_number(target_epsilon: Any) -> None:
    """Calibration refuses a text, a negative number and nan as its target epsilon."""
    with refused_parameter("target_epsilon", value=ANY, rule_words="a number > 0"):
        WITH_GAUSSIAN_TEST.calibrated(
            target_epsilon=target_epsilon,
            target_delta=1e-6,
            num_queries=600,
            num_labels=40,
            num_teachers=800,
        )


FIXED_K = StableFixedTopK(k=2, selection_scale=2.0, test_std=1.0, peel_scale=3.0)
FIXED_K_WITH_TABLE = StableFixedTopK(
    k=4, selection_scale=1.0, test="table", table_order=2.0, table_budget=1.0, peel_scale=1.0
)


def renyi_epsilon_of(aggregator: StableFixedTopK) -> float:
    """Returns the Renyi epsilon of an aggregator for 600 queries, 40 labels and 800 teachers at delta 1e-6."""
    event = aggregator.event_for(num_queries=600, num_labels=40, num_teachers=800)
    return RdpAccountant().compose(event).get_epsilon(target_delta=1e-6)


def released_labels(
    aggregator: StableFixedTopK,
    counts_of_query: list[int],
    *,
    num_teachers: int,
    num_queries: int = 200,
) -> BoolArray:
    """Returns the labels, bool `[num_queries, num_labels]`, that are released for equal histograms."""
    vote_counts = np.tile(counts_of_query, (num_queries, 1))
    release = aggregator.aggregate(
        vote_counts, num_teachers=num_teachers, rng=np.random.default_rng(0)
    )
    return release.labels


def test_each_query_costs_selection_test_and_peel() -> None:
    """The event of 7 queries composes 7 selections, tests and peels.

    The peel changes a stable set of about k labels to exactly k labels.
    """
    event = FIXED_K.event_for(num_queries=7, num_labels=5, num_teachers=30)
    stable_top_k = FIXED_K.stable_top_k
    selection_event = stable_top_k.gap_selection(num_labels=5, num_teachers=30).event
    test_event = stable_top_k.stability_test(num_teachers=30).event
    peel_event = ZCdpEvent(rho=(2 / 3) ** 2 / 8)
    assert event == SelfComposedEvent(
        ComposedEvent(events=(selection_event, test_event, peel_event)), count=7
    )
    assert failure_probability(event) == pytest.approx(7e-9, rel=1e-12)


def test_the_papers_parameters_cost_rho_under_add_remove() -> None:
    """With the paper's noise scales, a query costs at most rho-zCDP, and at least 85% of it, at four Renyi orders.

    Selection and test have the noise scale sqrt(2 / rho), and the peel has the scale 1 / (2 sqrt(rho)).
    """
    rho = 0.002
    with_papers_parameters = StableFixedTopK(
        k=4,
        adjacency=Adjacency.ADD_REMOVE,
        selection_scale=math.sqrt(2 / rho),
        test_std=math.sqrt(2 / rho),
        peel_scale=0.5 / math.sqrt(rho),
    )
    orders = np.array([1.5, 3.0, 8.0, 30.0])
    event = with_papers_parameters.event_for(num_queries=1, num_labels=40, num_teachers=800)
    rdp = rdp_curve(count_leaves(event), orders=orders)
    assert (rdp <= rho * orders).all()
    # The test has a quarter of rho, and its one bit costs 2 / pi of this quarter.
    assert (rdp >= 0.85 * rho * orders).all()


@pytest.mark.parametrize("adjacency", Adjacency)
def test_answer_with_all_labels_costs_nothing(adjacency: Adjacency) -> None:
    """If k is the number of labels, every answer has all of them, so the event is a no-op; calibration succeeds."""
    for num_labels in (1, 4):
        aggregator = replace(FIXED_K, k=num_labels, adjacency=adjacency)
        event = aggregator.event_for(num_queries=9, num_labels=num_labels, num_teachers=5)
        assert event == SelfComposedEvent(NoOpEvent(), count=9)
        counts_of_query = [3] * num_labels
        labels = released_labels(aggregator, counts_of_query=counts_of_query, num_teachers=5)
        assert labels.all()
        distribution = aggregator.distribution(np.array(counts_of_query), num_teachers=5)
        assert distribution == {tuple(range(num_labels)): 1.0}
        aggregator.calibrated(
            target_epsilon=8.0,
            target_delta=1e-6,
            num_queries=9,
            num_labels=num_labels,
            num_teachers=5,
        )


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(
    "vote_counts",
    [pytest.param([0, 0, 0], id="no votes"), pytest.param([9, 9, 9], id="all votes")],
)
def test_peel_decides_after_empty_and_full_stable_sets(
    adjacency: Adjacency, vote_counts: list[int]
) -> None:
    """If the stable set has no label or all three, the peel draws each pair of labels with probability 1/3."""
    padded = StableFixedTopK(
        k=2, selection_scale=0.1, test_std=50.0, peel_scale=3.0, padded=True, adjacency=adjacency
    )
    distribution = padded.distribution(np.array(vote_counts), num_teachers=9)
    assert distribution == pytest.approx({(0, 1): 1 / 3, (0, 2): 1 / 3, (1, 2): 1 / 3}, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("peel_share", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_table_calibration_gives_the_peel_its_share(
    adjacency: Adjacency, peel_share: float
) -> None:
    """Calibration to epsilon 8 gives the peel the share `peel_share` of the Renyi divergence of a query."""
    calibrated = replace(FIXED_K_WITH_TABLE, adjacency=adjacency, peel_share=peel_share).calibrated(
        target_epsilon=8.0, target_delta=1e-6, num_queries=600, num_labels=40, num_teachers=800
    )
    assert 7.95 <= renyi_epsilon_of(aggregator=calibrated) <= 8.0
    order = calibrated.table_order
    assert order is not None
    query_event = calibrated.event_for(num_queries=1, num_labels=40, num_teachers=800)
    rdp_of_query = rdp_curve(count_leaves(query_event), orders=np.array([order]))[0]
    rdp_of_peel = calibrated.peeling.event.rho * order
    assert rdp_of_peel == pytest.approx(peel_share * rdp_of_query, rel=1e-3)


def test_a_ready_table_keeps_its_failure_probability() -> None:
    """An aggregator with a ready table has the table's failure probability.

    Calibration fits only the noise of the selection and of the peel, at their fixed ratio.
    """
    table = optimal_stability_table(order=4.0, rdp_budget=1e-3, failure_prob=2e-10, num_levels=400)
    with_ready_table = replace(FIXED_K_WITH_TABLE, table=table, peel_scale=0.5)
    assert with_ready_table.failure_prob == 2e-10
    assert with_ready_table.table_order is None
    assert with_ready_table.table_budget is None
    event = with_ready_table.event_for(num_queries=600, num_labels=40, num_teachers=800)
    assert failure_probability(event) == pytest.approx(600 * 2e-10, rel=1e-12)
    calibrated = with_ready_table.calibrated(
        target_epsilon=8.0, target_delta=1e-6, num_queries=600, num_labels=40, num_teachers=800
    )
    assert 7.95 <= renyi_epsilon_of(aggregator=calibrated) <= 8.0
    assert calibrated.table == table
    assert calibrated.peel_scale / calibrated.selection_scale == pytest.approx(0.5, rel=1e-12)


def test_paper_epsilon_adds_the_peel_to_the_papers_formula() -> None:
    """`paper_epsilon` is the paper's zCDP formula with the peel's rho added, below the Renyi epsilon.

    It is infinite if failures use up delta, and None for a selection or test that the paper does
    not have.
    """
    with_papers_mechanisms = replace(
        FIXED_K, selection_noise="gaussian", selection_scale=50.0, test_std=60.0, peel_scale=20.0
    )
    rho = 600 * (1 / (2 * 50.0**2) + 1 / (2 * 60.0**2) + 1 / (8 * 20.0**2))
    paper_epsilon = with_papers_mechanisms.paper_epsilon(num_queries=600, target_delta=1e-6)
    expected_epsilon = zcdp_to_epsilon_classic(rho, target_delta=4e-7)
    assert paper_epsilon == pytest.approx(expected_epsilon, rel=1e-12)
    assert renyi_epsilon_of(aggregator=with_papers_mechanisms) > paper_epsilon
    with_set_failure_prob = replace(with_papers_mechanisms, failure_prob=1e-9)
    assert with_set_failure_prob.paper_epsilon(num_queries=1001, target_delta=1e-6) == math.inf
    assert FIXED_K.paper_epsilon(num_queries=600, target_delta=1e-6) is None
    assert FIXED_K_WITH_TABLE.paper_epsilon(num_queries=600, target_delta=1e-6) is None


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_draws_follow_the_exact_distribution(mechanism: str, adjacency: Adjacency) -> None:
    """In 8,000 answers of `FixedTopK`, each pair of labels has its exact probability within 5 standard deviations.

    Every answer has two labels.
    """
    aggregator = FixedTopK(k=2, epsilon=1.0, mechanism=mechanism, adjacency=adjacency)
    num_draws = 8_000
    vote_counts = np.array([9, 4, 8, 0])
    release = aggregator.aggregate(
        np.tile(vote_counts, (num_draws, 1)), num_teachers=10, rng=np.random.default_rng(5)
    )
    assert release.answered.all()
    assert (release.labels.sum(axis=1) == 2).all()
    distribution = aggregator.distribution(vote_counts, num_teachers=10)
    assert sum(distribution.values()) == pytest.approx(1)
    for labels, probability in distribution.items():
        assert labels is not None
        frequency = release.labels[:, list(labels)].all(axis=1).mean()
        std = math.sqrt(probability * (1 - probability) / num_draws)
        assert abs(frequency - probability) < 5 * std + 1e-9


@pytest.mark.parametrize(
    ("mechanism", "k", "event_of_query"),
    [
        pytest.param("joint", 2, BoundedRangeEvent(epsilon=1.0), id="joint"),
        pytest.param("permute_and_flip_joint", 2, PureDpEvent(epsilon=1.0), id="permute and flip"),
        pytest.param("peeling", 4, NoOpEvent(), id="peeling of all labels"),
    ],
)
def test_each_mechanism_costs_its_own_event(mechanism: str, k: int, event_of_query: Event) -> None:
    """A query costs bounded range by the joint mechanism and pure DP by permute-and-flip.

    If all four labels are released, as by peeling here, a query costs nothing.
    """
    aggregator = FixedTopK(k=k, epsilon=1.0, mechanism=mechanism)
    event = aggregator.event_for(num_queries=6, num_labels=4, num_teachers=10)
    assert event == SelfComposedEvent(event_of_query, count=6)


def test_four_times_the_noise_more_than_halves_the_epsilon() -> None:
    """Fixed top-k with four times the noise has less than half of the Renyi epsilon."""

    def renyi_epsilon(aggregator: FixedTopK) -> float:
        event = aggregator.event_for(num_queries=6, num_labels=4, num_teachers=10)
        return RdpAccountant().compose(event).get_epsilon(target_delta=1e-5)

    aggregator = FixedTopK(k=1, epsilon=0.1)
    noisier = aggregator.scaled(noise_factor=4.0)
    assert renyi_epsilon(aggregator=noisier) < renyi_epsilon(aggregator=aggregator) / 2
