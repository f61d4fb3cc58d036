"""CelebA's lists: attributes, official splits and identities, in the original text form or as CSV."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue, require

ATTRIBUTES, SPLITS, IDENTITIES = "list_attr_celeba", "list_eval_partition", "identity_CelebA"
_SEPARATORS = {".txt": None, ".csv": ","}  # None splits on runs of blanks


@dataclass(frozen=True, eq=False)
class Attributes:
    """The attribute list.

    Attributes:
        names: one for each attribute.
        files: the image's file name, a row each.
        announced: how many rows the list says that it has; the CSV form says nothing, and this is their number.
        labels: bool `[n, num_attributes]`.
    """

    names: tuple[str, ...]
    files: tuple[str, ...]
    announced: int
    labels: NDArray[np.bool_]


def has_table(folder: Path, stem: str) -> bool:
    """Whether the folder has the list of this name in one of its forms."""
    return any((folder / f"{stem}{suffix}").is_file() for suffix in _SEPARATORS)


def read_attributes(folder: Path) -> Attributes:
    """Reads `list_attr_celeba`.

    The text form has the number of rows in its first line and the names in its second (which may end in
    blanks); the CSV form has the names in its first. Then a row for each image: its file, and 1 or -1 an
    attribute. Copies that were cut to a part of the images often keep the old number: whether that will do
    is the caller's to say.

    Raises:
        InvalidValue: no number of rows, a row of another length, a value other than 1 and -1, a file listed twice.
    """
    path, rows = _read_rows(folder, ATTRIBUTES)
    if path.suffix == ".csv":
        names, rows = rows[0][1:], rows[1:]
        require(bool(names and rows), f"{path.name} line 1", ",".join(names), "names, and a row for each image")
        announced = len(rows)
    else:
        first = " ".join(rows[0])
        require(first.isdecimal(), f"{path.name} line 1", first, "the number of images")
        require(len(rows) > 2, f"{path.name} line 1", first, "names in line 2 and a row for each image")
        announced, names, rows = int(first), rows[1], rows[2:]
    for row in rows:
        rule = f"{len(names)} values, one for each attribute"
        require(len(row) == len(names) + 1, f"{path.name} row {row[0]}", f"{len(row) - 1} values", rule)
    if not {value for row in rows for value in row[1:]} <= {"1", "-1"}:
        file, value = next((row[0], value) for row in rows for value in row[1:] if value not in ("1", "-1"))
        require(False, f"{path.name} row {file}", value, "1 or -1")
    files = tuple(row[0] for row in rows)
    require(len(set(files)) == len(files), f"{path.name}", f"{len(files)} rows", "each image once")
    held = np.fromiter((value == "1" for row in rows for value in row[1:]), np.bool_, len(rows) * len(names))
    return Attributes(tuple(names), files, announced, held.reshape(len(rows), len(names)))


def read_numbers(folder: Path, stem: str) -> dict[str, int]:
    """Reads `list_eval_partition` or `identity_CelebA`: a whole number for each file; the CSV has a header.

    Raises:
        InvalidValue: a row that is not a file and a whole number.
    """
    path, rows = _read_rows(folder, stem)
    numbers: dict[str, int] = {}
    for row in rows[1:] if path.suffix == ".csv" else rows:
        if len(row) != 2 or not row[1].isdecimal():
            raise InvalidValue(f"{path.name} row={' '.join(row)}: expected a file name and a whole number")
        numbers[row[0]] = int(row[1])
    return numbers


def _read_rows(folder: Path, stem: str) -> tuple[Path, list[list[str]]]:
    for suffix, separator in _SEPARATORS.items():
        path = folder / f"{stem}{suffix}"
        if path.is_file():
            lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
            rows = [line.split(separator) for line in lines if line.strip()]
            if separator is not None:
                rows = [[field.strip() for field in row] for row in rows]
            if not rows:
                raise InvalidValue(f"{path}=empty: expected a list of images")
            return path, rows
    raise InvalidValue(f"data.root={folder}: expected {stem}.txt or {stem}.csv in it")
