"""Check-ins: a user counts once a place, rows without a place are said, others that do not fit are refused."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pate.validation import InvalidValue
from reproductions.counts import CheckIns

SNAP = [
    "0\t2010-10-17T01:48:53Z\t39.747652\t-104.99251\tcafe",
    "0\t2010-10-16T06:02:04Z\t39.891383\t-105.070814\tpark",
    "0\t2010-10-16T03:48:54Z\t39.891077\t-105.068532\tcafe",
    "7\t2010-10-14T18:25:51Z\t39.750469\t-104.999073\tcafe",
    "7\t2010-10-14T18:25:51Z\t0.0\t0.0\t" + "0" * 32,
    "9\t\t\t\t",
]
CITY = [
    "470\tv1\tc\tArts\t40.7\t-74.0\t-240\tTue Apr 03 18:00:09 +0000 2012",
    "979\tv2\tc\tCaf\u00e9\t40.6\t-73.9\t-240\tTue Apr 03 18:00:25 +0000 2012",
    "470\tv2\tc\tCaf\u00e9\t40.6\t-73.9\t-240\tTue Apr 03 18:00:25 +0000 2012",
]
WORLD = ["50756\tv1\tTue Apr 03 18:00:06 +0000 2012\t60", "190571\tv1\tTue Apr 03 18:00:07 +0000 2012\t-180"]


def written(folder: Path, lines: list[str], encoding: str = "utf-8") -> Path:
    path = folder / "check_ins.txt"
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return path


@pytest.mark.parametrize("source", ["brightkite", "gowalla"])
def test_a_user_counts_once_at_a_place(tmp_path: Path, source: str) -> None:
    data = CheckIns(written(tmp_path, SNAP), source).load()
    assert (data.name, data.real, data.items) == (source, True, ("cafe", "park"))
    assert data.counts.tolist() == [2, 1]
    assert data.counts.dtype == np.int64
    assert data.most == 2
    assert data.notes == (
        "2 users, 4 visits of 3 pairs of user and place",
        "2 check-ins without a place left out",
    )


def test_gzipped_is_the_same(tmp_path: Path) -> None:
    packed = tmp_path / "check_ins.txt.gz"
    packed.write_bytes(gzip.compress(written(tmp_path, SNAP).read_bytes()))
    assert CheckIns(packed).load().counts.tolist() == [2, 1]


@pytest.mark.parametrize(("lines", "counts"), [(CITY, [1, 2]), (WORLD, [2])])
def test_both_layouts_of_foursquare(tmp_path: Path, lines: list[str], counts: list[int]) -> None:
    data = CheckIns(written(tmp_path, lines, "latin-1"), "foursquare").load()
    assert data.counts.tolist() == counts
    assert data.most == 2


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("0\t2010\t1.0\tcafe", r"line 7: expected 5 columns between tabs .*, found 4"),
        ("", r"line 7: expected 5 columns between tabs .*, found 1"),
        ("\t2010\t1.0\t2.0\tcafe", "line 7: expected a user and a place"),
        ("0\t1", r"line 7: expected 5 columns between tabs .*, found 2"),
        ("\t2010\t1.0\t2.0\t", "line 7: expected a user and a place"),
        ("0\t2010\t91.0\t2.0\tcafe", r"line 7: expected a latitude and a longitude in degrees, found 91\.0"),
        ("0\t2010\t1.0\t-180.5\tcafe", r"line 7: expected a latitude and a longitude in degrees, found -180\.5"),
        ("0\t2010\tnan\t2.0\tcafe", "line 7: expected a latitude and a longitude in degrees, found nan"),
        ("0\t2010\tnorth\t2.0\tcafe", "line 7: expected a latitude and a longitude in degrees, found north"),
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path: Path, line: str, rule: str) -> None:
    with pytest.raises(InvalidValue, match=rule) as caught:
        CheckIns(written(tmp_path, [*SNAP, line])).load()
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="expected a file, and there is none"):
        CheckIns(tmp_path / "nothing.txt").load()
    with pytest.raises(InvalidValue, match="expected a readable file"):
        CheckIns(tmp_path).load()
    broken = tmp_path / "broken.txt.gz"
    broken.write_bytes(gzip.compress(b"0\t1\t1\t1\tcafe\n" * 999)[:-20])
    with pytest.raises(InvalidValue, match=r"line \d+: expected utf-8 text, whole and not damaged"):
        CheckIns(broken).load()
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"\xff\xfe\n")
    with pytest.raises(InvalidValue, match="line 1: expected utf-8 text"):
        CheckIns(binary).load()
    with pytest.raises(InvalidValue, match="expected at least one check-in at a place"):
        CheckIns(written(tmp_path, SNAP[4:])).load()
    with pytest.raises(InvalidValue, match=r"source=brightkit: expected one of .* mean brightkite"):
        CheckIns(tmp_path, "brightkit")


@pytest.mark.process
def test_the_readers_load_nothing_heavy() -> None:
    probe = "import sys, reproductions.counts; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = set(
        subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout.split()
    )
    assert "numpy" in loaded
    assert not loaded & {"torch", "pandas", "matplotlib", "rich", "hydra", "sklearn"}
