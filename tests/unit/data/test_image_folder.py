from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pate.accounting import PrivacyUnit
from pate.data import ImageFolder, ImageForm
from tests.refusals import Refusal, refused_parameter

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
    """Writes five pictures of one gray level each, and the table of their labels; returns their folder."""
    (tmp_path / "b").mkdir()
    for place, row in enumerate(ROWS):
        levels = np.full((10 + place, 20, 3), 40 * place, np.uint8)
        Image.fromarray(levels).save(tmp_path / row.partition(",")[0])
    (tmp_path / "labels.csv").write_text("\n".join([HEAD, *ROWS]))
    return tmp_path


def reader(folder: Path) -> ImageFolder:
    """Returns the reader of the pictures in `folder`, with two labels and persons as groups."""
    return ImageFolder(
        root=str(folder),
        table=str(folder / "labels.csv"),
        labels=("smiles", "hat"),
        group="person",
        image_size=8,
    )


def test_pictures_are_read_with_their_labels(folder: Path) -> None:
    """The pictures of a folder are read with the labels, splits and persons that a table names for them.

    Two private pictures of one person are one group. The public pictures are published under their file names. The
    owners are two sets: the names of the private pictures with digests of their files, and the names of their persons.
    """
    dataset = reader(folder=folder).load()
    assert (dataset.kind, dataset.label_names) == ("images", ("smiles", "hat"))
    assert dataset.private.inputs.shape == (2, 3, 8, 8)
    assert np.allclose(dataset.private.inputs[:][0], 0)
    assert np.allclose(dataset.private.inputs[:][1], 40 / 255, atol=0.02)  # JPEG
    assert dataset.private.labels.tolist() == [[True, False], [False, True]]
    assert dataset.private.group_ids[0] == dataset.private.group_ids[1]
    assert sorted(dataset.published_ids.tolist()) == ["d.png", "e.png"]
    assert dataset.preprocessing == ImageForm(channels=3, height=8, width=8, fit="crop")
    digests = {
        f"sha256:{sha256((folder / name).read_bytes()).hexdigest()}".encode()
        for name in ("a.png", "b/c.jpg")
    }
    assert dataset.owners == {"id": {b"a.png", b"b/c.jpg"} | digests, "group": {b"p1"}}
    unit = PrivacyUnit(
        words="one value of the column person, with all its pictures", columns=("person",)
    )
    assert dataset.privacy_unit == unit
    assert replace(reader(folder=folder), group=None).load().privacy_unit == PrivacyUnit(
        "one picture"
    )
    for name, levels in zip(dataset.published_ids, dataset.public.inputs[:], strict=True):
        assert np.allclose(levels, {"d.png": 80, "e.png": 120}[name] / 255)


@pytest.mark.parametrize("uncertain", ["missing", "positive", "negative"])
def test_labels_of_pictures_may_have_gaps(folder: Path, uncertain: str) -> None:
    """A private label may be empty, a word of `missing`, or -1 with the setting `uncertain`.

    The first two are unknown labels, and -1 is read as `uncertain` says. Without `uncertain`, -1 is refused.
    """
    rows = [*ROWS]
    rows[0] = "a.png,private,p1,-1,0"
    rows[1] = "b/c.jpg,private,p1,,skipped"
    (folder / "labels.csv").write_text("\n".join([HEAD, *rows]))
    with refused_parameter("data.table.smiles", rule_words="data.uncertain=missing"):
        replace(reader(folder=folder), missing=("skipped",)).load()
    dataset = replace(reader(folder=folder), missing=("skipped",), uncertain=uncertain).load()
    assert dataset.private.known is not None
    is_known = uncertain != "missing"
    assert dataset.private.known.tolist() == [[is_known, True], [False, False]]
    assert dataset.private.labels[0].tolist() == [uncertain == "positive", False]
    assert dataset.test.known is not None
    assert dataset.test.known.all()


def test_image_form_treats_files_and_images_alike(folder: Path) -> None:
    """The preprocessing turns files and opened pictures into the same public inputs.

    `crop` and `stretch` differ on a wide picture.
    """
    dataset = replace(reader(folder=folder), channels=1).load()
    form = dataset.preprocessing
    assert form is not None
    files = [folder / name for name in dataset.published_ids]
    assert np.array_equal(form.inputs(files), dataset.public.inputs[:])
    assert np.array_equal(
        form.inputs([Image.open(file) for file in files]), dataset.public.inputs[:]
    )
    assert form.inputs(files[0]).shape == (1, 1, 8, 8)
    one_third_white = np.zeros((8, 24), np.uint8)
    one_third_white[:, :8] = 255  # the left third
    cropped, stretched = (
        ImageForm(channels=1, height=8, width=8, fit=fit).inputs([Image.fromarray(one_third_white)])
        for fit in ("crop", "stretch")
    )
    assert not cropped.any()
    assert stretched[0, 0, 0, 0] == 1


