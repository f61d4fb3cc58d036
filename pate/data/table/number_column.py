"""Columns of numbers: clipped to the public range and standardized."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import scipy

from pate.array_types import Float32Array, FloatArray
from pate.data.table.cells import as_numbers
from pate.data.table.column import MISSING, Column, Encoded
from pate.data.table.spelling import USUAL, CellSpelling
from pate.validation import InvalidValue, require

# The excess kurtosis from which on a power is fitted: that of two exponential tails.
_LONG_TAIL = 3.0
# The standard deviation, in units of the mean, up to which numbers count as equal.
_FLAT = 1e-12
# The number that takes the place of a mean or range of 0.
_TINY = 1e-300
# The power is fitted to fewer than twice this number of public cells. More cells change it little.
_MAX_FITTED_NUMBERS = 10_000
# The number of digits, relative to the public range, of the numbers that are recovered from features.
_FRAME_DIGITS = 6


@dataclass(frozen=True)
class NumberColumn(Column):
    """A column of numbers, standardized by the mean and standard deviation of the public cells.

    Public cells are those in the file of public records. Numbers are first clipped to the range of the public cells.
    If a column has only two distinct numbers, such as 0 and 1, their distance is the unit in place of the standard
    deviation; otherwise a rare flag would outweigh all other features of its record. If the public numbers have a long
    tail, they are transformed by the Yeo-Johnson power that makes them most similar to a normal distribution, and
    standardized again.

    Attributes:
        mean: the mean of the public cells that are not missing.
        std: the standard deviation of these cells; 1 if they are all equal.
        min: the smallest of these cells.
        max: the largest of these cells.
        power: the exponent, from 0 to 2, that is applied to standardized numbers; 1 leaves them unchanged.
        center: the standardized number, after the power, that has the feature 0.
        unit: the distance from `center`, in standardized numbers after the power, that has the feature 1.

    Source: Yeo & Johnson 2000, "A new family of power transformations to improve normality or symmetry".
    """

    mean: float
    std: float
    min: float
    max: float
    power: float = 1.0
    center: float = 0.0
    unit: float = 1.0

    kind: ClassVar[str] = "number"
    keys: ClassVar[tuple[str, ...]] = ("mean", "std", "min", "max", "missing")

    def __post_init__(self) -> None:
        statistics = (self.mean, self.std, self.min, self.max)
        are_finite = all(map(np.isfinite, statistics))
        require(are_finite and self.std > 0, self.name, statistics, "finite numbers, and std > 0")
        require(self.min <= self.max, self.name, (self.min, self.max), "min <= max")
        has_scale = np.isfinite(self.center) and 0 < self.unit < np.inf
        if not 0 <= self.power <= 2 or not has_scale:
            rule = "a power from 0 to 2, a finite center, and unit > 0"
            raise InvalidValue(self.name, (self.power, self.center, self.unit), rule=rule)

    @classmethod
    def fit(cls, name: str, numbers: FloatArray) -> Self:
        """Returns the column that is learned from public numbers: their mean, standard deviation, range and power.

        Args:
            name: the name of the column.
            numbers: the public cells, `[num_cells]`; NaN for a missing cell.
        """
        finite = numbers[~np.isnan(numbers)]
        public_mean = float(finite.mean())
        public_std = float(finite.std())
        public_min = float(finite.min())
        public_max = float(finite.max())
        varies = public_std > _FLAT * max(abs(public_mean), _TINY)  # false for NaN, too
        column = cls(
            name,
            has_missing=len(finite) < len(numbers),
            mean=public_mean,
            std=public_std if varies else 1.0,
            min=public_min,
            max=public_max,
        )
        if not varies:
            return column
        if ((finite == public_min) | (finite == public_max)).all():
            return replace(column, unit=(public_max - public_min) / public_std)
        standardized_numbers = (finite - public_mean) / public_std
        has_long_tail = scipy.stats.kurtosis(standardized_numbers) > _LONG_TAIL
        if not has_long_tail:
            return column
        step = max(1, len(standardized_numbers) // _MAX_FITTED_NUMBERS)
        likeliest_power = float(scipy.stats.yeojohnson_normmax(standardized_numbers[::step]))
        power = round(min(max(likeliest_power, 0.0), 2.0), 2)
        transformed_numbers = _yeo_johnson(numbers=standardized_numbers, power=power)
        return replace(
            column,
            power=power,
            center=float(transformed_numbers.mean()),
            unit=float(transformed_numbers.std()),
        )

    @property
    def expects(self) -> str:
        """The description of a valid cell, for an error message."""
        return "numbers as in the public file"

    def numbers(self, cells: Any, cell_notation: CellSpelling = USUAL) -> FloatArray:
        """Returns cells as numbers `[num_cells]`: NaN for a missing cell, +inf for a cell that is not a number.

        Args:
            cells: a pyarrow array of cells.
            cell_notation: the notation of numbers and missing cells.
        """
        return as_numbers(cells, cell_notation=cell_notation)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of the column; if public cells are missing, also that of the feature which marks missing cells."""
        return (self.name, f"{self.name}={MISSING}") if self.has_missing else (self.name,)

    def encode(self, cells: Any, cell_notation: CellSpelling = USUAL) -> Encoded:
        """Returns numbers as features `[num_cells, 1]`, or `[num_cells, 2]` if public cells are missing.

        The first feature is the scaled number, clipped to the public range. For a missing cell, and for one that is no
        number, it is 0, the mean of this feature over the public cells that are not missing. The second feature is 1
        for a missing cell.
        Numbers outside the range of the public cells are counted as unknown.
        """
        number_of_cell = self.numbers(cells, cell_notation=cell_notation)
        missing = np.isnan(number_of_cell)
        is_number = np.isfinite(number_of_cell)
        clipped = number_of_cell[is_number].clip(self.min, self.max)
        transformed_numbers = _yeo_johnson(
            numbers=(clipped - self.mean) / self.std, power=self.power
        )
        features = np.zeros((len(number_of_cell), len(self.feature_names)), np.float32)
        features[is_number, 0] = (transformed_numbers - self.center) / self.unit
        features[:, 1:] = missing[:, None]
        is_out_of_range = (number_of_cell < self.min) | (number_of_cell > self.max)
        return Encoded(
            features=features,
            wrong=np.isinf(number_of_cell),
            num_unknown_and_missing=np.array([is_out_of_range.sum(), missing.sum()]),
        )

    def frame_columns(self, encoded_cells: Float32Array) -> dict[str, Any]:
        """Returns the numbers that features `[num_cells, num_features]` encode, as one column by its name.

        Missing cells are NaN if public cells are missing. Numbers are rounded to a power of 10 between a millionth and
        a hundred-thousandth of the range of the public cells; they are not rounded if this range is 0.
        """
        transformed_numbers = encoded_cells[:, 0].astype(np.float64) * self.unit + self.center
        numbers = _inverse_yeo_johnson(transformed_numbers, self.power) * self.std + self.mean
        public_range = self.max - self.min
        if public_range > 0:
            magnitude = int(np.ceil(np.log10(max(public_range, _TINY))))
            numbers = numbers.round(_FRAME_DIGITS - magnitude)
        if not self.has_missing:
            return {self.name: numbers}
        is_missing_cell = encoded_cells[:, 1] > 0
        return {self.name: np.where(is_missing_cell, np.nan, numbers)}

    def plain(self) -> dict[str, Any]:
        """Returns the column as values for JSON.

        `power`, `center` and `unit` are left out if they have their defaults.
        """
        entry = super().plain()
        entry |= {key: getattr(self, key) for key in self.keys if key != "missing"}
        for dataclass_field in fields(self):
            value = getattr(self, dataclass_field.name)
            if (
                dataclass_field.name in ("power", "center", "unit")
                and value != dataclass_field.default
            ):
                entry[dataclass_field.name] = value
        entry["missing"] = self.has_missing
        return entry

    @classmethod
    def read(cls, name: str, schema_entry: Mapping[str, Any], schema_folder: Path | None) -> Self:
        """Builds the column from the entry that `plain` returned; raises an error if a number is impossible.

        For the arguments see `Column.read`.
        """
        return cls(
            name,
            has_missing=schema_entry["missing"],
            mean=float(schema_entry["mean"]),
            std=float(schema_entry["std"]),
            min=float(schema_entry["min"]),
            max=float(schema_entry["max"]),
            power=float(schema_entry.get("power", 1.0)),
            center=float(schema_entry.get("center", 0.0)),
            unit=float(schema_entry.get("unit", 1.0)),
        )


def _yeo_johnson(numbers: FloatArray, power: float) -> FloatArray:
    """Returns the Yeo-Johnson transform of numbers.

    For x >= 0 the transform is the Box-Cox transform of 1 + x with exponent `power`. For x < 0 it is minus the Box-Cox
    transform of 1 - x with exponent `2 - power`.
    """
    return _signed(transform=scipy.special.boxcox1p, numbers=numbers, power=power)


def _inverse_yeo_johnson(transformed_numbers: FloatArray, power: float) -> FloatArray:
    """Returns the numbers whose transform by `_yeo_johnson` is `transformed_numbers`; scipy.stats has no inverse."""
    return _signed(transform=scipy.special.inv_boxcox1p, numbers=transformed_numbers, power=power)


def _signed(transform: Callable[..., FloatArray], numbers: FloatArray, power: float) -> FloatArray:
    """Returns `sign(x) * transform(abs(x), p)` for each number x, where p is `power` if x >= 0, and else `2 - power`.

    With power 1 the numbers are returned unchanged.
    """
    if power == 1:
        return numbers
    power_of_sign = np.where(numbers >= 0, power, 2 - power)
    return np.asarray(np.sign(numbers) * transform(np.abs(numbers), power_of_sign))
