"""The files that a data set is read from, compared with those of a finished run by their sizes and times.

A finished run that is called again reads no data where no file has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pate.data import Dataset
from pate.files import disk
from pate.progress import Monitor
from pate.run.folder import RunFolder
from pate.validation import InvalidValue

# The groups of settings that may name files of records.
_PARTS = ("data", "features", "queries")
# The folders beside records that runs write themselves.
_CACHES = ("pate_cache",)
_RULE = "the sizes and times of the files that a run read"


@dataclass(frozen=True)
class Sources:
    """The sizes and times of the files and folders that settings name, as one digest for each setting.

    A digest changes whenever a file does. A digest may also change where no record did, as after a file was copied.

    Attributes:
        paths: the path that each setting names, of paths that exist.
        stamps: the digest of the sizes and times below the path, in hexadecimal, by the same settings.
    """

    paths: Mapping[str, str]
    stamps: Mapping[str, str]

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], output_dir: Path) -> Sources:
        """Returns the sources of a run: every setting whose value names a file or folder.

        `output_dir`, the run's own folder, is left out where it lies in a source.
        """
        paths = {}
        for part in _PARTS:
            for name, value in _leaves(settings.get(part), part):
                path = os.path.expanduser(value)
                if os.path.exists(path):
                    paths[name] = path
        return cls(paths, {name: _stamp(Path(path), output_dir) for name, path in paths.items()})

    def write(self, folder: RunFolder) -> None:
        """Writes the digests into the folder of a run, for its owner alone."""
        disk.write_text(folder.sources, json.dumps(dict(self.stamps), indent=2) + "\n")

    def changed_since(self, folder: RunFolder) -> list[str] | None:
        """Returns the settings whose files have changed since `write`, by the digests in a run's folder.

        None means that nobody can tell: a file is gone, or an earlier version of pate wrote no digests.
        """
        path = folder.sources
        if not os.path.lexists(path):
            return None
        written = disk.read_json(path, rule=_RULE, remedy="remove it, and it is not compared")
        if not isinstance(written, dict):
            raise disk.damaged(path, _RULE, "no JSON object", "remove it, and it is not compared")
        if not written.keys() <= self.stamps.keys():
            return None
        return sorted(name for name, stamp in self.stamps.items() if written.get(name) != stamp)


def require_same_data(
    folder: RunFolder, settings: Mapping[str, Any], load: Callable[[], Dataset], monitor: Monitor
) -> None:
    """Raises `InvalidValue` where the data are not those that a finished run has read.

    Data are loaded and compared only where a file has changed. A monitor is told where a file is gone.

    Args:
        folder: the run's.
        settings: the settings of the run, with its paths.
        load: loads the data set.
        monitor: is told of the comparison.
    """
    sources = Sources.from_settings(settings, folder.path)
    changed = sources.changed_since(folder)
    if changed is None:
        if os.path.lexists(folder.sources):
            monitor.say(
                "data: a file that this run read is not there; nothing says if the data are still the same"
            )
        return
    if not changed:
        return
    with monitor.stage("reading the data, as files changed"):
        digest = load().digest()
    if digest != folder.digest_of_data():
        first_name, *later_names = changed
        paths = [sources.paths[first_name]]
        paths += [f"{name}={sources.paths[name]}" for name in later_names]
        rule = (
            "the data that this finished run is about; a new output_dir for these, which is another release, "
            "or the version of pate that read them"
        )
        raise InvalidValue(first_name, ", ".join(paths), rule=rule)
    sources.write(folder)


def _leaves(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yields each setting that is a text, with the name that a command line gives it."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}")
    elif isinstance(value, str) and value and "\0" not in value:
        yield name, value


def _stamp(path: Path, output_dir: Path) -> str:
    """Returns the digest of the sizes and times of a file, or of all files of a folder."""
    digest = hashlib.sha256()
    for name, status in sorted(_files_below(path, output_dir), key=lambda file: file[0]):
        digest.update(repr((name, status.st_size, status.st_mtime_ns, status.st_ctime_ns)).encode())
    return digest.hexdigest()


def _files_below(path: Path, output_dir: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yields the name and the `os.stat` of a file, or of all files of a folder except those that runs write."""
    if not path.is_dir():
        yield "", path.stat()
        return
    visited = {disk.file_identity(output_dir)}  # links may lead back to a folder
    for folder, inner, names in os.walk(path, followlinks=True):
        identity = disk.file_identity(folder)
        if identity in visited or os.path.basename(folder) in _CACHES:
            inner.clear()
            continue
        visited.add(identity)
        for name in names:
            file = Path(folder, name)
            if file.exists():  # a link may lead nowhere
                yield os.path.relpath(file, path), file.stat()
