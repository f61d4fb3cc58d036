"""The reader of a copy of CelebA: its lists, its photographs and its splits."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
from PIL import Image

from pate.accounting import PrivacyUnit
from pate.data import CelebA, Partition, celeba
from pate.data.celeba_lists import read_attributes, read_numbers
from pate.data.celeba_photographs import decode_images
from pate.validation import InvalidValue
from tests.refusals import ANY, Refusal, refused_parameter

# A copy of eight photographs. The three attributes of a photograph are the bits of its row number, which is 0 to 7.
NAMES = ("Bald", "Smiling", "Young")
LABELS = [[(row >> bit) & 1 == 1 for bit in range(3)] for row in range(8)]
# The split of each photograph: 0 is private, 1 is public and 2 is the test set.
SPLIT_CODES = [0, 0, 0, 0, 1, 1, 2, 2]
# The identity of the person in each photograph.
PERSON_NUMBERS = [5, 5, 6, 7, 8, 8, 9, 9]


class Edit(Protocol):
    """A function that changes one of the copy's lists."""

    def __call__(self, list_file: str, *, old_text: str, new_text: str) -> None:
        """Replaces the first occurrence of a text in a list by another text."""


def file_name(row: int) -> str:
    """Returns the file name of the photograph of a row; rows count from 0, names from 1."""
    return f"{row + 1:06d}.jpg"


def write_images(folder: Path) -> None:
    """Writes eight gray photographs of 18x22 pixels, whose brightness is the row number times 30."""
    folder.mkdir(parents=True)
    for row in range(8):
        pixels = np.full((22, 18, 3), row * 30, np.uint8)
        Image.fromarray(pixels).save(folder / file_name(row=row), quality=95)


@pytest.fixture
def text_copy(tmp_path: Path) -> Path:
    """Returns a copy of CelebA as the authors distribute it: text lists with runs of blanks between the values."""
    folder = tmp_path / "celeba"
    write_images(folder=folder / "img_align_celeba")
    rows = [
        f"{file_name(row=row)} {' '.join(f'{1 if v else -1:2d}' for v in LABELS[row])}"
        for row in range(8)
    ]
    (folder / "list_attr_celeba.txt").write_text(
        "\n".join(["8", " ".join(NAMES) + " ", *rows]) + "\n"
    )
    split_lines = [
        f"{file_name(row=row)} {split_code}" for row, split_code in enumerate(SPLIT_CODES)
    ]
    (folder / "list_eval_partition.txt").write_text("\n".join(split_lines) + "\n")
    person_lines = [f"{file_name(row=row)} {person}" for row, person in enumerate(PERSON_NUMBERS)]
    (folder / "identity_CelebA.txt").write_text("\n".join(person_lines) + "\n")
    return folder


@pytest.fixture
def folder_of_csv_copy(tmp_path: Path) -> Path:
    """Returns a copy as it is often redistributed: CSV lists and nested folders, but no identities.

    The list of attributes has Windows line ends.
    """
    folder = tmp_path / "archive"
    write_images(folder=folder / "img_align_celeba" / "img_align_celeba")
    rows = [
        ",".join([file_name(row=row), *("1" if v else "-1" for v in LABELS[row])])
        for row in range(8)
    ]
    header = ",".join(["image_id", *NAMES])
    (folder / "list_attr_celeba.csv").write_text("\n".join([header, *rows]) + "\n", newline="\r\n")
    split_lines = [
        f"{file_name(row=row)},{split_code}" for row, split_code in enumerate(SPLIT_CODES)
    ]
    (folder / "list_eval_partition.csv").write_text(
        "\n".join(["image_id,partition", *split_lines]) + "\n"
    )
    return folder


@pytest.fixture
def edit(text_copy: Path) -> Edit:
    """Returns a function that replaces a text, which must occur, in one of the copy's lists."""

    def replace_text(list_file: str, *, old_text: str, new_text: str) -> None:
        path = text_copy / list_file
        content = path.read_text()
        assert old_text in content
        path.write_text(content.replace(old_text, new_text, 1))

    return replace_text


@pytest.fixture(params=["text_copy", "folder_of_csv_copy"], ids=["text_copy", "csv_copy"])
def copy(request: pytest.FixtureRequest) -> Path:
    """Returns a copy in each of the two forms, as text and as CSV."""
    folder: Path = request.getfixturevalue(request.param)
    return folder


