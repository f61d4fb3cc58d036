"""Budgets that are made from settings, and settings that contradict each other."""

from typing import Any

import pytest

from pate import pricing
from pate.accounting import Budget, RdpAccountant
from pate.aggregators import GaussianVotes, StableTopK
from pate.pricing import PersonBudgets, QueryBudget, budget_from_settings, plan_release
from pate.votes import VoteShape
from tests.refusals import Refusal, refused_parameter

SHAPE = VoteShape(num_queries=600, num_labels=40, num_teachers=800)


def test_each_setting_names_a_type_of_budget() -> None:
    """`budget_from_settings` returns the budget that the settings name.

    A `Budget` is for fixed noise or for a target epsilon, and a `QueryBudget` for the number of queries that
    `max_epsilon` pays for. `PersonBudgets` are for classes of persons with an epsilon each (`budgets`).
    """
    assert budget_from_settings(target_delta=1e-6) == Budget(delta=1e-6)
    by_noise = budget_from_settings(target_delta=1e-6, target_epsilon=3.0, accountant=RdpAccountant)
    assert by_noise == Budget(delta=1e-6, epsilon=3.0, accountant=RdpAccountant)
    by_queries = budget_from_settings(target_delta=1e-6, max_epsilon=3.0)
    assert by_queries == QueryBudget(delta=1e-6, epsilon=3.0)
    by_persons = budget_from_settings(target_delta=1e-6, budgets={"usual": 4.0, "cautious": 1})
    assert isinstance(by_persons, PersonBudgets)
    assert list(by_persons.classes) == ["cautious", "usual"]
    assert by_persons.epsilon == 4.0


def test_deprecated_budget_name_makes_an_equal_budget() -> None:
    """`pate.pricing.Budget`, the former name with former parameters, returns a budget equal to that
    of `pate.accounting.Budget`.
    """
    assert pricing.Budget(target_delta=1e-6, target_epsilon=3.0) == Budget(delta=1e-6, epsilon=3.0)


@pytest.mark.parametrize(
    ("target_epsilon", "max_epsilon", "budgets", "refusal"),
    [
        (1.0, 1.0, None, refused_parameter("max_epsilon", value=1.0)),
        (1.0, None, [1.0, 4.0], refused_parameter("target_epsilon", value=1.0)),
        (None, 1.0, [1.0, 4.0], refused_parameter("max_epsilon", value=1.0)),
        (None, 0.0, None, refused_parameter("max_epsilon", value=0.0)),
        (-1.0, None, None, refused_parameter("target_epsilon", value=-1.0)),
        (None, None, {"usual": 0.0}, refused_parameter("budgets.usual", value=0.0)),
        (None, None, [], refused_parameter("budgets", value=0)),
    ],
    ids=[
        "noise and queries",
        "another epsilon beside classes",
        "queries beside classes",
        "no epsilon for queries",
        "negative epsilon",
        "class without an epsilon",
        "no classes",
    ],
)
def test_conflicting_settings_are_refused(
    target_epsilon: float | None, max_epsilon: float | None, budgets: Any, refusal: Refusal
) -> None:
    """Two settings that exclude one another are refused, and so is an impossible value."""
    with refusal:
        budget_from_settings(
            target_delta=1e-6,
            target_epsilon=target_epsilon,
            max_epsilon=max_epsilon,
            budgets=budgets,
        )


def test_unordered_classes_are_refused() -> None:
    """`PersonBudgets` refuses classes that are not listed by rising epsilon."""
    with refused_parameter("budgets", value=[4.0, 1.0]):
        PersonBudgets(delta=1e-6, epsilon=1.0, classes={"usual": 4.0, "cautious": 1.0})


@pytest.mark.slow
def test_plan_lowers_only_a_failure_prob_of_none() -> None:
    """A plan lowers an unset failure probability to the value that 10,000 queries need, 6e-11.

    An explicit value of 1e-9 is refused, with remedies for the value and for the number of queries.
    """
    large_shape = VoteShape(num_queries=10_000, num_labels=4, num_teachers=800)
    without_failure_prob = StableTopK(selection_scale=20.0, test_std=20.0)
    planned = plan_release(without_failure_prob, shape=large_shape, budget=Budget(delta=1e-6))
    assert isinstance(planned.aggregator, StableTopK)
    assert planned.aggregator.failure_prob == 6e-11
    with_failure_prob = StableTopK(selection_scale=20.0, test_std=20.0, failure_prob=1e-9)
    with refused_parameter("failure_prob", value=1e-9) as caught:
        plan_release(with_failure_prob, shape=large_shape, budget=Budget(delta=1e-6))
    remedies = {remedy.name: remedy.value for remedy in caught.value.remedies}
    assert remedies == {"failure_prob": 6e-11, "num_queries": 600}


@pytest.mark.slow
def test_query_budget_keeps_the_noise() -> None:
    """A plan for a query budget keeps the aggregator, and solves for the number of queries alone."""
    aggregator = GaussianVotes(noise_std=100.0)
    budget_that_limits_queries = QueryBudget(delta=1e-6, epsilon=4.0)
    planned = plan_release(aggregator, shape=SHAPE, budget=budget_that_limits_queries)
    assert planned.aggregator == aggregator
    assert planned.solved_for == {"num_queries": planned.shape.num_queries}
