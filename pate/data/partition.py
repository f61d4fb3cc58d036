"""The disjoint partition of the private pool into shards of teachers, and its manifest.

All prices rest on the partition: one record may change the vote of only one teacher. The manifest lists the teacher of
each record, so that a continued run or an auditor can check the partition.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pate.array_types import IntArray
from pate.data.split import Split
from pate.validation import (
    InvalidValue,
    require,
    require_array,
    require_count,
    require_each,
    require_generator,
)

# The keys of the manifest's columns, each with one number for each record.
_COLUMNS = ("record_ids", "group_ids", "teachers")
# The largest number of records that are written at once, because each number is a Python object meanwhile.
_WRITTEN_ROWS = 2**14


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Partition:
    """A partition of the private records into one shard for each teacher.

    A record in the shards of two teachers would change two votes, and every epsilon would be too small. The method
    `verify` refuses a partition in which two rows of one record id, or of one group, have different teachers.

    Formal guarantees of a partition that `draw` returns:
        * Whole groups: all records of a group have the same teacher.
        * Exchangeable: groups are assigned in a uniformly random order that does not depend on inputs, labels or group
          sizes. So if one group is replaced by another group of any size, the two random partitions can be coupled such
          that they differ in one teacher only. Balancing shards by group size would break this: a change of one record
          could move any number of other groups.
        * No teacher is empty. The numbers of groups of any two teachers differ by at most one.

    Attributes:
        teacher_of: the teacher of each row of the private split, int64 `[num_private]`.
        num_teachers: the number of teachers, T. Teachers are numbered 0..T-1.
    """

    teacher_of: IntArray
    num_teachers: int

    def __post_init__(self) -> None:
        require_count("num_teachers", self.num_teachers)
        array = self.teacher_of
        require(type(array) is np.ndarray, "teacher_of", type(array).__name__, "a numpy array")
        has_rows = array.ndim == 1 and array.size > 0
        require(has_rows, "teacher_of.shape", array.shape, "[num_private]")
        require(array.dtype == np.int64, "teacher_of.dtype", array.dtype, "int64")
        is_teacher = (array >= 0) & (array < self.num_teachers)
        rule = f"teachers in 0..{self.num_teachers - 1}"
        require_each("teacher_of", values=array, holds=is_teacher, rule=rule)

    @classmethod
    def draw(cls, group_ids: IntArray, num_teachers: int, rng: np.random.Generator) -> Partition:
        """Assigns whole groups to teachers in a random order, and returns the partition.

        Args:
            group_ids: the group of each private record, int64 `[num_private]`.
            num_teachers: the number of teachers, T.
            rng: the generator that draws the order.

        Raises:
            InvalidValue: there are fewer groups than teachers.
        """
        require_count("num_teachers", num_teachers)
        require_generator(rng)
        ids = require_array("group_ids", group_ids, dtype_kinds="iu")
        groups, group_of = np.unique(ids, return_inverse=True)  # [G], [num_private]
        if num_teachers > len(groups):
            rule = f"at most {len(groups)}, the number of private groups"
            raise InvalidValue("num_teachers", num_teachers, rule=rule)
        teacher_of_group = rng.permutation(np.arange(len(groups), dtype=np.int64) % num_teachers)
        return cls(teacher_of=teacher_of_group[group_of], num_teachers=num_teachers)

    def indices(self, teacher: int) -> IntArray:
        """Returns the row numbers, ascending, of the private records in a teacher's shard."""
        require_count("teacher", teacher, minimum=0)
        require(teacher < self.num_teachers, "teacher", teacher, f"at most {self.num_teachers - 1}")
        return self._rows_by_teacher[self._ends[teacher] : self._ends[teacher + 1]]

    def sizes(self) -> IntArray:
        """Returns the number of records of each teacher, int64 `[num_teachers]`."""
        return np.bincount(self.teacher_of, minlength=self.num_teachers)

    def verify(self, split: Split) -> None:
        """Checks that the partition is a valid partition of a private split.

        Raises:
            InvalidValue: a record or a group has two teachers, a teacher has no record, or the split has another number
                of records than the partition.
        """
        num_records = len(self.teacher_of)
        if num_records != len(split):
            rule = f"{len(split)}, one teacher a record"
            raise InvalidValue("len(teacher_of)", num_records, rule=rule)
        self._require_one_teacher(id_kind="record", ids_of_rows=split.record_ids)
        self._require_one_teacher(id_kind="group", ids_of_rows=split.group_ids)
        sizes = self.sizes()
        if not sizes.all():
            empty_teacher = int(sizes.argmin())
            raise InvalidValue("teacher", empty_teacher, rule="at least one record, found none")

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the number of teachers and the teacher of each record, in hexadecimal."""
        return _digest(self.num_teachers, integer_columns=[self.teacher_of])

    def to_json(self, split: Split) -> str:
        """Returns the partition as JSON text: id, group and teacher of each private record, and the number of teachers.

        A digest of all these numbers is part of the text.

        The text is private and stays with the owner of the records.

        Raises:
            InvalidValue: `verify` refuses the partition.
        """
        return "".join(self.json_parts(split=split))

    def json_parts(self, split: Split) -> Iterator[str]:
        """Yields the text of `to_json` in parts, each with at most 16,384 numbers of one column.

        Raises:
            InvalidValue: `verify`, which is called before the first part is yielded, refuses the partition.
        """
        self.verify(split)
        columns = [split.record_ids, split.group_ids, self.teacher_of]
        digest = _digest(self.num_teachers, integer_columns=columns)
        head = {"num_teachers": self.num_teachers, "sha256": digest}
        yield json.dumps(head).removesuffix("}")
        for name, column in zip(_COLUMNS, columns, strict=True):
            yield f', "{name}": ['
            for first in range(0, len(column), _WRITTEN_ROWS):
                numbers = ", ".join(map(str, column[first : first + _WRITTEN_ROWS].tolist()))
                yield f", {numbers}" if first > 0 else numbers
            yield "]"
        yield "}"

    @classmethod
    def from_json(cls, text: str, split: Split) -> Partition:
        """Reads the JSON text that `to_json` returned.

        Raises:
            InvalidValue: the text was edited or belongs to other records, or `verify` refuses the partition.
        """
        try:
            content = json.loads(text)
            if not all(type(value) is int for name in _COLUMNS for value in content[name]):
                raise TypeError("not whole numbers")
            manifest_columns = [np.array(content[name], np.int64) for name in _COLUMNS]
            num_teachers = int(content["num_teachers"])
            digest = content["sha256"]
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise InvalidValue(
                "manifest", type(error).__name__, rule="the JSON that to_json writes"
            ) from error
        have_one_length = len({len(column) for column in manifest_columns}) == 1
        is_whole = have_one_length and digest == _digest(
            num_teachers, integer_columns=manifest_columns
        )
        require(is_whole, "manifest.sha256", "another", "the digest of its content")
        record_ids, group_ids, teachers = manifest_columns
        order = np.argsort(record_ids, kind="stable")
        split_order = np.argsort(split.record_ids, kind="stable")
        has_same_records = np.array_equal(record_ids[order], split.record_ids[split_order])
        has_same_groups = np.array_equal(group_ids[order], split.group_ids[split_order])
        if not (has_same_records and has_same_groups):
            rule = "the private records, each once, and their groups"
            raise InvalidValue("manifest", "others", rule=rule)
        teacher_of = np.empty_like(teachers)
        teacher_of[split_order] = teachers[order]
        partition = cls(teacher_of=teacher_of, num_teachers=num_teachers)
        partition.verify(split)
        return partition

    @cached_property
    def _rows_by_teacher(self) -> IntArray:
        """The row numbers of all private records, `[num_private]`: those of teacher 0, then those of teacher 1, …."""
        return np.argsort(self.teacher_of, kind="stable")

    @cached_property
    def _ends(self) -> IntArray:
        """The position in `_rows_by_teacher` at which each teacher's rows begin, then the end, `[num_teachers + 1]`.

        The rows of teacher t end before the position in entry t + 1.
        """
        return np.append(0, np.cumsum(self.sizes()))

    def _require_one_teacher(self, id_kind: str, ids_of_rows: IntArray) -> None:
        """Raises `InvalidValue` if two rows with the same id have different teachers.

        Args:
            id_kind: "record" or "group": what the ids stand for.
            ids_of_rows: the id of each row, int64 `[num_private]`.
        """
        order = np.argsort(ids_of_rows, kind="stable")
        is_same_id = np.diff(ids_of_rows[order]) == 0
        is_same_teacher = np.diff(self.teacher_of[order]) == 0
        conflicts = np.flatnonzero(is_same_id & ~is_same_teacher)
        if len(conflicts) > 0:
            first_conflict = conflicts[0]
            first_row, second_row = sorted(order[first_conflict : first_conflict + 2].tolist())
            rule = f"one teacher a {id_kind}, found two, in rows {first_row} and {second_row}"
            raise InvalidValue(f"{id_kind}_ids", rule=rule)


def _digest(num_teachers: int, integer_columns: list[IntArray]) -> str:
    """Returns the SHA-256 digest of the number of teachers and some arrays of whole numbers, in hexadecimal."""
    digest = hashlib.sha256(str(num_teachers).encode())
    for column in integer_columns:
        digest.update(np.ascontiguousarray(column, dtype="<i8").tobytes())
    return digest.hexdigest()
