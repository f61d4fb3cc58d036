"""The collection of vote files from holders, the votes of absent teachers, and the release of the collected votes."""

import io
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency
from pate.aggregators import Aggregator
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.errors import InvalidValue
from pate.files.atomic import atomic_write, write_text
from pate.files.digests import file_digest
from pate.files.paths import make_folder
from pate.files.reading import damaged, read_value
from pate.files.strict_json import to_json
from pate.progress import Monitor
from pate.run.places import Places
from pate.run.votes_release import ReleasePlan, Terms, release_votes
from pate.validation import require
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.round_votes import RoundVotes
from pate.votes.source import TeacherVotes, VoteSource
from pate_federated.cohorts import cohort_of_votes
from pate_federated.gathered_votes import GatheredVotes
from pate_federated.question import (
    HEADS,
    Contribution,
    Request,
    Roll,
    refusing_unreadable,
    require_head,
    valid_answers,
)
from pate_federated.vote_file import VoteFile

# The room for the name of a label in a vote file, in bytes.
_MAX_LABEL_BYTES = 4096


class AbsentVotes(TeacherVotes):
    """The votes of all teachers on a roll: those of present teachers, and constant votes for absent teachers.

    An absent teacher votes for no label, or for the first label if every teacher has to vote for one label. So the
    number of teachers is that of the roll.

    Formal guarantee: under replace-one, the votes of a teacher may change to any others, also to constant votes. So the
    price of the release does not depend on absences, unless private records decide which holders are absent
    (docs/proofs/distributed_noise.md, "Absent holders").
    """

    def __init__(
        self, present_votes: GatheredVotes, num_absent_teachers: int, *, picks_first_label: bool
    ) -> None:
        self.present_votes = present_votes
        self.num_absent_teachers = num_absent_teachers
        self.picks_first_label = picks_first_label
        self.num_teachers = present_votes.num_teachers + num_absent_teachers
        self.records_per_teacher = present_votes.records_per_teacher
        self.num_queries = present_votes.num_queries
        self.num_labels = present_votes.num_labels

    def bits(self) -> Iterator[BoolArray]:
        """Yields blocks of bits of the present teachers, and then of the absent teachers.

        The shape of a block is `[num_teachers_in_block, num_queries, num_labels]`.
        """
        yield from self.present_votes.bits()
        yield from self._blocks_of_absent(dtype=np.dtype(np.bool_))

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Yields blocks of confidences of the present teachers, and then of the absent teachers.

        The shape of a block is `[num_teachers_in_block, num_queries, num_labels]`.
        """
        dtype = np.dtype(np.float32)
        for block in self.present_votes.confidences():
            dtype = block.dtype
            yield block
        yield from self._blocks_of_absent(dtype=dtype)

    def label_shares(self) -> FloatArray:
        """Returns the label shares of all teachers, `[num_teachers, num_labels]`, with zeros for absent teachers."""
        return self._with_zeros_of_absent(self.present_votes.label_shares())

    def known_shares(self) -> FloatArray | None:
        """Returns the share of each teacher's records that know each label, with zeros for absent teachers.

        The shape is `[num_teachers, num_labels]`. None means that labels have no gaps.
        """
        known_shares = self.present_votes.known_shares()
        return None if known_shares is None else self._with_zeros_of_absent(known_shares)

    def voting(self) -> BoolArray | None:
        """Returns which teachers vote on which labels, bool `[num_teachers, num_labels]`; absent teachers vote on none.

        None means that labels have no gaps, and that all teachers, absent ones too, vote on all labels.
        """
        voting_mask = self.present_votes.voting()
        return None if voting_mask is None else self._with_zeros_of_absent(voting_mask)

    def num_without_label(self) -> IntArray:
        """Returns the number of present teachers whose holder lacks each label, `[num_labels]`; public."""
        return self.present_votes.num_without_label()

    def in_rounds(
        self,
        *,
        noise_multiplier: float,
        least_directions: int = 0,
        recipe: Recipe = DEFAULT_RECIPE,
    ) -> RoundVotes | None:
        """Raises `InvalidValue`, since vote files hold votes that were cast once."""
        return self.present_votes.in_rounds(
            noise_multiplier=noise_multiplier, least_directions=least_directions, recipe=recipe
        )

    def _with_zeros_of_absent(self, present_values: NDArray[Any]) -> NDArray[Any]:
        """Returns values of the present teachers, followed by zeros for the absent ones, `[num_teachers, num_labels]`.

        Args:
            present_values: `[num_present, num_labels]`.
        """
        absent_zeros = np.zeros(
            (self.num_absent_teachers, self.num_labels), dtype=present_values.dtype
        )
        return np.concatenate([present_values, absent_zeros])

    def _blocks_of_absent(self, *, dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
        """Yields the constant votes of each absent teacher, `[1, num_queries, num_labels]` of the type `dtype`."""
        one_teacher = np.zeros((1, self.num_queries, self.num_labels), dtype=dtype)
        one_teacher[:, :, 0] = self.picks_first_label
        yield from [one_teacher] * self.num_absent_teachers


@dataclass(frozen=True, eq=False)
class Collection:
    """The vote files that were collected for one release.

    Attributes:
        roll: the expected holders.
        files: the file of valid votes of each present holder, by the holder's name.
        label_names: the name of each label of the request.
        refused: the reason for each holder without valid votes, by name; senders that are not on the roll share one
            reason.
    """

    roll: Roll
    files: Mapping[str, VoteFile]
    label_names: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def absent(self) -> tuple[str, ...]:
        """The names of the holders without valid votes."""
        return tuple(name for name in self.roll.holders if name not in self.files)

    def require_enough(self) -> None:
        """Raises `InvalidValue` if more holders are absent than the roll's `max_absent`."""
        self.roll.require_enough(
            present_holders=self.files.keys(),
            refusal_reasons=self.refused,
            remedy="ask again, or raise max_absent",
        )

    def gathered(self) -> GatheredVotes:
        """Returns the votes of all files as one vote source."""
        return GatheredVotes(holders_files=list(self.files.values()), label_names=self.label_names)

    def source(self, aggregator: Aggregator) -> VoteSource:
        """Returns the votes of all teachers on the roll, those of absent holders included.

        A teacher of an absent holder votes for no label, or for the first label if the aggregator releases one label.
        The price does not depend on absences, unless private records decide which holders are absent.

        Raises:
            InvalidValue: too many holders are absent, or some are and the aggregator reads more than counts under
                add/remove.
        """
        self.require_enough()
        votes = self.gathered()
        num_absent_teachers = self.roll.num_teachers - votes.num_teachers
        if num_absent_teachers == 0:
            return votes
        if aggregator.adjacency is Adjacency.ADD_REMOVE and not aggregator.reads_counts:
            rule = "replace_one where holders are absent: a teacher that says nothing is not one that is missing"
            raise InvalidValue("adjacency", "add_remove", rule=f"{rule}; or max_absent=0")
        return AbsentVotes(
            present_votes=votes,
            num_absent_teachers=num_absent_teachers,
            picks_first_label=aggregator.single_label,
        )


