"""pate-audit as a user types it: the object on the last line, mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.e2e.commands import run


def test_the_last_line_is_one_json_object(tmp_path: Path) -> None:
    votes = np.random.default_rng(0).random((50, 20, 6)) < 0.3
    np.save(tmp_path / "votes.npy", votes)
    arguments = ["votes=votes.npy", "aggregator=clipped_votes", "vote_clip=2", "noise_std=10", "format=json"]
    done = run("audit", *arguments, cwd=tmp_path)
    answer = json.loads(done.stdout.splitlines()[-1])
    assert {"epsilon", "delta", "adjacency", "accountant", "paper_epsilon"} <= set(answer)
    assert (answer["aggregator"], answer["adjacency"], answer["num_teachers"]) == ("clipped_votes", "replace_one", 50)


def test_a_mistake_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = run("audit", "votes=none.npy", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["votes=none.npy: expected an existing .npy or .npz file"]
