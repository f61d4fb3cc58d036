"""Names of columns: whole numbers as names in settings, and the time to compare thousands of names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pate.data import Table, TableSchema
from pate.data.table.column_names import require_columns
from pate.data.table.table_file import TableFile
from tests.refusals import ANY, refused_parameter
from tests.unit.data.table.patients import write_patients

pytest.importorskip("pyarrow")


@pytest.fixture
def table_with_number_names(tmp_path: Path) -> Table:
    """Returns a reader whose settings name columns by the whole numbers 1, 2019 and 7, as Hydra parses them."""
    table = write_patients(
        folder=tmp_path,
        head="2019,0,7,1",
        private=[f"0{row},{row},-9,0" for row in range(4)],
        public=[f"1{row},{row},-9,0" for row in range(4)],
        test=["90,1,3,1"],
    )
    labels: Any = [1]
    group: Any = 2019
    drop: Any = [7]
    return replace(table, labels=labels, group=group, drop=drop)


def test_columns_may_be_named_by_whole_numbers(table_with_number_names: Table) -> None:
    """Columns that settings name by the whole numbers 1, 2019 and 7 are found by these names."""
    dataset = table_with_number_names.load()
    assert dataset.label_names == ("1",)
    assert isinstance(dataset.preprocessing, TableSchema)
    assert dataset.preprocessing.names == ("0",)
    assert dataset.private.num_groups == 4


def test_words_for_missing_cells_may_be_whole_numbers(table_with_number_names: Table) -> None:
    """The list `missing` may have numbers as well as texts: with `missing=[-9]`, every cell of -9 counts as missing.

    So a public column in which all cells are -9 is refused, because it has no value.
    """
    missing: Any = [-9]
    with refused_parameter("data.public.7", rule_words="a value in"):
        replace(table_with_number_names, drop=(), missing=missing).load()


@pytest.mark.parametrize("wrong_name", [1.0, None, True])
def test_values_other_than_names_are_refused_as_columns(
    table_with_number_names: Table, wrong_name: Any
) -> None:
    """A label named by a float, None or a truth value is refused."""
    with refused_parameter("data.labels", value=ANY, rule_words="a list of"):
        replace(table_with_number_names, labels=(wrong_name,))


def test_a_name_that_is_listed_twice_in_two_spellings_is_refused(
    table_with_number_names: Table,
) -> None:
    """Two names that differ in a zero-width space alone are one column, so a list of both is refused."""
    with refused_parameter("data.drop", value=ANY, rule_words="each once"):
        replace(table_with_number_names, drop=("age", "age\u200b"))


class CountingName(str):
    """A column's name that counts how often any such name is compared with another text."""

    num_comparisons: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        CountingName.num_comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_time_to_compare_names_is_linear_in_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of 2,000 columns are compared with fewer than 10 comparisons for each name.

    Otherwise a table of thousands of columns would take too long.
    """
    monkeypatch.setattr(CountingName, "num_comparisons", 0)
    names = [CountingName(f"gene{number}") for number in range(2000)]
    require_columns("data", column_names=names, required=[str(name) for name in names])
    assert CountingName.num_comparisons < 10 * len(names)


def test_names_of_a_file_are_read_once(tmp_path: Path) -> None:
    """A file keeps the names of its columns, so that they are not read again for each column."""
    public_path = Path(str(write_patients(folder=tmp_path).public))
    file = TableFile(public_path, setting="data")
    assert file.names is file.names
