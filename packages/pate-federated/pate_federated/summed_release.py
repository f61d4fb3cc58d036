"""Releases of sums over the teachers of all holders: of votes at once, or in rounds, over a network or as files.

In a secure sum the server never reads a holder's votes. With distributed noise the server reads no sum without noise.
`SumTerms` are the terms that server and holders agree on, `Limbs` writes large numbers as digits within these terms,
`HolderSum` is the holder's side, and `SummedRelease` and `RoundsOfHolders` are the server's.
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

from pate.errors import InvalidValue
from pate.files.arrays import ArrayForm, Arrays, read_arrays
from pate.files.disk import (
    FROM_BACKUP,
    is_regular,
    locked,
    make_folder,
    read_text,
    read_value,
    replacing,
    write_arrays,
    write_text,
)
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
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.clipping import ClippedSum
from pate.votes.label_shares import ShareSums
from pate.votes.moment_votes import RoundVotes
from pate.votes.public_pca import PublicPCA, affordable_directions
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.source import VotesInRounds, VoteSource
from pate.votes.weighted import Array, Integers
from pate_federated.cohorts import cohort_of_heads
from pate_federated.distributed_votes import DistributedVotes
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
    counted,
)
from pate_federated.vote_casting import HolderPlan
from pate_federated.vote_file import VoteFile, VoteManifest

MODULUS = 2**32
_FEWEST_SHARES = 21
_LIKELY_ENOUGH = 1e-3
_TAILS = 40  # standard deviations of a share: beyond them lie less than 10**-340 of it
_LOCK = "notes.lock"


@dataclass(frozen=True, kw_only=True)
class SumTerms:
    """The terms of a secure sum, which the server and all holders agree on beforehand.

    Secure aggregation adds numbers modulo 2**32. Every holder's numbers lie in -most..most and are sent without
    rounding. The sum is exact, since `num_holders * 2 * most` is required to be below 2**32.
    """

    num_holders: int  # the number of holders, n
    # the most holders that may be absent, d >= 1; a sum of fewer than n - d holders is refused
    max_absent: int
    most: int  # the largest size of a number that a holder sends
    # The number of shares of each key, k, odd: every holder shares its keys with k - 1 others, dealt at random, and two
    # thirds of these open its part. With None all n holders have shares, of whom n - d open a part: then not even the
    # server can open a sum of fewer holders.
    shares: int | None = None

    def __post_init__(self) -> None:
        require_count("num_holders", self.num_holders, minimum=3)
        rule = "1 or more with secure aggregation, in which all holders but one can open a sum"
        require(self.max_absent >= 1, "max_absent", self.max_absent, rule)
        half = (self.num_holders - 1) // 2
        rule = f"at most {half}, fewer than half: else a server opens single holders by telling half that one is absent"
        require(self.max_absent <= half, "max_absent", self.max_absent, rule)
        require_count("most", self.most)
        room = (MODULUS - 1) // (2 * self.num_holders)
        rule = f"at most {room}, so that the sum of {self.num_holders} holders stays below 2**32"
        require(self.most <= room, "most", self.most, rule)
        if self.shares is not None:
            require_count("shares", self.shares, minimum=_FEWEST_SHARES)
            rule = f"an odd number below num_holders={self.num_holders}"
            require(
                self.shares % 2 == 1 and self.shares < self.num_holders, "shares", self.shares, rule
            )
            # a union bound over holders: too many of a holder's shares are with absent holders (hypergeometric tail)
            spare = self.num_shares - self.threshold
            failure = hypergeom.sf(spare, self.num_holders, self.max_absent, self.num_shares)
            fails = float(self.num_holders * failure)
            rule = f"more: with max_absent={self.max_absent} a sum could not be opened with probability {fails:.1g}"
            require(fails <= _LIKELY_ENOUGH, "shares", self.shares, rule)

    @classmethod
    def of_counts(cls, roll: Roll, shares: int | None = None) -> Self:
        """Returns the terms of a sum of counts over the holders of a roll."""
        most = max(roll.holders.values())
        return cls(
            num_holders=len(roll.holders), max_absent=roll.max_absent, most=most, shares=shares
        )

    @classmethod
    def of_noise(cls, aggregator: DistributedVotes, roll: Roll) -> Self:
        """Returns the terms of a sum of counts with shares of noise.

        Raises `InvalidValue` for an aggregator of another number of holders or dropouts than the roll has, and for
        too many colluders.
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
        reach = math.ceil(_TAILS * math.sqrt(aggregator.shares.share_variance))
        most = aggregator.shares.steps * max(roll.holders.values()) + reach
        return cls(num_holders=len(roll.holders), max_absent=roll.max_absent, most=most)

    @classmethod
    def of_digits(cls, roll: Roll, shares: int | None = None) -> Self:
        """Returns the terms of all secure sums in rounds, with the largest digits that the sum has room for."""
        num_holders = len(roll.holders)
        most = 2 ** (((MODULUS - 1) // (2 * num_holders)).bit_length() - 1)
        return cls(num_holders=num_holders, max_absent=roll.max_absent, most=most, shares=shares)

    @property
    def least(self) -> int:
        """The least number of holders that a sum needs."""
        return self.num_holders - self.max_absent

    @property
    def num_shares(self) -> int:
        """The number of holders that share a key."""
        return self.num_holders if self.shares is None else self.shares

    @property
    def threshold(self) -> int:
        """The number of shares of a key that open a sum."""
        return self.least if self.shares is None else -(-2 * self.shares // 3)

    def require_sendable(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the numbers as equal floats; raises `InvalidValue` for numbers that Flower would clip."""
        if np.abs(numbers).max(initial=0) > self.most:
            raise InvalidValue(
                "counts", rule=f"numbers of at most {self.most}, the terms of the sum"
            )
        return numbers.astype(np.float64)

    def exact_sum(self, average: Any, present: int) -> NDArray[np.int64]:
        """Returns the sum of whole numbers, from their average over `present` holders.

        Raises `InvalidValue` for too few or too many holders, and where a holder kept to other terms.
        """
        rule = f"{self.least} to {self.num_holders}, of holders={self.num_holders} with max_absent={self.max_absent}"
        require(self.least <= present <= self.num_holders, "holders present", present, rule)
        scaled = np.asarray(average, dtype=np.float64) * present
        total = np.rint(scaled)
        if not ((np.abs(scaled - total) < 1e-3) & (np.abs(total) <= self.most * present)).all():
            raise InvalidValue(
                "sum", rule="whole numbers within the terms; some holder kept to others"
            )
        return total.astype(np.int64)


@dataclass(frozen=True)
class Limbs:
    """Digits of whole numbers that are too large for a secure sum: x = sum over i of digit_i 2**(bits i).

    The last digit has the sign of x. Holders' digits are added place by place and joined afterwards, so the sum is
    exact. The sums of digits disclose a little more than the sum of the numbers: how often digits overflowed, summed
    over all holders.
    """

    terms: SumTerms  # the terms of the sum, the same at every holder
    bits: int  # the number of bits of a digit
    count: int  # the number of digits

    @classmethod
    def of(cls, question: Question, roll: Roll, shares: int | None = None) -> Self:
        """Returns the digits of answers to a question, enough for the holder with the most teachers."""
        terms = SumTerms.of_digits(roll, shares)
        bits = terms.most.bit_length() - 1
        largest = 1 if question.kind == LENGTHS else math.ceil(question.reach)
        room = (largest * max(roll.holders.values())).bit_length() + 1
        return cls(terms, bits, max(1, -(-room // bits)))

    def split(self, total: Integers) -> NDArray[np.int64]:
        """Returns the digits of whole numbers, `[count, …]`; all but the last lie in 0..2**bits - 1."""
        shifted = [total.astype(np.int64) >> (self.bits * place) for place in range(self.count)]
        return np.stack([*(share & (2**self.bits - 1) for share in shifted[:-1]), shifted[-1]])

    def joined(self, digits: Integers) -> Integers:
        """Returns the whole numbers `[…]` of digits `[count, …]`."""
        powers = 2 ** (self.bits * np.arange(self.count, dtype=np.int64))
        return np.tensordot(powers, digits.astype(np.int64), axes=1)


@dataclass(frozen=True)
class HolderSum:
    """A holder's side of a secure sum, which the holder sets itself: nothing of it comes from the server."""

    terms: SumTerms  # the terms of the sum
    # the aggregator whose share of the noise is added; None where the server reads the sum and adds noise
    noise: DistributedVotes | None = None
    # the seed of the noise, for tests: whoever knows the seed is a colluder. None draws from the operating system
    seed: int | None = None
    # the most requests that are answered with noise: each answer is a release of its own price
    max_answers: int = 1

    def __post_init__(self) -> None:
        require_count("max_answers", self.max_answers)

    def numbers(
        self, plan: HolderPlan, request: Request, votes: Path, folder: Path
    ) -> NDArray[np.float64]:
        """Returns the numbers that a holder sends for one request, `[Q, L]`: its counts, with its share of the noise.

        With noise a request is answered once: two sums over different holders would differ by one holder's counts.
        Raises `InvalidValue` for votes beyond the terms, and for a second answer.
        """
        file = VoteFile.open(votes)
        counts = np.zeros((request.num_queries, request.num_labels), dtype=np.int64)
        for block in file.bits():
            counts += block.sum(axis=0, dtype=np.int64)
        if self.noise is None:
            return self.terms.require_sendable(counts)
        most = self.noise.max_votes
        require(
            request.vote_clip == most,
            "vote_clip",
            request.vote_clip,
            f"max_votes={most} of the agreed noise",
        )
        self._answer_once(folder, request)
        rng = (
            secret_generator()
            if self.seed is None
            else np.random.default_rng([self.seed, *plan.holder.encode()])
        )
        noisy = self.noise.contribution(counts, num_teachers=file.manifest.num_teachers, rng=rng)
        return self.terms.require_sendable(noisy)

    def _answer_once(self, folder: Path, request: Request) -> None:
        """Notes that a request is answered, before anything is sent; raises `InvalidValue` for a second answer."""
        path = folder / f"answered-{request.digest}"
        with locked(folder / _LOCK):
            if os.path.lexists(path):  # `lexists` works in a folder that may not be listed, too
                rule = (
                    "a request that was not answered before: a second noisy sum is a second release"
                )
                raise InvalidValue("request", rule=rule)
            num_others = len(list(folder.glob("answered-*")))
            rule = f"at most {self.max_answers}, the max_answers of this holder"
            require(
                num_others < self.max_answers, "requests answered with noise", num_others + 1, rule
            )
            write_text(path, "")


def first_note(path: Path, text: str) -> str | None:
    """Writes a note unless one of that name exists; returns the text of the earlier note, or None.

    A lock makes the call safe for processes that run side by side.
    """
    with locked(path.parent / _LOCK):
        if os.path.lexists(path):
            return read_text(path, remedy=FROM_BACKUP)
        write_text(path, text)
    return None


_REMEDY = "restore it from a backup; without noise, remove it and holders are asked again"
_LATER = f"{FROM_BACKUP}: later questions were asked about what was released of it"
_MOST_BYTES = 2**36

Summed = tuple[
    NDArray[np.int64], tuple[str, ...]
]  # a sum such as `[Q, L]`, and the names of its holders


def _kept(
    path: Path,
    shape: tuple[int | None, ...],
    ask: Callable[[], Summed],
    remedy: str,
    **beside: NDArray[Any],
) -> Arrays:
    """Returns the arrays of a sum's file, which is written first where it does not exist.

    Args:
        path: the file.
        shape: the shape of the sum; None stands for any size.
        ask: makes the sum and names its holders; called where the file does not exist.
        remedy: the advice for a damaged file.
        **beside: arrays of texts that are written beside the sum.
    """
    if not os.path.lexists(path):
        total, holders = ask()
        write_arrays(path, total=total, holders=np.array(holders, dtype=np.str_), **beside)
    forms = {"total": ArrayForm("i", shape), "holders": ArrayForm("U", (None,))}
    return read_arrays(
        path, forms | dict.fromkeys(beside, ArrayForm("U", ())), remedy=remedy, most=_MOST_BYTES
    )


@dataclass(frozen=True, kw_only=True)
class SummedRelease:
    """The server's release of one secure sum, whatever carries the messages.

    With `DistributedVotes` the ledger is charged before holders are asked, since the holders' sum is the release.
    Holders answer once: where the sum is lost later, the release is refused and stays charged.
    """

    plan: ReleasePlan  # the plan of the release, whose aggregator reads counts
    roll: Roll  # the holders that are expected
    request: Request  # the queries
    inbox: Path  # the folder for the sum, of mode 0700
    output_dir: Path  # the folder of the release, of which `release/` may be published
    dataset: str  # the public name of the holders' data; one ledger counts for one name
    real: bool = True  # False for synthetic records
    # see `SumTerms.shares`; None with the holders' noise, whose price depends on who can open the sum
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
        """The aggregator whose noise the holders draw; None for any other aggregator."""
        aggregator = self.plan.aggregator
        return aggregator if isinstance(aggregator, DistributedVotes) else None

    @property
    def terms(self) -> SumTerms:
        """The terms that the sum of the holders is taken on."""
        noise = self.noise
        roll = self.roll
        return (
            SumTerms.of_counts(roll, self.shares)
            if noise is None
            else SumTerms.of_noise(noise, roll)
        )

    def run(self, ask: Callable[[], Summed], monitor: Monitor | None = None) -> Terms:
        """Makes the sum once and releases it, or continues a call that was killed.

        Args:
            ask: makes the sum, such as by `flower.secure_sum`, and names its holders.
            monitor: is told of progress.

        Raises `InvalidValue` for too few holders, and for all that `release_votes` refuses.
        """
        _ = self.terms
        make_folder(self.inbox)
        request = self.request
        places = Places.from_holders(self.roll.holders)
        source: VoteSource

        def total() -> Total:
            total_of_holders, holders = self.made(ask)
            return total_of_holders, len(holders)

        if self.noise is not None:
            identity = repr((request.digest, request.vote_clip, sorted(self.roll.holders.items())))
            digest = hashlib.sha256(identity.encode()).hexdigest()
            source = NoisySum(
                total,
                num_teachers=self.roll.num_teachers,
                num_queries=request.num_queries,
                num_labels=request.num_labels,
                digest=digest,
            )
        else:
            source = self.counted(ask)
            digest = hashlib.sha256(
                b"summed votes" + np.ascontiguousarray(source.counts()).tobytes()
            ).hexdigest()
        cohort = Cohort(
            dataset=self.dataset,
            real=self.real,
            record_ids=request.record_ids,
            label_names=request.label_names,
            digest=digest,
            queries=request.digest,
            places=places,
        )
        return release_votes(self.plan, source, cohort, self.output_dir, monitor)

    def counted(self, ask: Callable[[], Summed]) -> VoteSource:
        """Returns the counts of all teachers' votes; teachers of absent holders vote as in `Collection.source`."""
        counts, holders = self.made(ask)
        if self.plan.aggregator.single_label:
            counts[:, 0] += sum(
                count for name, count in self.roll.holders.items() if name not in holders
            )
        return CountedVotes(
            counts, num_teachers=self.roll.num_teachers, max_votes=self.request.vote_clip
        )

    def made(self, ask: Callable[[], Summed]) -> Summed:
        """Returns the sum and the names of its holders; the sum is written to the inbox first."""
        sum_file = _kept(
            self.inbox / "sum.npz", (None, None), ask, _REMEDY, asked=np.array(self.request.digest)
        )
        rule = "those of the request; take another inbox for another request"
        require(str(sum_file["asked"]) == self.request.digest, "inbox, queries", "others", rule)
        return sum_file["total"].astype(np.int64), tuple(sum_file["holders"].tolist())


@dataclass(frozen=True, eq=False)
class Gathered:
    """The sum of the answers to one question."""

    total: Integers  # the sum over these holders, int64
    holders: tuple[str, ...]  # the names of the holders in the sum
    heads: Mapping[str, VoteManifest] = field(default_factory=dict)  # the holders' heads, by name
    # a line for each holder that is not in the sum, by name
    refused: Mapping[str, str] = field(default_factory=dict)


Exchange = Callable[[Question], Gathered]  # has one question answered by all holders


def gathered(roll: Roll, question: Question, contributions: Iterable[Contribution]) -> Gathered:
    """Adds up the answers to a question that count.

    An answer counts by the rules of `counted`, where it is a whole sum and answers this question. The answer of a
    holder with k teachers is no longer than k times `question.reach`, so a holder moves the sum by no more than its own
    teachers do.
    """

    def read(holder: str, sent: bytes) -> SumAnswer:
        answer = SumAnswer.from_bytes(
            sent,
            question,
            holder=holder,
            num_teachers=roll.holders[holder],
            num_labels=question.num_labels,
        )
        question.require_possible(answer.total, roll.holders[holder])
        return answer

    answers, refused = counted(roll, contributions, read)
    total = sum(
        (answer.total for answer in answers.values()), np.zeros(question.shape, dtype=np.int64)
    )
    heads = {name: answer.head for name, answer in answers.items()}
    return Gathered(total, tuple(answers), heads, refused)


class AnswersAwaited(Exception):
    """A question was written for the holders, and too few answers have arrived.

    Attributes:
        question: the file of the question.
        answers: the folder for the answers, as HOLDER.npz.
        missing: the names of the holders without an answer.
    """

    def __init__(self, question: Path, answers: Path, missing: tuple[str, ...]) -> None:
        super().__init__(f"{question}: {len(missing)} holders have not answered")
        self.question = question
        self.answers = answers
        self.missing = missing


@dataclass(frozen=True)
class Mailbox:
    """An exchange by files: a question goes to `questions/NAME.npz`, answers come as `answers/NAME/HOLDER.npz`."""

    folder: Path  # the folder of questions and answers, of mode 0700
    roll: Roll  # the holders that are expected
    wait: bool = True  # whether all holders are waited for; else `max_absent` of them may stay away

    def __call__(self, question: Question) -> Gathered:
        """Writes the question and adds up the answers that have arrived; raises `AnswersAwaited` for too few."""
        sent = self.folder / "questions" / f"{question.name}.npz"
        answers = self.folder / "answers" / question.name
        make_folder(sent.parent)
        make_folder(answers)
        if not os.path.lexists(sent):
            with replacing(sent) as file:
                file.write(question.to_bytes())
        paths = {path.stem: path for path in sorted(answers.glob("*.npz"))}
        missing = tuple(holder for holder in self.roll.holders if holder not in paths)
        if len(missing) > (0 if self.wait else self.roll.max_absent):
            raise AnswersAwaited(sent, answers, missing)
        most = question.most_bytes
        problem = f"expected a file of at most {most} bytes, as pate-vote writes it"

        def read(name: str, path: Path) -> Contribution:
            """Reads the answer of a holder; skips files of strangers, pipes, folders and files that are too large."""
            usual = name in self.roll.holders and is_regular(path) and path.stat().st_size <= most
            return Contribution(name, path.read_bytes() if usual else None, problem)

        return gathered(self.roll, question, [read(*item) for item in paths.items()])


@dataclass(frozen=True)
class Opened:
    """The content of `opening.json`: the holders' heads, by which a release in rounds began."""

    name: str  # a random name of the release, by which the sums of two inboxes are told apart
    asked: str  # the digest of the opening
    # the head of each holder as text, by name
    heads: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundsOfHolders:
    """The server's release of centered votes in rounds, whatever carries the messages.

    Rule: an opening makes the holders' teachers learn. Then each question asks for one sum: three sums for the
    prevalence, then one sum a round. Each question depends on earlier releases alone. The ledger is charged for the
    prevalence before its first sum, and for all rounds together before the noise of the first round.

    Attributes:
        plan: the plan of the release, of `CenteredVotes` in rounds.
        roll: the holders that are expected.
        pool: float32 `[P, d]`, public samples. Trained teachers are asked about the first 2,048; the student learns
            from all of them.
        record_ids: the public names of the samples, `[P]`.
        label_names: the names of the L labels.
        num_queries: the number of samples that are labeled, the first ones; None for all.
        inbox: the folder for sums, of mode 0700; no epsilon covers the sums.
        output_dir: the folder of the release, of which `release/` may be published.
    """

    plan: ReleasePlan
    roll: Roll
    pool: NDArray[np.float32]
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
        """Asks holders and releases round after round, or continues a call that was killed.

        Rounds that were charged and not finished continue at no further price.

        Args:
            exchange: sends a question to all holders, and adds up their answers.
            monitor: is told of progress, and of absent holders.

        Raises `InvalidValue` where too many holders are absent, and for all that `release_votes` refuses.
        """
        monitor = monitor or Monitor()
        source = AskedVotes(self, exchange, monitor)
        ids = self.record_ids[: self.num_queries]
        cohort = cohort_of_heads(
            source.heads,
            record_ids=ids,
            label_names=self.label_names,
            # the digest of the opening, whose sums no epsilon covers
            digest=hashlib.sha256(to_json(source.opened).encode()).hexdigest(),
            queries=queries_digest(
                np.asarray(self.pool[: self.num_queries], dtype=np.float32), ids
            ),
            places=Places.from_holders(self.roll.holders),
            num_groups=sum(head.num_groups for head in source.heads),
        )
        return release_votes(self.plan, source, cohort, self.output_dir, monitor)


class AskedVotes(VotesInRounds, ShareSums):
    """Votes of which the server asks holders for sums alone; the queries are the first samples of the pool.

    Each question is asked once, and its sum is written to the inbox: a server that was killed continues with these
    sums. A lost sum is not asked for again once a later question was asked. With other holders present the second sum
    would differ from the first, and the same noise on both would disclose the difference.
    """

    readers = "centered_votes in rounds (aggregator.rounds=2 or more, or 200 teachers), which needs sums alone"

    def __init__(self, release: RoundsOfHolders, exchange: Exchange, monitor: Monitor) -> None:
        """Asks the holders for the opening, unless they have answered it."""
        self.folder = make_folder(release.inbox)
        self.roll = release.roll
        self.pool = release.pool
        self._exchange = exchange
        self._monitor = monitor
        inputs = np.asarray(self.pool[:NUM_ASKED], dtype=np.float32)
        request = Request(
            inputs=inputs,
            record_ids=release.record_ids[:NUM_ASKED],
            label_names=release.label_names,
        )
        self.opened = self._opened(opening := Question.of_opening(request))
        self.heads = [VoteManifest.from_text(text) for text in self.opened.heads.values()]
        names = sorted({head.dataset for head in self.heads})
        if len(names) > 1:
            raise InvalidValue(
                "dataset", ", ".join(names), rule="one name for the data of all holders"
            )
        self.num_teachers = self.roll.num_teachers
        self.num_labels = opening.num_labels
        self.num_queries = len(self.pool[: release.num_queries])
        present = sum(head.num_teachers for head in self.heads)
        self.records_per_teacher = sum(head.num_groups for head in self.heads) / present

    def _opened(self, opening: Question) -> Opened:
        path = self.folder / "opening.json"
        if not os.path.lexists(path):
            heads = {name: head.to_text() for name, head in self._asked(opening).heads.items()}
            write_text(path, to_json(Opened(secrets.token_hex(16), opening.asked, heads)) + "\n")
        stored = read_value(
            Opened, path, name="opening", rule="what holders vouched for", remedy=_LATER
        )
        rule = "those of the release; take another inbox for others"
        require(stored.asked == opening.asked, "inbox, samples", "others", rule)
        return stored

    def _asked(self, question: Question) -> Gathered:
        answers = self._exchange(question)
        for line in answers.refused.values():
            self._monitor.say(line)
        self.roll.require_enough(
            answers.holders, answers.refused, "ask again: nothing is charged a second time"
        )
        return answers

    def sum_of(self, kind: str, **state: Any) -> Integers:
        """Returns the sum of the answers to a question about the samples of the opening; absent holders add nothing."""
        arrays = {name: np.asarray(value, dtype=np.float64) for name, value in state.items()}
        question = Question(
            kind=kind, asked=self.opened.asked, num_labels=self.num_labels, state=arrays
        )
        path = self.folder / f"{question.name}.npz"

        def ask() -> Summed:
            self._log(path.name)
            answers = self._asked(question)
            return answers.total, answers.holders

        return _kept(path, question.shape, ask, _LATER)["total"].astype(np.int64)

    def _log(self, name: str) -> None:
        """Enters a question in the log before it is asked; raises `InvalidValue` for a question before the last one."""
        path = self.folder / "asked.txt"
        rule = "the questions that were asked"
        digests = read_text(path, rule=rule, remedy=_LATER).split() if os.path.lexists(path) else []
        if name in digests[:-1]:
            raise InvalidValue(
                "inbox", self.folder / name, rule=f"the sum that later questions rest on; {_LATER}"
            )
        if name not in digests:
            write_text(path, "\n".join([*digests, name]) + "\n")

    def share_sums(self) -> ShareSums:
        """Returns this object: the sums of label shares are asked of the holders."""
        return self

    def lengths(self) -> Integers:
        """Asks holders how many teachers have shares of each length, and adds the answers up."""
        return self.sum_of(LENGTHS)

    def total(self, clipped: ClippedSum, center: Array) -> Integers:
        """Asks holders for their clipped shares around a center, and adds the answers up."""
        return self.sum_of(SHARES, center=center, clip=clipped.clip)

    def votes_around(
        self, center: Array, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> Iterable[Any]:
        """Raises `InvalidValue`: a matrix of votes would have to be summed in one cast."""
        raise self._refusal()

    def in_rounds(self, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE) -> RoundVotes:
        """Returns the votes as holders cast them against a student, round after round.

        Raises `InvalidValue` for a recipe of one's own, which no question tells the holders.
        """
        rule = "the default recipe, which all holders have"
        require(recipe == DEFAULT_RECIPE, "recipe", recipe, rule, owner="aggregator")
        count = affordable_directions(
            noise_multiplier=noise_multiplier,
            num_teachers=self.num_teachers,
            num_records=max(1, round(self.records_per_teacher * self.num_teachers)),
            num_labels=self.num_labels,
            noise_share=recipe.noise_share_in_rounds,
        )
        moments: RoundVotes = self.remembered(("moments", count), lambda: AskedMoments(self, count))
        return moments


class AskedMoments(RoundVotes):
    """Votes of rounds whose totals all holders are asked for; a holder that is absent in a round adds nothing.

    Formal guarantee: see docs/proofs/vote_rounds.md, "Rounds of many holders".
    """

    def __init__(self, votes: AskedVotes, count: int) -> None:
        """Fits `count` directions to the public pool."""
        self._votes = votes
        self._directions = PublicPCA.fit(votes.pool, count, ridge=DEFAULT_RECIPE.ridge_in_rounds)
        rows = votes.pool[: max(DEFAULT_RECIPE.public_rows, votes.num_queries)]
        self.public = self._directions.with_constant(rows).astype(np.float32)
        self.variances = self._directions.feature_variances
        self.num_teachers = votes.num_teachers
        self.num_labels = votes.num_labels
        self.records_per_teacher = votes.records_per_teacher

    def total(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        """Asks holders for their clipped votes against a student, and adds the answers up."""
        directions = self._directions
        return self._votes.sum_of(
            MOMENTS,
            records_per_teacher=self.records_per_teacher,
            weights=weights,
            label_scale=label_scale,
            clip=clipped.clip,
            pool_center=directions.center,
            projection=directions.projection,
            variances=directions.variances,
        )
