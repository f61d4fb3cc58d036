"""Files that holders send: vote files of one holder, and files with the sum of the votes of several holders."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import PrivacyUnit
from pate.array_types import BoolArray, Float32Array, FloatArray, IntArray
from pate.files.archives import (
    form_of,
    holds_member,
    read_member,
    read_rows,
    reading,
    write_member,
    write_rows,
)
from pate.files.arrays import is_array_file
from pate.files.atomic import atomic_write
from pate.files.reading import damaged
from pate.files.strict_json import from_json, to_json_line
from pate.validation import require, require_choice, require_count, require_entries, require_text
from pate.votes.vote_store import BLOCK_BYTES, VoteStore, blocks_of_shape, write_votes

# a function that yields the votes of teachers 0, 1, … anew, `[c, Q, L]` a block
Blocks = Callable[[], Iterable[NDArray[Any]]]

# the forms of votes: a bit for each label of each query, or a confidence in [0, 1] as well
CASTS = ("bits", "confidences")
# The version of the file.
_FORMAT = 1
# The number of hexadecimal digits of a SHA-256.
_NUM_DIGITS = 64
# the number of bytes at the beginning of an .npy file that tell what it is
_NUM_FIRST_BYTES = 6
_RULE = "a whole vote file, as pate-vote writes it"
_REMEDY = "ask its holder for it again: the same pate-vote command writes the same file"
_SUM_RULE = "a whole file of sums, as pate-release sum=FILE writes it"
_SUM_REMEDY = "ask for it again: the same pate-release command writes the same file"
# The fields of a manifest that a file without gaps lacks, and their values there.
_OF_GAPS = {"known_labels": None, "have_gaps": False}


@dataclass(frozen=True, kw_only=True)
class VoteManifest:
    """The head of a vote file: the statements of a holder about its votes.

    The holder vouches for the numbers of its records and of their groups. The head has no digest of the records, since
    anybody could use a digest to check a guess of the records.
    """

    holder: str  # the name of the holder, which no other holder of the release has
    queries: str  # `queries_digest` of the samples
    num_teachers: int  # the number of the holder's teachers
    num_queries: int  # the number of queries, Q
    num_labels: int  # the number of labels, L
    num_records: int  # the number of private records that the teachers were dealt
    # the number of units of privacy in these records; each unit is with one teacher
    num_groups: int
    cast: str = "bits"  # one of `CASTS`
    # the most labels of a query that a teacher votes for, where votes were clipped; None for all
    vote_clip: int | None = None
    dataset: str = "votes"  # the public name of the data set
    real: bool = True  # False for synthetic records
    # the origin of features of pictures or texts, see `Preprocessing.origin`; public
    features: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    # the public settings of teachers and features, as YAML by group
    settings: Mapping[str, str] = field(default_factory=dict)
    format: int = _FORMAT
    unit: PrivacyUnit | None = None  # the unit of privacy; None in a file of an earlier version
    # the names of the labels that the holder has, where `num_labels` counts those of other holders, too; None for all
    known_labels: tuple[str, ...] | None = None
    have_gaps: bool = False  # whether labels of single records may be unknown

    def __post_init__(self) -> None:
        require_text("holder", self.holder)
        require(
            self.format == _FORMAT,
            "format",
            self.format,
            f"{_FORMAT}, the version that this package reads",
        )
        is_digest = len(self.queries) == _NUM_DIGITS and set(self.queries) <= set(
            "0123456789abcdef"
        )
        require(is_digest, "queries", "another text", "a SHA-256 in hexadecimal")
        for name in ("num_teachers", "num_queries", "num_labels", "num_records", "num_groups"):
            require_count(name, getattr(self, name))
        require_choice("cast", self.cast, CASTS)
        if self.vote_clip is not None:
            require_count("vote_clip", self.vote_clip)
        require(
            self.num_teachers <= self.num_groups,
            "num_teachers",
            self.num_teachers,
            "at most num_groups",
        )
        require(
            self.num_groups <= self.num_records,
            "num_groups",
            self.num_groups,
            "at most num_records",
        )
        require_text("dataset", self.dataset)
        for name in self.known_labels or ():
            require_text("known_labels", name)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of all votes, (num_teachers, num_queries, num_labels)."""
        return self.num_teachers, self.num_queries, self.num_labels

    def to_text(self) -> str:
        """Returns the manifest as one line of JSON; equal manifests have equal texts.

        The fields on gaps in labels are left out where there are none.
        """
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        for name in _OF_GAPS:
            if values[name] == _OF_GAPS[name]:
                del values[name]
        return to_json_line(values)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Returns the manifest in a text that `to_text` made; raises `InvalidValue` for a text that is no manifest."""
        return from_json(cls, text, name="manifest")


@dataclass(frozen=True, eq=False)
class HoldersFile:
    """A file with votes of one or more holders. No epsilon covers the votes, so only the aggregator may have the file.

    Attributes:
        path: the file.
        heads: the statements of each holder.
        record_ids: `[num_queries]`, whole numbers or texts, the public names of the queries.
        label_names: the name of each label.
    """

    path: Path
    heads: tuple[VoteManifest, ...]
    record_ids: NDArray[Any]
    label_names: tuple[str, ...]

    @property
    def manifest(self) -> VoteManifest:
        """The first head of the file; all its heads have the same queries and the same number of labels."""
        return self.heads[0]

    def labels_of(self, head: VoteManifest) -> tuple[str, ...]:
        """Returns the names of the labels that the holder with this head has; public."""
        return self.label_names if head.known_labels is None else head.known_labels

    def _require_labels(self, rule: str, remedy: str) -> None:
        """Raises `DamagedFile` if a name of a label comes twice, or a head has a label that the file lacks.

        Args:
            rule: what the file should be, for the message.
            remedy: the advice in the message.
        """
        are_distinct = len(set(self.label_names)) == len(self.label_names)
        labels_of_heads = [name for head in self.heads for name in self.labels_of(head)]
        if not are_distinct or not set(labels_of_heads) <= set(self.label_names):
            finding = "a label twice, or labels that its votes lack"
            raise damaged(self.path, rule=rule, finding=finding, remedy=remedy)


class VoteFile(HoldersFile):
    """A file with the votes of one holder.

    The file is an .npz with the arrays of a `VoteStore` (`packed`, `num_labels`), the `manifest` as JSON, and the
    public `record_ids` and `label_names`. For votes that were cast as confidences there are two more arrays.
    `confidences` is float32 `[num_teachers, num_queries, num_labels]`. `label_shares` is float64 `[num_teachers,
    num_labels]`, the share of each teacher's records with each label. Equal votes give equal bytes.

    If labels of the records have gaps (`VoteManifest.have_gaps`), there is one array more. With bits it is `voting`,
    bool `[num_teachers, num_labels]`: whether a teacher has a record that knows the label, and so votes on it. With
    confidences it is `known_shares`, float64 of this shape: the share of its records that know the label. A teacher's
    bits are 0 where it does not vote.
    """

    @classmethod
    def write(
        cls,
        path: Path | str,
        manifest: VoteManifest,
        *,
        yield_bits: Blocks,
        record_ids: NDArray[Any],
        label_names: tuple[str, ...],
        yield_confidences: Blocks | None = None,
        label_shares: FloatArray | None = None,
        known_shares: FloatArray | None = None,
    ) -> VoteFile:
        """Writes a vote file of mode 0600, and returns it.

        The file appears when it is complete. A file of the same name is replaced.

        Args:
            path: the file to write.
            manifest: the head, which has the shape of the votes.
            yield_bits: a function that yields blocks of bits, `[num_teachers_in_block, num_queries, num_labels]`, which
                obey the head's `vote_clip`.
            record_ids: `[num_queries]`, the public names of the queries.
            label_names: the name of each label.
            yield_confidences: a function that yields blocks of float32 confidences in [0, 1]; None unless the head's
                `cast` is confidences.
            label_shares: `[num_teachers, num_labels]`, the share of each teacher's records that have each label; None
                unless the head's `cast` is confidences.
            known_shares: `[num_teachers, num_labels]`, the share of each teacher's records that know each label; None
                unless the head says that labels have gaps.

        Raises:
            InvalidValue: the votes have another shape or type than the head names, or exceed its `vote_clip`; or an
                array is missing or not needed.
        """
        num_teachers, num_queries, num_labels = manifest.shape
        require(
            len(record_ids) == num_queries,
            "len(record_ids)",
            len(record_ids),
            f"{num_queries}, one for each query",
        )
        require(
            len(label_names) == num_labels,
            "len(label_names)",
            len(label_names),
            f"{num_labels}, one for each label",
        )
        is_complete = (yield_confidences is not None and label_shares is not None) == (
            manifest.cast == "confidences"
        )
        require(
            is_complete,
            "cast",
            manifest.cast,
            "confidences and label shares where it says so, and only there",
        )
        have_gaps = known_shares is not None
        rule = "true where known_shares are given, and only there"
        require(manifest.have_gaps == have_gaps, "have_gaps", manifest.have_gaps, rule)
        with atomic_write(path) as opened_file, zipfile.ZipFile(opened_file, "w") as archive:
            write_member(archive, array_name="num_labels", array=np.array(num_labels, np.int64))
            write_member(archive, array_name="manifest", array=np.array(manifest.to_text()))
            write_member(archive, array_name="record_ids", array=np.asarray(record_ids))
            write_member(archive, array_name="label_names", array=np.array(label_names, np.str_))
            write_votes(
                archive,
                blocks=yield_bits(),
                votes_shape=manifest.shape,
                max_votes=manifest.vote_clip,
            )
            if known_shares is not None:
                name = "voting" if yield_confidences is None else "known_shares"
                known_share_array = np.asarray(known_shares, dtype="<f8")
                require(
                    known_share_array.shape == (num_teachers, num_labels),
                    f"{name}.shape",
                    known_share_array.shape,
                    f"[{num_teachers}, L]",
                )
                write_member(
                    archive,
                    array_name=name,
                    array=known_share_array > 0 if yield_confidences is None else known_share_array,
                )
            if yield_confidences is not None and label_shares is not None:
                label_share_array = np.asarray(label_shares, dtype="<f8")
                require(
                    label_share_array.shape == (num_teachers, num_labels),
                    "label_shares.shape",
                    label_share_array.shape,
                    f"[{num_teachers}, L]",
                )
                write_member(archive, array_name="label_shares", array=label_share_array)
                write_rows(
                    archive,
                    array_name="confidences",
                    array_shape=manifest.shape,
                    dtype_text="<f4",
                    row_blocks=blocks_of_shape(
                        blocks=yield_confidences(), votes_shape=manifest.shape
                    ),
                )
        return cls(
            Path(path),
            heads=(manifest,),
            record_ids=np.asarray(record_ids),
            label_names=tuple(label_names),
        )

    @classmethod
    def open(cls, path: Path | str) -> VoteFile:
        """Returns the vote file at a path, once its head and the shape of its votes are checked.

        The votes themselves are checked by `bits` and `confidences`.
        """
        with reading(path, rule=_RULE, remedy=_REMEDY) as vote_archive:
            manifest = VoteManifest.from_text(
                str(read_member(vote_archive, array_name="manifest", dtype_kinds="U"))
            )
            record_ids = read_member(vote_archive, array_name="record_ids", dtype_kinds="iuU")
            label_name_array = read_member(vote_archive, array_name="label_names", dtype_kinds="U")
        store = VoteStore.open(path)
        shapes = (
            (store.num_teachers, store.num_queries, store.num_labels),
            record_ids.shape,
            label_name_array.shape,
        )
        is_sound = shapes == (manifest.shape, (manifest.num_queries,), (manifest.num_labels,))
        if not is_sound or manifest.known_labels is not None:
            raise damaged(
                path,
                rule=_RULE,
                finding="votes of another shape than its head says",
                remedy=_REMEDY,
            )
        vote_file = cls(
            Path(path),
            heads=(manifest,),
            record_ids=record_ids,
            label_names=tuple(label_name_array.tolist()),
        )
        vote_file._require_labels(rule=_RULE, remedy=_REMEDY)
        return vote_file

    def bits(self) -> Iterator[BoolArray]:
        """Yields blocks of bits in the order of the teachers, `[num_teachers_in_block, num_queries, num_labels]`.

        Raises `DamagedFile` for votes that exceed the head's clip, or on labels on which a teacher does not vote.
        """
        clip = self.manifest.vote_clip
        voting = self.voting()
        first = 0
        for block in VoteStore.open(self.path).blocks():
            if voting is not None:
                # a vote that also counted as an abstention would move a count by more than 1
                if (block & ~voting[first : first + len(block), None]).any():
                    raise damaged(
                        self.path,
                        rule=_RULE,
                        finding="votes of teachers that do not vote",
                        remedy=_REMEDY,
                    )
                first += len(block)
            if clip is not None and (np.count_nonzero(block, axis=-1) > clip).any():
                raise damaged(
                    self.path,
                    rule=_RULE,
                    finding=f"more than vote_clip={clip} labels of a query",
                    remedy=_REMEDY,
                )
            yield block

    def confidences(self) -> Iterator[Float32Array]:
        """Yields blocks of float32 confidences in the order of the teachers.

        The shape of a block is `[num_teachers_in_block, num_queries, num_labels]`. The file must have confidences.
        """
        shape = self.manifest.shape
        rows_per_block = max(1, BLOCK_BYTES // (4 * shape[1] * shape[2]))
        with reading(self.path, rule=_RULE, remedy=_REMEDY) as archive:
            if form_of(archive, array_name="confidences", dtype_kinds="f") != (
                shape,
                np.dtype("<f4"),
            ):
                raise ValueError("confidences of another shape than the head says")
            for block in read_rows(
                archive, array_name="confidences", rows_per_block=rows_per_block, dtype_kinds="f"
            ):
                if not ((block >= 0) & (block <= 1)).all():  # NaN is neither
                    raise damaged(
                        self.path, rule=_RULE, finding="confidences beyond [0, 1]", remedy=_REMEDY
                    )
                yield block

    def label_shares(self) -> FloatArray:
        """Returns the share of each teacher's records with each label, `[num_teachers, num_labels]`.

        The file must have confidences.
        """
        return np.asarray(self._array_of_teachers("label_shares", dtype_kind="f"), dtype=np.float64)

    def known_shares(self) -> FloatArray | None:
        """Returns the share of each teacher's records that know each label, `[num_teachers, num_labels]`.

        None means that labels have no gaps. The file must have confidences.
        """
        if not self.manifest.have_gaps:
            return None
        return np.asarray(self._array_of_teachers("known_shares", dtype_kind="f"), dtype=np.float64)

    def voting(self) -> BoolArray | None:
        """Returns which teachers vote on which labels, bool `[num_teachers, num_labels]`; None without gaps."""
        if not self.manifest.have_gaps:
            return None
        if self.manifest.cast == "confidences":
            return np.asarray(self._array_of_teachers("known_shares", dtype_kind="f") > 0)
        return np.asarray(self._array_of_teachers("voting", dtype_kind="b"), dtype=np.bool_)

    def _array_of_teachers(self, array_name: str, *, dtype_kind: str) -> NDArray[Any]:
        """Returns an array of the file with a number in [0, 1] for each label of each teacher.

        The shape is `[num_teachers, num_labels]`. Raises `DamagedFile` for another shape or other numbers.
        """
        with reading(self.path, rule=_RULE, remedy=_REMEDY) as archive:
            values = read_member(archive, array_name=array_name, dtype_kinds=dtype_kind)
        teachers, _, labels = self.manifest.shape
        if values.shape != (teachers, labels) or not ((values >= 0) & (values <= 1)).all():
            words = array_name.replace("_", " ")
            raise damaged(
                self.path,
                rule=_RULE,
                finding=f"{words} of another shape, or beyond [0, 1]",
                remedy=_REMEDY,
            )
        return values


class SumFile(HoldersFile):
    """A file with the counts of the votes of several holders, for each label of each query.

    The file is an .npz with `sum_heads` (the manifest of each holder, as JSON), `record_ids`, `label_names`, and
    `counts` `[num_queries, num_labels]`. The counts have the smallest unsigned integer type that holds the number of
    teachers. Equal sums give equal bytes.

    If holders have different labels, their heads say which (`VoteManifest.known_labels`). If labels of records have
    gaps, there is one array more: `abstaining`, int64 `[num_labels]`, the number of teachers who do not vote on a label
    that their holder has.
    """

    @property
    def num_teachers(self) -> int:
        """The number of teachers of all holders in the sum."""
        return sum(head.num_teachers for head in self.heads)

    @property
    def have_gaps(self) -> bool:
        """Whether labels of single records may be unknown at a holder; public."""
        return any(head.have_gaps for head in self.heads)

    @classmethod
    def write(
        cls,
        path: Path | str,
        heads: tuple[VoteManifest, ...],
        counts: IntArray,
        *,
        record_ids: NDArray[Any],
        label_names: tuple[str, ...],
        abstaining: IntArray | None = None,
    ) -> Self:
        """Writes a file of sums of mode 0600, and returns it.

        The file appears when it is complete. A file of the same name is replaced.

        Args:
            path: the file to write.
            heads: the statements of each holder.
            counts: `[num_queries, num_labels]`.
            record_ids: `[num_queries]`, the public names of the queries.
            label_names: the name of each label.
            abstaining: `[num_labels]`, the number of teachers who do not vote on a label that their holder has; None
                unless labels of records have gaps.
        """
        file_of_sums = cls(
            Path(path),
            heads=tuple(heads),
            record_ids=np.asarray(record_ids),
            label_names=tuple(label_names),
        )
        dtype = np.min_scalar_type(file_of_sums.num_teachers)
        with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
            write_member(
                archive,
                array_name="sum_heads",
                array=np.array([head.to_text() for head in file_of_sums.heads], np.str_),
            )
            write_member(archive, array_name="record_ids", array=file_of_sums.record_ids)
            write_member(
                archive, array_name="label_names", array=np.array(file_of_sums.label_names, np.str_)
            )
            if abstaining is not None:
                write_member(archive, array_name="abstaining", array=abstaining.astype(np.int64))
            write_member(
                archive,
                array_name="counts",
                array=file_of_sums._require_possible(counts).astype(dtype),
            )
        return file_of_sums

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Returns the file of sums at a path, once its heads and the shape of its counts are checked.

        The counts themselves are checked by `counts`.
        """
        with reading(path, rule=_SUM_RULE, remedy=_SUM_REMEDY) as archive:
            heads, label_name_array = (
                read_member(archive, array_name=name, dtype_kinds="U")
                for name in ("sum_heads", "label_names")
            )
            record_ids = read_member(archive, array_name="record_ids", dtype_kinds="iuU")
            manifests = tuple(VoteManifest.from_text(text) for text in heads.tolist())
            shape, _ = form_of(archive, array_name="counts", dtype_kinds="u")
        is_sound = len(manifests) > 0 and shape == (len(record_ids), len(label_name_array))
        if not is_sound or any((head.num_queries, head.num_labels) != shape for head in manifests):
            raise damaged(
                path,
                rule=_SUM_RULE,
                finding="counts of another shape than its heads say",
                remedy=_SUM_REMEDY,
            )
        sum_file = cls(
            path=Path(path),
            heads=manifests,
            record_ids=record_ids,
            label_names=tuple(label_name_array.tolist()),
        )
        sum_file._require_labels(rule=_SUM_RULE, remedy=_SUM_REMEDY)
        return sum_file

    def counts(self) -> NDArray[np.unsignedinteger[Any]]:
        """Returns the counts, `[num_queries, num_labels]`.

        Raises `InvalidValue` if one is above the number of teachers that vote on the label.
        """
        with reading(self.path, rule=_SUM_RULE, remedy=_SUM_REMEDY) as archive:
            counts = self._require_possible(
                read_member(archive, array_name="counts", dtype_kinds="u")
            )
        most_counts = self._num_teachers_with_label(vote_heads=self.heads) - self.abstaining()
        require_entries(
            "counts", counts <= most_counts, rule="at most the teachers that vote on the label"
        )
        return counts

    def abstaining(self) -> IntArray:
        """Returns the number of teachers who do not vote on each label though their holder has it, `[num_labels]`."""
        if not self.have_gaps:
            return np.zeros(len(self.label_names), dtype=np.int64)
        with reading(self.path, rule=_SUM_RULE, remedy=_SUM_REMEDY) as archive:
            num_abstaining = read_member(archive, array_name="abstaining", dtype_kinds="i")
        rule = "for each label at most the teachers of holders whose labels have gaps"
        require(
            num_abstaining.shape == (len(self.label_names),),
            "abstaining.shape",
            num_abstaining.shape,
            rule,
        )
        heads_with_gaps = tuple(head for head in self.heads if head.have_gaps)
        most = self._num_teachers_with_label(vote_heads=heads_with_gaps)
        require_entries("abstaining", (num_abstaining >= 0) & (num_abstaining <= most), rule)
        return num_abstaining.astype(np.int64)

    def _num_teachers_with_label(self, *, vote_heads: tuple[VoteManifest, ...]) -> IntArray:
        """Returns the number of teachers whose holder has each label, among these holders, `[num_labels]`."""
        label_sets = [self.labels_of(head) for head in vote_heads]
        return teachers_with_label(self.label_names, label_sets=label_sets, heads=vote_heads)

    def _require_possible(self, counts: NDArray[Any]) -> NDArray[Any]:
        """Returns counts unchanged; raises `InvalidValue` if one is below 0 or above the number of teachers."""
        are_possible = (counts <= self.num_teachers) & (counts >= 0)
        require_entries(
            "counts",
            are_possible,
            rule=f"at most {self.num_teachers}, the teachers that are in them",
        )
        return counts


