"""A run whose files are damaged, exchanged or removed ends with its own release, or is refused and names the file."""

import hashlib
import json
import os
import pickle
import re
import shutil
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from safetensors.numpy import save_file

from pate.models import LinearStudent
from pate.run import ensemble
from pate.run.plan import Plan
from pate.run.train import train
from pate.validation import InvalidValue
from tests.e2e.commands import SMALL, call, refused_command, succeeded
from tests.e2e.damage import WAYS, flip_one_bit, flip_sixteen_bits, remove
from tests.e2e.small_run import (
    SilentMonitor,
    charges_beside,
    contents,
    ledger_beside,
    release_bytes_of_run,
    run_until,
    run_until_released,
    small_plan,
)
from tests.refusals import refused_parameter as refusal_of

STATES = ("casting", "releasing", "writing", None)
OTHERS = ("training.secret", "teachers.key")  # secrets, which are not damaged here
_APART = 5  # every fifth damage is tried on a file in a state
# The files of a finished run that are damaged here. The manifest covers the others, and has tests of its own, below.
SHOWN_AGAIN = ("report.json", "run.json", "run.lock", "sources.json")


def plan() -> Plan:
    """Returns the small plan with three teachers, twelve queries and no seed."""
    return replace(
        small_plan(),
        num_teachers=3,
        num_queries=12,
        student=LinearStudent(penalties=(1.0,)),
        seed=None,
    )


