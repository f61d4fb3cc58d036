"""Processes below another process, read from /proc."""

from __future__ import annotations

from pathlib import Path


def descendants(pid: int) -> list[int]:
    """Returns the children of a process, their children, and so on."""
    descendants = []
    frontier = [pid]
    parents = _parents()
    while frontier:
        frontier = [child for child, parent in parents.items() if parent in frontier]
        descendants += frontier
    return descendants


def children(pid: int) -> list[int]:
    """Returns the direct children of a process."""
    return [child for child, parent in _parents().items() if parent == pid]


def command_of(pid: int) -> str:
    """Returns the command line of a process; empty once the process has ended."""
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
    """Returns the parent of each process."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
            except (OSError, ValueError, IndexError):
                continue  # the process has ended meanwhile
    return parents
