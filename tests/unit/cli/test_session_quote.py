"""A quote of a session of charged calls: plain composition beside it, and a plan on votes that may be looked at."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from pate.accounting import RdpAccountant
from pate.aggregators import BoundaryTopK, GaussianVotes, NotPriorTopK
from pate.cli.quote_page import print_quote
from pate.pricing.quote import Quote, Request
from pate.validation import InvalidValue

BOUNDARY = BoundaryTopK(selection_scale=20.0, test_std=5.0, target_hits=5, failure_prob=1e-10)
NOT_PRIOR = NotPriorTopK(
    prior_scale=30.0, selection_scale=38.0, table_order=4.7, table_budget=0.0064, target_hits=50, failure_prob=1e-10
)


def request(aggregator: Any = BOUNDARY, **changes: Any) -> Request:
    values = {"target_delta": 1e-6, "num_queries": 2_000, "num_labels": 6, "num_teachers": 400}
    return Request(aggregator=aggregator, accountant=RdpAccountant, others={}, **(values | changes))


def page(quote: Quote) -> str:
    console = Console(file=io.StringIO(), width=120)
    print_quote(quote, console)
    return console.file.getvalue()


@pytest.fixture
def votes(tmp_path: Path) -> str:
    """300 clear queries of one label, and 100 in which nothing is clear."""
    clear, unclear = np.tile([390, 9, 4, 0, 1, 2], (300, 1)), np.tile([210, 200, 190, 180, 170, 160], (100, 1))
    np.save(tmp_path / "votes.npy", np.concatenate([clear, unclear]))
    return str(tmp_path / "votes.npy")


def test_plain_composition_stands_beside_a_session_and_only_there() -> None:
    quote = request().quote()
    plain = RdpAccountant().compose(BOUNDARY.plain_event(num_queries=2_000, num_labels=6, num_teachers=400))
    assert quote.plain_epsilon == plain.get_epsilon(1e-6) > quote.epsilon
    assert "the session costs less" in page(quote)
    assert "votes=FILE" in page(quote)
    few = request(num_queries=10).quote()
    assert few.plain_epsilon is not None and few.plain_epsilon < few.epsilon
    assert "plain composition costs less" in page(few)
    assert request(GaussianVotes(noise_std=100.0)).quote().plain_epsilon is None


def test_failures_that_use_up_delta_leave_plain_composition_no_price() -> None:
    assert request(num_queries=5_000).quote().plain_epsilon != float("inf")
    with pytest.raises(InvalidValue, match="failure_prob: 2e-06 over 20000 calls uses up session_delta=1e-06"):
        request(num_queries=20_000).quote()


def test_votes_of_a_file_say_how_many_hits_to_expect(votes: str) -> None:
    quote = request(votes=votes).quote()
    assert quote.hits is not None
    assert quote.hits.expected_hits == pytest.approx(
        BOUNDARY.hit_probabilities(np.load(votes), num_teachers=400).sum(), rel=1e-12
    )
    text = page(quote)
    assert f"{quote.hits.expected_hits:.1f} expected" in text
    assert f"{quote.hits.expected_asked} queries until 5 hits" in text
    assert quote.to_json()["hits"]["expected_hits"] == quote.hits.expected_hits


def test_a_prior_of_a_file_decides_what_hits(votes: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "prior.npz", prior=np.load(votes) > 200)
    right = request(NOT_PRIOR, votes=votes, prior=str(tmp_path / "prior.npz")).quote().hits
    none = request(NOT_PRIOR, votes=votes).quote().hits
    assert right is not None and none is not None
    assert right.expected_hits < none.expected_hits


def test_what_is_refused(votes: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"votes=.*: expected none for GaussianVotes, which pays for every query"):
        request(GaussianVotes(noise_std=100.0), votes=votes).quote()
    with pytest.raises(InvalidValue, match="num_labels=7: expected 6, as in"):
        request(votes=votes, num_labels=7).quote()
    with pytest.raises(InvalidValue, match=r"prior=.*missing\.npy: expected an existing \.npy or \.npz file"):
        request(NOT_PRIOR, votes=votes, prior=str(tmp_path / "missing.npy")).quote()
    np.save(tmp_path / "numbers.npy", np.array([[0, 2]]))
    with pytest.raises(InvalidValue, match=r"prior=\[2\]: expected bits"):
        request(NOT_PRIOR, votes=votes, prior=str(tmp_path / "numbers.npy")).quote()
    np.save(tmp_path / "line.npy", np.array([True]))
    with pytest.raises(InvalidValue, match=r"prior.shape=\(1,\): expected \[num_queries, num_labels\]"):
        request(NOT_PRIOR, votes=votes, prior=str(tmp_path / "line.npy")).quote()
