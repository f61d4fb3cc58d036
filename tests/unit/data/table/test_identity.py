"""Names of persons and of records: two spellings of one value are one person."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import ImageFolder
from pate.data.table.spelling import canonical_word
from tests.refusals import refused_parameter
from tests.unit.data.table.frames import NUM_ROWS, NUMBERS, people_frames, write_frames

pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

DAYS = [str(day.date()) for day in pd.date_range("2020-01-01", periods=NUM_ROWS)]


@dataclass(frozen=True)
class Spellings:
    """The names of the same persons in two files.

    Attributes:
        private: the names in the private file.
        test: the names in the test file.
        decimal: the setting `data.decimal` of the files.
        thousands: the setting `data.thousands` of the files.
    """

    private: list[Any]
    test: list[Any]
    decimal: str | None = None
    thousands: str | None = None


SPELLINGS = {
    "7.0": Spellings(private=NUMBERS, test=[f"{number}.0" for number in NUMBERS]),
    "7,0": Spellings(private=NUMBERS, test=[f"{number},0" for number in NUMBERS]),
    "2,5": Spellings(
        private=[f"{number}.5" for number in NUMBERS],
        test=[f"{number},50" for number in NUMBERS],
        decimal="comma",
    ),
    "1.234": Spellings(
        private=[number + 1000 for number in NUMBERS],
        test=[f"{number + 1000:,}".replace(",", ".") for number in NUMBERS],
        thousands=".",
    ),
    "exponent": Spellings(
        private=[f"{number}e+16" for number in NUMBERS],
        test=[number * 10**16 for number in NUMBERS],
    ),
    "composed": Spellings(
        private=[f"Zo\u00e9 {number}" for number in NUMBERS],
        test=[f"Zoe\u0301 {number}" for number in NUMBERS],
    ),
    "no-break": Spellings(
        private=[f"A {number}" for number in NUMBERS],
        test=[f"A\u00a0{number}" for number in NUMBERS],
    ),
    "zero-width": Spellings(
        private=[f"A{number}" for number in NUMBERS],
        test=[f"A\u200b{number}\ufeff" for number in NUMBERS],
    ),
    "midnight": Spellings(private=DAYS, test=[f"{day}T00:00:00.000" for day in DAYS]),
    "zone": Spellings(private=DAYS, test=[f"{day} 01:00:00+01:00" for day in DAYS]),
    "truth": Spellings(private=[True] * NUM_ROWS, test=["TRUE"] * NUM_ROWS),
}


@pytest.mark.parametrize("case", SPELLINGS)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_notations_of_one_name_are_one_person(tmp_path: Path, case: str, ending: str) -> None:
    """Two notations of one name, such as 7 in the private and 7.0 in the test file, are one person.

    As groups and as ids, they are refused because a person may be in one split only.
    """
    spellings = SPELLINGS[case]
    frames = people_frames()
    frames["private"]["person"] = spellings.private
    frames["test"]["person"] = spellings.test
    frames["public"]["person"] = [f"p{number}" for number in NUMBERS]
    table = replace(
        write_frames(folder=tmp_path, frames=frames, endings={"private": ending}),
        decimal=spellings.decimal,
        thousands=spellings.thousands,
    )
    with refused_parameter("data.group", value="person", rule_words="person in one split"):
        table.load()
    with refused_parameter("data.id", value="person", rule_words="person in one split"):
        replace(table, group=None, id="person").load()


def test_two_notations_in_one_file_are_one_group(tmp_path: Path) -> None:
    """Private rows of the persons 7 and 7.0 are one group."""
    frames = people_frames()
    other_notation = frames["private"].assign(person=[f"{number}.0" for number in NUMBERS])
    frames["private"] = pd.concat([frames["private"], other_notation])
    assert write_frames(folder=tmp_path, frames=frames).load().private.num_groups == NUM_ROWS


def test_leading_zeros_distinguish_persons(tmp_path: Path) -> None:
    """The names 07 and 7 are two persons, so a table with 07 in the private and 7 in the test split is read."""
    frames = people_frames()
    frames["private"]["person"] = [f"0{number}" for number in NUMBERS]
    frames["test"]["person"] = NUMBERS
    assert write_frames(folder=tmp_path, frames=frames).load().private.num_groups == NUM_ROWS


@pytest.mark.parametrize(
    "column", [pd.array(NUMBERS, "Int64"), np.array(NUMBERS, float), pd.Categorical(NUMBERS)]
)
def test_pandas_types_with_equal_values_name_one_person(tmp_path: Path, column: Any) -> None:
    """Integers, floats and categories of pandas name the same persons as texts such as 7.00."""
    frames = people_frames()
    frames["private"]["person"] = column
    frames["test"]["person"] = [f"{number}.00" for number in NUMBERS]
    with refused_parameter("data.group", value="person", rule_words="60 are in"):
        write_frames(folder=tmp_path, frames=frames, endings={"private": "feather"}).load()


@pytest.mark.parametrize("name", ["", "\u200b", "\u00a0", "?"])
def test_invisible_name_counts_as_missing(tmp_path: Path, name: str) -> None:
    """A row is refused if its person's name is empty, a no-break or zero-width space, or a word for missing."""
    frames = people_frames()
    frames["private"]["person"] = [name, *map(str, NUMBERS[1:])]
    with refused_parameter("data.private.person", rule_words="a value in each row, 1"):
        replace(write_frames(folder=tmp_path, frames=frames), missing=("?",)).load()


@pytest.mark.parametrize(
    "cell_text",
    ["7.0", "-0,00", "1.20E+05", "a\u00a0 b", "2025-01-31 05:00:00.1230Z", "007.0", "\uff17"],
)
def test_canonical_word_is_idempotent(cell_text: str) -> None:
    """The canonical form of a word is its own canonical form."""
    assert canonical_word(canonical_word(cell_text)) == canonical_word(cell_text)


def test_image_folder_compares_owners_in_canonical_form(tmp_path: Path) -> None:
    """A folder of pictures is refused if its owner is 7 in one split and 7.0 in another."""
    image = pytest.importorskip("PIL.Image")
    for file_name in ("a.png", "b.png", "c.png"):
        image.new(mode="RGB", size=(4, 4)).save(tmp_path / file_name)
    lines = [
        "file,split,who,sun",
        "a.png,private,7,1",
        "b.png,public,x,1",
        "c.png,test,7.0,1",
    ]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(lines))
    reader = ImageFolder(root=str(tmp_path), table=str(table), labels=("sun",), group="who")
    with refused_parameter("data.group", value="who", rule_words="each who in one split, 1"):
        reader.load()
