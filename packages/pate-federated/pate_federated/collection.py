"""The collection of vote files from holders, the votes of absent teachers, and the release of a collection."""

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
from pate.errors import InvalidValue
from pate.files.disk import damaged, file_digest, make_folder, read_value, replacing, write_text
from pate.files.strict_json import to_json
from pate.progress import Monitor
from pate.run.places import Places
from pate.run.votes_release import ReleasePlan, Terms, release_votes
from pate.validation import require
from pate.votes.counts import Bits
from pate.votes.moment_votes import RoundVotes
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.source import TeacherVotes, VoteSource
from pate.votes.weighted import Array
from pate_federated.cohorts import cohort_of_votes
from pate_federated.gathered_votes import GatheredVotes
from pate_federated.question import (
    HEADS,
    Contribution,
    Request,
    Roll,
    counted,
    expected,
    require_head,
)
from pate_federated.vote_file import VoteFile


class AbsentVotes(TeacherVotes):
    """The votes of present teachers, with constant votes of absent teachers: T stays the roll's number of teachers.

    Absent teachers vote for no label, or for the first label where every teacher has exactly one vote.

    Formal guarantee: under replace-one a teacher may change to any votes, and so to constant ones. The price of the
    release does not depend on absences, unless records decide them (docs/proofs/distributed_noise.md, "Absent
    holders").
    """

    def __init__(self, present: GatheredVotes, num_absent: int, *, first_label: bool) -> None:
        self.present = present
        self.num_absent = num_absent
        self.first_label = first_label
        self.num_teachers = present.num_teachers + num_absent
        self.records_per_teacher = present.records_per_teacher
        self.num_queries = present.num_queries
        self.num_labels = present.num_labels

    def bits(self) -> Iterator[Bits]:
        """Yields the votes of present teachers, and constant ones of absent teachers."""
        yield from self.present.bits()
        yield from self._constant(np.dtype(np.bool_))

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Yields the confidences of present teachers, and constant ones of absent teachers."""
        for block in self.present.confidences():
            yield block
        yield from self._constant(block.dtype)

    def label_shares(self) -> Array:
        """Returns the label shares of present teachers, and zeros for absent teachers, `[T, L]`."""
        return np.concatenate(
            [self.present.label_shares(), np.zeros((self.num_absent, self.num_labels))]
        )

    def in_rounds(
        self, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> RoundVotes | None:
        """Returns the votes of present teachers as they are cast in rounds."""
        return self.present.in_rounds(noise_multiplier=noise_multiplier, recipe=recipe)

    def _constant(self, dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
        one_teacher = np.zeros((1, self.num_queries, self.num_labels), dtype=dtype)
        one_teacher[:, :, 0] = self.first_label
        yield from [one_teacher] * self.num_absent


@dataclass(frozen=True, eq=False)
class Collection:
    """The vote files that were collected for one release.

    Attributes:
        roll: the holders that were expected.
        files: the votes that count, one file for each present holder, by name.
        refused: a line for each holder whose votes do not count, by name; strangers share one line.
    """

    roll: Roll
    files: Mapping[str, VoteFile]
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def absent(self) -> tuple[str, ...]:
        """The names of the holders without a file."""
        return tuple(name for name in self.roll.holders if name not in self.files)

    def require_enough(self) -> None:
        """Raises `InvalidValue` where more holders are absent than the roll's `max_absent`."""
        self.roll.require_enough(self.files, self.refused, "ask again, or raise max_absent")

    def gathered(self) -> GatheredVotes:
        """Returns the votes of all files as one source."""
        return GatheredVotes(list(self.files.values()))

    def source(self, aggregator: Aggregator) -> VoteSource:
        """Returns the votes of all T teachers, as an aggregator reads them.

        Teachers of absent holders vote for no label, or for the first label where an aggregator releases one label. So
        an absence is one of the replacements that the price covers. Raises `InvalidValue` where too many holders are
        absent, and under add/remove for an aggregator that reads more than counts.
        """
        self.require_enough()
        votes = self.gathered()
        missing = self.roll.num_teachers - votes.num_teachers
        if missing == 0:
            return votes
        if aggregator.adjacency is Adjacency.ADD_REMOVE and not aggregator.reads_counts:
            rule = "replace_one where holders are absent: a teacher that says nothing is not one that is missing"
            raise InvalidValue("adjacency", "add_remove", rule=f"{rule}; or max_absent=0")
        return AbsentVotes(votes, missing, first_label=aggregator.single_label)


