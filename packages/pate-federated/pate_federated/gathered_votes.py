"""A vote source that reads the vote files and the sums of several holders."""

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
    from pate.votes.round_votes import RoundVotes

_SAME = {
    "queries": "the queries that {first} answers: the same public samples, in the same order",
    "num_queries": "as many queries as in {first}",
    "num_labels": "as many labels as in {first}",
    "vote_clip": "the vote_clip of {first}",
    "cast": "the cast= of {first}",
    "dataset": "the data set of {first}",
}


def _in_order(holder: str) -> tuple[bool, int, str]:
    """Returns the sorting key of a holder's name: numbers by value, and then other names."""
    number = holder.isascii() and holder.isdigit()
    return not number, int(holder) if number else 0, holder


def _require_same_questions(file: HoldersFile, first_file: HoldersFile) -> None:
    """Raises `InvalidValue` for a file with other queries or labels than the first file.

    The message shows no digest.
    """
    for head in file.heads:
        for name, rule in _SAME.items():
            value = getattr(head, name)
            require(
                value == getattr(first_file.manifest, name),
                f"votes={file.path}, {name}",
                "others" if name == "queries" else value,
                rule.format(first=first_file.path),
            )
    are_same_ids = np.array_equal(file.record_ids.astype(str), first_file.record_ids.astype(str))
    require(are_same_ids, f"votes={file.path}, record_ids", "others", f"those of {first_file.path}")
    for place, name in enumerate(file.label_names):
        expected_name = first_file.label_names[place]
        rule = f"{expected_name}, as in {first_file.path}"
        require(name == expected_name, f"votes={file.path}, label_names[{place}]", name, rule)


def _require_different_holders(files: Sequence[HoldersFile]) -> None:
    """Raises `InvalidValue` for a holder in two files, whose records would be counted twice."""
    file_of_holder = dict[str, Path]()
    for file in files:
        for head in file.heads:
            earlier = file_of_holder.get(head.holder)
            rule = f"each holder once; {earlier} is of the same holder, whose records would count twice"
            require(earlier is None, f"votes={file.path}, holder", head.holder, rule)
            file_of_holder[head.holder] = file.path


class GatheredVotes(TeacherVotes):
    """The votes in vote files and sums of different holders, on the same queries and labels.

    Holders and their teachers are sorted by the holders' names, whatever the names of the files. If a file holds a sum,
    only counts are available. Errors depend on the heads of the files alone, so they disclose nothing about votes.

    Attributes:
        files: the files, sorted by their holders.
        heads: the statements of all holders, sorted by name.
        record_ids: `[num_queries]`, the public names of the queries.
        label_names: the name of each label.
        num_groups: the number of units of privacy at all holders together.
        teachers_per_holder: the largest number of teachers of one holder.
    """

    def __init__(self, files: Sequence[HoldersFile]) -> None:
        require(bool(files), "votes", [], "at least one vote file")
        self.files = tuple(sorted(files, key=lambda file: _in_order(file.heads[0].holder)))
        first = self.files[0]
        for file in self.files:
            _require_same_questions(file, first_file=first)
        _require_different_holders(self.files)
        heads = (head for file in self.files for head in file.heads)
        self.heads: tuple[VoteManifest, ...] = tuple(
            sorted(heads, key=lambda head: _in_order(head.holder))
        )
        self._are_sums = any(not isinstance(file, VoteFile) for file in self.files)
        self.record_ids: NDArray[Any] = self.files[0].record_ids
        self.label_names: tuple[str, ...] = self.files[0].label_names
        self.num_queries, self.num_labels = len(self.record_ids), len(self.label_names)
        self.num_teachers = sum(head.num_teachers for head in self.heads)
        self.num_groups = sum(head.num_groups for head in self.heads)
        self.records_per_teacher = self.num_groups / self.num_teachers
        self.teachers_per_holder = max(head.num_teachers for head in self.heads)

    @classmethod
    def read(cls, paths: Sequence[Path | str]) -> GatheredVotes:
        """Returns the votes in vote files and files of sums.

        Raises `InvalidValue` for files that do not fit together.
        """
        return cls(
            [SumFile.open(path) if is_sum_file(path) else VoteFile.open(path) for path in paths]
        )

    @property
    def digest(self) -> str:
        """The SHA-256 of all files together, which finds an interrupted release again. No epsilon covers it."""
        digest = hashlib.sha256(b"sums of holders" if self._are_sums else b"votes of holders")
        for file in self.files:
            with file.path.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
        return digest.hexdigest()

    def _vote_files(self) -> list[VoteFile]:
        """Returns the files as vote files; raises `InvalidValue` if one of them holds a sum."""
        vote_files = [file for file in self.files if isinstance(file, VoteFile)]
        if len(vote_files) < len(self.files):
            rule = "one that reads counts, as sums do not say what one teacher votes for; or the vote files themselves"
            raise InvalidValue("aggregator", rule=rule)
        return vote_files

    def bits(self) -> Iterator[Bits]:
        """Yields blocks of bits of all files, `[num_teachers_in_block, num_queries, num_labels]`."""
        return chain.from_iterable(file.bits() for file in self._vote_files())

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Yields blocks of confidences of all files, `[num_teachers_in_block, num_queries, num_labels]`.

        Files without confidences give bits.
        """
        cast = self.heads[0].cast == "confidences"
        return chain.from_iterable(
            file.confidences() if cast else file.bits() for file in self._vote_files()
        )

    def label_shares(self) -> Array:
        """Returns the share of each teacher's records with each label, `[num_teachers, num_labels]`.

        Raises `InvalidValue` for files of bits, which do not hold the shares.
        """
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
        """Raises `InvalidValue`, since files hold votes that were cast once."""
        self._vote_files()
        rule = (
            "aggregator.rounds=1, one cast, as vote files hold; rounds ask each "
            "holder again: roll=, or pate_federated"
        )
        raise InvalidValue("aggregator.rounds", rule=rule)

    def accuracies(self, true_labels: Bits, known: Bits | None = None) -> Array:
        """Returns the share of right bits of each teacher, `[num_teachers]`; an empty array if a file holds a sum."""
        return np.zeros(0) if self._are_sums else super().accuracies(true_labels, known)

    def counts(self, max_votes: int | None = None) -> NDArray[np.int64]:
        """Returns the counts of votes, `[num_queries, num_labels]`.

        Args:
            max_votes: the largest number of votes of a teacher on a query; None for all.

        Raises:
            InvalidValue: a file holds a sum of votes without this limit.
        """
        if max_votes is not None and self._are_sums:
            clip = self.heads[0].vote_clip
            rule = f"sums of votes that were cast with vote_clip={max_votes}"
            require(clip is not None and clip <= max_votes, "vote_clip", clip, rule)
            max_votes = None
        return super().counts(max_votes)

    def _counted(self, max_votes: int | None) -> NDArray[np.int64]:
        """Returns the counts of votes; packed bits are added without unpacking, unless votes have to be limited."""
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
                    total += histogram(
                        bits if max_votes is None else limited(block=bits, max_votes=max_votes)
                    )
        return total + sums.counts(self.num_labels)

    def write(self, path: Path | str) -> SumFile:
        """Writes the counts of all votes to one file of sums, and returns the file."""
        counts = self.counts()
        return SumFile.write(
            path, self.heads, counts, record_ids=self.record_ids, label_names=self.label_names
        )
