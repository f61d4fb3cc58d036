"""Columns of numbers that are scaled by a power, or by the distance of their two values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pate.data import Table, TableSchema
from tests.refusals import refused_parameter
from tests.unit.data.table.small_table import (
    write_lines,
)

pytest.importorskip("pyarrow")

# The sizes of 32 files: most are small, and a few are far larger.
SIZES = [1.0, *np.exp(np.arange(30) / 3).round(), 1e6]


@pytest.fixture
def scales(tmp_path: Path) -> Table:
    """Returns the reader of a public table with a rare flag, a column of four levels, and sizes with a long tail."""
    lines = []
    for row, size in enumerate(SIZES):
        rare_flag = int(row == 5)
        level = row % 4
        lines.append(f"{rare_flag},{level},{size:.0f}")
    public_path = write_lines(path=tmp_path / "public.csv", head="rare,level,bytes", lines=lines)
    return Table(public=public_path)


def test_column_of_two_numbers_is_scaled_by_their_distance(scales: Table) -> None:
    """A rare flag of 0 and 1 is scaled so that both values differ by 1, and a number above 1 is cut to 1.

    A remark says so.
    """
    schema = scales.public_schema()
    columns = schema.plain()["columns"]
    assert "unit" in columns["rare"]
    assert columns["level"].keys() == {"kind", "mean", "std", "min", "max", "missing"}
    inputs = schema.inputs({"rare": [0.0, 1.0, 9.0], "level": [0.0] * 3, "bytes": [1.0] * 3})
    assert np.allclose(np.diff(inputs[:, 0]), [1, 0], atol=1e-6)  # 9 is cut to 1
    line = "data: column rare: two numbers alone, such as 0 and 1, which are taken as they are"
    assert line in scales.public_remarks()


def test_power_of_a_long_tail_is_inverted(scales: Table) -> None:
    """Sizes with a long tail get a power below 1/2; their features have mean 0 and standard deviation 1.

    `frame` turns the features into the sizes again.
    """
    schema = scales.public_schema()
    assert 0 <= schema.plain()["columns"]["bytes"]["power"] < 0.5
    inputs = schema.inputs({"rare": [0.0] * 3, "level": [0.0] * 3, "bytes": [1.0, 400.0, 2e6]})
    assert np.allclose(schema.frame(inputs)["bytes"], [1, 400, 1e6], rtol=1e-3)
    public_inputs = schema.inputs({"rare": np.zeros(32), "level": np.zeros(32), "bytes": SIZES})
    size_feature = public_inputs[:, 2]
    assert np.allclose([size_feature.mean(), size_feature.std()], [0, 1], atol=1e-6)
    line = (
        "data: column bytes: a few numbers far larger than all others, which a power brings closer to "
        "them; the schema has it as power"
    )
    assert line in scales.public_remarks()


def test_schema_with_powers_survives_a_round_trip(scales: Table) -> None:
    """A schema with a power is equal after it was written and read."""
    schema = scales.public_schema()
    assert TableSchema.read(schema.plain(), name="x") == schema


def test_older_schema_without_powers_is_standardized(scales: Table) -> None:
    """A schema of an earlier version, without powers, divides a flag by its standard deviation."""
    column_by_name = scales.public_schema().plain()["columns"]
    for column in column_by_name.values():
        for key in ("power", "unit", "center"):
            column.pop(key, None)
    schema = TableSchema.read({"columns": column_by_name}, name="x")
    inputs = schema.inputs({"rare": [0.0, 1.0], "level": [0.0, 0.0], "bytes": [1.0, 1.0]})
    std_of_flags = np.sqrt(1 / 32 - 1 / 32**2)  # one of the 32 flags is 1
    assert np.allclose(np.diff(inputs[:, 0]), 1 / std_of_flags, rtol=1e-5)


def test_power_outside_0_to_2_is_refused(scales: Table) -> None:
    """A schema with a power of 3 is refused under the column's name."""
    column_by_name = scales.public_schema().plain()["columns"]
    column_by_name["bytes"] |= {"power": 3, "unit": 1.0, "center": 0.0}
    with refused_parameter("x.columns.bytes", value=(3.0, 0.0, 1.0)):
        TableSchema.read({"columns": column_by_name}, name="x")
