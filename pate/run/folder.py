"""The folder of a run: the names of its files, and what may be published apart from what is the owner's alone."""

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

from pate.files import disk
from pate.files.manifest import MANIFEST, Manifest
from pate.run.owned_folder import OwnedFolder, OwnFile, OwnFiles
from pate.validation import InvalidValue, require

_MOST_SHOWN = 400
_BEGIN_ANEW = f"{disk.FROM_BACKUP}; a new output_dir starts over, and pays again"
_OR_ANEW = f"{disk.FROM_BACKUP}, or begin anew in another output_dir"
_OR_AGAIN = f"{disk.FROM_BACKUP}, or remove report.json and run again: the same release, at no cost"
_KEPT = {  # which no run makes again
    "ledger.db": f"{disk.FROM_BACKUP}, unless pate-account shows charges of others in it: these have to stay",
    "release/release.npz": disk.FROM_BACKUP,
}


class EnsembleFolder(OwnedFolder):
    """The folder of an ensemble: functions of private records without noise, the owner's alone."""

    training_secret = OwnFile("training.secret")  # all random numbers but the noise come from it
    partition = OwnFile("partition.json")  # which teacher has which record
    teachers = OwnFiles("teachers", "teachers-*-*.safetensors")
    teachers_key = OwnFile("teachers.key")  # that `CheckpointStore` signs with
    confidences = OwnFiles("casting", "confidences-*.npz")  # of teachers, while they vote
    votes = OwnFile("votes.npz")  # of all teachers on all queries


