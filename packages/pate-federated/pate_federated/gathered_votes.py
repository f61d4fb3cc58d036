"""A vote source that reads the vote files and the sums of several holders."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, FloatArray, IntArray
from pate.errors import InvalidValue
from pate.validation import require
from pate.votes.counts import histogram, limit_votes
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.source import TeacherVotes
from pate.votes.vote_store import VoteStore
from pate_federated.bit_sums import BitSums
from pate_federated.vote_file import (
    HoldersFile,
    SumFile,
    VoteFile,
    VoteManifest,
    is_sum_file,
    teachers_with_label,
)

if TYPE_CHECKING:
    from pate.votes.round_votes import RoundVotes

# The fields that have to be equal in all files, and the rule for each.
_SAME = {
    "queries": "the queries that {first} answers: the same public samples, in the same order",
    "num_queries": "as many queries as in {first}",
    "vote_clip": "the vote_clip of {first}",
    "cast": "the cast= of {first}",
    "dataset": "the data set of {first}",
}


def _holder_sort_key(holder: str) -> tuple[bool, int, str]:
    """Returns the key by which a holder's name is sorted: numbers first, by value, then other names as texts."""
    is_number = holder.isascii() and holder.isdigit()
    return not is_number, int(holder) if is_number else 0, holder


def _require_same_questions(holders_file: HoldersFile, first_file: HoldersFile) -> None:
    """Raises `InvalidValue` for a file with other queries, form of votes, clip or data set than the first file.

    The message shows no digest of queries.
    """
    for vote_head in holders_file.heads:
        for field_name, rule in _SAME.items():
            own_value = getattr(vote_head, field_name)
            require(
                own_value == getattr(first_file.manifest, field_name),
                f"votes={holders_file.path}, {field_name}",
                "others" if field_name == "queries" else own_value,
                rule.format(first=first_file.path),
            )
    are_same_ids = np.array_equal(
        holders_file.record_ids.astype(str), first_file.record_ids.astype(str)
    )
    require(
        are_same_ids,
        f"votes={holders_file.path}, record_ids",
        "others",
        f"those of {first_file.path}",
    )


def _require_different_holders(holders_files: Sequence[HoldersFile]) -> None:
    """Raises `InvalidValue` if two files have votes of one holder, whose records would be counted twice."""
    path_of_holder = dict[str, Path]()
    for file in holders_files:
        for head in file.heads:
            earlier_path = path_of_holder.get(head.holder)
            rule = f"each holder once; {earlier_path} is of the same holder, whose records would count twice"
            require(earlier_path is None, f"votes={file.path}, holder", head.holder, rule)
            path_of_holder[head.holder] = file.path


