"""Votes that were collected from holders, with those who are absent, and the release of them."""

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
    """Votes with those of absent teachers, who say the same of every query. T stays what the roll says.

    Formal guarantee: under replace-one a teacher may change to any votes, and so to these. Whoever is absent, the price
    of the release is the same, where records do not decide it (docs/proofs/distributed_noise.md, "Absent holders").

    Absent teachers vote for nothing, or for the first label, where every teacher has exactly one vote.
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
        """Absent teachers have records without labels."""
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
    """What was collected for one release.

    Attributes:
        roll: who was expected.
        files: the votes that count, one file for each holder that is present.
        refused: a line for each holder whose votes do not count, by name, and for strangers.
    """

    roll: Roll
    files: Mapping[str, VoteFile]
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def absent(self) -> tuple[str, ...]:
        """The holders that sent no file."""
        return tuple(name for name in self.roll.holders if name not in self.files)

    def require_enough(self) -> None:
        """Raises `InvalidValue` where more holders are absent than the roll allows."""
        self.roll.require_enough(self.files, self.refused, "ask again, or raise max_absent")

    def gathered(self) -> GatheredVotes:
        """Returns the votes of all files together."""
        return GatheredVotes(list(self.files.values()))

    def source(self, aggregator: Aggregator) -> VoteSource:
        """The votes of all T teachers, as an aggregator reads them.

        Teachers of absent holders vote for nothing, or for the first label where an aggregator releases one label. So
        an absence is one of the replacements that the price covers. Raises `InvalidValue` where too many are absent,
        and for an aggregator whose price is for teachers that come and go, and that reads more than counts.
        """
        self.require_enough()
        votes = self.gathered()
        if not (missing := self.roll.num_teachers - votes.num_teachers):
            return votes
        if aggregator.adjacency is Adjacency.ADD_REMOVE and not aggregator.reads_counts:
            rule = "replace_one where holders are absent: a teacher that says nothing is not one that is missing"
            raise InvalidValue("adjacency", "add_remove", rule=f"{rule}; or max_absent=0")
        return AbsentVotes(votes, missing, first_label=aggregator.single_label)


def collect(
    roll: Roll, request: Request, contributions: Iterable[Contribution], folder: Path | str
) -> Collection:
    """Looks at every answer and keeps those that count, each in a file of its own.

    Votes count as `counted` says, where they are whole, answer this request, come from as many teachers as the roll
    says, and keep to its clip. Whatever a holder sends, its teachers' votes on each label of each query are
    0 or 1: it can move a release by what its own teachers are worth, and by no more.

    Args:
        roll: who is expected.
        request: what was asked.
        contributions: what came, in any order.
        folder: of mode 0700, where the files go, as HOLDER.npz.
    """
    folder = make_folder(folder)
    files, refused = counted(
        roll, contributions, lambda holder, votes: _kept(holder, votes, roll, request, folder)
    )
    return Collection(roll, files, refused)


def _kept(holder: str, votes: bytes, roll: Roll, request: Request, folder: Path) -> VoteFile:
    """The file of an answer that counts; that of any other is removed again."""
    path = folder / f"{holder}.npz"
    num_teachers = roll.holders[holder]
    a_label = 4 if request.cast == "confidences" else 0
    most = num_teachers * request.num_labels * (request.num_queries * (a_label + 1) + 8)
    most += 2 * request.record_ids.nbytes + 4096 * request.num_labels + HEADS
    with (
        expected("votes", "a whole vote file, as pate-vote writes it"),
        zipfile.ZipFile(io.BytesIO(votes)) as archive,
    ):
        size = sum(max(info.file_size, info.compress_size) for info in archive.infolist())
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
            pass  # which checks them
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
    queries: str  # digest of the request
    sha256: Mapping[str, str]  # of each file that counts, by holder
    refused: Mapping[str, str] = field(default_factory=dict)  # lines, by holder


@dataclass(frozen=True, kw_only=True)
class FederatedRelease:
    """Everything that the server does, whatever carries the messages."""

    plan: ReleasePlan  # what is released
    roll: Roll  # who is expected
    request: Request  # what is asked
    inbox: Path  # the folder for votes, of mode 0700; no epsilon covers it
    output_dir: Path  # the folder of the release; of it `release/` may be published

    def run(
        self, ask: Callable[[], Iterable[Contribution]], monitor: Monitor | None = None
    ) -> Terms:
        """Collects votes, or takes those that were collected before, and releases them.

        `ask` sends the request to all holders and gives what came back. Holders are asked until one collection is
        complete. From then on it stays what it is, so a server that was killed goes on with the same votes, charges
        nothing a second time and gives the same release. Raises `InvalidValue` where too many holders are absent, and
        for whatever `release_votes` refuses: nothing was charged then.
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
            cohort_of_votes(collection.gathered()), places=Places.of(self.roll.holders)
        )
        return release_votes(self.plan, source, cohort, self.output_dir, monitor)

    def _kept(self) -> Collection:
        """What was collected before."""
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
