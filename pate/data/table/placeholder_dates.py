"""Detection of placeholder dates, such as 9999-12-31 among dates of one summer."""

import numpy as np

from pate.array_types import FloatArray

# The distance, in days, from which on a date is far from all others: ten years.
_FAR_DAYS = 3652.0
# The distance, in units of the range of all other dates, from which on a date is far.
_FAR_RANGES = 10.0
# The same distance for a first or last day of a year, which programs often write for a missing date.
_FAR_RANGES_AT_YEARS_END = 1.5
# The smallest number of distinct dates that are left after a placeholder.
_MIN_OTHER_DATES = 3


def placeholder_dates(days: FloatArray) -> list[float]:
    """Returns the dates in a public column that are probably placeholders for a missing date, as days since 1970.

    Rule: the earliest or latest date is a placeholder if the nearest other date is far away. Far means at least ten
    years, and also more than 10 times the range of the other dates, or more than 1.5 times that range for a day at the
    beginning or end of a year. The rule is repeated without the placeholder, while at least three other distinct dates
    remain.

    Args:
        days: the public dates as days since 1970, `[num_cells]`; NaN for a missing cell. Times of day are ignored.

    >>> placeholder_dates(np.array([19000.0, 19010.0, 19020.0, 2932896.0]))
    [2932896.0]
    """
    dates = np.unique(np.floor(days[np.isfinite(days)]))
    placeholders: list[float] = []
    while len(dates) > _MIN_OTHER_DATES:
        if _is_far(day=dates[-1], other_days=dates[:-1]):
            placeholders.append(float(dates[-1]))
            dates = dates[:-1]
        elif _is_far(day=dates[0], other_days=dates[1:]):
            placeholders.append(float(dates[0]))
            dates = dates[1:]
        else:
            break
    return placeholders


def is_at_years_end(day: float) -> bool:
    """Returns True if a day is the first of a year or one of its last two; in a leap year, one of its last three.

    `day` counts the days since 1970.
    """
    date = np.datetime64(int(day // 1), "D")
    first_of_year = date.astype("datetime64[Y]").astype("datetime64[D]")
    return bool((date - first_of_year).astype(int) in (0, 363, 364, 365))


def _is_far(day: float, other_days: FloatArray) -> bool:
    """Returns True if a date is far from all other dates, by the rule of `placeholder_dates`.

    All dates are days since 1970; `other_days` are in ascending order, `[num_others]`.
    """
    distance = float(np.abs(other_days - day).min())
    range_of_others = float(other_days[-1] - other_days[0])
    num_ranges = _FAR_RANGES_AT_YEARS_END if is_at_years_end(day) else _FAR_RANGES
    return distance >= _FAR_DAYS and distance > num_ranges * range_of_others
