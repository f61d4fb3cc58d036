"""Files of votes from other projects, in the layouts that papers and their code use.

A file holds one array of numbers. Its layout gives the meaning of the array, for N teachers, Q queries and L labels:

- `teacher_votes` `[N, Q, L]`: bits, 0 and 1, or confidences in [0, 1]. A confidence of at least 1/2 is a vote;
- `histogram` `[Q, L]`: the number of teachers that vote for each label;
- `classes` `[Q, C]`: the number of teachers that vote for each of C classes, if each teacher votes for one class. The
  code of pate_2018 uses this layout;
- `pairs` `[Q, L, 2]`: the numbers of teachers against and for each label. The code of private-multi-winner-voting uses
  this layout.

The size that a file claims in its header is checked before memory is taken for it.
"""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, IntArray
from pate.files.arrays import UNREADABLE, check_members, is_array_file, read_array
from pate.files.paths import is_regular
from pate.files.reading import one_line
from pate.validation import (
    InvalidValue,
    require,
    require_choice,
    require_count,
    require_entries,
    require_histogram,
)
from pate.votes.counts import histogram
from pate.votes.vote_store import VoteStore

LAYOUTS = ("auto", "teacher_votes", "histogram", "classes", "pairs")
"""The layouts of a file; `auto` recognizes them."""

# The names of the array of votes in an .npz file with several arrays.
_ARRAY_NAMES = ("votes", "teacher_votes", "counts")
_MAX_SHOWN = 20  # the most names of arrays in a message, and the most letters of each
_LARGEST_COUNT = 2**40  # far above any number of teachers; sums of such counts fit into int64
# The most bytes to which a file may expand: an array is read whole, and so are packed votes.
_MAX_BYTES = 2**32


@dataclass(frozen=True)
class _Form:
    """The shape that an array of votes must have in one layout of a file, such as "classes" or "pairs".

    Attributes:
        num_axes: the number of axes.
        shape_text: the shape in words, for the message of an error.
    """

    num_axes: int
    shape_text: str


_FORMS = {
    "teacher_votes": _Form(num_axes=3, shape_text="[num_teachers, num_queries, num_labels]"),
    "pairs": _Form(num_axes=3, shape_text="[num_queries, num_labels, 2]"),
    "classes": _Form(num_axes=2, shape_text="[num_queries, num_classes]"),
}


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class ImportedVotes:
    """Counts of votes that were read from a file.

    Attributes:
        layout: the layout of the file, never `auto`.
        counts: int64 `[num_queries, num_labels]`.
        num_teachers: the number of teachers.
        max_votes: the largest number of labels of a query that a teacher votes for; None if the file does not show it.
    """

    layout: str
    counts: IntArray
    num_teachers: int
    max_votes: int | None

    def has_at_most(self, max_votes: int) -> bool:
        """Returns True if no teacher votes for more than `max_votes` labels of a query; False if that is not known."""
        return self.max_votes is not None and self.max_votes <= max_votes

    @classmethod
    def read(
        cls, path: Path | str, *, layout: str = "auto", num_teachers: int | None = None
    ) -> ImportedVotes:
        """Reads counts of votes from an .npy or .npz file, a .csv file of counts, or a vote file of this package.

        In an .npz with several arrays, the votes are the array named votes, teacher_votes or counts. An .npz or .csv
        file of more than 4 GiB, when unpacked, is refused. If a file has the votes of every teacher and is too large,
        write their counts (a histogram) to a file instead, which is smaller.

        With `layout="auto"` the layout is recognized from the array. Bits, confidences, and 0/1 integers with axes
        `[N, Q, L]` are teacher_votes. Other numbers `[Q, L, 2]` are pairs if all pairs have the same sum. Numbers
        `[Q, C]` with C > 1 are classes if all rows have the same sum. If `num_teachers` is given, these sums must equal
        it. Any other array `[Q, L]` is a histogram.

        Args:
            path: the file.
            layout: one of `LAYOUTS`.
            num_teachers: the number of teachers; required for a histogram, and checked for the other layouts.

        Raises:
            InvalidValue: there is no such file, or it holds no votes.
        """
        require_choice("layout", layout, LAYOUTS)
        if num_teachers is not None:
            require_count("num_teachers", num_teachers)
        file_array = _load(Path(path))
        imported_votes = _votes_in(file_array, layout=layout, num_teachers=num_teachers)
        if num_teachers is not None and imported_votes.num_teachers != num_teachers:
            rule = f"{imported_votes.num_teachers}, in votes"
            raise InvalidValue("num_teachers", num_teachers, rule=rule)
        return imported_votes


