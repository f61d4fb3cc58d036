"""Schema files, which have columns and settings, are written by `pate-schema` and may be edited."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pate.data import Table, TableSchema
from pate.data.table.schema import load_settings
from pate.data.table.table_settings import TableSettings
from pate.validation import InvalidValue
from tests.refusals import refused_parameter
from tests.unit.data.table.patients import write_patients
from tests.unit.data.table.small_table import write_table

pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    ("schema_text", "message"),
    [
        pytest.param(
            "columns: [",
            r": expected YAML as pate-schema writes it, line 1",
            id="invalid YAML",
        ),
        pytest.param(
            "rows: 3",
            r": expected `columns`, what is known of each, as pate-schema writes it",
            id="no columns",
        ),
        pytest.param(
            "columns: {age: {kind: digit}}",
            r"\.columns\.age\.kind=digit: expected one of number, .*",
            id="an unknown kind",
        ),
        pytest.param(
            "columns: {age: {kind: date, min: 0, missing: false}}",
            r"\.columns\.age: expected mean, std, min, max, missing as pate-schema writes them .*",
            id="a date without mean, std and max",
        ),
        pytest.param(
            "columns: {age: {kind: number, mean: 0, std: 0, min: 0, max: 1, missing: false}}",
            r"\.columns\.age=.*: expected finite numbers, and std > 0",
            id="a standard deviation of 0",
        ),
        pytest.param(
            "columns: {age: {kind: category, categories: [1], missing: false}}",
            r"\.columns\.age\.categories=\[1\]: expected a list of words.*",
            id="a number as a category",
        ),
        pytest.param(
            "columns: {age: {kind: category, categories: [a], missing: 3}}",
            r"\.columns\.age: expected categories, missing as pate-schema writes them .*",
            id="missing is no truth value",
        ),
        pytest.param(
            "columns: {age: {kind: category, categories: [a], missing: true}}",
            r": expected no other column in data\.public than it lists, and there is seen; 'data\.drop=.*",
            id="fewer columns than the file",
        ),
    ],
)
def test_invalid_schema_is_refused_in_one_line(
    tmp_path: Path, schema_text: str, message: str
) -> None:
    """A schema file with invalid YAML, columns or numbers is refused in one line."""
    (tmp_path / "schema.yaml").write_text(schema_text)
    with pytest.raises(InvalidValue, match=rf"^data\.schema=\S+?{message}$"):
        replace(write_table(folder=tmp_path), schema=str(tmp_path / "schema.yaml")).load()


def test_schema_from_file_equals_the_learned_schema(tmp_path: Path) -> None:
    """A public schema that is written to a file and read is equal to the original, and so is its published form."""
    table = write_table(folder=tmp_path)
    path = tmp_path / "schema.yaml"
    table.public_schema().write(path)
    dataset = replace(table, schema=str(path)).load()
    assert dataset.preprocessing == table.load().preprocessing
    assert isinstance(dataset.preprocessing, TableSchema)
    assert TableSchema.read(dataset.preprocessing.plain(), name="x") == dataset.preprocessing


def test_column_kind_can_be_edited_in_the_schema_file(tmp_path: Path) -> None:
    """If a user makes the column `age` a category in the schema file, the inputs have a feature for each category."""
    table = write_table(folder=tmp_path)
    path = tmp_path / "schema.yaml"
    table.public_schema().write(path)
    text = path.read_text()
    before_age = text[: text.index("  age:")]
    behind_age = text[text.index("  sex:") :]
    age = "  age: {kind: category, categories: ['20', '40'], missing: false}\n"
    path.write_text(before_age + age + behind_age)
    dataset = replace(table, schema=str(path)).load()
    assert isinstance(dataset.preprocessing, TableSchema)
    names = dataset.preprocessing.feature_names
    columns = [names.index("age=20"), names.index("age=40"), names.index("age=other")]
    assert dataset.private.inputs[:, columns].tolist() == [[0, 0, 1], [0, 0, 1], [0, 1, 0]]


TABLE_SETTINGS = TableSettings(labels=("flu",), group="mrn", drop=("sex",))


def reader_with_schema(table: Table, settings: TableSettings | None = None) -> Table:
    """Writes a schema file, and returns the reader of the table's files whose only setting is this file.

    Args:
        table: the reader of the three files of patients.
        settings: the settings in the schema file; None for a schema file without settings.
    """
    path = Path(str(table.public)).with_name("schema.yaml")
    fitted = Table(public=table.public, labels=("flu",), group="mrn", drop=("sex",))
    fitted.public_schema().write(path, settings)
    return replace(table, labels=(), schema=str(path))


def test_settings_in_a_schema_apply_to_a_run(tmp_path: Path) -> None:
    """A reader without settings takes labels, group and columns to drop from the schema file.

    Its data set is the one of a reader that has these settings itself.
    """
    table = write_patients(folder=tmp_path)
    completed = reader_with_schema(table=table, settings=TABLE_SETTINGS)
    dataset = completed.load()
    expected = replace(completed, labels=("flu",), group="mrn", drop=("sex",)).load()
    assert dataset.digest() == expected.digest()
    # An owner has the name in the file, and the same name in lower case.
    people = frozenset(
        f"{letter}-0{number:03}".encode() for number in range(1, 5) for letter in "Aa"
    )
    assert dataset.owners == expected.owners == {"group": people}
    assert isinstance(dataset.preprocessing, TableSchema)
    assert dataset.preprocessing.names == ("age",)
    completed.require_settings()


def test_settings_of_a_schema_are_not_published(tmp_path: Path) -> None:
    """Settings in a schema file are read, but are not part of the published schema."""
    completed = reader_with_schema(table=write_patients(folder=tmp_path), settings=TABLE_SETTINGS)
    assert load_settings(str(completed.schema)) == TABLE_SETTINGS
    published = completed.load().preprocessing
    assert isinstance(published, TableSchema)
    assert "settings" not in published.plain()


def test_schema_stores_the_encoding(tmp_path: Path) -> None:
    """A private file in cp1252 is read if the schema file names this encoding."""
    completed = reader_with_schema(
        table=write_patients(folder=tmp_path), settings=replace(TABLE_SETTINGS, encoding="cp1252")
    )
    (tmp_path / "private.csv").write_bytes("mrn,age,sex,flu\nJos\u00e9,30,F,1\n".encode("cp1252"))
    person_names = frozenset({"Jos\u00e9".encode(), "jos\u00e9".encode()})
    assert completed.load().owners == {"group": person_names}


def test_holder_reads_private_records_with_a_schema_alone(tmp_path: Path) -> None:
    """A reader of the private file and a schema, as a data holder has, gets the labels of the schema's settings."""
    completed = reader_with_schema(table=write_patients(folder=tmp_path), settings=TABLE_SETTINGS)
    holder = Table(private=completed.private, schema=completed.schema)
    assert holder.private_records().label_names == ("flu",)


