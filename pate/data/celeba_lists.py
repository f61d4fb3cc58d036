"""The lists of CelebA: the attributes, the split and the person of each photograph.

The authors distribute lists as text; others pass them on as CSV. This module reads lists of either form.
"""

import csv
from collections.abc import Sequence, Set
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pate.array_types import BoolArray, IntArray
from pate.validation import InvalidValue

ATTRIBUTE_LIST = "list_attr_celeba"
SPLIT_LIST = "list_eval_partition"
IDENTITY_LIST = "identity_CelebA"

# The folders, within that of the copy, in which the authors put lists.
_SUBFOLDERS = ("", "Anno", "Eval")
# The largest number of digits of a number in a list, so that it fits into 64 bits.
_MAX_DIGITS = 18
# The largest number of characters of a wrong value that a message shows.
_MAX_SHOWN = 40


class Attributes(NamedTuple):
    """The content of `list_attr_celeba`: n photographs, the names of the attributes, and the attributes of each.

    Attributes:
        label_names: the names of the attributes.
        file_names: the file name of each photograph.
        num_announced_photographs: the number of photographs that line 1 announces. In a CSV list, which announces none,
            it is n.
        labels: whether each photograph has each attribute, bool `[n, num_attributes]`.
    """

    label_names: tuple[str, ...]
    file_names: tuple[str, ...]
    num_announced_photographs: int
    labels: BoolArray


def read_attributes(celeba_folder: Path) -> Attributes:
    """Reads `list_attr_celeba` from the folder of a copy.

    A text list has the number of rows in line 1, and the names of the attributes in line 2. A CSV list has the names in
    line 1. A row for each photograph follows: its file name, and 1 or -1 for each attribute. Some CSV lists have 1 or 0
    instead.

    The number in line 1 is returned, but not compared with the number of rows: copies that were cut often keep the old
    number.

    Raises:
        InvalidValue: the list is missing, a row has other cells than expected, or a photograph occurs twice.
    """
    path, lines = _read_lines(celeba_folder, list_name=ATTRIBUTE_LIST)
    first_line = " ".join(lines[0])[:_MAX_SHOWN]
    if path.suffix == ".csv":
        attribute_names = lines[0][1:]
        rows = lines[1:]
        num_announced_photographs = str(len(rows))
    else:
        attribute_names = lines[1] if len(lines) > 1 else []
        rows = lines[2:]
        num_announced_photographs = first_line
    if not num_announced_photographs.isdecimal() or not attribute_names or not rows:
        rule = "the number of images, names in line 2 and a row for each image; of a .csv names and rows"
        raise InvalidValue(f"{path.name} line 1", first_line, rule=rule)
    # A list that has both 0 and -1 is ambiguous.
    has_minus_one = any("-1" in row[1:] for row in rows)
    allowed_values = {"1", "-1"} if has_minus_one else {"1", "0"}
    for row in rows:
        attribute_values = row[1:]
        is_complete = len(row) == len(attribute_names) + 1
        if not is_complete or not allowed_values.issuperset(attribute_values):
            raise _wrong_row(
                row,
                attribute_names=attribute_names,
                allowed_values=allowed_values,
                list_file_name=path.name,
            )
    file_names = tuple(row[0] for row in rows)
    if len(set(file_names)) < len(file_names):
        raise InvalidValue(path.name, f"{len(file_names)} rows", rule="each image once")
    bits = (value == "1" for row in rows for value in row[1:])
    shape = (len(rows), len(attribute_names))
    labels = np.fromiter(bits, np.bool_, count=len(rows) * len(attribute_names)).reshape(shape)
    return Attributes(
        label_names=tuple(attribute_names),
        file_names=file_names,
        num_announced_photographs=int(num_announced_photographs),
        labels=labels,
    )


def _wrong_row(
    row: Sequence[str],
    *,
    attribute_names: Sequence[str],
    allowed_values: Set[str],
    list_file_name: str,
) -> InvalidValue:
    """Returns the error for a row of the attribute list that lacks an allowed value for each attribute.

    The error names the first attribute whose value is not allowed. If all values are allowed, their number is wrong,
    and the error has that number.

    Args:
        row: the cells of the row: a file name, then the values.
        attribute_names: the names of the attributes.
        allowed_values: the values that an attribute may have.
        list_file_name: the name of the list's file.
    """
    rule = f"1 or -1, or in all rows 1 or 0, for each of {len(attribute_names)} attributes"
    values = row[1:]
    # A wrong row may be shorter or longer.
    for name, value in zip(attribute_names, values, strict=False):
        if value not in allowed_values:
            name_of_cell = f"{list_file_name} row {row[0]}, {name[:_MAX_SHOWN]}"
            return InvalidValue(name_of_cell, value[:_MAX_SHOWN], rule=rule)
    return InvalidValue(f"{list_file_name} row {row[0]}, values", str(len(values)), rule=rule)


