"""CelebA's lists: attributes, official splits and identities, in the original text form or as CSV."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue, require

ATTRIBUTES, SPLITS, IDENTITIES = "list_attr_celeba", "list_eval_partition", "identity_CelebA"
_SUFFIXES = (".txt", ".csv")
_PLACES = ("", "Anno", "Eval")  # the authors' own folders
_DIGITS = 18  # of a number that fits in 64 bits whatever they are
_SHOWN = 40  # characters of a value that is wrong


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
    return _find(folder, stem) is not None


def read_attributes(folder: Path) -> Attributes:
    """Reads `list_attr_celeba`.

    The text form has the number of rows in its first line and the names in its second (which may end in
    blanks); the CSV form has the names in its first. Then a row for each image: its file, and 1 or -1 an
    attribute (1 or 0 in some CSV copies). Copies that were cut to a part of the images often keep the old number:
    whether that will do is the caller's to say.

    Raises:
        InvalidValue: no number of rows, a row of another length, a value other than 1 and -1 (or 1 and 0), a file
            listed twice.
    """
    path, rows = _read_rows(folder, ATTRIBUTES)
    if path.suffix == ".csv":
        names, rows = rows[0][1:], rows[1:]
        header = ",".join(names)[:_SHOWN]
        require(bool(names and rows), f"{path.name} line 1", header, "names, and a row for each image")
        announced = len(rows)
    else:
        first = " ".join(rows[0])[:_SHOWN]
        require(first.isdecimal(), f"{path.name} line 1", first, "the number of images")
        require(len(rows) > 2, f"{path.name} line 1", first, "names in line 2 and a row for each image")
        announced, names, rows = int(first), rows[1], rows[2:]
    for row in rows:
        rule = f"{len(names)} values, one for each attribute"
        require(len(row) == len(names) + 1, f"{path.name} row {row[0]}", f"{len(row) - 1} values", rule)
    _require_bits(path, names, rows)
    files = tuple(row[0] for row in rows)
    require(len(set(files)) == len(files), f"{path.name}", f"{len(files)} rows", "each image once")
    held = np.fromiter((value == "1" for row in rows for value in row[1:]), np.bool_, len(rows) * len(names))
    return Attributes(tuple(names), files, announced, held.reshape(len(rows), len(names)))


def _require_bits(path: Path, names: list[str], rows: list[list[str]]) -> None:
    """Each value 1 or -1, or each 1 or 0: what is neither, or a copy that mixes them, says nothing for certain."""
    found = {value for row in rows for value in row[1:]}
    if not (found <= {"1", "-1"} or found <= {"1", "0"}):
        good = ("1", "-1") if "-1" in found else ("1", "0")
        pairs = ((row[0], pair) for row in rows for pair in zip(names, row[1:], strict=True))
        file, (name, value) = next((file, pair) for file, pair in pairs if pair[1] not in good)
        rule = "1 or -1, or in all rows 1 or 0"
        require(False, f"{path.name} row {file}, {name[:_SHOWN]}", value[:_SHOWN], rule)


def read_numbers(folder: Path, stem: str) -> dict[str, int]:
    """Reads `list_eval_partition` or `identity_CelebA`: a whole number for each file; the CSV has a header.

    Raises:
        InvalidValue: a row that is not a file and a whole number of at most 18 digits, a file listed twice.
    """
    path, rows = _read_rows(folder, stem)
    numbers: dict[str, int] = {}
    for row in rows[1:] if path.suffix == ".csv" else rows:
        if len(row) != 2 or not row[1].isdecimal() or len(row[1]) > _DIGITS:
            shown = " ".join(row)[:_SHOWN]
            raise InvalidValue(f"{path.name} row={shown}: expected a file name and a whole number, and nothing else")
        if row[0] in numbers:
            raise InvalidValue(f"{path.name} row={row[0][:_SHOWN]}: expected each image once, found it twice")
        numbers[row[0]] = int(row[1])
    return numbers


def _find(folder: Path, stem: str) -> Path | None:
    """The list of this name, the text form first."""
    paths = (folder / place / f"{stem}{suffix}" for suffix in _SUFFIXES for place in _PLACES)
    return next((path for path in paths if path.is_file()), None)


def _read_rows(folder: Path, stem: str) -> tuple[Path, list[list[str]]]:
    path = _find(folder, stem)
    if path is None:
        rule = f"{stem}.txt or {stem}.csv in it, from where the photographs came from"
        raise InvalidValue(f"data.root={folder}: expected {rule}")
    lines = [line for line in path.read_text(encoding="utf-8-sig", errors="replace").splitlines() if line.strip()]
    if not lines:
        raise InvalidValue(f"{path}=empty: expected a list of images")
    if path.suffix == ".txt":
        return path, [line.split() for line in lines]
    separator = ";" if lines[0].count(";") > lines[0].count(",") else ","
    try:
        rows = list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
    except csv.Error as error:
        raise InvalidValue(f"{path}={error}: expected a list of images, separated by commas") from error
    rows = [[field.strip() for field in row] for row in rows]
    numbered = (
        not rows[0][0] and min(map(len, rows)) > 1
    )  # in front, without a name: as pandas writes its rows' numbers
    return path, [row[1:] for row in rows] if numbered else rows
