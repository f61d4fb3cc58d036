"""Icons in one file, their pictures mapped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import Icons, Pixels
from pate.files.disk import write_arrays
from tests.refusals import ANY, refused

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A file of 12 pictures: 3 public, 4 for test, 5 private."""

    def write(name: str = "icons-8-grey.npz", **changed: Any) -> Path:
        rng = np.random.default_rng(0)
        labels = np.zeros((12, 10), np.bool_)
        labels[np.arange(12), np.arange(12) % 10] = True
        arrays = {
            "pictures": rng.integers(0, 256, (12, 1, 8, 8), dtype=np.uint8),
            "labels": np.packbits(labels, axis=1),
            "record_ids": np.arange(12) + 2**61,
            "group_ids": np.arange(12) // 2 * 2**40 + np.array([0] * 3 + [1] * 4 + [2] * 5),
            "split_sizes": np.array([3, 4, 5]),
            "label_names": np.array([f"word{place}" for place in range(10)]),
            "public_names": np.array(["a:b", "a:c", "d:e"]),
        }
        write_arrays(tmp_path / name, **{**arrays, **changed})
        return tmp_path / name

    return write


def test_pictures_splits_labels_and_ids_are_those_of_the_file(write: Write, tmp_path: Path) -> None:
    path = write()
    data = Icons(tmp_path, image_size=8).load()
    assert (data.name, data.real, data.kind, data.input_shape) == (
        "icons",
        True,
        "images",
        (1, 8, 8),
    )
    assert [len(split) for split in (data.public, data.test, data.private)] == [3, 4, 5]
    assert [np.flatnonzero(row).tolist() for row in data.test.labels] == [[3], [4], [5], [6]]
    assert data.private.record_ids.tolist() == [2**61 + row for row in range(7, 12)]
    assert data.published_ids.tolist() == ["a:b", "a:c", "d:e"]
    assert data.preprocessing is not None
    assert data.preprocessing.input_shape == (1, 8, 8)
    inputs: Any = data.private.inputs
    assert isinstance(inputs, Pixels)
    assert isinstance(inputs.levels, np.memmap), "pictures stay in the file"
    with np.load(path) as archive:
        assert np.array_equal(inputs.levels, archive["pictures"])
        assert np.array_equal(
            np.asarray(inputs), archive["pictures"][7:].astype(np.float32) / np.float32(255)
        )
    data = Icons(path, image_size=8, limit=2).load()
    assert [len(split) for split in (data.public, data.test, data.private)] == [2, 2, 2], (
        "the first of each"
    )
    assert data.private.record_ids.tolist() == [2**61 + 7, 2**61 + 8]
    assert data.published_ids.tolist() == ["a:b", "a:c"]


def test_the_digest_is_of_what_is_in_it(write: Write) -> None:
    before = Icons(write(), image_size=8).load()
    other = np.random.default_rng(1).integers(0, 256, (12, 1, 8, 8), dtype=np.uint8)
    after = Icons(write("other.npz", pictures=other), image_size=8).load()
    again = Icons(write("again.npz"), image_size=8).load()
    assert before.digest() == again.digest() != after.digest()
    assert before.private_digest() == again.private_digest() != after.private_digest()


def test_a_file_that_is_not_there_or_of_another_size_is_one_line(
    write: Write, tmp_path: Path
) -> None:
    with refused("data.root", ANY, "icons-32-grey.npz in"):
        Icons(tmp_path).load()
    with refused("data.root", ANY, "icons-64-rgb.npz in"):
        Icons(tmp_path, image_size=64, channels=3).load()
    with refused("data.root", ANY, "folder that"):
        Icons(tmp_path / "none").load()
    with refused("data.root", (1, 8, 8), "set data.image_size"):
        Icons(write()).load()


def test_settings_out_of_range() -> None:
    for name, value in {"image_size": 0, "channels": 2, "limit": 0, "root": 3}.items():
        with refused(f"data.{name}", value):
            Icons(**{"root": "somewhere", name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed",
    [
        {"split_sizes": np.array([3, 4, 6])},
        {"split_sizes": np.array([3, 9, 0])},
        {"record_ids": np.arange(11)},
        {"public_names": np.array(["a", "b"])},
        {"labels": np.zeros((12, 1), np.uint8)},
        {"pictures": np.zeros((12, 1, 8, 8), np.uint16)},
        {"pictures": np.zeros((12, 8, 8), np.uint8)},
        {"pictures": np.zeros((0, 1, 8, 8), np.uint8)},
        {"group_ids": np.zeros(12)},
        {"more": np.zeros(3)},
    ],
)
def test_a_file_of_another_form_is_one_line(write: Write, changed: dict[str, Any]) -> None:
    with refused("file", ANY, "make it anew"):
        Icons(write(**changed), image_size=8).load()


def test_a_damaged_file_is_one_line(write: Write) -> None:
    path = write()
    content = path.read_bytes()
    start = content.index(b"pictures.npy") + 200  # among the pixels
    flipped = content[:start] + bytes([content[start] ^ 1]) + content[start + 1 :]
    for damaged in (flipped, content[:-40], b"", b"no zip"):
        path.write_bytes(damaged)
        with refused("file", ANY, "make it anew"):
            Icons(path, image_size=8).load()
