"""The data of a finished run are compared with the present ones, and only changed files are read again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from pate.data import Arrays, Dataset
from pate.progress import Monitor
from pate.run.folder import RunFolder
from pate.run.sources import Sources, require_same_data
from pate.validation import InvalidValue

SPLITS = ("private", "public", "test")


class LineMonitor(Monitor):
    """A monitor that records the lines that a run prints."""

    def __init__(self) -> None:
        self.lines = list[str]()

    def say(self, line: str) -> None:
        self.lines.append(line)


def _settings(folder: Path) -> dict[str, Any]:
    """Returns the settings of a run on three files in a folder."""
    files = {split: str(folder / f"{split}.npz") for split in SPLITS}
    return {"data": files | {"name": "arrays", "seed": 0}}


def _write(path: Path, added_number: float = 0.0) -> None:
    """Writes an .npz file of five records; `added_number` is added to their inputs."""
    np.savez(path, inputs=np.eye(5) + added_number, labels=np.eye(5, dtype=int))


@pytest.fixture
def finished_run(tmp_path: Path) -> RunFolder:
    """Makes the folder of a finished run whose data are three files in the parent folder."""
    for split in SPLITS:
        _write(path=tmp_path / f"{split}.npz")
    run_folder = RunFolder(tmp_path / "run")
    settings = _settings(folder=tmp_path)
    with run_folder.lock_for(settings=settings):
        sources = Sources.from_settings(settings, output_dir=run_folder.path)
        run_folder.claim(settings, digests={"data": _load(folder=tmp_path).digest()})
        sources.write(run_folder)
    return run_folder


def _load(folder: Path) -> Dataset:
    """Loads the data set of three files in a folder."""
    arrays = Arrays(
        private=str(folder / "private.npz"),
        public=str(folder / "public.npz"),
        test=str(folder / "test.npz"),
    )
    return arrays.load()


class Comparison(NamedTuple):
    """How often the data were read, and the lines that were printed."""

    num_reads: int
    printed_lines: list[str]


def compare_sources(finished_run: RunFolder) -> Comparison:
    """Compares the present data with those of the run; returns how often they were read, and the printed lines."""
    num_reads = 0
    monitor = LineMonitor()

    def load_and_count() -> Dataset:
        nonlocal num_reads
        num_reads += 1
        return _load(folder=finished_run.path.parent)

    require_same_data(
        finished_run,
        settings=_settings(folder=finished_run.path.parent),
        load_dataset=load_and_count,
        monitor=monitor,
    )
    return Comparison(num_reads=num_reads, printed_lines=monitor.lines)


def test_unchanged_files_are_not_read_again(finished_run: RunFolder) -> None:
    """`require_same_data` does not read unchanged data of a finished run, whose list of sources has mode 0600."""
    assert compare_sources(finished_run=finished_run) == Comparison(num_reads=0, printed_lines=[])
    assert (finished_run.stamps_of_sources).stat().st_mode & 0o777 == 0o600


def test_a_copied_file_is_read_again_once(finished_run: RunFolder) -> None:
    """If a file is replaced by its copy, the data are read once, and then not again."""
    path = finished_run.path.parent / "private.npz"
    shutil.copy(path, path.with_suffix(".copy"))
    os.replace(path.with_suffix(".copy"), path)
    assert compare_sources(finished_run=finished_run) == Comparison(num_reads=1, printed_lines=[])
    assert compare_sources(finished_run=finished_run) == Comparison(num_reads=0, printed_lines=[])


@pytest.mark.parametrize("split", SPLITS)
def test_changed_data_are_refused_with_the_name_of_their_setting(
    finished_run: RunFolder, split: str
) -> None:
    """A file that changes is refused under its setting until it is restored, although its times stay the same."""
    path = finished_run.path.parent / f"{split}.npz"
    times = path.stat()
    _write(path=path, added_number=1.0)
    # The other content has the same size, and the same times as after a copy that keeps them.
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    line = rf"^data\.{split}={path}: expected the data that this finished run is about; a new output_dir for these"
    for _ in range(2):
        with pytest.raises(InvalidValue, match=line):
            compare_sources(finished_run=finished_run)
    _write(path=path)
    assert compare_sources(finished_run=finished_run) == Comparison(num_reads=1, printed_lines=[])


def test_a_missing_file_is_reported(finished_run: RunFolder) -> None:
    """If a file of a finished run's data is missing, `require_same_data` says so in one line, and raises no error."""
    (finished_run.path.parent / "private.npz").unlink()
    line = (
        "data: a file that this run read is not there; nothing says if the data are still the same"
    )
    assert compare_sources(finished_run=finished_run) == Comparison(
        num_reads=0, printed_lines=[line]
    )