def read_votes_of_teachers(path: Path | str) -> NDArray[Any]:
    """Returns the votes in a file of layout teacher_votes, `[num_teachers, num_queries, num_labels]`.

    The votes are bits, numbers 0 and 1, or confidences.
    """
    file_array = _load(Path(path))
    # Only for its checks: the votes themselves are returned, and not their counts.
    _votes_in(file_array, layout="teacher_votes", num_teachers=None)
    return file_array


def read_sets(path: Path | str) -> BoolArray:
    """Returns the label sets in the file of the setting `prior`, one for each query, bool `[num_queries, num_labels]`.

    `NotPriorTopK` compares votes with these sets. The file is an .npy, .npz or .csv file of bits, or of the
    numbers 0 and 1.
    """
    file_array = _load(Path(path), setting_name="prior")
    require(file_array.ndim == 2, "prior.shape", file_array.shape, "[num_queries, num_labels]")
    require_entries("prior", (file_array == 0) | (file_array == 1), rule="bits")
    return file_array.astype(np.bool_)


def _load(array_path: Path, *, setting_name: str = "votes") -> NDArray[Any]:
    """Returns the array of numbers in an .npy, .npz or .csv file, of votes or of sets of labels.

    Raises `PermissionError` if this user may not read the file. Raises `InvalidValue` if the file cannot be read for
    another reason, or has numbers that are not finite. The shape is not checked.

    Args:
        array_path: the file.
        setting_name: the name of the argument in the message of an error.
    """
    require(is_regular(array_path), setting_name, array_path, "an existing .npy, .npz or .csv file")
    is_table = array_path.suffix.lower() == ".csv"
    try:
        file_array = (
            _read_table(array_path, setting_name=setting_name)
            if is_table
            else _read_arrays(array_path, setting_name=setting_name)
        )
    except (InvalidValue, PermissionError):
        raise
    except OSError as error:
        rule = f"a file that can be read ({error.strerror})"
        raise InvalidValue(setting_name, array_path, rule=rule) from error
    except UNREADABLE as error:
        rule = f"an .npy or .npz file of numbers ({one_line(error)})"
        raise InvalidValue(setting_name, array_path, rule=rule) from error
    if file_array.dtype.kind == "f":
        require_entries(setting_name, np.isfinite(file_array), rule="finite numbers")
    return file_array


def _read_arrays(array_path: Path, *, setting_name: str) -> NDArray[Any]:
    """Returns the array of numbers in an .npy or .npz file; shape and numbers are not checked.

    In an .npz file it is the array called `setting_name`, votes, teacher_votes or counts, or the only array. A vote
    file of this package is unpacked. Raises `InvalidValue` if no array fits, or the file is too large.

    Args:
        array_path: the file.
        setting_name: the name of the argument in the message of an error.
    """
    with array_path.open("rb") as array_file:
        first_bytes = array_file.read(6)
        if is_array_file(first_bytes):
            array_file.seek(0)
            file_size = array_path.stat().st_size
            return read_array(array_file, num_bytes=file_size)
    with zipfile.ZipFile(array_path) as archive:
        check_members(archive, max_unpacked_bytes=_MAX_BYTES)
        names_in_archive = [member.removesuffix(".npy") for member in archive.namelist()]
        if {"packed", "num_labels"} <= set(names_in_archive):
            return _unpack(VoteStore.open(array_path), setting_name=setting_name)
        array_names = tuple(dict.fromkeys((setting_name, *_ARRAY_NAMES)))
        candidates = [array_name for array_name in array_names if array_name in names_in_archive]
        if not candidates and len(names_in_archive) == 1:
            candidates = names_in_archive
        if not candidates:
            shown_names = ", ".join(name[:_MAX_SHOWN] for name in names_in_archive[:_MAX_SHOWN])
            rule = f"a file with one array, or with one called {' or '.join(array_names)}"
            raise InvalidValue(setting_name, f"{array_path} [{shown_names}]", rule=rule)
        member_info = archive.getinfo(f"{candidates[0]}.npy")
        with archive.open(member_info) as member_file:
            return read_array(member_file, num_bytes=member_info.file_size)