def test_settings_of_a_run_override_the_schema(tmp_path: Path) -> None:
    """A group or a dropped column in the settings of a run overrides the schema, and is refused if it does not fit."""
    table = write_patients(folder=tmp_path, private=["A-9,30,F,1", "A-9,31,M,0"])
    completed = reader_with_schema(table=table, settings=TABLE_SETTINGS)
    assert completed.load().private.num_groups == 1
    message = "and there is mrn; 'data.drop=[mrn]' leaves it out, where data.group=age says whose a row is"
    with pytest.raises(InvalidValue, match=re.escape(message)):
        replace(completed, group="age").load()
    with refused_parameter("data.drop", value="mrn"):
        replace(completed, drop=("mrn",)).load()


def test_schema_without_settings_gives_defaults(tmp_path: Path) -> None:
    """With a schema without settings, a reader has the default of no labels, which is refused."""
    completed = reader_with_schema(table=write_patients(folder=tmp_path))
    assert "settings" not in Path(str(completed.schema)).read_text().replace("`settings`", "")
    with refused_parameter("data.labels", value="[]", rule_words="columns that"):
        completed.load()


def test_an_unknown_setting_in_a_schema_is_refused(tmp_path: Path) -> None:
    """An unknown setting in a schema file, `groups`, is refused, and the error names its place in the file."""
    completed = reader_with_schema(table=write_patients(folder=tmp_path))
    schema_path = Path(str(completed.schema))
    schema_path.write_text(
        schema_path.read_text().replace("columns:", "settings: {groups: mrn}\ncolumns:")
    )
    line = r"^data\.schema=\S+\.settings\.groups=mrn: expected settings of pate-schema"
    with pytest.raises(InvalidValue, match=line):
        completed.load()


def test_labels_in_a_schema_must_be_a_list(tmp_path: Path) -> None:
    """A schema file that names labels as one text, and not as a list, is refused."""
    completed = reader_with_schema(table=write_patients(folder=tmp_path))
    schema_path = Path(str(completed.schema))
    schema_path.write_text(
        schema_path.read_text().replace("columns:", "settings: {labels: flu}\ncolumns:")
    )
    with refused_parameter("data.labels", value="flu"):
        completed.load()
