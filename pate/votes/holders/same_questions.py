"""Whether files of holders go together: one set of questions, and every holder once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pate.validation import require
from pate.votes.holders.manifest import VoteManifest

_SAME = {
    "queries": "the queries that {first} answers: the same public samples, in the same order",
    "num_queries": "as many queries as in {first}",
    "num_labels": "as many labels as in {first}",
    "vote_clip": "the vote_clip of {first}",
    "cast": "the cast= of {first}",
    "dataset": "the data set of {first}",
}


class HoldersFile(Protocol):
    """A file of one or more holders.

    Attributes:
        path: the file.
        manifest: what all of its holders say of the questions.
        heads: what each holder vouches for.
        record_ids: `[Q]`.
        label_names: L.
    """

    @property
    def path(self) -> Path:
        """See above."""

    @property
    def manifest(self) -> VoteManifest:
        """See above."""

    @property
    def heads(self) -> tuple[VoteManifest, ...]:
        """See above."""

    @property
    def record_ids(self) -> NDArray[Any]:
        """See above."""

    @property
    def label_names(self) -> tuple[str, ...]:
        """See above."""


def require_together(files: Sequence[HoldersFile]) -> None:
    """Raises unless all files answer the same questions and no holder is there twice; says no digest."""
    for file in files:
        _require_same(file, files[0])
    seen: dict[str, Path] = {}
    for file in files:
        for head in file.heads:
            rule = f"each holder once; {seen.get(head.holder)} is of the same holder, whose records would count twice"
            require(head.holder not in seen, f"votes={file.path}, holder", head.holder, rule)
            seen[head.holder] = file.path


def in_order(holder: str) -> tuple[bool, int, str]:
    """Sorts the names of holders: numbers by their size before names."""
    number = holder.isascii() and holder.isdigit()
    return not number, int(holder) if number else 0, holder


def _require_same(file: HoldersFile, first: HoldersFile) -> None:
    for head in file.heads:
        for name, rule in _SAME.items():
            same = getattr(head, name) == getattr(first.manifest, name)
            shown = "others" if name == "queries" else getattr(head, name)
            require(same, f"votes={file.path}, {name}", shown, rule.format(first=first.path))
    same = np.array_equal(file.record_ids.astype(str), first.record_ids.astype(str))
    require(same, f"votes={file.path}, record_ids", "others", f"those of {first.path}")
    for place, (found, wanted) in enumerate(zip(file.label_names, first.label_names, strict=True)):
        require(found == wanted, f"votes={file.path}, label_names[{place}]", found, f"{wanted}, as in {first.path}")
