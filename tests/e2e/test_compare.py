"""pate-compare as a user types it: a small comparison, killed and continued; mistakes in one line."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

from pate.comparison import read_runs
from tests.e2e.commands import call, command, run

SMALL = ["teacher.num_teachers=20", "num_queries=60", "target_delta=1e-5", "num_workers=1", "accountant=rdp"]
ASKED = ["aggregators=[gaussian_votes,peeling@30]", "epsilons=[8,300]", "seeds=[3]", "allow_useless=true", *SMALL]


def test_killed_comparison_continues_and_a_second_one_reuses_it(tmp_path: Path) -> None:
    folder = tmp_path / "comparison"
    process = subprocess.Popen(
        command("compare", *ASKED, f"output_dir={folder}"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not list(folder.glob("runs/*.json")) and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("*/*.json")}
    assert kept
    done = run("compare", *ASKED, f"output_dir={folder}")
    assert done.returncode == 0, done.stderr
    assert "gaussian_votes" in done.stdout
    assert "No epsilon covers this comparison" in done.stdout
    runs = read_runs(folder / "comparison.csv")
    assert {(item.aggregator, item.num_teachers) for item in runs if not item.is_baseline} == {
        ("gaussian_votes", 20),
        ("peeling", 30),
    }
    assert [(item.epsilon, item.seed) for item in runs if not item.is_baseline] == 2 * [(8.0, 3), (300.0, 3)]
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert all((folder / name).stat().st_size > 0 for name in ("frontier.html", "frontier.png"))


def test_mistake_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = run("compare", "aggregators=[gausian_votes]", f"output_dir={tmp_path / 'none'}")
    assert done.returncode == 2, done.stderr
    assert "did you mean gaussian_votes" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not (tmp_path / "none").exists()


def test_help_shows_examples_and_names() -> None:
    done = call("compare", "--help")
    assert done.returncode == 0
    assert "Examples" in done.stdout
    assert "stable_top_k_table" in done.stdout
    assert "do not publish its folder" in done.stdout
