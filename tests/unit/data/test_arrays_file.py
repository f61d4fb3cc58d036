from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting import PrivacyUnit
from pate.data import Arrays, Pixels
from tests.refusals import ANY, Refusal, refused_parameter

ROWS = {"private": 6, "public": 4, "test": 3}


Changes = dict[str, Any]
"""Arrays that replace or join the usual ones of a file, by name; None leaves an array out."""


def write_archives(folder: Path, private_changes: Changes | None = None) -> Arrays:
    """Writes three .npz files, with changes in the private one, and returns their reader."""
    rng = np.random.default_rng(0)
    for split, num_rows in ROWS.items():
        arrays = {
            "inputs": rng.standard_normal((num_rows, 2)),
            "labels": rng.integers(0, 2, size=(num_rows, 3)),
        }
        if split == "private":
            changed = arrays | (private_changes or {})
            arrays = {name: array for name, array in changed.items() if array is not None}
        np.savez(folder / f"{split}.npz", **arrays)
    return Arrays(
        private=str(folder / "private.npz"),
        public=str(folder / "public.npz"),
        test=str(folder / "test.npz"),
    )


def split_path(arrays_reader: Arrays, split: str) -> str:
    """Returns the path of a split's file."""
    return str(getattr(arrays_reader, split))


def path_of_array_folder(archive_path: str, changes: Changes | None = None) -> str:
    """Writes the arrays of an .npz file as .npy files into a folder, with changes, and returns the folder's path."""
    folder = Path(archive_path).with_suffix("")
    folder.mkdir()
    with np.load(archive_path) as arrays:
        for name, content in (dict(arrays) | (changes or {})).items():
            np.save(folder / f"{name}.npy", content)
    return str(folder)


def test_arrays_are_read_unchanged(tmp_path: Path) -> None:
    """Inputs and labels of three .npz files are those of the data set; each row is its own group."""
    arrays_reader = write_archives(folder=tmp_path)
    dataset = arrays_reader.load()
    for split, num_rows in ROWS.items():
        with np.load(split_path(arrays_reader=arrays_reader, split=split)) as arrays:
            read_split = getattr(dataset, split)
            assert np.allclose(read_split.inputs, arrays["inputs"], atol=1e-6)
            assert np.array_equal(read_split.labels, arrays["labels"] == 1)
            assert len(set(read_split.group_ids.tolist())) == num_rows


def test_arrays_without_names_and_groups_are_features_in_numbered_rows(tmp_path: Path) -> None:
    """Arrays without names and groups get the labels label_0 and so on, and row numbers as published ids.

    One row is then the unit of privacy.
    """
    dataset = write_archives(folder=tmp_path).load()
    assert (dataset.kind, dataset.label_names) == ("features", ("label_0", "label_1", "label_2"))
    assert dataset.published_ids.tolist() == [0, 1, 2, 3]
    assert dataset.privacy_unit == PrivacyUnit("one row")


def write_folders_of_arrays(arrays_reader: Arrays) -> Arrays:
    """Writes each .npz file as a folder of .npy files, and returns the folders' reader."""
    return Arrays(
        private=path_of_array_folder(
            archive_path=split_path(arrays_reader=arrays_reader, split="private")
        ),
        public=path_of_array_folder(
            archive_path=split_path(arrays_reader=arrays_reader, split="public")
        ),
        test=path_of_array_folder(
            archive_path=split_path(arrays_reader=arrays_reader, split="test")
        ),
    )


def test_folders_of_npy_files_give_the_same_inputs_as_archives(tmp_path: Path) -> None:
    """Folders of .npy files give the private inputs of .npz files."""
    arrays_reader = write_archives(folder=tmp_path)
    inputs = arrays_reader.load().private.inputs
    assert np.array_equal(
        write_folders_of_arrays(arrays_reader=arrays_reader).load().private.inputs, inputs
    )


