"""Cells that mean the same and are written otherwise: codes, truth, durations; and columns that tell nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import Table, TableSchema
from pate.data.table.cells import as_numbers, as_texts
from pate.data.table.remarks import unlike_public
from pate.data.table.schema import CategoryColumn, NumberColumn
from pate.validation import InvalidValue

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")


def schema_of(**columns: Any) -> TableSchema:
    return TableSchema.of(pa.table({name: pa.array(cells) for name, cells in columns.items()}), codes=("ward",))


@pytest.mark.parametrize(
    "cells",
    [
        ["3", "12", "3", "x"],
        ["3.0", "12.00", "3.", "x"],
        [3, 12, 3, "x"],
        [3.0, 12, "3.0", "x"],
        np.array([3.0, 12.0, 3.0, np.nan]),
        np.array([3, 12, 3, -1]),
    ],
)
def test_a_code_is_one_category_however_it_is_written(cells: Any) -> None:
    schema = schema_of(ward=[3, 12, 3, 5])
    assert schema.feature_names == ("ward=12", "ward=3", "ward=5", "ward=other")
    wanted = np.eye(4, dtype=np.float32)[[1, 0, 1, 3]]
    assert np.array_equal(schema.inputs(pd.DataFrame({"ward": cells})), wanted)


def test_words_that_the_public_file_tells_apart_stay_apart() -> None:
    """As codes of illnesses do, and as in models that were published before."""
    schema = schema_of(icd=["250.0", "250.00", "V1", "1.1", "1.10"] * 3)
    names = [name.removeprefix("icd=") for name in schema.feature_names]
    assert names == ["1.1", "1.10", "250.0", "250.00", "V1", "other"]
    found = schema.inputs({"icd": ["250.00", "250.0", "1.10", "1.100", "x"]}).argmax(axis=1)
    assert [names[place] for place in found] == ["250.00", "250.0", "1.10", "1.1", "other"]


def test_days_are_one_category_however_they_are_written() -> None:
    days = ["2025-01-31", "2025-02-01"]
    schema = schema_of(ward=days)
    assert schema.feature_names == ("ward=2025-01-31", "ward=2025-02-01", "ward=other")
    moments = pa.array(days).cast(pa.timestamp("us"))
    for cells in (days, moments, moments.cast(pa.timestamp("ns")), [f"{day}T00:00:00.000" for day in days]):
        assert schema.inputs({"ward": cells}).argmax(axis=1).tolist() == [0, 1]


def test_numbers_without_end_are_no_huge_codes() -> None:
    assert as_texts(pa.array([1.0, float("inf"), 2.0])).to_pylist()[1] == "inf"
    assert len(set(as_texts(pa.array([1e19, 2e19])).to_pylist())) == 2


def test_categories_that_people_wrote_are_read_in_the_same_way() -> None:
    column = CategoryColumn("ward", False, ("3.0", "2.50", "007", "true"))
    block, _ = column.encode(pa.array(["3", "2.5", "7", "TRUE", "007"]))
    assert block.argmax(axis=1).tolist() == [0, 1, 4, 3, 2]
    assert column.encode(pa.array([True, False]))[0].argmax(axis=1).tolist() == [3, 4]


def test_truth_is_0_and_1_whatever_the_format() -> None:
    schema = schema_of(old=["True", "False", "True", None])
    assert isinstance(schema.columns[0], NumberColumn)
    frames = [[True, False, None], ["true", "FALSE", ""], [1, 0, None], ["1.0", "0", None]]
    found = [schema.inputs(pd.DataFrame({"old": cells})) for cells in frames]
    assert all(np.array_equal(found[0], other) for other in found)
    assert schema == schema_of(old=[True, False, True, None])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_are_seconds(unit: str) -> None:
    stays = pa.array([90, None, 3600], pa.duration("s")).cast(pa.duration(unit))
    cells = as_numbers(stays)
    assert cells.missing.tolist() == [False, True, False]
    assert cells.values[[0, 2]].tolist() == [90.0, 3600.0]
    assert not cells.wrong.any()


def test_words_keep_their_spelling_until_they_are_compared() -> None:
    """In the digest of a budget and in published ids 1.0 and 1 are two names."""
    assert as_texts(pa.array(["3.0", "true"])).to_pylist() == ["3.0", "true"]


def test_a_column_that_tells_nothing_is_named() -> None:
    schema = schema_of(
        ward=["a", "b", "a", "c"], age=[1.0, 2.0, 5.0, 4.0], height=[1.0, None, 3.0, 4.0], one=[1, 1, 1, 1]
    )
    rows = 120
    good = pd.DataFrame({"ward": ["b"] * rows, "age": [3.0] * rows, "height": [2.0] * rows, "one": [1] * rows})
    age = good["age"] + 0.5

    def lines(number: int = rows, **changes: Any) -> list[str]:
        inputs = schema.inputs(good.assign(age=age, **changes)[:number])
        return list(unlike_public("data", schema, inputs))

    assert lines() == []
    assert lines(ward="B")[0].startswith("data.ward: every cell is missing, or no word of the public file")
    assert lines(height=np.nan)[0].startswith("data.height: ")
    assert lines(ward=None, height=None, number=99) == []
    assert lines(ward=["b"] + ["B"] * (rows - 1)) == []
    rare = ["B"] * 40_000
    rare[39_321] = "b"
    assert (
        list(unlike_public("data", schema_of(ward=["a", "b"]), schema_of(ward=["a", "b"]).inputs({"ward": rare}))) == []
    )
    missing = schema.inputs(good.assign(age=np.nan))
    assert [line.split(":")[0] for line in unlike_public("data", schema, missing)] == ["data.age"]


def test_a_column_in_other_units_is_named() -> None:
    """Grams for kilograms, or dates after all public ones; a rare truth that no record has is no reason."""
    days = [f"2024-01-{day:02}" for day in range(1, 31)]
    public = {"weight": np.linspace(40, 120, 30), "day": days, "rare": [1.0] + [0.0] * 29}
    schema = schema_of(**public)
    good = pd.DataFrame({"weight": np.linspace(60, 90, 120), "day": ["2024-01-09"] * 120, "rare": [0.0] * 120})

    def named(**changes: Any) -> list[str]:
        return [line.split(":")[0] for line in unlike_public("data", schema, schema.inputs(good.assign(**changes)))]

    assert named() == []
    assert named(weight=good["weight"] * 1000) == ["data.weight"]
    assert named(weight=good["weight"] / 1000) == ["data.weight"]
    assert named(day="2024-02-01", rare=1.0) == ["data.day", "data.rare"]
    assert named(weight=[40.0] * 60 + [120.0] * 60) == []


def files(folder: Path, head: str, rows: list[str]) -> dict[str, Any]:
    for name in ("private", "public", "test"):
        (folder / f"{name}.csv").write_text("\n".join([head, *rows, ""]))
    return {name: str(folder / f"{name}.csv") for name in ("private", "public", "test")} | {"labels": ["ill"]}


def test_a_setting_makes_numbers_and_dates_categories(tmp_path: Path) -> None:
    given = files(tmp_path, "ward,day,ill", ["3,2025-01-31,1", "12,2025-02-01,0"])
    names = Table(**given, category=["ward", "day"]).load().preprocessing.feature_names  # type: ignore[union-attr]
    assert names == ("ward=12", "ward=3", "ward=other", "day=2025-01-31", "day=2025-02-01", "day=other")
    with pytest.raises(
        InvalidValue, match=r"^data\.category=wart: expected a column of data\.public.*did you mean ward"
    ):
        Table(**given, category=["wart"]).load()
    with pytest.raises(InvalidValue, match=r"^data\.category=ill: expected a column of data\.public that is a feature"):
        Table(**given, category=["ill"]).load()
    Table(**given).public_schema().write(tmp_path / "schema.yaml")
    with pytest.raises(InvalidValue, match=r"^data\.category=.*: expected none beside data\.schema"):
        Table(**given, category=["ward"], schema=str(tmp_path / "schema.yaml")).load()
    text = (tmp_path / "schema.yaml").read_text()
    (tmp_path / "schema.yaml").write_text(text.replace("kind: number", "kind: category"))
    with pytest.raises(InvalidValue, match=r"expected also categories, .*; pate-schema category=\[ward\] finds them"):
        Table(**given, schema=str(tmp_path / "schema.yaml")).load()


def test_all_columns_that_can_be_no_feature_are_named_at_once(tmp_path: Path) -> None:
    words = [f"name {row},{row},note {row * 7},1" for row in range(200)]
    given = files(tmp_path, "name,age,note,ill", words)
    with pytest.raises(
        InvalidValue, match=r"data\.public\.name: .*data\.drop=\[name,note\] leaves all such columns out"
    ):
        Table(**given).load()


def test_a_group_that_a_file_lacks_is_not_to_be_dropped(tmp_path: Path) -> None:
    """Somebody who dropped it would have privacy for rows where it was meant for people."""
    given = files(tmp_path, "who,age,ill", ["x,3,1", "y,4,0"])
    Path(given["public"]).write_text("age,ill\n3,1\n4,0\n")
    with pytest.raises(InvalidValue, match=r"^data\.group=who: expected a column of data\.public$"):
        Table(**given, group="who").load()


def test_zeros_in_front_are_said_to_be_codes(tmp_path: Path) -> None:
    given = files(tmp_path, "zip,age,ill", ["01067,3,1", "53111,4,0"])
    zeros, _ = Table(**given).public_remarks()
    assert zeros.startswith("zip: numbers with a zero in front; if they are codes, data.category=[zip] makes each")
    assert len(Table(**given, category=["zip"]).public_remarks()) == 1


@pytest.mark.parametrize("name", ["private", "group", "schema"])
def test_an_empty_name_is_refused_as_such(name: str) -> None:
    with pytest.raises(InvalidValue, match=rf"^data\.{name}=: expected a name"):
        Table(**{name: ""})
