"""The first lines of CSV files, as programs write them: lines above the names, separators, names with line breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pate.data import TableSchema
from tests.refusals import refused_parameter
from tests.unit.data.table.frames import people_frames, write_frames

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

Change = Callable[[bytes], bytes]
"""A function from the content of a CSV file to another content."""

READABLE: dict[str, Change] = {
    "blank lines": lambda text: b"\n  \n" + text,
    "blank lines behind a mark": lambda text: b"\xef\xbb\xbf\n\n" + text,
    "sep=": lambda text: b"sep=;\r\n" + text.replace(b",", b";"),
    "sep= in quotes": lambda text: b'"sep=;"\n\n' + text.replace(b",", b";"),
    "separators at the end": lambda text: text.replace(b"\n", b",,\n"),
    "a line break": lambda text: text.replace(b"age,", b'"age\r\n(years)",', 1),
    "a line break and semicolons": lambda text: text.replace(
        b"age,", b'"a\n\nge, in years",', 1
    ).replace(b",", b";"),
    "a name with unseen letters": lambda text: text.replace(b"flu", "\u200bflu\u00a0".encode(), 1),
}


@pytest.mark.parametrize("case", READABLE)
def test_csv_head_is_parsed(tmp_path: Path, case: str) -> None:
    """CSV files with blank lines or a line about the separator above the names give the usual inputs.

    So do files with separators at the ends of lines, or with line breaks or invisible letters in a name.
    """
    table = write_frames(folder=tmp_path, frames=people_frames())
    inputs = table.load().private.inputs
    for path in tmp_path.glob("*.csv"):
        path.write_bytes(READABLE[case](path.read_bytes()))
    dataset = replace(table).load()  # a reader remembers names of columns
    assert np.array_equal(dataset.private.inputs, inputs)
    assert isinstance(dataset.preprocessing, TableSchema)
    assert not any("\n" in name for name in dataset.preprocessing.feature_names)


UNREADABLE: dict[str, tuple[Change, str]] = {
    "a separator behind names": (
        lambda text: text.replace(b"\n", b",\n", 1),
        "cells in every row, as in",
    ),
    "NUL": (lambda text: text.replace(b"\n", b"\n\0", 3), "text without NUL bytes"),
    "NUL in a name": (lambda text: b"\0" + text, "text without NUL bytes"),
    "an open quote": (lambda text: b'"' + text, "a closing quote for each opening one"),
    "cells without a name": (
        lambda text: text.replace(b"\n", b",1\n").replace(b",1\n", b",\n", 1),
        "has cells and no",
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_invalid_csv_head_is_refused(tmp_path: Path, case: str) -> None:
    """A CSV file with NUL bytes, uneven rows or an unclear line of names is refused with a rule about it."""
    table = write_frames(folder=tmp_path, frames=people_frames())
    change, rule = UNREADABLE[case]
    path = tmp_path / "public.csv"
    path.write_bytes(change(path.read_bytes()))
    with refused_parameter("data.public", value=path, rule_words=rule):
        table.load()
