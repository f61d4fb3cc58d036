"""The file that stores a run's partition: the teacher of each private record."""

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pate.data import Partition, Split
from pate.files.atomic import write_text_parts
from pate.files.reading import damaged, read_text, reading_file
from pate.validation import InvalidValue

_RULE = "the partition of this run's private records"
_REMEDY = "remove it, and the same command deals the same partition again"


def draw_partition(
    private_records: Split, *, num_teachers: int, partition_file: Path, rng: np.random.Generator
) -> Partition:
    """Assigns private records to teachers at random, and writes the assignment to a file or compares it with the file.

    Generators in equal states give equal partitions.

    Args:
        private_records: the private records with their groups.
        num_teachers: the number of teachers.
        partition_file: the file of the partition. If it exists, the new partition must equal the stored partition.
        rng: the generator of random numbers.

    Raises:
        DamagedFile: the file is damaged, or holds the partition of another run or of another number of teachers.
    """
    partition = Partition.draw(private_records.group_ids, num_teachers=num_teachers, rng=rng)
    if not os.path.lexists(partition_file):
        write_text_parts(
            path=partition_file, text_parts=partition.json_parts(split=private_records)
        )
    if not _has_parts(partition_file, text_parts=partition.json_parts(split=private_records)):
        text = read_text(partition_file, rule=_RULE, remedy=_REMEDY)
        try:
            is_same = Partition.from_json(text, split=private_records).digest == partition.digest
        except InvalidValue as error:
            raise damaged(partition_file, rule=_RULE, finding=str(error), remedy=_REMEDY) from None
        if not is_same:
            finding = "training.secret and num_teachers deal another"
            raise damaged(partition_file, rule=_RULE, finding=finding, remedy=_REMEDY)
    return partition


def _has_parts(partition_file: Path, text_parts: Iterable[str]) -> bool:
    """Returns True if the content of a file is these parts of a text, one after another.

    Only one part at a time is in memory, as the text may be long.
    """
    with (
        reading_file(partition_file, rule=_RULE, remedy=_REMEDY),
        partition_file.open("rb") as file,
    ):
        for part in text_parts:
            expected = part.encode()
            if file.read(len(expected)) != expected:
                return False
        return not file.read(1)
