"""Owners of rows: one patient, several owners of one row, and the privacy budget of a person."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pate.accounting import PrivacyUnit
from pate.data import Table
from tests.refusals import refused_parameter
from tests.unit.data.table.small_table import HEAD, PRIVATE_ROWS, write_lines, write_table

pytest.importorskip("pyarrow")


def write_table_with_budgets(folder: Path, budgets: tuple[str, str, str]) -> Table:
    """Writes the small table with a column `agreed` in the private file, and returns its reader.

    Args:
        folder: the folder of the three files.
        budgets: the cells of the column `agreed`, which says the budget of a row's patient.
    """
    lines = [f"{row},{budget}" for row, budget in zip(PRIVATE_ROWS, budgets, strict=True)]
    budget_column = "agreed"
    table = write_table(folder=folder)
    write_lines(path=Path(str(table.private)), head=f"{HEAD},{budget_column}", lines=lines)
    return replace(table, budget=budget_column)


@pytest.mark.slow
def test_budgets_1_and_1_0_of_a_person_are_one_class(tmp_path: Path) -> None:
    """The budgets 1 and 1.0 in two rows of a person are both read as the budget 1."""
    table = write_table_with_budgets(folder=tmp_path, budgets=("1", "1.0", "4"))
    dataset = table.load()
    assert dataset.budgets is not None and dataset.budgets.tolist() == ["1", "1", "4"]
    assert dataset.privacy_unit == PrivacyUnit(
        words="one value of the column patient, with all its rows, within its budget class",
        columns=("patient",),
    )


def test_two_budget_classes_of_a_person_are_refused(tmp_path: Path) -> None:
    """The budgets 10 and 1.01 in two rows of one person are refused."""
    table = write_table_with_budgets(folder=tmp_path, budgets=("10", "1.01", "42"))
    with refused_parameter("data.budget", rule_words="class in all"):
        table.load()


def test_budgets_with_several_owners_of_a_row_are_refused(tmp_path: Path) -> None:
    """A column of budgets beside two columns of owners is refused."""
    table = write_table_with_budgets(folder=tmp_path, budgets=("1", "1.0", "4"))
    with refused_parameter("data.budget", value="agreed"):
        replace(table, group=("patient", "note"))


@pytest.mark.slow
def test_budgets_are_part_of_the_digest_of_the_data(tmp_path: Path) -> None:
    """A column of budgets changes the digest of the data set."""
    without_budgets = write_table(folder=tmp_path).load()
    with_budgets = write_table_with_budgets(folder=tmp_path, budgets=("1", "1", "1")).load()
    assert with_budgets.digest() != without_budgets.digest()


OWNERS = ("patient", "note")
"""The two owners of a row: a patient, and a doctor, whose name is in the column `note`."""

PUBLIC_LINKS_UNIT = PrivacyUnit(
    words="one value of the column patient, or one of the column note, with all its rows "
    "(who belongs with whom is public)",
    columns=OWNERS,
)
TEST_ROW = "t1,2025-01-04,30,F,t,1,0"


@pytest.mark.slow
def test_rows_linked_by_owners_are_one_group(tmp_path: Path) -> None:
    """Rows that share a patient or a doctor, directly or through other rows, are one group."""
    private = [
        "q1,2025-01-02,20,F,d1,1,1",
        "q1,2025-01-03,20,F,d2,0,1",
        "q4,2025-01-03,30,F,d2,0,1",
        "q2,2024-01-01,40,M,d3,1,0",
        "q3,,40,M,d3,1,0",
    ]
    table = write_table(folder=tmp_path, private=private, test=[TEST_ROW])
    dataset = replace(table, group=OWNERS).load()
    assert dataset.private.group_ids.tolist() == [0, 0, 0, 1, 1]
    assert dataset.weights is None
    assert any("who belongs with whom is taken as public" in line for line in dataset.notes)
    assert set(dataset.owners) == {"group"} and dataset.owners["group"] >= {b"q1", b"d3"}
    assert dataset.privacy_unit == PUBLIC_LINKS_UNIT


@pytest.mark.slow
def test_rows_are_weighted_where_links_would_leave_one_group(tmp_path: Path) -> None:
    """If links would make one group of 16 rows, and weights would lose less, each row is a group with a weight.

    Each of 8 patients has rows with two of 8 doctors, so all rows are linked. Each patient and each doctor has two
    rows, so the weight of a row is 1/2.
    """
    private = [
        f"q{patient},2025-01-02,20,F,d{doctor},1,1"
        for patient in range(8)
        for doctor in range(8)
        if (patient - doctor) % 8 < 2
    ]
    table = write_table(folder=tmp_path, private=private, test=[TEST_ROW])
    dataset = replace(table, group=OWNERS).load()
    assert dataset.weights is not None and dataset.private.num_groups == 16
    np.testing.assert_allclose(dataset.weights, 0.5, rtol=1e-5)
    assert dataset.privacy_unit == PUBLIC_LINKS_UNIT


def test_second_owner_in_both_private_and_public_rows_is_refused(tmp_path: Path) -> None:
    """A second owner of rows, the column `note`, is refused if private and public rows have the same value in it."""
    with refused_parameter("data.group", value="note"):
        replace(write_table(folder=tmp_path), group=OWNERS).load()
