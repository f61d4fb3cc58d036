from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pate.data.celeba import decode_images
from pate.validation import InvalidValue


def save(path: Path, pixels: np.ndarray) -> Path:
    Image.fromarray(pixels.astype(np.uint8)).save(path)
    return path


def test_channels_come_first_and_colors_are_fractions(tmp_path: Path) -> None:
    pixels = np.zeros((4, 4, 3))
    pixels[:, :, 0], pixels[:, :, 2] = 255, 51
    images = decode_images([save(tmp_path / "a.png", pixels)], image_size=4)
    assert images.dtype == np.uint8
    assert images[0, :, 0, 0].tolist() == [255, 0, 51]


def test_a_tall_image_is_cropped_to_its_middle(tmp_path: Path) -> None:
    pixels = np.zeros((6, 2, 3))
    pixels[2:4] = 255
    images = decode_images([save(tmp_path / "a.png", pixels)], image_size=2)
    assert images.tolist() == np.full((1, 3, 2, 2), 255).tolist()


def test_the_crop_is_in_the_middle_and_at_most_the_whole(tmp_path: Path) -> None:
    pixels = np.zeros((8, 6, 3))
    pixels[3:5, 2:4] = 255
    path = save(tmp_path / "a.png", pixels)
    assert decode_images([path], image_size=2, crop=2).min() == 255
    whole = decode_images([path], image_size=6)
    assert whole.min() == 0
    assert decode_images([path], image_size=6, crop=100).tolist() == whole.tolist()


def test_shrinking_averages(tmp_path: Path) -> None:
    stripes = np.zeros((16, 16, 3))
    stripes[:, ::2] = 255
    images = decode_images([save(tmp_path / "a.png", stripes)], image_size=2)
    np.testing.assert_allclose(images, 127, atol=5)


def test_gray_images_have_three_equal_channels(tmp_path: Path) -> None:
    images = decode_images([save(tmp_path / "a.png", np.full((4, 4), 102))], image_size=2)
    assert np.unique(images).tolist() == [102]


def test_a_damaged_image_is_named(tmp_path: Path) -> None:
    good = save(tmp_path / "good.jpg", np.random.default_rng(0).integers(0, 255, (40, 40, 3)))
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(good.read_bytes()[:-400])
    (tmp_path / "text.jpg").write_text("no image")
    for name in ("cut", "text"):
        with pytest.raises(
            InvalidValue, match=rf"^image=\S+{name}\.jpg: expected a readable image; fetch it again, or "
        ):
            decode_images([good, tmp_path / f"{name}.jpg"], image_size=4)
    with pytest.raises(InvalidValue, match=r"^image=/\S+/cut\.jpg, text\.jpg: expected a readable image; "):
        decode_images([tmp_path / "text.jpg", good, cut], image_size=4)


@pytest.mark.parametrize(
    ("mode", "form"), [("L", "JPEG"), ("CMYK", "JPEG"), ("RGBA", "PNG"), ("P", "GIF"), ("1", "PNG"), ("LA", "PNG")]
)
def test_whatever_form_an_image_has_it_is_read(mode: str, form: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    Image.new("L", (8, 8), 255).convert(mode).save(path, format=form)
    assert decode_images([path], image_size=2).tolist() == np.full((1, 3, 2, 2), 255).tolist()
