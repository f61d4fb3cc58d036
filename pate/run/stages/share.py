"""What one holder teaches with: its own records, or its share of records that are dealt by a public rule."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from pate.data import Dataset, Partition
from pate.files.atomic import write_text
from pate.run.ensemble import deal
from pate.run.randomness import Randomness
from pate.teachers import Voter
from pate.teachers.teacher import isolated
from pate.validation import require, require_count


@dataclass(frozen=True)
class HolderRandomness(Randomness):
    """The streams of an ensemble, of which a holder has some of the teachers.

    Attributes:
        first: the number of its first teacher.
    """

    first: int = 0

    def seeds(self, purpose: str, count: int) -> list[int]:
        """See `Streams.seeds`; those of its own teachers."""
        skipped = self.first if purpose == "teachers" else 0
        return super().seeds(purpose, skipped + count)[skipped:]


@dataclass(frozen=True, eq=False)
class Share:
    """A holder's records, dealt to its teachers.

    Attributes:
        dataset: whose private records are the holder's alone.
        partition: of these.
        teacher: the recipe, with teachers apart from each other where the whole ensemble has them apart.
        randomness: the streams of its teachers.
    """

    dataset: Dataset
    partition: Partition
    teacher: Voter
    randomness: Randomness

    @classmethod
    def own(cls, dataset: Dataset, teacher: Voter, num_teachers: int, randomness: Randomness) -> Self:
        """All private records of a data set, dealt to so many teachers; the partition is kept in the folder."""
        require_groups(dataset, num_teachers)
        return cls(dataset, deal(dataset.private, num_teachers, randomness), teacher, randomness)

    @classmethod
    def dealt(
        cls, dataset: Dataset, teacher: Voter, num_teachers: int, *, holder: int, holders: int, seed: int, folder: Path
    ) -> Self:
        """The share of one holder where all have the data set: to try on one machine what many places would do.

        Rule: `Partition.draw` with the seed deals the groups to `holders * num_teachers` teachers, as `pate-train` with
        that many teachers and this seed does. Holder h of 1..holders has the teachers from (h - 1) num_teachers on.

        Args:
            dataset: the whole.
            teacher: the recipe.
            num_teachers: of each holder.
            holder: its number.
            holders: how many there are.
            seed: the same for all of them.
            folder: of the holder, where the partition of its records is kept.
        """
        require(1 <= holder <= holders, "holder", holder, f"a number in 1..{holders}, of holders={holders}")
        total, first = holders * num_teachers, (holder - 1) * num_teachers
        require_groups(dataset, total)
        randomness = HolderRandomness(folder, seed, first)
        whole = Partition.draw(dataset.private.group_ids, total, randomness.generator("partition"))
        rows = np.flatnonzero((whole.teacher_of >= first) & (whole.teacher_of < first + num_teachers))
        private = dataset.private.take(rows)
        partition = Partition(whole.teacher_of[rows] - first, num_teachers)
        path = folder / "partition.json"
        if not os.path.lexists(path):
            write_text(path, partition.to_json(private))
        apart = isolated(teacher, dataset.private.group_ids)
        return cls(replace(dataset, private=private), partition, apart, randomness)

    @property
    def num_groups(self) -> int:
        """Units of privacy among the records."""
        return self.dataset.private.num_groups


def require_groups(dataset: Dataset, num_teachers: int) -> None:
    """Raises where there are fewer units of privacy than teachers."""
    require_count("teacher.num_teachers", num_teachers)
    groups = dataset.private.num_groups
    require(num_teachers <= groups, "num_teachers", num_teachers, f"at most {groups}, the number of private groups")
