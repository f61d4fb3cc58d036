"""Wrong cells, rows, files and settings of a table, and the refusals of each.

Refusals name the column or the setting. No refusal of a wrong private row shows the word `Secret` in its cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from pate.data import Table
from tests.refusals import ANY, Refusal, refused_parameter
from tests.unit.data.table.small_table import HEAD, PRIVATE_ROWS, FileContent, write_table

pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    ("row", "refusal"),
    [
        pytest.param(
            "q3,2025-01-01,Secret,F,a,0,1",
            refused_parameter("data.private.age", rule_words="1 of 4 rows"),
            id="a word in a column of numbers",
        ),
        pytest.param(
            "q3,Secret,1,F,a,0,1",
            refused_parameter("data.private.seen", rule_words="dates such"),
            id="a word in a column of dates",
        ),
        pytest.param(
            "q3,2025-01-01,1,F,a,2,1",
            refused_parameter("data.private.flu", rule_words="0 or 1 in a label's column, 1 of 4"),
            id="a label of 2",
        ),
        pytest.param(
            ",2025-01-01,1,F,a,0,1",
            refused_parameter("data.private.patient", rule_words="1 of 4 rows"),
            id="a row without a patient",
        ),
        pytest.param(
            "p3,2025-01-01,1,F,a,0,1",
            refused_parameter(
                "data.group", value="patient", rule_words="split, 1 are in private and public"
            ),
            id="a patient of the public file",
        ),
        pytest.param(
            "Secret,2025-01-01,1,F",
            refused_parameter("data.private", value=ANY, rule_words="1 of 4"),
            id="too few cells",
        ),
    ],
)
def test_wrong_private_row_is_refused_without_its_cells(
    tmp_path: Path, row: str, refusal: Refusal
) -> None:
    """A wrong private row is refused by its column, setting or file, and the word `Secret` in it is not shown."""
    table = write_table(folder=tmp_path, private=[*PRIVATE_ROWS, row])
    with refusal as caught:
        table.load()
    assert "Secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("rows_or_bytes_of_private_file", "refusal"),
    [
        pytest.param(
            b"",
            refused_parameter("data.private", value=ANY, rule_words="empty"),
            id="an empty file",
        ),
        pytest.param(
            HEAD.encode() + b"\n",
            refused_parameter("data.private", rule_words="row, the table"),
            id="a head without rows",
        ),
        pytest.param(
            b"a,b,a\n1,2,3\n",
            refused_parameter("data.private.columns", value="a"),
            id="two columns of one name",
        ),
        pytest.param(
            b",age\n0,3\n",
            refused_parameter("data.private.columns", value="''"),
            id="a column without a name",
        ),
        pytest.param(
            (HEAD + ",more\n").encode(),
            refused_parameter("data.private.more", rule_words="'data.drop="),
            id="one column more than the public file",
        ),
        pytest.param(
            HEAD.replace("age", "years").encode() + b"\n",
            refused_parameter("data.private.years", rule_words="lacks it"),
            id="a column of another name",
        ),
        pytest.param(
            [row[:-3] + "," for row in PRIVATE_ROWS[:2]],
            refused_parameter("data.private.flu", rule_words="a label in some row"),
            id="a label that no row has",
        ),
    ],
)
def test_wrong_private_file_is_refused(
    tmp_path: Path, rows_or_bytes_of_private_file: FileContent, refusal: Refusal
) -> None:
    """A private file without rows, with other columns than the public file, or with empty labels alone is refused."""
    table = write_table(folder=tmp_path, private=rows_or_bytes_of_private_file)
    with refusal:
        table.load()


def test_negative_label_in_the_test_file_is_refused(tmp_path: Path) -> None:
    """A label of -1 in the test file is refused, and the error proposes `data.uncertain`."""
    table = write_table(folder=tmp_path, test=["t1,2025-01-01,1,F,a,-1,1"])
    with refused_parameter(
        "data.test.flu", rule_words="data.uncertain=missing (or positive, negative) says"
    ):
        table.load()


@pytest.mark.parametrize(
    ("public_rows", "refusal"),
    [
        pytest.param(
            [f"p{number},2025-01-01,1,F,remark {number},0,1" for number in range(300)],
            refused_parameter("data.public.note", rule_words="'data.drop=["),
            id="another word in each of 300 rows",
        ),
        pytest.param(
            ["p1,2025-01-01,,F,a,0,1"],
            refused_parameter("data.public.age", rule_words="value in some"),
            id="no age",
        ),
    ],
)
def test_public_column_that_cannot_become_features_is_refused(
    tmp_path: Path, public_rows: list[str], refusal: Refusal
) -> None:
    """A public column with a different word in each of 300 rows, or without any value, is refused."""
    table = write_table(folder=tmp_path, public=public_rows)
    with refusal:
        table.load()


def test_public_feature_without_any_value_is_refused(tmp_path: Path) -> None:
    """A public feature without any value is refused, here the patient, who is a feature if no group is set."""
    table = write_table(folder=tmp_path, public=[",2025-01-01,3,F,a,0,1"])
    with refused_parameter("data.public.patient", rule_words="value in some"):
        replace(table, group=None).load()


@pytest.mark.parametrize(
    ("with_wrong_setting", "refusal"),
    [
        pytest.param(
            partial(replace, private="book.xlsx"),
            refused_parameter("data.private", value=ANY, rule_words="a spreadsheet is"),
            id="a spreadsheet",
        ),
        pytest.param(
            partial(replace, labels=["flue"]),
            refused_parameter("data.labels", value="flue", rule_words="did you mean flu"),
            id="a misspelled label",
        ),
        pytest.param(
            partial(replace, labels=[]),
            refused_parameter("data.labels", value="[]", rule_words="columns that"),
            id="no label",
        ),
        pytest.param(
            partial(replace, labels="flu"),
            refused_parameter("data.labels", value="flu"),
            id="labels as one text",
        ),
        pytest.param(
            partial(replace, labels=["flu", "patient"]),
            refused_parameter("data.group", value="patient", rule_words="another column"),
            id="the group as a label",
        ),
        pytest.param(
            partial(replace, drop=["agee"]),
            refused_parameter("data.drop", value="agee", rule_words="did you mean age"),
            id="a misspelled dropped column",
        ),
        pytest.param(
            partial(replace, group="person"),
            refused_parameter("data.group", value="person", rule_words="column of data.private"),
            id="a group that is no column",
        ),
        pytest.param(
            partial(replace, private="nowhere.csv"),
            refused_parameter("data.private", value=ANY, rule_words="there"),
            id="a private file that does not exist",
        ),
        pytest.param(
            partial(replace, private=None),
            refused_parameter("data.private", value=None),
            id="no private file",
        ),
        pytest.param(
            partial(replace, private=__file__),
            refused_parameter("data.private", value=ANY, rule_words="there and"),
            id="a file of Python code",
        ),
        pytest.param(
            partial(replace, encoding="klingon"),
            refused_parameter("data.encoding", value="klingon"),
            id="an unknown encoding",
        ),
        pytest.param(
            partial(replace, id="sex"),
            refused_parameter("data.public.sex", rule_words="value in each"),
            id="ids that are not in each row",
        ),
        pytest.param(
            partial(replace, id="age", group=None, drop=["patient"]),
            refused_parameter("data.private.age", rule_words="1 of 3 rows"),
            id="ids of which a private row lacks one",
        ),
        pytest.param(
            partial(replace, id="patient", group=None),
            refused_parameter("data.id", value="patient"),
            id="ids that repeat",
        ),
        pytest.param(
            partial(replace, schema="nowhere.yaml"),
            refused_parameter("data.schema=nowhere.yaml", rule_words="pate-schema wrote"),
            id="a schema that does not exist",
        ),
        pytest.param(
            partial(replace, path="x.csv"),
            refused_parameter("data.path", value="x.csv"),
            id="a path beside three files",
        ),
    ],
)
def test_wrong_setting_of_a_table_is_refused(
    tmp_path: Path, with_wrong_setting: Callable[[Table], Table], refusal: Refusal
) -> None:
    """A wrong setting for correct files is refused by the name of the setting, or of the column in it."""
    table = write_table(folder=tmp_path)
    with refusal:
        with_wrong_setting(table).load()
