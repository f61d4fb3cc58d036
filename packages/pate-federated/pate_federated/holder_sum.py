"""A holder's part in a secure sum of the counts of all holders' teachers."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pate.aggregators.thresholds import threshold_votes
from pate.array_types import FloatArray
from pate.errors import InvalidValue
from pate.files.atomic import write_text
from pate.files.lock import file_lock
from pate.files.reading import FROM_BACKUP, read_text
from pate.mechanisms import secret_generator
from pate.validation import require, require_count
from pate_federated.distributed_votes import DistributedVotes
from pate_federated.gathered_votes import GatheredVotes
from pate_federated.question import Request
from pate_federated.sum_terms import SumTerms
from pate_federated.vote_casting import HolderPlan
from pate_federated.vote_file import VoteFile

# The name of the file that locks the notes of a holder.
_LOCK = "notes.lock"


@dataclass(frozen=True)
class HolderSum:
    """A holder's part in a secure sum. The holder chooses these settings itself; the server cannot change them.

    Attributes:
        terms: the terms of the sum.
        noise: the aggregator whose noise the holder shares; None where the server reads the sum and adds noise.
        seed: the seed of the holder's noise, for tests; anybody who knows it counts as a colluder. None for secret
            noise from the operating system.
        max_answers: the largest number of requests that the holder answers with noise; each answer is a release with
            its own price.
    """

    terms: SumTerms
    noise: DistributedVotes | None = None
    seed: int | None = None
    max_answers: int = 1

    def __post_init__(self) -> None:
        require_count("max_answers", self.max_answers)

    def numbers(
        self, plan: HolderPlan, request: Request, vote_path: Path, folder: Path
    ) -> FloatArray:
        """Returns the numbers that a holder adds to a sum, `[num_queries, num_labels]`.

        Without noise these are the counts of its teachers' votes. With noise they are the counts in steps, plus its
        share of the noise, plus the constant of `threshold_votes` for labels that it lacks. With noise, a request is
        answered only once. Two sums over different sets of holders would disclose the counts of one holder by their
        difference.

        Args:
            plan: the holder's plan.
            request: the queries.
            vote_path: the file of the holder's votes.
            folder: the folder in which answered requests are noted.

        Raises:
            InvalidValue: the votes exceed the terms; or, with noise, the request has another `vote_clip` than the noise
                is for, was answered before, or is one more than `max_answers`.
        """
        vote_file = VoteFile.open(vote_path)
        own_votes = GatheredVotes(holders_files=[vote_file], label_names=request.label_names)
        own_counts = own_votes.counts()
        if self.noise is None:
            return self.terms.require_sendable(own_counts)
        max_votes = self.noise.max_votes
        require(
            request.vote_clip == max_votes,
            "vote_clip",
            request.vote_clip,
            f"max_votes={max_votes} of the agreed noise",
        )
        self._note_answer(request, note_folder=folder)
        rng = (
            secret_generator()
            if self.seed is None
            else np.random.default_rng([self.seed, *plan.holder.encode()])
        )
        noisy_counts = self.noise.contribution(
            own_counts, num_teachers=vote_file.manifest.num_teachers, rng=rng
        )
        # as in `DistributedVotes.summarize`: a public constant for labels that this holder lacks
        num_teachers_without_label = own_votes.num_without_label()
        constant_votes = threshold_votes(
            num_teachers_without_label, threshold_share=self.noise.threshold_share
        )
        noisy_counts += constant_votes * self.noise.shares.steps
        return self.terms.require_sendable(noisy_counts)

    def _note_answer(self, request: Request, *, note_folder: Path) -> None:
        """Notes in a folder that a request is answered, before anything is sent.

        Raises `InvalidValue` if the request was answered before, or if it is one more than `max_answers`.
        """
        note_path = note_folder / f"answered-{request.digest}"
        with file_lock(note_folder / _LOCK):
            # `lexists` works in a folder that may not be listed, too.
            if os.path.lexists(note_path):
                rule = (
                    "a request that was not answered before: a second noisy sum is a second release"
                )
                raise InvalidValue("request", rule=rule)
            num_others = len(list(note_folder.glob("answered-*")))
            rule = f"at most {self.max_answers}, the max_answers of this holder"
            require(
                num_others < self.max_answers, "requests answered with noise", num_others + 1, rule
            )
            write_text(note_path, text="")


def write_first_note(note_path: Path, note_text: str) -> str | None:
    """Writes a text to a file and returns None; if the file exists already, returns its text and writes nothing.

    A lock makes the call safe for concurrent processes.
    """
    with file_lock(note_path.parent / _LOCK):
        if os.path.lexists(note_path):
            return read_text(note_path, remedy=FROM_BACKUP)
        write_text(note_path, note_text)
    return None
