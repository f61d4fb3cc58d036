"""Damage to a file of a run that was stopped or finished, followed by the same command."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from benchmarks.campaign.runs import (
    RUN,
    SETTINGS,
    Kind,
    Truth,
    digests_of_draws,
    find_faults,
    find_refusal_faults,
    release_of,
    relocate_ledger,
)
from benchmarks.campaign.tally import LOW_PRICE, WRONG_RELEASE, Finding

DAMAGES = ("truncate", "empty", "flip", "garbage", "no text", "delete", "folder", "swap", "lines")
_STATES = 10  # stored runs of each kind, copies of which are damaged
_LEDGER = "ledger.db"
_OF_LEDGER = 0.4  # probability that the ledger is damaged, the file of most consequence
_OLDER = 0.2  # probability that damage to the ledger is the restoration of an older copy
_WRITTEN_LAST = (f"{RUN}/report.json", f"{RUN}/release/privacy_card.md")


@dataclass(frozen=True)
class State:
    """A stopped or finished run, which is never damaged itself, and its ledger at an earlier time if there was one."""

    folder: Path
    older: Path | None


class Damage:
    """Runs that are stopped or finished, then damaged and continued.

    Args:
        folder: for all of them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._truths: dict[Kind, Truth] = {}
        self._states: dict[Kind, list[State]] = {}

    def attempt(self, rng: random.Random) -> list[Finding]:
        """Damages one file of a run and continues the run."""
        kind = Kind(rng.choice(list(SETTINGS)), seed=rng.choice([1, None]))
        state = self._state(kind, rng)
        folder = self._folder / "damaged"
        shutil.copytree(state.folder, folder)
        relocate_ledger(folder)
        try:
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            if not files:
                return []
            path = folder / _LEDGER
            if path not in files or rng.random() > _OF_LEDGER:
                path = rng.choice(files)
            name = str(path.relative_to(folder))
            kind_of_damage = rng.choice(DAMAGES)
            if name == _LEDGER and state.older is not None and rng.random() < _OLDER:
                kind_of_damage = "older"
                shutil.copyfile(state.older, path)
            else:
                damage(path, kind_of_damage, self._other(kind) / name, rng)
            findings = self._continued(
                kind, folder, path, published_release=release_of(state.folder)
            )
            return [
                Finding(
                    f.sort,
                    text=f"{kind.name} of {len(files)} files, {name}, {kind_of_damage}: {f.text}",
                )
                for f in findings
            ]
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _continued(
        self, kind: Kind, folder: Path, path: Path, published_release: bytes | None
    ) -> list[Finding]:
        """Returns the faults of a damaged run that is continued, next to the release it had published.

        An older ledger without a published release cannot be told from the newest ledger, so no release is compared.
        """
        before = {name: _content(folder / name) for name in _WRITTEN_LAST}
        digests = digests_of_draws(folder)
        released = release_of(folder)
        ended = kind.start(folder).wait()
        if ended.code == 0:
            return find_faults(
                folder,
                truth=self._truths[kind],
                committed_digests=digests,
                published_release=published_release,
            )
        findings = find_refusal_faults(ended, named=(path.name, path.parent.name, _LEDGER))
        for name, content in before.items():
            if _content(folder / name) not in (content, None):
                findings.append(
                    Finding(LOW_PRICE, text=f"{name} was written by a run that was refused")
                )
        if release_of(folder) not in (released, published_release, None):
            findings.append(
                Finding(WRONG_RELEASE, text="a run that was refused wrote another release")
            )
        return findings

    def _state(self, kind: Kind, rng: random.Random) -> State:
        """Returns a state of the run, made on the first request: finished, or killed twice."""
        states = self._states.setdefault(kind, [])
        number = rng.randrange(_STATES)
        if number < len(states):
            return states[number]
        folder = self._folder / f"state-{kind.name}-{kind.seed}-{len(states)}"
        if kind not in self._truths:
            self._truths[kind] = Truth.from_undisturbed_run(kind, folder)
            states.append(State(folder, older=None))
            return states[0]
        length = self._truths[kind].duration_s
        older = folder.with_suffix(".older")
        kind.kill(folder, rng.uniform(0.3, 0.9) * length)
        if (folder / _LEDGER).exists():
            shutil.copyfile(folder / _LEDGER, older)
        kind.kill(folder, rng.uniform(0.3, 1.2) * length)
        folder.mkdir(exist_ok=True)  # a run on a slow machine may not have made its folder yet
        states.append(State(folder, older=older if older.exists() else None))
        return states[-1]

    def _other(self, kind: Kind) -> Path:
        """Returns a run with another seed, whose files look as if they belonged to the damaged run."""
        folder = self._folder / f"other-{kind.name}"
        if not folder.exists():
            Kind(kind.name, seed=2).start(folder).wait()
        return folder


def damage(path: Path, kind_of_damage: str, file_of_other_run: Path, rng: random.Random) -> None:
    """Damages a file in a way of `DAMAGES`; `file_of_other_run` is the file of that name of another run."""
    content = path.read_bytes()
    if kind_of_damage == "delete":
        path.unlink()
    elif kind_of_damage == "folder":
        path.unlink()
        path.mkdir()
    elif kind_of_damage == "swap" and file_of_other_run.is_file():
        shutil.copyfile(file_of_other_run, path)
    elif kind_of_damage == "lines":
        _damage_lines(path, content, rng)
    else:
        path.write_bytes(_damaged(content, kind_of_damage, rng))


def _damaged(content: bytes, kind_of_damage: str, rng: random.Random) -> bytes:
    if kind_of_damage == "truncate" and content:
        return content[: rng.randrange(len(content))]
    if kind_of_damage == "garbage":
        return rng.randbytes(rng.randrange(1, 2000))
    if kind_of_damage == "no text":
        return b"\xff\xfe\x00" + content
    if kind_of_damage == "flip" and content:
        flipped = bytearray(content)
        for _ in range(rng.choice([1, 1, 8])):
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        return bytes(flipped)
    return b""


def _damage_lines(path: Path, content: bytes, rng: random.Random) -> None:
    """Drops, repeats or reorders lines, or changes one digit."""
    lines = content.splitlines(keepends=True)
    change = rng.choice(["drop", "drop last", "repeat", "reorder", "digit"])
    if change == "drop last" and lines:
        lines.pop()
    elif change == "drop" and lines:
        lines.pop(rng.randrange(len(lines)))
    elif change == "repeat" and lines:
        lines.append(rng.choice(lines))
    elif change == "reorder":
        rng.shuffle(lines)
    altered = bytearray(b"".join(lines))
    digits = [place for place, byte in enumerate(altered) if chr(byte).isdigit() and byte < 128]
    if change == "digit" and digits:
        altered[rng.choice(digits)] = ord(rng.choice("0123456789"))
    path.write_bytes(bytes(altered))


def _content(path: Path) -> bytes | None:
    """Returns the bytes of a file, or None without a file."""
    return path.read_bytes() if path.is_file() and os.access(path, os.R_OK) else None
