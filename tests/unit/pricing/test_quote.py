"""Quotes without Hydra: what is solved for, what others say, and the page."""

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from benchmarks.tightness import faults_of
from pate.accounting import Accountant, AutoAccountant, Budget, RdpAccountant
from pate.aggregators import (
    Aggregator,
    BoundaryMax,
    CenteredVotes,
    ClippedVotes,
    FixedTopK,
    GaussianVotes,
    GNMax,
    NotPriorTopK,
    PowersetGNMax,
    StableTopK,
)
from pate.pricing import (
    PricedRelease,
    Quote,
    certify_stability_test,
    lower_bound_of,
    plan_hits,
    plan_release,
    quote_release,
)
from pate.pricing.accountant_prices import AccountantPrice
from pate.report.console import print_page
from pate.validation import InvalidValue
from pate.votes import VoteShape
from tests.refusals import refused

GUMBEL = StableTopK(selection_scale=38.985, test_std=60.0)
BUDGET = Budget(delta=1e-6)


def planned(
    aggregator: Aggregator = GUMBEL, budget: Budget = BUDGET, num_teachers: int = 800
) -> PricedRelease:
    return plan_release(
        aggregator, VoteShape(num_queries=600, num_labels=40, num_teachers=num_teachers), budget
    )


def quoted(
    aggregator: Aggregator = GUMBEL, budget: Budget = BUDGET, num_teachers: int = 800, **others: Any
) -> Quote:
    return quote_release(planned(aggregator, budget, num_teachers), budget, others=others)


def failing(error: Exception) -> Callable[[], Accountant]:
    def make() -> Accountant:
        raise error

    return make


def page(quote: Quote) -> str:
    console = Console(file=io.StringIO(), width=100)
    print_page("cli/account.txt", console=console, quote=quote)
    return str(console.file.getvalue())


def test_others_that_have_no_price_say_why() -> None:
    missing = ModuleNotFoundError("No module named 'dp_accounting'", name="dp_accounting")
    quote = quoted(
        pld=failing(missing),
        mine=failing(InvalidValue("event", "X", rule="another")),
        rdp=RdpAccountant,
    )
    assert quote.accountants == (
        AccountantPrice("auto", quote.epsilon, won_by="exact"),
        AccountantPrice("pld", reason="needs the package dp_accounting, which is not installed"),
        AccountantPrice("mine", reason="event=X: expected another"),
        replace(quote.accountants[3], accountant="rdp", won_by=None),
    )
    assert quote.epsilon < quote.accountants[3].epsilon
    text = page(quote)
    assert "needs the package dp_accounting" in text
    assert "side by side, at delta = 1e-6 less 6e-7 for failures: each is a bound" in text


def test_the_page_says_what_was_solved_for_and_what_passes() -> None:
    quote = quoted(budget=Budget(delta=1e-6, epsilon=8.0))
    text = page(quote)
    assert set(quote.solved_for) == {"selection_scale", "test_std"}
    assert text.count("<- solved for") == 2
    assert "epsilon <= 8.00 at" in text.splitlines()[0]  # 7.999…, rounded up
    assert "one private record changes" in text
    assert (
        f"{quote.gap_at_50} votes with probability 1/2, {quote.gap_at_95} votes with 0.95" in text
    )
    assert f"{quote.lone_gap_at_50} votes with probability 1/2, if all other gaps are 0" in text
    assert "600 x 1e-9 = 6e-7; 4e-7 of delta is left" in text


def test_any_stability_test_can_be_certified() -> None:
    """A Gaussian test at the order that the release is best at, a table at its own."""
    release = planned()
    table = certify_stability_test(release, BUDGET)
    assert table.test == GUMBEL.stability_test(num_teachers=800)
    assert table.order == RdpAccountant().compose(release.event).best_order(1e-6)
    ready = planned(StableTopK(selection_scale=38.985, test="table", table=table))
    assert certify_stability_test(ready, BUDGET) == table
    quote = quote_release(ready, BUDGET)
    assert quote.epsilon == release.epsilon
    assert quote.aggregator["table_sha256"] == table.digest
    with refused("aggregator", "GaussianVotes"):
        certify_stability_test(planned(GaussianVotes(noise_std=50.0)), BUDGET)