def teachers_with_label(
    label_names: tuple[str, ...],
    label_sets: Iterable[tuple[str, ...]],
    heads: Iterable[VoteManifest],
) -> IntArray:
    """Returns the number of teachers whose holder has each label, `[num_labels]`; public.

    Args:
        label_names: the names of all labels.
        label_sets: the names of the labels of each holder.
        heads: the head of each holder, which states the number of its teachers.
    """
    index_of = {name: index for index, name in enumerate(label_names)}
    numbers = np.zeros(len(label_names), dtype=np.int64)
    for names, head in zip(label_sets, heads, strict=True):
        numbers[[index_of[name] for name in names]] += head.num_teachers
    return numbers


def is_vote_file(path: Path | str) -> bool:
    """Returns True for a file with a manifest of `pate-vote`, even if the file is damaged."""
    return holds_member(path, array_name="manifest")


def is_sum_file(path: Path | str) -> bool:
    """Returns True for a file with sums of `pate-release`, even if the file is damaged."""
    return holds_member(path, array_name="sum_heads")


def is_whole_archive(path: Path) -> bool:
    """Returns True for an .npy file, or for a zip archive that is not cut off; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            return is_array_file(first_bytes=file.read(_NUM_FIRST_BYTES)) or zipfile.is_zipfile(
                path
            )
    except OSError:
        return False
