"""Names of persons in different letters, brackets and dashes, within a split and across splits."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

from pate.data import Dataset, HuggingFace
from pate.data.table.dealing import Dealing
from pate.data.table.people import People, person_name, simplified_names, smallest_of_group
from pate.data.table.table_file import TableFile
from tests.refusals import refused_parameter
from tests.unit.data.split_paths import SplitPaths

pa = pytest.importorskip("pyarrow")
UUID = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"


class Load(Protocol):
    """A function that writes rows of named persons in one kind of file, and loads them."""

    def __call__(self, folder: Path, person_names_by_split: Mapping[str, list[str]]) -> Dataset:
        """Returns the data set whose splits have one row for each of these names."""


@pytest.mark.parametrize(
    ("name", "other"),
    [
        (UUID, UUID.upper()),
        (UUID, "{" + UUID.upper() + "}"),
        (UUID, UUID.replace("-", "")),
        (UUID, f"urn:uuid:{UUID}"),
        (UUID, f"({UUID})"),
        ("ann@example.org", "Ann@Example.ORG"),
        ("ann@example.org", "<ann@example.org>"),
        ("ann@example.org", "Ann B. Smith <Ann@example.org>"),
        ("ann@example.org", "mailto:ann@example.org"),
        ("P-7", "P\u20137"),
        ("P-7", "P\u20117"),
        ("P-7", " P-7\u00a0"),
        ("P-7", "'P-7'"),
        ("7", "7.0"),
    ],
)
def test_notations_of_one_name_are_normalized(name: str, other: str) -> None:
    """Two notations of a UUID, an email address, a code or a number are one name of a person."""
    assert person_name(name) == person_name(other)


@pytest.mark.parametrize(
    ("name", "other_persons_name", "are_alike"),
    [
        ("0007", "7", True),
        ("P-007", "p7", True),
        ("a-1", "A 1", True),
        ("Anna-Maria", "anna maria", True),
        ("123-45-6789", "123456789", True),
        ("100001", "100,001", True),
        ("100001", "100.001", True),
        ("100001", "1000,01", False),
        ("ann+study@example.org", "ann@example.org", True),
        ("ann+study@example.org", "bob+study@example.org", False),
        ("Jos\u00e9", "Jose", True),
        ("Stra\u00dfe 1", "STRASSE 1", True),
        ("1-11", "11-1", False),
        ("1-1", "11", False),
        ("10", "1", False),
        ("700", "7", False),
        ("ann", "anna", False),
    ],
)
def test_similar_names_are_two_persons(name: str, other_persons_name: str, are_alike: bool) -> None:
    """Two different names are two persons, even if they are similar.

    `are_alike` says whether they are similar, so that a remark would count them.
    """
    assert person_name(name) != person_name(other_persons_name)
    look, other_look = simplified_names(
        pa.array([person_name(name), person_name(other_persons_name)])
    ).to_pylist()
    assert (look == other_look) == are_alike


def load_table(folder: Path, person_names_by_split: Mapping[str, list[str]]) -> Dataset:
    """Writes rows of the named persons into CSV files, and loads them."""
    for split, names in person_names_by_split.items():
        rows = [f'"{name}",{age},{age % 2}' for age, name in enumerate(names)]
        text = "\n".join(["person,age,flu", *rows, ""])
        (folder / f"{split}.csv").write_text(text, encoding="utf-8")
    table = SplitPaths.in_folder(folder=folder, ending=".csv").table_with_labels("flu")
    return replace(table, group="person").load()


def load_hugging_face(folder: Path, person_names_by_split: Mapping[str, list[str]]) -> Dataset:
    """Saves rows of the named persons as a Hugging Face data set, and loads it."""
    datasets = pytest.importorskip("datasets")
    parts = {}
    for split, names in person_names_by_split.items():
        ages = list(range(len(names)))
        columns = {"person": names, "age": ages, "flu": [age % 2 for age in ages]}
        parts[split] = datasets.Dataset.from_dict(columns)
    path = str(folder / "saved")
    datasets.DatasetDict(parts).save_to_disk(path)
    return HuggingFace(path=path, inputs=("age",), labels=("flu",), group="person").load()


by_reader = pytest.mark.parametrize("load", [load_table, load_hugging_face])
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

USUAL_NAMES = {
    split: [f"{split} {number}" for number in range(12)] for split in ("private", "public", "test")
}


@by_reader
def test_person_in_two_splits_is_found_across_notations(tmp_path: Path, load: Load) -> None:
    """Persons in two splits are refused although they have capital letters in one of them.

    Tables and Hugging Face data sets refuse them.
    """
    ids = [str(uuid.UUID(int=2**100 + number)) for number in range(12)]
    capitals = [name.upper() for name in ids[:3]]
    with refused_parameter("data.group", value="person", rule_words="each person in one split, 3"):
        load(
            folder=tmp_path,
            person_names_by_split=USUAL_NAMES | {"private": ids, "test": [*capitals, "a", "b"]},
        )


@by_reader
def test_private_names_differing_in_letter_case_form_one_group(tmp_path: Path, load: Load) -> None:
    """Private names that differ only in letter case are one group, and the owners keep both spellings."""
    private_names = ["P-1", "p-1", "P-2", "P-3", "p-3", "P-3"]
    dataset = load(folder=tmp_path, person_names_by_split=USUAL_NAMES | {"private": private_names})
    groups = dataset.private.group_ids
    first_rows = [int(np.flatnonzero(groups == group)[0]) for group in groups]
    assert first_rows == [0, 0, 2, 3, 3, 3]
    assert not any("person" in note for note in dataset.notes)
    assert {b"P-1", b"p-1", b"P-2"} <= dataset.owners["group"]


@by_reader
def test_similar_names_in_two_splits_are_counted(tmp_path: Path, load: Load) -> None:
    """If three private names look like public ones, a remark counts them without showing them."""
    private_names = ["0007", "0008", "P-9", "x"]
    names_by_split = USUAL_NAMES | {"private": private_names, "public": ["7", "8", "p9", "y"]}
    dataset = load(folder=tmp_path, person_names_by_split=names_by_split)
    (line,) = [note for note in dataset.notes if "person" in note]
    assert line.startswith(
        "data.group=person: 3 values of private and public look alike, they differ in letter case"
    )
    assert not any(name in line for name in ("0007", "P-9"))


@by_reader
def test_similar_private_names_are_counted(tmp_path: Path, load: Load) -> None:
    """If two private names look alike, a remark counts both of them."""
    dataset = load(
        folder=tmp_path,
        person_names_by_split=USUAL_NAMES | {"private": ["0007", "7", "1-11", "11-1"]},
    )
    (line,) = [note for note in dataset.notes if "person" in note]
    assert line.startswith("data.group=person: 2 values of private look like another")


def test_similar_names_are_divided_into_the_same_split(tmp_path: Path) -> None:
    """Names such as 1 and 001 go to the same split."""
    names = [f"{prefix}{number}" for number in range(1, 31) for prefix in ("", "00")]
    path = tmp_path / "all.csv"
    path.write_text("\n".join(["person,age", *(f"{name},1" for name in names), ""]))
    file = TableFile(path, setting="data")
    dealing = Dealing(table_file=file, group="person", public_share=0.3, test_share=0.3)
    part_of_row = dealing.part_of_row()
    assert (part_of_row[::2] == part_of_row[1::2]).all()
    assert np.bincount(part_of_row).tolist() == [24, 18, 18]


def test_persons_are_numbered_in_order_of_first_row() -> None:
    """Persons are numbered in the order of their first rows, over two files.

    Names that differ in letter case have two numbers here, and are merged in a later step.
    """
    cells_of_first_split = pa.chunked_array([["b", "a", "B", "b"]])
    cells_of_second_split = pa.chunked_array([["c", "C"]])
    people = People.from_names([cells_of_first_split, cells_of_second_split])
    assert [numbers.tolist() for numbers in people.person_arrays_of_splits] == [
        [0, 1, 2, 0],
        [3, 4],
    ]


def test_merged_persons_take_the_smallest_number() -> None:
    """`groups` merges persons of the first file whose names differ in letter case, under the smallest number.

    `merged_by_similar_names` merges such persons of the second file as well, and numbers groups from 0 without gaps.
    """
    cells_of_first_split = pa.chunked_array([["b", "a", "B", "b"]])
    cells_of_second_split = pa.chunked_array([["c", "C"]])
    people = People.from_names([cells_of_first_split, cells_of_second_split])
    assert [groups.tolist() for groups in people.groups()] == [[0, 1, 0, 0], [3, 4]]
    assert [groups.tolist() for groups in people.merged_by_similar_names()] == [
        [0, 1, 0, 0],
        [2, 2],
    ]


def test_smallest_of_group_returns_the_minimum_per_group() -> None:
    """For each entry, the smallest number in its group is returned."""
    smallest = smallest_of_group(
        group_of_row=np.array([0, 2, 2, 0]), value_of_row=np.array([5, 1, 4, 3])
    )
    assert smallest.tolist() == [3, 1, 1, 3]
