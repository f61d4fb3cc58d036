"""Daily new cases by state, from cumulative counts in the New York Times' file format."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np

from pate.validation import InvalidValue, require, require_count
from reproductions.counts.count_data import CountData
from reproductions.counts.lines import numbered_lines, refuse_line

_HEADER = "date,state,fips,cases,deaths"
_COUNT = re.compile("[0-9]{1,15}")


@dataclass(frozen=True)
class StateCases:
    """New cases a day in each state, over some days: the differences of the file's cumulative counts.

    A person is a case on one day in one state, so a day's counts move by at most 1 with one person.

    Edge cases: a state without a line on a day keeps its count of the day before, 0 at first. A correction that lowers
    the cumulative count gives 0 new cases and is counted in the notes; so is a day's count above `most`, which is cut
    to it (neither lets a count move by more than 1). A state's first line counts in full on its day.

    Attributes:
        path: `us-states.csv`, plain or gzipped.
        num_days: how many days.
        first_day: the first of them, ISO; None takes the last `num_days` days of the file.
        most: a public bound on a day's count, to which counts are cut.

    Source: The New York Times, covid-19-data.
    """

    path: Path | str
    num_days: int = 10
    first_day: str | None = None
    most: int = 100_000

    def __post_init__(self) -> None:
        require_count("num_days", self.num_days)
        require_count("most", self.most)

    def load(self) -> CountData:
        """Reads and differences the file: counts `[num_days, states]`.

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
        table = np.full(((days[-1] - days[0]).days + 2, len(states)), -1, dtype=np.int64)  # a day of zeros first
        table[0] = 0
        for (day, state), count in cumulative.items():
            table[(day - days[0]).days + 1, column[state]] = count
        for row in range(1, len(table)):
            table[row] = np.where(table[row] < 0, table[row - 1], table[row])
        start = (first - days[0]).days
        new = np.diff(table, axis=0)[start : start + self.num_days]
        notes = (f"{self.num_days} days from {first.isoformat()}", *_notes(new, self.most))
        return CountData("state cases", True, states, np.clip(new, 0, self.most), most=self.most, notes=notes)

    def _first(self, days: list[date]) -> date:
        """The first day of the window, which lies within the file."""
        last = days[-1] - timedelta(days=self.num_days - 1)
        try:
            first = last if self.first_day is None else date.fromisoformat(self.first_day)
        except ValueError as error:
            raise InvalidValue(f"first_day={self.first_day}: expected a day such as 2020-11-01") from error
        span = f"{self.num_days} days between {days[0].isoformat()} and {days[-1].isoformat()}"
        require(days[0] <= first <= last, "first_day", first.isoformat(), f"{span}, the days of the file")
        return first


def _cumulative(path: Path, lines: Iterable[tuple[int, str]]) -> dict[tuple[date, str], int]:
    """Cumulative cases by day and state."""
    found: dict[tuple[date, str], int] = {}
    header = False
    for number, line in lines:
        if not header:
            header = line.strip() == _HEADER
            if not header:
                refuse_line(path, number, f"the header {_HEADER}")
            continue
        fields = line.strip().split(",")
        if len(fields) != 5 or not fields[1] or not all(_COUNT.fullmatch(field) for field in fields[3:]):
            refuse_line(path, number, f"{_HEADER}, with whole numbers >= 0 of cases and deaths")
        try:
            key = date.fromisoformat(fields[0]), fields[1]
        except ValueError as error:
            refuse_line(path, number, "a day such as 2020-11-01", cause=error)
        if key in found:
            refuse_line(path, number, f"one line a day and state, and {fields[1]} has another on {fields[0]}")
        found[key] = int(fields[3])
    return found


def _notes(new: np.ndarray[tuple[int, ...], np.dtype[np.int64]], most: int) -> list[str]:
    """What happened to the differences."""
    lowered, cut = int((new < 0).sum()), int((new > most).sum())
    said = [(lowered, "corrections that lower a cumulative count taken as 0 new cases"), (cut, f"counts cut to {most}")]
    return [f"{number} {text}" for number, text in said if number]