def _unpack(vote_store: VoteStore, *, setting_name: str) -> BoolArray:
    """Returns the votes in a vote file of this package, `[num_teachers, num_queries, num_labels]`.

    Raises `InvalidValue` if they would take too much memory.
    """
    num_votes = vote_store.num_teachers * vote_store.num_queries * vote_store.num_labels
    if num_votes > _MAX_BYTES:
        rule = f"at most {_MAX_BYTES:,} votes in a file"
        raise InvalidValue(setting_name, f"{num_votes:,} votes", rule=rule)
    return vote_store.teacher_votes()


def _read_table(array_path: Path, *, setting_name: str) -> NDArray[Any]:
    """Returns the numbers in a CSV file, `[num_rows, num_columns]`; a first line that is no row of numbers is skipped.

    Raises `InvalidValue` for a file that is too large, or has anything but numbers, as many in each row.

    Args:
        array_path: the file.
        setting_name: the name of the argument in the message of an error.
    """
    num_bytes = array_path.stat().st_size
    if num_bytes > _MAX_BYTES:
        rule = f"at most {_MAX_BYTES:,} in a file"
        raise InvalidValue(setting_name, f"{num_bytes:,} bytes", rule=rule)
    try:
        csv_text = array_path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidValue(
            setting_name, array_path, rule="votes in UTF-8, a row of numbers per query"
        ) from error
    csv_lines = [line for line in csv_text.splitlines() if line.strip()]
    require(bool(csv_lines), setting_name, array_path, "rows of numbers")
    separator = max(",;\t", key=csv_lines[0].count)
    # A first line that is no row of numbers is a heading.
    try:
        np.loadtxt(csv_lines[:1], delimiter=separator)
    except ValueError:
        csv_lines = csv_lines[1:]
    require(bool(csv_lines), setting_name, array_path, "rows of numbers below the heading")
    try:
        return np.loadtxt(csv_lines, delimiter=separator, ndmin=2)
    except ValueError as numpy_error:
        row_in_numpy_error = re.search(r"at row (\d+)", str(numpy_error))
        wrong_row = (
            f", row {int(row_in_numpy_error[1]) + 1} below the heading holds something else"
            if row_in_numpy_error
            else ""
        )
        rule = f"a number in each cell, as many in each row{wrong_row}"
        raise InvalidValue(setting_name, array_path, rule=rule) from None


def _votes_in(file_array: NDArray[Any], *, layout: str, num_teachers: int | None) -> ImportedVotes:
    """Returns the counts of the votes in an array; raises `InvalidValue` if the array does not fit the layout.

    Args:
        file_array: the array of a file.
        layout: one of `LAYOUTS`; "auto" recognizes the layout from the array.
        num_teachers: the number of teachers; None if the caller did not give it. A histogram without it is refused.
    """
    if layout == "auto":
        layout = _recognize_layout(file_array, num_teachers=num_teachers)
    if layout in _FORMS:
        layout_form = _FORMS[layout]
        shape_fits = file_array.ndim == layout_form.num_axes and (
            layout != "pairs" or file_array.shape[2] == 2
        )
        require(shape_fits, "votes.shape", file_array.shape, layout_form.shape_text)
    elif num_teachers is None:
        rule = "a number; a histogram does not show the number of teachers"
        raise InvalidValue("num_teachers", None, rule=rule)
    require(
        file_array.size > 0,
        "votes.shape",
        file_array.shape,
        "at least one teacher, query and label",
    )
    if layout == "teacher_votes":
        return _count_votes(file_array)
    return _read_counts(file_array, layout=layout, num_teachers=num_teachers)


