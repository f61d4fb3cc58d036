import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data.cache import cached_pixels
from pate.progress import unwatched
from pate.validation import InvalidValue
from tests.refusals import ANY, refused_parameter

NUM_IMAGES = 1500
SHAPE_OF_ALL_IMAGES = (NUM_IMAGES, 1, 2, 3)
IMAGE_NUMBERS = np.arange(NUM_IMAGES)
STAMPS_OF_IMAGES = np.arange(NUM_IMAGES) + 1

PROGRAM_THAT_IS_KILLED = f"""
import os, signal, sys
import numpy as np
from pathlib import Path
from tests.unit.data.test_cache import IMAGE_NUMBERS, STAMPS_OF_IMAGES, ImageCache, synthetic_images
from pate.progress import unwatched
def decode(rows):
    if rows[0] >= 1024:
        os.kill(os.getpid(), {int(signal.SIGKILL)})
    return synthetic_images(rows)
ImageCache(Path(sys.argv[1])).fill(IMAGE_NUMBERS, STAMPS_OF_IMAGES, decode, unwatched)
"""


def synthetic_images(rows: np.ndarray) -> np.ndarray:
    """Returns the synthetic images of some rows, `[num_rows, 1, 2, 3]`."""
    return (rows[:, None, None, None] * 7 + np.arange(6).reshape(1, 2, 3)).astype(np.uint8)


class Decoder:
    """A decoder of synthetic images that records the decoded rows, and may fail at the image of one number."""

    def __init__(self, unreadable_image_number: int | None = None) -> None:
        self.decoded: list[int] = []
        self.unreadable_image_number = unreadable_image_number

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        if self.unreadable_image_number is not None and self.unreadable_image_number in rows:
            raise InvalidValue("image", self.unreadable_image_number, rule="a readable image")
        self.decoded.extend(rows.tolist())
        return synthetic_images(rows=rows)


@dataclass
class ImageCache:
    """A cache of the synthetic images in a folder."""

    folder: Path

    def fill(
        self, rows: np.ndarray, stamps: np.ndarray, decode: Any, open_stage: Any
    ) -> np.ndarray:
        """Decodes those of the images `rows` that are missing or have another stamp, and returns the cached images."""
        return cached_pixels(
            self.folder,
            shape=SHAPE_OF_ALL_IMAGES,
            image_numbers=rows,
            stamps=stamps,
            decode=decode,
            stage_name="decoding",
            open_stage=open_stage,
        )


@pytest.fixture
def cache(tmp_path: Path) -> ImageCache:
    """Returns an empty cache of the synthetic images."""
    return ImageCache(tmp_path / "cache")


@pytest.mark.slow
def test_images_are_decoded_once_and_memory_mapped(cache: ImageCache) -> None:
    """If decoding fails at image 1030, the next call decodes only the images from 1024 on, and a third call none.

    The result is a read-only memory map, in a folder with mode 0700.
    """
    decoder = Decoder(unreadable_image_number=1030)
    announced = list[object]()

    @contextmanager
    def open_stage(name: str, total: int) -> Iterator[Callable[[int], None]]:
        announced.append((name, total))
        yield announced.append

    with refused_parameter("image", value=1030):
        cache.fill(IMAGE_NUMBERS, STAMPS_OF_IMAGES, decode=decoder, open_stage=unwatched)
    decoder.unreadable_image_number = None
    first = cache.fill(IMAGE_NUMBERS, STAMPS_OF_IMAGES, decode=decoder, open_stage=open_stage)
    again = cache.fill(IMAGE_NUMBERS, STAMPS_OF_IMAGES, decode=decoder, open_stage=open_stage)
    assert announced == [("decoding", NUM_IMAGES - 1024), NUM_IMAGES - 1024]
    assert first.tolist() == again.tolist() == synthetic_images(rows=IMAGE_NUMBERS).tolist()
    assert decoder.decoded == IMAGE_NUMBERS.tolist()
    assert isinstance(again, np.memmap)
    assert not again.flags.writeable
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700


def test_only_needed_or_changed_images_are_decoded(cache: ImageCache) -> None:
    """Only the images that are asked for are decoded, and an image is decoded again if its stamp has changed.

    The stamp of an image is a number that changes with its file.
    """
    decoder = Decoder()
    stamps = STAMPS_OF_IMAGES.copy()
    cache.fill(np.array([3, 1400]), stamps, decode=decoder, open_stage=unwatched)
    stamps[3] += 1
    mapped = cache.fill(np.array([3, 5, 1400]), stamps, decode=decoder, open_stage=unwatched)
    assert decoder.decoded == [3, 1400, 3, 5]
    assert mapped[[3, 5, 1400]].tolist() == synthetic_images(rows=np.array([3, 5, 1400])).tolist()