class ListedNumbers(NamedTuple):
    """The content of a list that has a whole number for each photograph.

    Attributes:
        numbers: the number that the list has for each photograph, int64 `[num_photographs]`, in the order of the
            attribute list.
        num_others: the number of rows for photographs that are not in the attribute list.
    """

    numbers: IntArray
    num_others: int


def read_numbers(celeba_folder: Path, list_name: str, file_names: Sequence[str]) -> ListedNumbers:
    """Reads a list that has a whole number for each photograph, such as `list_eval_partition`.

    Args:
        celeba_folder: the folder of the copy.
        list_name: the name of the list, without its ending.
        file_names: the names of the photographs in the attribute list.

    Raises:
        InvalidValue: the list is missing, a row has other cells, a photograph occurs twice or not at all, or a number
            has more than 18 digits.
    """
    path, lines = _read_lines(celeba_folder, list_name=list_name)
    rows = lines[1:] if path.suffix == ".csv" else lines
    number_of_photograph: dict[str, int] = {}
    for row in rows:
        is_number = len(row) == 2 and row[1].isdecimal() and len(row[1]) <= _MAX_DIGITS
        if not is_number or row[0] in number_of_photograph:
            rule = "a file name, once, and a whole number, and nothing else"
            raise InvalidValue(f"{path.name} row", " ".join(row)[:_MAX_SHOWN], rule=rule)
        file_name, listed_number = row
        number_of_photograph[file_name] = int(listed_number)
    missing_file_name = next(
        (file for file in file_names if file not in number_of_photograph), None
    )
    if missing_file_name is not None:
        rule = f"a row for each image of {ATTRIBUTE_LIST}, found none"
        raise InvalidValue(list_name, missing_file_name, rule=rule)
    return ListedNumbers(
        numbers=np.array([number_of_photograph[file] for file in file_names], dtype=np.int64),
        num_others=len(number_of_photograph) - len(file_names),
    )


def find_list(celeba_folder: Path, list_name: str) -> Path | None:
    """Returns the path of a list, preferring `.txt` over `.csv`; None if the copy has no such list.

    Args:
        celeba_folder: the folder of the copy.
        list_name: the name of the list, without its ending.
    """
    paths = (
        celeba_folder / subfolder / f"{list_name}{suffix}"
        for suffix in (".txt", ".csv")
        for subfolder in _SUBFOLDERS
    )
    return next((path for path in paths if path.is_file()), None)


def _read_lines(celeba_folder: Path, list_name: str) -> tuple[Path, list[list[str]]]:
    """Returns the path of a list, and the cells of each line that is not empty; at least one line.

    Args:
        celeba_folder: the folder of the copy.
        list_name: the name of the list, without its ending.

    Raises:
        InvalidValue: there is no such list, or it is a damaged CSV file.
    """
    path = find_list(celeba_folder, list_name)
    if path is None:
        rule = f"{list_name}.txt or {list_name}.csv in it, from where the photographs came from"
        raise InvalidValue("data.root", celeba_folder, rule=rule)
    lines = [
        line
        for line in path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
        if line.strip()
    ]
    if path.suffix == ".txt":
        return path, [line.split() for line in lines] or [[]]  # callers read the first line
    first_line = lines[0] if lines else ""
    separator = ";" if first_line.count(";") > first_line.count(",") else ","
    try:
        rows = list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
    except csv.Error as error:
        raise InvalidValue(
            str(path), error, rule="a list of images, separated by commas"
        ) from error
    # An empty list has one line with one empty cell, because the code below and the callers read the first line.
    rows = [[cell.strip() for cell in row] for row in rows] or [[""]]
    # pandas writes the numbers of rows into a first column without a name. Each row then has a further column.
    first_cell = rows[0][0]
    has_row_numbers = first_cell == "" and all(len(row) > 1 for row in rows)
    return path, [row[1:] for row in rows] if has_row_numbers else rows
