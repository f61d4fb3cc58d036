"""The folder of a run: the names of its files, its lock, and the digests that it began and ended with.

`release/` alone may be published. All other files are the owner's, and are written with mode 0600 or 0700.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from textwrap import shorten
from typing import Any

from pate.files.atomic import write_text
from pate.files.digests import file_digest
from pate.files.lock import file_lock
from pate.files.manifest import MANIFEST, Manifest
from pate.files.paths import is_regular, make_folder, require_no_links
from pate.files.posix import OWNER_FOLDER_MODE
from pate.files.reading import FROM_BACKUP, damaged, read_json, read_text
from pate.run.owned_folder import OwnedFolder, OwnFile, OwnFiles
from pate.validation import InvalidValue, require

# The longest list of settings that a refusal shows, in characters.
_MAX_SHOWN = 400
_BEGIN_ANEW = f"{FROM_BACKUP}; a new output_dir starts over, and pays again"
_OR_ANEW = f"{FROM_BACKUP}, or begin anew in another output_dir"
_OR_AGAIN = f"{FROM_BACKUP}, or remove report.json and run again: the same release, at no cost"
# The remedies for files that no run can make again, by name.
_REMEDY_OF_FILE = {
    "ledger.db": f"{FROM_BACKUP}, unless pate-account shows charges of others in it: these have to stay",
    "release/release.npz": FROM_BACKUP,
}


class EnsembleFolder(OwnedFolder):
    """The folder of an ensemble, which only its owner may see: no noise protects the private records in it."""

    training_secret = OwnFile("training.secret")  # all random numbers but the noise come from it
    partition = OwnFile("partition.json")  # which teacher has which record
    teachers = OwnFiles("teachers", "teachers-*-*.safetensors")
    teachers_key = OwnFile("teachers.key")  # that `CheckpointStore` signs with
    confidences = OwnFiles("casting", "confidences-*.npz")  # of teachers, while they vote
    votes = OwnFile("votes.npz")  # of all teachers on all queries


class RunFolder(EnsembleFolder):
    """The folder of a run. Only its subfolder `release/` may be given to others; the folder itself has mode 0700."""

    lock = OwnFile("run.lock")
    settings_file = OwnFile("run.json")
    # what the run began with
    data_digest = OwnFile("data.sha256")
    private_digest = OwnFile("private.sha256")
    release_digest = OwnFile("release.sha256")
    sources = OwnFile("sources.json")  # sizes and times of the files that were read
    # what has been spent, and what was drawn for it
    run_id = OwnFile("run.id")  # keys of its draws in the ledger, which lies outside of the folder
    ledger_place = OwnFile("ledger.json")  # where that is
    # a ledger of this run alone, as earlier versions made one; it is read, and not written
    own_ledger = OwnFile("ledger.db")
    own_large_parts = OwnFiles("ledger.db.releases", "*")
    # what may be published under the stated epsilon, and nothing else
    release = OwnFiles(
        "release",
        "release.npz",
        "privacy_card.md",
        "privacy.json",
        "config.yaml",
        "README.md",
        "schema.json",
        "extractor.safetensors",
        "text-*.safetensors",
        "model.onnx",
        "terms.json",
        "manifest.json",
        "student/student.json",
        "student/student.safetensors",
    )
    # models that no epsilon covers, but for the student that is kept until the run is finished
    models = OwnFiles("models", "*/student.json", "*/student.safetensors", "*/trained.json")
    all_records_model = OwnFiles("all_records_model", "student.json", "student.safetensors")
    tensorboard = OwnFiles("tensorboard")
    # the report as a page, and as JSON: the last file of a run, so that its presence means completion
    page = OwnFile("report.html")
    report = OwnFile("report.json")
    manifest = OwnFile(MANIFEST)
    # the runs that compete for a tuned release, which are removed when the best is known
    runs = OwnFiles("runs")
    # of a release of votes that others cast, and of a holder's votes
    terms = OwnFile("terms.json")
    cast_digest = OwnFile("cast.sha256")
    pool_answers = OwnFiles("", "beyond_*.npz")

    @property
    def is_claimed(self) -> bool:
        """Returns True if a run has claimed the folder, whether that run is finished or not."""
        return os.path.lexists(self.settings_file)

    @contextmanager
    def opened(self, settings: dict[str, Any]) -> Iterator[None]:
        """Locks the folder while a `with` block runs, if the folder is new or belongs to a run with these settings.

        Half-written files of a killed run are removed before the block begins. If the block does not call `claim`, an
        existing folder is left as it was, and a folder that was made for the block is removed.

        Args:
            settings: the settings of the run as plain values, as `claim` writes them.

        Raises:
            InvalidValue: another process works on the folder; or the folder belongs to a run with other settings; or it
                holds something that no run has written, such as a link.
        """
        existing_parent = next(
            parent for parent in (self.path, *self.path.parents) if parent.exists()
        )
        try:
            make_folder(self.path)
        except (FileExistsError, NotADirectoryError) as error:
            raise InvalidValue("output_dir", self.path, rule="a folder, found a file") from error
        lock = self.lock
        try:
            names = sorted(entry.name for entry in self.path.iterdir())
            # A call may have been killed while it wrote the settings.
            half_written = re.compile(rf"\.{re.escape(self.settings_file.name)}\.\d+\.partial")
            strange = [
                name for name in names if name != lock.name and not half_written.fullmatch(name)
            ]
            if strange and not self.is_claimed:
                rule = (
                    f"a new folder or a run's own, found {strange[0]} in it, "
                    f"and no {self.settings_file.name}"
                )
                raise InvalidValue("output_dir", self.path, rule=rule)
            require_no_links(self.path, "output_dir")
            with ExitStack() as stack:
                is_new_lock = not os.path.lexists(lock)
                try:
                    stack.enter_context(file_lock(lock, wait=False))
                except BlockingIOError as error:
                    rule = "a folder that no other run works on"
                    raise InvalidValue("output_dir", self.path, rule=rule) from error
                try:
                    if self.is_claimed:
                        self._check_settings(settings)
                        self.remove_partials()
                    yield
                finally:
                    if is_new_lock and not self.is_claimed:
                        lock.unlink(missing_ok=True)
        finally:
            if not self.is_claimed:
                path = self.path
                with suppress(OSError):  # a folder that is not empty stays, with all its parents
                    while path != existing_parent:
                        path.rmdir()
                        path = path.parent

    @property
    def has_begun(self) -> bool:
        """Returns True if a run in this folder has trained or drawn anything.

        A folder for which this is true also has the keys of the run's draws.
        """
        paths = (
            self.training_secret,
            self.partition,
            self.release / "release.npz",
            self.own_ledger,
        )
        return any(map(os.path.lexists, paths))

    def claim(self, settings: dict[str, Any], **digests: str) -> None:
        """Marks the folder as the folder of this run, and makes it readable by its owner alone.

        A run calls this method when all checks have shown that it can work.

        Args:
            settings: the settings as plain values, which a later call for this folder has to repeat.
            **digests: the SHA-256 digests, in hexadecimal, of data that the run depends on. They have the names
                `data`, `release` and `private`. Nobody but the owner may see them.

        Raises:
            InvalidValue: the run began with other digests, or the file of such a digest is gone.
        """
        os.chmod(self.path, OWNER_FOLDER_MODE)
        if not self.is_claimed:
            self.remove_partials()  # of a call that was killed before it claimed the folder
            write_text(self.settings_file, text=json.dumps(settings, indent=2) + "\n")
        names_at_begin = {
            self.lock.name,
            self.settings_file.name,
            *(f"{name}.sha256" for name in digests),
        }
        has_begun = any(entry.name not in names_at_begin for entry in self.path.iterdir())
        for name, digest in digests.items():
            path = self.path / f"{name}.sha256"
            if not has_begun and not os.path.lexists(path):
                write_text(path, text=digest + "\n")
            digest_at_begin = read_text(
                path, rule=f"the digest of the {name}", remedy=_BEGIN_ANEW
            ).strip()
            is_hexadecimal = set(digest_at_begin) <= set("0123456789abcdef")
            if len(digest_at_begin) != len(digest) or not is_hexadecimal:
                raise damaged(
                    path, rule=f"the digest of the {name}", finding="it is none", remedy=_BEGIN_ANEW
                )
            rule = (
                f"the {name} that this run began with, by {path}; a new output_dir for another, or "
                "the version of pate that began it"
            )
            require(digest_at_begin == digest, name, "another", rule)

    def digest_of_data(self) -> str:
        """Returns the digest of the data that the run began with.

        Raises:
            DamagedFile: the file of the digest is missing or is no text.
        """
        return read_text(
            self.data_digest, rule="the digest of the data", remedy=_BEGIN_ANEW
        ).strip()

    def write_manifests(self, report: str) -> None:
        """Writes the public manifest of `release/`, then the manifest of the run, and at last `report.json`.

        All other files must have been written before. As `report.json` is written last, its presence proves that the
        run is complete. The manifest of the run also lists the digest of the public manifest.

        Args:
            report: the text of `report.json`.
        """
        published_names = _file_names(folder=self.release)
        Manifest.from_files(self.release, published_names, remedy=_OR_ANEW).write(self.release)
        own_names = [self.page.name, *self._release_names()]
        digests = dict(Manifest.from_files(self.path, own_names, remedy=_OR_ANEW).sha256)
        digests[self.report.name] = hashlib.sha256(report.encode()).hexdigest()
        Manifest(manifest=1, sha256=digests).write(self.path)

    def require_manifest(self) -> None:
        """Raises `InvalidValue` if a listed file of a finished run changed or is gone, or `release/` has a new file.

        The run's manifest lists `report.json`, `report.html` and all files of `release/`.
        """
        path = self.manifest
        if not os.path.lexists(path):
            rule = "the digests of a finished run; remove report.json and run again"
            raise InvalidValue(
                "manifest", path, rule=f"{rule}: the same release, at no cost, is then checked"
            )
        digests = Manifest.read(
            self.path, rule="the digests of a finished run", remedy=_OR_AGAIN
        ).sha256
        for name, digest in digests.items():
            file = self.path / name
            remedy = _REMEDY_OF_FILE.get(name, _OR_AGAIN)
            require(
                is_regular(file),
                "manifest",
                file,
                f"a file of this finished run, which is gone; {remedy}",
            )
            is_same = file_digest(file, remedy=_OR_ANEW) == digest
            require(is_same, "manifest", file, f"the file as this finished run left it; {remedy}")
        for name in self._release_names():
            rule = "no file that the run did not publish; move it elsewhere"
            require(name in digests, "manifest", self.path / name, rule)

    def _release_names(self) -> list[str]:
        """Returns the names of all files of `release/`, relative to the run's folder, the manifest last."""
        return [
            f"{self.release.name}/{name}" for name in (*_file_names(folder=self.release), MANIFEST)
        ]

    def _check_settings(self, settings: dict[str, Any]) -> None:
        """Raises `InvalidValue`, which shows the differing settings, if this folder's run began with other settings."""
        path = self.settings_file
        stored = read_json(path, rule="the settings of the run", remedy=_BEGIN_ANEW)
        if not isinstance(stored, dict):
            raise damaged(
                path, rule="the settings of the run", finding="no JSON object", remedy=_BEGIN_ANEW
            )
        old = _settings_by_name(stored)
        # tuples become lists, as in the file
        new = _settings_by_name(json.loads(json.dumps(settings)))
        if old == new:
            return
        differing = [
            f"{name}={value}" for name, value in sorted(old.items()) if new.get(name) != value
        ]
        differences = shorten(", ".join(differing), _MAX_SHOWN, placeholder=" …")
        differences = differences or "other settings, or those of another version"
        rule = f"a new folder or this run's own, found a run with {differences}"
        raise InvalidValue("output_dir", self.path, rule=rule)


def _file_names(folder: Path) -> list[str]:
    """Returns the names of all files below a folder, relative to the folder, without its manifest."""
    paths = [path for path in folder.rglob("*") if not path.is_dir()]
    names = {path.relative_to(folder).as_posix() for path in paths}
    return sorted(names - {MANIFEST})


def _settings_by_name(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings that are not null, by their names on a command line, such as `teacher.epochs`.

    A new version of pate may add a setting. Such a setting is null by default, so runs of earlier versions can
    continue.
    """
    return {name: value for name, value in _named_settings(settings) if value is not None}


def _named_settings(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each setting with its dotted name, such as `teacher.epochs`; `prefix` begins each name."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _named_settings(value, prefix=f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
