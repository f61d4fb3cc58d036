"""Damage: a file of a run that was stopped somewhere, or finished, is damaged; then the same command."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from benchmarks.campaign.faults import FaultyDisk, num_disk_calls
from benchmarks.campaign.runs import SETTINGS, Kind, Truth, faults_of, refusal_faults, release_of, twin_of
from benchmarks.campaign.tally import LOW_PRICE, WRONG_RELEASE, Finding

DAMAGES = ("truncate", "empty", "flip", "garbage", "no text", "delete", "folder", "swap", "lines")
_STATES = 10  # of each kind of run that are kept and damaged again and again
_WRITTEN_LAST = ("report.json", "release/privacy_card.md")


@dataclass(frozen=True)
class State:
    """A run as it was when it was stopped.

    Attributes:
        folder: never damaged itself.
        release: what it has to release; None where nobody knows.
    """

    folder: Path
    release: bytes | None


class Damage:
    """Runs that are stopped, damaged and continued.

    Args:
        folder: for all of them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._truths: dict[Kind, tuple[Truth, int]] = {}
        self._states: dict[Kind, list[State]] = {}

    def attempt(self, rng: random.Random) -> list[Finding]:
        """One damage to one file."""
        kind = Kind(rng.choice(list(SETTINGS)), rng.choice([1, None]))
        truth, state = self._truth(kind)[0], self._state(kind, rng)
        folder = self._folder / "damaged"
        shutil.copytree(state.folder, folder)
        try:
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            if not files:
                return []
            path = rng.choice(files)
            name, how = str(path.relative_to(folder)), rng.choice(DAMAGES)
            damage(path, how, self._other(kind) / name, rng)
            found = self._continued(kind, truth, state, folder, path)
            stage = f"{len(files)} files"
            return [Finding(f.sort, f"{kind.name} of {stage}, {name}, {how}: {f.text}") for f in found]
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _continued(self, kind: Kind, truth: Truth, state: State, folder: Path, path: Path) -> list[Finding]:
        """What is wrong with the run after the damage."""
        before = {name: _content(folder / name) for name in _WRITTEN_LAST}
        released = release_of(folder)
        ended = kind.start(folder).wait()
        if ended.code == 0:
            return faults_of(folder, truth, state.release)
        found = refusal_faults(ended, named=(path.name, path.parent.name))
        for name, content in before.items():
            if _content(folder / name) not in (content, None):
                found.append(Finding(LOW_PRICE, f"{name} was written by a run that was refused"))
        if released is not None and release_of(folder) not in (released, None):
            found.append(Finding(WRONG_RELEASE, "a run that was refused wrote another release"))
        return found

    def _truth(self, kind: Kind) -> tuple[Truth, int]:
        if kind not in self._truths:
            truth = Truth.of(kind, self._folder / f"whole-{kind.name}-{kind.seed}")
            self._truths[kind] = truth, num_disk_calls(kind, self._folder / "counted")
        return self._truths[kind]

    def _state(self, kind: Kind, rng: random.Random) -> State:
        """One of the run's states, made when it is asked for: the finished one, or one that died at some call."""
        states, number = self._states.setdefault(kind, []), rng.randrange(_STATES)
        if number < len(states):
            return states[number]
        folder = self._folder / f"state-{kind.name}-{kind.seed}-{len(states)}"
        calls = self._truth(kind)[1]
        at = None if not states else rng.randrange(calls // 20, calls)
        kind.start(folder, FaultyDisk(folder, at, "dies after").install).wait()
        states.append(State(folder, self._release(kind, folder)))
        return states[-1]

    def _release(self, kind: Kind, folder: Path) -> bytes | None:
        """What a state has to release: what any seeded run does, what is there, or what a copy draws."""
        truth = self._truth(kind)[0]
        if kind.seed is not None or (there := release_of(folder)) is not None:
            return truth.release if kind.seed is not None else there
        if (twin := twin_of(folder)) is None:
            return None
        kind.start(twin).wait()
        release = release_of(twin)
        shutil.rmtree(twin)
        return release

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
    lines, how = content.splitlines(keepends=True), rng.choice(["drop", "drop last", "repeat", "reorder", "digit"])
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