@pytest.mark.process
def test_a_killed_fill_continues_to_the_same_bytes(cache: ImageCache, tmp_path: Path) -> None:
    """If a process is killed after it has filled in 1,024 images, the next fill decodes only the remaining ones.

    The cache then has the bytes of a fill without a kill.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM_THAT_IS_KILLED, str(cache.folder)], check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    second_decoder = Decoder()
    cache.fill(IMAGE_NUMBERS, STAMPS_OF_IMAGES, decode=second_decoder, open_stage=unwatched)
    assert second_decoder.decoded == list(range(1024, NUM_IMAGES))
    uninterrupted = ImageCache(tmp_path / "whole")
    uninterrupted.fill(IMAGE_NUMBERS, STAMPS_OF_IMAGES, decode=Decoder(), open_stage=unwatched)
    for name in ("images.u8", "stamps.i64"):
        assert (cache.folder / name).read_bytes() == (uninterrupted.folder / name).read_bytes()


def test_images_written_before_the_disk_was_full_are_kept(
    cache: ImageCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the disk becomes full in the second chunk of images, the next fill decodes from the second chunk on.

    The error names the size of the cache.
    """
    write: Callable[[int, bytes, int], int] = os.pwrite

    def write_until_full(file: int, content: bytes, offset: int) -> int:
        is_image_file = os.fstat(file).st_size == 6 * NUM_IMAGES
        num_free = 6 * 700 + 3 - offset if is_image_file else len(content)
        if num_free <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, content[:num_free], offset)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", write_until_full)
        with pytest.raises(
            OSError, match=r"No space left on device \(the cache takes 9e-06 GB for 1,500 images\)"
        ):
            cache.fill(IMAGE_NUMBERS, STAMPS_OF_IMAGES, decode=Decoder(), open_stage=unwatched)
    second_decoder = Decoder()
    assert (
        cache.fill(
            IMAGE_NUMBERS, STAMPS_OF_IMAGES, decode=second_decoder, open_stage=unwatched
        ).tolist()
        == synthetic_images(rows=IMAGE_NUMBERS).tolist()
    )
    assert second_decoder.decoded == list(range(512, NUM_IMAGES))


def test_complete_cache_is_only_read(cache: ImageCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full cache gives its images without opening a file for writing, and changes no file.

    So the cache may lie in a read-only file system.
    """
    cache.fill(IMAGE_NUMBERS, STAMPS_OF_IMAGES, decode=Decoder(), open_stage=unwatched)
    before = {path.name: path.stat().st_mtime_ns for path in cache.folder.iterdir()}
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", None)
        assert (
            cache.fill(
                IMAGE_NUMBERS[5:], STAMPS_OF_IMAGES, decode=Decoder(), open_stage=unwatched
            ).tolist()
            == synthetic_images(rows=IMAGE_NUMBERS).tolist()
        )
    assert {path.name: path.stat().st_mtime_ns for path in cache.folder.iterdir()} == before


@pytest.mark.parametrize("name", ["images.u8", "stamps.i64"])
@pytest.mark.parametrize("num_bytes", [0, 1000])
def test_truncated_cache_file_is_recomputed(cache: ImageCache, name: str, num_bytes: int) -> None:
    """If a file of the cache was cut to 0 or 1,000 bytes, the next fill gives the same images."""
    before = np.asarray(
        cache.fill(IMAGE_NUMBERS, STAMPS_OF_IMAGES, decode=synthetic_images, open_stage=unwatched)
    ).copy()
    path = cache.folder / name
    path.write_bytes(path.read_bytes()[:num_bytes])
    assert np.array_equal(
        cache.fill(IMAGE_NUMBERS, STAMPS_OF_IMAGES, decode=synthetic_images, open_stage=unwatched),
        before,
    )


def test_an_unwritable_folder_is_refused(cache: ImageCache) -> None:
    """A cache is refused if its folder would lie below a file."""
    cache.folder.with_name("file").write_text("")
    within_file = ImageCache(cache.folder.with_name("file") / "cache")
    with refused_parameter("data.cache", value=ANY, rule_words="folder that"):
        within_file.fill(
            rows=IMAGE_NUMBERS,
            stamps=STAMPS_OF_IMAGES,
            decode=synthetic_images,
            open_stage=unwatched,
        )


def test_a_link_in_place_of_the_file_is_refused(cache: ImageCache) -> None:
    """A cache is refused if one of its files is a link to another file, and that file stays as it is."""
    cache.folder.mkdir()
    (cache.folder / "victim").write_text("mine")
    (cache.folder / "images.u8").symlink_to(cache.folder / "victim")
    with refused_parameter("data.cache", value=ANY, rule_words="a folder that"):
        cache.fill(IMAGE_NUMBERS, STAMPS_OF_IMAGES, decode=synthetic_images, open_stage=unwatched)
    assert (cache.folder / "victim").read_text() == "mine"
