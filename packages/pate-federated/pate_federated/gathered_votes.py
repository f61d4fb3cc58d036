"""Vote files and sums of several holders as one source of votes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pate.errors import InvalidValue
from pate.validation import require
from pate.votes.counts import Bits, histogram, limited
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.source import TeacherVotes
from pate.votes.vote_store import VoteStore
from pate.votes.weighted import Array
from pate_federated.bit_sums import BitSums
from pate_federated.vote_file import HoldersFile, SumFile, VoteFile, VoteManifest, is_sum_file

if TYPE_CHECKING:
    from pate.votes.moment_votes import RoundVotes

_SAME = {
    "queries": "the queries that {first} answers: the same public samples, in the same order",
    "num_queries": "as many queries as in {first}",
    "num_labels": "as many labels as in {first}",
    "vote_clip": "the vote_clip of {first}",
    "cast": "the cast= of {first}",
    "dataset": "the data set of {first}",
}


def _in_order(holder: str) -> tuple[bool, int, str]:
    """Sorts the names of holders: numbers by their size before names."""
    number = holder.isascii() and holder.isdigit()
    return not number, int(holder) if number else 0, holder


class GatheredVotes(TeacherVotes):
    """Votes of vote files and sums, for the same queries and labels; no holder is there twice.

    Holders, and with them teachers, are taken in the order of their names, whatever the files are called. Of sums there
    are counts alone. What is refused is told by the heads of files alone, so it says nothing about votes.
    """

    def __init__(self, files: Sequence[HoldersFile]) -> None:
        require(bool(files), "votes", [], "at least one vote file")
        self.files = tuple(sorted(files, key=lambda file: _in_order(file.heads[0].holder)))
        first = self.files[0]
        seen = dict[str, Path]()
        # all answer the same questions, no holder is there twice; no digest is said
        for file in self.files:
            for head in file.heads:
                for name, rule in _SAME.items():
                    same = getattr(head, name) == getattr(first.manifest, name)
                    shown = "others" if name == "queries" else getattr(head, name)
                    require(
                        same, f"votes={file.path}, {name}", shown, rule.format(first=first.path)
                    )
            same = np.array_equal(file.record_ids.astype(str), first.record_ids.astype(str))
            require(same, f"votes={file.path}, record_ids", "others", f"those of {first.path}")
            for place, (found, wanted) in enumerate(
                zip(file.label_names, first.label_names, strict=True)
            ):
                rule = f"{wanted}, as in {first.path}"
                require(found == wanted, f"votes={file.path}, label_names[{place}]", found, rule)
        for file in self.files:
            for head in file.heads:
                there = f"{seen.get(head.holder)} is of the same holder, whose records would count twice"
                rule = f"each holder once; {there}"
                require(head.holder not in seen, f"votes={file.path}, holder", head.holder, rule)
                seen[head.holder] = file.path
        heads = (head for file in self.files for head in file.heads)
        self.heads: tuple[VoteManifest, ...] = tuple(
            sorted(heads, key=lambda head: _in_order(head.holder))
        )
        self._are_sums = any(not isinstance(file, VoteFile) for file in self.files)
        self.record_ids: NDArray[Any] = self.files[0].record_ids
        self.label_names: tuple[str, ...] = self.files[0].label_names
        self.num_queries, self.num_labels = len(self.record_ids), len(self.label_names)
        self.num_teachers = sum(head.num_teachers for head in self.heads)
        # private ones, of all holders
        self.num_groups = sum(head.num_groups for head in self.heads)
        self.records_per_teacher = self.num_groups / self.num_teachers
        # the most that one has
        self.teachers_per_holder = max(head.num_teachers for head in self.heads)

    @classmethod
    def read(cls, paths: Sequence[Path | str]) -> GatheredVotes:
        """Reads files of votes or of sums."""
        return cls(
            [SumFile.open(path) if is_sum_file(path) else VoteFile.open(path) for path in paths]
        )

    @property
    def digest(self) -> str:
        """SHA-256 of all files, by holder: what a release that was begun is continued with. No epsilon covers it."""
        digest = hashlib.sha256(b"sums of holders" if self._are_sums else b"votes of holders")
        for file in self.files:
            with file.path.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
        return digest.hexdigest()

    def _vote_files(self) -> list[VoteFile]:
        found = [file for file in self.files if isinstance(file, VoteFile)]
        if len(found) < len(self.files):
            rule = "one that reads counts, as sums do not say what one teacher votes for; or the vote files themselves"
            raise InvalidValue("aggregator", rule=rule)
        return found

    def bits(self) -> Iterator[Bits]:
        """Yields the votes of all files, `[c, Q, L]` a block."""
        return chain.from_iterable(file.bits() for file in self._vote_files())

    def confidences(self) -> Iterator[NDArray[Any]]:
        """The bits, clipped as they were cast, where files hold no more."""
        cast = self.heads[0].cast == "confidences"
        return chain.from_iterable(
            file.confidences() if cast else file.bits() for file in self._vote_files()
        )

    def label_shares(self) -> Array:
        """Files hold them beside confidences."""
        files = self._vote_files()
        cast = self.heads[0].cast
        rule = "vote files of pate-vote cast=confidences, which hold what a prevalence is released from"
        require(
            cast != "bits",
            "cast",
            cast,
            f"{rule}; or aggregator.prevalence_share=0 for a public center",
        )
        return np.concatenate([file.label_shares() for file in files])

    def in_rounds(
        self, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> RoundVotes | None:
        """Raises `InvalidValue`: files hold the votes of one cast."""
        self._vote_files()
        rule = (
            "aggregator.rounds=1, one cast, as vote files hold; rounds ask each "
            "holder again: roll=, or pate_federated"
        )
        raise InvalidValue("aggregator.rounds", rule=rule)

    def accuracies(self, true: Bits) -> Array:
        """Returns each teacher's share of correct bits, `[N]`; `[0]` where files hold sums."""
        return np.zeros(0) if self._are_sums else super().accuracies(true)

    def counts(self, max_votes: int | None = None) -> NDArray[np.int64]:
        """Of sums a limit has to be that of the votes as they were cast."""
        if max_votes is not None and self._are_sums:
            clip = self.heads[0].vote_clip
            rule = f"sums of votes that were cast with vote_clip={max_votes}"
            require(clip is not None and clip <= max_votes, "vote_clip", clip, rule)
            max_votes = None
        return super().counts(max_votes)

    def _counted(self, max_votes: int | None) -> NDArray[np.int64]:
        """Packed bits are added as they are; what is clipped has to be looked at."""
        sums = BitSums((self.num_queries, -(-self.num_labels // 8)))
        total = np.zeros((self.num_queries, self.num_labels), dtype=np.int64)
        for file in self.files:
            if isinstance(file, SumFile):
                total += file.counts()
            elif (
                isinstance(file, VoteFile) and max_votes is None and file.manifest.vote_clip is None
            ):
                for block in VoteStore.open(file.path).packed_blocks():
                    for row in block:
                        sums.add(row)
            elif isinstance(file, VoteFile):
                for bits in file.bits():
                    total += histogram(bits if max_votes is None else limited(bits, max_votes))
        return total + sums.counts(self.num_labels)

    def write(self, path: Path | str) -> SumFile:
        """All of them as one file of sums."""
        counts = self.counts()
        return SumFile.write(
            path, self.heads, counts, record_ids=self.record_ids, label_names=self.label_names
        )