@pytest.fixture(scope="module", params=STATES, ids=str)
def run_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a run that was killed at one of the stages in `STATES`, or is finished.

    Only the ledger of the run lies beside it.
    """
    folder = tmp_path_factory.mktemp("state") / "outputs" / "run"
    if request.param is None:
        train(plan(), output_dir=folder)
    else:
        run_until(plan(), folder, stage=request.param)
    return folder


def restore(folder: Path, backup: Path) -> None:
    """Restores a run and its ledger from a backup, which the first call makes."""
    if not backup.exists():
        shutil.copytree(folder.parent, backup)
    shutil.rmtree(folder.parent)
    shutil.copytree(backup, folder.parent)


def damage_each_file(folder: Path, backup: Path) -> Iterator[tuple[str, Path]]:
    """Damages each file of a run, except `OTHERS`, and its ledger in some of the `WAYS`, one file at a time.

    Before each damage, all files are restored. After it, a description and the file's path are yielded.
    """
    names = [name for name in map(Path, sorted(contents(folder.parent))) if name.name not in OTHERS]
    for turn, name in enumerate(names, len(names)):
        for damage_file in WAYS[turn % _APART :: _APART]:
            if name.suffix == ".lock" and damage_file in (flip_sixteen_bits, flip_one_bit):
                continue  # a lock is empty
            restore(folder, backup)
            damage_file(folder.parent / name)
            yield f"{name}, {damage_file.__name__}", name


@pytest.mark.slow
def test_any_damage_is_repaired_or_refused_in_one_line(run_folder: Path, tmp_path: Path) -> None:
    """A run with a damaged file ends with its release and one charge, or is refused in one line.

    The line names the file; if that is `run.id` or `ledger.json`, the line may name the ledger instead.
    """
    finished_folder = (run_folder / "report.json").exists()
    tried = 0
    turned_down = 0
    release = (
        release_bytes_of_run(run_folder)
        if (run_folder / "release" / "release.npz").exists()
        else None
    )
    for case, name in damage_each_file(run_folder, backup=tmp_path / "backup"):
        if finished_folder and name.name not in SHOWN_AGAIN:
            continue  # its digest is checked, as a test below shows
        if release is not None and name.name == "release.npz":
            continue  # has a test of its own, below
        tried += 1
        try:
            train(plan(), output_dir=run_folder)
        except (InvalidValue, OSError) as error:
            turned_down = turned_down + 1
            message = str(error)
            assert "\n" not in message and len(message) < 600 and "pickle" not in message, case
            # an unknown key may be the fault of the ledger, of the key or of the place
            is_of_ledger = name.name in ("run.id", "ledger.json") and "ledger.db" in message
            assert name.name in message or is_of_ledger, f"{case}: {message}"
            continue
        assert release is None or release_bytes_of_run(run_folder) == release, case
        assert len(charges_beside(run_folder)) == 1, case
    assert tried >= 5 and turned_down >= 3


@pytest.mark.slow
def test_a_damaged_release_is_refused_and_a_lost_one_rewritten(tmp_path: Path) -> None:
    """A run whose release.npz is damaged is refused with a remedy; if the file is removed, the run writes it again.

    The bytes of the ledger do not change.
    """
    folder = tmp_path / "outputs" / "run"
    release = run_until_released(plan(), folder)
    charged = ledger_beside(folder).read_bytes()
    for damage_file in WAYS:
        restore(folder, backup=tmp_path / "backup")
        damage_file(folder / "release" / "release.npz")
        if damage_file is remove:
            train(plan(), output_dir=folder)
            assert release_bytes_of_run(folder) == release
        else:
            with pytest.raises(InvalidValue) as caught:
                train(plan(), output_dir=folder)
            assert "release.npz" in str(caught.value)
            assert re.search("; (restore it from a backup|remove)", caught.value.rule)
        assert ledger_beside(folder).read_bytes() == charged


@pytest.mark.parametrize("stage", ["training the student", "releasing"])
@pytest.mark.parametrize("seed", [None, 3])
def test_a_run_without_its_keys_never_draws_again(
    stage: str, seed: int | None, tmp_path: Path
) -> None:
    """A run without its file run.id is refused, with a seed or not, and nothing is charged.

    If run.id is restored but not ledger.json, a run that was charged ends without another charge. A run that was not
    charged is refused, as its ledger is missing.
    """
    folder = tmp_path / "run"
    seeded = replace(plan(), seed=seed)
    run_until(seeded, folder, stage=stage)
    # a kill between the charge and the file of the release leaves this state
    (folder / "release" / "release.npz").unlink(missing_ok=True)
    num_charges = len(charges_beside(folder))
    id_of_run = (folder / "run.id").read_bytes()
    for lost in (("run.id",), ("run.id", "ledger.json")):
        for name in lost:
            (folder / name).unlink(missing_ok=True)
        with refusal_of(name="file", value=folder / "run.id", rule_words="the names of the run"):
            train(seeded, output_dir=folder)
        assert len(charges_beside(folder)) == num_charges
    # the ledger next to the run holds its charge, or no charge was made
    (folder / "run.id").write_bytes(id_of_run)
    if num_charges:
        train(seeded, output_dir=folder)
    else:
        with refusal_of(
            name="ledger", value=ledger_beside(folder), rule_words="the run's ledger, which is gone"
        ):
            train(seeded, output_dir=folder)
    assert len(charges_beside(folder)) == num_charges


def test_the_votes_of_another_run_are_refused(tmp_path: Path) -> None:
    """A run of twelve queries is refused, and names votes.npz, if that file has votes on five queries."""
    folder = tmp_path / "run"
    run_until(plan(), folder, stage="releasing")
    with np.load(folder / "votes.npz") as votes:
        packed = votes["packed"]
        num_labels = votes["num_labels"]
    np.savez(folder / "votes.npz", packed=packed[:, :5], num_labels=num_labels)
    with refusal_of(
        name="num_queries", value=5, rule_words=f"12 in {folder / 'votes.npz'}; remove it"
    ):
        train(plan(), output_dir=folder)


def test_a_folder_that_vanishes_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose folder is renamed while it runs fails, and does not make the folder again."""
    # the thread of TensorBoard would fail in a later test
    monkeypatch.setattr("torch.utils.tensorboard.SummaryWriter", MagicMock())

    class Vanishing(SilentMonitor):
        def stage(self, name: str, total: int | None = None):
            if name == "casting votes":
                (tmp_path / "run").rename(tmp_path / "elsewhere")
            return super().stage(name, total)

    with pytest.raises((InvalidValue, OSError), match="run"):
        train(plan(), output_dir=tmp_path / "run", monitor=Vanishing())
    assert not (tmp_path / "run").exists()