def test_a_finished_run_without_digests_is_not_compared(finished_run: RunFolder) -> None:
    """Without its list of sources, the data of a finished run are not read or refused, even if a file has changed."""
    (finished_run.stamps_of_sources).unlink()
    _write(path=finished_run.path.parent / "private.npz", added_number=1.0)
    assert compare_sources(finished_run=finished_run) == Comparison(num_reads=0, printed_lines=[])


def _write_picture(folder: Path) -> None:
    """Writes into a picture in a folder of the data."""
    (folder / "sub" / "b.png").write_text("other")


def _remove_picture(folder: Path) -> None:
    """Removes a picture in a folder of the data."""
    (folder / "sub" / "b.png").unlink()


def _write_cache(folder: Path) -> None:
    """Writes a cache into the folder of the data."""
    (folder / "pate_cache").mkdir()
    (folder / "pate_cache" / "images.u8").touch()


def _write_run(folder: Path) -> None:
    """Writes a file of a run into the folder of the data."""
    (folder / "run" / "report.html").touch()


@pytest.mark.parametrize(
    ("change_folder", "is_noticed"),
    [
        pytest.param(_write_picture, True, id="a changed picture"),
        pytest.param(_remove_picture, True, id="a removed picture"),
        pytest.param(_write_cache, False, id="a cache"),
        pytest.param(_write_run, False, id="a file of a run"),
    ],
)
def test_a_change_anywhere_in_a_folder_is_noticed_except_files_of_runs(
    tmp_path: Path, change_folder: Callable[[Path], None], is_noticed: bool
) -> None:
    """The stamp of a folder of data differs if a file anywhere in it was changed or removed.

    Files of caches and runs in the folder do not count.
    """
    for name in ("sub", "run"):
        (tmp_path / name).mkdir()
    (tmp_path / "sub" / "b.png").touch()
    (tmp_path / "sub" / "above").symlink_to(tmp_path)  # a link that leads back into the folder
    settings = {"data": {"root": str(tmp_path), "name": "no-such-file"}, "seed": 3}
    before = Sources.from_settings(settings, output_dir=tmp_path / "run")
    assert before.path_of_setting == {"data.root": str(tmp_path)}
    change_folder(tmp_path)
    after = Sources.from_settings(settings, output_dir=tmp_path / "run")
    assert (after.stamp_of_setting != before.stamp_of_setting) == is_noticed


@pytest.mark.parametrize("private", ["many", "many/part-*.npz"])
def test_a_file_that_is_added_to_a_folder_or_pattern_is_noticed(
    tmp_path: Path, private: str
) -> None:
    """The stamp of a folder, or of a pattern of files, differs if a file is added to it."""
    (tmp_path / "many").mkdir()
    _write(path=tmp_path / "many" / "part-0.npz")
    settings = {"data": {"private": str(tmp_path / private)}}
    before = Sources.from_settings(settings, output_dir=tmp_path / "run")
    assert before.path_of_setting == {"data.private": str(tmp_path / private)}
    (tmp_path / "other.npz").touch()
    assert (
        Sources.from_settings(settings, output_dir=tmp_path / "run").stamp_of_setting
        == before.stamp_of_setting
    )
    _write(path=tmp_path / "many" / "part-1.npz")
    stamps_with_part_1 = Sources.from_settings(
        settings, output_dir=tmp_path / "run"
    ).stamp_of_setting
    assert stamps_with_part_1 != before.stamp_of_setting
    (tmp_path / "many" / "part-1.npz").rename(tmp_path / "many" / "part-2.npz")
    stamps_with_part_2 = Sources.from_settings(
        settings, output_dir=tmp_path / "run"
    ).stamp_of_setting
    assert stamps_with_part_2 != stamps_with_part_1


def test_a_pattern_that_matches_no_file_is_no_source(tmp_path: Path) -> None:
    """A setting with a pattern that matches no file names no data."""
    settings = {"data": {"private": str(tmp_path / "part-*.npz"), "true": "?"}}
    assert not Sources.from_settings(settings, output_dir=tmp_path / "run").path_of_setting