def collect(
    roll: Roll, request: Request, unchecked_answers: Iterable[Contribution], folder: Path | str
) -> Collection:
    """Checks every answer, and writes the valid votes of each holder to a file.

    Votes are valid by the rules of `valid_answers`, if they are complete, answer this request, come from the roll's
    number of teachers, and obey the request's clip. A teacher's vote on a label of a query is 0 or 1, or a confidence
    in [0, 1], whatever a holder sends. So a holder moves a release by no more than its own teachers could.

    Args:
        roll: the expected holders.
        request: the queries.
        unchecked_answers: the answers as they arrived, in any order.
        folder: the folder for the files HOLDER.npz, of mode 0700.
    """
    folder = make_folder(folder)
    vote_file_of_holder, refusal_reasons = valid_answers(
        roll,
        unchecked_answers,
        read_answer=lambda holder, vote_bytes: _write_valid_votes(
            vote_bytes, holder=holder, roll=roll, request=request, folder=folder
        ),
    )
    return Collection(
        roll=roll,
        files=vote_file_of_holder,
        label_names=request.label_names,
        refused=refusal_reasons,
    )


def _largest_size(request: Request, *, num_teachers: int) -> int:
    """Returns an upper bound on the size in bytes of a holder's vote file, unpacked.

    Args:
        request: the queries, and whether bits or confidences are cast.
        num_teachers: the number of the holder's teachers.
    """
    bytes_per_vote = 1 + (4 if request.cast == "confidences" else 0)  # a bit has a byte at most
    votes = num_teachers * request.num_queries * request.num_labels * bytes_per_vote
    label_and_known_shares = num_teachers * request.num_labels * 2 * 8
    record_ids = 2 * request.record_ids.nbytes  # another kind of number may take twice the room
    return (
        votes + label_and_known_shares + record_ids + _MAX_LABEL_BYTES * request.num_labels + HEADS
    )


