"""Votes of other projects, in the layouts that `pate-audit` reads, as a source that can be released."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.files.arrays import UNREADABLE, check_members, is_array_file, read_array
from pate.files.disk import is_regular, one_line
from pate.validation import (
    InvalidValue,
    require,
    require_choice,
    require_count,
    require_entries,
    require_histogram,
)
from pate.votes.counts import Bits, histogram
from pate.votes.source import TeacherVotes
from pate.votes.vote_store import VoteStore
from pate.votes.weighted import Array

LAYOUTS = ("auto", "teacher_votes", "histogram", "classes", "pairs")
_NAMES = ("votes", "teacher_votes", "counts")
_SHOWN = 20
_LARGEST = 2**40
# what a vote file may expand to: an array is read whole, and so are packed votes
_MOST_BYTES = 2**32
_FORMS = {
    "teacher_votes": (3, "[num_teachers, num_queries, num_labels]"),
    "pairs": (3, "[num_queries, num_labels, 2]"),
    "classes": (2, "[num_queries, num_classes]"),
}


@dataclass(frozen=True, eq=False)
class ImportedVotes:
    """Counts of votes from a file, and what they say of the teachers."""

    # teacher_votes `[N, Q, L]` (bits, or confidences in [0, 1] of which a half is a vote), histogram `[Q, L]`, classes
    # `[Q, C]` (one vote per teacher, as pate_2018 keeps them) or pairs `[Q, L, 2]` (teachers against and for each
    # label, as private-multi-winner-voting keeps them).
    layout: str
    counts: NDArray[np.int64]  # int64 `[Q, L]`
    num_teachers: int  # N
    # the most labels that one teacher votes for in a query; None where counts do not say.
    max_votes: int | None

    @classmethod
    def read(
        cls, path: Path | str, *, layout: str = "auto", num_teachers: int | None = None
    ) -> ImportedVotes:
        """Reads an .npy or .npz file, counts in a .csv file, or a vote file of this package.

        Of an .npz with several arrays it takes the one named votes, teacher_votes or counts. A file that expands to
        more than 4 GiB is refused: counts [Q, L] of the same votes take less. `layout=auto` takes bits, confidences and
        0/1 integers `[N, Q, L]` as teacher_votes, and integers `[Q, L, 2]` whose pairs have one sum as pairs. Integers
        `[Q, C]` whose rows have one sum (num_teachers, if given) are classes. Others `[Q, L]` are a histogram, for
        which num_teachers is needed; elsewhere it is checked.
        """
        require_choice("layout", layout, LAYOUTS)
        if num_teachers is not None:
            require_count("num_teachers", num_teachers)
        array = _load(Path(path))
        votes = _votes_in(array, layout, num_teachers)
        if num_teachers is not None:
            require(
                votes.num_teachers == num_teachers,
                "num_teachers",
                num_teachers,
                f"{votes.num_teachers}, in votes",
            )
        return votes


def read_teacher_votes(path: Path | str) -> NDArray[Any]:
    """The votes of each teacher `[N, Q, L]` of a file whose layout is teacher_votes: bits, 0 and 1, or confidences."""
    array = _load(Path(path))
    _votes_in(array, "teacher_votes", None)
    return array


def read_sets(path: Path | str) -> NDArray[np.bool_]:
    """Sets of labels from an .npy or .npz file: bool `[Q, L]`, or whole numbers 0 and 1."""
    array = _load(Path(path), name="prior")
    require(array.ndim == 2, "prior.shape", array.shape, "[num_queries, num_labels]")
    require_entries("prior", (array == 0) | (array == 1), "bits")
    return array.astype(np.bool_)


def _load(path: Path, *, name: str = "votes") -> NDArray[Any]:
    """The one array that is meant, of finite numbers; nothing that a header promises takes memory unchecked."""
    require(is_regular(path), name, path, "an existing .npy, .npz or .csv file")
    try:
        array = _table(path, name) if path.suffix.lower() == ".csv" else _array_of(path, name)
    except (InvalidValue, PermissionError):
        raise
    except OSError as error:
        raise InvalidValue(
            name, path, rule=f"a file that can be read ({error.strerror})"
        ) from error
    except UNREADABLE as error:
        raise InvalidValue(
            name, path, rule=f"an .npy or .npz file of numbers ({one_line(error)})"
        ) from error
    if array.dtype.kind == "f":
        require_entries(name, np.isfinite(array), "finite numbers")
    return array


def _array_of(path: Path, name: str) -> NDArray[Any]:
    with path.open("rb") as file:
        if is_array_file(file.read(6)):
            file.seek(0)
            return read_array(file, path.stat().st_size)
    with zipfile.ZipFile(path) as archive:
        check_members(archive, _MOST_BYTES)
        found = [member.removesuffix(".npy") for member in archive.namelist()]
        if {"packed", "num_labels"} <= set(found):
            store = VoteStore.open(path)
            size = store.num_teachers * store.num_queries * store.num_labels
            require(
                size <= _MOST_BYTES,
                name,
                f"{size:,} votes",
                f"at most {_MOST_BYTES:,} votes in a file",
            )
            return store.teacher_votes()
        named = [known for known in (name, *_NAMES) if known in found]
        rule = f"a file with one array, or with one called {' or '.join(dict.fromkeys((name, *_NAMES)))}"
        shown = ", ".join(member[:_SHOWN] for member in found[:_SHOWN])
        require(bool(named) or len(found) == 1, name, f"{path} [{shown}]", rule)
        member = archive.getinfo(f"{(named or found)[0]}.npy")
        with archive.open(member) as content:
            return read_array(content, member.file_size)


def _table(path: Path, name: str) -> NDArray[Any]:
    """Numbers of a CSV file, a row for each query; a first line that holds words is its heading."""
    size = path.stat().st_size
    require(size <= _MOST_BYTES, name, f"{size:,} bytes", f"at most {_MOST_BYTES:,} in a file")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidValue(name, path, rule="votes in UTF-8, a row of numbers per query") from error
    lines = [line for line in lines if line.strip()]
    require(bool(lines), name, path, "rows of numbers")
    separator = max(",;\t", key=lines[0].count)
    try:
        np.loadtxt(lines[:1], delimiter=separator)
    except ValueError:
        lines = lines[1:]
    require(bool(lines), name, path, "rows of numbers below the heading")
    try:
        return np.loadtxt(lines, delimiter=separator, ndmin=2)
    except ValueError as error:
        row = re.search(r"at row (\d+)", str(error))
        where = f", row {int(row[1]) + 1} below the heading holds something else" if row else ""
        raise InvalidValue(
            name, path, rule=f"a number in each cell, as many in each row{where}"
        ) from None


def _votes_in(array: NDArray[Any], layout: str, num_teachers: int | None) -> ImportedVotes:
    """Votes of teachers; pairs and classes, whose sums are the number of teachers; or a histogram."""
    if layout == "auto":  # the one that an array can only have, or has most likely
        require(array.ndim in (2, 3), "votes.shape", array.shape, "[N, Q, L], [Q, L] or [Q, L, 2]")
        require(array.size > 0, "votes.shape", array.shape, "at least one teacher, query and label")
        layout = "teacher_votes"
        flat = array.ndim == 2
        if flat or not (array.dtype == np.bool_ or array.max() <= 1):
            sums = array.sum(axis=-1)
            one_sum = bool((sums == (sums.flat[0] if num_teachers is None else num_teachers)).all())
            if flat:
                layout = "classes" if array.shape[1] > 1 and one_sum else "histogram"
            elif array.shape[2] == 2 and one_sum:
                layout = "pairs"
    if layout in _FORMS:
        rank, shape = _FORMS[layout]
        good = array.ndim == rank and (layout != "pairs" or array.shape[2] == 2)
        require(good, "votes.shape", array.shape, shape)
    else:
        rule = "a number, counts of votes do not say how many teachers there were"
        require(num_teachers is not None, "num_teachers", None, rule)
    require(array.size > 0, "votes.shape", array.shape, "at least one teacher, query and label")
    if layout == "teacher_votes":
        if array.dtype != np.bool_:
            whole = np.issubdtype(array.dtype, np.integer)
            inside = (array == 0) | (array == 1) if whole else (array >= 0) & (array <= 1)
            require_entries("votes", inside, "votes 0 or 1" if whole else "confidences in [0, 1]")
            array = np.asarray(array >= 0.5)
        return ImportedVotes(layout, histogram(array), len(array), int(array.sum(axis=2).max()))
    require(array.dtype.kind in "iuf", "votes.dtype", array.dtype, "counts of votes")
    if array.dtype.kind == "f":
        require_entries("votes", array == np.floor(array), "whole numbers")
    require_entries("votes", (array >= 0) & (array < _LARGEST), f"counts in 0..{_LARGEST - 1}")
    counts = array.astype(np.int64)
    total = num_teachers or 0
    if layout in _FORMS:
        sums = np.unique(counts.sum(axis=-1))
        rule = f"{'rows' if layout == 'classes' else 'pairs of counts'} with one sum, the number of teachers"
        require(len(sums) == 1, "votes", f"{len(sums)} different sums", rule)
        total = require_count("num_teachers", int(sums[0]))
    counts = counts[:, :, 1] if layout == "pairs" else counts
    checked = require_histogram("votes", counts, num_teachers=total, rank=2)
    return ImportedVotes(
        layout, checked.astype(np.int64), total, 1 if layout == "classes" else None
    )


class ForeignVotes(TeacherVotes):
    """Counts of votes, and the votes of each teacher where files hold them; their teachers are all different.

    Queries and labels have numbers for names. Files that are the same byte by byte are refused: they are one file under
    two names. Nothing else says whose votes they are. `layout` and `num_teachers` are as in `ImportedVotes.read`.
    """

    def __init__(
        self, paths: Sequence[Path], *, layout: str = "auto", num_teachers: int | None = None
    ) -> None:
        require(bool(paths), "votes", [], "at least one vote file")
        self.paths = tuple(sorted(paths))
        seen = dict[bytes, Path]()
        for path in self.paths:
            require(path.is_file(), "votes", path, "an existing file")
            with path.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").digest()
            rule = f"each file once; {seen.get(digest)} is the same, and its teachers would count twice"
            require(digest not in seen, "votes", path, rule)
            seen[digest] = path
        self._digests = sorted(seen)
        self._files = [
            ImportedVotes.read(path, layout=layout, num_teachers=num_teachers)
            for path in self.paths
        ]
        shape = self._files[0].counts.shape
        for path, file in zip(self.paths, self._files, strict=True):
            rule = f"[{shape[0]}, {shape[1]}], queries and labels as in {self.paths[0]}"
            require(
                file.counts.shape == shape, f"votes={path}, shape", list(file.counts.shape), rule
            )
        self.num_queries, self.num_labels = shape
        self.num_teachers = sum(file.num_teachers for file in self._files)
        self.records_per_teacher = 1.0
        self.record_ids = np.arange(self.num_queries, dtype=np.int64)
        self.label_names = tuple(f"label_{number}" for number in range(self.num_labels))

    @property
    def digest(self) -> str:
        """SHA-256 of all files: what a release that was begun is continued with. Covered by no epsilon."""
        return hashlib.sha256(b"votes of others" + b"".join(self._digests)).hexdigest()

    def bits(self) -> Iterator[Bits]:
        """Raises where files hold counts alone."""
        self.require_teachers()
        return (np.asarray(read_teacher_votes(path) >= 0.5) for path in self.paths)

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Yields the confidences of the files' teachers, `[c, Q, L]` a block."""
        self.require_teachers()
        arrays = (read_teacher_votes(path) for path in self.paths)
        return (array.astype(np.bool_) if array.dtype.kind in "iu" else array for array in arrays)

    def label_shares(self) -> Array:
        """A teacher's votes stand for its records, as no more is known of them."""
        return np.concatenate([block.mean(axis=1) for block in self.bits()])

    def counts(self, max_votes: int | None = None) -> NDArray[np.int64]:
        """Returns the counts of the files, `[Q, L]`; raises where they were counted without the limit."""
        known = [file.max_votes for file in self._files]
        if max_votes is not None and not all(
            most is not None and most <= max_votes for most in known
        ):
            return super().counts(max_votes)  # which limits each teacher
        return np.asarray(np.sum([file.counts for file in self._files], axis=0, dtype=np.int64))

    def require_teachers(self) -> None:
        """Raises unless files say what each teacher votes for."""
        rule = "layout teacher_votes [N, Q, L] for this aggregator; counts do not say what one teacher votes for"
        require(
            all(file.layout == "teacher_votes" for file in self._files),
            "votes",
            self.paths[0],
            rule,
        )
