"""Lines of JSON as programs write them, with byte-order marks, empty lines, or fields that come late."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pate.data.table.table_file import TableFile
from tests.refusals import ANY, refused_parameter

pytest.importorskip("pyarrow")


def read(path: Path) -> Any:
    """Returns the columns of a file as lists."""
    return TableFile(path, setting="data.public").read().to_pydict()


@pytest.mark.parametrize(
    "content",
    [
        '\ufeff{"age": 1}\n{"age": 2}\n',
        '{"age": 1}\r\n{"age": 2}\r\n',
        '\n\n{"age": 1}\n \n\t{"age": 2}\n\n',
        '{"age": 1}\n\ufeff{"age": 2}',  # two files, one behind the other
        '\ufeff\r\n{"age": 1}\r\n{"age": 2}',
    ],
)
def test_byte_order_marks_and_empty_lines_are_skipped(tmp_path: Path, content: str) -> None:
    """JSON lines with byte-order marks, empty lines and both line ends are read as two rows."""
    (tmp_path / "a.jsonl").write_bytes(content.encode())
    assert read(path=tmp_path / "a.jsonl") == {"age": ["1", "2"]}


def test_field_that_first_occurs_late_is_a_column(tmp_path: Path) -> None:
    """A field that only line 8,991 has is a column, and missing in all other rows."""
    rows: list[dict[str, Any]] = [{"age": number} for number in range(9000)]
    rows[8990]["allergy"] = "nuts"
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    file = TableFile(path, setting="data.public")
    assert file.names == ["age", "allergy"]
    column = file.read(["allergy"]).column("allergy").to_pylist()
    assert column[8990] == "nuts"
    assert column.count(None) == 8999


@pytest.mark.parametrize("line", ["[1]", '"age"', "3", "null", '{"age": 1},', "{'age': 1}"])
def test_line_that_is_no_object_is_refused(tmp_path: Path, line: str) -> None:
    """A file is refused if the last of its 9,001 lines is no JSON object."""
    (tmp_path / "a.jsonl").write_text('{"age": 1}\n' * 9000 + line)
    with refused_parameter("data.public", value=ANY, rule_words="an object of"):
        read(path=tmp_path / "a.jsonl")


def test_file_without_fields_is_refused(tmp_path: Path) -> None:
    """A file that is empty, or has only empty objects, is refused."""
    for content in ("", "\n\n", "\ufeff", "{}\n"):
        (tmp_path / "a.jsonl").write_text(content, encoding="utf-8")
        with refused_parameter("data.public", value=ANY, rule_words="line for each"):
            read(path=tmp_path / "a.jsonl")
