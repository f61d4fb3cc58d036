"""Pictures are read alike by every reader: upright, in 8 bits from 0 to white, on a white background."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pate.data import HuggingFace, ImageFolder, ImageForm
from pate.data.celeba_photographs import decode_images
from pate.data.picture_column import PictureColumn
from pate.data.pictures import read_picture
from tests.refusals import ANY, refused_parameter
from tests.unit.data.split_paths import SplitPaths

pa = pytest.importorskip("pyarrow")

RAMP = np.arange(256, dtype=np.uint8).reshape(16, 16)
ORIENTATION = 0x0112  # the EXIF tag


def gray_levels(picture: Any, *, white_level: float | None = None) -> Any:
    """Returns the gray levels of a picture, `[16, 16]`, as `ImageForm` reads them."""
    return ImageForm(channels=1, height=16, width=16, white=white_level).levels(
        picture, name="picture"
    )[0]


# A level of 8 bits is 257 levels of 16, and 4095 / 255 of 12.
DEEP: dict[str, tuple[Any, float]] = {
    "16.png": (RAMP.astype(np.uint16) * 257, 65535),
    "16.tif": (RAMP.astype(np.uint16) * 257, 65535),
    "12.png": (np.round(RAMP * (4095 / 255)).astype(np.uint16), 4095),
    "32.tif": (RAMP.astype(np.int32) * 1000, 255000),
    "float.tif": (RAMP.astype(np.float32) / 255, 1.0),
}


@pytest.mark.parametrize("name", DEEP)
def test_pictures_over_8_bits_are_scaled_by_white(tmp_path: Path, name: str) -> None:
    """Pictures of more than 8 bits, with the given level of white, are read as the ramp of 256 levels."""
    array, white = DEEP[name]
    Image.fromarray(array).save(tmp_path / name)
    for picture in (tmp_path / name, Image.open(tmp_path / name), Image.fromarray(array)):
        np.testing.assert_array_equal(gray_levels(picture=picture, white_level=white), RAMP)


@pytest.mark.parametrize("name", [name for name in DEEP if name != "32.tif"])
def test_white_of_one_picture_is_inferred_from_fewest_bits(tmp_path: Path, name: str) -> None:
    """Without a level of white, white is 2^b - 1, where b is the fewest bits that hold the levels of the picture.

    For a picture of floats from 0 to 1, white is 1.
    """
    Image.fromarray(DEEP[name][0]).save(tmp_path / name)
    for picture in (tmp_path / name, Image.open(tmp_path / name)):
        np.testing.assert_array_equal(gray_levels(picture=picture), RAMP)


@pytest.mark.parametrize(
    "array", [RAMP.astype(np.float32), RAMP.astype(np.int32) - 9, np.full((4, 4), np.nan)]
)
def test_picture_without_inferable_white_is_refused(array: Any) -> None:
    """Without a level of white, a picture is refused if it has floats above 1, negative levels or NaN."""
    picture = Image.fromarray(array.astype(np.int32 if array.dtype == np.int32 else np.float32))
    with refused_parameter("picture", rule_words="a picture of 8"):
        gray_levels(picture=picture)


def test_level_above_white_is_refused() -> None:
    """Levels above white, below 0 or NaN are refused, and so are impossible levels of white.

    A picture of 8 bits is read as it is even if 65535 is given for white.
    """
    np.testing.assert_array_equal(
        gray_levels(picture=Image.fromarray(RAMP), white_level=65535), RAMP
    )
    bright = np.full((16, 16), 4096, np.uint16)
    dark = np.full((16, 16), -1.0, np.float32)
    for array in (bright, dark, np.full((16, 16), np.nan, np.float32)):
        with refused_parameter("picture", rule_words="levels from 0"):
            gray_levels(picture=Image.fromarray(array), white_level=4095)
    for white in (0, -1, float("inf"), True, "65535"):
        with refused_parameter("white", value=ANY, rule_words="a number > 0"):
            ImageForm(white=white)  # type: ignore[arg-type]


def test_colors_of_16_bits_keep_their_upper_8_bits(
    tmp_path: Path,
) -> None:
    """A color picture of 16 bits is read by its upper 8 bits; a white other than 65535 is refused."""
    # PIL writes no colors of 16 bits: a PNG by hand, of one pixel
    import struct
    import zlib

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content))
            + kind
            + content
            + struct.pack(">I", zlib.crc32(kind + content))
        )

    pixel = zlib.compress(b"\0" + struct.pack(">3H", 0x0100, 0x8000, 0xFF00))
    content = (
        chunk(kind=b"IHDR", content=struct.pack(">2I5B", 1, 1, 16, 2, 0, 0, 0))
        + chunk(kind=b"IDAT", content=pixel)
        + chunk(kind=b"IEND", content=b"")
    )
    path = tmp_path / "16.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    assert ImageForm(channels=3, height=1, width=1).levels(
        path, name="picture"
    ).ravel().tolist() == [1, 128, 255]
    assert ImageForm(channels=3, height=1, width=1, white=65535).levels(
        path, name="picture"
    ).ravel().tolist() == [1, 128, 255]
    with refused_parameter("picture", rule_words="data.white=65535 beside"):
        ImageForm(channels=3, height=1, width=1, white=4095).levels(path, name="picture")


# The picture `RAMP` upright, for each of the eight orientations of Exif in which its rows and columns may be stored.
UPRIGHT_RAMP = {
    1: RAMP,
    2: np.fliplr(RAMP),
    3: np.rot90(RAMP, k=2),
    4: np.flipud(RAMP),
    5: RAMP.T,
    6: np.rot90(RAMP, k=-1),
    7: np.rot90(RAMP, k=2).T,
    8: np.rot90(RAMP, k=1),
}


@pytest.mark.parametrize("orientation", UPRIGHT_RAMP)
def test_exif_orientation_is_applied_by_every_reader(tmp_path: Path, orientation: int) -> None:
    """A picture is read upright by its EXIF orientation, from a path, a file or an open picture, also with 16 bits."""
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    path = tmp_path / "turned.png"
    Image.fromarray(RAMP).save(path, exif=exif)
    upright = UPRIGHT_RAMP[orientation]
    for picture in (path, str(path), Image.open(path), io.BytesIO(path.read_bytes())):
        np.testing.assert_array_equal(gray_levels(picture=picture), upright)
    np.testing.assert_array_equal(decode_images(image_paths=[path], image_size=16)[0, 0], upright)
    deep = tmp_path / "deep.png"
    Image.fromarray(RAMP.astype(np.uint16) * 257).save(deep, exif=exif)
    np.testing.assert_array_equal(gray_levels(picture=Image.open(deep), white_level=65535), upright)


def transparent(mode: str, hidden: int) -> Image.Image:
    """Returns a picture of 2 x 1 pixels: one of level 40, and an invisible one of level `hidden`."""
    if mode == "P":
        picture = Image.new(mode="P", size=(2, 1))
        picture.putpalette([40, 40, 40, hidden, hidden, hidden])
        picture.putpixel((1, 0), 1)
        picture.info["transparency"] = 1
        return picture
    if mode in ("L", "RGB", "I;16"):
        array = np.array([[40, hidden]], np.uint16 if mode == "I;16" else np.uint8)
        picture = Image.fromarray(np.stack([array] * 3, -1) if mode == "RGB" else array)
        picture.info["transparency"] = (hidden,) * 3 if mode == "RGB" else hidden
        return picture
    pixels = np.array([[[40, 40, 40, 255], [hidden, hidden, hidden, 0]]], np.uint8)
    of_color = Image.fromarray(pixels, "RGBA")
    return of_color.convert("LA").convert("La") if mode == "La" else of_color.convert(mode)


@pytest.mark.parametrize("mode", ["RGBA", "RGBa", "LA", "La", "P", "L", "RGB", "I;16"])
def test_transparent_pixels_are_white(tmp_path: Path, mode: str) -> None:
    """A pixel that is fully transparent is white in each of eight modes, whether it hides level 0 or level 200."""
    white = 255.0 if mode == "I;16" else None
    for hidden in (0, 200):
        picture = transparent(mode=mode, hidden=hidden)
        pictures: list[Any] = [picture]
        if mode in ("RGBA", "LA", "P", "L", "RGB", "I;16"):
            picture.save(tmp_path / "picture.png")
            pictures.append(tmp_path / "picture.png")
        for opened in pictures:
            for channels in (1, 3):
                read = np.asarray(
                    read_picture(opened, name="picture", channels=channels, white_level=white)
                )
                assert read.reshape(2, channels).tolist() == [[40] * channels, [255] * channels]


def test_half_transparent_pixels_are_blended_with_white() -> None:
    """A pixel of opacity 0.2 is read as one fifth of its color and four fifths of white."""
    pixel = np.array([[[0, 100, 255, 51]]], np.uint8)  # a fifth of it shows
    half_transparent_picture = Image.fromarray(pixel, "RGBA")
    assert np.asarray(
        read_picture(half_transparent_picture, name="picture", channels=3)
    ).ravel().tolist() == [
        204,
        224,
        255,
    ]


def test_picture_that_pil_cannot_convert_is_refused() -> None:
    """A picture in LAB, and bytes that are no picture, are refused."""
    for picture in (Image.new(mode="LAB", size=(4, 4)), io.BytesIO(b"no picture")):
        with refused_parameter("picture", rule_words="a picture that"):
            gray_levels(picture=picture)


def folder_of(folder: Path, make_levels: Callable[[int], np.ndarray]) -> ImageFolder:
    """Writes a gray picture for each split (private, public, test) and a table, and returns their reader.

    Args:
        folder: the folder.
        make_levels: takes the number of a split, from 0 to 2, and returns the gray levels of its picture.
    """
    rows = ["file,split,hat"]
    for place, split in enumerate(("private", "public", "test")):
        Image.fromarray(make_levels(place)).save(folder / f"{place}.png")
        rows.append(f"{place}.png,{split},1")
    (folder / "labels.csv").write_text("\n".join(rows))
    return ImageFolder(
        root=str(folder),
        table=str(folder / "labels.csv"),
        labels=("hat",),
        image_size=16,
        channels=1,
    )


def test_folder_of_pictures_over_8_bits_needs_white(tmp_path: Path) -> None:
    """A folder of pictures of 16 bits needs `white`, by which inputs are divided and which the preprocessing keeps."""
    pytest.importorskip("pyarrow")
    reader = folder_of(
        folder=tmp_path, make_levels=lambda place: (RAMP // (1 + place)).astype(np.uint16) * 257
    )
    with refused_parameter("data.table.file", rule_words="data.white=65535"):
        reader.load()
    dataset = replace(reader, white=65535).load()
    np.testing.assert_allclose(dataset.private.inputs[:][0, 0], RAMP / 255, atol=1e-6)
    form = dataset.preprocessing
    assert isinstance(form, ImageForm)
    assert (
        ImageForm.from_plain(form.plain())
        == form
        == ImageForm(channels=1, height=16, width=16, fit="crop", white=65535)
    )
    # Bundles of earlier versions have no entry for white.
    assert "white" not in ImageForm(channels=1, height=16, width=16).plain()


def test_hugging_face_pictures_are_read_like_files(tmp_path: Path) -> None:
    """Pictures of 16 bits in a saved data set are read upright by their EXIF orientation, and need `white`."""
    datasets = pytest.importorskip("datasets")
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    content = io.BytesIO()
    Image.fromarray(RAMP.astype(np.uint16) * 257).save(content, "PNG", exif=exif)
    features = datasets.Features({"scan": datasets.Image(), "hat": datasets.Value("int64")})
    cells_of_columns = {"scan": [{"bytes": content.getvalue(), "path": None}], "hat": [1]}
    splits = {
        split: datasets.Dataset.from_dict(cells_of_columns, features)
        for split in ("private", "public", "test")
    }
    datasets.DatasetDict(splits).save_to_disk(str(tmp_path / "saved"))
    reader = HuggingFace(
        path=str(tmp_path / "saved"),
        inputs=("scan",),
        labels=("hat",),
        image_size=16,
        channels=1,
    )
    with refused_parameter("data.private.scan", rule_words="data.white=65535"):
        reader.load()
    dataset = replace(reader, white=65535).load()
    np.testing.assert_allclose(dataset.private.inputs[:][0, 0], np.rot90(RAMP, -1) / 255, atol=1e-6)


def test_integer_arrays_other_than_bytes_are_refused(tmp_path: Path) -> None:
    """Arrays of pictures of 16 bits are refused."""
    for split in ("private", "public", "test"):
        images = np.full((2, 1, 4, 4), 65535, np.uint16)
        np.savez(tmp_path / f"{split}.npz", inputs=images, labels=np.ones((2, 1), np.int64))
    reader = SplitPaths.in_folder(tmp_path, ending=".npz").arrays()
    with refused_parameter("data.private.inputs.dtype", value="uint16"):
        reader.load()


def test_celeba_photograph_over_8_bits_is_refused_by_name(tmp_path: Path) -> None:
    """A photograph of 16 bits in a copy of CelebA is refused, and the error has the path of its file."""
    path = tmp_path / "1.png"
    Image.fromarray(RAMP.astype(np.uint16) * 257).save(path)
    with refused_parameter("image", value=str(path), rule_words="a readable image of 8"):
        decode_images(image_paths=[path], image_size=4)


def test_rule_of_a_column_is_that_of_its_first_wrong_cell() -> None:
    """An error on a column of pictures states the rule that the first wrong cell breaks.

    One wrong cell has no picture, and the other one a picture of 16 bits.
    """
    picture_of_cell = {"none": None, "deep": Image.fromarray(RAMP.astype(np.uint16) * 257)}
    column = PictureColumn(
        name="file",
        has_missing=False,
        form=ImageForm(channels=1, height=16, width=16),
        find_picture_file=picture_of_cell.get,
    )
    for cells, is_first in ((["none", "deep"], True), (["deep", "none"], False)):
        encoded = column.encode(pa.array(cells))
        assert encoded.wrong.tolist() == [True, True]
        assert (encoded.broken_rules == (column.readable_rule,)) == is_first
