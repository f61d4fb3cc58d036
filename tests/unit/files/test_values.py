"""Strict JSON: one form for infinities, and what is refused; text of others in a CSV file is text."""

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting.target_charging import TargetCharging
from pate.files.manifest import Manifest
from pate.files.spreadsheet import row_writer
from pate.files.strict_json import (
    from_json,
    number,
    plain,
    to_json,
    to_json_line,
)
from pate.mechanisms import CertifiedTable
from pate.validation import InvalidValue
from tests.refusals import ANY, refused


@dataclass(frozen=True)
class Reading:
    epsilon: float
    orders: Mapping[str, float] | None = None


def test_infinities_come_back_and_an_undefined_number_is_null() -> None:
    values = [math.inf, -math.inf, 0.1, 1e-300, -0.0]
    assert plain(values) == ["inf", "-inf", 0.1, 1e-300, -0.0]
    assert [number(value) for value in json.loads(to_json_line(values))] == values
    assert plain({"a": math.nan, 1: np.float64("inf")}) == {"a": None, "1": "inf"}


def test_dataclasses_come_back_and_a_line_is_one_line() -> None:
    for epsilon in (math.inf, -math.inf, 0.5):
        reading = Reading(epsilon, {"worst": -epsilon})
        text = to_json(reading)
        assert from_json(Reading, text, name="reading") == reading
        assert json.loads(text, parse_constant=pytest.fail).keys() == {"epsilon", "orders"}
    assert (
        to_json_line([Reading(math.inf), (1.5, np.float64(2))])
        == '[{"epsilon": "inf", "orders": null}, [1.5, 2.0]]'
    )
    assert to_json_line("“quoted”\n") == r'"\u201cquoted\u201d\n"'


def test_what_json_has_no_form_for_and_what_is_no_number_are_refused() -> None:
    values: list[Any] = [np.zeros(2), {1, 2}, object(), 1j]
    for value in values:
        with pytest.raises(TypeError, match="no JSON form"):
            to_json_line([value])
    for data in ("nan", "1.5", "Infinity", "", None, True, [1.0]):
        with refused("epsilon", ANY, "a number"):
            number(data, name="epsilon")
    with refused("x", "int"):
        number(10**400, name="x")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5_000, '{"manifest": 1' + "0" * 5_000 + "}"]
)
def test_json_without_end_is_one_line_wherever_it_is_read(text: str, tmp_path: Path) -> None:
    """In a vote file's head, a request, a table, the state of a session."""
    file = tmp_path / "file"
    file.write_text(text)
    session = TargetCharging(epsilon=0.1, target_hits=3, hit_prob=0.5, target_delta=1e-6)
    for read in (
        lambda: from_json(Manifest, text, name="x"),
        lambda: CertifiedTable.load(file),
        lambda: session.load(file),
    ):
        with pytest.raises(InvalidValue, match=r"expected"):
            read()


FORMULAS = [
    "=cmd|'/c calc'!A0",
    "+1+cmd",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(A1:A9)",
    "-",
    "-1:00",
    "\uff1d1+1",
]


def test_no_cell_is_a_formula_and_others_are_as_they_are() -> None:
    file = io.StringIO()
    formulas = FORMULAS + [f"{blank}=1+1" for blank in ("\t", "\r", "\n", "  ", "\u00a0")]
    others = ["flu", "a=b", "-5", "-0.25", "+1.5e-3", "'=x", "", "patient-7"]
    write = row_writer(file)
    write(formulas)
    write([*others, -5, -0.5, None, True])
    read = list(csv.reader(io.StringIO(file.getvalue(), newline="")))
    assert read == [[f"'{cell}" for cell in formulas], [*others, "-5", "-0.5", "", "True"]]
