"""Every file of a run's folder, damaged in every way: the run goes on to the same release, or says so in one line."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

from pate.accounting import Ledger
from pate.pipeline import train
from pate.run.plan import Plan
from pate.student import LinearStudent
from pate.validation import InvalidValue
from tests.e2e.damage import WAYS, damaged_copy, files_of, flipped, flipped_once
from tests.e2e.small_run import SilentMonitor, small_plan, stopped

STATES = ("casting", "releasing", "writing", None)
OTHERS = ("training.secret", "teachers.key")  # of the randomness's own tests
_APART = 5  # of so many ways one is tried on a file in a state
SHOWN_AGAIN = ("report.json", "run.json", "run.lock")  # all that a finished run reads of what is its own here


def plan() -> Plan:
    return small_plan(num_teachers=3, num_queries=12, student=LinearStudent(penalties=(1.0,)), seed=None)


@pytest.fixture(scope="module", params=STATES, ids=str)
def state(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state") / "run"
    if request.param is None:
        train(plan(), folder, SilentMonitor())
    else:
        stopped(plan(), folder, request.param)
    return folder


def damaged(folder: Path, copy: Path) -> Iterator[tuple[str, Path]]:
    """Each way once for each file, turn by turn, so that all states together try all of them."""
    names = [name for name in files_of(folder) if name.name not in OTHERS]
    turn = len(names)
    for index, name in enumerate(names):
        for way in WAYS[(index + turn) % _APART :: _APART]:
            if name.suffix == ".lock" and way in (flipped, flipped_once):
                continue  # it is empty
            shutil.rmtree(copy, ignore_errors=True)
            damaged_copy(folder, copy, name, way)
            yield f"{name}, {way.__name__}", name


@pytest.mark.slow
def test_damage_is_one_line_or_mended(state: Path, tmp_path: Path) -> None:
    finished = (state / "report.json").exists()
    release = state / "release" / "release.npz"
    drawn = release.read_bytes() if release.exists() else None
    tried, refused = 0, 0
    for case, name in damaged(state, tmp_path / "copy"):
        if finished and name.name not in SHOWN_AGAIN:
            continue  # read by whoever checks a finished run as a whole
        if drawn is not None and name.name == "release.npz":
            continue  # below
        tried += 1
        try:
            train(plan(), tmp_path / "copy", SilentMonitor())
        except (InvalidValue, OSError) as error:
            refused += 1
            said = str(error)
            assert "\n" not in said, case
            assert len(said) < 600, case
            assert name.name in said or (name.name == "run.id" and "ledger.db" in said), f"{case}: {said}"
            assert "pickle" not in said, case
            continue
        if drawn is not None:
            assert (tmp_path / "copy" / "release" / "release.npz").read_bytes() == drawn, case
        assert len(Ledger.stored(tmp_path / "copy" / "ledger.db").entries) == 1, case
    assert tried >= 5
    assert refused >= 3


@pytest.mark.slow
def test_a_damaged_release_is_refused_and_one_that_is_gone_written_again(tmp_path: Path) -> None:
    """From the ledger: nothing is drawn or charged."""
    stopped(plan(), tmp_path / "run", "training the student")
    charged = (tmp_path / "run" / "ledger.db").read_bytes()
    name = Path("release/release.npz")
    for way in WAYS:
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        damaged_copy(tmp_path / "run", copy, name, way)
        if way.__name__ == "gone":
            train(plan(), copy, SilentMonitor())
            assert (copy / name).read_bytes() == (tmp_path / "run" / name).read_bytes()
        else:
            with pytest.raises(InvalidValue, match=r"release\.npz.*; (restore it from a backup|remove)"):
                train(plan(), copy, SilentMonitor())
        assert (copy / "ledger.db").read_bytes() == charged


def test_the_votes_of_another_run_are_refused(tmp_path: Path) -> None:
    stopped(plan(), tmp_path, "releasing")
    with np.load(tmp_path / "votes.npz") as votes:
        packed, num_labels = votes["packed"], votes["num_labels"]
    np.savez(tmp_path / "votes.npz", packed=packed[:, :5], num_labels=num_labels)
    with pytest.raises(InvalidValue, match=r"^num_queries=5: expected 12 in \S+votes\.npz; remove it"):
        train(plan(), tmp_path, SilentMonitor())


def test_a_folder_that_vanishes_is_not_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.utils.tensorboard.SummaryWriter", MagicMock())  # its thread would fail in a later test

    class Vanishing(SilentMonitor):
        def stage(self, name: str, total: int | None = None):
            if name == "casting votes":
                (tmp_path / "run").rename(tmp_path / "elsewhere")
            return super().stage(name, total)

    with pytest.raises((InvalidValue, OSError), match="run"):
        train(plan(), tmp_path / "run", Vanishing())
    assert not (tmp_path / "run").exists()
