"""The folder of a run: the names of its files, its lock, and the digests that it began and ended with.

`release/` alone may be published. All other files are the owner's, and are written with mode 0600 or 0700.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
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
from pate.run.owned_folder import OwnedFolder, OwnFile, OwnSubfolder
from pate.validation import InvalidValue

# An error lists differing settings in at most this many characters.
_MAX_SHOWN = 400
# Remedies for files that are damaged or gone.
_RESTORE_OR_PAY_AGAIN = f"{FROM_BACKUP}; a new output_dir starts over, and pays again"
_RESTORE_OR_NEW_FOLDER = f"{FROM_BACKUP}, or begin anew in another output_dir"
_RESTORE_OR_RUN_AGAIN = (
    f"{FROM_BACKUP}, or remove report.json and run again: the same release, at no cost"
)
# The remedies for files that no run can make again, by name. Manifests of runs of earlier versions list the ledger.
_REMEDY_OF_FILE = {
    "ledger.db": f"{FROM_BACKUP}, unless pate-account shows charges of others in it: these have to stay",
    "release/release.npz": FROM_BACKUP,
}


class EnsembleFolder(OwnedFolder):
    """The folder of an ensemble, which only its owner may see: no noise protects the private records in it.

    Attributes:
        training_secret: the secret from which a run without a seed computes all random numbers except the noise.
        partition: the teacher of each private record.
        teachers: the checkpoints of the trained teachers.
        teachers_key: the key with which `CheckpointStore` signs checkpoints.
        confidences: a scratch folder of the teachers' confidences, which exists while teachers vote.
        votes: the votes of all teachers on all queries.
    """

    training_secret = OwnFile("training.secret")
    partition = OwnFile("partition.json")
    teachers = OwnSubfolder("teachers", patterns=("teachers-*-*.safetensors",))
    teachers_key = OwnFile("teachers.key")
    confidences = OwnSubfolder("casting", patterns=("confidences-*.npz",))
    votes = OwnFile("votes.npz")


class RunFolder(EnsembleFolder):
    """The folder of a run. Only its subfolder `release/` may be given to others; the folder itself has mode 0700.

    Attributes:
        lock: the lock of the process that works on the folder.
        settings_file: the settings of the run.
        data_digest: the digest of the data set that the run began with.
        private_digest: the digest of the private records that the run began with.
        priced_release_digest: the identity of the priced release that the run began with.
        stamps_of_sources: the sizes and times of the files that the data were read from.
        run_id: the keys of the run's draws in its ledger.
        pointer_to_ledger: the path and the identity of the run's ledger, which lies outside of the folder.
        own_ledger: a ledger of this run alone, as earlier versions of pate made one; it is read and not written.
        own_large_parts: the large parts of draws in `own_ledger`.
        release: the files that may be published under the stated epsilon.
        models: trained students, which are kept until the run is finished; no epsilon covers most of them.
        all_records_model: the model of all private records; no epsilon covers it.
        tensorboard: the curves of the run.
        page: the report as a page.
        report: the report as JSON. It is written last, so its presence means that the run is complete.
        run_manifest: the digests of the files of a finished run.
        runs: the runs that compete for a tuned release; they are removed when the best run is known.
        terms: the terms of a release of votes that other processes cast.
        cast_digest: the digest of the votes of one holder.
        pool_answers: the answers of one holder's teachers to public samples.
    """

    lock = OwnFile("run.lock")
    settings_file = OwnFile("run.json")
    data_digest = OwnFile("data.sha256")
    private_digest = OwnFile("private.sha256")
    priced_release_digest = OwnFile("release.sha256")
    stamps_of_sources = OwnFile("sources.json")
    run_id = OwnFile("run.id")
    pointer_to_ledger = OwnFile("ledger.json")
    own_ledger = OwnFile("ledger.db")
    own_large_parts = OwnSubfolder("ledger.db.releases", patterns=("*",))
    release = OwnSubfolder(
        "release",
        patterns=(
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
        ),
    )
    models = OwnSubfolder(
        "models",
        patterns=(
            "*/student.json",
            "*/student.safetensors",
            "*/trained.json",
        ),
    )
    all_records_model = OwnSubfolder(
        "all_records_model",
        patterns=(
            "student.json",
            "student.safetensors",
        ),
    )
    tensorboard = OwnSubfolder("tensorboard")
    page = OwnFile("report.html")
    report = OwnFile("report.json")
    run_manifest = OwnFile(MANIFEST)
    runs = OwnSubfolder("runs")
    terms = OwnFile("terms.json")
    cast_digest = OwnFile("cast.sha256")
    pool_answers = OwnSubfolder("", patterns=("beyond_*.npz",))

    @property
    def release_file(self) -> Path:
        """The file of what was released, in `release`."""
        return self.release / "release.npz"

    @property
    def real_parent(self) -> Path:
        """The parent of the run's folder after all links are followed: of a linked folder, the parent of the target."""
        real_run_folder = Path(os.path.realpath(self.path))
        return real_run_folder.parent

    @property
    def is_claimed(self) -> bool:
        """Returns True if a run has claimed the folder, whether that run is finished or not."""
        return os.path.lexists(self.settings_file)

    @contextmanager
    def lock_for(self, settings: dict[str, Any]) -> Iterator[None]:
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
            self._require_new_or_claimed()
            require_no_links(self.path, name="output_dir")
            with ExitStack() as stack:
                is_new_lock = not os.path.lexists(lock)
                try:
                    stack.enter_context(file_lock(lock, wait=False))
                except BlockingIOError as error:
                    rule = "a folder that no other run works on"
                    raise InvalidValue("output_dir", self.path, rule=rule) from error
                try:
                    if self.is_claimed:
                        self._require_same_settings(settings)
                        self.remove_partials()
                    yield
                finally:
                    if is_new_lock and not self.is_claimed:
                        lock.unlink(missing_ok=True)
        finally:
            if not self.is_claimed:
                self._remove_empty(stop_at=existing_parent)

    def _require_new_or_claimed(self) -> None:
        """Raises `InvalidValue` if no run has claimed the folder, but it holds more than a run's first files."""
        names = sorted(entry.name for entry in self.path.iterdir())
        # A call may have been killed while it wrote the settings.
        half_written = re.compile(rf"\.{re.escape(self.settings_file.name)}\.\d+\.partial")
        strange = [
            name for name in names if name != self.lock.name and not half_written.fullmatch(name)
        ]
        if strange and not self.is_claimed:
            rule = (
                f"a new folder or a run's own, found {strange[0]} in it, "
                f"and no {self.settings_file.name}"
            )
            raise InvalidValue("output_dir", self.path, rule=rule)

    def _remove_empty(self, stop_at: Path) -> None:
        """Removes the folder and its parents below `stop_at`, as far as they are empty; `stop_at` itself stays."""
        path = self.path
        with suppress(OSError):  # a folder that is not empty stays, with all its parents
            while path != stop_at:
                path.rmdir()
                path = path.parent

    @property
    def has_begun(self) -> bool:
        """Returns True if the folder has a file that a run writes when it begins to train or to draw its release.

        A run that is charged to a ledger writes the file `run_id` before any of these files. It has the keys under
        which the ledger stores the run's draws, and no seeds. So if the result is True for such a run and `run_id` is
        missing, the keys were lost. A folder in which a holder only casts votes has no ledger and no keys.
        """
        first_files = (
            self.training_secret,
            self.partition,
            self.release_file,
            self.own_ledger,
        )
        return any(map(os.path.lexists, first_files))

    def claim(self, settings: dict[str, Any], *, digests: Mapping[str, str]) -> None:
        """Marks the folder as the folder of this run, and makes it readable by its owner alone.

        A run calls this method when all checks have shown that it can work.

        Args:
            settings: the settings as plain values, which a later call for this folder has to repeat.
            digests: the SHA-256 digests, in hexadecimal, of data that the run depends on, by the names `data`,
                `release` and `private`. Nobody but the owner may see them.

        Raises:
            InvalidValue: the run began with other digests, or the file of such a digest is gone.
        """
        os.chmod(self.path, OWNER_FOLDER_MODE)
        if not self.is_claimed:
            # A call that was killed before it claimed the folder may have left half-written files.
            self.remove_partials()
            write_text(self.settings_file, text=json.dumps(settings, indent=2) + "\n")
        names_at_begin = {
            self.lock.name,
            self.settings_file.name,
            *(f"{name}.sha256" for name in digests),
        }
        has_later_files = any(entry.name not in names_at_begin for entry in self.path.iterdir())
        for name, new_digest in digests.items():
            digest_file = self.path / f"{name}.sha256"
            if not has_later_files and not os.path.lexists(digest_file):
                write_text(digest_file, text=new_digest + "\n")
            _require_digest(digest_file, digest=new_digest, digest_name=name)

    def read_data_digest(self) -> str:
        """Returns the digest of the data that the run began with, from the file `data_digest`.

        Raises:
            DamagedFile: the file of the digest is missing or is no text.
        """
        return read_text(
            self.data_digest, rule="the digest of the data", remedy=_RESTORE_OR_PAY_AGAIN
        ).strip()

    def write_manifests(self, report_json: str) -> None:
        """Writes the public manifest of `release/`, and then the manifest of the run.

        All files but `report.json` must have been written before. The caller writes that file afterwards, as the last
        one, so its presence proves that the run is complete. The manifest of the run lists its digest already, and
        that of the public manifest.

        Args:
            report_json: the text that `report.json` will have.
        """
        published_file_names = _file_names(folder=self.release)
        Manifest.from_files(
            self.release, published_file_names, missing_file_remedy=_RESTORE_OR_NEW_FOLDER
        ).write(self.release)
        own_file_names = [self.page.name, *self._release_names()]
        digests = dict(
            Manifest.from_files(
                self.path, own_file_names, missing_file_remedy=_RESTORE_OR_NEW_FOLDER
            ).sha256
        )
        digests[self.report.name] = hashlib.sha256(report_json.encode()).hexdigest()
        Manifest(manifest=1, sha256=digests).write(self.path)

    def require_manifest(self) -> None:
        """Raises `InvalidValue` if a listed file of a finished run changed or is gone, or `release/` has a new file.

        The run's manifest lists `report.json`, `report.html` and all files of `release/`.
        """
        path = self.run_manifest
        if not os.path.lexists(path):
            rule = "the digests of a finished run; remove report.json and run again"
            raise InvalidValue(
                "manifest", path, rule=f"{rule}: the same release, at no cost, is then checked"
            )
        digests = Manifest.read(
            self.path, rule="the digests of a finished run", remedy=_RESTORE_OR_RUN_AGAIN
        ).sha256
        for name, digest in digests.items():
            file = self.path / name
            remedy = _REMEDY_OF_FILE.get(name, _RESTORE_OR_RUN_AGAIN)
            if not is_regular(file):
                rule = f"a file of this finished run, which is gone; {remedy}"
                raise InvalidValue("manifest", file, rule=rule)
            if file_digest(file, remedy=_RESTORE_OR_NEW_FOLDER) != digest:
                rule = f"the file as this finished run left it; {remedy}"
                raise InvalidValue("manifest", file, rule=rule)
        for name in self._release_names():
            if name not in digests:
                rule = "no file that the run did not publish; move it elsewhere"
                raise InvalidValue("manifest", self.path / name, rule=rule)

    def _release_names(self) -> list[str]:
        """Returns the names of all files of `release/`, such as `release/privacy.json`, with its manifest last."""
        return [
            f"{self.release.name}/{name}" for name in (*_file_names(folder=self.release), MANIFEST)
        ]

    def _require_same_settings(self, settings: dict[str, Any]) -> None:
        """Raises `InvalidValue`, which shows the differing settings, if this folder's run began with other settings."""
        settings_file = self.settings_file
        settings_in_file = read_json(
            settings_file, rule="the settings of the run", remedy=_RESTORE_OR_PAY_AGAIN
        )
        if not isinstance(settings_in_file, dict):
            raise damaged(
                settings_file,
                rule="the settings of the run",
                finding="no JSON object",
                remedy=_RESTORE_OR_PAY_AGAIN,
            )
        stored_settings = _settings_by_name(nested_settings=settings_in_file)
        # tuples become lists, as in the file
        settings_now = _settings_by_name(nested_settings=json.loads(json.dumps(settings)))
        if stored_settings == settings_now:
            return
        differing = [
            f"{name}={value}"
            for name, value in sorted(stored_settings.items())
            if settings_now.get(name) != value
        ]
        differences = shorten(", ".join(differing), _MAX_SHOWN, placeholder=" …")
        differences = differences or "other settings, or those of another version"
        rule = f"a new folder or this run's own, found a run with {differences}"
        raise InvalidValue("output_dir", self.path, rule=rule)


