"""Quotes of releases: the solved values, the prices of further accountants, and the page that shows them."""

import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
from rich.console import Console

from pate.accounting import Accountant, Budget, RdpAccountant
from pate.accounting.rounding import format_epsilon
from pate.aggregators import (
    Aggregator,
    BoundaryMax,
    GaussianVotes,
    NotPriorTopK,
    StableTopK,
)
from pate.pricing import (
    PricedRelease,
    Quote,
    certify_stability_test,
    plan_hits,
    plan_release,
    quote_release,
)
from pate.pricing.accountant_prices import AccountantPrice
from pate.report.console import print_page
from pate.validation import InvalidValue
from pate.votes import VoteShape
from tests.refusals import refused_parameter

GUMBEL = StableTopK(selection_scale=38.985, test_std=60.0)
BUDGET = Budget(delta=1e-6)


def priced_release(
    aggregator: Aggregator = GUMBEL, budget: Budget = BUDGET, num_teachers: int = 800
) -> PricedRelease:
    """Returns the priced release of 600 queries and 40 labels."""
    return plan_release(
        aggregator,
        shape=VoteShape(num_queries=600, num_labels=40, num_teachers=num_teachers),
        budget=budget,
    )


def quote_stable_top_k(
    budget: Budget = BUDGET,
    *,
    further_accountants: Mapping[str, Callable[[], Accountant]] = MappingProxyType({}),
) -> Quote:
    """Returns the quote of stable top-k, with the prices of further accountants by their names."""
    return quote_release(priced_release(budget=budget), budget=budget, others=further_accountants)


def failing_accountant(error: Exception) -> Callable[[], Accountant]:
    """Returns a function that stands in for an accountant's class; its call raises `error`."""

    def raise_error() -> Accountant:
        raise error

    return raise_error


def page_text(price_quote: Quote) -> str:
    """Returns the text of a quote as the console shows it."""
    console = Console(file=io.StringIO(), width=100)
    print_page("cli/account.txt", console=console, quote=price_quote)
    return str(console.file.getvalue())


@pytest.mark.slow
def test_other_accountants_without_a_price_give_a_reason() -> None:
    """A quote has a reason in place of a price for an accountant whose package is missing or that refuses the event.

    The page of the quote shows the reason.
    """
    missing = ModuleNotFoundError("No module named 'dp_accounting'", name="dp_accounting")
    unknown_event = InvalidValue(name="event", value="X", rule="another")
    price_quote = quote_stable_top_k(
        further_accountants={
            "pld": failing_accountant(error=missing),
            "mine": failing_accountant(error=unknown_event),
            "rdp": RdpAccountant,
        }
    )
    assert price_quote.accountants == (
        AccountantPrice(accountant="auto", epsilon=price_quote.epsilon, won_by="exact"),
        AccountantPrice(
            accountant="pld", reason="needs the package dp_accounting, which is not installed"
        ),
        AccountantPrice(accountant="mine", reason="event=X: expected another"),
        replace(price_quote.accountants[3], accountant="rdp", won_by=None),
    )
    assert price_quote.epsilon < price_quote.accountants[3].epsilon
    text = page_text(price_quote=price_quote)
    assert "needs the package dp_accounting" in text
    assert "side by side, at delta = 1e-6 less 6e-7 for failures: each is a bound" in text


@pytest.mark.slow
def test_page_shows_solved_values_and_passing_gaps() -> None:
    """The page of a quote for a target epsilon of 8 marks the values that were solved for.

    The page shows the unit of privacy, the gaps of vote counts that pass the stability test with probabilities 1/2 and
    0.95, and the part of delta that failures take.
    """
    price_quote = quote_stable_top_k(budget=Budget(delta=1e-6, epsilon=8.0))
    text = page_text(price_quote=price_quote)
    assert set(price_quote.solved_for) == {"selection_scale", "test_std"}
    assert text.count("<- solved for") == 2
    # The price is 7.999…, and is rounded up.
    assert "epsilon <= 8.00 at" in text.splitlines()[0]
    assert "one private record changes" in text
    gaps = price_quote.gaps
    assert f"{gaps.gap_at_50} votes with probability 1/2, {gaps.gap_at_95} votes with 0.95" in text
    assert f"{gaps.lone_gap_at_50} votes with probability 1/2, if all other gaps are 0" in text
    assert "600 x 1e-9 = 6e-7; 4e-7 of delta is left" in text


