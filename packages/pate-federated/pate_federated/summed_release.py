"""Releases of sums over the teachers of all holders, in one secure sum or in rounds, over a network or by files.

In a secure sum the server never reads the votes of a single holder. With distributed noise the server also reads no sum
without noise. Server and holders agree on the terms of a sum (`SumTerms`). Large numbers are split into digits that fit
these terms (`Limbs`). The class `HolderSum` runs at the holder. The classes `SummedRelease` and `RoundsOfHolders` run
at the server.
"""

import hashlib
import math
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from pate.aggregators.thresholds import threshold_votes
from pate.array_types import Float32Array, FloatArray, IntArray
from pate.errors import InvalidValue
from pate.files.arrays import ArrayForm, Arrays, read_arrays, write_arrays
from pate.files.atomic import atomic_write, write_text
from pate.files.lock import file_lock
from pate.files.paths import is_regular, make_folder
from pate.files.reading import FROM_BACKUP, read_text, read_value
from pate.files.strict_json import to_json
from pate.mechanisms import secret_generator
from pate.progress import Monitor
from pate.run.cohort import Cohort
from pate.run.places import Places
from pate.run.queries import queries_digest
from pate.run.trained_votes import NUM_ASKED
from pate.run.votes_release import ReleasePlan, Terms, release_votes
from pate.threads import all_cores
from pate.validation import require, require_count
from pate.votes.arrays import CountedVotes
from pate.votes.clipping import ClippedSum
from pate.votes.label_shares import ShareSums
from pate.votes.public_pca import PublicPCA, affordable_directions
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.round_votes import RoundQuestion, RoundVotes
from pate.votes.source import VotesInRounds, VoteSource
from pate_federated.cohorts import cohort_of_heads
from pate_federated.distributed_votes import DistributedVotes
from pate_federated.gathered_votes import GatheredVotes
from pate_federated.noisy_sum import NoisySum, Total
from pate_federated.question import (
    LENGTHS,
    MOMENTS,
    SHARES,
    Contribution,
    Question,
    Request,
    Roll,
    SumAnswer,
    require_head,
    valid_answers,
)
from pate_federated.vote_casting import HolderPlan
from pate_federated.vote_file import VoteFile, VoteManifest

# Secure sums are computed modulo this number.
MODULUS = 2**32
# The smallest number of holders among which a key may be divided, unless it is divided among all.
_MIN_SHARES = 21
# The largest probability that a sum cannot be opened, since too many shares of a key are with absent holders.
_MAX_FAILURE_PROB = 1e-3
# A share of the noise is taken to be at most so many standard deviations. Larger ones have probability below 10**-340.
_MAX_DEVIATIONS = 40
# The name of the file that locks the notes of a holder.
_LOCK = "notes.lock"