def _recognize_layout(file_array: NDArray[Any], *, num_teachers: int | None) -> str:
    """Returns the only possible layout of an array of votes, or the most likely; `ImportedVotes.read` has the rules.

    Raises `InvalidValue` for an array that is empty, or has neither 2 nor 3 axes.

    Args:
        file_array: the array of a file.
        num_teachers: the number of teachers; None if the caller did not give it.
    """
    require(
        file_array.ndim in (2, 3), "votes.shape", file_array.shape, "[N, Q, L], [Q, L] or [Q, L, 2]"
    )
    require(
        file_array.size > 0,
        "votes.shape",
        file_array.shape,
        "at least one teacher, query and label",
    )
    is_table = file_array.ndim == 2
    if not is_table and (file_array.dtype == np.bool_ or file_array.max() <= 1):
        return "teacher_votes"
    sums_over_last_axis = file_array.sum(axis=-1)
    expected_sum = sums_over_last_axis.flat[0] if num_teachers is None else num_teachers
    has_one_sum = bool((sums_over_last_axis == expected_sum).all())
    if is_table:
        return "classes" if file_array.shape[1] > 1 and has_one_sum else "histogram"
    return "pairs" if file_array.shape[2] == 2 and has_one_sum else "teacher_votes"


def _count_votes(file_array: NDArray[Any]) -> ImportedVotes:
    """Returns the counts of an array of votes `[num_teachers, num_queries, num_labels]`: bits or confidences.

    A confidence of at least 1/2 is a vote. Raises `InvalidValue` for numbers outside of [0, 1].
    """
    bits = file_array
    if file_array.dtype != np.bool_:
        if np.issubdtype(file_array.dtype, np.integer):
            require_entries("votes", (file_array == 0) | (file_array == 1), rule="votes 0 or 1")
        else:
            require_entries(
                "votes", (file_array >= 0) & (file_array <= 1), rule="confidences in [0, 1]"
            )
        bits = np.asarray(file_array >= 0.5)
    return ImportedVotes(
        layout="teacher_votes",
        counts=histogram(bits),
        num_teachers=len(bits),
        max_votes=int(bits.sum(axis=2).max()),
    )


def _read_counts(
    file_array: NDArray[Any], *, layout: str, num_teachers: int | None
) -> ImportedVotes:
    """Returns the counts in an array of layout histogram, classes or pairs.

    For classes and pairs, the number of teachers is the sum of a row or pair. Raises `InvalidValue` if these sums
    differ, or if the numbers are no counts.

    Args:
        file_array: the array of a file.
        layout: "histogram", "classes" or "pairs".
        num_teachers: the number of teachers; read for a histogram only, where it is not None.
    """
    require(file_array.dtype.kind in "iuf", "votes.dtype", file_array.dtype, "counts of votes")
    if file_array.dtype.kind == "f":
        require_entries("votes", file_array == np.floor(file_array), rule="whole numbers")
    is_count = (file_array >= 0) & (file_array < _LARGEST_COUNT)
    require_entries("votes", is_count, rule=f"counts in 0..{_LARGEST_COUNT - 1}")
    counts = file_array.astype(np.int64)
    num_teachers_of_sums = num_teachers or 0
    if layout in _FORMS:
        distinct_vote_sums = np.unique(counts.sum(axis=-1))
        if len(distinct_vote_sums) != 1:
            unit = "rows" if layout == "classes" else "pairs of counts"
            rule = f"{unit} with one sum, the number of teachers"
            raise InvalidValue("votes", f"{len(distinct_vote_sums)} different sums", rule=rule)
        num_teachers_of_sums = require_count("num_teachers", int(distinct_vote_sums[0]))
    if layout == "pairs":
        counts = counts[:, :, 1]
    checked_counts = require_histogram(
        "votes", counts, largest_count=num_teachers_of_sums, num_axes=2
    )
    return ImportedVotes(
        layout=layout,
        counts=checked_counts.astype(np.int64),
        num_teachers=num_teachers_of_sums,
        max_votes=1 if layout == "classes" else None,
    )
