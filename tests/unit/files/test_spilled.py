"""Rows in a file of no name are those that were appended, and reading them holds no more than a part."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pate.data import Split
from pate.files.arrays import Spilled, let_go, row_blocks, taken
from pate.validation import InvalidValue

ROWS = np.random.default_rng(0).standard_normal((1000, 7)).astype(np.float32)


def spilled(most_bytes: int, rows: np.ndarray = ROWS) -> np.ndarray:
    collected = Spilled(most_bytes)
    for first in range(0, len(rows), 90):
        collected.append(rows[first : first + 90])
    return collected.whole()


@pytest.mark.parametrize(("most_bytes", "mapped"), [(10**6, False), (10**4, True), (0, True)])
def test_the_rows_are_those_that_were_appended(
    most_bytes: int, mapped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    whole = spilled(most_bytes)
    assert isinstance(whole, np.memmap) is mapped
    assert np.array_equal(whole, ROWS)
    assert whole.dtype == np.float32
    assert not list(tmp_path.iterdir()), "the file has a name"
    if mapped:
        with pytest.raises(ValueError, match="read-only"):
            whole[0] = 0


@pytest.mark.parametrize(
    "rows", [slice(3, 900, 7), np.array([5, 999, 5, 0]), np.arange(1000) % 3 == 0, np.array([], np.int64)]
)
def test_rows_that_are_taken_are_a_copy(rows: object) -> None:
    whole = spilled(0)
    found = taken(whole, rows)  # type: ignore[arg-type]
    assert type(found) is np.ndarray
    assert np.array_equal(found, ROWS[rows])  # type: ignore[index]
    let_go(whole)
    assert np.array_equal(whole, ROWS), "what was let go is read again"


def test_blocks_are_all_rows_in_order() -> None:
    for array in (ROWS, spilled(0), np.arange(5), np.zeros((0, 4))):
        assert np.array_equal(np.concatenate([np.zeros_like(array[:0]), *row_blocks(array)]), array)


def test_a_split_of_mapped_inputs_is_that_of_the_same_in_memory() -> None:
    labels, ids = ROWS[:, :2] > 0, np.arange(1000)
    held, mapped = (Split(inputs, labels, ids, ids) for inputs in (ROWS, spilled(0)))
    assert mapped.digest() == held.digest()
    assert type(mapped.take(ids[:5]).inputs) is np.ndarray
    assert mapped.take(ids[::-3]).digest() == held.take(ids[::-3]).digest()
    wrong = ROWS.copy()
    wrong[901, 3] = np.inf
    with pytest.raises(InvalidValue, match=r"^inputs\[901, 3\]: expected finite numbers"):
        Split(spilled(0, wrong), labels, ids, ids)


@pytest.mark.process
@pytest.mark.slow
def test_many_rows_take_little_memory() -> None:
    """400 MB of features, checked and taken in parts: the process never holds half of them."""
    code = """
import numpy as np, re
from pate.data import Split
from pate.files.arrays import Spilled
def largest(): return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
before, rows = largest(), Spilled(2**24)
for first in range(0, 1_000_000, 10_000):
    rows.append(np.full((10_000, 100), first, np.float32))
ids = np.arange(1_000_000)
split = Split(rows.whole(), np.ones((len(ids), 1), np.bool_), ids, ids)
for teacher in range(100):
    assert split.take(ids[teacher::100]).inputs[50, 3] == (teacher + 5000) // 10_000 * 10_000
split.digest()
print(largest() - before)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(ended.stdout) < 200