def test_text_and_csv_copies_give_hand_computed_splits(copy: Path) -> None:
    """A copy of eight photographs gives 4 private, 2 public and 2 test records with their labels and brightness."""
    dataset = CelebA(root=copy, image_size=8).load()
    assert (dataset.name, dataset.real, dataset.kind) == ("celeba", True, "images")
    assert dataset.label_names == NAMES
    ids = [split.record_ids.tolist() for split in (dataset.private, dataset.public, dataset.test)]
    assert ids == [[1, 2, 3, 4], [5, 6], [7, 8]]
    assert dataset.private.labels.astype(int).tolist() == [
        [0, 0, 0],
        [1, 0, 0],
        [0, 1, 0],
        [1, 1, 0],
    ]
    assert dataset.private.inputs.shape == (4, 3, 8, 8)
    brightness = np.asarray(dataset.test.inputs).mean(axis=(1, 2, 3)) * 255
    np.testing.assert_allclose(brightness, [180, 210], atol=1)  # JPEG may move a level


def test_parent_folder_and_authors_folders_are_accepted(text_copy: Path) -> None:
    """The parent of the copy, and a copy in the authors' folders, give the data set of the plain copy."""
    plain = CelebA(root=text_copy, image_size=4, partition_by_identity=True).load()
    folder_of_beginning = {
        "list_attr": "Anno",
        "identity": "Anno",
        "list_eval": "Eval",
        "img": "Img",
    }
    for beginning, folder_name in folder_of_beginning.items():
        folder = text_copy / folder_name
        folder.mkdir(exist_ok=True)
        (path,) = text_copy.glob(f"{beginning}*")
        path.rename(folder / path.name)
    for copy_name in ("celeba", "CelebA"):
        text_copy = text_copy.rename(text_copy.with_name(copy_name))
        parent = str(text_copy.parent)
        dataset = CelebA(root=parent, image_size=4, partition_by_identity=True).load()
        assert dataset.digest() == plain.digest()


@pytest.mark.parametrize("suffix", [".JPG", ".jpeg", ".png"])
def test_photographs_may_have_another_suffix_than_listed(copy: Path, suffix: str) -> None:
    """Photographs with another suffix than in the lists are read as the listed ones."""
    plain = CelebA(root=copy, image_size=4).load()
    for path in [*copy.rglob("*.jpg")]:
        path.rename(path.with_suffix(suffix))
    (copy / "img_align_celeba" / "000001.txt").write_text("no photograph")
    assert CelebA(root=copy, image_size=4, missing="error").load().digest() == plain.digest()


def test_links_are_followed_and_non_files_count_as_missing(text_copy: Path, tmp_path: Path) -> None:
    """A link to the folder of photographs is followed.

    A folder, a broken link or a pipe in place of a photograph counts as a missing photograph.
    """
    plain = CelebA(root=text_copy, image_size=4).load()
    images = text_copy / "img_align_celeba"
    images.rename(tmp_path / "elsewhere")
    images.symlink_to(tmp_path / "elsewhere")
    assert CelebA(root=text_copy, image_size=4, missing="error").load().digest() == plain.digest()
    for row in range(3):
        (images / file_name(row=row)).unlink()
    (images / file_name(row=0)).mkdir()
    (images / file_name(row=1)).symlink_to("/nonexistent")
    os.mkfifo(images / file_name(row=2))
    assert CelebA(root=text_copy, image_size=4).load().private.record_ids.tolist() == [4]