def test_public_records_may_lack_labels(tmp_path: Path) -> None:
    """Public files without the array `labels`, as folder or as archive, are read as public records without labels."""
    arrays_reader = write_archives(folder=tmp_path)
    folder_reader = write_folders_of_arrays(arrays_reader=arrays_reader)
    dataset = arrays_reader.load()
    assert dataset.public_labeled
    Path(split_path(arrays_reader=folder_reader, split="public"), "labels.npy").unlink()
    np.savez(split_path(arrays_reader=arrays_reader, split="public"), inputs=dataset.public.inputs)
    assert not folder_reader.load().public_labeled
    assert not replace(arrays_reader).load().public_labeled


@pytest.mark.parametrize(
    ("name", "array", "refusal"),
    [
        (
            "groups",
            np.array([0.5, 0.7, 1, 1, 2, 2]),
            refused_parameter(
                "file", value=ANY, rule_words="groups as integers or unsigned integers"
            ),
        ),
        (
            "ids",
            np.array([0.1, 0.2, np.nan, 1, 2, 3]),
            refused_parameter("file", value=ANY, rule_words="ids as integers or"),
        ),
        (
            "groups",
            np.zeros((6, 1), int),
            refused_parameter("file", value=ANY, rule_words="groups as"),
        ),
        (
            "labels",
            np.full((6, 3), 1.0),
            refused_parameter("file", value=ANY, rule_words="dtype float64"),
        ),
        (
            "label_names",
            np.array([1, 2, 3]),
            refused_parameter("file", value=ANY, rule_words="label_names as"),
        ),
    ],
)
def test_folder_of_npy_files_is_checked_like_an_archive(
    name: str, array: Any, refusal: Refusal, tmp_path: Path
) -> None:
    """A folder of .npy files is refused if one array has a wrong type or shape.

    Without the check, the groups 0.5 and 0.7 would both become person 0.
    """
    arrays_reader = write_archives(folder=tmp_path)
    folder = path_of_array_folder(
        archive_path=split_path(arrays_reader=arrays_reader, split="private"), changes={name: array}
    )
    with refusal:
        replace(arrays_reader, private=folder).load()


def test_label_names_groups_and_ids_are_read(tmp_path: Path) -> None:
    """The arrays `label_names`, `groups` and `ids` are read, and groups are the unit of privacy.

    `labels=` replaces the names.
    """
    changes = {
        "groups": np.array([0, 0, 1, 1, 2, 2]),
        "label_names": np.array(["a", "b", "c"]),
    }
    arrays_reader = write_archives(folder=tmp_path, private_changes=changes)
    for split_number, split in enumerate(("public", "test"), start=1):
        path = split_path(arrays_reader=arrays_reader, split=split)
        with np.load(path) as arrays:
            inputs = arrays["inputs"]
            labels = arrays["labels"]
        np.savez(
            path,
            inputs=inputs,
            labels=labels,
            groups=np.full(ROWS[split], 10 * split_number),
            ids=100 * split_number + np.arange(ROWS[split]),
        )
    dataset = arrays_reader.load()
    assert dataset.label_names == ("a", "b", "c")
    assert dataset.private.group_ids.tolist() == [0, 0, 1, 1, 2, 2]
    assert dataset.published_ids.tolist() == [100, 101, 102, 103]
    assert dataset.owners == {"group": {b"0", b"1", b"2"}}
    unit = PrivacyUnit(
        words="one number of the array groups, with all its rows", columns=("groups",)
    )
    assert dataset.privacy_unit == replace(arrays_reader).private_records().group_unit == unit
    assert replace(arrays_reader, labels=("x", "y", "z")).load().label_names == ("x", "y", "z")