CLEAR = np.tile([400, 0, 0], (300, 1))


def test_clear_votes_pay_from_some_number_of_queries_on() -> None:
    given = BoundaryMax(selection_scale=20.0, target_hits=1), CLEAR
    plan = plan_hits(*given, num_teachers=400, target_delta=1e-6)
    assert plan.expected_asked == 300
    assert plan.expected_hits < 1e-5
    assert plan.break_even_queries is not None
    assert 20 < plan.break_even_queries < 300
    near = plan_hits(
        *given, num_teachers=400, target_delta=1e-6, max_queries=plan.break_even_queries // 2
    )
    assert near.break_even_queries is None


def test_a_prior_decides_who_hits() -> None:
    aggregator = NotPriorTopK(
        prior_scale=10.0,
        selection_scale=30.0,
        table_order=4.0,
        table_budget=0.01,
        first_queries=100,
        target_hits=50,
    )
    prior = np.tile([True, False, False], (300, 1))
    prior[200:] = False
    plan = plan_hits(
        aggregator, CLEAR, num_teachers=400, target_delta=1e-6, prior=prior, max_queries=4
    )
    assert plan.expected_hits == pytest.approx(100)
    assert plan.expected_asked == 250
    with refused("prior.shape", (2, 3), "(300"):
        plan_hits(aggregator, CLEAR, num_teachers=400, target_delta=1e-6, prior=prior[:2])


SHAPE = VoteShape(num_queries=60, num_labels=4, num_teachers=200)
TIGHT: dict[str, tuple[Aggregator, float]] = {
    "gnmax": (GNMax(noise_std=20.0), 1.15),
    "gnmax, add/remove": (GNMax(noise_std=20.0, adjacency="add_remove"), 1.6),  # type: ignore[arg-type]
    "powerset": (PowersetGNMax(noise_std=20.0), 1.15),
    "gaussian": (GaussianVotes(noise_std=30.0), 1.1),
    "clipped": (ClippedVotes(noise_std=20.0, vote_clip=1), 1.15),
    "stable": (StableTopK(selection_scale=20.0, test_std=8.0), 1.6),
    "peeling": (FixedTopK(k=2, epsilon=0.2), 1.2),
    "joint": (FixedTopK(k=1, epsilon=0.2, mechanism="joint"), 1.1),
    "boundary": (BoundaryMax(selection_scale=20.0, target_hits=2), 1.6),
    "boundary, add/remove": (
        BoundaryMax(selection_scale=10.0, target_hits=2, adjacency="add_remove"),
        1.6,
    ),  # type: ignore[arg-type]
    "canonical": (FixedTopK(k=3, epsilon=0.2, mechanism="canonical"), 1.6),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TIGHT)
def test_prices_are_between_the_lower_bound_and_a_little_more(name: str) -> None:
    aggregator, most = TIGHT[name]
    found = lower_bound_of(aggregator, SHAPE, 1e-5)
    assert found is not None
    price = RdpAccountant().compose(aggregator.event(SHAPE)).get_epsilon(1e-5)
    assert found.epsilon <= price <= most * found.epsilon


def test_what_no_search_is_known_for_has_no_bound() -> None:
    assert lower_bound_of(CenteredVotes(noise_multiplier=1.0, clip=1.0), SHAPE, 1e-5) is None
    assert lower_bound_of(FixedTopK(k=4, epsilon=0.2), SHAPE, 1e-5) is None


def test_a_price_10_percent_too_small_is_refuted_and_a_looser_one_noticed() -> None:
    aggregator = FixedTopK(k=1, epsilon=0.2, mechanism="joint")
    found = lower_bound_of(aggregator, SHAPE, 1e-5)
    assert found is not None
    price = AutoAccountant().compose(aggregator.event(SHAPE)).get_epsilon(1e-5)
    recorded = {"auto": price / found.epsilon}
    assert faults_of(found.epsilon, {"auto": price}, recorded) == []
    assert "refuted" in faults_of(found.epsilon, {"auto": 0.9 * price}, recorded)[0]
    assert "times its lower bound" in faults_of(found.epsilon, {"auto": 1.1 * price}, recorded)[0]
    assert "no recorded ratio" in faults_of(found.epsilon, {"auto": price}, {})[0]
