"""The files that a run has read its data from, with their sizes and times.

If a finished run is called again and no file has changed, the data are not read again.
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
from pate.files.atomic import write_text
from pate.files.paths import file_identity, files_named, is_pattern
from pate.files.reading import damaged, read_json
from pate.progress import Monitor
from pate.run.folder import RunFolder
from pate.validation import InvalidValue

# The groups of settings that may name files of records.
_GROUPS_NAMING_FILES = ("data", "features", "queries")
# The folders beside records that runs write themselves.
_CACHES = ("pate_cache",)
_RULE = "the sizes and times of the files that a run read"


@dataclass(frozen=True)
class Sources:
    """The files and folders that a run's settings name, and for each setting a digest of names, sizes and times.

    The digest changes whenever a file changes. It may also change without a change of data, for example after a copy.

    Attributes:
        path_of_setting: the path that each setting names, by the name of the setting; only paths that exist.
        stamp_of_setting: the digest of the names, sizes and times of all files of the path, in hexadecimal, by the name
            of the setting.
    """

    path_of_setting: Mapping[str, str]
    stamp_of_setting: Mapping[str, str]

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], output_dir: Path) -> Sources:
        """Returns the sources of a run: the settings of its data, features and queries that name a file or folder.

        Args:
            settings: the settings of the run as plain values.
            output_dir: the folder of the run itself, whose files are not counted if it is in a folder of data.
        """
        path_of_setting = {}
        for file_naming_group in _GROUPS_NAMING_FILES:
            for setting_name, setting_text in _text_settings(
                settings.get(file_naming_group), dotted_name=file_naming_group
            ):
                path = os.path.expanduser(setting_text)
                if any(map(os.path.exists, _matching_paths(path))):
                    path_of_setting[setting_name] = path
        stamp_of_setting = {
            setting_name: _stamp(Path(path), output_dir=output_dir)
            for setting_name, path in path_of_setting.items()
        }
        return cls(path_of_setting=path_of_setting, stamp_of_setting=stamp_of_setting)

    def write(self, run_folder: RunFolder) -> None:
        """Writes the digests into the folder of a run, for its owner alone."""
        write_text(
            run_folder.stamps_of_sources,
            text=json.dumps(dict(self.stamp_of_setting), indent=2) + "\n",
        )

    def changed_since(self, run_folder: RunFolder) -> list[str] | None:
        """Returns the names of the settings whose files have changed since `write` was called for the run's folder.

        The result is None if the change is unknown: the whole path of a setting is gone, or an earlier version of pate
        wrote no digests.
        """
        stamps_file = run_folder.stamps_of_sources
        if not os.path.lexists(stamps_file):
            return None
        written_stamps = read_json(
            stamps_file, rule=_RULE, remedy="remove it, and it is not compared"
        )
        if not isinstance(written_stamps, dict):
            raise damaged(
                stamps_file,
                rule=_RULE,
                finding="no JSON object",
                remedy="remove it, and it is not compared",
            )
        if not written_stamps.keys() <= self.stamp_of_setting.keys():
            return None
        return sorted(
            name
            for name, stamp in self.stamp_of_setting.items()
            if written_stamps.get(name) != stamp
        )


def require_same_data(
    run_folder: RunFolder,
    *,
    settings: Mapping[str, Any],
    load_dataset: Callable[[], Dataset],
    monitor: Monitor,
) -> None:
    """Raises `InvalidValue` if the data differ from the data that a finished run has read.

    The data are loaded and compared only if the name, size or time of a file has changed. If that is unknown
    (`Sources.changed_since`), for example because the whole path of a setting is gone, no error is raised.

    Args:
        run_folder: the folder of the run.
        settings: the settings of the run, with its paths.
        load_dataset: loads the data set.
        monitor: receives a line if a file is gone, and the progress of the comparison.
    """
    sources = Sources.from_settings(settings, output_dir=run_folder.path)
    changed = sources.changed_since(run_folder)
    if changed is None:
        if os.path.lexists(run_folder.stamps_of_sources):
            monitor.say(
                "data: a file that this run read is not there; nothing says if the data are still the same"
            )
        return
    if not changed:
        return
    with monitor.stage("reading the data, as files changed"):
        digest = load_dataset().digest()
    if digest != run_folder.read_data_digest():
        first_name, *later_names = changed
        changed_paths = [sources.path_of_setting[first_name]]
        changed_paths += [f"{name}={sources.path_of_setting[name]}" for name in later_names]
        rule = (
            "the data that this finished run is about; a new output_dir for these, which is another release, "
            "or the version of pate that read them"
        )
        raise InvalidValue(first_name, ", ".join(changed_paths), rule=rule)
    sources.write(run_folder)


def _text_settings(setting: Any, dotted_name: str) -> Iterator[tuple[str, str]]:
    """Yields a pair for each setting whose value is a text that is not empty: its dotted name and its value.

    Args:
        setting: the value of a setting, or a mapping of settings.
        dotted_name: the dotted name of the setting or mapping, with which each yielded name begins.
    """
    if isinstance(setting, Mapping):
        for key, inner_setting in setting.items():
            yield from _text_settings(inner_setting, dotted_name=f"{dotted_name}.{key}")
    elif isinstance(setting, str) and setting and "\0" not in setting:
        yield dotted_name, setting


def _matching_paths(path: Path | str) -> list[Path]:
    """Returns the files and folders that match `path` if it is a pattern such as `data/*.csv`; otherwise `path`."""
    return files_named(path) if is_pattern(path) else [Path(path)]


def _stamp(path: Path, *, output_dir: Path) -> str:
    """Returns the SHA-256 of the names, sizes and times of all files that a path stands for, in hexadecimal.

    Args:
        path: a file, a folder, or a pattern of names such as `data/*.csv`.
        output_dir: the folder of the run, whose files are not counted.
    """
    stamp_hasher = hashlib.sha256()
    for file_name, file_status in sorted(
        _files_below(path, output_dir=output_dir), key=lambda file: file[0]
    ):
        stamp_hasher.update(
            repr(
                (file_name, file_status.st_size, file_status.st_mtime_ns, file_status.st_ctime_ns)
            ).encode()
        )
    return stamp_hasher.hexdigest()


def _files_below(path: Path, *, output_dir: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yields the name and the `os.stat` of each file that a path stands for.

    A file stands for itself. A folder stands for all files below it, except those in caches of pate and in the run's
    folder. A pattern of names such as `data/*.csv` stands for the files and folders that match it now.

    Args:
        path: the file, the folder or the pattern.
        output_dir: the folder of the run.
    """
    if is_pattern(path):
        for matching_path in _matching_paths(path):
            for file_name, file_status in _files_below(Path(matching_path), output_dir=output_dir):
                yield os.path.join(matching_path, file_name), file_status
        return
    if not path.is_dir():
        yield "", path.stat()
        return
    visited_identities = {file_identity(output_dir)}  # links may lead back to a folder
    for folder, inner, file_names in os.walk(path, followlinks=True):
        folder_identity = file_identity(folder)
        if folder_identity in visited_identities or os.path.basename(folder) in _CACHES:
            inner.clear()
            continue
        visited_identities.add(folder_identity)
        for file_name in file_names:
            file = Path(folder, file_name)
            if file.exists():  # a link may lead nowhere
                yield os.path.relpath(file, path), file.stat()
