"""Who is one person: ids in other letters, brackets and dashes, in one split and in two."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import HuggingFace, Table
from pate.data.table.dealing import Dealing
from pate.data.table.people import People, looks_of, person_name, smallest_of_group
from pate.data.table.table_file import TableFile
from tests.refusals import refused

pa = pytest.importorskip("pyarrow")
UUID = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
Load = Callable[[Path, dict[str, list[str]]], Any]


@pytest.mark.parametrize(
    ("one", "other"),
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
def test_spellings_of_one_name(one: str, other: str) -> None:
    assert person_name(one) == person_name(other)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
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
def test_names_that_look_alike_are_two_persons(one: str, other: str, alike: bool) -> None:
    assert person_name(one) != person_name(other)
    looks = looks_of(pa.array([person_name(one), person_name(other)])).to_pylist()
    assert (looks[0] == looks[1]) == alike


def _tables(folder: Path, people: dict[str, list[str]]) -> Any:
    files = {}
    for split, names in people.items():
        rows = [f'"{name}",{place},{place % 2}' for place, name in enumerate(names)]
        (folder / f"{split}.csv").write_text(
            "\n".join(["person,age,flu", *rows]) + "\n", encoding="utf-8"
        )
        files[split] = str(folder / f"{split}.csv")
    return Table(**files, labels=("flu",), group="person").load()


def _hugging_face(folder: Path, people: dict[str, list[str]]) -> Any:
    datasets = pytest.importorskip("datasets")
    parts = {}
    for split, names in people.items():
        places = list(range(len(names)))
        parts[split] = datasets.Dataset.from_dict(
            {"person": names, "age": places, "flu": [place % 2 for place in places]}
        )
    datasets.DatasetDict(parts).save_to_disk(str(folder / "saved"))
    return HuggingFace(
        path=str(folder / "saved"), inputs=("age",), labels=("flu",), group="person"
    ).load()


BOTH = pytest.mark.parametrize("load", [_tables, _hugging_face])
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def _people(**splits: list[str]) -> dict[str, list[str]]:
    usual = {
        split: [f"{split} {number}" for number in range(12)]
        for split in ("private", "public", "test")
    }
    return {**usual, **splits}


@BOTH
def test_a_person_in_two_splits_is_found_in_another_spelling(tmp_path: Path, load: Load) -> None:
    ids = [str(uuid.UUID(int=2**100 + number)) for number in range(12)]
    people = _people(private=ids, test=[*map(str.upper, ids[:3]), "a", "b"])
    with refused("data.group", "person", "each person in one split, 3"):
        load(tmp_path, people)


@BOTH
def test_private_names_that_differ_in_letter_case_are_one_group(tmp_path: Path, load: Load) -> None:
    names = ["P-1", "p-1", "P-2", "P-3", "p-3", "P-3"]
    dataset = load(tmp_path, _people(private=names))
    groups = dataset.private.group_ids
    assert [int(np.flatnonzero(groups == group)[0]) for group in groups] == [0, 0, 2, 3, 3, 3]
    assert not any("person" in line for line in dataset.notes)
    assert {b"P-1", b"p-1", b"P-2"} <= dataset.owners["group"]


@BOTH
def test_persons_that_look_alike_are_told_with_their_number_alone(
    tmp_path: Path, load: Load
) -> None:
    dataset = load(
        tmp_path, _people(private=["0007", "0008", "P-9", "x"], public=["7", "8", "p9", "y"])
    )
    (line,) = [line for line in dataset.notes if "person" in line]
    assert line.startswith(
        "data.group=person: 3 values of private and public look alike, they differ in letter case"
    )
    assert not any(name in line for name in ("0007", "P-9"))
    dataset = (
        load(tmp_path / "more", _people(private=["0007", "7", "1-11", "11-1"]))
        if load is _hugging_face
        else None
    )
    if dataset is not None:
        (line,) = [line for line in dataset.notes if "person" in line]
        assert line.startswith("data.group=person: 2 values of private look like another")


def test_whoever_looks_alike_is_dealt_to_one_part(tmp_path: Path) -> None:
    names = [f"{prefix}{number}" for number in range(1, 31) for prefix in ("", "00")]
    (tmp_path / "all.csv").write_text(
        "\n".join(["person,age", *(f"{name},1" for name in names)]) + "\n"
    )
    part_of_row = Dealing(TableFile(tmp_path / "all.csv", "data"), "person", 0.3, 0.3).part_of_row()
    assert (part_of_row[::2] == part_of_row[1::2]).all()
    assert np.bincount(part_of_row).tolist() == [24, 18, 18]


def test_persons_are_numbered_as_they_come_and_merged_into_the_first() -> None:
    columns = [pa.chunked_array([["b", "a", "B", "b"]]), pa.chunked_array([["c", "C"]])]
    people = People.from_words(columns)
    assert [numbers.tolist() for numbers in people.numbers] == [[0, 1, 2, 0], [3, 4]]
    assert [numbers.tolist() for numbers in people.groups()] == [[0, 1, 0, 0], [3, 4]]
    assert [numbers.tolist() for numbers in people.merged_by_looks()] == [[0, 1, 0, 0], [2, 2]]
    assert smallest_of_group(np.array([0, 2, 2, 0]), np.array([5, 1, 4, 3])).tolist() == [
        3,
        1,
        1,
        3,
    ]
