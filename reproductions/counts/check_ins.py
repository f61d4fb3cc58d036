"""Check-ins of users at places: BrightKite, Gowalla and Foursquare, from the user's own copies."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from pathlib import Path

from pate.validation import require, require_choice
from reproductions.counts.count_data import CountData, count_visitors
from reproductions.counts.lines import numbered_lines, refuse_line


@dataclass(frozen=True)
class _Form:
    """One layout of a check-in file: where its columns are."""

    columns: int
    rule: str
    user: int
    place: int
    latitude: int | None
    encoding: str = "utf-8"
    nowhere: tuple[str, ...] = ()


_SNAP = _Form(5, "user, time, latitude, longitude, place", 0, 4, 2, nowhere=("", "0" * 32))
_CITY = _Form(8, "user, venue, category, category name, latitude, longitude, offset, time", 0, 1, 4, "latin-1")
_GLOBAL = _Form(4, "user, venue, time, offset", 0, 1, None, "latin-1")
_FORMS = {"brightkite": (_SNAP,), "gowalla": (_SNAP,), "foursquare": (_CITY, _GLOBAL)}


@dataclass(frozen=True)
class CheckIns:
    """How many users checked in at each place.

    BrightKite and Gowalla are read in the layout of SNAP (`loc-brightkite_totalCheckins.txt.gz`), five columns between
    tabs. Foursquare is read in either layout of its well-known collections, told apart by the first line: a city's
    eight columns (`dataset_TSMC2014_NYC.txt`) or the world's four (`dataset_TIST2015_Checkins.txt`).

    Edge cases: check-ins without a place (BrightKite has some, and an identifier of 32 zeros for no place) are left
    out and counted in the notes; so is a line with a user alone. Any other line that does not fit is refused with its
    number.

    Attributes:
        path: the file, plain or gzipped.
        source: "brightkite", "gowalla" or "foursquare".

    Source: Cho, Myers & Leskovec 2011 (SNAP); Yang, Zhang & Qu 2015 and 2016 (Foursquare).
    """

    path: Path | str
    source: str = "brightkite"

    def __post_init__(self) -> None:
        require_choice("source", self.source, tuple(_FORMS))

    def load(self) -> CountData:
        """Reads the file and counts a user once at a place.

        Raises:
            InvalidValue: the file cannot be read, is empty, or has a line that does not fit; the line is named.
        """
        path, form = Path(self.path), _FORMS[self.source][0]
        users: dict[str, int] = {}
        places: dict[str, int] = {}
        visits, nowhere = (array("q"), array("q")), 0
        for number, line in numbered_lines(path, encoding=form.encoding):
            fields = line.split("\t")
            if number == 1:
                form = next((form for form in _FORMS[self.source] if form.columns == len(fields)), form)
            if _is_nowhere(fields, form):
                nowhere += 1
                continue
            _check(path, number, fields, form)
            visits[0].append(users.setdefault(fields[form.user], len(users)))
            visits[1].append(places.setdefault(fields[form.place], len(places)))
        require(len(visits[0]) > 0, "path", path, "at least one check-in at a place")
        notes = (f"{nowhere:,} check-ins without a place left out",) if nowhere else ()
        return count_visitors(self.source, visits[0], visits[1], tuple(places), notes=notes)


def _is_nowhere(fields: list[str], form: _Form) -> bool:
    """Whether a line names a user and no place, or nothing else at all."""
    if not form.nowhere or len(fields) == 1 or fields[form.user] == "":
        return False
    alone = fields.count("") == len(fields) - 1
    return alone or (len(fields) == form.columns and fields[form.place] in form.nowhere)


def _check(path: Path, number: int, fields: list[str], form: _Form) -> None:
    """Refuses a line that does not fit."""
    if len(fields) != form.columns:
        refuse_line(path, number, f"{form.columns} columns between tabs ({form.rule}), found {len(fields)}")
    for place in (form.user, form.place):
        if not fields[place].strip():
            refuse_line(path, number, f"a user and a place ({form.rule})")
    if form.latitude is not None:
        for place, largest in ((form.latitude, 90.0), (form.latitude + 1, 180.0)):
            if not abs(_number(fields[place])) <= largest + 1e-6:
                refuse_line(path, number, f"a latitude and a longitude in degrees, found {fields[place]}")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
