"""A finished run is shown again only as it was left: every file that people go by has its digest in a manifest."""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from pate.pipeline import train
from pate.validation import InvalidValue
from tests.e2e.small_run import SilentMonitor, small_plan

FILES = (
    "ledger.db",
    "report.html",
    "report.json",
    "release/release.npz",
    "release/config.yaml",
    "release/privacy_card.md",
    "release/privacy.json",
    "release/manifest.json",
    "release/student/student.json",
)


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Iterator[Path]:
    yield Path(shutil.copytree(finished, tmp_path / "out"))


def test_the_public_manifest_has_the_digest_of_every_file_beside_it_and_of_no_other(finished: Path) -> None:
    release = finished / "release"
    listed = json.loads((release / "manifest.json").read_text())["sha256"]
    paths = [path for path in release.rglob("*") if path.is_file() and path.name != "manifest.json"]
    assert listed == {
        path.relative_to(release).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths
    }


def test_the_run_s_own_manifest_is_the_owner_s_and_has_ledger_report_and_release(finished: Path) -> None:
    path = finished / "manifest.json"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert set(FILES) <= json.loads(path.read_text())["sha256"].keys()


@pytest.mark.parametrize("name", FILES[1:])
@pytest.mark.parametrize("gone", [False, True])
def test_a_file_that_is_changed_or_gone_is_named(folder: Path, name: str, gone: bool) -> None:
    path = folder / name
    if gone and path.name == "report.json":
        path = folder / "report.html"
    if gone:
        path.unlink()
    else:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    with pytest.raises(InvalidValue, match=rf"^manifest=\S*{path.name}: expected [^\n]*restore it from a backup"):
        train(small_plan(), folder, SilentMonitor())
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


def test_a_ledger_that_was_changed_is_of_no_finished_run(folder: Path) -> None:
    path = folder / "ledger.db"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InvalidValue, match=r"^manifest=\S*ledger\.db: expected .*; restore it from a backup, unless"):
        train(small_plan(), folder, SilentMonitor())


def test_a_file_that_the_run_did_not_publish_is_named(folder: Path) -> None:
    shutil.copy(folder / "votes.npz", folder / "release" / "votes.npz")
    with pytest.raises(InvalidValue, match=r"^manifest=\S*release/votes\.npz: expected no file .* move it elsewhere"):
        train(small_plan(), folder, SilentMonitor())


def test_a_finished_folder_without_its_manifests_says_what_to_do_and_that_works(folder: Path) -> None:
    released, spent = (folder / "release/release.npz").read_bytes(), (folder / "ledger.db").read_bytes()
    for name in ("manifest.json", "release/manifest.json"):
        (folder / name).unlink()
    with pytest.raises(InvalidValue, match=r"^manifest=\S*: expected .* remove report\.json"):
        train(small_plan(), folder, SilentMonitor())
    (folder / "report.json").unlink()
    train(small_plan(), folder, SilentMonitor())
    assert (folder / "release/release.npz").read_bytes() == released
    assert (folder / "ledger.db").read_bytes() == spent
    train(small_plan(), folder, SilentMonitor())


def test_a_run_that_ends_between_manifest_and_report_is_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("pate.report.Report.write", cut_off)
        train(small_plan(), tmp_path, SilentMonitor())
    assert (tmp_path / "manifest.json").exists()
    monitor = SilentMonitor()
    train(small_plan(), tmp_path, monitor)
    assert "training the student" in monitor.stages
    train(small_plan(), tmp_path, SilentMonitor())