def _require_digest(digest_file: Path, *, digest: str, digest_name: str) -> None:
    """Raises `InvalidValue` if the digest that a run began with differs from the one that it needs now.

    Args:
        digest_file: the file of the digest that the run began with.
        digest: the digest that the run needs now.
        digest_name: the data that the digest is of: `data`, `release` or `private`.
    """
    rule = f"the digest of the {digest_name}"
    digest_at_begin = read_text(digest_file, rule=rule, remedy=_RESTORE_OR_PAY_AGAIN).strip()
    is_hexadecimal = set(digest_at_begin) <= set("0123456789abcdef")
    if len(digest_at_begin) != len(digest) or not is_hexadecimal:
        raise damaged(digest_file, rule=rule, finding="it is none", remedy=_RESTORE_OR_PAY_AGAIN)
    if digest_at_begin != digest:
        raise InvalidValue(
            digest_name,
            "another",
            rule=f"the {digest_name} that this run began with, by {digest_file}; a new output_dir for another, or the "
            "version of pate that began it",
        )


def _file_names(folder: Path) -> list[str]:
    """Returns the sorted names of all files below a folder, relative to the folder, without its manifest."""
    file_paths = [path for path in folder.rglob("*") if not path.is_dir()]
    names = {path.relative_to(folder).as_posix() for path in file_paths}
    return sorted(names - {MANIFEST})


def _settings_by_name(nested_settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings that are not null, by their names on a command line, such as `teacher.epochs`.

    A new version of pate may add a setting. Such a setting is null by default, so runs of earlier versions can
    continue.
    """
    return {name: value for name, value in _named_settings(nested_settings) if value is not None}


def _named_settings(
    nested_settings: dict[str, Any], name_prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yields each setting with its dotted name, such as `teacher.epochs`; `name_prefix` begins each name."""
    for key, value in nested_settings.items():
        if isinstance(value, dict):
            yield from _named_settings(value, name_prefix=f"{name_prefix}{key}.")
        else:
            yield f"{name_prefix}{key}", value