class GatheredVotes(TeacherVotes):
    """The votes in vote files and sums of different holders, on the same queries.

    Holders and their teachers are sorted by the holders' names, whatever the names of the files. If a file holds a sum,
    only counts are available. Whether files fit together depends on their heads and on the public names of queries and
    labels alone, so that an error discloses nothing about votes.

    Holders may have different labels, which are public: the labels here are the union of all. A teacher does not vote
    on a label that its holder lacks, or that none of its records knows. Source: docs/proofs/label_gaps.md.

    Attributes:
        holders_files: the files, sorted by their holders.
        heads: the statements of all holders (`VoteManifest`), sorted by name.
        record_ids: `[num_queries]`, the public names of the queries.
        label_names: the agreed names of labels, or each label that some file has: those of the first file, then the
            further ones of the second, and so on.
        labels_of_holders: the names of the labels that each holder has, in the order of `heads`; public.
        num_groups: the number of units of privacy at all holders together.
        teachers_per_holder: the largest number of teachers of one holder.
    """

    def __init__(
        self, holders_files: Sequence[HoldersFile], label_names: tuple[str, ...] | None = None
    ) -> None:
        """Checks that the files fit together; no votes are read.

        Args:
            holders_files: the files of different holders.
            label_names: the names of all labels, if they are agreed; None for those that some file has.
        """
        require(bool(holders_files), "votes", [], "at least one vote file")
        self.holders_files = tuple(
            sorted(holders_files, key=lambda file: _holder_sort_key(file.heads[0].holder))
        )
        first_file = self.holders_files[0]
        for holders_file in self.holders_files:
            _require_same_questions(holders_file, first_file=first_file)
        _require_different_holders(self.holders_files)
        heads = (head for holders_file in self.holders_files for head in holders_file.heads)
        self.heads: tuple[VoteManifest, ...] = tuple(
            sorted(heads, key=lambda head: _holder_sort_key(head.holder))
        )
        labels_of = {
            head.holder: holders_file.labels_of(head)
            for holders_file in self.holders_files
            for head in holders_file.heads
        }
        self._are_sums = any(
            not isinstance(holders_file, VoteFile) for holders_file in self.holders_files
        )
        self.record_ids: NDArray[Any] = self.holders_files[0].record_ids
        names_in_files = chain.from_iterable(
            holders_file.label_names for holders_file in self.holders_files
        )
        self.label_names: tuple[str, ...] = label_names or tuple(dict.fromkeys(names_in_files))
        self.num_queries, self.num_labels = len(self.record_ids), len(self.label_names)
        self.num_teachers = sum(head.num_teachers for head in self.heads)
        self.num_groups = sum(head.num_groups for head in self.heads)
        self.records_per_teacher = self.num_groups / self.num_teachers
        self.teachers_per_holder = max(head.num_teachers for head in self.heads)
        self.labels_of_holders: tuple[tuple[str, ...], ...] = tuple(
            labels_of[head.holder] for head in self.heads
        )

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
        for file in self.holders_files:
            with file.path.open("rb") as opened_file:
                digest.update(hashlib.file_digest(opened_file, "sha256").digest())
        return digest.hexdigest()

    def _vote_files(self) -> list[VoteFile]:
        """Returns `holders_files`, all of which are vote files; raises `InvalidValue` if one of them holds a sum."""
        vote_files = [file for file in self.holders_files if isinstance(file, VoteFile)]
        if len(vote_files) < len(self.holders_files):
            rule = "one that reads counts, as sums do not say what one teacher votes for; or the vote files themselves"
            raise InvalidValue("aggregator", rule=rule)
        return vote_files

    @property
    def have_gaps(self) -> bool:
        """Whether there may be labels on which some teacher does not vote; public."""
        return any(head.have_gaps for head in self.heads) or any(
            len(names) < self.num_labels for names in self.labels_of_holders
        )

    def num_without_label(self) -> IntArray:
        """Returns the number of teachers whose holder lacks each label, `[num_labels]`; public."""
        with_label = teachers_with_label(
            self.label_names, label_sets=self.labels_of_holders, heads=self.heads
        )
        return self.num_teachers - with_label

    def num_abstaining(self) -> IntArray:
        """Returns the number of teachers that do not vote on each label, `[num_labels]`; private."""
        numbers = self.num_without_label()
        for holders_file in self.holders_files:
            label_indices = self._label_indices(holders_file)
            if isinstance(holders_file, SumFile):
                numbers[label_indices] += holders_file.abstaining()
            elif (
                isinstance(holders_file, VoteFile) and (voting := holders_file.voting()) is not None
            ):
                numbers[label_indices] += np.count_nonzero(~voting, axis=0)
        return numbers

    def voting(self) -> BoolArray | None:
        """Returns which teachers vote on which labels, bool `[num_teachers, num_labels]`; None without gaps."""
        if not self.have_gaps:
            return None
        return np.concatenate(
            [
                self._for_all_labels(
                    _values_or_ones(vote_file.voting(), vote_file=vote_file), holders_file=vote_file
                )
                for vote_file in self._vote_files()
            ]
        ).astype(np.bool_)

    def bits(self) -> Iterator[BoolArray]:
        """Yields blocks of bits of all files, `[num_teachers_in_block, num_queries, num_labels]`."""
        files = self._vote_files()
        return (
            self._for_all_labels(block, holders_file=vote_file)
            for vote_file in files
            for block in vote_file.bits()
        )

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Yields blocks of confidences of all files, `[num_teachers_in_block, num_queries, num_labels]`.

        Files without confidences give bits.
        """
        cast = self.heads[0].cast == "confidences"
        files = self._vote_files()
        return (
            self._for_all_labels(block, holders_file=vote_file)
            for vote_file in files
            for block in (vote_file.confidences() if cast else vote_file.bits())
        )

    def label_shares(self) -> FloatArray:
        """Returns the share of each teacher's records with each label, `[num_teachers, num_labels]`.

        Raises `InvalidValue` for files of bits, which do not hold the shares.
        """
        files = self._vote_files()
        self._require_confidences()
        return np.concatenate(
            [
                self._for_all_labels(vote_file.label_shares(), holders_file=vote_file)
                for vote_file in files
            ]
        )

    def known_shares(self) -> FloatArray | None:
        """Returns the share of each teacher's records that know each label, `[num_teachers, num_labels]`.

        None means that labels have no gaps. Raises `InvalidValue` for files of bits, which do not hold the shares.
        """
        if not self.have_gaps:
            return None
        files = self._vote_files()
        self._require_confidences()
        return np.concatenate(
            [
                self._for_all_labels(
                    _values_or_ones(vote_file.known_shares(), vote_file=vote_file),
                    holders_file=vote_file,
                )
                for vote_file in files
            ]
        )

    def _require_confidences(self) -> None:
        """Raises `InvalidValue` for files of bits, which hold no shares of records."""
        cast = self.heads[0].cast
        rule = "vote files of pate-vote cast=confidences, which hold what a prevalence is released from"
        require(
            cast != "bits",
            "cast",
            cast,
            f"{rule}; or aggregator.prevalence_share=0 for a public center",
        )

    def _label_indices(self, holders_file: HoldersFile) -> IntArray:
        """Returns the index among `label_names` of each label of a file, in the file's order."""
        index_of = {name: index for index, name in enumerate(self.label_names)}
        return np.array([index_of[name] for name in holders_file.label_names], dtype=np.int64)

    def _for_all_labels(self, values: NDArray[Any], *, holders_file: HoldersFile) -> NDArray[Any]:
        """Returns values for all labels, `[..., num_labels]`, from values for the labels of a file.

        Labels that the file lacks get 0.

        Args:
            values: values whose last axis is that of the file's labels.
            holders_file: the file.
        """
        if holders_file.label_names == self.label_names:
            return values
        united = np.zeros((*values.shape[:-1], self.num_labels), dtype=values.dtype)
        united[..., self._label_indices(holders_file)] = values
        return united

    def in_rounds(
        self,
        *,
        noise_multiplier: float,
        least_directions: int = 0,
        recipe: Recipe = DEFAULT_RECIPE,
    ) -> RoundVotes | None:
        """Raises `InvalidValue`, since files hold votes that were cast once."""
        self._vote_files()
        rule = (
            "aggregator.rounds=1, one cast, as vote files hold; rounds ask each "
            "holder again: roll=, or pate_federated"
        )
        raise InvalidValue("aggregator.rounds", rule=rule)

    def accuracies(self, true_labels: BoolArray, known: BoolArray | None = None) -> FloatArray:
        """Returns the share of right bits of each teacher with a bit to judge, `[m]`; see `VoteSource.accuracies`.

        Returns an empty array if a file holds a sum.
        """
        return np.zeros(0) if self._are_sums else super().accuracies(true_labels, known)

    def counts(self, max_votes: int | None = None) -> IntArray:
        """Returns the counts of votes, `[num_queries, num_labels]`.

        Args:
            max_votes: the largest number of votes of a teacher on a query; None for all.

        Raises:
            InvalidValue: a file holds a sum, and its votes were cast with a larger limit or with none.
        """
        if max_votes is not None and self._are_sums:
            clip = self.heads[0].vote_clip
            rule = f"sums of votes that were cast with vote_clip={max_votes}"
            require(clip is not None and clip <= max_votes, "vote_clip", clip, rule)
            max_votes = None
        return super().counts(max_votes)

    def _counted(self, max_votes: int | None) -> IntArray:
        """Returns the counts of votes, `[num_queries, num_labels]`.

        Packed bits are added without unpacking where no vote needs a check or a limit.

        Args:
            max_votes: the largest number of votes of a teacher on a query; None for all.
        """
        bit_sums = BitSums(num_queries=self.num_queries, bytes_per_query=-(-self.num_labels // 8))
        total = np.zeros((self.num_queries, self.num_labels), dtype=np.int64)
        for holders_file in self.holders_files:
            if isinstance(holders_file, SumFile):
                total += self._for_all_labels(holders_file.counts(), holders_file=holders_file)
            elif (
                isinstance(holders_file, VoteFile)
                and max_votes is None
                and self._can_add_packed(holders_file)
            ):
                for block in VoteStore.open(holders_file.path).packed_blocks():
                    for packed_row in block:
                        bit_sums.add(packed_row)
            elif isinstance(holders_file, VoteFile):
                for bits in holders_file.bits():
                    votes: BoolArray = self._for_all_labels(bits, holders_file=holders_file)
                    total += histogram(
                        votes
                        if max_votes is None
                        else limit_votes(vote_block=votes, max_votes=max_votes)
                    )
        return total + bit_sums.counts(num_labels=self.num_labels)

    def _can_add_packed(self, vote_file: VoteFile) -> bool:
        """Returns True if the packed bytes of a file can be added as they are, because its bits need no check.

        Such a file has all labels in the order of `label_names` and no `vote_clip`; each teacher votes on each label.
        """
        head = vote_file.manifest
        return (
            vote_file.label_names == self.label_names
            and head.vote_clip is None
            and not head.have_gaps
        )

    def write(self, path: Path | str) -> SumFile:
        """Writes the counts of all votes to one file of sums, and returns the file."""
        counts = self.counts()
        has_gaps = any(head.have_gaps for head in self.heads)
        return SumFile.write(
            path,
            heads=tuple(
                self._head_with_all_labels(head, own_label_names=own_label_names)
                for head, own_label_names in zip(self.heads, self.labels_of_holders, strict=True)
            ),
            counts=counts,
            record_ids=self.record_ids,
            label_names=self.label_names,
            abstaining=self.num_abstaining() - self.num_without_label() if has_gaps else None,
        )

    def _head_with_all_labels(
        self, head: VoteManifest, *, own_label_names: tuple[str, ...]
    ) -> VoteManifest:
        """Returns a holder's head for a file that has the labels of all holders.

        Its `known_labels` are the labels that the holder has, or None if the holder has all.

        Args:
            head: the head in the holder's own file.
            own_label_names: the labels that the holder has.
        """
        if set(own_label_names) == set(self.label_names):
            return replace(head, known_labels=None)
        return replace(head, num_labels=self.num_labels, known_labels=own_label_names)


def _values_or_ones(values: NDArray[Any] | None, *, vote_file: VoteFile) -> NDArray[Any]:
    """Returns values for each teacher and label of a file unchanged; if they are None, returns ones in their place.

    The shape is `[num_teachers, num_labels]` of the file.
    """
    num_teachers, _, num_labels = vote_file.manifest.shape
    return np.ones((num_teachers, num_labels)) if values is None else values