@dataclass(frozen=True, kw_only=True)
class SumTerms:
    """The terms of a secure sum, on which the server and all holders agree beforehand.

    Secure aggregation adds numbers modulo 2**32. The numbers of a holder lie in -largest_number..largest_number and are
    sent without rounding. The sum is exact, since `num_holders * 2 * largest_number` must be below 2**32.

    Attributes:
        num_holders: n, the number of holders.
        max_absent: d, the largest number of absent holders, >= 1; a sum over fewer than n - d holders is refused.
        largest_number: the largest absolute value of a number that a holder sends.
        shares: k, the number of shares of each key, odd. A holder divides its keys among itself and k - 1 others,
            chosen at random, and two thirds of them can open its part. None divides a key among all n holders, of whom
            n - d can open a part. Then not even the server can open a sum over fewer holders.
    """

    num_holders: int
    max_absent: int
    largest_number: int
    shares: int | None = None

    def __post_init__(self) -> None:
        require_count("num_holders", self.num_holders, minimum=3)
        rule = "1 or more with secure aggregation, in which all holders but one can open a sum"
        require(self.max_absent >= 1, "max_absent", self.max_absent, rule)
        half = (self.num_holders - 1) // 2
        rule = f"at most {half}, fewer than half: else a server opens single holders by telling half that one is absent"
        require(self.max_absent <= half, "max_absent", self.max_absent, rule)
        require_count("largest_number", self.largest_number)
        room = (MODULUS - 1) // (2 * self.num_holders)
        rule = f"at most {room}, so that the sum of {self.num_holders} holders stays below 2**32"
        require(self.largest_number <= room, "largest_number", self.largest_number, rule)
        if self.shares is not None:
            require_count("shares", self.shares, minimum=_MIN_SHARES)
            rule = f"an odd number below num_holders={self.num_holders}"
            require(
                self.shares % 2 == 1 and self.shares < self.num_holders, "shares", self.shares, rule
            )
            # a union bound over holders: too many of a holder's shares are with absent holders (hypergeometric tail)
            max_absent_shares = self.num_shares - self.threshold
            failure_prob_of_key = hypergeom.sf(
                k=max_absent_shares, M=self.num_holders, n=self.max_absent, N=self.num_shares
            )
            failure_prob = float(self.num_holders * failure_prob_of_key)
            rule = (
                f"more: with max_absent={self.max_absent} a sum could not be opened with probability "
                f"{failure_prob:.1g}"
            )
            require(failure_prob <= _MAX_FAILURE_PROB, "shares", self.shares, rule)

    @classmethod
    def of_counts(cls, roll: Roll, shares_per_key: int | None = None) -> Self:
        """Returns the terms for a sum of the counts of all holders; `shares_per_key` is the field `shares`."""
        largest_number = max(roll.holders.values())
        return cls(
            num_holders=len(roll.holders),
            max_absent=roll.max_absent,
            largest_number=largest_number,
            shares=shares_per_key,
        )

    @classmethod
    def of_noise(cls, aggregator: DistributedVotes, roll: Roll) -> Self:
        """Returns the terms for a sum of counts to which each holder adds a share of the noise.

        Raises:
            InvalidValue: the aggregator has another number of holders or dropouts than the roll, or too many colluders.
        """
        num_holders = len(roll.holders)
        require(
            aggregator.num_holders == num_holders,
            "aggregator.num_holders",
            aggregator.num_holders,
            f"{num_holders}, as the roll says",
        )
        require(
            aggregator.max_dropouts == roll.max_absent,
            "aggregator.max_dropouts",
            aggregator.max_dropouts,
            f"{roll.max_absent}, as the roll says",
        )
        colluders = aggregator.max_colluders
        spare = len(roll.holders) - 2 * roll.max_absent
        rule = f"less than {spare}: with max_absent={roll.max_absent} so many open single holders"
        require(colluders < spare, "aggregator.max_colluders", colluders, rule)
        reach = math.ceil(_MAX_DEVIATIONS * math.sqrt(aggregator.shares.share_variance))
        largest_number = aggregator.shares.steps * max(roll.holders.values()) + reach
        return cls(
            num_holders=len(roll.holders), max_absent=roll.max_absent, largest_number=largest_number
        )

    @classmethod
    def of_digits(cls, roll: Roll, shares_per_key: int | None = None) -> Self:
        """Returns the terms for all secure sums in rounds, with the largest digits that fit.

        `shares_per_key` is the field `shares`.
        """
        num_holders = len(roll.holders)
        largest_number = 2 ** (((MODULUS - 1) // (2 * num_holders)).bit_length() - 1)
        return cls(
            num_holders=num_holders,
            max_absent=roll.max_absent,
            largest_number=largest_number,
            shares=shares_per_key,
        )

    @property
    def least(self) -> int:
        """The smallest number of holders over which a sum is made, n - d."""
        return self.num_holders - self.max_absent

    @property
    def num_shares(self) -> int:
        """The number of holders among which a key is divided: `shares`, or all holders if that is None."""
        return self.num_holders if self.shares is None else self.shares

    @property
    def threshold(self) -> int:
        """The number of shares from which a holder's key can be reconstructed: two thirds of `shares`, or n - d."""
        return self.least if self.shares is None else -(-2 * self.shares // 3)

    def require_sendable(self, numbers: IntArray) -> FloatArray:
        """Returns whole numbers as floats of the same values.

        Raises `InvalidValue` if one is larger in size than `largest_number`.
        """
        if np.abs(numbers).max(initial=0) > self.largest_number:
            raise InvalidValue(
                "counts", rule=f"numbers of at most {self.largest_number}, the terms of the sum"
            )
        return numbers.astype(np.float64)

    def exact_sum(self, average: Any, num_present: int) -> IntArray:
        """Returns the sum of the holders' whole numbers, computed from their average.

        Args:
            average: the average that Flower returns.
            num_present: the number of holders in the average.

        Raises:
            InvalidValue: there are too few or too many holders; or the sum is not whole or too large, so that some
                holder used other terms.
        """
        rule = f"{self.least} to {self.num_holders}, of holders={self.num_holders} with max_absent={self.max_absent}"
        require(self.least <= num_present <= self.num_holders, "holders present", num_present, rule)
        scaled = np.asarray(average, dtype=np.float64) * num_present
        total = np.rint(scaled)
        if not (
            (np.abs(scaled - total) < 1e-3) & (np.abs(total) <= self.largest_number * num_present)
        ).all():
            raise InvalidValue(
                "sum", rule="whole numbers within the terms; some holder kept to others"
            )
        return total.astype(np.int64)


@dataclass(frozen=True)
class Limbs:
    """The digits of whole numbers that are too large for a secure sum: x = sum over i of digit_i 2**(bits i).

    The last digit has the sign of x. A secure sum adds the holders' digits place by place, and the sums of the digits
    give the exact sum of the numbers. The sums of digits disclose a little more than the sum of the numbers: the number
    of times that lower digits overflowed, over all holders.

    Attributes:
        terms: the terms of the secure sum.
        bits_per_digit: the number of bits of a digit.
        num_digits: the number of digits of a number.
    """

    terms: SumTerms
    bits_per_digit: int
    num_digits: int

    @classmethod
    def of(cls, question: Question, roll: Roll, shares_per_key: int | None = None) -> Self:
        """Returns the form of digits, large enough in number for the answer of any holder to a question.

        The holder with the most teachers needs the most. `shares_per_key` is the field `shares` of `SumTerms`.
        """
        terms = SumTerms.of_digits(roll, shares_per_key=shares_per_key)
        bits_per_digit = terms.largest_number.bit_length() - 1
        largest = 1 if question.kind == LENGTHS else math.ceil(question.reach)
        num_bits = (largest * max(roll.holders.values())).bit_length() + 1
        return cls(
            terms=terms,
            bits_per_digit=bits_per_digit,
            num_digits=max(1, -(-num_bits // bits_per_digit)),
        )

    def split(self, numbers: IntArray) -> IntArray:
        """Returns the digits of whole numbers in base 2**bits, the lowest digit first, `[count, ...]`.

        All digits but the last lie in 0..2**bits - 1. The last digit has the sign of the number.
        """
        shifted = [
            numbers.astype(np.int64) >> (self.bits_per_digit * digit)
            for digit in range(self.num_digits)
        ]
        return np.stack(
            [*(share & (2**self.bits_per_digit - 1) for share in shifted[:-1]), shifted[-1]]
        )

    def join(self, digits: IntArray) -> IntArray:
        """Returns the whole numbers `[...]` that have the digits `[count, ...]`, the lowest digit first."""
        powers = 2 ** (self.bits_per_digit * np.arange(self.num_digits, dtype=np.int64))
        return np.tensordot(powers, digits.astype(np.int64), axes=1)


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
        self._note_answer(request, folder=folder)
        rng = (
            secret_generator()
            if self.seed is None
            else np.random.default_rng([self.seed, *plan.holder.encode()])
        )
        noisy_counts = self.noise.contribution(
            own_counts, num_teachers=vote_file.manifest.num_teachers, rng=rng
        )
        # as in `DistributedVotes.summarize`: a public constant for labels that this holder lacks
        constant_votes = threshold_votes(
            own_votes.num_without_label(), threshold_share=self.noise.threshold_share
        )
        noisy_counts += constant_votes * self.noise.shares.steps
        return self.terms.require_sendable(noisy_counts)

    def _note_answer(self, request: Request, *, folder: Path) -> None:
        """Notes in a folder that a request is answered, before anything is sent.

        Raises `InvalidValue` if the request was answered before, or if it is one more than `max_answers`.
        """
        note_path = folder / f"answered-{request.digest}"
        with file_lock(folder / _LOCK):
            if os.path.lexists(
                note_path
            ):  # `lexists` works in a folder that may not be listed, too
                rule = (
                    "a request that was not answered before: a second noisy sum is a second release"
                )
                raise InvalidValue("request", rule=rule)
            num_others = len(list(folder.glob("answered-*")))
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


_REMEDY = "restore it from a backup; without noise, remove it and holders are asked again"
_LATER = f"{FROM_BACKUP}: later questions were asked about what was released of it"
# A larger file of a sum is refused, as some files would unpack without end.
_MAX_UNPACKED_BYTES = 2**36

# a sum such as `[Q, L]`, and the names of its holders
Summed = tuple[IntArray, tuple[str, ...]]


def _read_or_make_sum(
    sum_path: Path,
    *,
    shape: tuple[int | None, ...],
    make_sum: Callable[[], Summed],
    remedy: str,
    request_digest: str | None = None,
) -> Arrays:
    """Returns the arrays `total` and `holders` in the file of a sum; if there is no file, makes the sum and writes it.

    Args:
        sum_path: the file.
        shape: the expected shape of the sum, with None for any size of an axis.
        make_sum: makes the sum and returns it with the names of its holders.
        remedy: the advice in the message for a damaged file.
        request_digest: the digest of the request, which is written to the file as `asked`; None for no such array.
    """
    further_arrays = {} if request_digest is None else {"asked": np.array(request_digest)}
    if not os.path.lexists(sum_path):
        total, holders = make_sum()
        write_arrays(
            sum_path, total=total, holders=np.array(holders, dtype=np.str_), **further_arrays
        )
    forms = {
        "total": ArrayForm(dtype_kinds="i", shape=shape),
        "holders": ArrayForm(dtype_kinds="U", shape=(None,)),
    }
    return read_arrays(
        sum_path,
        forms=forms | dict.fromkeys(further_arrays, ArrayForm(dtype_kinds="U", shape=())),
        remedy=remedy,
        max_unpacked_bytes=_MAX_UNPACKED_BYTES,
    )


@dataclass(frozen=True, kw_only=True)
class SummedRelease:
    """The server's release of one secure sum, for any transport of the messages.

    With `DistributedVotes` the holders' sum is itself the release. So the ledger is charged before the holders are
    asked. Holders answer once. If the sum is lost afterwards, the release is refused and stays charged.

    Attributes:
        plan: the plan of the release, whose aggregator reads counts.
        roll: the expected holders.
        request: the queries.
        inbox: the folder for the sum, of mode 0700.
        output_dir: the folder of the release; its `release/` may be published.
        dataset: the public name of the holders' data. All charges for one name are in one account of the ledger.
        real: False for synthetic records.
        shares: the field `shares` of `SumTerms`. It must be None if holders share the noise, whose price depends on who
            can open the sum.
    """

    plan: ReleasePlan
    roll: Roll
    request: Request
    inbox: Path
    output_dir: Path
    dataset: str
    real: bool = True
    shares: int | None = None

    def __post_init__(self) -> None:
        if self.noise is not None:
            rule = "None: holders have agreed on the noise; pate-account solves for it"
            require(
                self.plan.target_epsilon is None, "target_epsilon", self.plan.target_epsilon, rule
            )
            clip = self.request.vote_clip
            most = self.noise.max_votes
            require(clip == most, "vote_clip", clip, f"max_votes={most} of the aggregator")
            rule = "None with distributed_votes: nobody may open a sum of fewer holders than its price counts on"
            require(self.shares is None, "shares", self.shares, rule)

    @property
    def noise(self) -> DistributedVotes | None:
        """The aggregator whose noise the holders share; None for an aggregator whose noise the server adds."""
        aggregator = self.plan.aggregator
        return aggregator if isinstance(aggregator, DistributedVotes) else None

    @property
    def terms(self) -> SumTerms:
        """The terms of the secure sum, of counts alone or of counts to which holders add shares of the noise."""
        noise = self.noise
        roll = self.roll
        return (
            SumTerms.of_counts(roll, shares_per_key=self.shares)
            if noise is None
            else SumTerms.of_noise(aggregator=noise, roll=roll)
        )

    def run(self, make_sum: Callable[[], Summed], monitor: Monitor | None = None) -> Terms:
        """Makes the sum once and releases it; continues a call that was killed.

        Args:
            make_sum: makes the sum and returns it with the names of its holders, for example by `flower.secure_sum`.
            monitor: displays the progress; None for no display.

        Raises:
            InvalidValue: too few holders answered, or `release_votes` refuses the release.
        """
        _ = self.terms
        make_folder(self.inbox)
        request = self.request
        places = Places.from_holders(self.roll.holders)
        vote_source: VoteSource

        def total_and_num_holders() -> Total:
            total_of_holders, holders = self.sum_in_inbox(make_sum)
            return total_of_holders, len(holders)

        if self.noise is not None:
            identity_text = repr(
                (request.digest, request.vote_clip, sorted(self.roll.holders.items()))
            )
            digest = hashlib.sha256(identity_text.encode()).hexdigest()
            vote_source = NoisySum(
                make_sum=total_and_num_holders,
                num_teachers=self.roll.num_teachers,
                num_queries=request.num_queries,
                num_labels=request.num_labels,
                digest=digest,
            )
        else:
            counted_votes = self.counted_votes(make_sum)
            summed_counts = np.ascontiguousarray(counted_votes.counts())
            digest = hashlib.sha256(b"summed votes" + summed_counts.tobytes()).hexdigest()
            vote_source = counted_votes
        cohort = Cohort(
            dataset_name=self.dataset,
            has_real_records=self.real,
            record_ids=request.record_ids,
            label_names=request.label_names,
            votes_digest=digest,
            queries_digest=request.digest,
            places=places,
        )
        return release_votes(
            self.plan,
            vote_source=vote_source,
            cohort=cohort,
            output_dir=self.output_dir,
            monitor=monitor,
        )

    def counted_votes(self, make_sum: Callable[[], Summed]) -> CountedVotes:
        """Returns a vote source with the counts over the teachers of all holders on the roll.

        A teacher of an absent holder votes for no label, or for the first label if the aggregator releases one label.

        Args:
            make_sum: makes the sum and returns it with the names of its holders, if the inbox has none.
        """
        summed_counts, holders = self.sum_in_inbox(make_sum)
        if self.plan.aggregator.single_label:
            summed_counts[:, 0] += sum(
                count for name, count in self.roll.holders.items() if name not in holders
            )
        return CountedVotes(
            summed_counts, num_teachers=self.roll.num_teachers, max_votes=self.request.vote_clip
        )

    def sum_in_inbox(self, make_sum: Callable[[], Summed]) -> Summed:
        """Returns the sum in the inbox, with the names of its holders; if there is none, makes and writes it first."""
        sum_file = _read_or_make_sum(
            sum_path=self.inbox / "sum.npz",
            shape=(None, None),
            make_sum=make_sum,
            remedy=_REMEDY,
            request_digest=self.request.digest,
        )
        rule = "those of the request; take another inbox for another request"
        require(str(sum_file["asked"]) == self.request.digest, "inbox, queries", "others", rule)
        return sum_file["total"].astype(np.int64), tuple(sum_file["holders"].tolist())


@dataclass(frozen=True, eq=False)
class SumOfAnswers:
    """The sum of the holders' answers to one question.

    Attributes:
        total: the sum over the holders, int64, in steps.
        holders: the names of the holders in the sum.
        heads: the head of each holder's answer, by the holder's name; empty after a secure sum.
        refused: the reason for each holder that is not in the sum, by the holder's name; empty after a secure sum.
    """

    total: IntArray
    holders: tuple[str, ...]
    heads: Mapping[str, VoteManifest] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


# a function that has one question answered by all holders
Exchange = Callable[[Question], SumOfAnswers]


def sum_of_answers(
    roll: Roll, question: Question, unchecked_answers: Iterable[Contribution]
) -> SumOfAnswers:
    """Returns the sum of the valid answers to a question.

    An answer is valid by the rules of `valid_answers`, if it is complete and answers this question. An answer of a
    holder with k teachers must not be longer than k times `question.reach`. So a holder moves the sum by no more than
    its own teachers could.

    Args:
        roll: the expected holders.
        question: the question.
        unchecked_answers: the answers as they arrived, in any order.
    """

    def read_answer(holder: str, answer_bytes: bytes) -> SumAnswer:
        answer = SumAnswer.from_bytes(answer_bytes, question=question)
        require_head(
            answer.head,
            queries_digest=question.asked,
            holder=holder,
            num_teachers=roll.holders[holder],
            num_labels=question.num_labels,
        )
        question.require_possible(answer.total, num_teachers=roll.holders[holder])
        return answer

    answers, refusal_reasons = valid_answers(roll, unchecked_answers, read_answer=read_answer)
    total = sum(
        (answer.total for answer in answers.values()), np.zeros(question.shape, dtype=np.int64)
    )
    head_of_holder = {name: answer.head for name, answer in answers.items()}
    return SumOfAnswers(
        total=total, holders=tuple(answers), heads=head_of_holder, refused=refusal_reasons
    )


class AnswersAwaited(Exception):
    """An exception that ends a call: a question has been written for the holders, and too few answers have arrived.

    Attributes:
        question_file: the file of the question.
        answer_folder: the folder for the answers, in files HOLDER.npz.
        missing: the names of the holders without an answer.
    """

    def __init__(self, question_file: Path, answer_folder: Path, missing: tuple[str, ...]) -> None:
        super().__init__(f"{question_file}: {len(missing)} holders have not answered")
        self.question_file = question_file
        self.answer_folder = answer_folder
        self.missing = missing


@dataclass(frozen=True)
class Mailbox:
    """A transport of questions and answers by files.

    Questions are written to `questions/NAME.npz`, and answers are read from `answers/NAME/HOLDER.npz`.

    Attributes:
        folder: the folder of questions and answers, of mode 0700.
        roll: the expected holders.
        wait: whether to end the call while any answer is missing. If not, the call continues without up to
            `roll.max_absent` holders.
    """

    folder: Path
    roll: Roll
    wait: bool = True

    def __call__(self, question: Question) -> SumOfAnswers:
        """Writes the question, and returns the sum of the valid answers that have arrived.

        Raises `AnswersAwaited` if any is missing, or without `wait` if more than `roll.max_absent` are.
        """
        question_path = self.folder / "questions" / f"{question.name}.npz"
        answer_folder = self.folder / "answers" / question.name
        make_folder(question_path.parent)
        make_folder(answer_folder)
        if not os.path.lexists(question_path):
            with atomic_write(question_path) as file:
                file.write(question.to_bytes())
        path_of_holder = {path.stem: path for path in sorted(answer_folder.glob("*.npz"))}
        missing = tuple(holder for holder in self.roll.holders if holder not in path_of_holder)
        if len(missing) > (0 if self.wait else self.roll.max_absent):
            raise AnswersAwaited(
                question_file=question_path, answer_folder=answer_folder, missing=missing
            )
        most_bytes = question.most_bytes
        problem = f"expected a file of at most {most_bytes} bytes, as pate-vote writes it"

        def read_contribution(holder: str, path: Path) -> Contribution:
            """Reads the answer of a holder from a file.

            The answer has a problem and no votes if the name is not on the roll, or the file is too large or no file.
            """
            is_known = holder in self.roll.holders
            is_usual = is_known and is_regular(path) and path.stat().st_size <= most_bytes
            return Contribution(
                holder=holder, votes=path.read_bytes() if is_usual else None, problem=problem
            )

        unchecked_answers = [
            read_contribution(holder, path) for holder, path in path_of_holder.items()
        ]
        return sum_of_answers(self.roll, question=question, unchecked_answers=unchecked_answers)


@dataclass(frozen=True)
class Opened:
    """The content of `opening.json`: the holders that take part in a release in rounds.

    Attributes:
        name: a random name of the release, so that the sums of two inboxes are not mixed up.
        asked: the digest of the samples in the opening question.
        heads: the head of each holder's answer as JSON, by the holder's name.
    """

    name: str
    asked: str
    heads: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundsOfHolders:
    """The server's release of centered votes in rounds, for any transport of the messages.

    Rule: the opening question makes each holder train its teachers. Each later question asks the holders for one sum:
    three sums for the prevalence, and then one sum for each round. A question depends on public values and on earlier
    releases. The ledger is charged for the prevalence before its first sum, and for all rounds together before the
    noise of the first round is drawn.

    Attributes:
        plan: the plan of the release, with `CenteredVotes` in rounds.
        roll: the expected holders.
        pool: float32 `[num_public, num_inputs]`, public samples. Trained teachers are asked about the first 2,048; the
            student learns from all of them.
        record_ids: `[num_public]`, the public names of the samples.
        label_names: the name of each label.
        num_queries: the number of samples that get labels, which are the first ones; None for all.
        inbox: the folder for the sums, of mode 0700; no epsilon covers the sums.
        output_dir: the folder of the release; its `release/` may be published.
    """

    plan: ReleasePlan
    roll: Roll
    pool: Float32Array
    record_ids: NDArray[Any]
    label_names: tuple[str, ...]
    num_queries: int | None = None
    inbox: Path | str
    output_dir: Path | str

    def __post_init__(self) -> None:
        require(
            self.pool.ndim == 2,
            "pool.shape",
            self.pool.shape,
            "[P, d]: rounds are for rows of numbers",
        )
        is_same = len(self.record_ids) == len(self.pool)
        require(
            is_same,
            "len(record_ids)",
            len(self.record_ids),
            f"{len(self.pool)}, one for each sample",
        )
        if self.num_queries is not None:
            count = require_count("num_queries", self.num_queries)
            require(
                count <= len(self.pool),
                "num_queries",
                count,
                f"at most {len(self.pool)}, the public samples",
            )

    @all_cores()
    def run(self, exchange: Exchange, monitor: Monitor | None = None) -> Terms:
        """Asks the holders and releases one round after the other; continues a call that was killed.

        Rounds that were charged and not finished continue at no further price.

        Args:
            exchange: sends a question to all holders and returns the sum of their answers.
            monitor: displays the progress and the absent holders; None for no display.

        Raises:
            InvalidValue: too many holders are absent, or `release_votes` refuses the release.
        """
        monitor = monitor or Monitor()
        vote_source = AskedVotes(release_in_rounds=self, exchange=exchange, monitor=monitor)
        ids = self.record_ids[: self.num_queries]
        cohort = cohort_of_heads(
            vote_source.heads,
            record_ids=ids,
            label_names=self.label_names,
            # the digest of the opening, whose sums no epsilon covers
            votes_digest=hashlib.sha256(to_json(vote_source.opened).encode()).hexdigest(),
            queries_digest=queries_digest(
                inputs=np.asarray(self.pool[: self.num_queries], dtype=np.float32), record_ids=ids
            ),
            places=Places.from_holders(self.roll.holders),
            num_groups=sum(head.num_groups for head in vote_source.heads),
        )
        return release_votes(
            self.plan,
            vote_source=vote_source,
            cohort=cohort,
            output_dir=self.output_dir,
            monitor=monitor,
        )


class AskedVotes(VotesInRounds, ShareSums):
    """The votes of all holders' teachers, of which the server gets only sums, by questions to the holders.

    The queries are the first samples of the pool. Each question is asked once, and its sum is written to the inbox. A
    server that was killed continues with these sums. If a sum is lost after a later question was asked, it is not asked
    for again. The second sum might be over other holders, and with the same noise the difference of both sums would
    disclose private votes.
    """

    readers = "centered_votes in rounds (aggregator.rounds=2 or more, or 200 teachers), which needs sums alone"

    def __init__(
        self, release_in_rounds: RoundsOfHolders, exchange: Exchange, monitor: Monitor
    ) -> None:
        """Asks the holders the opening question, unless the inbox has their answers.

        Args:
            release_in_rounds: the release with its folders and its roll.
            exchange: sends a question to all holders and returns the sum of their answers.
            monitor: displays the progress.
        """
        self.folder = make_folder(release_in_rounds.inbox)
        self.roll = release_in_rounds.roll
        self.pool = release_in_rounds.pool
        self._exchange = exchange
        self._monitor = monitor
        inputs = np.asarray(self.pool[:NUM_ASKED], dtype=np.float32)
        request = Request(
            inputs=inputs,
            record_ids=release_in_rounds.record_ids[:NUM_ASKED],
            label_names=release_in_rounds.label_names,
        )
        opening = Question.of_opening(request)
        self.opened = self._ask_or_read_opening(opening)
        self.heads = [VoteManifest.from_text(text) for text in self.opened.heads.values()]
        dataset_names = sorted({head.dataset for head in self.heads})
        if len(dataset_names) > 1:
            raise InvalidValue(
                "dataset", ", ".join(dataset_names), rule="one name for the data of all holders"
            )
        self.num_teachers = self.roll.num_teachers
        self.num_labels = opening.num_labels
        self.have_gaps = any(head.have_gaps or head.known_labels is not None for head in self.heads)
        self.num_queries = len(self.pool[: release_in_rounds.num_queries])
        num_present_teachers = sum(head.num_teachers for head in self.heads)
        self.records_per_teacher = (
            sum(head.num_groups for head in self.heads) / num_present_teachers
        )

    def _ask_or_read_opening(self, opening: Question) -> Opened:
        """Returns the holders that take part in the release, as `opening.json` in the inbox lists them.

        If there is no such file, asks the opening question and writes the file.
        """
        opening_path = self.folder / "opening.json"
        if not os.path.lexists(opening_path):
            answers = self._exchange_if_enough(question=opening)
            head_text_of_holder = {name: head.to_text() for name, head in answers.heads.items()}
            opened = Opened(
                name=secrets.token_hex(nbytes=16), asked=opening.asked, heads=head_text_of_holder
            )
            write_text(opening_path, text=to_json(opened) + "\n")
        stored = read_value(
            Opened, opening_path, name="opening", rule="what holders vouched for", remedy=_LATER
        )
        rule = "those of the release; take another inbox for others"
        require(stored.asked == opening.asked, "inbox, samples", "others", rule)
        return stored

    def _exchange_if_enough(self, question: Question) -> SumOfAnswers:
        """Asks all holders a question and returns the sum; raises `InvalidValue` if too many of them are absent."""
        answers = self._exchange(question)
        for line in answers.refused.values():
            self._monitor.say(line)
        self.roll.require_enough(
            present_holders=answers.holders,
            refusal_reasons=answers.refused,
            remedy="ask again: nothing is charged a second time",
        )
        return answers

    def sum_of(self, kind: str, **state: Any) -> IntArray:
        """Returns the sum of the holders' answers to a question, int64, in steps; absent holders add nothing.

        The question is asked once: a later call reads the sum from the inbox.

        Args:
            kind: the kind of question, one of `KINDS`.
            **state: the arrays of the question, by name.
        """
        state_arrays = {name: np.asarray(value, dtype=np.float64) for name, value in state.items()}
        question = Question(
            kind=kind,
            asked=self.opened.asked,
            num_labels=self.num_labels,
            state=state_arrays,
            have_gaps=self.have_gaps and kind in (LENGTHS, SHARES),
        )
        sum_path = self.folder / f"{question.name}.npz"

        def make_sum() -> Summed:
            self._log_question(file_name=sum_path.name)
            answers = self._exchange_if_enough(question=question)
            return answers.total, answers.holders

        sum_file = _read_or_make_sum(
            sum_path=sum_path, shape=question.shape, make_sum=make_sum, remedy=_LATER
        )
        return sum_file["total"].astype(np.int64)

    def _log_question(self, *, file_name: str) -> None:
        """Writes the name of a question's file to the log in the inbox before the question is asked.

        Raises `InvalidValue` if the name is in the log already, followed by that of a later question.
        """
        log_path = self.folder / "asked.txt"
        rule = "the questions that were asked"
        logged_names = []
        if os.path.lexists(log_path):
            logged_names = read_text(log_path, rule=rule, remedy=_LATER).split()
        if file_name in logged_names[:-1]:
            raise InvalidValue(
                "inbox",
                self.folder / file_name,
                rule=f"the sum that later questions rest on; {_LATER}",
            )
        if file_name not in logged_names:
            write_text(log_path, text="\n".join([*logged_names, file_name]) + "\n")

    def share_sums(self) -> ShareSums:
        """Returns this object, which asks the holders for sums of label shares."""
        return self

    def lengths(self) -> IntArray:
        """Returns the histogram of the lengths of teachers' label shares, summed over all holders.

        Each holder answers with the number of its own teachers at each length.
        """
        return self.sum_of(LENGTHS)

    def total(self, clipped_sum: ClippedSum, center: FloatArray) -> IntArray:
        """Asks the holders for the sum of their teachers' shares, each minus a center and clipped; adds up the answers.

        Args:
            clipped_sum: the clip and the grid of the sum.
            center: `[num_entries]`, which is subtracted from the shares of each teacher before the clip.
        """
        return self.sum_of(SHARES, center=center, clip=clipped_sum.clip)

    def votes_around(
        self, center: FloatArray, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> Iterable[Any]:
        """Raises `InvalidValue`: the server has no matrix of votes that could be summed at once."""
        raise self._type_error()

    def in_rounds(
        self,
        *,
        noise_multiplier: float,
        least_directions: int = 0,
        recipe: Recipe = DEFAULT_RECIPE,
    ) -> RoundVotes:
        """Returns the votes in rounds, each of which is about the errors of the student so far.

        Raises `InvalidValue` for a recipe that is not the default, since a question does not hold the recipe.
        """
        rule = "the default recipe, which all holders have"
        require(recipe == DEFAULT_RECIPE, "recipe", recipe, rule, owner="aggregator")
        num_directions = affordable_directions(
            noise_multiplier=noise_multiplier,
            num_teachers=self.num_teachers,
            num_records=max(1, round(self.records_per_teacher * self.num_teachers)),
            num_labels=self.num_labels,
            noise_share=recipe.noise_share_in_rounds,
        )
        num_directions = max(num_directions, least_directions)
        moments: RoundVotes = self.cached(
            ("moments", num_directions),
            compute=lambda: AskedMoments(self, num_directions=num_directions),
        )
        return moments


class AskedMoments(RoundVotes):
    """The votes in rounds of all holders' teachers, for whose sum the server asks the holders in each round.

    A holder that is absent in a round adds nothing.

    Formal guarantee: see docs/proofs/vote_rounds.md, "Rounds of many holders".
    """

    def __init__(self, asked_votes: AskedVotes, num_directions: int) -> None:
        """Computes the features of public inputs along the main directions of the public pool.

        Args:
            asked_votes: asks the holders for sums, and has the pool.
            num_directions: the largest number of directions; those of the largest variance are taken (`PublicPCA`).
        """
        self._votes = asked_votes
        self._directions = PublicPCA.fit(
            asked_votes.pool, max_directions=num_directions, ridge=DEFAULT_RECIPE.ridge_in_rounds
        )
        public_inputs = asked_votes.pool[: max(DEFAULT_RECIPE.public_rows, asked_votes.num_queries)]
        self.public_features = self._directions.with_constant(inputs=public_inputs).astype(
            np.float32
        )
        self.feature_variances = self._directions.feature_variances
        self.num_teachers = asked_votes.num_teachers
        self.num_labels = asked_votes.num_labels
        self.records_per_teacher = asked_votes.records_per_teacher

    def total(self, question: RoundQuestion) -> IntArray:
        """Asks the holders for the sum of their teachers' clipped votes, and returns the sum over holders."""
        directions = self._directions
        return self._votes.sum_of(
            MOMENTS,
            records_per_teacher=self.records_per_teacher,
            weights=question.student_weights,
            label_scale=question.label_scale,
            clip=question.clipped_moments.clip,
            pool_center=directions.center,
            projection=directions.projection,
            variances=directions.variances,
        )
