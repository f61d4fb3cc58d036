"""Runs that are attacked: their settings, their undisturbed end, and the faults of a run that ended otherwise."""

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
    "data=digits_grid",
    "data.num_private=120",
    "data.num_public=30",
    "data.num_test=20",
    "num_queries=20",
    # so small a release teaches a student next to nothing
    "all_records=false",
    "allow_useless=true",
    "accountant=rdp",
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
    """A kind of run: its settings and its seed."""

    name: str  # of the settings
    seed: int | None = 1  # None for a run whose noise comes from the operating system

    def arguments(self, folder: Path) -> tuple[str, ...]:
        """Returns the settings of the run, whose ledger lies in the folder, next to the run's own folder."""
        seed = () if self.seed is None else (f"seed={self.seed}",)
        return (*_SIZE, *SETTINGS[self.name], *seed, f"output_dir={folder / RUN}")

    def start(self, folder: Path, prepare: Callable[[], None] | None = None) -> Child:
        """Starts or continues the run."""
        return command(module="train", arguments=self.arguments(folder), prepare=prepare)

    def kill(self, folder: Path, after: float) -> None:
        """Starts or continues the run and kills it after `after` seconds, unless it has ended."""
        child = self.start(folder)
        moment = time.monotonic() + after
        while time.monotonic() < moment and not child.ended():
            time.sleep(0.001)
        child.kill()
        child.wait()


@dataclass(frozen=True)
class Truth:
    """The price, the charges and the release that an undisturbed run leaves."""

    epsilon: float  # the price in the report
    charges: list[str]  # the event of each
    release: bytes | None  # the bytes; None for a run without a seed, whose noise no other run has
    duration_s: float  # seconds that the run took

    @classmethod
    def from_undisturbed_run(cls, kind: Kind, folder: Path) -> Truth:
        """Runs a kind of run undisturbed."""
        started = time.monotonic()
        ended = kind.start(folder).wait()
        duration = time.monotonic() - started
        if ended.code != 0:
            raise RuntimeError(f"an undisturbed run ended with code {ended.code}: {ended.err}")
        return cls.of_run(folder, kind, duration_s=duration)

    @classmethod
    def of_run(cls, folder: Path, kind: Kind, duration_s: float) -> Truth:
        """Returns what a run left that took `duration_s` seconds and was not disturbed."""
        release = None if kind.seed is None else release_of(folder)
        return cls(epsilon_of(folder) or 0.0, charges_of(folder), release, duration_s)


def relocate_ledger(folder: Path) -> None:
    """Joins a copied run to its copied ledger: the run's folder names the place of its ledger."""
    path = folder / RUN / "ledger.json"
    if path.is_file():
        place = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps(place | {"path": str(folder / "ledger.db")}), encoding="utf-8")


def release_of(folder: Path) -> bytes | None:
    """Returns the bytes of the published release, or None without a release."""
    path = folder / RUN / "release" / "release.npz"
    return path.read_bytes() if path.is_file() else None


def epsilon_of(folder: Path) -> float | None:
    """Returns the epsilon of the report, or None without a report."""
    path = folder / RUN / "report.json"
    return (
        float(json.loads(path.read_text(encoding="utf-8"))["privacy"]["epsilon"])
        if path.is_file()
        else None
    )


Row = tuple[str, str, str, bytes]


def rows_of(folder: Path) -> list[Row]:
    """Returns key, charge, event and release of each ledger line, or nothing if SQLite cannot read them all.

    They are read from a copy, without the package: a transaction that was cut off is rolled back there, and the file
    stays unchanged.
    """
    with tempfile.TemporaryDirectory() as copied:
        for name in ("ledger.db", "ledger.db-journal"):
            if (folder / name).is_file():
                shutil.copyfile(folder / name, Path(copied) / name)
        db = sqlite3.connect(Path(copied) / "ledger.db")
        try:
            lines = db.execute(
                "SELECT key, under, event, release FROM line ORDER BY number"
            ).fetchall()
            rows: list[Row] = [
                (key, under, event, release if isinstance(release, bytes) else b"")
                for key, under, event, release in lines
            ]
        except (sqlite3.Error, UnicodeDecodeError):
            rows = []
        finally:
            db.close()
    return rows


def charges_of(folder: Path) -> list[str]:
    """Returns the event of each charge in the ledger of the run."""
    return [event for _, under, event, _ in rows_of(folder) if not under]


def digests_of_draws(folder: Path) -> dict[str, str]:
    """Returns the digest of each committed draw by its key."""
    return {str(key): hashlib.sha256(release).hexdigest() for key, _, _, release in rows_of(folder)}