@pytest.mark.parametrize(
    ("row", "change", "refusal"),
    [
        (
            "x.png,private,p9,1,0",
            partial(replace),
            refused_parameter("data.table.file", rule_words="below data.root="),
        ),
        (
            "labels.csv,private,p9,1,0",
            partial(replace),
            refused_parameter("data.table.file", rule_words="pictures that can be read"),
        ),
        (
            "a.png,private,p9,1,0",
            partial(replace),
            refused_parameter("data.table.file", value="a name twice"),
        ),
        (
            "../a.png,private,p9,1,0",
            partial(replace),
            refused_parameter("data.table.file", rule_words="row 6 is the first"),
        ),
        (
            "g.png,train,p9,1,0",
            partial(replace),
            refused_parameter("data.split", value="split"),
        ),
        (
            "g.png,private,p9,7,0",
            partial(replace),
            refused_parameter("data.table.smiles", rule_words="0 or 1 in"),
        ),
        (
            "g.png,private,,1,0",
            partial(replace),
            refused_parameter("data.table.person", rule_words="value in each"),
        ),
        (
            "g.png,test,p1,1,0",
            partial(replace),
            refused_parameter("data.group", value="person", rule_words="person in one split, 1"),
        ),
        (None, partial(replace, root="nowhere"), refused_parameter("data.root", value="nowhere")),
        (
            None,
            partial(replace, table=None),
            refused_parameter("data.table", value=None),
        ),
        (
            None,
            partial(replace, labels=[]),
            refused_parameter("data.labels", value="[]", rule_words="columns: 'data.labels="),
        ),
        (
            None,
            partial(replace, labels=["smile"]),
            refused_parameter("data.table", rule_words="did you mean smiles"),
        ),
        (None, partial(replace, fit="cut"), refused_parameter("data.fit", value="cut")),
        (
            None,
            partial(replace, file="path"),
            refused_parameter("data.file", value="path"),
        ),
        (
            None,
            partial(replace, split="part"),
            refused_parameter("data.split", value="part"),
        ),
    ],
)
def test_invalid_folder_is_refused_in_one_line(
    folder: Path, row: str | None, change: Callable[[ImageFolder], ImageFolder], refusal: Refusal
) -> None:
    """A folder is refused in one line, by the column or the setting, if a row of its table or a setting is wrong."""
    Image.new("L", (4, 4)).save(folder / "g.png")
    (folder / "labels.csv").write_text("\n".join([HEAD, *ROWS, *([row] if row else [])]))
    with refusal as caught:
        change(reader(folder=folder)).load()
    assert "\n" not in str(caught.value)


def test_what_is_no_picture_is_refused(folder: Path) -> None:
    """`ImageForm.inputs` refuses a file that is no picture, and a number in place of a picture."""
    with refused_parameter("data[0]", rule_words="a picture that"):
        ImageForm().inputs([folder / "labels.csv"])
    with refused_parameter("data[0]", value="int"):
        ImageForm().inputs([3])


def write_links(folder: Path) -> list[str]:
    """Links other names to a.png, and returns these names and other spellings of its path."""
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "row", ["public,p9,1,1", "test,p9,1,1", "private,p9,1,1", "private,p1,1,1"]
)
def test_same_picture_under_two_names_is_refused(folder: Path, row: str) -> None:
    """A picture that has a second row, under another name or a link, is refused in any split."""
    for name in write_links(folder=folder):
        (folder / "labels.csv").write_text("\n".join([HEAD, *ROWS, f"{name},{row}"]))
        with refused_parameter("data.table.file", value="a picture twice"):
            reader(folder=folder).load()


@pytest.mark.slow
def test_picture_under_another_name_keeps_an_owner_id(folder: Path) -> None:
    """A private picture has at least one of its usual owner ids if the table names it by a link or another path.

    The usual owner ids of a picture are the name and the digest of its file.
    """
    usual_owner_ids = reader(folder=folder).load().owners["id"]
    for picture_name in write_links(folder=folder):
        (folder / "labels.csv").write_text(
            "\n".join([HEAD, ROWS[0].replace("a.png", picture_name), *ROWS[2:]])
        )
        assert len(usual_owner_ids & reader(folder=folder).load().owners["id"]) >= 1, picture_name
