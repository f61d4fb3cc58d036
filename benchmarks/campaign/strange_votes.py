"""Vote files that are none, or nearly none."""

from __future__ import annotations

import pickle
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np


def strange_array(rng: random.Random) -> Any:
    """An array of some kind, rank and content, or a list."""
    shape = tuple(rng.choice([0, 1, 2, 3, 7]) for _ in range(rng.randrange(5)))
    fill = np.random.default_rng(rng.randrange(2**32))
    kinds: list[Any] = [
        lambda: fill.random(shape) < 0.5,
        lambda: fill.integers(-2, 5, shape),
        lambda: fill.integers(0, 2, shape),
        lambda: fill.random(shape),
        lambda: fill.normal(size=shape) * rng.choice([1.0, 1e38, 1e308]),
        lambda: np.full(shape, rng.choice([np.nan, np.inf, -np.inf, 2.0**63])),
        lambda: np.full(shape, rng.choice(["a", "1", ""])),
        lambda: np.full(shape, 1 + 2j),
        lambda: np.full(shape, None, dtype=object),
        lambda: np.zeros(shape, dtype=[("a", int), ("b", float)]),
        lambda: np.full(shape, np.datetime64("2020-01-01")),
        lambda: fill.integers(0, 2, shape).astype(rng.choice(["uint8", "int8", "float16", ">i4", "uint64"])),
        lambda: np.asfortranarray(np.zeros(shape)).T,
        lambda: [[1, 2], [3]],
    ]
    return rng.choice(kinds)()


def strange_file(path: Path, rng: random.Random) -> Path:
    """Writes a file that calls itself a vote file, and returns its path; sometimes there is none."""
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    how = rng.choice(
        ["array", "arrays", "cut", "garbage", "text", "header", "pickle", "zip", "folder", "nothing", "empty"]
    )
    if how in ("array", "cut"):
        _save(path, _as_array(strange_array(rng)))
        if how == "cut":
            path.write_bytes(path.read_bytes()[: rng.randrange(200)])
    elif how == "arrays":
        names = ["votes", "labels", "arr_0", "x", "../x", "num_teachers", "header"]
        with path.open("wb") as file:
            np.savez(file, **{name: _as_array(strange_array(rng)) for name in rng.sample(names, 2)})
    elif how == "garbage":
        path.write_bytes(rng.randbytes(rng.randrange(3000)))
    elif how == "text":
        path.write_text(rng.choice(["a,b\n1,2\n", "1,0\n0\n", "\n\n", "nan,inf\n", "{}", "[[1,0],[1]]", "é\n"]))
    elif how == "header":
        shape = rng.choice(["(99999999999, 99999999)", "(-1,)", "(3, 'a')", "()", "(2, 2"])
        text = f"{{'descr': '|b1', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        path.write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + text.encode() + b"\1\0\1\0")
    elif how == "pickle":
        path.write_bytes(pickle.dumps({"votes": [1, 2]}))
    elif how == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(rng.choice(["votes.npy", "a.txt", "../votes.npy"]), b"\0" * rng.choice([0, 10, 10**7]))
    elif how == "folder":
        path.mkdir()
    elif how == "empty":
        path.touch()
    return path


def _as_array(made: Any) -> Any:
    return np.asarray(made, dtype=object if isinstance(made, list) else None)


def _save(path: Path, array: Any) -> None:
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=True)
