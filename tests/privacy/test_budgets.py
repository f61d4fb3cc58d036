"""Budget classes: how far a group of each class moves all that is released, against the price of its class."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from pate.accounting import Adjacency, Event, ExactAccountant, GaussianEvent
from pate.aggregators import CenteredVotes, GaussianVotes, Prevalence
from pate.data import Partition
from pate.pricing import PersonBudgets, plan_release
from pate.run.budget_classes import repeat_by_budget_class
from pate.votes import VoteShape
from pate.votes.clipping import ClippedSum
from pate.votes.label_shares import TeacherShares
from tests.e2e.small_run import small_dataset
from tests.privacy.divergences import largest_move, record_constructed, verdict_on_shift

ADJACENCIES = tuple(Adjacency)


def test_a_whole_sum_adds_each_group_by_its_own_weight() -> None:
    """A weighted clipped sum equals, to the last bit, the sum of each group's own clipped sum with its weight."""
    votes_of_groups = np.random.default_rng(3).normal(size=(5, 4, 2))
    weights = np.array([1.0, 0.25, 0.6, 0.1, 0.9])
    clipped_sum = ClippedSum(clip=0.7, sum_shape=(4, 2))
    sums_of_single_groups = [
        clipped_sum.total(
            votes_or_blocks=votes_of_groups[group : group + 1],
            center=0.0,
            num_teachers=1,
            teacher_weights=weights[group : group + 1],
        )
        for group in range(5)
    ]
    whole_sum = clipped_sum.total(
        votes_of_groups, center=0.0, num_teachers=5, teacher_weights=weights
    )
    assert np.array_equal(whole_sum, sum(sums_of_single_groups))


