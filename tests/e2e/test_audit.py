"""pate-audit as a user types it: the object on the last line, mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.e2e.commands import call, run


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


def test_noise_is_a_column_and_counts_may_be_a_table(tmp_path: Path) -> None:
    counts = np.random.default_rng(0).integers(0, 50, (20, 3))
    rows = [";".join(map(str, row)) for row in counts.tolist()]
    (tmp_path / "votes.csv").write_text("\n".join(["flu;cough;old", *rows]) + "\n")
    np.save(tmp_path / "votes.npy", counts)
    words = ("num_teachers=50", "noise_std=10")
    shown = [call("audit", f"votes={tmp_path / name}", *words).stdout for name in ("votes.csv", "votes.npy")]
    assert shown[0] == shown[1]
    assert "noise_std 10 (given)" in shown[0]
    assert "clipped_votes" not in shown[0]
    assumed = call("audit", f"votes={tmp_path / 'votes.csv'}", "num_teachers=50").stdout
    assert "noise_std 50 (assumed)" in assumed
    assert "is no bound for yours" in assumed
    (tmp_path / "votes.csv").write_text("\n".join([*rows, "1;secret;3"]))
    refused = call("audit", f"votes={tmp_path / 'votes.csv'}", *words)
    line = "expected a number in each cell, as many in each row, row 21 below the heading holds something else"
    assert (refused.returncode, refused.stderr) == (2, f"votes={tmp_path / 'votes.csv'}: {line}\n")
