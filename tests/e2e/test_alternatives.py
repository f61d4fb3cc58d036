"""pate-compare with what would be taken in place of PATE, as a user types it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pate.comparison import read_runs
from tests.e2e.commands import call, run

ASKED = ["aggregators=[]", "target_delta=1e-5", "num_workers=1", "seeds=1"]


def test_alternatives_are_rows_without_any_aggregator(tmp_path: Path) -> None:
    folder = tmp_path / "comparison"
    asked = [*ASKED, "methods=[all_records]", "method=dp_gd", "epsilons=[1]", "method.clip_factor=0.6"]
    done = run("compare", *asked, "all_records=false", f"output_dir={folder}")
    assert done.returncode == 0, done.stderr
    rows = {item.aggregator: item for item in read_runs(folder / "comparison.csv")}
    private, ceiling = rows["dp_gd"], rows["all_records"]
    assert (private.epsilon, private.adjacency, private.student) == (1.0, "replace_one", "linear")
    assert ceiling.epsilon is None
    assert private.mean_average_precision is not None and ceiling.mean_average_precision is not None
    assert 0.5 < private.mean_average_precision < ceiling.mean_average_precision
    assert (folder / "frontier.html").stat().st_size > 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["methods=[dp_gdd]"], "methods=dp_gdd: expected one of"),
        (["method=dp_gdd"], "method=dp_gdd: expected one of"),
        (["methods=[dp_gd]", "method=dp_gd"], "method=dp_gd: expected a method that methods= does not list as well"),
        (["methods=[]"], "aggregators=[]: expected a list of names"),
        (["method=dp_gd", "method.clipfactor=1"], "method.clipfactor: expected a key of the configuration"),
        (["method=dp_sgd", "method.network=rnn"], "network=rnn: expected one of linear, mlp, cnn"),
        (["methods=[dp_gd]", "adjacency=add_remove"], "adjacency=add_remove: expected replace_one for dp_gd"),
    ],
)
def test_mistakes_are_one_line(words: list[str], line: str, tmp_path: Path) -> None:
    done = call("compare", *ASKED, *words, f"output_dir={tmp_path / 'none'}")
    assert done.returncode == 2, done.stderr
    assert line in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.parametrize("words", [["method=dp_sgd"], ["methods=[dp_sgd]"]])
def test_without_opacus_a_line_says_what_to_install(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opacus", None)
    done = call("compare", *ASKED, *words, f"output_dir={tmp_path / 'none'}")
    assert done.returncode == 2
    assert done.stderr.strip() == "method=dp_sgd: expected Opacus to be installed (pip install 'pate[opacus]')"