@pytest.mark.slow
def test_any_stability_test_can_be_certified() -> None:
    """`certify_stability_test` makes a table of the Gaussian test of a release, at the release's best Renyi order.

    The release with this table has the same epsilon. A test that is a table already is returned unchanged. An
    aggregator without a stability test is refused.
    """
    release = priced_release()
    table = certify_stability_test(release, budget=BUDGET)
    assert table.test == GUMBEL.stability_test(num_teachers=800)
    assert table.order == RdpAccountant().compose(release.event).best_order(target_delta=1e-6)
    release_with_table = priced_release(
        aggregator=StableTopK(selection_scale=38.985, test="table", table=table)
    )
    assert certify_stability_test(release_with_table, budget=BUDGET) == table
    price_quote = quote_release(release_with_table, budget=BUDGET)
    assert price_quote.epsilon == release.epsilon
    assert price_quote.aggregator["table_sha256"] == table.digest
    with refused_parameter("aggregator", value="GaussianVotes"):
        certify_stability_test(
            priced_release(aggregator=GaussianVotes(noise_std=50.0)), budget=BUDGET
        )


# The counts of 400 teachers for 300 queries: all of them vote for the first of three labels.
COUNTS_OF_CLEAR_QUERIES = np.tile([400, 0, 0], (300, 1))


@pytest.mark.slow
def test_session_of_clear_votes_has_a_break_even() -> None:
    """From some number of clear queries on, between 20 and 300, a session costs less than a charge for every query.

    A session charges only queries that are hits; it is expected to answer all 300 clear queries with hardly a hit. A
    search up to half of this number returns None.
    """
    aggregator = BoundaryMax(selection_scale=20.0, target_hits=1)
    hit_plan = plan_hits(
        aggregator, votes=COUNTS_OF_CLEAR_QUERIES, num_teachers=400, target_delta=1e-6
    )
    assert hit_plan.expected_asked == 300
    assert hit_plan.expected_hits < 1e-5
    assert hit_plan.break_even_queries is not None
    assert 20 < hit_plan.break_even_queries < 300
    shorter_search = plan_hits(
        aggregator,
        votes=COUNTS_OF_CLEAR_QUERIES,
        num_teachers=400,
        target_delta=1e-6,
        max_queries=hit_plan.break_even_queries // 2,
    )
    assert shorter_search.break_even_queries is None


@pytest.mark.slow
def test_hits_depend_on_the_prior() -> None:
    """Queries that contradict their prior, a guess of their labels, are expected to be hits: 100 of 300 queries here.

    The priors of the last hundred queries are wrong, so a session of 50 hits is expected to end at query 250. A prior
    of a wrong shape is refused.
    """
    aggregator = NotPriorTopK(
        prior_scale=10.0,
        selection_scale=30.0,
        table_order=4.0,
        table_budget=0.01,
        first_queries=100,
        target_hits=50,
    )
    prior_labels = np.tile([True, False, False], (300, 1))
    prior_labels[200:] = False
    max_break_even_queries = 4
    hit_plan = plan_hits(
        aggregator,
        votes=COUNTS_OF_CLEAR_QUERIES,
        num_teachers=400,
        target_delta=1e-6,
        prior=prior_labels,
        max_queries=max_break_even_queries,
    )
    assert hit_plan.expected_hits == pytest.approx(100)
    assert hit_plan.expected_asked == 250
    with refused_parameter("prior.shape", value=(2, 3), rule_words="(300"):
        plan_hits(
            aggregator,
            votes=COUNTS_OF_CLEAR_QUERIES,
            num_teachers=400,
            target_delta=1e-6,
            prior=prior_labels[:2],
        )


@pytest.mark.slow
def test_a_notebook_shows_price_and_terms_of_a_quote() -> None:
    """The HTML of a quote has its aggregator, epsilon, delta, adjacency and unit of privacy.

    Doubts are shown as escaped text. Solved values are shown too, and the epsilon by the formula of the mechanism's
    paper, which need not be a guarantee.
    """
    price_quote = quote_release(priced_release(), budget=BUDGET)
    html = price_quote._repr_html_()
    for text in (
        "Quote of StableTopK",
        "delta",
        "1e-6",
        "replace_one",
        "one teacher, with all its records",
    ):
        assert text in html
    assert format_epsilon(price_quote.epsilon) in html
    fuller_price_quote = replace(
        price_quote, doubts=("useless <b>",), solved_for={"noise_std": 40.0}, paper_epsilon=3.6
    )
    fuller_html = fuller_price_quote._repr_html_()
    assert "useless &lt;b&gt;" in fuller_html
    assert "the paper, no guarantee</th><td>3.60" in fuller_html
    assert "solved for: noise_std</th><td>40.0" in fuller_html
