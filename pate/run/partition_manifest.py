"""The manifest of a run's partition: the file that says which teacher has which private record."""

import os
from pathlib import Path

import numpy as np

from pate.data import Partition, Split
from pate.files.disk import damaged, read_text, write_text
from pate.validation import InvalidValue

_MANIFEST = "the partition of this run's private records"

_DEAL_AGAIN = "remove it, and the same command deals the same partition again"


def deal(private: Split, num_teachers: int, manifest: Path, rng: np.random.Generator) -> Partition:
    """Deals the private records to teachers, and keeps the partition as a manifest or compares it with the kept one.

    Equal generators deal equal partitions. Raises `DamagedFile` for a manifest that is damaged, of another run, or of
    another number of teachers.
    """
    partition = Partition.draw(private.group_ids, num_teachers, rng)
    expected = partition.to_json(private)
    if not os.path.lexists(manifest):
        write_text(manifest, expected)
    text = read_text(manifest, rule=_MANIFEST, remedy=_DEAL_AGAIN)
    if text != expected:
        try:
            is_same = Partition.from_json(text, private).digest == partition.digest
        except InvalidValue as error:
            raise damaged(manifest, _MANIFEST, str(error), _DEAL_AGAIN) from None
        if not is_same:
            reason = "training.secret and num_teachers deal another"
            raise damaged(manifest, _MANIFEST, reason, _DEAL_AGAIN)
    return partition