def test_paths_with_blanks_or_tilde_are_read(
    text_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A root whose path has blanks and begins with `~` is read, and so is such a cache."""
    text_copy = text_copy.rename(text_copy.with_name("my own copy"))
    monkeypatch.setenv("HOME", str(text_copy.parent))
    assert len(CelebA(root="~/my own copy", image_size=4, cache="~/a cache").load().private) == 4
    assert (text_copy.parent / "a cache").is_dir()


def test_partition_by_identity_groups_photographs_by_person(text_copy: Path) -> None:
    """With `partition_by_identity`, the photographs of a person are one group; without it, each photograph is a group.

    A group has one teacher. The owners contain the persons even without this setting.
    """
    dataset = CelebA(root=text_copy, image_size=4).load()
    ungrouped = dataset.private
    of_people = CelebA(root=text_copy, image_size=4, partition_by_identity=True).load()
    people = of_people.private
    assert dataset.privacy_unit == PrivacyUnit(words="one photograph")
    person = PrivacyUnit(
        words="one identity of identity_CelebA, with all its photographs",
        columns=("identity_CelebA",),
    )
    assert of_people.privacy_unit == person
    assert ungrouped.group_ids.tolist() == [1, 2, 3, 4]
    # A ledger of several runs recognizes the people and the photographs by these names.
    assert dataset.owners["group"] == {b"5", b"6", b"7"}
    assert dataset.owners["id"] == {b"000001.jpg", b"000002.jpg", b"000003.jpg", b"000004.jpg"}
    assert people.group_ids.tolist() == [5, 5, 6, 7]
    partition = Partition.draw(people.group_ids, num_teachers=3, rng=np.random.default_rng(0))
    assert partition.teacher_of[0] == partition.teacher_of[1]


def test_limit_keeps_the_first_photographs_of_each_split(text_copy: Path) -> None:
    """With `limit=1`, each split has its first photograph only.

    A copy with the file synth_faces.json is marked as not real.
    """
    (text_copy / "synth_faces.json").write_text("{}")
    dataset = CelebA(root=text_copy, image_size=4, limit=1).load()
    ids = [split.record_ids.tolist() for split in (dataset.private, dataset.public, dataset.test)]
    assert (ids, dataset.real) == ([[1], [5], [7]], False)


def test_missing_photographs_are_skipped_and_counted(
    copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Missing photographs are left out, and one warning counts them; with `missing=error`, the copy is refused.

    Two of four private photographs are missing here.
    """
    for number in (2, 4):
        next(copy.rglob(f"00000{number}.jpg")).unlink()
    with caplog.at_level(logging.WARNING):
        dataset = CelebA(root=copy, image_size=4).load()
    assert dataset.private.record_ids.tolist() == [1, 3]
    assert dataset.private.labels[:, 1].tolist() == [False, True]
    (message,) = [record.getMessage() for record in caplog.records]
    rule = (
        r"^data\.root=\S+: expected all 4 listed photographs of the private split, 2 are missing; "
    )
    assert re.match(rule + r"going on with what is there \(data\.missing=error refuses\)$", message)
    with pytest.raises(
        InvalidValue, match=rule + r"data\.missing=skip goes on with what is there$"
    ):
        CelebA(root=copy, missing="error").load()


def test_damaged_photograph_is_named_and_decoded_after_replacement(
    text_copy: Path,
) -> None:
    """A damaged photograph is refused by the path of its file, and is decoded after it was mended.

    If one photograph is removed and another is replaced, the others keep their inputs.
    """
    damaged = text_copy / "img_align_celeba" / "000006.jpg"
    content = damaged.read_bytes()
    damaged.write_bytes(content[:200])
    with refused_parameter("image", value=str(damaged), rule_words="a readable image"):
        CelebA(root=text_copy, image_size=4).load()
    damaged.write_bytes(content)
    mended = CelebA(root=text_copy, image_size=4).load()
    assert np.asarray(mended.public.inputs).mean() * 255 == pytest.approx(135, abs=1)
    damaged.unlink()
    replaced = damaged.with_name("000007.jpg")
    Image.new(mode="RGB", size=(18, 22), color=(250, 250, 250)).save(replaced)
    again = CelebA(root=text_copy, image_size=4).load()
    assert again.public.record_ids.tolist() == [5]
    assert again.test.inputs[:1].min() * 255 == pytest.approx(250, abs=1)
    assert again.test.inputs[1:].tolist() == mended.test.inputs[1:].tolist()


def test_photographs_are_decoded_once_for_each_size_and_crop(
    text_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each size and crop has its own cache, from which a second load reads without decoding a photograph.

    A cache in another folder gives the same data.
    """
    copies = [
        CelebA(root=text_copy, image_size=4),
        CelebA(root=text_copy, image_size=5),
        CelebA(root=text_copy, crop=8),
    ]
    digests = {copy.load().digest() for copy in copies}
    assert len(digests) == len(list((text_copy / "pate_cache").iterdir())) == 3
    monkeypatch.setattr(celeba, "decode_images", None)
    assert {copy.load().digest() for copy in copies} == digests
    monkeypatch.undo()
    elsewhere = CelebA(root=text_copy, image_size=4, cache=tmp_path / "elsewhere").load()
    assert elsewhere.digest() in digests
    assert len(list((tmp_path / "elsewhere").iterdir())) == 1


@pytest.mark.parametrize("blanks", [" \r\n", "   \n", "\t\n", "\n\n"])
def test_stray_blanks_and_line_ends_are_ignored(text_copy: Path, blanks: str) -> None:
    """Lists with byte-order marks, more blanks and other line ends give the plain data set."""
    plain = CelebA(root=text_copy, image_size=4).load()
    for path in text_copy.glob("*.txt"):
        path.write_bytes(
            b"\xef\xbb\xbf" + path.read_text().replace("\n", blanks).replace(" ", "  ").encode()
        )
    assert CelebA(root=text_copy, image_size=4, missing="error").load().digest() == plain.digest()


@pytest.mark.parametrize(
    ("make_reader", "refusal"),
    [
        (partial(CelebA, image_size=0), refused_parameter("image_size", value=0)),
        (partial(CelebA, limit=0), refused_parameter("limit", value=0)),
        (partial(CelebA, crop=-1), refused_parameter("crop", value=-1)),
        (partial(CelebA, missing="warn"), refused_parameter("missing", value="warn")),
    ],
    ids=["image_size", "limit", "crop", "missing"],
)
def test_impossible_parameters_are_refused(
    make_reader: Callable[..., CelebA], refusal: Refusal
) -> None:
    """An impossible image size, limit, crop or way to treat missing photographs is refused by its name."""
    with refusal:
        make_reader(root="celeba")


def test_published_model_carries_the_preprocessing_of_photographs(copy: Path) -> None:
    """The preprocessing of a data set turns the file of a photograph into the input of its record.

    A data set that is read with `crop` has no preprocessing.
    """
    dataset = CelebA(root=copy, image_size=8).load()
    assert dataset.preprocessing is not None
    (first_test_photograph,) = copy.rglob("000007.jpg")
    (photograph_input,) = dataset.preprocessing.inputs([first_test_photograph])
    first_test_input = np.asarray(dataset.test.inputs)[0]
    np.testing.assert_array_equal(photograph_input, first_test_input)
    assert CelebA(root=copy, image_size=8, crop=4).load().preprocessing is None


def write_picture(path: Path, pixels: np.ndarray) -> Path:
    """Writes pixels as a picture, and returns the path."""
    Image.fromarray(pixels.astype(np.uint8)).save(path)
    return path


def test_pictures_become_bytes_with_channels_first(tmp_path: Path) -> None:
    """A picture whose pixels are all (255, 0, 51) becomes an array of bytes with the three channels first."""
    pixels = np.full((4, 4, 3), (255, 0, 51))
    path = write_picture(path=tmp_path / "colors.png", pixels=pixels)
    images = decode_images(image_paths=[path], image_size=4)
    assert images.dtype == np.uint8
    assert images[0, :, 0, 0].tolist() == [255, 0, 51]


def test_square_in_the_middle_of_a_tall_picture_is_read(tmp_path: Path) -> None:
    """Of a picture that is 6 pixels high and 2 wide, only the two rows in the middle are read.

    These rows are white.
    """
    tall_picture = np.zeros((6, 2, 3))
    tall_picture[2:4] = 255
    path = write_picture(path=tmp_path / "tall.png", pixels=tall_picture)
    assert decode_images(image_paths=[path], image_size=2).min() == 255


def test_pictures_are_smoothed_when_made_smaller(tmp_path: Path) -> None:
    """Black and white stripes of one pixel become gray when the picture is made smaller."""
    striped_picture = np.zeros((16, 16, 3))
    striped_picture[:, ::2] = 255
    path = write_picture(path=tmp_path / "stripes.png", pixels=striped_picture)
    images = decode_images(image_paths=[path], image_size=2)
    np.testing.assert_allclose(images, 127, atol=5)


def test_crop_takes_the_middle_of_a_picture(tmp_path: Path) -> None:
    """A crop of two pixels reads only the middle square of 2x2 pixels, which is white in a black picture.

    A crop that is larger than the picture changes nothing.
    """
    pixels = np.zeros((8, 6, 3))
    pixels[3:5, 2:4] = 255
    path = write_picture(path=tmp_path / "square.png", pixels=pixels)
    assert decode_images(image_paths=[path], image_size=2, crop_side=2).min() == 255
    without_crop = decode_images(image_paths=[path], image_size=6)
    assert without_crop.min() == 0
    with_large_crop = decode_images(image_paths=[path], image_size=6, crop_side=100)
    assert with_large_crop.tolist() == without_crop.tolist()


@pytest.mark.parametrize(
    ("mode", "file_format"),
    [
        pytest.param("L", "JPEG", id="gray"),
        pytest.param("CMYK", "JPEG", id="CMYK"),
        pytest.param("RGBA", "PNG", id="colors and alpha"),
        pytest.param("P", "GIF", id="palette"),
        pytest.param("1", "PNG", id="one bit"),
        pytest.param("LA", "PNG", id="gray and alpha"),
    ],
)
def test_all_image_modes_are_read(tmp_path: Path, mode: str, file_format: str) -> None:
    """White pictures in gray, CMYK, with alpha, in a palette or with one bit are all read as white."""
    path = tmp_path / "white.jpg"
    white = Image.new(mode="L", size=(8, 8), color=255)
    white.convert(mode).save(path, format=file_format)
    assert (decode_images(image_paths=[path], image_size=2) == 255).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(",-1", ",0", id="0 for -1"),
        pytest.param(",", ";", id="semicolons"),
        pytest.param(",", ", ", id="blanks after commas"),
        pytest.param(r"([^,\n]+)", r'"\1"', id="quotes"),
        pytest.param(r"(?m)^(\d*)(?=.)", r"\1,\1", id="row numbers"),
    ],
)
def test_csv_dialects_are_read(folder_of_csv_copy: Path, old: str, new: str) -> None:
    """CSV lists in other dialects give the same attributes and splits.

    The dialects have 0 for -1, semicolons, blanks after commas, quotes, or a column of row numbers.
    """
    plain = read_attributes(folder_of_csv_copy)
    splits = read_numbers(
        folder_of_csv_copy, list_name="list_eval_partition", file_names=plain.file_names
    )
    for path in folder_of_csv_copy.glob("*.csv"):
        path.write_text(re.sub(old, new, path.read_text()))
    attributes = read_attributes(folder_of_csv_copy)
    assert attributes.labels.tolist() == plain.labels.tolist()
    assert attributes.label_names == plain.label_names
    assert attributes.file_names == plain.file_names
    splits_in_dialect = read_numbers(
        folder_of_csv_copy, list_name="list_eval_partition", file_names=plain.file_names
    )
    assert splits_in_dialect.numbers.tolist() == splits.numbers.tolist()


def test_identities_are_required_only_as_groups(folder_of_csv_copy: Path) -> None:
    """A copy without the list of persons is read, but refused with `partition_by_identity`."""
    assert len(CelebA(root=folder_of_csv_copy, image_size=4).load().public) == 2
    with refused_parameter("data.root", value=ANY, rule_words="data.partition_by_identity=false"):
        CelebA(root=folder_of_csv_copy, partition_by_identity=True).load()


def test_foreign_column_of_a_csv_list_is_refused(folder_of_csv_copy: Path) -> None:
    """A CSV list of attributes with a further column of words is refused; the error has its first cell."""
    path = folder_of_csv_copy / "list_attr_celeba.csv"
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([f"{head},photographer", *(f"{row},Ann" for row in rows)]))
    with refused_parameter("list_attr_celeba.csv row 000001.jpg, photographer", value="Ann"):
        read_attributes(folder_of_csv_copy)


def test_overlong_field_of_a_csv_list_is_refused(folder_of_csv_copy: Path) -> None:
    """A list of attributes with a name of 200,000 letters is refused, as Python's reader of CSV takes fewer."""
    path = folder_of_csv_copy / "list_attr_celeba.csv"
    path.write_text("image_id," + "x" * 200_000 + "\n000001.jpg,1\n")
    with pytest.raises(
        InvalidValue, match=r"list_attr_celeba\.csv=field larger than .* separated by commas$"
    ):
        read_attributes(folder_of_csv_copy)


ATTRIBUTES = "list_attr_celeba.txt"
SPLITS = "list_eval_partition.txt"
PEOPLE = "identity_CelebA.txt"
LISTED = r"list_attr_celeba\.txt"
NUMBER = (
    r".* row='?000001\.jpg.*: expected a file name, once, and a whole number, and nothing else$"
)


@dataclass(frozen=True)
class BrokenList:
    """A list of the copy in which one text is replaced by an invalid one.

    Attributes:
        list_file: the name of the list.
        old_text: the text that is replaced.
        new_text: the invalid text.
        message_pattern: the beginning of the refusal, as a regular expression.
    """

    list_file: str
    old_text: str
    new_text: str
    message_pattern: str


def broken_rows_of_numbers(list_file: str, old_row: str) -> list[BrokenList]:
    """Returns changes of a list of numbers that replace the first row by an invalid row.

    Args:
        list_file: the name of the list.
        old_row: the first row of the list.
    """
    invalid_rows = (
        "000001.jpg 0 1",
        "000001.jpg",
        "000001.jpg -1",
        f"000001.jpg {10**30}",
        "000001.jpg 1\n000001.jpg 0",
    )
    return [
        BrokenList(
            list_file=list_file, old_text=old_row, new_text=invalid_row, message_pattern=NUMBER
        )
        for invalid_row in invalid_rows
    ]


BROKEN_LISTS = [
    BrokenList(
        list_file=SPLITS,
        old_text="000002.jpg 0",
        new_text="000002.jpg 3",
        message_pattern=r"list_eval_partition row 000002\.jpg=3: expected 0 ",
    ),
    BrokenList(
        list_file=SPLITS,
        old_text="000003.jpg 0\n",
        new_text="",
        message_pattern=r"list_eval_partition=000003\.jpg: expected a row for each",
    ),
    BrokenList(
        list_file=PEOPLE,
        old_text="000003.jpg 6\n",
        new_text="",
        message_pattern=r"identity_CelebA=000003\.jpg: expected a row for each image of",
    ),
    BrokenList(
        list_file=PEOPLE,
        old_text="000005.jpg 8",
        new_text="000005.jpg 7",
        message_pattern=r"group_ids: expected each group in one split, found 1 in pr",
    ),
    BrokenList(
        list_file=ATTRIBUTES,
        old_text="8\n",
        new_text="",
        message_pattern=rf"{LISTED} line 1=Bald Smiling Young: expected the number of images, names",
    ),
    BrokenList(
        list_file=ATTRIBUTES,
        old_text="02.jpg  1",
        new_text="02.jpg",
        message_pattern=rf"{LISTED} row 000002\.jpg, values=2: expected 1 or -1, .* for each of 3 ",
    ),
    BrokenList(
        list_file=ATTRIBUTES,
        old_text="02.jpg  1",
        new_text="02.jpg yes",
        message_pattern=rf"{LISTED} row 000002\.jpg, Bald=yes: expected 1 or -1",
    ),
    BrokenList(
        list_file=ATTRIBUTES,
        old_text="02.jpg  1 -1",
        new_text="02.jpg  1 0",
        message_pattern=rf"{LISTED} row 000002\.jpg, Smiling=0: expected ",
    ),
    BrokenList(
        list_file=ATTRIBUTES,
        old_text="000002.jpg",
        new_text="000001.jpg",
        message_pattern=rf"{LISTED}=8 rows: expected each image once$",
    ),
    *broken_rows_of_numbers(list_file=SPLITS, old_row="000001.jpg 0"),
    *broken_rows_of_numbers(list_file=PEOPLE, old_row="000001.jpg 5"),
]


@pytest.mark.parametrize("broken", BROKEN_LISTS)
def test_invalid_list_is_refused_in_one_line(
    text_copy: Path, edit: Edit, broken: BrokenList
) -> None:
    """A list with one invalid text is refused in one line, which names the list.

    Only a person in two splits is refused without the name of the list, as a group in two splits.
    """
    edit(broken.list_file, old_text=broken.old_text, new_text=broken.new_text)
    with pytest.raises(InvalidValue, match=f"^{broken.message_pattern}") as caught:
        CelebA(root=text_copy, image_size=4, partition_by_identity=True).load()
    assert "\n" not in str(caught.value)


def test_two_names_of_one_photograph_are_refused(text_copy: Path, edit: Edit) -> None:
    """Two rows that name one photograph with two suffixes are refused.

    Otherwise a private picture could also be public.
    """
    edit(ATTRIBUTES, old_text="000005.jpg", new_text="000001.png")
    edit(SPLITS, old_text="000005.jpg", new_text="000001.png")
    with refused_parameter("img_align_celeba/000001.jpg", rule_words="one row for"):
        CelebA(root=text_copy, image_size=4).load()


@pytest.mark.parametrize("content", ["", "0\n", "0\nBald Young\n"])
def test_list_of_attributes_without_rows_is_refused(tmp_path: Path, content: str) -> None:
    """A list of attributes that is empty, or has no photograph, is refused by its first line."""
    (tmp_path / ATTRIBUTES).write_text(content)
    message = rf"{LISTED} line 1='?0?'?: expected the number of images, names in line 2"
    with pytest.raises(InvalidValue, match=message):
        read_attributes(tmp_path)


def test_root_that_does_not_exist_is_refused() -> None:
    """A root that does not exist is refused, and the error asks for the folder of the user's copy."""
    with refused_parameter("data.root", value=ANY, rule_words="folder of your"):
        CelebA(root="/nonexistent").load()


def test_split_without_any_photograph_is_refused(text_copy: Path) -> None:
    """A copy in which all photographs of a split are missing is refused, and the error names the split."""
    for row in (6, 7):
        (text_copy / "img_align_celeba" / file_name(row=row)).unlink()
    with refused_parameter("data.root", value=ANY, rule_words="photographs of the test"):
        CelebA(root=text_copy).load()


def test_copy_without_the_list_of_splits_is_refused(text_copy: Path) -> None:
    """A copy without the list of splits is refused, and the error names the list."""
    (text_copy / SPLITS).unlink()
    with refused_parameter("data.root", value=ANY, rule_words="list_eval_partition.txt or"):
        CelebA(root=text_copy).load()


@pytest.mark.parametrize(
    "disagreeing",
    [
        pytest.param(
            BrokenList(
                list_file=ATTRIBUTES,
                old_text="8\n",
                new_text="202599\n",
                message_pattern="list_attr_celeba line 1=202599: expected 8, the rows that follow; ",
            ),
            id="number of rows",
        ),
        pytest.param(
            BrokenList(
                list_file=SPLITS,
                old_text="000001",
                new_text="999999.jpg 0\n000001",
                message_pattern="list_attr_celeba=8 images: expected also the 1 that only list",
            ),
            id="one photograph more",
        ),
    ],
)
def test_disagreeing_lists_are_warned_of_or_refused(
    text_copy: Path,
    edit: Edit,
    caplog: pytest.LogCaptureFixture,
    disagreeing: BrokenList,
) -> None:
    """If two lists disagree on the photographs, one warning says so; with `missing=error` the copy is refused."""
    edit(disagreeing.list_file, old_text=disagreeing.old_text, new_text=disagreeing.new_text)
    dataset = CelebA(root=text_copy, image_size=4, partition_by_identity=True).load()
    assert dataset.private.group_ids.tolist() == [5, 5, 6, 7]
    (warning,) = caplog.records
    assert warning.getMessage().startswith(disagreeing.message_pattern)
    with pytest.raises(
        InvalidValue, match=f"^{disagreeing.message_pattern}.*data.missing=skip goes on"
    ):
        CelebA(root=text_copy, image_size=4, missing="error").load()


def test_identities_of_unlisted_photographs_are_ignored(
    text_copy: Path, edit: Edit, caplog: pytest.LogCaptureFixture
) -> None:
    """A photograph that only the list of identities has is ignored without a warning."""
    edit(PEOPLE, old_text="000001", new_text="999999.jpg 4\n000001")
    dataset = CelebA(root=text_copy, image_size=4, partition_by_identity=True).load()
    assert dataset.private.group_ids.tolist() == [5, 5, 6, 7]
    assert caplog.records == []


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_link_to_a_photograph_is_refused_as_a_second_photograph(
    text_copy: Path, link: Callable[[Path, Path], None]
) -> None:
    """A public photograph that is a link to a private photograph is refused."""
    images = text_copy / "img_align_celeba"
    (images / file_name(row=4)).unlink()
    link(images / file_name(row=0), images / file_name(row=4))
    with refused_parameter("img_align_celeba/000005.jpg", rule_words="row for each"):
        CelebA(root=text_copy, image_size=4).load()
