"""A ledger, which adds up prices: the remedy for a run without room in it, and the texts on its cap and on people."""

from dataclasses import replace
from pathlib import Path

from pate.accounting import (
    Adjacency,
    ApproximateEvent,
    Budget,
    GaussianEvent,
    Ledger,
    RdpAccountant,
    SharedLedger,
)
from pate.aggregators import StableTopK
from pate.errors import Remedy
from pate.pricing import ReleaseShape, plan_release
from pate.run.account_words import shared_owner_lines, total_in_words
from pate.run.ledger_record import require_room
from tests.refusals import refused_parameter

SHAPE = ReleaseShape(num_queries=600, num_labels=4, num_teachers=60)
STABLE = StableTopK(selection_scale=10.0, test_std=10.0, selection_share=0.5)


def test_a_release_with_too_large_failure_probability_gets_a_remedy_that_works() -> None:
    """A second release whose failures would exceed delta is refused, and the remedy is a probability that has room."""
    budget = Budget(delta=1e-6, epsilon=2.0, accountant=RdpAccountant)
    ledger = Ledger(target_delta=1e-6, max_epsilon=12.0, accountant=RdpAccountant)
    priced_release = plan_release(STABLE, shape=SHAPE, budget=budget)
    require_room(ledger, priced_release=priced_release)
    ledger.charge(priced_release.event, adjacency=ledger.adjacency)
    with refused_parameter("failure_prob", value=1e-9, rule_words="failures of at most") as caught:
        require_room(ledger, priced_release=priced_release)
    # half of (1e-6 - 6e-7) / 2, for each of 600 queries
    assert caught.value.remedies == (
        Remedy(name="failure_prob", value=1.6e-10, owner="aggregator"),
    )
    rarely_failing_release = plan_release(
        replace(STABLE, failure_prob=1.6e-10), shape=SHAPE, budget=budget
    )
    require_room(ledger, priced_release=rarely_failing_release)
    ledger.charge(rarely_failing_release.event, adjacency=ledger.adjacency)


def test_the_printed_cap_is_not_below_the_cap(tmp_path: Path) -> None:
    """`total_in_words` writes the cap of a ledger, the largest epsilon that it allows, rounded up."""
    ledger = Ledger(tmp_path / "ledger.db", target_delta=1e-6, max_epsilon=7.123464)
    for key in ("a", "b"):
        ledger.charge(GaussianEvent(noise_multiplier=3.0), adjacency=ledger.adjacency, key=key)
    words = total_in_words(ledger, account_totals=ledger.statement())
    assert "; however prices were chosen, at most the cap 7.12347" in words


def test_people_of_two_accounts_may_have_an_infinite_total(tmp_path: Path) -> None:
    """If the failures of releases in two accounts use up delta, the line on their people has an infinite epsilon."""
    ledger_file = tmp_path / "ledger.db"
    shared_ledger = SharedLedger(ledger_file, adjacency=Adjacency.REPLACE_ONE, target_delta=1e-6)
    accounts = [shared_ledger.account(letter * 64) for letter in "ab"]
    event = ApproximateEvent(GaussianEvent(noise_multiplier=6.0), failure_prob=6e-7)
    people = {"group": {b"somebody"}}
    for account in accounts:
        account.register_owners(people, allow_shared=True)
        account.charge(event, adjacency=Adjacency.REPLACE_ONE)
    [line] = shared_owner_lines(
        ledger_file,
        shared_ledger=shared_ledger,
        account=accounts[1],
        release_event=event,
        draw_key="",
        owners_by_kind=people,
        delta=1e-6,
    )
    assert line.endswith("has paid epsilon inf with this release")
