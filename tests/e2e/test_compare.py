"""`pate-compare` as a user types it: killed and continued, with methods other than PATE, and with wrong settings."""

import sys
import time
from pathlib import Path

import pytest

from benchmarks.campaign import warm
from pate.comparison import read_runs
from pate.extras import how_to_install
from tests.e2e.commands import FEW, refused_command, succeeded

SMALL = [
    "teacher.num_teachers=8",
    "num_queries=20",
    "target_delta=1e-5",
    "num_workers=1",
    "accountant=rdp",
]
ASKED = [
    "aggregators=[gaussian_votes,peeling@10]",
    "epsilons=[8,300]",
    "seeds=[3]",
    "allow_useless=true",
    *FEW,
    *SMALL,
]
ALONE = ["aggregators=[]", "target_delta=1e-5", "num_workers=1", "seeds=1"]


def test_a_killed_comparison_continues_with_the_runs_it_has(tmp_path: Path) -> None:
    """A comparison that is killed after its first runs keeps their files when it is called again, and writes all rows.

    The page and the picture are written, too.
    """
    folder = tmp_path / "comparison"
    warm.warm_up()
    child = warm.command(module="compare", arguments=[*ASKED, f"output_dir={folder}"])
    while not list(folder.glob("runs/*.json")) and not child.ended():
        time.sleep(0.002)
    child.kill()
    child.wait()
    modification_times = {path: path.stat().st_mtime_ns for path in folder.glob("*/*.json")}
    assert modification_times
    done = succeeded("compare", arguments=[*ASKED, f"output_dir={folder}"])
    assert "No epsilon covers this comparison" in done.stdout
    runs = [item for item in read_runs(path=folder / "comparison.csv") if not item.is_baseline]
    assert {(item.aggregator, item.num_teachers) for item in runs} == {
        ("gaussian_votes", 8),
        ("peeling", 10),
    }
    assert [(item.epsilon, item.seed) for item in runs] == 2 * [(8.0, 3), (300.0, 3)]
    assert {path: path.stat().st_mtime_ns for path in modification_times} == modification_times
    assert all((folder / name).stat().st_size > 0 for name in ("frontier.html", "frontier.png"))


def test_alternatives_are_rows_without_any_aggregator(tmp_path: Path) -> None:
    """Without aggregators, a comparison of `dp_gd` with the model of all records has a row for each.

    The row of `dp_gd` has an epsilon and the lower score; the other has no epsilon.
    """
    data_settings = [
        "data=digits_grid",
        "data.num_private=600",
        "data.num_public=100",
        "data.num_test=200",
        "num_queries=50",
    ]
    settings = [
        *ALONE,
        *data_settings,
        "methods=[all_records]",
        "method=dp_gd",
        "epsilons=[20]",
        "method.clip_factor=0.6",
    ]
    succeeded(
        "compare",
        arguments=[
            *settings,
            "all_records=false",
            "allow_useless=true",
            f"output_dir={tmp_path / 'comparison'}",
        ],
    )
    rows = {
        item.aggregator: item for item in read_runs(path=tmp_path / "comparison" / "comparison.csv")
    }
    private = rows["dp_gd"]
    ceiling = rows["all_records"]
    assert (private.epsilon, private.adjacency, private.student) == (20.0, "replace_one", "linear")
    assert ceiling.epsilon is None
    assert private.mean_average_precision is not None and ceiling.mean_average_precision is not None
    assert 0.4 < private.mean_average_precision < ceiling.mean_average_precision


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (["methods=[dp_gdd]"], "methods=dp_gdd: expected one of"),
        (["method=dp_gdd"], "method=dp_gdd: expected one of"),
        (
            ["methods=[dp_gd]", "method=dp_gd"],
            "method=dp_gd: expected a method that methods= does not list as well",
        ),
        (["methods=[]"], "aggregators=[]: expected a list of names"),
        (
            ["method=dp_gd", "method.clipfactor=1"],
            "method.clipfactor: expected a key of the configuration",
        ),
        (["method=dp_sgd", "method.network=rnn"], "network=rnn: expected one of linear, mlp, cnn"),
        (
            ["methods=[dp_gd]", "adjacency=add_remove"],
            "adjacency=add_remove: expected replace_one for dp_gd",
        ),
    ],
)
def test_mistakes_of_a_comparison_are_refused_in_one_line(
    settings: list[str], line: str, tmp_path: Path
) -> None:
    """`pate-compare` refuses impossible settings in one line, and makes no folder."""
    said = refused_command(
        "compare", arguments=[*ALONE, *settings, f"output_dir={tmp_path / 'none'}"]
    )
    assert line in said and "\n" not in said
    assert not (tmp_path / "none").exists()


def test_without_opacus_a_line_names_the_extra_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the package opacus is missing, `method=dp_sgd` is refused with the command that installs it."""
    monkeypatch.setitem(sys.modules, "opacus", None)
    for setting in ("method=dp_sgd", "methods=[dp_sgd]"):
        line = refused_command(
            "compare", arguments=[*ALONE, setting, f"output_dir={tmp_path / 'none'}"]
        )
        assert (
            line == f"method=dp_sgd: expected the package opacus: {how_to_install(extra='opacus')}"
        )