def find_faults(
    folder: Path,
    truth: Truth,
    committed_digests: Mapping[str, str],
    published_release: bytes | None = None,
) -> list[Finding]:
    """Returns the faults of a run that ended with code 0.

    Args:
        folder: of the run.
        truth: of an undisturbed run of its kind.
        committed_digests: digests of the draws that were committed before the run was continued, by key.
        published_release: the bytes that were published before the run was continued.
    """
    findings = []
    release = release_of(folder)
    for reference, whose in (
        (truth.release, "an undisturbed run"),
        (published_release, "the one that was published before"),
    ):
        if release is None or (reference is not None and release != reference):
            findings.append(Finding(WRONG_RELEASE, text=f"release.npz is not that of {whose}"))
    if any(
        digests_of_draws(folder).get(key) != digest for key, digest in committed_digests.items()
    ):
        findings.append(Finding(WRONG_RELEASE, text="what was committed was drawn again"))
    if release is not None and not _is_committed(release, rows=rows_of(folder)):
        findings.append(Finding(WRONG_RELEASE, text="release.npz is not what was committed"))
    try:
        epsilon = epsilon_of(folder)
    except (ValueError, KeyError, TypeError):
        epsilon = None
    if epsilon is None or epsilon < truth.epsilon * (1 - _SLACK):
        findings.append(
            Finding(LOW_PRICE, text=f"report.json says epsilon {epsilon} for {truth.epsilon}")
        )
    findings += _card_faults(folder, truth)
    charges = charges_of(folder)
    if len(charges) < len(truth.charges):
        findings.append(Finding(LOW_PRICE, text=f"{len(charges)} charges for {len(truth.charges)}"))
    elif charges != truth.charges:
        findings.append(
            Finding(UNCLEAR, text=f"{len(charges)} charges for {len(truth.charges)}, or others")
        )
    return findings


def _is_committed(release: bytes, rows: list[Row]) -> bool:
    """Returns True where the labels of a file are those in the ledger: of the release, or of a session's rounds."""
    parts = {key.partition(":")[2]: part for key, _, _, part in rows}
    names = (
        ["release"]
        if "release" in parts
        else sorted((n for n in parts if n.startswith("round-")), key=_number)
    )
    try:
        published = _labels(release)
        charged = np.concatenate([_labels(parts[name]) for name in names])
    except (ValueError, KeyError, OSError):
        return False
    return (
        np.array_equal(published[: len(charged)], charged) and not published[len(charged) :].any()
    )


def _labels(content: bytes) -> Any:
    """Returns the labels of a release file."""
    return np.load(io.BytesIO(content), allow_pickle=False)["labels"]


def _number(name: str) -> int:
    """Returns the number of a round."""
    return int(name.removeprefix("round-"))


def _card_faults(folder: Path, truth: Truth) -> list[Finding]:
    """Returns a finding where the privacy card states too low a price."""
    path = folder / RUN / "release" / "privacy_card.md"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    epsilons = [float(number) for number in re.findall(r"\| epsilon \| (\d+(?:\.\d+)?) \|", text)]
    if not epsilons or min(epsilons) < truth.epsilon * (1 - _SLACK):
        return [Finding(LOW_PRICE, text=f"privacy_card.md says {epsilons} for {truth.epsilon}")]
    return []


def find_unpaid(folder: Path, truth: Truth) -> list[Finding]:
    """Returns a finding where a run published a release before it was charged, at whatever moment it was stopped."""
    if release_of(folder) is not None and len(charges_of(folder)) < len(truth.charges):
        return [Finding(LOW_PRICE, text="released with fewer charges than the release costs")]
    return []


def find_refusal_faults(
    ended: Ended, *, codes: tuple[int, ...] = (1, 2), named: tuple[str, ...] = ()
) -> list[Finding]:
    """Returns the faults in the message and exit code of a command that did not reach its end."""
    if (
        "Traceback (most recent call last)" in ended.err
        or "Traceback (most recent call last)" in ended.out
    ):
        return [Finding(TRACEBACK, text=f"code {ended.code}: {ended.line[:300]}")]
    if ended.code not in codes:
        return [Finding(UNCLEAR, text=f"exit code {ended.code}, {ended.line[:300]!r}")]
    if not ended.line or len(ended.line) > _LONGEST_LINE:
        return [
            Finding(UNCLEAR, text=f"a line of {len(ended.line)} characters: {ended.line[:100]!r}")
        ]
    if named and not any(name in ended.line for name in named):
        return [Finding(UNCLEAR, text=f"none of {', '.join(named)} in {ended.line[:300]!r}")]
    return []
