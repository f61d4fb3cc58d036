from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pate.accounting import PrivacyUnit
from pate.data import ImageFolder, ImageForm
from pate.validation import InvalidValue
from tests.refusals import refused

pytest.importorskip("pyarrow")
HEAD = "file,split,person,smiles,hat"
ROWS = [
    "a.png,private,p1,1,0",
    "b/c.jpg,private,p1,0,1",
    "d.png,public,p2,1,1",
    "e.png,public,p3,0,0",
    "f.png,test,p4,1,0",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b").mkdir()
    for place, row in enumerate(ROWS):
        levels = np.full((10 + place, 20, 3), 40 * place, np.uint8)
        Image.fromarray(levels).save(tmp_path / row.partition(",")[0])
    (tmp_path / "labels.csv").write_text("\n".join([HEAD, *ROWS]))
    return tmp_path


def settings(folder: Path, **changes: Any) -> dict[str, Any]:
    labels = {"labels": ["smiles", "hat"], "group": "person", "image_size": 8}
    return {"root": str(folder), "table": str(folder / "labels.csv"), **labels, **changes}


def test_pictures_and_their_labels(folder: Path) -> None:
    dataset = ImageFolder(**settings(folder)).load()
    assert (dataset.kind, dataset.label_names) == ("images", ("smiles", "hat"))
    assert dataset.private.inputs.shape == (2, 3, 8, 8)
    assert np.allclose(dataset.private.inputs[:][0], 0)
    assert np.allclose(dataset.private.inputs[:][1], 40 / 255, atol=0.02)  # JPEG
    assert dataset.private.labels.tolist() == [[True, False], [False, True]]
    assert dataset.private.group_ids[0] == dataset.private.group_ids[1]
    assert sorted(dataset.published_ids.tolist()) == ["d.png", "e.png"]
    assert dataset.preprocessing == ImageForm(3, 8, 8, "crop")
    digests = {
        f"sha256:{sha256((folder / name).read_bytes()).hexdigest()}".encode()
        for name in ("a.png", "b/c.jpg")
    }
    assert dataset.owners == {"id": {b"a.png", b"b/c.jpg"} | digests, "group": {b"p1"}}
    unit = PrivacyUnit("one value of the column person, with all its pictures", ("person",))
    assert dataset.privacy_unit == unit
    assert ImageFolder(**settings(folder, group=None)).load().privacy_unit == PrivacyUnit(
        "one picture"
    )
    for name, levels in zip(dataset.published_ids, dataset.public.inputs[:], strict=True):
        assert np.allclose(levels, {"d.png": 80, "e.png": 120}[name] / 255)


def test_the_form_makes_the_same_of_files_and_pictures_cut_or_stretched(folder: Path) -> None:
    dataset = ImageFolder(**settings(folder, channels=1)).load()
    form = dataset.preprocessing
    assert form is not None
    files = [folder / name for name in dataset.published_ids]
    assert np.array_equal(form.inputs(files), dataset.public.inputs[:])
    assert np.array_equal(
        form.inputs([Image.open(file) for file in files]), dataset.public.inputs[:]
    )
    assert form.inputs(files[0]).shape == (1, 1, 8, 8)
    half = np.zeros((8, 24), np.uint8)
    half[:, :8] = 255  # the left third
    cropped, stretched = (
        ImageForm(1, 8, 8, fit).inputs([Image.fromarray(half)]) for fit in ("crop", "stretch")
    )
    assert not cropped.any()
    assert stretched[0, 0, 0, 0] == 1


@pytest.mark.parametrize(
    ("row", "changes", "line"),
    [
        (
            "x.png,private,p9,1,0",
            {},
            r"data\.table\.file: expected pictures .* below data\.root=\S+, .*, 1 of 3 .* row 6 .*",
        ),
        (
            "labels.csv,private,p9,1,0",
            {},
            r"data\.table\.file: expected pictures that can be read .*, 1 of 3 .*",
        ),
        ("a.png,private,p9,1,0", {}, r"data\.table\.file=a name twice: expected each picture once"),
        (
            "../a.png,private,p9,1,0",
            {},
            r"data\.table\.file: expected pictures .* lie below .* row 6 is the first",
        ),
        (
            "g.png,train,p9,1,0",
            {},
            r"data\.split=split: expected private, public or test, row 6 has something else",
        ),
        (
            "g.png,private,p9,7,0",
            {},
            r"data\.table\.smiles: expected 0 or 1 in a label's column, 1 of 3 rows .*",
        ),
        (
            "g.png,private,,1,0",
            {},
            r"data\.table\.person: expected a value in each row, 1 of 3 rows have none",
        ),
        (
            "g.png,test,p1,1,0",
            {},
            r"data\.group=person: expected each person in one split, 1 are in private .*",
        ),
        (None, {"root": "nowhere"}, r"data\.root=nowhere: expected the folder of the pictures"),
        (
            None,
            {"table": None},
            r"data\.table=None: expected the file that says the labels of each picture",
        ),
        (None, {"labels": []}, r"data\.labels=\[\]: expected columns: 'data\.labels=.*"),
        (
            None,
            {"labels": ["smile"]},
            r"data\.table: expected also the column smile \(did you mean smiles or file\?\)",
        ),
        (None, {"fit": "cut"}, r"data\.fit=cut: expected one of crop, stretch"),
        (
            None,
            {"file": "path"},
            r"data\.file=path: .* holds paths below data\.root, data\.file=NAME.*",
        ),
        (
            None,
            {"split": "part"},
            r"data\.split=part: .* holds private, public or test, data\.split=NAME.*",
        ),
    ],
)
def test_what_is_wrong_is_one_line(
    folder: Path, row: str | None, changes: dict[str, Any], line: str
) -> None:
    Image.new("L", (4, 4)).save(folder / "g.png")
    (folder / "labels.csv").write_text("\n".join([HEAD, *ROWS, *([row] if row else [])]))
    with pytest.raises(InvalidValue, match=f"^{line}$"):
        ImageFolder(**settings(folder, **changes)).load()


def test_a_picture_that_cannot_be_read_is_one_line(folder: Path) -> None:
    with refused("data[0]", rule="a picture that"):
        ImageForm().inputs([folder / "labels.csv"])
    with refused("data[0]", "int"):
        ImageForm().inputs([3])


def _linked(folder: Path) -> list[str]:
    """Other names of a.png: spellings of its path, and links to it."""
    (folder / "soft.png").symlink_to("a.png")
    os.link(folder / "a.png", folder / "b" / "hard.png")
    (folder / "again").symlink_to("b")
    return [
        "./a.png",
        ".//a.png",
        "b/../a.png",
        str(folder / "a.png"),
        "soft.png",
        "b/hard.png",
        "again/hard.png",
    ]


@pytest.mark.parametrize(
    "row", ["public,p9,1,1", "test,p9,1,1", "private,p9,1,1", "private,p1,1,1"]
)
def test_one_picture_has_one_row_whatever_it_is_called(folder: Path, row: str) -> None:
    for name in _linked(folder):
        (folder / "labels.csv").write_text("\n".join([HEAD, *ROWS, f"{name},{row}"]))
        with refused("data.table.file", "a picture twice"):
            ImageFolder(**settings(folder)).load()


def test_a_ledger_knows_pictures_again_under_other_names(folder: Path) -> None:
    usual = ImageFolder(**settings(folder)).load().owners["id"]
    for name in _linked(folder):
        (folder / "labels.csv").write_text(
            "\n".join([HEAD, ROWS[0].replace("a.png", name), *ROWS[2:]])
        )
        assert len(usual & ImageFolder(**settings(folder)).load().owners["id"]) >= 1, name
