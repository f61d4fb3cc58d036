"""pate-audit on a composed configuration: what it prints, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.cli.audit import audit
from pate.validation import InvalidValue

VOTES = np.random.default_rng(0).random((50, 20, 6)) < 0.3


@pytest.fixture
def run(composed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def audited(votes: Any, *overrides: str) -> str:
        np.save(tmp_path / "votes.npy", votes)
        audit(composed(f"votes={tmp_path / 'votes.npy'}", *overrides, app="audit"))
        return capsys.readouterr().out

    return audited


def test_prices_and_claims_of_a_vote_file(run: Callable[..., str]) -> None:
    arguments = ["aggregator=clipped_votes", "vote_clip=2", "noise_std=10", "accountant=rdp"]
    answer = json.loads(run(VOTES, *arguments, "format=json").splitlines()[-1])
    assert {"epsilon", "delta", "adjacency", "accountant", "paper_epsilon"} <= answer.keys()
    found = {each["aggregator"]: each for each in answer["findings"]}
    assert next(iter(found)) == answer["aggregator"] == "clipped_votes"
    assert set(found) == {"clipped_votes", "gaussian_votes", "powerset_gnmax"}  # of what was given
    assert answer["epsilon"] == found["clipped_votes"]["epsilon"]["replace_one"]
    removed = json.loads(run(VOTES, *arguments, "format=json", "adjacency=add_remove"))
    assert removed["epsilon"] == found["clipped_votes"]["epsilon"]["add_remove"] < answer["epsilon"]
    page = run(VOTES, *arguments)
    assert "teacher_votes: 50 teachers, 20 queries, 6 labels" in page
    assert "(given)" in page and "(assumed)" not in page
    assert "priced once these are given: screening_std=, threshold_share=" in page
    assert answer["assumed"] == {"screening_std": 50.0, "threshold_share": 0.6}
    assert page.index("clipped_votes") < page.index("gaussian_votes")


def test_no_noise_is_infinite_and_a_histogram_needs_the_number_of_teachers(run: Callable[..., str]) -> None:
    votes = np.array([[7, 2, 1], [4, 3, 3]])
    answer = json.loads(run(votes, "noise_std=0", "format=json"))
    assert (answer["layout"], answer["epsilon"], answer["paper_epsilon"]) == ("classes", "inf", 0.0)
    assert "infinite" in run(votes, "noise_std=0")
    with pytest.raises(InvalidValue, match="num_teachers=None: expected a number"):
        run(VOTES.sum(axis=0))
    assert "histogram: 50 teachers" in run(VOTES.sum(axis=0), "num_teachers=50", "accountant=rdp")


def test_mistakes_are_said_in_one_line(run: Callable[..., str], composed: Any) -> None:
    for override, rule in (
        ("format=xml", "expected one of text, json"),
        ("target_delta=0.0", r"expected a number in \(0, 1\)"),
        ("adjacency=sideways", "expected one of replace_one, add_remove"),
        ("layout=table", "expected one of auto"),
        ("vote_clip=0", "expected a whole number >= 1"),
        ("aggregator=gnmax", "expected one that releases several labels"),
    ):
        with pytest.raises(InvalidValue, match=f"^{override}: {rule}"):
            run(VOTES, override)
    with pytest.raises(InvalidValue, match=r"votes=\?\?\?: expected the path of an \.npy, \.npz or \.csv file"):
        audit(composed(app="audit"))
