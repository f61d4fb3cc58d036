"""Files that a data set is read from: whether they are as a finished run read them, told without reading them."""

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

_PARTS = ("data", "features", "queries")  # settings that name files of records
_CACHES = ("pate_cache",)  # folders beside records that runs write themselves
_RULE = "the sizes and times of the files that a run read"


@dataclass(frozen=True)
class Sources:
    """Sizes and times of the files and folders that settings name, as one digest for each setting.

    They change whenever a file does; so they may change where no record did, as for a copy of a file.
    """

    paths: Mapping[str, str]  # of what is there, by setting
    stamps: Mapping[str, str]  # likewise, in hexadecimal

    @classmethod
    def of(cls, settings: Mapping[str, Any], output_dir: Path) -> Sources:
        """Looks at every setting whose value is the name of a file or folder; `output_dir` is none of the sources."""
        paths = {}
        for part in _PARTS:
            for name, value in _leaves(settings.get(part), part):
                path = os.path.expanduser(value)
                if os.path.exists(path):
                    paths[name] = path
        return cls(paths, {name: _stamp(Path(path), output_dir) for name, path in paths.items()})

    def write(self, folder: RunFolder) -> None:
        """Notes them in the folder of a run, for its owner alone."""
        disk.write_text(folder.sources, json.dumps(dict(self.stamps), indent=2) + "\n")

    def changed_since(self, folder: RunFolder) -> list[str] | None:
        """Returns the settings whose files changed since they were noted; None where nothing was noted, or one is gone.

        A run of an earlier version has noted nothing.
        """
        path = folder.sources
        if not os.path.lexists(path):
            return None
        noted = disk.read_json(path, rule=_RULE, remedy="remove it, and it is not compared")
        if not isinstance(noted, dict):
            raise disk.damaged(path, _RULE, "no JSON object", "remove it, and it is not compared")
        if not noted.keys() <= self.stamps.keys():
            return None
        return sorted(name for name, stamp in self.stamps.items() if noted.get(name) != stamp)


def require_same_data(
    folder: RunFolder, settings: Mapping[str, Any], load: Callable[[], Dataset], monitor: Monitor
) -> None:
    """Raises where the data are others than a finished run read; nothing is read where no file changed.

    Where one did, the data are read and compared. Says so where they cannot be compared, as a file is gone.
    """
    sources = Sources.of(settings, folder.path)
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
        first, *others = changed
        paths = [sources.paths[first], *(f"{name}={sources.paths[name]}" for name in others)]
        rule = "the data that this finished run is about; a new output_dir for these, which is another release"
        rule = f"{rule}, or the version of pate that read them"
        raise InvalidValue(first, ", ".join(paths), rule=rule)
    sources.write(folder)


def _leaves(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yields texts among settings, by the name that a command line gives them."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}")
    elif isinstance(value, str) and value and "\0" not in value:
        yield name, value


def _stamp(path: Path, output_dir: Path) -> str:
    digest = hashlib.sha256()
    for name, status in sorted(_files_below(path, output_dir), key=lambda file: file[0]):
        digest.update(repr((name, status.st_size, status.st_mtime_ns, status.st_ctime_ns)).encode())
    return digest.hexdigest()


def _files_below(path: Path, output_dir: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yields a file, or all files of a folder but those that runs write there, with what the system knows of them."""
    if not path.is_dir():
        yield "", path.stat()
        return
    seen = {disk.file_identity(output_dir)}  # folders, as links may lead back
    for folder, inner, names in os.walk(path, followlinks=True):
        identity = disk.file_identity(folder)
        if identity in seen or os.path.basename(folder) in _CACHES:
            inner.clear()
            continue
        seen.add(identity)
        for name in names:
            file = Path(folder, name)
            if file.exists():  # else a link to nothing
                yield os.path.relpath(file, path), file.stat()
