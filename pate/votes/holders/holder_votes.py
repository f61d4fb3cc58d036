"""What all sources of holders' files have in common: heads, questions and digest, once it is clear that they match."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

from numpy.typing import NDArray

from pate.validation import InvalidValue
from pate.votes.holders.manifest import VoteManifest
from pate.votes.holders.same_questions import HoldersFile, in_order, require_together
from pate.votes.source import VoteSource

File = TypeVar("File", bound=HoldersFile)


class HolderVotes(VoteSource, Generic[File]):
    """See `VoteSource`. All files answer the same queries with the same labels, and no holder is there twice.

    Holders are taken in the order of their names, whatever the files are called. What is refused is told by the heads
    of files alone: whether votes are refused says nothing about votes.

    Args:
        files: of one or more holders each.

    Attributes:
        files: by the name of their first holder.
        heads: what each holder vouches for, in the order of the holders.
        num_groups: private groups of all holders.
        teachers_per_holder: the most teachers that one holder has.
        record_ids: `[Q]`, what the queries are called.
        label_names: L.

    Raises:
        InvalidValue: no file, or files that do not go together.
    """

    digest_begins: ClassVar[bytes]
    """What tells the digests of one kind of source from those of another."""

    def __init__(self, files: Sequence[File]) -> None:
        if not files:
            raise InvalidValue("votes=[]: expected at least one vote file")
        self.files = tuple(sorted(files, key=lambda file: in_order(file.heads[0].holder)))
        require_together(self.files)
        heads = (head for file in self.files for head in file.heads)
        self.heads: tuple[VoteManifest, ...] = tuple(sorted(heads, key=lambda head: in_order(head.holder)))
        first = self.files[0]
        self.record_ids: NDArray[Any] = first.record_ids
        self.label_names: tuple[str, ...] = first.label_names
        self.num_queries, self.num_labels = first.manifest.num_queries, first.manifest.num_labels
        self.num_teachers = sum(head.num_teachers for head in self.heads)
        self.num_groups = sum(head.num_groups for head in self.heads)
        self.records_per_teacher = self.num_groups / self.num_teachers
        self.teachers_per_holder = max(head.num_teachers for head in self.heads)

    @property
    def digest(self) -> str:
        """SHA-256 of all files, by holder: what a release that was begun is continued with. Covered by no epsilon."""
        digest = hashlib.sha256(self.digest_begins)
        for file in self.files:
            with file.path.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
        return digest.hexdigest()
