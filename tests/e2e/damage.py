"""Each function damages the file at a path in one way; `WAYS` lists them all."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

Way = Callable[[Path], None]


def truncate(path: Path) -> None:
    """Cuts a file to half its length."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    """Makes a file empty."""
    path.write_bytes(b"")


def flip_sixteen_bits(path: Path) -> None:
    """Inverts one bit of a random byte of a file, 16 times; a byte may be drawn more than once."""
    content = bytearray(path.read_bytes())
    for place in np.random.default_rng(len(content)).integers(len(content), size=16):
        content[place] ^= 1 << int(place % 8)
    path.write_bytes(bytes(content))


def flip_one_bit(path: Path) -> None:
    """Inverts one bit of the tenth byte of a file, or of the last byte of a shorter file."""
    content = bytearray(path.read_bytes())
    content[min(9, len(content) - 1)] ^= 4
    path.write_bytes(bytes(content))


def write_random_bytes(path: Path) -> None:
    """Replaces a file with 700 random bytes."""
    path.write_bytes(np.random.default_rng(1).bytes(700))


def write_outside_utf8(path: Path) -> None:
    """Replaces a file with JSON text that is not valid UTF-8."""
    path.write_bytes(b'{"a": "\xff\xfe\x80"}\n')


def write_other_json(path: Path) -> None:
    """Replaces a file with valid JSON of another structure."""
    path.write_text('[1, {"version": null}]\n')


def remove(path: Path) -> None:
    """Removes a file."""
    path.unlink()


def put_folder(path: Path) -> None:
    """Replaces a file with a folder of the same name."""
    path.unlink()
    path.mkdir()
    (path / "file").write_text("something")


def put_loose_link(path: Path) -> None:
    """Replaces a file with a symbolic link whose target does not exist."""
    path.unlink()
    path.symlink_to(path.parent / "nowhere" / "at all")


def put_pipe(path: Path) -> None:
    """Replaces a file with a named pipe."""
    path.unlink()
    os.mkfifo(path)


def write_other_arrays(path: Path) -> None:
    """Writes a valid `.npz` archive of unrelated arrays to a path, whether a file is there or not."""
    with path.open("wb") as file:
        np.savez(file, labels=np.zeros((2, 3)), packed=np.array(["a"]))


def write_pickled_arrays(path: Path) -> None:
    """Replaces a file with an `.npz` archive of pickled objects."""
    with path.open("wb") as file:
        np.savez(file, labels=np.array([{"a": 1}], dtype=object), summary=np.array([None]))


WAYS: tuple[Way, ...] = (
    truncate,
    empty,
    flip_sixteen_bits,
    flip_one_bit,
    write_random_bytes,
    write_outside_utf8,
    write_other_json,
    remove,
    put_folder,
    put_loose_link,
    put_pipe,
    write_other_arrays,
    write_pickled_arrays,
)
