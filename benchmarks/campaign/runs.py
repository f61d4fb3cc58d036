"""The runs that are attacked, how they end when nobody does, and what is wrong with one that ended otherwise."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.campaign.tally import LOW_PRICE, TRACEBACK, UNCLEAR, WRONG_RELEASE, Finding
from benchmarks.campaign.warm import Child, Ended, command

_SIZE = (
    *("data=digits_grid", "data.num_private=120", "data.num_public=30", "data.num_test=20", "num_queries=20"),
    *("all_records=false", "allow_useless=true"),  # small runs, which teach no student
)
_TEACHERS = "teacher.num_teachers=8"
SETTINGS = {
    "labels": (_TEACHERS, "aggregator=gaussian_votes", "target_epsilon=200"),
    "table": (_TEACHERS, "aggregator=stable_top_k", "target_epsilon=300"),
    "session": (_TEACHERS, "aggregator=stable_top_k_boundary", "aggregator.target_hits=5", "target_epsilon=200"),
    "centered": ("aggregator=centered_votes", "teacher=kernel", "student=low_rank", "target_epsilon=20"),
}
_SLACK = 1e-9
_LONGEST_LINE = 1500
_SECRET = "noise.secret"


@dataclass(frozen=True)
class Kind:
    """A run by its settings.

    Attributes:
        name: of the settings.
        seed: None for a run whose noise comes from the operating system.
    """

    name: str
    seed: int | None = 1

    def start(self, folder: Path, prepare: Callable[[], None] | None = None) -> Child:
        """Starts or continues the run in a folder."""
        seed = () if self.seed is None else (f"seed={self.seed}",)
        return command("train", (*_SIZE, *SETTINGS[self.name], *seed, f"output_dir={folder}"), prepare)


@dataclass(frozen=True)
class Truth:
    """What an undisturbed run left.

    Attributes:
        epsilon: of its report: the price.
        charges: key, event and noise of each.
        release: the bytes; None where another run's noise is another's.
    """

    epsilon: float
    charges: list[str]
    release: bytes | None

    @classmethod
    def of(cls, kind: Kind, folder: Path) -> Truth:
        """Runs it undisturbed."""
        ended = kind.start(folder).wait()
        if ended.code != 0:
            raise RuntimeError(f"an undisturbed run ended with code {ended.code}: {ended.err}")
        release = None if kind.seed is None else release_of(folder)
        return cls(epsilon_of(folder) or 0.0, charges_of(folder), release)


def release_of(folder: Path) -> bytes | None:
    """The bytes of what is published, or None."""
    path = folder / "release" / "release.npz"
    return path.read_bytes() if path.is_file() else None


def epsilon_of(folder: Path) -> float | None:
    """What the report says, None without a report."""
    path = folder / "report.json"
    return float(json.loads(path.read_text(encoding="utf-8"))["privacy"]["epsilon"]) if path.is_file() else None


def charges_of(folder: Path) -> list[str]:
    """Key, event and noise of each charge on a whole line that is JSON."""
    path, found = folder / "ledger.jsonl", []
    for line in path.read_bytes().splitlines(keepends=True) if path.is_file() else []:
        try:
            record: Any = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            continue
        if isinstance(record, dict) and "event" in record:
            found.append(json.dumps([record.get("key"), record["event"], record.get("noise", "")]))
    return found


def has_released(folder: Path) -> bool:
    """Whether anything that noise was drawn for is on the disk."""
    drawn = [*(folder / "rounds").glob("*.npz"), *folder.glob("prevalence.npz")]
    return release_of(folder) is not None or bool(drawn)


def twin_of(folder: Path) -> Path | None:
    """A copy of a run between its charge and its release, for which the same noise has to be drawn again."""
    if not charges_of(folder) or not (folder / _SECRET).is_file():
        return None
    twin = folder.with_name(f"{folder.name}-twin")
    shutil.copytree(folder, twin)
    return twin


def faults_of(folder: Path, truth: Truth, release: bytes | None) -> list[Finding]:
    """What is wrong with a run that ended with code 0.

    Args:
        folder: of the run.
        truth: of an undisturbed one.
        release: the bytes that it had to release; None where nobody knows them.
    """
    found = []
    if release_of(folder) is None or (release is not None and release_of(folder) != release):
        found.append(Finding(WRONG_RELEASE, "release.npz is not the release of an undisturbed run"))
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
    elif len(charges) > len(truth.charges) or (release is not None and truth.release and charges != truth.charges):
        found.append(Finding(UNCLEAR, f"{len(charges)} charges for {len(truth.charges)}, or others"))
    return found


def _card_faults(folder: Path, truth: Truth) -> list[Finding]:
    path = folder / "release" / "privacy_card.md"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    said = [float(number) for number in re.findall(r"\| epsilon \| (\d+(?:\.\d+)?) \|", text)]
    if not said or min(said) < truth.epsilon * (1 - _SLACK):
        return [Finding(LOW_PRICE, f"privacy_card.md says {said} for {truth.epsilon}")]
    return []


def refusal_faults(ended: Ended, *, codes: tuple[int, ...] = (1, 2), named: tuple[str, ...] = ()) -> list[Finding]:
    """What is wrong with how a command ended that did not get to its end."""
    if "Traceback (most recent call last)" in ended.err or "Traceback (most recent call last)" in ended.out:
        return [Finding(TRACEBACK, f"code {ended.code}: {ended.line[:300]}")]
    if ended.code not in codes:
        return [Finding(UNCLEAR, f"exit code {ended.code}, {ended.line[:300]!r}")]
    if not ended.line or len(ended.line) > _LONGEST_LINE:
        return [Finding(UNCLEAR, f"a line of {len(ended.line)} characters: {ended.line[:100]!r}")]
    if named and not any(name in ended.line for name in named):
        return [Finding(UNCLEAR, f"none of {', '.join(named)} in {ended.line[:300]!r}")]
    return []


def unpaid(folder: Path, truth: Truth) -> list[Finding]:
    """What was released before it was paid for, at whatever moment a run was stopped."""
    if has_released(folder) and not charges_of(folder):
        return [Finding(LOW_PRICE, "something was drawn that is not in the ledger")]
    if release_of(folder) is not None and len(charges_of(folder)) < len(truth.charges):
        return [Finding(LOW_PRICE, "released with fewer charges than the release costs")]
    return []