FILES = (
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
def folder(finished_folder: Path, tmp_path: Path) -> Path:
    """Returns a copy of a finished run, which a test may change."""
    return Path(shutil.copytree(finished_folder, tmp_path / "out"))


def test_manifests_have_the_digests_of_published_and_own_files(
    finished_folder: Path,
) -> None:
    """The manifest in `release/` has the SHA-256 of each published file.

    The manifest of the run, with mode 0600, lists the files of the run as well.
    """
    published = contents(folder=finished_folder / "release")
    listed = json.loads(published.pop("manifest.json"))["sha256"]
    assert listed == {
        name: hashlib.sha256(content).hexdigest() for name, content in published.items()
    }
    own_manifest = finished_folder / "manifest.json"
    assert stat.S_IMODE(os.stat(own_manifest).st_mode) == 0o600
    assert set(FILES) <= json.loads(own_manifest.read_text())["sha256"].keys()


def test_a_changed_lost_or_foreign_file_is_named(folder: Path) -> None:
    """A finished run is refused if a file of it is changed or removed, or if a file is added to the release.

    The refusal names the file, and the folder does not change.
    """
    before = contents(folder)

    def require_named(damaged_path: Path, refusal_words: str) -> None:
        """Runs again in the folder, and fails unless the run is refused and changes no file.

        The error must have the path of the damaged file and the given words.
        """
        contents_before = contents(folder)
        with refusal_of(name="manifest", value=damaged_path, rule_words=refusal_words):
            train(small_plan(), output_dir=folder)
        assert contents(folder) == contents_before

    for name in FILES:
        content = bytearray(before[name])
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)
        require_named(damaged_path=folder / name, refusal_words="restore it from a backup")
        if name != "report.json":  # without its report a run is not finished
            (folder / name).unlink()
            require_named(damaged_path=folder / name, refusal_words="restore it from a backup")
        (folder / name).write_bytes(before[name])
    foreign = folder / "release" / "votes.npz"
    shutil.copy(folder / "votes.npz", foreign)
    require_named(damaged_path=foreign, refusal_words="move it elsewhere")


def test_the_remedy_for_a_lost_manifest_works(
    folder: Path,
) -> None:
    """A finished run without its two manifests is refused, with the advice to remove report.json.

    If that file is removed, the run finishes with the same release.
    """
    before = contents(folder)
    for name in ("manifest.json", "release/manifest.json"):
        (folder / name).unlink()
    with refusal_of(
        name="manifest", value=folder / "manifest.json", rule_words="remove report.json"
    ):
        train(small_plan(), output_dir=folder)
    (folder / "report.json").unlink()
    for _ in range(2):
        train(small_plan(), output_dir=folder)
    assert (folder / "release/release.npz").read_bytes() == before["release/release.npz"]


def test_a_run_without_its_report_is_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run killed while it wrote its report writes it when continued, and does not train the student again."""
    folder = tmp_path / "run"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("pate.report.Report.write", MagicMock(side_effect=KeyboardInterrupt))
        train(small_plan(), output_dir=folder)
    assert (folder / "manifest.json").exists()
    monitor = SilentMonitor()
    train(small_plan(), output_dir=folder, monitor=monitor)
    assert "writing the report" in monitor.stages
    assert "training the student" not in monitor.stages, "the student is on disk"
    train(small_plan(), output_dir=folder)


TREE = "teacher.estimator._target_=sklearn.tree.DecisionTreeClassifier"
WORDS = [
    *SMALL,
    "teacher=sklearn",
    TREE,
    "aggregator=gaussian_votes",
    "target_epsilon=100",
    "seed=1",
]


class Payload:
    """An object whose pickle creates a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (str(self.path), "w")


def test_a_planted_teacher_is_refused_in_one_line(tmp_path: Path) -> None:
    """A stored teacher that was replaced by a pickle is refused, and the code in the pickle does not run.

    If the teacher is restored, the run finishes. The key that signs teachers is not published.
    """
    folder = tmp_path / "run"
    mark = tmp_path / "ran"
    words = [*WORDS, f"output_dir={folder}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ensemble, "cast_votes", MagicMock(side_effect=KeyboardInterrupt))
        assert call("train", arguments=words).returncode == 130
    teacher_file = min((folder / "teachers").iterdir())
    original_content = teacher_file.read_bytes()
    planted_pickle = np.frombuffer(pickle.dumps(Payload(mark)), np.uint8)
    save_file({"pickle": planted_pickle, "loss_curve": np.zeros(1, np.float32)}, teacher_file)
    line = f"file={teacher_file}: expected teachers that this run signed"
    # after the lines on reading the data
    assert refused_command("train", arguments=words).splitlines()[-1].startswith(line)
    assert not mark.exists()
    teacher_file.write_bytes(original_content)
    succeeded("train", arguments=words)
    assert "teachers.key" not in {path.name for path in (folder / "release").rglob("*")}
