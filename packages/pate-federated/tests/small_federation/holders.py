"""Small votes of holders, whole and spoiled, as they come in."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate_federated import Contribution, Request, Roll
from pate_federated.vote_file import VoteFile, VoteManifest

NUM_QUERIES = 6
NUM_LABELS = 4
TEACHERS = 3
ROLL = Roll.numbered(num_holders=4, teachers_each=TEACHERS, max_absent=2)


def request(**changes: Any) -> Request:
    arguments: dict[str, Any] = {
        "inputs": np.arange(2 * NUM_QUERIES, dtype=np.float32).reshape(NUM_QUERIES, 2),
        "record_ids": np.arange(100, 100 + NUM_QUERIES),
        "label_names": ("a", "b", "c", "d"),
    }
    return Request(**(arguments | changes))


def votes_of(holder: str) -> NDArray[np.bool_]:
    """Returns the votes of a holder's teachers, drawn from its name, `[TEACHERS, NUM_QUERIES, NUM_LABELS]`."""
    rng = np.random.default_rng(int(holder) if holder.isdigit() else 99)
    return np.asarray(rng.random((TEACHERS, NUM_QUERIES, NUM_LABELS)) < 0.5)


def answer(
    folder: Path,
    holder: str,
    asked: Request | None = None,
    *,
    votes: NDArray[Any] | None = None,
    confidences: NDArray[np.float32] | None = None,
    **head: Any,
) -> Contribution:
    """Returns the answer of a holder; `head` replaces fields of its true head."""
    asked = asked or request()
    bits = votes_of(holder) if votes is None else votes
    entries: dict[str, Any] = {
        "holder": holder,
        "queries": asked.digest,
        "num_teachers": len(bits),
        "num_queries": bits.shape[1],
        "num_labels": bits.shape[2],
        "num_records": 90,
        "num_groups": 90,
        "cast": asked.cast,
        "vote_clip": asked.vote_clip,
    }
    shares = np.full((len(bits), bits.shape[2]), 0.5)
    says_more = (entries | head)["cast"] == "confidences"
    arguments = bits.astype(np.float32) if confidences is None else confidences
    path = folder / "sent.npz"
    VoteFile.write(
        path,
        VoteManifest(**(entries | head)),
        bits=lambda: [bits],
        record_ids=asked.record_ids[: bits.shape[1]],
        label_names=asked.label_names
        if bits.shape[2] == NUM_LABELS
        else tuple(str(i) for i in range(bits.shape[2])),
        confidences=(lambda: [arguments]) if says_more else None,
        label_shares=shares if says_more else None,
    )
    return Contribution(holder, path.read_bytes())


def replaced(contribution: Contribution, name: str, array: NDArray[Any]) -> Contribution:
    """Returns a contribution whose archive has another array under one name, as no honest holder writes it."""
    with np.load(io.BytesIO(contribution.votes or b""), allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    out = io.BytesIO()
    np.savez(out, **(arrays | {name: array}))
    return Contribution(contribution.holder, out.getvalue())
