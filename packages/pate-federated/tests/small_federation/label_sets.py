"""Small vote files of holders with different labels, or with records whose labels are unknown."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pate_federated.vote_file import VoteFile, VoteManifest

UNKNOWN = -1
"""In place of a bit: the teacher does not vote on the label."""


def write_votes(
    folder: Path,
    holder: str,
    label_names: tuple[str, ...],
    votes: NDArray[np.int8],
    *,
    have_gaps: bool = False,
    cast: str = "bits",
) -> Path:
    """Writes the votes of a holder on its labels, and returns the path of the file.

    Args:
        folder: the folder of the file.
        holder: the name of the holder.
        label_names: the names of the labels that the holder has.
        votes: `[num_teachers, num_queries, num_labels]`, 0, 1 or `UNKNOWN`. For each teacher and label, the votes on
            all queries are unknown, or none is.
        have_gaps: whether labels of single records may be unknown.
        cast: the form of the votes. Confidences are the bits as floats, and the share of a label is its share of the
            queries. The share of known records is 0 for an unknown label, else 1.
    """
    num_teachers, num_queries, num_labels = votes.shape
    bits = votes == 1
    teacher_knows_label = (votes != UNKNOWN).all(axis=1)
    has_confidences = cast == "confidences"
    confidences = bits.astype(np.float32)
    path = folder / f"{holder}.npz"
    VoteFile.write(
        path,
        manifest=VoteManifest(
            holder=holder,
            queries="0" * 64,
            num_teachers=num_teachers,
            num_queries=num_queries,
            num_labels=num_labels,
            num_records=10,
            num_groups=10,
            cast=cast,
            have_gaps=have_gaps,
        ),
        yield_bits=lambda: [bits],
        record_ids=np.arange(num_queries),
        label_names=label_names,
        yield_confidences=(lambda: [confidences]) if has_confidences else None,
        label_shares=bits.mean(axis=1) if has_confidences else None,
        known_shares=teacher_knows_label.astype(np.float64) if have_gaps else None,
    )
    return path
