"""Small vote files that holders send in answer to a request, valid ones and ones with a part replaced."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray
from pate_federated import Contribution, Request, Roll
from pate_federated.vote_file import VoteFile, VoteManifest

NUM_QUERIES = 6
NUM_LABELS = 4
TEACHERS = 3
ROLL_OF_HOLDERS = Roll.numbered(num_holders=4, teachers_each=TEACHERS, max_absent=2)


def request() -> Request:
    """Returns a request for votes on six queries of two features, with the labels a to d."""
    return Request(
        inputs=np.arange(2 * NUM_QUERIES, dtype=np.float32).reshape(NUM_QUERIES, 2),
        record_ids=np.arange(100, 100 + NUM_QUERIES),
        label_names=("a", "b", "c", "d"),
    )


def votes_of(holder: str) -> BoolArray:
    """Returns the votes of a holder's teachers, `[TEACHERS, NUM_QUERIES, NUM_LABELS]`.

    The seed of the draw is the holder's name if that is a number, else 99.
    """
    rng = np.random.default_rng(int(holder) if holder.isdigit() else 99)
    return np.asarray(rng.random((TEACHERS, NUM_QUERIES, NUM_LABELS)) < 0.5)


def answer(
    vote_file_folder: Path,
    holder: str,
    sent_request: Request | None = None,
    *,
    votes: NDArray[Any] | None = None,
    queries_digest: str | None = None,
    label_names: tuple[str, ...] | None = None,
) -> Contribution:
    """Returns the answer of a holder to a request.

    Args:
        vote_file_folder: the folder in which the vote file is written.
        holder: the name of the holder, which seeds its votes.
        sent_request: the request; by default `request()`.
        votes: the votes in place of its own, `[num_teachers, num_queries, num_labels]`.
        queries_digest: the digest of the queries that the manifest states; None for the true one.
        label_names: the names of the labels; None for those of the request, or for numbers if the votes do not have
            `NUM_LABELS` labels.
    """
    sent_request = sent_request or request()
    bits = votes_of(holder) if votes is None else votes
    num_teachers, num_queries, num_labels = bits.shape
    manifest = VoteManifest(
        holder=holder,
        queries=sent_request.digest if queries_digest is None else queries_digest,
        num_teachers=num_teachers,
        num_queries=num_queries,
        num_labels=num_labels,
        num_records=90,
        num_groups=90,
        cast=sent_request.cast,
        vote_clip=sent_request.vote_clip,
    )
    has_confidences = sent_request.cast == "confidences"
    confidences = bits.astype(np.float32)
    path = vote_file_folder / "sent.npz"
    VoteFile.write(
        path,
        manifest=manifest,
        yield_bits=lambda: [bits],
        record_ids=sent_request.record_ids[:num_queries],
        label_names=label_names or _names(sent_request, num_labels=num_labels),
        yield_confidences=(lambda: [confidences]) if has_confidences else None,
        label_shares=np.full((num_teachers, num_labels), 0.5) if has_confidences else None,
    )
    return Contribution(holder=holder, votes=path.read_bytes())


def _names(sent_request: Request, *, num_labels: int) -> tuple[str, ...]:
    """Returns the names of the labels of a request, or numbers if the votes do not have `NUM_LABELS` labels."""
    if num_labels == NUM_LABELS:
        return sent_request.label_names
    return tuple(str(label) for label in range(num_labels))


def with_array_replaced(
    contribution: Contribution, *, array_name: str, array: NDArray[Any]
) -> Contribution:
    """Returns a contribution in which another array has the name `array_name`, as no honest holder would send it."""
    with np.load(io.BytesIO(contribution.votes or b""), allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    out = io.BytesIO()
    np.savez(out, **(arrays | {array_name: array}))
    return Contribution(holder=contribution.holder, votes=out.getvalue())
