"""Asking the whole ensemble, a few teachers at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pate.files.arrays import ArrayForm, read_arrays
from pate.files.atomic import make_folder, write_arrays
from pate.networks.device import device_memory, one_thread
from pate.teachers.checkpoint import CheckpointStore
from pate.teachers.teacher import Teacher
from pate.validation import require_count

_ASK_AGAIN = "remove it, and the same command asks these teachers again"


def cast_votes(
    teacher: Teacher,
    store: CheckpointStore,
    num_teachers: int,
    inputs: NDArray[np.float32],
    chunk_size: int = 16,
    scratch: Path | None = None,
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Asks the teachers, a chunk at a time: no more than `chunk_size` teachers are in memory.

    Args:
        teacher: the recipe they were trained by.
        store: holds all of them.
        num_teachers: N.
        inputs: the queries, float32 `[num_queries, …]`.
        chunk_size: teachers asked at once.
        scratch: a folder for what they said, from which a killed run continues; the caller removes it at the end.

    Yields:
        The index of a chunk's first teacher, and confidences float32 `[c, num_queries, num_labels]`; a vote
        is a confidence >= 0.5.

    Raises:
        InvalidValue: a teacher is missing in the store.
    """
    require_count("num_teachers", num_teachers)
    require_count("chunk_size", chunk_size)
    for first in range(0, num_teachers, chunk_size):
        last = min(first + chunk_size, num_teachers)
        path = None if scratch is None else scratch / f"confidences-{first:06d}-{last:06d}.npz"
        if path is not None and os.path.lexists(path):
            form = ArrayForm("f", (last - first, len(inputs), None))
            yield first, read_arrays(path, {"confidences": form}, remedy=_ASK_AGAIN)["confidences"]
            continue
        states = [store.load(index) for index in range(first, last)]
        with one_thread(), device_memory("CUDA_VISIBLE_DEVICES= before the command asks them on the processor"):
            confidences = teacher.predict_many(states, inputs)
        if path is not None:
            make_folder(path.parent, within=path.parent.parent)
            write_arrays(path, confidences=confidences)
        yield first, confidences
