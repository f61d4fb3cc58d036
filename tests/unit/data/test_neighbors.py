"""What is published of a data set's public part does not depend on how many records a private person has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
from PIL import Image

from pate.data import (
    CelebA,
    Dataset,
    DigitsGrid,
    HuggingFace,
    ImageFolder,
    Table,
)
from tests.refusals import refused_parameter
from tests.unit.data.split_paths import SplitPaths

pytest.importorskip("pyarrow")
NUM_PEOPLE = 12
PRIVATE_PERSON_NUMBER = 3
NEIGHBORS = (8, 0)  # records of that person, who has one otherwise


class Load(Protocol):
    """A function that writes the 12 people of this file into a folder in one format, and loads them."""

    def __call__(self, folder: Path, /, *, num_records_of_private_person: int) -> Dataset:
        """Writes and loads the people; person 3, who is private, has the given number of records."""


def _split_of(person: int) -> str:
    """Returns the split of a person's records."""
    return ("private", "public", "private", "private", "test", "public")[person % 6]


def _persons_of_records(num_records_of_private_person: int) -> list[int]:
    """Returns the person of each record, with the records of all splits mixed."""
    counts = [
        num_records_of_private_person if person == PRIVATE_PERSON_NUMBER else 1
        for person in range(NUM_PEOPLE)
    ]
    return [person for person in range(NUM_PEOPLE) for _ in range(counts[person])]


def _persons_of_records_in(split: str, num_records_of_private_person: int) -> list[int]:
    """Returns the person of each record in a split."""
    return [
        person
        for person in _persons_of_records(
            num_records_of_private_person=num_records_of_private_person
        )
        if _split_of(person=person) == split
    ]


def _cells(person: int) -> str:
    """Returns the cells of a person's row: name, age, ward and two labels."""
    return f"p{person},{20 + person},{person % 3},{person % 2},{person // 6}"


