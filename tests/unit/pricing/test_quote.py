"""Quotes without Hydra: what is solved for, what others say, and the page."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pate.accounting import Accountant, RdpAccountant
from pate.aggregators import GaussianVotes, StableTopK
from pate.cli.quote_page import print_quote
from pate.mechanisms import CertifiedTable
from pate.pricing.quote import Price, Quote, Request
from pate.validation import InvalidValue

GUMBEL = StableTopK(selection_scale=38.985, test_std=60.0)
SIZE: dict[str, Any] = {"target_delta": 1e-6, "num_queries": 600, "num_labels": 40, "num_teachers": 800}


def request(**fields: Any) -> Request:
    given: dict[str, Any] = {"aggregator": GUMBEL, "accountant": RdpAccountant, "others": {}} | SIZE
    return Request(**(given | fields))


def failing(error: Exception) -> Callable[[], Accountant]:
    def make() -> Accountant:
        raise error

    return make


def page(quote: Quote) -> str:
    console = Console(file=io.StringIO(), width=100)
    print_quote(quote, console)
    return str(console.file.getvalue())


def test_others_that_have_no_price_say_why() -> None:
    missing = ModuleNotFoundError("No module named 'dp_accounting'", name="dp_accounting")
    others = {"pld": failing(missing), "mine": failing(InvalidValue("event=X: expected another")), "rdp": RdpAccountant}
    quote = request(others=others).quote()
    assert quote.accountants == (
        Price("rdp", quote.epsilon, quote.num_orders, quote.best_order),
        Price("pld", reason="needs the package dp_accounting, which is not installed"),
        Price("mine", reason="event=X: expected another"),
    )
    text = page(quote)
    assert "needs the package dp_accounting" in text
    assert "side by side, at delta = 1e-6 less 6e-7 for failures: each is a bound" in text


def test_the_chosen_accountant_must_have_a_price() -> None:
    with pytest.raises(InvalidValue, match="event=X: expected another"):
        request(accountant=failing(InvalidValue("event=X: expected another"))).quote()


def test_the_page_says_what_was_solved_for_and_what_passes() -> None:
    quote = request(target_epsilon=8.0).quote()
    text = page(quote)
    assert set(quote.solved_for) == {"selection_scale", "test_std"}
    assert text.count("<- solved for") == 2
    assert "epsilon <= 7.99" in text.splitlines()[0]
    assert "one private record changes" in text
    assert f"{quote.gap_at_50} votes with probability 1/2, {quote.gap_at_95} votes with 0.95" in text
    assert f"{quote.lone_gap_at_50} votes with probability 1/2, all other gaps being 0" in text
    assert "600 x 1e-9 = 6e-7; 4e-7 of delta is left" in text


def test_a_test_that_is_too_strict_is_said_so() -> None:
    text = page(request(num_teachers=200).quote())
    assert "no gap of 200 teachers passes with probability 1/2: nearly every query is refused" in text


def test_an_infinite_epsilon_is_no_guarantee() -> None:
    quote = replace(request(aggregator=GaussianVotes(noise_std=50.0)).quote(), epsilon=math.inf)
    assert page(quote).startswith("no guarantee: epsilon is infinite at delta = 1e-6, replace_one")
    assert "what passes" not in page(quote)
    assert json.loads(json.dumps(quote.to_json(), allow_nan=False))["epsilon"] == "inf"


def test_printed_epsilon_is_rounded_up() -> None:
    quote = replace(request().quote(), epsilon=3.00001)
    assert page(quote).startswith("epsilon <= 3.0001 at delta")


def test_any_stability_test_can_be_written_as_a_table(tmp_path: Path) -> None:
    """A Gaussian test is certified at the order that the release is best at."""
    path = str(tmp_path / "table.json")
    quote = request(write_table=path).quote()
    table = CertifiedTable.load(path)
    assert table.test == GUMBEL.stability_test(num_teachers=800)
    assert table.order == quote.best_order
    assert quote.table == {"path": path, "order": table.order, "rdp": table.rdp, "sha256": table.digest}
    assert f"certified to cost at most {table.rdp} a test" in page(quote)
    ready = StableTopK(selection_scale=38.985, test="table", table=table)
    again = request(aggregator=ready, write_table=path).quote()
    assert again.epsilon == quote.epsilon
    assert again.aggregator["table_sha256"] == table.digest


def test_more_queries_than_a_delta_can_keep_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r"target_delta=1e-12: expected at least 2\.66e-12, below which draws"):
        request(aggregator=GaussianVotes(noise_std=50.0), target_delta=1e-12).quote()
