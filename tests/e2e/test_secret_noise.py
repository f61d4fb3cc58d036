"""Unseeded runs killed between charge and release: the same noise, charged once; with the secret gone, one line."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting import Ledger
from pate.aggregators import CenteredVotes
from pate.pipeline import train
from pate.run.plan import Plan
from pate.validation import InvalidValue
from tests.e2e.small_run import SilentMonitor, small_plan

KILLED = """
import os, signal, sys
import pate.aggregators.release
from pate.pipeline import train
from tests.e2e.small_run import SilentMonitor
from tests.e2e.test_secret_noise import plan_of
pate.aggregators.release.write_arrays = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
train(plan_of(sys.argv[1]), sys.argv[2], SilentMonitor())
"""
AGGREGATORS: dict[str, dict[str, Any]] = {
    "stable_top_k": {},
    "centered_votes": {"aggregator": CenteredVotes(noise_multiplier=0.5)},
}


def plan_of(name: str) -> Plan:
    return small_plan(seed=None, **AGGREGATORS[name])


class Killed:
    """A run that met `kill -9` with its release charged and drawn, but not on disk; copies of it can go on."""

    def __init__(self, name: str, folder: Path) -> None:
        self.plan, self.folder, self.memory = plan_of(name), folder / "run", folder / "memory"
        self.memory.mkdir()
        command = [sys.executable, "-c", KILLED, name, str(self.folder)]
        environment = {**os.environ, "PATE_SECRET_DIR": str(self.memory)}
        assert subprocess.run(command, timeout=120, check=False, env=environment).returncode == -signal.SIGKILL
        assert not (self.folder / "release" / "release.npz").exists()
        self.place = Path((self.folder / "noise.secret").read_text().strip())
        self.paid = charges(self.folder)
        assert self.paid > 0

    def copied(self, folder: Path, secret: str) -> Path:
        """A copy whose noise.secret holds that text."""
        shutil.copytree(self.folder, folder)
        (folder / "noise.secret").write_text(secret, encoding="utf-8")
        return folder

    def copied_with_memory(self, folder: Path) -> Path:
        """A copy with a copy of what lies in memory."""
        place = folder.with_name(f"pate-{folder.name}") / "noise.secret"
        shutil.copytree(self.place.parent, place.parent)
        return self.copied(folder, f"{place}\n")

    def finish(self, folder: Path) -> None:
        train(self.plan, folder, SilentMonitor())


@pytest.fixture(scope="module", params=AGGREGATORS)
def killed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Killed:
    return Killed(request.param, tmp_path_factory.mktemp("killed"))


def charges(folder: Path) -> int:
    return len(Ledger.stored(folder / "ledger.jsonl").entries)


def released(folder: Path) -> dict[str, bytes]:
    with np.load(folder / "release" / "release.npz") as release:
        return {name: array.tobytes() for name, array in release.items()}


def test_a_killed_run_draws_the_same_noise_again_and_pays_once(killed: Killed, tmp_path: Path) -> None:
    beside = killed.copied(tmp_path / "beside", killed.place.read_text())
    folders = [killed.copied_with_memory(tmp_path / name) for name in ("one", "twin")] + [beside]
    for folder in folders:
        killed.finish(folder)
        assert charges(folder) == killed.paid
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beside", "one", "twin"], "no secret is left in memory"
    assert not list(tmp_path.rglob("noise.secret"))
    assert released(folders[0]) == released(folders[1]) == released(folders[2])


def test_a_secret_that_a_restart_erased_is_missed_aloud_and_new_noise_is_asked_for(
    killed: Killed, tmp_path: Path
) -> None:
    place = tmp_path / "pate-gone" / "noise.secret"
    folder = killed.copied(tmp_path / "run", f"{place}\n")
    before = (folder / "ledger.jsonl").read_bytes()
    rule = r"expected what .*noise\.secret names, .* restart.* remove .*noise\.secret and run with redraw=true for new"
    with pytest.raises(InvalidValue, match=rf"^secret={re.escape(str(place))}: {rule}"):
        killed.finish(folder)
    assert (folder / "ledger.jsonl").read_bytes() == before
    assert not (folder / "release" / "release.npz").exists()
    (folder / "noise.secret").unlink()
    with pytest.raises(InvalidValue, match=r"^release=.*its noise is gone"):
        killed.finish(folder)
    assert (folder / "ledger.jsonl").read_bytes() == before


def test_a_weak_secret_is_refused_before_anything_is_drawn(killed: Killed, tmp_path: Path) -> None:
    for number, text in enumerate(["0", "00", "1_0", "\u0663", "", "0" * 64]):
        folder = killed.copied(tmp_path / str(number), text)
        before = (folder / "ledger.jsonl").read_bytes()
        with pytest.raises(
            InvalidValue, match=r"^secret=[^\n]*noise\.secret: expected 64 digits 0-9 and a-f and a line"
        ):
            killed.finish(folder)
        assert (folder / "ledger.jsonl").read_bytes() == before
        assert not (folder / "release" / "release.npz").exists()
