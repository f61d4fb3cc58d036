"""Strict JSON: one text for each infinity, dataclasses that are read back, and what is refused."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pate.accounting.target_charging import TargetCharging
from pate.files.manifest import Manifest
from pate.files.strict_json import (
    from_json,
    plain,
    read_number,
    to_json,
    to_json_line,
)
from pate.mechanisms import CertifiedTable
from pate.validation import InvalidValue
from tests.refusals import ANY, refused_parameter


@dataclass(frozen=True)
class Reading:
    """A dataclass with a number that may be infinite."""

    epsilon: float
    orders: Mapping[str, float] | None = None
    columns: tuple[str, ...] = ()


def test_numbers_and_infinities_are_read_back() -> None:
    """Infinities are written as text, and read as the same numbers."""
    values = [math.inf, -math.inf, 0.1, 1e-300, -0.0]
    assert plain(values) == ["inf", "-inf", 0.1, 1e-300, -0.0]
    assert [read_number(value) for value in json.loads(to_json_line(values))] == values


def test_an_undefined_number_is_null() -> None:
    """NaN is written as null, infinity as text, and keys as text."""
    assert plain({"a": math.nan, 1: np.float64("inf")}) == {"a": None, "1": "inf"}


@pytest.mark.parametrize("epsilon", [math.inf, -math.inf, 0.5])
def test_a_dataclass_is_read_back(epsilon: float) -> None:
    """A dataclass, also one with infinities, is written as JSON without `Infinity`, and read as an equal one."""
    reading = Reading(epsilon=epsilon, orders={"worst": -epsilon})
    json_of_reading = to_json(reading)
    assert from_json(Reading, json_of_reading, name="reading") == reading
    assert json.loads(json_of_reading, parse_constant=pytest.fail).keys() == {
        "epsilon",
        "orders",
        "columns",
    }


def test_a_line_has_no_line_break_and_is_in_ascii() -> None:
    """A value in one line of JSON has neither line breaks nor letters beyond ASCII."""
    line = to_json_line([Reading(epsilon=math.inf), (1.5, np.float64(2))])
    assert line == '[{"epsilon": "inf", "orders": null, "columns": []}, [1.5, 2.0]]'
    assert to_json_line("“quoted”\n") == r'"\u201cquoted\u201d\n"'


@pytest.mark.parametrize(
    "value", [np.zeros(2), {1, 2}, object(), 1j], ids=lambda value: type(value).__name__
)
def test_a_value_without_a_form_in_json_raises(value: object) -> None:
    """An array, set, object or complex number raises `TypeError`."""
    with pytest.raises(TypeError, match="no JSON form"):
        to_json_line([value])


@pytest.mark.parametrize("json_value", ["nan", "1.5", "Infinity", "", None, True, [1.0]])
def test_data_that_are_no_number_are_refused(json_value: object) -> None:
    """A text other than those of infinities, None, a truth value and a list are each refused as a number."""
    with refused_parameter("epsilon", value=ANY, rule_words="a number"):
        read_number(json_value, name="epsilon")


def test_a_number_is_no_list_of_any_length() -> None:
    """A number is refused where a dataclass has a list of any length, and the error states no length."""
    with refused_parameter("reading.columns", value="3", rule_words="a list") as refusal:
        from_json(Reading, '{"epsilon": 1, "columns": 3}', name="reading")
    assert str(refusal.value).endswith("a list")


def test_a_number_beyond_all_floats_is_refused() -> None:
    """The whole number 10^400 is refused as a number."""
    with refused_parameter("x", value="int"):
        read_number(10**400, name="x")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5_000, '{"manifest": 1' + "0" * 5_000 + "}"]
)
def test_json_without_end_is_one_line_wherever_it_is_read(text: str, tmp_path: Path) -> None:
    """JSON that is too deep or too long is refused in one line, as a manifest, as a table and as a session's state."""
    file = tmp_path / "file"
    file.write_text(text)
    session = TargetCharging(epsilon=0.1, target_hits=3, hit_prob=0.5, target_delta=1e-6)
    for read in (
        lambda: from_json(Manifest, text, name="x"),
        lambda: CertifiedTable.load(file),
        lambda: session.load(file),
    ):
        with pytest.raises(InvalidValue, match=r"expected") as caught:
            read()
        assert "\n" not in str(caught.value)
