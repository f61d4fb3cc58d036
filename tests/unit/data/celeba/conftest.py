from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

NAMES = ("Bald", "Smiling", "Young")
SPLIT_OF = [0, 0, 0, 0, 1, 1, 2, 2]
PERSON_OF = [5, 5, 6, 7, 8, 8, 9, 9]
LABELS = [[(row >> bit) & 1 == 1 for bit in range(3)] for row in range(8)]


def file_name(row: int) -> str:
    return f"{row + 1:06d}.jpg"


def write_images(folder: Path) -> None:
    """Eight gray photographs of 18x22 pixels, the row times 30 their brightness."""
    folder.mkdir(parents=True)
    for row in range(8):
        Image.fromarray(np.full((22, 18, 3), row * 30, np.uint8)).save(folder / file_name(row), quality=95)


@pytest.fixture
def text_copy(tmp_path: Path) -> Path:
    """As the authors distribute it: a blank after the names, runs of blanks between the values."""
    folder = tmp_path / "celeba"
    write_images(folder / "img_align_celeba")
    rows = [f"{file_name(row)} {' '.join(f'{1 if v else -1:2d}' for v in LABELS[row])}" for row in range(8)]
    (folder / "list_attr_celeba.txt").write_text("\n".join(["8", " ".join(NAMES) + " ", *rows]) + "\n")
    splits = [f"{file_name(row)} {split}" for row, split in enumerate(SPLIT_OF)]
    (folder / "list_eval_partition.txt").write_text("\n".join(splits) + "\n")
    people = [f"{file_name(row)} {person}" for row, person in enumerate(PERSON_OF)]
    (folder / "identity_CelebA.txt").write_text("\n".join(people) + "\n")
    return folder


@pytest.fixture
def csv_copy(tmp_path: Path) -> Path:
    """As it is often passed on: CSV lists, Windows line ends, a folder in the folder, no identities."""
    folder = tmp_path / "archive"
    write_images(folder / "img_align_celeba" / "img_align_celeba")
    rows = [",".join([file_name(row), *("1" if v else "-1" for v in LABELS[row])]) for row in range(8)]
    header = ",".join(["image_id", *NAMES])
    (folder / "list_attr_celeba.csv").write_text("\n".join([header, *rows]) + "\n", newline="\r\n")
    splits = [f"{file_name(row)},{split}" for row, split in enumerate(SPLIT_OF)]
    (folder / "list_eval_partition.csv").write_text("\n".join(["image_id,partition", *splits]) + "\n")
    return folder


@pytest.fixture
def edit(text_copy: Path) -> Callable[[str, str, str], None]:
    """Replaces text, which must be there, in one of the text copy's lists."""

    def replace(name: str, old: str, new: str) -> None:
        path = text_copy / name
        content = path.read_text()
        assert old in content
        path.write_text(content.replace(old, new, 1))

    return replace
