"""Cartoon faces in the files that CelebA is distributed as."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pate.data.celeba import ATTRIBUTES, IDENTITIES, IMAGES, MARKER, SPLITS
from pate.data.dataset import Stage, unwatched
from pate.data.synth_faces import BLOCK, NAMES, NUM_PHOTOGRAPHS, draw_attributes, draw_faces, place_points
from pate.files.disk import make_folder, read_json, remove_partials, write_text
from pate.validation import InvalidValue, require, require_choice, require_count

_OFFICIAL = (162_770, 19_867, 19_962)  # train, validation, test
_BOX, _LANDMARKS = "list_bbox_celeba", "list_landmarks_align_celeba"
_BOX_COLUMNS = ("x_1", "y_1", "width", "height")
_POINTS = {
    "lefteye": (39.5, 49),
    "righteye": (60.5, 49),
    "nose": (50, 60),
    "leftmouth": (41, 71),
    "rightmouth": (59, 71),
}
_FACES_A_PERSON = 20


def split_sizes(count: int) -> tuple[int, int, int]:
    """How many of `count` faces are for training, validation and test: the official shares, none of them empty."""
    rule = "at least 3, one for each split"
    require(require_count("count", count) >= 3, "count", count, rule)
    validation, test = (max(1, count * size // NUM_PHOTOGRAPHS) for size in _OFFICIAL[1:])
    return count - validation - test, validation, test


@dataclass(frozen=True)
class FaceCopy:
    """A folder that `data=celeba` reads, and that says of itself that it is synthetic.

    Faces are those of `SynthFaces` with the same seed and size, but for the loss of JPEG. Up to 20 faces that
    follow each other in a split are called one person; they have nothing else in common.

    Attributes:
        count: faces; 202,599 are as many as CelebA has, and in its splits.
        image_size: height and width, in pixels.
        form: "text", the authors' files, or "csv", as they are often passed on (without identities).
        seed: of all faces.
    """

    count: int = NUM_PHOTOGRAPHS
    image_size: int = 64
    form: str = "text"
    seed: int = 0

    def __post_init__(self) -> None:
        split_sizes(self.count)
        require_count("size", self.image_size)
        require_count("seed", self.seed, minimum=0)
        require_choice("format", self.form, ("text", "csv"))

    def write(self, folder: Path, stage: Stage = unwatched) -> None:
        """Writes what is missing in the folder: pictures block after block, the lists last.

        Raises:
            InvalidValue: the folder holds something else.
            OSError: the disk is full; what was written is kept, and the same call goes on from there.
        """
        images = folder / IMAGES if self.form == "text" else folder / IMAGES / IMAGES
        done = self._claim(folder)
        make_folder(images, within=folder)
        with stage("drawing faces", self.count) as advance:
            for block in range(done, self._num_blocks):
                self._write_block(images, block)
                self._note(folder, block + 1)
                advance(min((block + 1) * BLOCK, self.count))
        for stem, header, rows in self._lists():
            self._write_list(folder, stem, header, rows)

    @property
    def _num_blocks(self) -> int:
        return -(-self.count // BLOCK)

    def _claim(self, folder: Path) -> int:
        """Makes the folder this copy's and returns how many blocks are in it."""
        marker = folder / MARKER
        if not marker.exists():
            names = os.listdir(folder) if folder.is_dir() else []
            strange = sorted(name for name in names if not name.endswith(".partial"))
            if strange:
                raise InvalidValue(f"output={folder}: expected a new folder or a part of this copy, found {strange[0]}")
            make_folder(folder)
            self._note(folder, 0)
        content = read_json(marker, rule="the marker of a copy", remedy="remove the folder and make it anew")
        wanted = {"synthetic": True, **asdict(self)}
        found = ", ".join(f"{key}={content.get(key)}" for key in wanted if content.get(key) != wanted[key])
        if found:
            raise InvalidValue(f"output={folder}: expected a new folder or a part of this copy, found {found}")
        remove_partials(folder, (r"\w+\.(?:txt|csv)", re.escape(MARKER)))
        return int(content["blocks_written"])

    def _note(self, folder: Path, blocks_written: int) -> None:
        content = {"synthetic": True, **asdict(self), "blocks_written": blocks_written}
        write_text(folder / MARKER, json.dumps(content) + "\n")

    def _write_block(self, images: Path, block: int) -> None:
        faces = draw_faces(self.seed, block, image_size=self.image_size).transpose(0, 2, 3, 1)
        for row, face in enumerate(faces[: self.count - block * BLOCK], start=block * BLOCK):
            picture = Image.fromarray(np.ascontiguousarray(face))
            picture.save(images / _file(row), format="JPEG", quality=95, subsampling=0)

    def _lists(self) -> Iterator[tuple[str, tuple[str, ...], NDArray[np.int64]]]:
        """Each list's name, columns (none where the text form has no header) and numbers `[count, columns]`."""
        blocks = range(self._num_blocks)
        sizes = split_sizes(self.count)
        yield SPLITS, ("partition",), np.repeat([0, 1, 2], sizes)[:, None]
        places = np.concatenate([np.arange(size) // _FACES_A_PERSON for size in sizes])
        first_of_split = np.repeat(np.cumsum([0, *(-(-size // _FACES_A_PERSON) for size in sizes[:-1])]), sizes)
        if self.form == "text":
            yield IDENTITIES, ("identity",), (places + first_of_split + 1)[:, None]
        box = np.round(np.array([24, 8, 52, 74]) * self.image_size / 100).astype(np.int64)
        yield _BOX, _BOX_COLUMNS, np.tile(box, (self.count, 1))
        points = np.array([*_POINTS.values()], dtype=np.float64)
        placed = [place_points(self.seed, block, points, image_size=self.image_size) for block in blocks]
        columns = tuple(f"{name}_{axis}" for name in _POINTS for axis in "xy")
        yield _LANDMARKS, columns, np.concatenate(placed)[: self.count].reshape(self.count, -1)
        attributes = np.concatenate([draw_attributes(self.seed, block) for block in blocks])[: self.count]
        yield ATTRIBUTES, NAMES, np.where(attributes, 1, -1)  # last: the folder is a copy once it is there

    def _write_list(self, folder: Path, stem: str, columns: tuple[str, ...], numbers: NDArray[np.int64]) -> None:
        if self.form == "csv":
            header = [",".join(["image_id", *columns])]
            lines = [",".join([_file(row), *map(str, values)]) for row, values in enumerate(numbers.tolist())]
        else:
            bare = stem in (SPLITS, IDENTITIES)
            names = " ".join(columns) + (" " if stem == ATTRIBUTES else "")  # as in the genuine file
            header = [] if bare else [str(len(numbers)), names]
            width = 1 if bare else 2
            lines = [
                " ".join([_file(row), *(f"{value:{width}d}" for value in values)])
                for row, values in enumerate(numbers.tolist())
            ]
        suffix = "csv" if self.form == "csv" else "txt"
        write_text(folder / f"{stem}.{suffix}", "\n".join([*header, *lines]) + "\n")


def _file(row: int) -> str:
    return f"{row + 1:06d}.jpg"