def test_bytes_of_images_stay_bytes(tmp_path: Path) -> None:
    """Inputs of unsigned bytes in four axes are pictures; their values are the bytes divided by 255."""
    levels = np.arange(6 * 3 * 4 * 4, dtype=np.uint8).reshape(6, 3, 4, 4)
    arrays_reader = write_archives(folder=tmp_path, private_changes={"inputs": levels})
    for split in ("public", "test"):
        np.savez(
            split_path(arrays_reader=arrays_reader, split=split),
            inputs=levels[: ROWS[split]],
            labels=np.ones((ROWS[split], 3), np.int64),
        )
    dataset = arrays_reader.load()
    assert dataset.kind == "images"
    assert isinstance(dataset.private.inputs, Pixels)
    assert np.allclose(np.asarray(dataset.private.inputs), levels / 255)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        (
            {"labels": None},
            refused_parameter("file", value=ANY, rule_words="save it"),
        ),
        (
            {"labels": np.full((6, 3), 2)},
            refused_parameter("data.private.labels", rule_words="0 and 1, 6"),
        ),
        ({"labels": np.zeros((5, 3), int)}, refused_parameter("data.private.labels", value=(5, 3))),
        (
            {"labels": np.zeros((6, 2), int)},
            refused_parameter("public.labels.shape[1]", value=3),
        ),
        (
            {"inputs": np.zeros((6, 2, 2))},
            refused_parameter("data.private.inputs", value=(6, 2, 2)),
        ),
        (
            {"inputs": np.full((6, 2), np.nan)},
            refused_parameter("data.private.inputs", rule_words="finite numbers"),
        ),
        (
            {"inputs": np.array([{}] * 6, object)},
            refused_parameter("file", value=ANY, rule_words=".npz file as it was written"),
        ),
        (
            {"groups": np.arange(6)},
            refused_parameter("data.public", rule_words="also the array"),
        ),
        ({"ids": np.arange(5)}, refused_parameter("len(data.private.ids)", value=5)),
        (
            {"label_names": np.array(["a", "b"])},
            refused_parameter("data.labels", value=2),
        ),
    ],
)
def test_invalid_arrays_are_refused_in_one_line(
    tmp_path: Path, changes: Changes, refusal: Refusal
) -> None:
    """An .npz file is refused in one line if an array is missing or has a wrong shape, type or value."""
    with refusal as caught:
        write_archives(folder=tmp_path, private_changes=changes).load()
    assert "\n" not in str(caught.value)


def test_refusal_names_missing_files(tmp_path: Path) -> None:
    """Private data are refused under `data.private` if no file is named, or the file does not exist.

    A folder without arrays is refused as well.
    """
    with refused_parameter("data.private", value=None):
        Arrays().load()
    with refused_parameter("data.private", value="nowhere.npz"):
        Arrays(private="nowhere.npz").load()
    with refused_parameter("data.private", value=ANY, rule_words="an .npz file"):
        Arrays(private=str(tmp_path)).load()


def test_labels_outside_of_the_mask_are_not_read(tmp_path: Path) -> None:
    """The array `known` becomes the mask. Labels of -1 that it calls unknown are read as False."""
    labels = np.array([[1, 0, -1], [0, 1, 1], [1, -1, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0]])
    known = labels >= 0
    private = (
        write_archives(
            folder=tmp_path, private_changes={"labels": labels, "known": known.astype(np.uint8)}
        )
        .load()
        .private
    )
    assert private.known is not None and np.array_equal(private.known, known)
    assert np.array_equal(private.labels, labels == 1)


@pytest.mark.parametrize(
    ("known", "refusal"),
    [
        (np.ones((6, 2), np.uint8), refused_parameter("data.private.known", value=(6, 2))),
        (
            np.full((6, 3), 2),
            refused_parameter("data.private.known", value=ANY, rule_words="6 of 6 rows"),
        ),
    ],
)
def test_a_mask_of_another_form_is_refused(tmp_path: Path, known: Any, refusal: Refusal) -> None:
    """A mask is refused if it has another shape than the labels, or holds the number 2."""
    with refusal:
        write_archives(folder=tmp_path, private_changes={"known": known}).load()
