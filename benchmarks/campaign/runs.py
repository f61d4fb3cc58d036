"""The runs that are attacked, how they end when nobody does, and what is wrong with one that ended otherwise."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.campaign.tally import LOW_PRICE, TRACEBACK, UNCLEAR, WRONG_RELEASE, Finding
from benchmarks.campaign.warm import Child, Ended, command

_SIZE = (
    *(
        "data=digits_grid",
        "data.num_private=120",
        "data.num_public=30",
        "data.num_test=20",
        "num_queries=20",
    ),
    # small runs, which teach no student
    *("all_records=false", "allow_useless=true", "accountant=rdp"),
)
_TEACHERS = "teacher.num_teachers=8"
SETTINGS = {
    "labels": (_TEACHERS, "aggregator=gaussian_votes", "target_epsilon=200"),
    "top_k": (
        _TEACHERS,
        "aggregator=stable_top_k",
        "aggregator.selection_scale=2",
        "aggregator.test_std=1",
        "noise=given",
    ),
    "session": (
        _TEACHERS,
        "aggregator=stable_top_k_boundary",
        "aggregator.target_hits=5",
        "target_epsilon=200",
    ),
    "centered": (
        "aggregator=centered_votes",
        "teacher=kernel",
        "student=low_rank",
        "target_epsilon=20",
    ),
}
_SLACK = 1e-9
RUN = "run"  # the folder of a run, in a folder that holds its ledger too
_LONGEST_LINE = 1500


@dataclass(frozen=True)
class Kind:
    """A run by its settings."""

    name: str  # of the settings
    seed: int | None = 1  # None for a run whose noise comes from the operating system

    def start(self, folder: Path, prepare: Callable[[], None] | None = None) -> Child:
        """Starts or continues the run, whose ledger lies in the folder, beside the run's own folder."""
        seed = () if self.seed is None else (f"seed={self.seed}",)
        return command(
            "train", (*_SIZE, *SETTINGS[self.name], *seed, f"output_dir={folder / RUN}"), prepare
        )

    def kill(self, folder: Path, after: float) -> None:
        """Starts or continues it and kills it after so many seconds, if it has not ended."""
        child = self.start(folder)
        moment = time.monotonic() + after
        while time.monotonic() < moment and not child.ended():
            time.sleep(0.001)
        child.kill()
        child.wait()


@dataclass(frozen=True)
class Truth:
    """What an undisturbed run left."""

    epsilon: float  # of its report: the price
    charges: list[str]  # the event of each
    release: bytes | None  # the bytes; None where another run's noise is another's
    duration_s: float  # how long it took

    @classmethod
    def of(cls, kind: Kind, folder: Path) -> Truth:
        """Runs it undisturbed."""
        started = time.monotonic()
        ended = kind.start(folder).wait()
        duration = time.monotonic() - started
        if ended.code != 0:
            raise RuntimeError(f"an undisturbed run ended with code {ended.code}: {ended.err}")
        release = None if kind.seed is None else release_of(folder)
        return cls(epsilon_of(folder) or 0.0, charges_of(folder), release, duration)


def moved(folder: Path) -> None:
    """Makes a copied run and its copied ledger belong together: the run's folder names the place of its ledger."""
    path = folder / RUN / "ledger.json"
    if path.is_file():
        place = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps(place | {"path": str(folder / "ledger.db")}), encoding="utf-8")


def release_of(folder: Path) -> bytes | None:
    """The bytes of what is published, or None."""
    path = folder / RUN / "release" / "release.npz"
    return path.read_bytes() if path.is_file() else None


def epsilon_of(folder: Path) -> float | None:
    """What the report says, None without a report."""
    path = folder / RUN / "report.json"
    return (
        float(json.loads(path.read_text(encoding="utf-8"))["privacy"]["epsilon"])
        if path.is_file()
        else None
    )


Row = tuple[str, str, str, bytes]


def rows_of(folder: Path) -> list[Row]:
    """Key, charge, event and release of each line of the run's ledger that SQLite can read; the file stays as it is.

    Read from a copy, without the package: a transaction that was cut off is rolled back there.
    """
    with tempfile.TemporaryDirectory() as copied:
        for name in ("ledger.db", "ledger.db-journal"):
            if (folder / name).is_file():
                shutil.copyfile(folder / name, Path(copied) / name)
        db = sqlite3.connect(Path(copied) / "ledger.db")
        try:
            found = db.execute(
                "SELECT key, under, event, release FROM line ORDER BY number"
            ).fetchall()
            rows: list[Row] = [
                (key, under, event, drawn if isinstance(drawn, bytes) else b"")
                for key, under, event, drawn in found
            ]
        except (sqlite3.Error, UnicodeDecodeError):
            rows = []
        finally:
            db.close()
    return rows