def _write_table(path: Path, persons_of_records: list[int]) -> str:
    """Writes a CSV file with one row for each listed person, and returns its path."""
    lines = [
        "split,person,age,ward,flu,cough",
        *(f"{_split_of(person=person)},{_cells(person=person)}" for person in persons_of_records),
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def _one_table(folder: Path, num_records_of_private_person: int) -> Dataset:
    """Writes the people into one table with a split column, and loads them."""
    path = _write_table(
        path=folder / "all.csv",
        persons_of_records=_persons_of_records(
            num_records_of_private_person=num_records_of_private_person
        ),
    )
    return Table(path=path, split="split", labels=("flu", "cough"), group="person").load()


def _three_tables(folder: Path, num_records_of_private_person: int) -> Dataset:
    """Writes the people into one table for each split, and loads them."""
    for split in ("private", "public", "test"):
        _write_table(
            path=folder / f"{split}.csv",
            persons_of_records=_persons_of_records_in(
                split=split, num_records_of_private_person=num_records_of_private_person
            ),
        )
    reader = SplitPaths.in_folder(folder, ending=".csv").table_with_labels("flu", "cough")
    return replace(reader, group="person", drop=("split",)).load()


def _arrays(folder: Path, num_records_of_private_person: int) -> Dataset:
    """Writes the people into three .npz files, and loads them."""
    for split in ("private", "public", "test"):
        persons_of_records = np.array(
            _persons_of_records_in(
                split=split, num_records_of_private_person=num_records_of_private_person
            )
        )
        bits = np.stack([persons_of_records % 2, persons_of_records // 6], axis=1)
        np.savez(
            folder / f"{split}.npz",
            inputs=persons_of_records[:, None] / 9,
            labels=bits,
            groups=persons_of_records,
        )
    return SplitPaths.in_folder(folder, ending=".npz").arrays().load()


def _hugging_face(folder: Path, num_records_of_private_person: int) -> Dataset:
    """Saves the people as a data set of Hugging Face's library, and loads them."""
    datasets = pytest.importorskip("datasets")
    parts = {}
    for split in ("private", "public", "test"):
        persons_of_records = np.array(
            _persons_of_records_in(
                split=split, num_records_of_private_person=num_records_of_private_person
            )
        )
        columns = {
            "age": persons_of_records * 1.5,
            "flu": persons_of_records % 2,
            "person": persons_of_records,
        }
        parts[split] = datasets.Dataset.from_dict(
            {name: cells.tolist() for name, cells in columns.items()}
        )
    datasets.DatasetDict(parts).save_to_disk(str(folder / "saved"))
    return HuggingFace(
        path=str(folder / "saved"), inputs=("age",), labels=("flu",), group="person"
    ).load()


def _write_pictures(folder: Path, num_records_of_private_person: int, ending: str) -> list[str]:
    """Writes a picture for each record under the person's name, and returns the names of the files.

    Pictures of other persons do not depend on `num_records_of_private_person`.
    """
    folder.mkdir()
    names = []
    for person in dict.fromkeys(
        _persons_of_records(num_records_of_private_person=num_records_of_private_person)
    ):
        for number in range(
            _persons_of_records(num_records_of_private_person=num_records_of_private_person).count(
                person
            )
        ):
            names.append(f"{person}-{number}{ending}")
            Image.fromarray(np.full((8, 8, 3), 20 * person, np.uint8)).save(folder / names[-1])
    return names


def _image_folder(folder: Path, num_records_of_private_person: int) -> Dataset:
    """Writes the people into a folder of pictures and a table of labels, and loads them."""
    names = _write_pictures(
        folder=folder / "pictures",
        num_records_of_private_person=num_records_of_private_person,
        ending=".png",
    )
    rows = [
        f"{name},{_split_of(person=person)},{_cells(person=person)}"
        for name, person in zip(
            names,
            _persons_of_records(num_records_of_private_person=num_records_of_private_person),
            strict=True,
        )
    ]
    (folder / "labels.csv").write_text(
        "\n".join(["file,split,person,age,ward,flu,cough", *rows]) + "\n"
    )
    return ImageFolder(
        root=str(folder / "pictures"),
        table=str(folder / "labels.csv"),
        labels=("flu",),
        group="person",
        image_size=8,
    ).load()


def _celeba(folder: Path, num_records_of_private_person: int) -> Dataset:
    """Writes the people into a folder in CelebA's layout, and loads them."""
    names = _write_pictures(
        folder=folder / "img_align_celeba",
        num_records_of_private_person=num_records_of_private_person,
        ending=".jpg",
    )
    codes = {"private": 0, "public": 1, "test": 2}
    persons_of_records = _persons_of_records(
        num_records_of_private_person=num_records_of_private_person
    )
    attributes = [
        f"{name} {2 * (person % 2) - 1}"
        for name, person in zip(names, persons_of_records, strict=True)
    ]
    splits = [
        f"{name} {codes[_split_of(person=person)]}"
        for name, person in zip(names, persons_of_records, strict=True)
    ]
    identities = [
        f"{name} {person}" for name, person in zip(names, persons_of_records, strict=True)
    ]
    (folder / "list_attr_celeba.txt").write_text(
        "\n".join([str(len(names)), "Bald", *attributes]) + "\n"
    )
    (folder / "list_eval_partition.txt").write_text("\n".join(splits) + "\n")
    (folder / "identity_CelebA.txt").write_text("\n".join(identities) + "\n")
    return CelebA(root=folder, image_size=8, partition_by_identity=True).load()


def _require_equal_publications(one_dataset: Dataset, other_dataset: Dataset) -> None:
    """Checks that two data sets have the same names of labels, public ids, labels and inputs, and preprocessing."""
    assert one_dataset.published_ids.dtype == other_dataset.published_ids.dtype
    assert one_dataset.published_ids.tobytes() == other_dataset.published_ids.tobytes()
    for name in ("inputs", "labels"):
        values = [
            np.asarray(getattr(dataset.public, name)).tobytes()
            for dataset in (one_dataset, other_dataset)
        ]
        assert values[0] == values[1]
    assert one_dataset.label_names == other_dataset.label_names
    plain_forms = [
        None if dataset.preprocessing is None else dataset.preprocessing.plain()
        for dataset in (one_dataset, other_dataset)
    ]
    assert plain_forms[0] == plain_forms[1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("num_records_of_private_person", NEIGHBORS)
@pytest.mark.parametrize(
    "load", [_one_table, _three_tables, _arrays, _hugging_face, _image_folder, _celeba]
)
def test_published_ids_do_not_depend_on_private_records(
    tmp_path: Path, load: Load, num_records_of_private_person: int
) -> None:
    """The public ids, labels, inputs and preprocessing are the same if a private person has 0, 1 or 8 records.

    This holds for one table, three tables, arrays, a saved data set, a folder of pictures and CelebA.
    """
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    one_dataset = load(tmp_path / "one", num_records_of_private_person=1)
    other_dataset = load(
        tmp_path / "other", num_records_of_private_person=num_records_of_private_person
    )
    assert (
        len(other_dataset.private) - len(one_dataset.private) == num_records_of_private_person - 1
    )
    _require_equal_publications(one_dataset, other_dataset)


def test_public_part_does_not_depend_on_the_mask_of_a_private_record(tmp_path: Path) -> None:
    """The public part and its schema do not depend on which labels of a private person are known.

    All public and test labels stay known.
    """
    datasets = []
    for number, label_cells in enumerate((",1", "0,")):
        path = tmp_path / f"{number}.csv"
        _write_table(
            path=path, persons_of_records=_persons_of_records(num_records_of_private_person=1)
        )
        row = f"private,{_cells(person=PRIVATE_PERSON_NUMBER)}"
        row_with_unknown_label = f"{row.rsplit(',', 2)[0]},{label_cells}"
        path.write_text(path.read_text().replace(row, row_with_unknown_label))
        table = Table(path=str(path), split="split", labels=("flu", "cough"), group="person")
        datasets.append(table.load())
    one_dataset, other_dataset = datasets
    _require_equal_publications(one_dataset, other_dataset)
    known_masks = [dataset.private.known for dataset in datasets]
    assert known_masks[0] is not None
    assert known_masks[1] is not None
    assert np.count_nonzero(known_masks[0] != known_masks[1]) == 2
    assert one_dataset.private_digest() != other_dataset.private_digest()
    assert np.array_equal(one_dataset.private.inputs, other_dataset.private.inputs)
    for split in (one_dataset.public, other_dataset.public, one_dataset.test, other_dataset.test):
        assert split.known is None


def test_public_rows_are_numbered_among_public_rows(tmp_path: Path) -> None:
    """The published ids of public rows count public rows only.

    The people 1, 5, 7 and 11 are public, and their rows have the ids 0 to 3.
    """
    dataset = _one_table(folder=tmp_path, num_records_of_private_person=8)
    by_age = np.argsort(np.asarray(dataset.public.inputs)[:, 0])
    assert dataset.published_ids[by_age].tolist() == [0, 1, 2, 3]


def test_error_in_public_rows_reveals_no_private_count(tmp_path: Path) -> None:
    """The refusal of a public row with an invalid label is the same for 1 and for 8 private rows of one person."""
    lines = []
    for num_records_of_private_person in (1, 8):
        path = tmp_path / f"{num_records_of_private_person}.csv"
        _write_table(
            path=path,
            persons_of_records=_persons_of_records(
                num_records_of_private_person=num_records_of_private_person
            ),
        )
        path.write_text(path.read_text().replace("p11,31,2,1,1", "p11,31,2,1,7"))
        with refused_parameter("data.path, public.cough", rule_words="row 4 is the") as error:
            Table(path=str(path), split="split", labels=("flu", "cough"), group="person").load()
        lines.append(str(error.value))
    assert lines[0] == lines[1]


@pytest.mark.parametrize("num_private", [200, 300])
def test_published_ids_of_digits_count_public_images_alone(num_private: int) -> None:
    """The ids of 20 public pictures of digits are 0 to 19, for 200 or 300 private pictures."""
    ids = DigitsGrid(num_private, num_public=20, num_test=20).load().published_ids
    assert ids.tolist() == list(range(20))
