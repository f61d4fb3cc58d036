"""The file that stores a run's partition: the teacher of each private record."""

import os
from pathlib import Path

import numpy as np

from pate.data import Partition, Split
from pate.files.atomic import write_text
from pate.files.reading import damaged, read_text
from pate.validation import InvalidValue

_MANIFEST = "the partition of this run's private records"

_DEAL_AGAIN = "remove it, and the same command deals the same partition again"


def deal(private: Split, num_teachers: int, manifest: Path, rng: np.random.Generator) -> Partition:
    """Assigns private records to teachers at random, and writes the assignment to a file or compares it with the file.

    Generators in equal states give equal partitions.

    Args:
        private: the private records with their groups.
        num_teachers: the number of teachers.
        manifest: the file of the partition. If it exists, the new partition must equal the stored partition.
        rng: the generator of random numbers.

    Raises:
        DamagedFile: the file is damaged, or holds the partition of another run or of another number of teachers.
    """
    partition = Partition.draw(private.group_ids, num_teachers, rng)
    expected = partition.to_json(private)
    if not os.path.lexists(manifest):
        write_text(manifest, text=expected)
    text = read_text(manifest, rule=_MANIFEST, remedy=_DEAL_AGAIN)
    if text != expected:
        try:
            is_same = Partition.from_json(text, private).digest == partition.digest
        except InvalidValue as error:
            raise damaged(
                manifest, rule=_MANIFEST, finding=str(error), remedy=_DEAL_AGAIN
            ) from None
        if not is_same:
            reason = "training.secret and num_teachers deal another"
            raise damaged(manifest, rule=_MANIFEST, finding=reason, remedy=_DEAL_AGAIN)
    return partition
