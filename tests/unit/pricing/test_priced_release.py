"""What a budget buys, worked out by hand: Q queries of 1 / noise_std each cost Q / noise_std."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pate.accounting import RdpAccountant
from pate.aggregators import GaussianVotes, StableTopK
from pate.pricing import Budget, ReleaseShape, plan_release
from pate.validation import InvalidValue
from tests.unit.pricing.one_price import OnePrice, Sum

SHAPE = ReleaseShape(num_queries=600, num_labels=40, num_teachers=800)


def budget(**fields: Any) -> Budget:
    return Budget(**({"target_delta": 1e-6, "accountant": Sum} | fields))


def test_nothing_to_solve_for_is_priced_as_it_is() -> None:
    planned = plan_release(OnePrice(noise_std=200.0), SHAPE, budget())
    assert (planned.aggregator, planned.shape) == (OnePrice(noise_std=200.0), SHAPE)
    assert planned.event == SHAPE.event_of(planned.aggregator)
    assert planned.epsilon == pytest.approx(3.0, rel=1e-12)


def test_a_target_is_met_by_the_noise_for_all_queries() -> None:
    planned = plan_release(OnePrice(noise_std=1.0), SHAPE, budget(target_epsilon=3.0))
    assert planned.shape == SHAPE
    assert planned.aggregator.noise_std == pytest.approx(200.0, rel=2e-4)  # type: ignore[attr-defined]
    assert 3.0 * (1 - 2e-4) < planned.epsilon <= 3.0
    assert planned.event == SHAPE.event_of(planned.aggregator)


@pytest.mark.parametrize(("most", "queries"), [(1.004, 100), (0.0101, 1), (6.1, 600), (100.0, 600)])
def test_a_maximum_is_met_by_fewer_queries_with_the_noise_as_it_is(most: float, queries: int) -> None:
    planned = plan_release(OnePrice(noise_std=100.0), SHAPE, budget(max_epsilon=most))
    assert planned.aggregator == OnePrice(noise_std=100.0)
    assert planned.shape == SHAPE.with_queries(queries)
    assert planned.epsilon == pytest.approx(queries / 100, rel=1e-12)
    assert planned.event == planned.shape.event_of(planned.aggregator)


def test_a_maximum_may_buy_more_queries_where_that_is_asked() -> None:
    planned = plan_release(OnePrice(noise_std=100.0), SHAPE, budget(max_epsilon=10.004), more_queries=True)
    assert planned.shape.num_queries == 1000
    cut = plan_release(OnePrice(noise_std=100.0), SHAPE, budget(max_epsilon=1.004), more_queries=True)
    assert cut.shape.num_queries == 100


def test_failures_and_delta_limit_the_queries_as_the_price_does() -> None:
    """999 of 1e-9 fit below delta; 2**-53 for each of 40 labels fits 225 times into 1e-12."""
    quiet, many = StableTopK(selection_scale=1e6, test_std=1e6), SHAPE.with_queries(5000)
    assert plan_release(quiet, many, Budget(target_delta=1e-6, max_epsilon=3.0)).shape.num_queries == 999
    tiny = Budget(target_delta=1e-12, max_epsilon=3.0, accountant=Sum)
    assert plan_release(OnePrice(noise_std=1e6), SHAPE, tiny).shape.num_queries == 225


def test_the_accountant_of_the_budget_counts() -> None:
    class Double(RdpAccountant):
        def get_epsilon(self, target_delta: float) -> float:
            return 2 * super().get_epsilon(target_delta)

    aggregator, target = GaussianVotes(noise_std=100.0), {"target_delta": 1e-6, "target_epsilon": 8.0}
    double = plan_release(aggregator, SHAPE, Budget(accountant=Double, **target))  # type: ignore[arg-type]
    by_renyi = Budget(target_delta=1e-6, target_epsilon=4.0, accountant=RdpAccountant)
    single = plan_release(aggregator, SHAPE, by_renyi)
    assert double.aggregator.noise_std == pytest.approx(single.aggregator.noise_std, rel=3e-4)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_epsilon": 0.001}, r"max_epsilon=0\.001: expected at least 0\.1, the price of one query"),
        ({"target_delta": 1e-12}, r"target_delta=1e-12: expected at least 2\.67e-12, below which draws"),
        ({"target_delta": 1e-15, "max_epsilon": 1.0}, r"target_delta=1e-15: expected at least 4\.45e-15, below which"),
    ],
)
def test_what_no_budget_buys_is_refused(fields: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        plan_release(OnePrice(noise_std=10.0), SHAPE, budget(**fields))


@pytest.mark.parametrize("fields", [{}, {"target_epsilon": 8.0}])
def test_failures_that_use_up_delta_are_refused_and_not_priced(fields: dict[str, float]) -> None:
    failing = StableTopK(selection_scale=40.0, test_std=60.0, failure_prob=1e-8)
    with pytest.raises(InvalidValue, match=re.escape("failure_prob: 6e-06 in all uses up target_delta=1e-06")):
        plan_release(failing, SHAPE, Budget(target_delta=1e-6, **fields))
