"""The ways in which tests damage a file; each function takes the path of the file."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

Way = Callable[[Path], None]


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for place in np.random.default_rng(len(content)).integers(len(content), size=16):
        content[place] ^= 1 << int(place % 8)
    path.write_bytes(bytes(content))


def flipped_once(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[min(9, len(content) - 1)] ^= 4
    path.write_bytes(bytes(content))


def garbage(path: Path) -> None:
    path.write_bytes(np.random.default_rng(1).bytes(700))


def not_utf8(path: Path) -> None:
    path.write_bytes(b'{"a": "\xff\xfe\x80"}\n')


def other_json(path: Path) -> None:
    path.write_text('[1, {"version": null}]\n')


def gone(path: Path) -> None:
    path.unlink()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "file").write_text("something")


def a_loose_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent / "nowhere" / "at all")


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def other_arrays(path: Path) -> None:
    """Writes a whole archive of other arrays, even where no file stood."""
    with path.open("wb") as file:
        np.savez(file, labels=np.zeros((2, 3)), packed=np.array(["a"]))


def pickled(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, labels=np.array([{"a": 1}], dtype=object), summary=np.array([None]))


WAYS: tuple[Way, ...] = (
    *(truncated, emptied, flipped, flipped_once, garbage, not_utf8, other_json, gone),
    *(a_folder, a_loose_link, a_pipe, other_arrays, pickled),
)