class RunFolder(EnsembleFolder):
    """The folder of a run. Only `release/` may leave the house; the folder itself has mode 0700."""

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
    # of a release of votes that others cast, and of a holder's votes
    terms = OwnFile("terms.json")
    cast_digest = OwnFile("cast.sha256")
    pool_answers = OwnFiles("", "beyond_*.npz")

    @property
    def is_claimed(self) -> bool:
        """Whether a run works or worked here."""
        return os.path.lexists(self.settings_file)

    @contextmanager
    def opened(self, settings: dict[str, Any]) -> Iterator[None]:
        """Holds the folder's lock, checks that it is this run's or new, and clears what a killed run half-wrote.

        A folder that is not claimed is left as it was, and one that was made for this is removed again. `settings` are
        plain values. Raises where another process works on the folder, or it holds something else, such as a link.
        """
        above = next(parent for parent in (self.path, *self.path.parents) if parent.exists())
        try:
            disk.make_folder(self.path)
        except (FileExistsError, NotADirectoryError) as error:
            raise InvalidValue("output_dir", self.path, rule="a folder, found a file") from error
        lock = self.lock
        try:
            names = sorted(entry.name for entry in self.path.iterdir())
            # of a call that was killed while it wrote the settings
            half_written = re.compile(rf"\.{re.escape(self.settings_file.name)}\.\d+\.partial")
            strange = [
                name for name in names if name != lock.name and not half_written.fullmatch(name)
            ]
            if strange and not self.is_claimed:
                rule = f"a new folder or a run's own, found {strange[0]} in it"
                rule += f", and no {self.settings_file.name}"
                raise InvalidValue("output_dir", self.path, rule=rule)
            disk.require_no_links(self.path, "output_dir")
            with ExitStack() as stack:
                new = not os.path.lexists(lock)
                try:
                    stack.enter_context(disk.locked(lock, wait=False))
                except BlockingIOError as error:
                    rule = "a folder that no other run works on"
                    raise InvalidValue("output_dir", self.path, rule=rule) from error
                try:
                    if self.is_claimed:
                        self._check_settings(settings)
                        self.remove_partials()
                    yield
                finally:
                    if new and not self.is_claimed:
                        lock.unlink(missing_ok=True)
        finally:
            if not self.is_claimed:
                path = self.path
                with suppress(OSError):  # one that is not empty stays, and those above it
                    while path != above:
                        path.rmdir()
                        path = path.parent

    @property
    def has_begun(self) -> bool:
        """Whether a run here came as far as to train or to draw, so it has keys of its draws, too."""
        paths = (
            self.training_secret,
            self.partition,
            self.release / "release.npz",
            self.own_ledger,
        )
        return any(map(os.path.lexists, paths))

    def claim(self, settings: dict[str, Any], **began_with: str) -> None:
        """Makes the folder this run's and its owner's alone, once it is clear that the run can work.

        `began_with` are digests of what the settings cannot show, the owner's alone: the data, the release. Raises
        `InvalidValue` where the run began with something else, or what it began with is gone.
        """
        os.chmod(self.path, disk.OWNERS_FOLDER)
        if not self.is_claimed:
            self.remove_partials()  # of a call that was killed here
            disk.write_text(self.settings_file, json.dumps(settings, indent=2) + "\n")
        known = {
            self.lock.name,
            self.settings_file.name,
            *(f"{name}.sha256" for name in began_with),
        }
        begun = any(entry.name not in known for entry in self.path.iterdir())
        for name, digest in began_with.items():
            path = self.path / f"{name}.sha256"
            if not begun and not os.path.lexists(path):
                disk.write_text(path, digest + "\n")
            found = disk.read_text(
                path, rule=f"the digest of the {name}", remedy=_BEGIN_ANEW
            ).strip()
            if len(found) != len(digest) or not set(found) <= set("0123456789abcdef"):
                raise disk.damaged(path, f"the digest of the {name}", "it is none", _BEGIN_ANEW)
            rule = (
                f"the {name} that this run began with, by {path}; a new output_dir for another, or"
            )
            rule += " the version of pate that began it"
            require(found == digest, name, "another", rule)

    def digest_of_data(self) -> str:
        """Returns the digest of the data that the run began with; raises where it is gone."""
        return disk.read_text(
            self.data_digest, rule="the digest of the data", remedy=_BEGIN_ANEW
        ).strip()

    def write_manifests(self, report: str) -> None:
        """The public one of `release/`, and that of the run, which holds it and the text of the report to be written.

        All other files are there; `report.json` comes last and says that the run is complete.
        """
        Manifest.of(self.release, _names(self.release), remedy=_OR_ANEW).write(self.release)
        own = Manifest.of(self.path, [self.page.name, *self._released()], remedy=_OR_ANEW).sha256
        Manifest(1, {**own, self.report.name: hashlib.sha256(report.encode()).hexdigest()}).write(
            self.path
        )

    def require_manifest(self) -> None:
        """Raises unless all files of a finished run are as it left them, and `release/` holds no other."""
        path = self.manifest
        if not os.path.lexists(path):
            rule = "the digests of a finished run; remove report.json and run again"
            raise InvalidValue(
                "manifest", path, rule=f"{rule}: the same release, at no cost, is then checked"
            )
        listed = Manifest.read(
            self.path, rule="the digests of a finished run", remedy=_OR_AGAIN
        ).sha256
        for name, known in listed.items():
            file = self.path / name
            remedy = _KEPT.get(name, _OR_AGAIN)
            require(
                disk.is_regular(file),
                "manifest",
                file,
                f"a file of this finished run, which is gone; {remedy}",
            )
            found = disk.file_digest(file, remedy=_OR_ANEW)
            require(
                found == known, "manifest", file, f"the file as this finished run left it; {remedy}"
            )
        for name in self._released():
            rule = "no file that the run did not publish; move it elsewhere"
            require(name in listed, "manifest", self.path / name, rule)

    def _released(self) -> list[str]:
        """All files of `release/`, the manifest last."""
        return [f"{self.release.name}/{name}" for name in (*_names(self.release), MANIFEST)]

    def _check_settings(self, settings: dict[str, Any]) -> None:
        path = self.settings_file
        wanted = json.loads(json.dumps(settings))
        found = disk.read_json(path, rule="the settings of the run", remedy=_BEGIN_ANEW)
        if not isinstance(found, dict):
            raise disk.damaged(path, "the settings of the run", "no JSON object", _BEGIN_ANEW)
        began_with = _given(found)
        asked = _given(wanted)
        if began_with != asked:
            different = (
                pair for pair in sorted(began_with.items()) if asked.get(pair[0]) != pair[1]
            )
            there = ", ".join(f"{key}={value}" for key, value in different)
            shown = (
                shorten(there, _MOST_SHOWN, placeholder=" …")
                or "other settings, or those of another version"
            )
            rule = f"a new folder or this run's own, found a run with {shown}"
            raise InvalidValue("output_dir", self.path, rule=rule)


def _names(folder: Path) -> list[str]:
    """All files below a folder but its manifest, relative to it."""
    paths = (path for path in folder.rglob("*") if not path.is_dir())
    return sorted(
        name for path in paths if (name := path.relative_to(folder).as_posix()) != MANIFEST
    )


def _given(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings that are not null, by name: a later version has more of those that are.

    A setting that a version adds is null where it changes nothing, so a run of an earlier one goes on.
    """
    return {name: value for name, value in _leaves(settings) if value is not None}


def _leaves(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each setting by the name that a command line gives it."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
