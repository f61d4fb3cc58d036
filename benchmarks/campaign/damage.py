"""Damage: a file of a run that was stopped somewhere, or finished, is damaged; then the same command."""

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
    committed,
    faults_of,
    moved,
    refusal_faults,
    release_of,
)
from benchmarks.campaign.tally import LOW_PRICE, WRONG_RELEASE, Finding

DAMAGES = ("truncate", "empty", "flip", "garbage", "no text", "delete", "folder", "swap", "lines")
_STATES = 10  # of each kind of run that are kept and damaged again and again
_LEDGER = "ledger.db"
_OF_LEDGER = 0.4  # how often the ledger is chosen, of which nothing is drawn or forgotten unseen
_OLDER = 0.2  # how often an older copy of it is put back
_WRITTEN_LAST = (f"{RUN}/report.json", f"{RUN}/release/privacy_card.md")


@dataclass(frozen=True)
class State:
    """A run as it was when it was stopped, never damaged itself; and its ledger as it was earlier, if it was there."""

    folder: Path
    older: Path | None


class Damage:
    """Runs that are stopped, damaged and continued.

    Args:
        folder: for all of them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._truths: dict[Kind, Truth] = {}
        self._states: dict[Kind, list[State]] = {}

    def attempt(self, rng: random.Random) -> list[Finding]:
        """One damage to one file."""
        kind = Kind(rng.choice(list(SETTINGS)), rng.choice([1, None]))
        state = self._state(kind, rng)
        folder = self._folder / "damaged"
        shutil.copytree(state.folder, folder)
        moved(folder)
        try:
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            if not files:
                return []
            path = folder / _LEDGER
            if path not in files or rng.random() > _OF_LEDGER:
                path = rng.choice(files)
            name = str(path.relative_to(folder))
            how = rng.choice(DAMAGES)
            if name == _LEDGER and state.older is not None and rng.random() < _OLDER:
                how = "older"
                shutil.copyfile(state.older, path)
            else:
                damage(path, how, self._other(kind) / name, rng)
            found = self._continued(kind, folder, path, release_of(state.folder))
            return [
                Finding(f.sort, f"{kind.name} of {len(files)} files, {name}, {how}: {f.text}")
                for f in found
            ]
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _continued(
        self, kind: Kind, folder: Path, path: Path, shown: bytes | None
    ) -> list[Finding]:
        """What is wrong with the run after the damage, given what it had published.

        An older ledger with nothing published beside it is one that nobody can tell from the newest.
        """
        before = {name: _content(folder / name) for name in _WRITTEN_LAST}
        kept = committed(folder)
        released = release_of(folder)
        ended = kind.start(folder).wait()
        if ended.code == 0:
            return faults_of(folder, self._truths[kind], kept, shown)
        found = refusal_faults(ended, named=(path.name, path.parent.name, _LEDGER))
        for name, content in before.items():
            if _content(folder / name) not in (content, None):
                found.append(Finding(LOW_PRICE, f"{name} was written by a run that was refused"))
        if release_of(folder) not in (released, shown, None):
            found.append(Finding(WRONG_RELEASE, "a run that was refused wrote another release"))
        return found

    def _state(self, kind: Kind, rng: random.Random) -> State:
        """One of the run's states, made when it is asked for: the finished one, or one that was killed twice."""
        states = self._states.setdefault(kind, [])
        number = rng.randrange(_STATES)
        if number < len(states):
            return states[number]
        folder = self._folder / f"state-{kind.name}-{kind.seed}-{len(states)}"
        if kind not in self._truths:
            self._truths[kind] = Truth.of(kind, folder)
            states.append(State(folder, None))
            return states[0]
        length = self._truths[kind].duration_s
        older = folder.with_suffix(".older")
        kind.kill(folder, rng.uniform(0.3, 0.9) * length)
        if (folder / _LEDGER).exists():
            shutil.copyfile(folder / _LEDGER, older)
        kind.kill(folder, rng.uniform(0.3, 1.2) * length)
        folder.mkdir(exist_ok=True)  # on a slow machine nothing may be there yet
        states.append(State(folder, older if older.exists() else None))
        return states[-1]

    def _other(self, kind: Kind) -> Path:
        """Another run of the same settings, whose files look as if they belonged here."""
        folder = self._folder / f"other-{kind.name}"
        if not folder.exists():
            Kind(kind.name, 2).start(folder).wait()
        return folder


def damage(path: Path, how: str, other: Path, rng: random.Random) -> None:
    """Damages a file in one of the ways of `DAMAGES`; `other` is the file of that name of another run."""
    content = path.read_bytes()
    if how == "delete":
        path.unlink()
    elif how == "folder":
        path.unlink()
        path.mkdir()
    elif how == "swap" and other.is_file():
        shutil.copyfile(other, path)
    elif how == "lines":
        _damage_lines(path, content, rng)
    else:
        path.write_bytes(_damaged(content, how, rng))


def _damaged(content: bytes, how: str, rng: random.Random) -> bytes:
    if how == "truncate" and content:
        return content[: rng.randrange(len(content))]
    if how == "garbage":
        return rng.randbytes(rng.randrange(1, 2000))
    if how == "no text":
        return b"\xff\xfe\x00" + content
    if how == "flip" and content:
        flipped = bytearray(content)
        for _ in range(rng.choice([1, 1, 8])):
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        return bytes(flipped)
    return b""


def _damage_lines(path: Path, content: bytes, rng: random.Random) -> None:
    """Drops, repeats or reorders lines, or changes one digit."""
    lines = content.splitlines(keepends=True)
    how = rng.choice(["drop", "drop last", "repeat", "reorder", "digit"])
    if how == "drop last" and lines:
        lines.pop()
    elif how == "drop" and lines:
        lines.pop(rng.randrange(len(lines)))
    elif how == "repeat" and lines:
        lines.append(rng.choice(lines))
    elif how == "reorder":
        rng.shuffle(lines)
    made = bytearray(b"".join(lines))
    digits = [place for place, byte in enumerate(made) if chr(byte).isdigit() and byte < 128]
    if how == "digit" and digits:
        made[rng.choice(digits)] = ord(rng.choice("0123456789"))
    path.write_bytes(bytes(made))


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() and os.access(path, os.R_OK) else None