def charges_of(folder: Path) -> list[str]:
    """The event of each charge."""
    return [event for _, under, event, _ in rows_of(folder) if not under]


def committed(folder: Path) -> dict[str, str]:
    """The digest of what was drawn under each key."""
    return {str(key): hashlib.sha256(release).hexdigest() for key, _, _, release in rows_of(folder)}


def faults_of(
    folder: Path, truth: Truth, kept: Mapping[str, str], shown: bytes | None = None
) -> list[Finding]:
    """What is wrong with a run that ended with code 0.

    Args:
        folder: of the run.
        truth: of an undisturbed one.
        kept: what was committed before it went on, by key.
        shown: the bytes that were published before it went on.
    """
    found = []
    release = release_of(folder)
    for known, whose in (
        (truth.release, "an undisturbed run"),
        (shown, "the one that was published before"),
    ):
        if release is None or (known is not None and release != known):
            found.append(Finding(WRONG_RELEASE, f"release.npz is not that of {whose}"))
    if any(committed(folder).get(key) != digest for key, digest in kept.items()):
        found.append(Finding(WRONG_RELEASE, "what was committed was drawn again"))
    if release is not None and not _is_committed(release, rows_of(folder)):
        found.append(Finding(WRONG_RELEASE, "release.npz is not what was committed"))
    try:
        epsilon = epsilon_of(folder)
    except (ValueError, KeyError, TypeError):
        epsilon = None
    if epsilon is None or epsilon < truth.epsilon * (1 - _SLACK):
        found.append(Finding(LOW_PRICE, f"report.json says epsilon {epsilon} for {truth.epsilon}"))
    found += _card_faults(folder, truth)
    charges = charges_of(folder)
    if len(charges) < len(truth.charges):
        found.append(Finding(LOW_PRICE, f"{len(charges)} charges for {len(truth.charges)}"))
    elif charges != truth.charges:
        found.append(
            Finding(UNCLEAR, f"{len(charges)} charges for {len(truth.charges)}, or others")
        )
    return found


def _is_committed(release: bytes, rows: list[Row]) -> bool:
    """Whether the labels of a file are those that the ledger holds: of the whole release, or of a session's rounds."""
    parts = {key.partition(":")[2]: drawn for key, _, _, drawn in rows}
    names = (
        ["release"]
        if "release" in parts
        else sorted((n for n in parts if n.startswith("round-")), key=_number)
    )
    try:
        said = _labels(release)
        known = np.concatenate([_labels(parts[name]) for name in names])
    except (ValueError, KeyError, OSError):
        return False
    return np.array_equal(said[: len(known)], known) and not said[len(known) :].any()


def _labels(content: bytes) -> Any:
    return np.load(io.BytesIO(content), allow_pickle=False)["labels"]


def _number(name: str) -> int:
    return int(name.removeprefix("round-"))


def _card_faults(folder: Path, truth: Truth) -> list[Finding]:
    path = folder / RUN / "release" / "privacy_card.md"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    said = [float(number) for number in re.findall(r"\| epsilon \| (\d+(?:\.\d+)?) \|", text)]
    if not said or min(said) < truth.epsilon * (1 - _SLACK):
        return [Finding(LOW_PRICE, f"privacy_card.md says {said} for {truth.epsilon}")]
    return []


def unpaid(folder: Path, truth: Truth) -> list[Finding]:
    """What was published before it was paid for, at whatever moment a run was stopped."""
    if release_of(folder) is not None and len(charges_of(folder)) < len(truth.charges):
        return [Finding(LOW_PRICE, "released with fewer charges than the release costs")]
    return []


def refusal_faults(
    ended: Ended, *, codes: tuple[int, ...] = (1, 2), named: tuple[str, ...] = ()
) -> list[Finding]:
    """What is wrong with how a command ended that did not get to its end."""
    if (
        "Traceback (most recent call last)" in ended.err
        or "Traceback (most recent call last)" in ended.out
    ):
        return [Finding(TRACEBACK, f"code {ended.code}: {ended.line[:300]}")]
    if ended.code not in codes:
        return [Finding(UNCLEAR, f"exit code {ended.code}, {ended.line[:300]!r}")]
    if not ended.line or len(ended.line) > _LONGEST_LINE:
        return [Finding(UNCLEAR, f"a line of {len(ended.line)} characters: {ended.line[:100]!r}")]
    if named and not any(name in ended.line for name in named):
        return [Finding(UNCLEAR, f"none of {', '.join(named)} in {ended.line[:300]!r}")]
    return []