def _write_valid_votes(
    vote_bytes: bytes, *, holder: str, roll: Roll, request: Request, folder: Path
) -> VoteFile:
    """Writes the answer of a holder to a file and returns the file; raises `InvalidValue` if it is not valid."""
    path = folder / f"{holder}.npz"
    num_teachers = roll.holders[holder]
    # The sizes are added up before anything is unpacked, because a small archive may unpack to a full disk.
    with (
        refusing_unreadable(name="votes", rule="a whole vote file, as pate-vote writes it"),
        zipfile.ZipFile(io.BytesIO(vote_bytes)) as archive,
    ):
        size = sum(max(member.file_size, member.compress_size) for member in archive.infolist())
    max_size = _largest_size(request, num_teachers=num_teachers)
    require(size <= max_size, "size", size, f"at most {max_size} bytes, which such votes take")
    with atomic_write(path) as opened_file:
        opened_file.write(vote_bytes)
    try:
        file = VoteFile.open(path)
        require_head(
            file.manifest,
            queries_digest=request.digest,
            num_queries=request.num_queries,
            cast=request.cast,
            vote_clip=request.vote_clip,
            holder=holder,
            num_teachers=num_teachers,
        )
        num_labels = file.manifest.num_labels
        rule = f"at most {request.num_labels}"
        require(num_labels <= request.num_labels, "num_labels", num_labels, rule)
        has_queries = file.record_ids.tolist() == request.record_ids.tolist()
        has_labels = set(file.label_names) <= set(request.label_names)
        rule = "those that were asked"
        require(has_queries and has_labels, "record_ids and label_names", "others", rule)
        for _ in file.bits():
            pass  # reading a block checks it
        if file.manifest.cast == "confidences":
            file.label_shares()
            file.known_shares()
            for _ in file.confidences():
                pass
    except InvalidValue as error:
        os.unlink(path)
        if error.name != "file":
            raise
        # the file is gone, and its name says nothing to the holder
        raise InvalidValue("votes", rule=error.rule) from error
    return file


_REMEDY = "remove the inbox, and holders are asked again"
# The name of the file that marks a finished collection.
_MARKER = "collected.json"


@dataclass(frozen=True)
class _CollectedFiles:
    """The content of `collected.json`, which marks a collection as complete.

    Attributes:
        queries: the digest of the queries.
        sha256: the SHA-256 of each holder's file, by the holder's name.
        refused: the reason for each holder without valid votes, by name.
    """

    queries: str
    sha256: Mapping[str, str]
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FederatedRelease:
    """The server's release of votes that holders send, for any transport of the messages.

    Attributes:
        plan: the plan of the release.
        roll: the expected holders.
        request: the queries.
        inbox: the folder for the holders' vote files, of mode 0700; no epsilon covers the votes.
        output_dir: the folder of the release; its `release/` may be published.
    """

    plan: ReleasePlan
    roll: Roll
    request: Request
    inbox: Path
    output_dir: Path

    def run(
        self, ask_holders: Callable[[], Iterable[Contribution]], monitor: Monitor | None = None
    ) -> Terms:
        """Collects the holders' votes and releases them.

        Each call asks the holders until one collection was complete. Later calls read this collection. So a server that
        was killed continues with the same votes, charges nothing a second time, and makes the same release.

        Args:
            ask_holders: sends the request to all holders and returns their answers.
            monitor: displays the progress and the refused answers; None for no display.

        Raises:
            InvalidValue: too many holders are absent, or `release_votes` refuses the release. Nothing is charged then.
        """
        monitor = monitor or Monitor()
        if not os.path.lexists(self.inbox / _MARKER):
            make_folder(self.inbox)
            collection = collect(
                self.roll, request=self.request, unchecked_answers=ask_holders(), folder=self.inbox
            )
            collection.require_enough()
            digest_of_holder = {
                holder: file_digest(file.path, remedy=_REMEDY)
                for holder, file in collection.files.items()
            }
            refusal_reasons = collection.refused
            collected_files = _CollectedFiles(
                queries=self.request.digest, sha256=digest_of_holder, refused=refusal_reasons
            )
            write_text(self.inbox / _MARKER, text=to_json(collected_files) + "\n")
        else:
            collection = self._read_collection()
        for line in collection.refused.values():
            monitor.say(line)
        vote_source = collection.source(self.plan.aggregator)
        cohort = replace(
            cohort_of_votes(collection.gathered()), places=Places.from_holders(self.roll.holders)
        )
        return release_votes(
            self.plan,
            vote_source=vote_source,
            cohort=cohort,
            output_dir=self.output_dir,
            monitor=monitor,
        )

    def _read_collection(self) -> Collection:
        """Returns the collection of votes that an earlier call of `run` completed in the inbox.

        Raises `DamagedFile` if a vote file was changed, and `InvalidValue` if it is for another request.
        """
        rule = "what was collected for a release"
        stored = read_value(
            _CollectedFiles, self.inbox / _MARKER, name="collected", rule=rule, remedy=_REMEDY
        )
        rule = "those of the request; take another inbox for another request"
        require(stored.queries == self.request.digest, "inbox, queries", "others", rule)
        vote_file_of_holder = {}
        for holder, digest in stored.sha256.items():
            path = self.inbox / f"{holder}.npz"
            if file_digest(path, remedy=_REMEDY) != digest:
                raise damaged(path, rule="the votes as they came", finding="others", remedy=_REMEDY)
            vote_file_of_holder[holder] = VoteFile.open(path)
        refusal_reasons = stored.refused
        return Collection(
            roll=self.roll,
            files=vote_file_of_holder,
            label_names=self.request.label_names,
            refused=refusal_reasons,
        )
