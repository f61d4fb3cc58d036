"""The processes below another, as /proc tells."""

from __future__ import annotations

from pathlib import Path


def descendants(pid: int) -> list[int]:
    """Children, theirs, and so on."""
    found = []
    frontier = [pid]
    parents = _parents()
    while frontier:
        frontier = [child for child, parent in parents.items() if parent in frontier]
        found += frontier
    return found


def children(pid: int) -> list[int]:
    """Those directly below it."""
    return [child for child, parent in _parents().items() if parent == pid]


def command_of(pid: int) -> str:
    """Its command line; empty once it has ended."""
    try:
        return (
            Path("/proc", str(pid), "cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")
            .strip()
        )
    except OSError:
        return ""


def _parents() -> dict[int, int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
            except (OSError, ValueError, IndexError):
                continue  # it ended meanwhile
    return parents
