"""`data_dependent=true` reports to the owner what a release costs on its own votes, and publishes none of that."""

import json
from pathlib import Path

import numpy as np
import pytest

from pate.aggregators import GaussianVotes
from pate.auditing.aggregator_cost import epsilon_on
from pate.votes import VoteShape, VoteStore
from tests.e2e.commands import SMALL, Arguments, succeeded

NOISE_STD = 2.0
GAUSSIAN = ("aggregator=gaussian_votes", f"aggregator.noise_std={NOISE_STD}", "noise=given")


def run_folder(parent: Path, arguments: Arguments) -> Path:
    """Makes a small seeded run with these settings, and returns its folder `run` in `parent`."""
    folder = parent / "run"
    succeeded("train", arguments=[*SMALL, "seed=1", *arguments, f"output_dir={folder}"])
    return folder


def published_files(folder: Path) -> dict[str, bytes]:
    """Returns the content of each file of `release/`, by its relative path."""
    release = folder / "release"
    files = (path for path in sorted(release.rglob("*")) if path.is_file())
    return {str(path.relative_to(release)): path.read_bytes() for path in files}


def test_the_report_has_the_cost_on_its_votes_and_the_release_does_not(tmp_path: Path) -> None:
    """With `data_dependent=true`, report.json has the epsilon that depends on the votes of the run.

    The published files have the same bytes as without this setting.
    """
    shown = run_folder(parent=tmp_path / "shown", arguments=[*GAUSSIAN, "data_dependent=true"])
    usual = run_folder(parent=tmp_path / "usual", arguments=GAUSSIAN)
    assert json.loads((usual / "report.json").read_text())["data_dependent"] is None
    cost = json.loads((shown / "report.json").read_text())["data_dependent"]
    votes = VoteStore.open(shown / "votes.npz", num_teachers=8).histogram()
    shape = VoteShape(num_queries=20, num_labels=votes.shape[1], num_teachers=8)
    expected = epsilon_on(
        GaussianVotes(noise_std=NOISE_STD),
        vote_counts=votes,
        vote_shape=shape,
        target_delta=cost["delta"],
    )
    assert cost["value"] == pytest.approx(expected.value)
    assert published_files(shown) == published_files(usual)


def test_an_aggregator_without_a_known_cost_is_named_in_the_report(tmp_path: Path) -> None:
    """The report of a run with `peeling` names its class as one without a known data-dependent cost."""
    folder = run_folder(
        tmp_path, arguments=["aggregator=peeling", "target_epsilon=50", "data_dependent=true"]
    )
    report = json.loads((folder / "report.json").read_text())
    assert report["data_dependent"] is None
    assert "FixedTopK" in report["left_out"]["data_dependent"]
    assert np.isfinite(report["privacy"]["epsilon"])