def collect(
    roll: Roll, request: Request, contributions: Iterable[Contribution], folder: Path | str
) -> Collection:
    """Checks every answer, and writes the votes that count to a file for each holder.

    Votes count by the rules of `counted`, where they are whole, answer this request, come from the roll's number of
    teachers, and keep to the request's clip. A teacher's vote on a label of a query is 0 or 1, whatever a holder sends.
    So a holder moves a release by no more than its own teachers do.

    Args:
        roll: the holders that are expected.
        request: the queries.
        contributions: the answers, in any order.
        folder: the folder of the files HOLDER.npz, of mode 0700.
    """
    folder = make_folder(folder)
    files, refused = counted(
        roll, contributions, lambda holder, votes: _kept(holder, votes, roll, request, folder)
    )
    return Collection(roll, files, refused)


def _kept(holder: str, votes: bytes, roll: Roll, request: Request, folder: Path) -> VoteFile:
    """Writes an answer to a file and returns the file; raises `InvalidValue` unless the answer counts."""
    path = folder / f"{holder}.npz"
    num_teachers = roll.holders[holder]
    a_label = 4 if request.cast == "confidences" else 0
    most = num_teachers * request.num_labels * (request.num_queries * (a_label + 1) + 8)
    most += 2 * request.record_ids.nbytes + 4096 * request.num_labels + HEADS
    with (
        expected("votes", "a whole vote file, as pate-vote writes it"),
        zipfile.ZipFile(io.BytesIO(votes)) as archive,
    ):
        size = sum(max(member.file_size, member.compress_size) for member in archive.infolist())
    require(size <= most, "size", size, f"at most {most} bytes, which such votes take")
    with replacing(path) as written:
        written.write(votes)
    try:
        file = VoteFile.open(path)
        require_head(
            file.manifest,
            request.digest,
            num_queries=request.num_queries,
            num_labels=request.num_labels,
            cast=request.cast,
            vote_clip=request.vote_clip,
            holder=holder,
            num_teachers=num_teachers,
        )
        is_same = (
            file.record_ids.tolist() == request.record_ids.tolist()
            and file.label_names == request.label_names
        )
        require(is_same, "record_ids and label_names", "others", "those that were asked")
        for _ in file.bits():
            pass  # reading a block checks it
        if file.manifest.cast == "confidences":
            file.label_shares()
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
_MARKER = "collected.json"


@dataclass(frozen=True)
class _Collected:
    """The content of `collected.json`: the mark of a complete collection."""

    queries: str  # the digest of the request
    sha256: Mapping[str, str]  # the digest of each file that counts, by holder
    refused: Mapping[str, str] = field(default_factory=dict)  # a line for each refused holder


@dataclass(frozen=True, kw_only=True)
class FederatedRelease:
    """The server's release of holders' votes, whatever carries the messages."""

    plan: ReleasePlan  # the plan of the release
    roll: Roll  # the holders that are expected
    request: Request  # the queries
    inbox: Path  # the folder for votes, of mode 0700; no epsilon covers the votes
    output_dir: Path  # the folder of the release, of which `release/` may be published

    def run(
        self, ask: Callable[[], Iterable[Contribution]], monitor: Monitor | None = None
    ) -> Terms:
        """Collects votes, or reads the votes of an earlier call, and releases them.

        Holders are asked until one collection is complete. Later calls read this collection, so a server that was
        killed continues with the same votes, charges nothing a second time, and makes the same release.

        Args:
            ask: sends the request to all holders, and returns their answers.
            monitor: is told of progress, and of refused answers.

        Raises `InvalidValue`, before anything is charged, where too many holders are absent, and for all that
        `release_votes` refuses.
        """
        monitor = monitor or Monitor()
        if not os.path.lexists(self.inbox / _MARKER):
            make_folder(self.inbox)
            collection = collect(self.roll, self.request, ask(), self.inbox)
            collection.require_enough()
            digests = {
                name: file_digest(file.path, remedy=_REMEDY)
                for name, file in collection.files.items()
            }
            collected = _Collected(self.request.digest, digests, collection.refused)
            write_text(self.inbox / _MARKER, to_json(collected) + "\n")
        else:
            collection = self._kept()
        for line in collection.refused.values():
            monitor.say(line)
        source = collection.source(self.plan.aggregator)
        cohort = replace(
            cohort_of_votes(collection.gathered()), places=Places.from_holders(self.roll.holders)
        )
        return release_votes(self.plan, source, cohort, self.output_dir, monitor)

    def _kept(self) -> Collection:
        """Reads the collection of an earlier call; raises `DamagedFile` where a file of votes has changed."""
        rule = "what was collected for a release"
        stored = read_value(
            _Collected, self.inbox / _MARKER, name="collected", rule=rule, remedy=_REMEDY
        )
        rule = "those of the request; take another inbox for another request"
        require(stored.queries == self.request.digest, "inbox, queries", "others", rule)
        files = {}
        for name, digest in stored.sha256.items():
            path = self.inbox / f"{name}.npz"
            if file_digest(path, remedy=_REMEDY) != digest:
                raise damaged(path, "the votes as they came", "others", _REMEDY)
            files[name] = VoteFile.open(path)
        return Collection(self.roll, files, stored.refused)
