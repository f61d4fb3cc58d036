"""Readers of count data count items, skip some lines and refuse others."""

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pate.validation import InvalidValue
from reproductions.counts import CheckIns, Flights, StateCases

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
WORLD = [
    "50756\tv1\tTue Apr 03 18:00:06 +0000 2012\t60",
    "190571\tv1\tTue Apr 03 18:00:07 +0000 2012\t-180",
]


def written(folder: Path, lines: list[str], encoding: str = "utf-8") -> Path:
    path = folder / "lines.txt"
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return path


def require_invalid_value(make: Callable[[], object], *, message_pattern: str) -> None:
    with pytest.raises(InvalidValue, match=message_pattern) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", ["brightkite", "gowalla"])
def test_a_user_counts_once_at_a_place(tmp_path: Path, source: str) -> None:
    data = CheckIns(written(tmp_path, lines=SNAP), source).load()
    assert (data.name, data.real, data.items) == (source, True, ("cafe", "park"))
    assert data.counts.tolist() == [2, 1]
    assert data.counts.dtype == np.int64
    assert data.most == 2
    assert data.notes == (
        "2 users, 4 visits of 3 pairs of user and place",
        "2 check-ins without a place left out",
    )


@pytest.mark.parametrize(("lines", "counts"), [(CITY, [1, 2]), (WORLD, [2])])
def test_both_layouts_of_foursquare(tmp_path: Path, lines: list[str], counts: list[int]) -> None:
    data = CheckIns(written(tmp_path, lines, encoding="latin-1"), source="foursquare").load()
    assert data.counts.tolist() == counts
    assert data.most == 2


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("0\t2010\t1.0\tcafe", r"line 7: expected 5 columns between tabs .*, found 4"),
        ("\t2010\t1.0\t2.0\tcafe", "line 7: expected a user and a place"),
        (
            "0\t2010\t91.0\t2.0\tcafe",
            r"line 7: expected a latitude and a longitude in degrees, found 91\.0",
        ),
        (
            "0\t2010\t1.0\t-180.5\tcafe",
            r"line 7: expected a latitude and a longitude in degrees, found -180\.5",
        ),
        (
            "0\t2010\tnan\t2.0\tcafe",
            "line 7: expected a latitude and a longitude in degrees, found nan",
        ),
        (
            "0\t2010\tnorth\t2.0\tcafe",
            "line 7: expected a latitude and a longitude in degrees, found north",
        ),
    ],
)
def test_a_line_that_is_no_check_in_is_refused_by_its_number(
    tmp_path: Path, line: str, rule: str
) -> None:
    """A line of check-ins that lacks a column or a user, or has an impossible place, is refused with its number."""
    require_invalid_value(
        CheckIns(written(tmp_path, lines=[*SNAP, line])).load, message_pattern=rule
    )


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    require_invalid_value(
        CheckIns(tmp_path / "nothing.txt").load,
        message_pattern="expected a file, and there is none",
    )
    require_invalid_value(CheckIns(tmp_path).load, message_pattern="expected a readable file")
    broken = tmp_path / "broken.txt.gz"
    check_in_line = b"0\t1\t1\t1\tcafe\n"
    broken.write_bytes(gzip.compress(check_in_line * 999)[:-20])
    require_invalid_value(
        CheckIns(broken).load,
        message_pattern=r"line \d+: expected utf-8 text, whole and not damaged",
    )
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"\xff\xfe\n")
    require_invalid_value(CheckIns(binary).load, message_pattern="line 1: expected utf-8 text")
    require_invalid_value(
        CheckIns(written(tmp_path, lines=SNAP[4:])).load,
        message_pattern="expected at least one check-in at a place",
    )
    require_invalid_value(
        make=lambda: CheckIns(tmp_path, source="brightkit"),
        message_pattern=r"source=brightkit: expected one of .* mean brightkite",
    )


TABLE = """year,tailnum,origin,dest
2013,N1,EWR,IAH
2013,N1,JFK,IAH
2013,"N2",LGA,IAH
2013,N2,LGA,"ORD"
2013,NA,LGA,ORD
"""


def zipped(folder: Path, *names: str) -> Path:
    path = folder / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, TABLE)
    return path


def test_a_plane_counts_once_at_an_airport(tmp_path: Path) -> None:
    """A plane that flies to an airport twice counts there once.

    A flight without a tail number is left out, and counted in the notes. A zipped table gives the same counts.
    """
    plain = tmp_path / "flights.csv"
    plain.write_text(TABLE)
    for path in (plain, zipped(tmp_path, "flights.csv")):
        data = Flights(path).load()
        assert (data.name, data.kind, data.items, data.most) == (
            "flights",
            "real",
            ("IAH", "ORD"),
            2,
        )
        assert data.counts.tolist() == [2, 1]
        assert data.notes[1] == "1 flights without a tail number left out"


LINES_OF_FIVE_DAYS = [
    "date,state,fips,cases,deaths",
    "2020-03-01,Ohio,39,5,0",
    "2020-03-02,Ohio,39,9,0",
    "2020-03-02,Utah,49,3,0",
    "2020-03-03,Ohio,39,7,1",
    "2020-03-05,Ohio,39,27,1",
    "2020-03-05,Utah,49,4,0",
]


def test_differences_by_hand(tmp_path: Path) -> None:
    data = StateCases(written(tmp_path, lines=LINES_OF_FIVE_DAYS), num_days=5, most=15).load()
    assert (data.items, data.real, data.most) == (("Ohio", "Utah"), True, 15)
    assert data.counts.tolist() == [[5, 0], [4, 3], [0, 0], [0, 0], [15, 1]]
    assert data.notes == (
        "5 days from 2020-03-01",
        "1 corrections that lower a cumulative count taken as 0 new cases",
        "1 counts cut to 15",
    )


def test_the_window_is_the_last_days_unless_it_is_given(tmp_path: Path) -> None:
    path = written(tmp_path, lines=LINES_OF_FIVE_DAYS)
    assert StateCases(path, num_days=2).load().counts.tolist() == [[0, 0], [20, 1]]
    assert StateCases(path, num_days=2, first_day="2020-03-02").load().counts.tolist() == [
        [4, 3],
        [0, 0],
    ]
    between = "first_day=2020-03-04: expected 3 days between 2020-03-01 and 2020-03-05"
    require_invalid_value(
        StateCases(path, num_days=3, first_day="2020-03-04").load, message_pattern=between
    )
    require_invalid_value(
        StateCases(path).load, message_pattern="first_day=2020-02-25: expected 10 days between"
    )
    require_invalid_value(
        StateCases(path, num_days=2, first_day="March").load,
        message_pattern="first_day=March: expected a day such as",
    )
