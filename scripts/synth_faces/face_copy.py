"""A folder of drawn faces in CelebA's layout, which `data=celeba` reads."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from pate.array_types import IntArray
from pate.data.celeba import MARKER
from pate.data.celeba_lists import ATTRIBUTE_LIST, IDENTITY_LIST, SPLIT_LIST
from pate.data.celeba_photographs import IMAGES
from pate.files.atomic import remove_partials, write_text
from pate.files.paths import make_folder
from pate.files.reading import read_json
from pate.progress import StageOpener, unwatched
from pate.validation import InvalidValue, require, require_choice, require_count
from scripts.synth_faces.attributes import BLOCK, NAMES, NUM_PHOTOGRAPHS, TABLES, draw_attributes
from scripts.synth_faces.drawing import draw_faces, draw_poses

_OFFICIAL_SIZES = (162_770, 19_867, 19_962)  # of CelebA's training, validation and test split
_BOX: dict[str, float] = TABLES["box"]
_POINTS: dict[str, list[float]] = TABLES["points"]
_FACES_A_PERSON = 20
_FILE = "{:06d}.jpg"


def split_sizes(count: int) -> tuple[int, int, int]:
    """Returns the numbers of faces for training, validation and test: CelebA's shares, none of them empty."""
    rule = "at least 3, one for each split"
    require(require_count("count", count) >= 3, "count", count, rule)
    validation, test = (max(1, count * size // NUM_PHOTOGRAPHS) for size in _OFFICIAL_SIZES[1:])
    return count - validation - test, validation, test


@dataclass(frozen=True)
class List:
    """A list of a copy: a row of whole numbers for each face."""

    stem: str  # of the file's name
    columns: tuple[str, ...]  # their names
    numbers: IntArray  # `[count, len(columns)]`


@dataclass(frozen=True)
class FaceCopy:
    """A folder in CelebA's layout with drawn faces, which has a marker that makes every report call it synthetic.

    Face i depends on `seed`, `image_size` and i alone. Up to 20 faces that follow each other in a split are called one
    person; they have nothing else in common. Results on drawn faces are no evidence about CelebA.
    """

    count: int = NUM_PHOTOGRAPHS  # faces; 202,599 are as many as CelebA has, and in its splits
    image_size: int = 64  # height and width, in pixels
    # "text", the authors' files, or "csv", as they are often passed on (without identities)
    form: str = "text"
    seed: int = 0  # of all faces

    def __post_init__(self) -> None:
        split_sizes(self.count)
        require_count("size", self.image_size)
        require_count("seed", self.seed, minimum=0)
        require_choice("format", self.form, ("text", "csv"))

    def write(self, folder: Path | str, stage: StageOpener = unwatched) -> None:
        """Writes the missing pictures in the folder, and then the lists: the same call continues after a full disk."""
        folder = Path(folder)
        images = folder / IMAGES if self.form == "text" else folder / IMAGES / IMAGES
        num_blocks_written = self._claim(folder)
        make_folder(images, existing_parent=folder)
        with stage("drawing faces", self.count) as advance:
            for block in range(num_blocks_written, -(-self.count // BLOCK)):
                self._write_block(images, block)
                self._write_marker(folder, blocks_written=block + 1)
                advance(min((block + 1) * BLOCK, self.count))
        for content in self._lists():
            self._write_list(folder, content)

    def _write_block(self, images: Path, block: int) -> None:
        faces = draw_faces(self.seed, block, image_size=self.image_size).transpose(0, 2, 3, 1)
        first = block * BLOCK
        for number, face in enumerate(faces[: self.count - first], start=first + 1):
            picture = Image.fromarray(np.ascontiguousarray(face))
            path = images / _FILE.format(number)
            picture.save(path, format="JPEG", quality=95, subsampling=0)

    def _claim(self, folder: Path) -> int:
        """Marks the folder as this copy's and returns the number of blocks that are written."""
        rule = "a new folder or a part of this copy"
        if not (folder / MARKER).exists():
            entries = os.listdir(folder) if folder.is_dir() else []
            names = sorted(name for name in entries if not name.endswith(".partial"))
            if names:
                raise InvalidValue("output", folder, rule=f"{rule}, found {names[0]}")
            self._write_marker(make_folder(folder), blocks_written=0)
        content = read_json(
            folder / MARKER,
            rule="the marker of a copy",
            remedy="remove the folder and make it anew",
        )
        settings = {"synthetic": True, **asdict(self)}
        differences = [
            f"{name}={content.get(name)}"
            for name, value in settings.items()
            if content.get(name) != value
        ]
        if differences:
            raise InvalidValue("output", folder, rule=f"{rule}, found {', '.join(differences)}")
        remove_partials(folder, name_patterns=(r"\w+\.(?:txt|csv)", re.escape(MARKER)))
        return int(content["blocks_written"])

    def _write_marker(self, folder: Path, blocks_written: int) -> None:
        content = {"synthetic": True, **asdict(self), "blocks_written": blocks_written}
        write_text(folder / MARKER, text=json.dumps(content) + "\n")

    def _lists(self) -> Iterator[List]:
        """Yields the lists of the copy; the attributes come last, since they complete the copy."""
        blocks = range(-(-self.count // BLOCK))
        sizes = split_sizes(self.count)
        yield List(SPLIT_LIST, columns=("partition",), numbers=np.repeat([0, 1, 2], sizes)[:, None])
        if self.form == "text":
            yield List(IDENTITY_LIST, columns=("identity",), numbers=_identities(sizes)[:, None])
        box = np.round(np.array([[*_BOX.values()]]) * self.image_size / 100).astype(np.int64)
        yield List(
            stem="list_bbox_celeba", columns=tuple(_BOX), numbers=np.repeat(box, self.count, axis=0)
        )
        points = np.array([*_POINTS.values()], dtype=np.float64)
        poses = np.concatenate([draw_poses(self.seed, block) for block in blocks])
        poses = poses[: self.count, None]  # [count, 1, 3]
        moved = 50 + poses[..., :2] + (points - 50) * poses[..., 2:]  # [count, points, 2]
        pixels = (moved * self.image_size / 100).round().astype(np.int64)
        columns = tuple(f"{name}_{axis}" for name in _POINTS for axis in "xy")
        yield List(
            stem="list_landmarks_align_celeba",
            columns=columns,
            numbers=pixels.reshape(self.count, -1),
        )
        attributes = np.concatenate([draw_attributes(self.seed, block) for block in blocks])
        yield List(ATTRIBUTE_LIST, columns=NAMES, numbers=np.where(attributes[: self.count], 1, -1))

    def _write_list(self, folder: Path, content: List) -> None:
        if self.form == "csv":
            separator = ","
            width = 1
            header = [",".join(["image_id", *content.columns])]
        else:  # as the genuine files have it: numbers are padded in lists with a header alone
            separator = " "
            has_header = content.stem not in (SPLIT_LIST, IDENTITY_LIST)
            width = 2 if has_header else 1
            # the genuine list of attributes has a blank behind their names
            end = " " if content.stem == ATTRIBUTE_LIST else ""
            names = " ".join(content.columns) + end
            header = [str(self.count), names] if has_header else []
        rows = [
            separator.join([_FILE.format(row), *(f"{number:{width}d}" for number in numbers)])
            for row, numbers in enumerate(content.numbers.tolist(), start=1)
        ]
        suffix = "csv" if self.form == "csv" else "txt"
        write_text(folder / f"{content.stem}.{suffix}", text="\n".join([*header, *rows]) + "\n")


def _identities(sizes: tuple[int, int, int]) -> IntArray:
    """Returns the number of each face's person, `[count]` from 1; no person is in two splits."""
    person_in_split = np.concatenate([np.arange(size) // _FACES_A_PERSON for size in sizes])
    people = [-(-size // _FACES_A_PERSON) for size in sizes]
    people_before = np.cumsum([0, *people[:-1]])
    return np.asarray(person_in_split + np.repeat(people_before, sizes) + 1)
