"""For a column that may name people, refusals and remarks propose `data.group` before all else."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pate.data import Table
from pate.validation import InvalidValue
from tests.refusals import refused_parameter
from tests.unit.data.table.patients import write_patients

pytest.importorskip("pyarrow")

GROUP_FIRST = (
    "data.group=mrn if it says whose a row is, else 'data.drop=[mrn]' "
    "leaves it out, and each row by itself is"
)


def test_refusal_of_a_column_unknown_to_the_schema_offers_group_first(tmp_path: Path) -> None:
    """If the schema lacks a column of patients' numbers, the refusal proposes `data.group` before `data.drop`."""
    table = write_patients(folder=tmp_path)
    path = tmp_path / "schema.yaml"
    Table(public=table.public, labels=("flu",), group="mrn").public_schema().write(path)
    start_of_refusal = f"data.schema={path}: expected no other column in data.public than it lists, and there is mrn; "
    with pytest.raises(
        InvalidValue, match=rf"^{re.escape(start_of_refusal + GROUP_FIRST)} protected$"
    ):
        replace(table, schema=str(path)).load()


def test_refusal_of_a_column_of_words_offers_group_first(tmp_path: Path) -> None:
    """If a public column has a different word in each row, the refusal proposes `data.group` before `data.drop`."""
    public_rows = [f"B-{number:04},{number % 60},F,{number % 2}" for number in range(120)]
    line = rf"^data\.public\.mrn: expected numbers.*; {re.escape(GROUP_FIRST)}"
    with pytest.raises(InvalidValue, match=line):
        write_patients(folder=tmp_path, public=public_rows).load()


def test_refusal_of_a_missing_column_offers_group_first(tmp_path: Path) -> None:
    """If the public file lacks the patients' numbers, the refusal proposes `data.group` first.

    It does not if another group is set.
    """
    table = write_patients(folder=tmp_path)
    (tmp_path / "public.csv").write_text("age,sex,flu\n20,F,0\n30,M,1\n")
    line = rf"^data\.private\.mrn: .*public lacks it; {re.escape(GROUP_FIRST)}"
    with pytest.raises(InvalidValue, match=line):
        table.load()
    with refused_parameter("data.group", value="mrn", rule_words="each person there"):
        replace(table, group="mrn").load()
    with refused_parameter(
        "data.private.mrn", rule_words="where data.group=sex says whose a row is"
    ):
        replace(table, group="sex").load()


def test_remark_on_person_numbers_offers_group_first(tmp_path: Path) -> None:
    """For a public column with another number in each row, a remark proposes `data.group` before other settings.

    The others are `data.id` and `data.drop`.
    """
    public_rows = [f"{7000 + number},{number % 9},F,{number % 2}" for number in range(40)]
    table = write_patients(folder=tmp_path, public=public_rows)
    line, _ = Table(public=table.public, labels=("flu",)).public_remarks()
    assert line == (
        "mrn: another number in each row; data.group=mrn if it is that of a person; if it is the number of "
        "a record, data.id=mrn or 'data.drop=[mrn]' takes it from the features"
    )
