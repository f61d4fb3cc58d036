"""pate-audit as a user types it: prices beside claims, mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.test_commands import run


def test_prices_and_claims_of_a_vote_file(tmp_path: Path) -> None:
    votes = np.random.default_rng(0).random((50, 20, 6)) < 0.3
    np.save(tmp_path / "votes.npy", votes)
    arguments = [f"votes={tmp_path / 'votes.npy'}", "aggregator=clipped_votes", "vote_clip=2", "noise_std=10"]
    answer = json.loads(run("audit", *arguments, "format=json").stdout.splitlines()[-1])
    assert {"epsilon", "delta", "adjacency", "accountant", "paper_epsilon"} <= set(answer)
    assert (answer["aggregator"], answer["adjacency"], answer["num_teachers"]) == ("clipped_votes", "replace_one", 50)
    found = {each["aggregator"]: each for each in answer["findings"]}
    assert set(found) == {"clipped_votes", "gaussian_votes", "confident_votes", "powerset_gnmax", "stable_top_k"}
    assert answer["epsilon"] == found["clipped_votes"]["epsilon"]["replace_one"]
    assert found["clipped_votes"]["epsilon"]["add_remove"] < answer["epsilon"]
    page = run("audit", *arguments).stdout
    assert "teacher_votes: 50 teachers, 20 queries, 6 labels" in page
    assert "not a bound" in " ".join(page.split())


def test_no_noise_is_infinite_in_json_too(tmp_path: Path) -> None:
    np.save(tmp_path / "votes.npy", np.array([[7, 2, 1], [4, 3, 3]]))
    answer = json.loads(
        run("audit", f"votes={tmp_path / 'votes.npy'}", "noise_std=0", "format=json").stdout.splitlines()[-1]
    )
    assert (answer["layout"], answer["epsilon"], answer["paper_epsilon"]) == ("classes", "inf", 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "votes=???: expected the path of an .npy or .npz file"),
        (["votes=none.npy"], "votes=none.npy: expected an existing .npy or .npz file"),
        (["votes=none.npy", "aggregator=clipped"], "aggregator=clipped: expected one of"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = run("audit", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert len(done.stderr.splitlines()) == 1
