"""Columns of dates: numbers of days, in which placeholder dates count as missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from pate.array_types import FloatArray
from pate.data.table.cells import as_dates
from pate.data.table.dates import ORDERS, days_as_text, days_of
from pate.data.table.number_column import NumberColumn
from pate.data.table.placeholder_dates import placeholder_dates
from pate.data.table.spelling import USUAL, CellSpelling
from pate.validation import InvalidValue, require

_EXAMPLES = {None: "2025-01-31", "dmy": "31.01.2025", "mdy": "01/31/2025", "ymd": "25-01-31"}


@dataclass(frozen=True)
class DateColumn(NumberColumn):
    """A column of dates, with or without a time, converted to days since 1970 and then encoded like numbers.

    Attributes:
        order: the order of day, month and year, see `dates.ORDERS`; None if the public dates are unambiguous, as in
            ISO 8601.
        absent: placeholder dates in ISO 8601, see `placeholder_dates`; they count as missing cells in all files.
    """

    order: str | None = None
    absent: tuple[str, ...] = ()

    kind: ClassVar[str] = "date"

    @classmethod
    def fit_dates(cls, name: str, days: FloatArray, date_order: str | None = None) -> Self:
        """Returns the column that is learned from public dates.

        Args:
            name: the name of the column.
            days: the public dates as days since 1970, `[num_cells]`; NaN for a missing cell.
            date_order: the order of day, month and year; None if the dates are unambiguous.
        """
        placeholder_days = sorted(placeholder_dates(days))
        column = cls.fit(name, np.where(np.isin(np.floor(days), placeholder_days), np.nan, days))
        return replace(column, order=date_order, absent=tuple(map(days_as_text, placeholder_days)))

    @property
    def expects(self) -> str:
        """The description of a valid cell, for an error message."""
        return f"dates such as {_EXAMPLES[self.order]} as in the public file"

    def numbers(self, cells: Any, cell_notation: CellSpelling = USUAL) -> FloatArray:
        """Returns cells as days since 1970, `[num_cells]`: NaN for a missing date, +inf for a cell that is not a date.

        Args:
            cells: a pyarrow array of cells.
            cell_notation: the notation of dates and missing cells.
        """
        days = as_dates(
            cells,
            date_orders=(cell_notation.date_order, self.order),
            first_year=cell_notation.first_year,
        )
        is_placeholder = np.isin(np.floor(days), [days_of(day) for day in self.absent])
        return np.where(is_placeholder, np.nan, days)

    def plain(self) -> dict[str, Any]:
        """Returns the column as values for JSON."""
        entry = super().plain()
        if self.order is not None:
            entry["order"] = self.order
        if self.absent:
            entry["absent"] = list(self.absent)
        return entry

    @classmethod
    def read(cls, name: str, schema_entry: Mapping[str, Any], schema_folder: Path | None) -> Self:
        """Builds the column from the entry that `plain` returned. For the arguments see `Column.read`.

        Raises:
            InvalidValue: the entry has impossible numbers, or an order of day, month and year that is not in
                `dates.ORDERS`, or its placeholder dates are no list.
            ValueError: a placeholder date is no date. An entry of another form raises another error of Python.
        """
        column = super().read(name, schema_entry, schema_folder)
        date_order = schema_entry.get("order")
        is_date_order = date_order is None or date_order in ORDERS
        require(is_date_order, f"{name}.order", date_order, f"one of {', '.join(ORDERS)}")
        placeholder_texts = schema_entry.get("absent", [])
        if not isinstance(placeholder_texts, list):
            rule = "a list of dates such as 2025-01-31"
            raise InvalidValue(f"{name}.absent", placeholder_texts, rule=rule)
        iso_dates = tuple(map(str, placeholder_texts))
        for iso_date in iso_dates:
            days_of(date_text=iso_date)  # raises for what is no date
        return replace(column, order=date_order, absent=iso_dates)
