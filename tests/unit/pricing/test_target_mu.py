"""Plans whose noise is solved for a mu of Gaussian differential privacy, in place of an epsilon."""

import pytest

from pate.accounting import AutoAccountant, RdpAccountant
from pate.aggregators import Aggregator, CenteredVotes, GaussianVotes, StableTopK
from pate.pricing import budget_from_settings, plan_release
from pate.pricing.budgets import MuBudget
from pate.votes import VoteShape
from tests.refusals import refused_parameter

SHAPE = VoteShape(num_queries=20, num_labels=5, num_teachers=400)


def test_gaussian_release_meets_its_mu() -> None:
    """Centered votes whose noise is solved for mu 0.5 have a mu of at most 0.5, and of at least 99.9% of it."""
    budget = MuBudget.from_mu(mu=0.5, delta=1e-6)
    planned = plan_release(CenteredVotes(noise_multiplier=1.0), shape=SHAPE, budget=budget)
    mu = AutoAccountant().compose(planned.event).gdp_mu()
    assert 0.5 * 0.999 < mu <= 0.5


@pytest.mark.slow
def test_release_of_bits_meets_its_mu() -> None:
    """Gaussian votes, which release bits, have a mu between 0.9 and 1 if their noise is solved for mu 1."""
    budget = MuBudget.from_mu(mu=1.0, delta=1e-6)
    planned = plan_release(GaussianVotes(noise_std=10.0), shape=SHAPE, budget=budget)
    mu = AutoAccountant().compose(planned.event).gdp_mu()
    assert 0.9 < mu <= 1.0


def test_release_that_may_fail_is_refused() -> None:
    """A target mu is refused for stable top-k, whose guarantee fails with a small probability and so has no mu.

    The error names `target_epsilon`.
    """
    aggregator: Aggregator = StableTopK(selection_scale=20.0, test_std=20.0, failure_prob=1e-10)
    budget = MuBudget.from_mu(mu=1.0, delta=1e-6, accountant=RdpAccountant)
    with refused_parameter("target_mu", value=1.0, rule_words="target_epsilon"):
        plan_release(aggregator, shape=SHAPE, budget=budget)


@pytest.mark.parametrize(
    ("target_epsilon", "max_epsilon", "budgets"),
    [(1.0, None, None), (None, 1.0, None), (None, None, [1, 4])],
    ids=["target_epsilon", "max_epsilon", "budgets"],
)
def test_mu_beside_an_epsilon_is_refused(
    target_epsilon: float | None, max_epsilon: float | None, budgets: list[int] | None
) -> None:
    """A target mu is refused beside each setting that fixes an epsilon."""
    with refused_parameter("target_mu", value=0.5):
        budget_from_settings(
            target_delta=1e-6,
            target_mu=0.5,
            target_epsilon=target_epsilon,
            max_epsilon=max_epsilon,
            budgets=budgets,
        )


@pytest.mark.parametrize("mu", [0.0, -1.0])
def test_mu_is_above_zero(mu: float) -> None:
    """A target mu of 0, which would need infinite noise, is refused, and so is a negative one."""
    with refused_parameter("target_mu", value=mu):
        budget_from_settings(target_delta=1e-6, target_mu=mu)
