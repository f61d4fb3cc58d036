"""Digests of what a finished run left, without which nobody says that it is finished."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from pate.files.disk import MANIFEST, Manifest, is_regular
from pate.files.disk import file_digest as digest_of
from pate.run.folder import RunFolder
from pate.validation import InvalidValue, require

_RESTORE = "restore it from a backup"
_AGAIN = "or remove report.json and run again: the same release, at no cost"
_KEPT = ("ledger.db", "release/release.npz")  # which no run makes again


def write_manifests(folder: RunFolder, report: str) -> None:
    """The public one of `release/`, and that of the run, which holds it and the report that is still to be written.

    Args:
        folder: the run's; all other files are written.
        report: the text of `report.json`, which comes last and says that the run is complete.
    """
    remedy = f"{_RESTORE}, or begin anew in another output_dir"
    Manifest.of(folder.release, _names(folder.release), remedy=remedy).write(folder.release)
    own = [folder.ledger.name, "report.html", *(f"{folder.release.name}/{name}" for name in _released(folder))]
    listed = Manifest.of(folder.path, own, remedy=remedy).sha256
    digest = hashlib.sha256(report.encode()).hexdigest()
    Manifest(1, {**listed, folder.report.name: digest}).write(folder.path)


def require_manifest(folder: RunFolder) -> None:
    """Raises unless every file of a finished run is what it was when the run ended, and `release/` holds no other."""
    path = folder.path / MANIFEST
    if not os.path.lexists(path):
        rule = "the digests of a finished run; remove report.json and run again"
        raise InvalidValue(f"manifest={path}: expected {rule}: the same release, at no cost, is then checked")
    rule, remedy = "the digests of a finished run", f"{_RESTORE}, {_AGAIN}"
    listed = Manifest.read(folder.path, rule=rule, remedy=remedy).sha256
    for name, known in listed.items():
        file, remedy = folder.path / name, _RESTORE if name in _KEPT else f"{_RESTORE}, {_AGAIN}"
        require(is_regular(file), "manifest", file, f"a file of this finished run, which is gone; {remedy}")
        require(file_digest(file) == known, "manifest", file, f"the file as this finished run left it; {remedy}")
    for name in _released(folder):
        inside = f"{folder.release.name}/{name}"
        rule = "no file that the run did not publish; move it elsewhere"
        require(inside in listed, "manifest", folder.path / inside, rule)


def _released(folder: RunFolder) -> list[str]:
    return [*_names(folder.release), MANIFEST]


def _names(folder: Path) -> list[str]:
    """All files below a folder but its manifest, relative to it."""
    paths = (path for path in folder.rglob("*") if not path.is_dir())
    return sorted(name for path in paths if (name := path.relative_to(folder).as_posix()) != MANIFEST)


def file_digest(path: Path) -> str:
    """SHA-256 of a file of a run, in hexadecimal."""
    return digest_of(path, remedy=f"{_RESTORE}, or begin anew in another output_dir")
