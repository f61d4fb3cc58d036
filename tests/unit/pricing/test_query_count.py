"""The number of queries that a budget pays for."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pate.accounting import (
    AutoAccountant,
    Event,
    ExactAccountant,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
    gaussian_epsilon,
)
from pate.aggregators import Aggregator, GaussianVotes, StableTopK
from pate.pricing import largest_num_queries
from pate.validation import InvalidValue

VOTES = {"num_labels": 40, "num_teachers": 800}
GUMBEL = StableTopK(selection_scale=38.985, test_std=60.0)


def epsilon(aggregator: Aggregator, num_queries: int, make: Any = AutoAccountant) -> float:
    spent = make().compose(aggregator.event_for(num_queries=num_queries, **VOTES))
    return float(spent.get_epsilon(1e-6))


@pytest.mark.parametrize("aggregator", [GaussianVotes(noise_std=100.0), GUMBEL, GaussianVotes(noise_std=9000.0)])
@pytest.mark.parametrize("budget", [3.0, 8.0])
def test_one_query_more_is_too_many(aggregator: Aggregator, budget: float) -> None:
    most = largest_num_queries(aggregator, max_epsilon=budget, target_delta=1e-6, **VOTES)
    assert epsilon(aggregator, most) <= budget
    assert most == 999 or epsilon(aggregator, most + 1) > budget


def test_against_the_closed_form_of_a_gaussian() -> None:
    """Bits of a Gaussian cost 2 / pi of it where noise is large: mu = sqrt(num_bits 2 / pi) / noise_std."""
    most = largest_num_queries(GaussianVotes(noise_std=1000.0), max_epsilon=2.0, target_delta=1e-6, **VOTES)
    mu = math.sqrt(most * 40 * 2 / math.pi) / 1000
    assert 0.9 * 2.0 < gaussian_epsilon(mu, target_delta=1e-6) <= 2.0


def test_failures_alone_end_the_queries() -> None:
    quiet = StableTopK(selection_scale=1e6, test_std=1e6)
    assert largest_num_queries(quiet, max_epsilon=3.0, target_delta=1e-6, **VOTES) == 999


def test_a_tighter_accountant_pays_for_more() -> None:
    class Tighter(RdpAccountant):
        def get_epsilon(self, target_delta: float) -> float:
            return super().get_epsilon(target_delta) / 1.5

    budget = {"max_epsilon": 8.0, "target_delta": 1e-6, **VOTES}
    most = largest_num_queries(GUMBEL, accountant=Tighter, **budget)
    assert epsilon(GUMBEL, most, Tighter) <= 8.0 < epsilon(GUMBEL, most + 1, Tighter)
    looser = largest_num_queries(GUMBEL, accountant=lambda: RdpAccountant([5.0]), **budget)
    assert looser < largest_num_queries(GUMBEL, **budget)


def test_a_price_without_queries_ends_where_draws_keep_no_promise() -> None:
    class OneSession(GaussianVotes):
        def event_for(self, **shape: int) -> PureDpEvent:
            return PureDpEvent(1.0)

    budget = {"max_epsilon": 1.0, "num_labels": 4, "num_teachers": 8, "accountant": ExactAccountant}
    most = largest_num_queries(OneSession(noise_std=1.0), target_delta=1e-9, **budget)
    assert most == int(1e-9 * 2**53 / 4)
    assert largest_num_queries(OneSession(noise_std=1.0), target_delta=0.5, **budget) == 10**9


@pytest.mark.parametrize(("at_most", "most"), [(1, 1), (825, 825), (826, 826), (827, 826), (10_000, 826)])
@pytest.mark.parametrize("accountant", [RdpAccountant, lambda: RdpAccountant()])
def test_a_cap_is_kept_and_changes_nothing_below_it(at_most: int, most: int, accountant: Any) -> None:
    budget = {"max_epsilon": 8.0, "target_delta": 1e-6, "accountant": accountant, **VOTES}
    assert largest_num_queries(GaussianVotes(noise_std=100.0), at_most=at_most, **budget) == most


def test_an_event_that_only_its_own_accountant_prices_is_counted_by_that_one() -> None:
    class Mine(Event):
        pass

    class Own(GaussianVotes):
        def event_for(self, *, num_queries: int, **others: int) -> Event:
            return SelfComposedEvent(Mine(), num_queries)

    class Counts(RdpAccountant):
        num_events = 0

        def compose(self, event: Event, count: int = 1) -> Counts:
            self.num_events += event.count
            return self

        def get_epsilon(self, target_delta: float) -> float:
            return float(self.num_events)

    budget = {"max_epsilon": 17.5, "target_delta": 1e-6, "accountant": Counts, **VOTES}
    assert largest_num_queries(Own(noise_std=1.0), **budget) == 17


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"at_most": 0}, "at_most=0: expected a whole number >= 1"),
        ({"target_delta": 1e-15}, r"target_delta=1e-15: expected at least 4\.45e-15, below which draws"),
        ({"max_epsilon": 0.01}, r"max_epsilon=0\.01: expected at least 0\.\d+, the price of one query"),
        ({"max_epsilon": math.nan}, r"max_epsilon=nan: expected a number > 0"),
        ({"target_delta": 1.0}, r"target_delta=1\.0: expected a number in \(0, 1\)"),
        ({"target_delta": 1e-10}, r"failure_prob: 1e-09 in all uses up target_delta=1e-10"),
    ],
)
def test_impossible_budgets_are_refused(fields: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        largest_num_queries(GUMBEL, **({"max_epsilon": 8.0, "target_delta": 1e-6} | fields), **VOTES)
