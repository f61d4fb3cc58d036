"""Budgets refuse impossible values, and noise that is fitted to a budget costs at most this budget."""

import math

import pytest

from pate.accounting import ApproximateEvent, Budget, NoOpEvent, RdpAccountant
from pate.aggregators import GaussianVotes
from pate.validation import InvalidValue
from pate.votes import VoteShape
from tests.refusals import ANY, refused_parameter

SHAPE = VoteShape(num_queries=60, num_labels=4, num_teachers=200)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_an_epsilon_not_above_zero_is_refused(epsilon: float) -> None:
    """`Budget` refuses an epsilon that is zero, negative, infinite or nan."""
    with refused_parameter("target_epsilon", value=ANY):
        Budget(epsilon=epsilon, delta=1e-6)


@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
def test_a_delta_not_between_0_and_1_is_refused(delta: float) -> None:
    """`Budget` refuses a delta that is 0, 1 or nan."""
    with refused_parameter("target_delta", value=ANY):
        Budget(epsilon=1.0, delta=delta)


def test_an_accountant_that_cannot_be_called_is_refused() -> None:
    """`Budget` refuses the name of an accountant, the text "rdp", in place of the accountant's class."""
    accountant_name: type[RdpAccountant] = "rdp"  # type: ignore[assignment]
    with refused_parameter("accountant", value="rdp"):
        Budget(epsilon=1.0, delta=1e-6, accountant=accountant_name)


def test_less_noise_than_was_fitted_costs_more_than_the_budget() -> None:
    """Noise fitted to a budget of epsilon 3 costs between 2.999 and 3; noise that is 1% smaller costs more than 3."""
    budget = Budget(epsilon=3.0, delta=1e-6, accountant=RdpAccountant)
    fitted_votes = GaussianVotes(noise_std=1.0).fitted(budget, shape=SHAPE)

    def renyi_epsilon(aggregator: GaussianVotes) -> float:
        return RdpAccountant().compose(aggregator.event(SHAPE)).get_epsilon(target_delta=1e-6)

    assert 2.999 < renyi_epsilon(aggregator=fitted_votes) <= 3.0
    assert renyi_epsilon(aggregator=fitted_votes.scaled(noise_factor=0.99)) > 3.0


def test_epsilon_is_infinite_where_failures_reach_delta() -> None:
    """`Budget.epsilon_of` returns infinity for an event whose failure probability is all of delta.

    Where an event fails, there is no guarantee. With a tenth of that failure probability the result is 0, since this
    event releases nothing as long as it does not fail.
    """
    budget = Budget(delta=1e-6)
    assert budget.epsilon_of(ApproximateEvent(event=NoOpEvent(), failure_prob=1e-6)) == math.inf
    assert budget.epsilon_of(ApproximateEvent(event=NoOpEvent(), failure_prob=1e-7)) == 0.0


def test_fitting_noise_to_a_budget_without_epsilon_is_refused() -> None:
    """`fitted` refuses a budget that fixes delta only."""
    with pytest.raises(InvalidValue) as refusal:
        GaussianVotes(noise_std=1.0).fitted(Budget(delta=1e-6), shape=SHAPE)
    assert (refusal.value.name, refusal.value.value) == ("target_epsilon", None)
