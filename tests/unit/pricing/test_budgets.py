"""The budgets that settings name, and what does not go together."""

from typing import Any

import pytest

from pate import pricing
from pate.accounting import Budget, RdpAccountant
from pate.aggregators import GaussianVotes, StableTopK
from pate.errors import InvalidValue
from pate.pricing import PersonBudgets, QueryBudget, budget_from_settings, plan_release
from pate.votes import VoteShape

SHAPE = VoteShape(num_queries=600, num_labels=40, num_teachers=800)


def test_each_setting_names_a_type_of_budget() -> None:
    """`budget_from_settings` returns a budget for fixed noise, a target epsilon, a number of
    queries (`max_epsilon`), or classes of persons (`budgets`).
    """
    assert budget_from_settings(target_delta=1e-6) == Budget(delta=1e-6)
    by_noise = budget_from_settings(target_delta=1e-6, target_epsilon=3.0, accountant=RdpAccountant)
    assert by_noise == Budget(delta=1e-6, epsilon=3.0, accountant=RdpAccountant)
    by_queries = budget_from_settings(target_delta=1e-6, max_epsilon=3.0)
    assert by_queries == QueryBudget(delta=1e-6, epsilon=3.0)
    by_persons = budget_from_settings(target_delta=1e-6, budgets={"usual": 4.0, "cautious": 1})
    assert isinstance(by_persons, PersonBudgets)
    assert (list(by_persons.classes), by_persons.epsilon) == (["cautious", "usual"], 4.0)


def test_deprecated_budget_name_makes_an_equal_budget() -> None:
    """`pate.pricing.Budget`, the former name with former parameters, returns a budget equal to that
    of `pate.accounting.Budget`.
    """
    assert pricing.Budget(target_delta=1e-6, target_epsilon=3.0) == Budget(delta=1e-6, epsilon=3.0)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"target_epsilon": 1.0, "max_epsilon": 1.0}, "max_epsilon"),
        ({"target_epsilon": 1.0, "budgets": [1.0, 4.0]}, "target_epsilon"),
        ({"max_epsilon": 1.0, "budgets": [1.0, 4.0]}, "max_epsilon"),
        ({"max_epsilon": 0.0}, "max_epsilon"),
        ({"target_epsilon": -1.0}, "target_epsilon"),
        ({"budgets": {"usual": 0.0}}, "budgets.usual"),
        ({"budgets": []}, "budgets"),
    ],
)
def test_conflicting_settings_are_refused(settings: dict[str, Any], name: str) -> None:
    """Two settings that exclude one another, or an impossible value, are refused with the parameter
    `name`.
    """
    with pytest.raises(InvalidValue) as refusal:
        budget_from_settings(target_delta=1e-6, **settings)
    assert refusal.value.name == name


def test_unordered_classes_are_refused() -> None:
    """`PersonBudgets` refuses classes that are not listed by rising epsilon."""
    with pytest.raises(InvalidValue) as refusal:
        PersonBudgets(delta=1e-6, epsilon=1.0, classes={"usual": 4.0, "cautious": 1.0})
    assert refusal.value.name == "budgets"


@pytest.mark.slow
def test_plan_lowers_only_a_failure_prob_of_none() -> None:
    """10,000 queries need a failure probability of 6e-11: a plan lowers an unset one to it.

    One that was set to 1e-9 is refused, with remedies for it and for the number of queries.
    """
    large_shape = VoteShape(num_queries=10_000, num_labels=4, num_teachers=800)
    unnamed = StableTopK(selection_scale=20.0, test_std=20.0)
    planned = plan_release(aggregator=unnamed, shape=large_shape, budget=Budget(delta=1e-6))
    assert isinstance(planned.aggregator, StableTopK)
    assert planned.aggregator.failure_prob == 6e-11
    tuned = StableTopK(selection_scale=20.0, test_std=20.0, failure_prob=1e-9)
    with pytest.raises(InvalidValue) as refusal:
        plan_release(aggregator=tuned, shape=large_shape, budget=Budget(delta=1e-6))
    assert (refusal.value.name, refusal.value.value) == ("failure_prob", 1e-9)
    remedies = {remedy.name: remedy.value for remedy in refusal.value.remedies}
    assert remedies == {"failure_prob": 6e-11, "num_queries": 600}


@pytest.mark.slow
def test_query_budget_keeps_the_noise() -> None:
    """A plan for a query budget keeps the aggregator, and solves for the number of queries alone."""
    start = GaussianVotes(noise_std=100.0)
    planned = plan_release(
        aggregator=start, shape=SHAPE, budget=QueryBudget(delta=1e-6, epsilon=4.0)
    )
    assert planned.aggregator == start
    assert planned.solved_for == {"num_queries": planned.shape.num_queries}
