"""Files are written completely or not at all, and only their owner may read them."""

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pate.files.arrays import write_arrays
from pate.files.atomic import atomic_write, remove_partials, write_text
from pate.files.lock import file_lock
from pate.files.paths import make_folder
from pate.files.secret import read_secret
from pate.models import CheckpointStore
from pate.report.tensorboard import RunWriter
from pate.votes import VoteStore

REMEDY = "do this"


def test_a_full_disk_names_the_file_and_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the disk is full while a file is replaced, the error names the file, and only its old content remains."""
    path = tmp_path / "file.txt"
    write_text(path, text="old")

    def fail_as_on_a_full_disk(descriptor: int) -> None:
        """Raises the error of a full disk."""
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail_as_on_a_full_disk)
    with pytest.raises(OSError, match=r"No space left on device: '/\S+/file\.txt'$"):
        write_text(path, text="new")
    assert [(entry.name, entry.read_text()) for entry in path.parent.iterdir()] == [
        ("file.txt", "old")
    ]


def test_an_error_of_another_kind_or_file_is_left_as_it_is(tmp_path: Path) -> None:
    """Errors within `atomic_write` about other files, or of other kinds, are raised unchanged, and no file is left."""
    with pytest.raises(FileNotFoundError, match="/nowhere'"), atomic_write(tmp_path / "file.txt"):
        (tmp_path / "nowhere").read_text()
    with (
        pytest.raises(ChildProcessError, match=r"^a worker died$"),
        atomic_write(tmp_path / "file.txt"),
    ):
        raise ChildProcessError("a worker died")
    assert not list(tmp_path.iterdir())


@pytest.fixture(params=[0o000, 0o077, 0o277, 0o377], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sets the umask of the process for a test."""
    previous_umask = os.umask(request.param)
    yield
    os.umask(previous_umask)


def permissions(path: Path) -> int:
    """Returns the permissions of a file."""
    return path.stat().st_mode & 0o777


@pytest.mark.usefixtures("umask")
def test_files_and_folders_are_the_owners_alone(tmp_path: Path) -> None:
    """Under each of four umasks, files are written with mode 0600 and folders with mode 0700."""
    folder = make_folder(tmp_path / "outputs" / "run")
    write_text(folder / "run.json", text="{}")
    write_arrays(folder / "summary.npz", summary=np.zeros(3))
    CheckpointStore(folder / "teachers").save(
        {teacher: {"loss_curve": np.zeros(1, np.float32)} for teacher in (0, 2)}
    )
    votes = np.zeros((1, 2, 3), np.bool_)
    VoteStore.write(
        folder / "votes.npz", blocks=[votes], num_teachers=1, num_queries=2, num_labels=3
    )
    with file_lock(folder / "run.lock"):
        pass
    modes = {
        path.relative_to(tmp_path).as_posix(): permissions(path=path)
        for path in tmp_path.rglob("*")
    }
    assert {name for name, bits in modes.items() if bits == 0o700} == {
        "outputs",
        "outputs/run",
        "outputs/run/teachers",
    }
    assert {bits for name, bits in modes.items() if (tmp_path / name).is_file()} == {0o600}
    assert len(modes) == 10


def test_tensorboard_files_are_the_owners_alone_under_umask_0(tmp_path: Path) -> None:
    """Files of TensorBoard have mode 0600 and their folder has mode 0700, although the umask is 0."""
    previous_umask = os.umask(0)
    try:
        with RunWriter(folder=tmp_path / "tensorboard") as events:
            events.add_teacher_losses(losses_of_one_teacher=[0.5])
            events.write_teacher_curves()
    finally:
        os.umask(previous_umask)
    assert permissions(path=tmp_path / "tensorboard") == 0o700
    assert {permissions(path=path) for path in (tmp_path / "tensorboard").iterdir()} == {0o600}


@pytest.mark.parametrize("link_name", ["run.json", ".run.json.{writer}.partial"])
def test_no_file_is_written_through_a_link(tmp_path: Path, link_name: str) -> None:
    """A link in place of a file or of its partial file is replaced, and the target of the link stays as it is."""
    target = tmp_path / "target"
    target.write_text("mine")
    writer = f"{os.getpid()}{threading.get_ident()}"
    (tmp_path / link_name.format(writer=writer)).symlink_to(target)
    write_text(tmp_path / "run.json", text="{}")
    assert target.read_text() == "mine"
    assert (tmp_path / "run.json").read_text() == "{}"
    assert not (tmp_path / "run.json").is_symlink()


def test_only_partial_files_of_known_names_are_removed(tmp_path: Path) -> None:
    """`remove_partials` removes the partial files of `votes.npz` only, and no folders or links of such a name.

    It removes the partial files that version 0.1.0 made of secrets and keys, too.
    """
    other_files = {
        ".notes.txt.12.partial",
        "film.mp4.partial",
        ".votes.npz.partial",
        ".votes.npz.x.partial",
        "votes.npz",
    }
    own_partial_files = {
        ".votes.npz.12.partial",
        ".votes.npz.3fa9.partial",
        "..votes.npz.3fa9.partial.81c2.partial",
    }
    for name in other_files | own_partial_files:
        (tmp_path / name).touch()
    (tmp_path / ".votes.npz.13.partial").mkdir()
    (tmp_path / ".votes.npz.14.partial").symlink_to(tmp_path / "votes.npz")
    remove_partials(tmp_path, name_patterns=(r"votes\.npz",))
    remaining_names = {path.name for path in tmp_path.iterdir()}
    assert remaining_names == other_files | {".votes.npz.13.partial", ".votes.npz.14.partial"}


def test_a_missing_run_folder_is_not_made_again(tmp_path: Path) -> None:
    """Writing a file or folder into a missing run folder fails, and the run folder is not made."""
    run = tmp_path / "run"
    with pytest.raises(FileNotFoundError, match=r"run/report\.json'$"):
        write_text(run / "report.json", text="{}")
    with pytest.raises(FileNotFoundError, match="run"):
        make_folder(run / "teachers", existing_parent=run)
    with pytest.raises(FileNotFoundError, match="run"):
        CheckpointStore(run / "teachers").save({0: {}})
    assert not run.exists()


@pytest.mark.usefixtures("umask")
def test_a_new_secret_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    """A secret has mode 0600 while it is written and afterwards, under each of four umasks, and is read back."""
    with atomic_write(tmp_path / "a.secret") as file:
        assert {permissions(path=path) for path in tmp_path.iterdir()} == {0o600}
        file.write(b"abc\n")
    assert permissions(path=tmp_path / "a.secret") == 0o600
    assert read_secret(tmp_path / "a.secret", remedy=REMEDY) == "abc\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.secret"]