@pytest.mark.parametrize("weight", [1.0, 0.5, 0.07, 0.003])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_every_step_of_a_prevalence_moves_by_a_groups_weight(
    adjacency: Adjacency, weight: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group of weight w, beside one of weight 1, costs at most w / (noise multiplier) in all steps of the prevalence.

    That cost is the root of the sum of (furthest move of the group / noise std)^2 over the steps. Negative control: 90%
    of w / (noise multiplier) is exceeded.
    """
    noises = record_constructed(
        monkeypatch, module_name="pate.aggregators.prevalence", class_name="RoundedGaussian"
    )
    sums = record_constructed(
        monkeypatch, module_name="pate.aggregators.prevalence", class_name="ClippedSum"
    )
    corners = np.array(list(product((0.0, 1.0), repeat=3)))
    group_weight = np.array([weight])
    shares_of_two_teachers = TeacherShares(
        label_shares=np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]]), weights=np.array([weight, 1.0])
    )
    prevalence = Prevalence(noise_multiplier=2.0, adjacency=adjacency)
    prevalence.release(shares_of_two_teachers, num_teachers=2, rng=np.random.default_rng(0))
    lengths = np.array(
        [
            TeacherShares(label_shares=corner[None], weights=group_weight).lengths()
            for corner in corners
        ],
        dtype=np.float64,
    )
    moves = [largest_move(lengths, adjacency)]
    for clipped_sum in sums[1:]:
        contributions = [
            TeacherShares(label_shares=corner[None], weights=group_weight)
            .total(clipped_sum, center=corner[::-1] * 0.5)
            .ravel()
            for corner in corners
        ]
        moves.append(largest_move(np.array(contributions, dtype=np.float64), adjacency))
        assert moves[-1] <= weight * clipped_sum.l2_sensitivity
    spent = math.sqrt(
        sum((move / noise.std) ** 2 for move, noise in zip(moves, noises, strict=True))
    )
    assert 0.9 * weight / 2.0 < spent <= weight / 2.0


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_each_class_pays_at_most_its_budget_for_the_densities(adjacency: Adjacency) -> None:
    """Three classes of people with budgets 0.5, 1 and 4 have prices that cover a shift of the noise by their weights.

    The epsilon of a class is over 99% of its budget and at most all of it. A price for 5% more noise is refuted, and so
    is the price of the class with the next smaller budget.
    """
    shape = VoteShape(num_queries=500, num_labels=4, num_teachers=900)
    budgets = {"cautious": 0.5, "usual": 1.0, "open": 4.0}
    budget = PersonBudgets.from_classes(class_budgets=budgets, delta=1e-6)
    aggregator = CenteredVotes(noise_multiplier=1.0, adjacency=adjacency)
    priced_release = plan_release(aggregator, shape, budget)
    assert [budget_class.name for budget_class in priced_release.classes] == list(budgets)
    assert (
        priced_release.classes[-1].weight == 1
        and priced_release.epsilon == priced_release.classes[-1].epsilon
    )
    events_of_classes: list[Event] = [
        priced_release.aggregator.scaled(noise_factor=1 / budget_class.weight).event(shape)
        for budget_class in priced_release.classes
    ]
    for index, budget_class in enumerate(priced_release.classes):
        epsilon = budget_class.epsilon
        assert 0.99 * budgets[budget_class.name] < epsilon <= budgets[budget_class.name]
        assert budget.epsilon_of(events_of_classes[index]) == epsilon
        mean_shift = budget_class.weight / priced_release.aggregator.noise_multiplier
        too_cheap = GaussianEvent(noise_multiplier=1.05 / mean_shift)
        assert verdict_on_shift(mean_shift, event=events_of_classes[index]).sound
        assert verdict_on_shift(mean_shift, event=too_cheap).refuted
        if index:  # the price of the class before it
            assert verdict_on_shift(mean_shift, event=events_of_classes[index - 1]).refuted


@pytest.mark.parametrize("teachers_reached", [2, 3])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_price_covers_all_histograms_that_a_person_of_several_teachers_changes(
    adjacency: Adjacency, teachers_reached: int
) -> None:
    """The price covers a person with records at two or three of five teachers, who moves each of two counts by as many.

    The exact delta is at most the claimed one. Negative control: the price for one teacher fewer is exceeded.
    """
    num_teachers = 5
    noise_std = 1.5
    delta = 1e-3
    counts = np.array(list(product(range(num_teachers + 1), repeat=2)))
    positive_probs = norm.cdf((counts - num_teachers / 2) / noise_std)  # [36, 2]
    bits = np.array(list(product((False, True), repeat=2)))
    laws = np.where(bits[None], positive_probs[:, None], 1 - positive_probs[:, None])
    laws = laws.prod(axis=2)  # [36, 4]
    count_changes = counts[:, None] - counts[None]
    are_neighbors = (np.abs(count_changes) <= teachers_reached).all(axis=2)
    if adjacency is Adjacency.ADD_REMOVE:
        are_neighbors &= (count_changes >= 0).all(axis=2) | (count_changes <= 0).all(axis=2)

    def exact_delta(num_reached: int) -> float:
        aggregator = GaussianVotes(
            noise_std=noise_std, teachers_reached=num_reached, adjacency=adjacency
        )
        event = aggregator.event_for(num_queries=1, num_labels=2, num_teachers=num_teachers)
        ratio = math.exp(ExactAccountant().compose(event).get_epsilon(target_delta=delta))
        deltas = np.maximum(laws[:, None] - ratio * laws[None], 0).sum(axis=2)
        return float(deltas[are_neighbors].max())

    assert exact_delta(num_reached=teachers_reached) <= delta * (1 + 1e-9)
    assert exact_delta(num_reached=teachers_reached - 1) > delta * (1 + 1e-9)


@pytest.mark.slow
def test_a_record_is_dealt_to_as_many_teachers_as_its_budget_pays_for() -> None:
    """A record with budget 1 has one copy, and one with budget 4 has a copy for each teacher that epsilon 4 pays for.

    Each copy has a group of its own, which goes to one teacher. With one teacher more, epsilon would exceed 4.
    """
    shape = VoteShape(num_queries=50, num_labels=4, num_teachers=40)
    budget = PersonBudgets.from_classes(class_budgets={"cautious": 1.0, "usual": 4.0}, delta=1e-6)
    priced_release = plan_release(GaussianVotes(noise_std=1.0), shape, budget)
    cautious_class, usual_class = priced_release.classes
    assert (
        cautious_class.teachers == 1 and cautious_class.epsilon <= 1 < 1.01 * cautious_class.epsilon
    )
    assert usual_class.teachers == priced_release.aggregator.teachers_reached > 1  # type: ignore[attr-defined]
    assert usual_class.epsilon == priced_release.epsilon <= 4
    dearer_aggregator = replace(
        priced_release.aggregator, teachers_reached=usual_class.teachers + 1
    )  # type: ignore[call-arg]
    assert budget.epsilon_of(dearer_aggregator.event(shape)) > 4
    dataset = replace(
        small_dataset(),
        budgets=np.array(["cautious", "usual"])[small_dataset().private.group_ids % 2],
    )
    repeated_records = repeat_by_budget_class(dataset, priced_release=priced_release).private
    partition = Partition.draw(
        repeated_records.group_ids, num_teachers=40, rng=np.random.default_rng(0)
    )
    partition.verify(repeated_records)
    num_copies = np.where(dataset.private.group_ids % 2, usual_class.teachers, 1)
    for inputs, expected_copies in zip(dataset.private.inputs[:8], num_copies[:8], strict=True):
        is_copy = (repeated_records.inputs == inputs).all(axis=1)
        assert is_copy.sum() == expected_copies
        assert len(np.unique(repeated_records.group_ids[is_copy])) == expected_copies
