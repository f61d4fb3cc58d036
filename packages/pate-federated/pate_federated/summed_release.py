"""Releases of sums over the teachers of all holders: of votes at once, or in rounds, over a network or as files.

Secure sums: the server never has a holder's votes, and with distributed noise no sum without noise. Their terms, whole
numbers of any size as digits that they have room for, and both sides of them.
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
    """The same at every holder and at the server, agreed on beforehand.

    Secure aggregation adds numbers up modulo 2**32. Every holder's numbers are in -most..most and are sent as they are,
    so that the sum of all of them comes out exactly: `num_holders * 2 * most` has to be below 2**32.
    """

    num_holders: int  # n
    # d, how many of them may be absent, >= 1; a sum of fewer than n - d holders is refused
    max_absent: int
    most: int  # the largest size of a number that a holder sends
    # k, odd: every holder shares its keys with k - 1 others, dealt at random, and two thirds of these open its part.
    # None for all n, of whom n - d open it: then not even the server can open a sum of fewer
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
            # at most: that of some holder's shares too many are with absent holders, when as many are absent as may be
            spare = self.num_shares - self.threshold
            failure = hypergeom.sf(spare, self.num_holders, self.max_absent, self.num_shares)
            fails = float(self.num_holders * failure)
            rule = f"more: with max_absent={self.max_absent} a sum could not be opened with probability {fails:.1g}"
            require(fails <= _LIKELY_ENOUGH, "shares", self.shares, rule)

    @classmethod
    def of_counts(cls, roll: Roll, shares: int | None = None) -> Self:
        """Makes the terms of a sum of counts over the holders of a roll."""
        most = max(roll.holders.values())
        return cls(
            num_holders=len(roll.holders), max_absent=roll.max_absent, most=most, shares=shares
        )

    @classmethod
    def of_noise(cls, aggregator: DistributedVotes, roll: Roll) -> Self:
        """For counts with shares of noise; raises where the aggregator is for others, or for too many colluders."""
        for name, wanted in {
            "num_holders": len(roll.holders),
            "max_dropouts": roll.max_absent,
        }.items():
            field_value = getattr(aggregator, name)
            require(
                field_value == wanted,
                f"aggregator.{name}",
                field_value,
                f"{wanted}, as the roll says",
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
        """For all secure sums in rounds: digits as large as the sum has room for."""
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
        """How many shares of a key it takes to open a sum."""
        return self.least if self.shares is None else -(-2 * self.shares // 3)

    def require_sendable(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """The numbers as floats that are the same; raises where one is too large, since it would be cut in silence."""
        if np.abs(numbers).max(initial=0) > self.most:
            raise InvalidValue(
                "counts", rule=f"numbers of at most {self.most}, the terms of the sum"
            )
        return numbers.astype(np.float64)

    def exact_sum(self, average: Any, present: int) -> NDArray[np.int64]:
        """The sum of whole numbers from their average; raises for too few or too many holders, or other numbers."""
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
    """A number x is sent as digits: x = sum of digit_i 2**(bits i), the last one with the sign of x.

    Digits are added up one by one and put together afterwards, so the sum is exact. Their sums say a little more than
    that of the numbers, how often digits ran over, and are sums over all holders as well.
    """

    terms: SumTerms  # of the sum, the same at every holder
    bits: int  # of a digit
    count: int  # digits

    @classmethod
    def of(cls, question: Question, roll: Roll, shares: int | None = None) -> Self:
        """For the answers to a question: enough digits for the holder with the most teachers."""
        terms = SumTerms.of_digits(roll, shares)
        bits = terms.most.bit_length() - 1
        largest = 1 if question.kind == LENGTHS else math.ceil(question.reach)
        room = (largest * max(roll.holders.values())).bit_length() + 1
        return cls(terms, bits, max(1, -(-room // bits)))

    def split(self, total: Integers) -> NDArray[np.int64]:
        """The digits, `[count, …]`; all but the last are in 0..2**bits - 1."""
        shifted = [total.astype(np.int64) >> (self.bits * place) for place in range(self.count)]
        return np.stack([*(share & (2**self.bits - 1) for share in shifted[:-1]), shifted[-1]])

    def joined(self, digits: Integers) -> Integers:
        """Returns the numbers that digits stand for."""
        powers = 2 ** (self.bits * np.arange(self.count, dtype=np.int64))
        return np.tensordot(powers, digits.astype(np.int64), axes=1)


@dataclass(frozen=True)
class HolderSum:
    """A holder's side of a secure sum. All of it is the holder's own: nothing comes from the server."""

    terms: SumTerms  # of the sum
    # whose share is added; None where the server adds noise, and sees the sum
    noise: DistributedVotes | None = None
    # of the noise, for tests: who knows it is a colluder. None draws from the operating system
    seed: int | None = None
    # to how many requests numbers with noise are sent: each is a release, at the price of one
    max_answers: int = 1

    def __post_init__(self) -> None:
        require_count("max_answers", self.max_answers)

    def numbers(
        self, plan: HolderPlan, request: Request, votes: Path, folder: Path
    ) -> NDArray[np.float64]:
        """What is sent for one request, `[Q, L]`; raises for votes beyond the terms.

        With noise a request is answered once: two sums over different holders would differ by one holder's counts.
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
        """Notes on disk, before anything is sent, that this request has its answer."""
        path = folder / f"answered-{request.digest}"
        with locked(folder / _LOCK):
            if os.path.lexists(path):  # also where the folder may not be listed
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
    """Writes a note where none is of that name, and says what is in an earlier one; for processes side by side."""
    with locked(path.parent / _LOCK):
        if os.path.lexists(path):
            return read_text(path, remedy=FROM_BACKUP)
        write_text(path, text)
    return None


_REMEDY = "restore it from a backup; without noise, remove it and holders are asked again"
_LATER = f"{FROM_BACKUP}: later questions were asked about what was released of it"
_MOST_BYTES = 2**36

Summed = tuple[NDArray[np.int64], tuple[str, ...]]  # a sum such as `[Q, L]`, and who is in it


def _kept(
    path: Path,
    shape: tuple[int | None, ...],
    ask: Callable[[], Summed],
    remedy: str,
    **beside: NDArray[Any],
) -> Arrays:
    """A sum, who is in it and what stands beside them in a file; it is kept before anything is done with it."""
    if not os.path.lexists(path):
        total, holders = ask()
        write_arrays(path, total=total, holders=np.array(holders, dtype=np.str_), **beside)
    forms = {"total": ArrayForm("i", shape), "holders": ArrayForm("U", (None,))}
    return read_arrays(
        path, forms | dict.fromkeys(beside, ArrayForm("U", ())), remedy=remedy, most=_MOST_BYTES
    )


@dataclass(frozen=True, kw_only=True)
class SummedRelease:
    """What the server does with a secure sum, whatever carries the messages.

    With `DistributedVotes` the ledger is charged before holders are asked, since what they send is the release. They
    answer once: if the sum is lost after that, the release is refused and stays charged.
    """

    plan: ReleasePlan  # what is released; an aggregator that reads counts
    roll: Roll  # who is expected
    request: Request  # what is asked
    inbox: Path  # the folder for the sum, of mode 0700
    output_dir: Path  # the folder of the release; of it `release/` may be published
    dataset: str  # the public name of the holders' data; one ledger counts for one name
    real: bool = True  # False for synthetic records
    # see `SumTerms`; None with the holders' noise: its price rests on who can open the sum
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
        """The aggregator whose noise holders add themselves; None where it has none."""
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
        """Has the sum made once, by `secure_sum`, and releases it, or continues where it was killed.

        Raises `InvalidValue` for too few holders, and for whatever `release_votes` refuses.
        """
        _ = self.terms
        make_folder(self.inbox)
        request = self.request
        places = Places.of(self.roll.holders)
        source: VoteSource

        def total() -> Total:
            found, holders = self.made(ask)
            return found, len(holders)

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
        """The votes of all teachers; those of absent holders are as in `Collection.source`."""
        counts, holders = self.made(ask)
        if self.plan.aggregator.single_label:
            counts[:, 0] += sum(
                count for name, count in self.roll.holders.items() if name not in holders
            )
        return CountedVotes(
            counts, num_teachers=self.roll.num_teachers, max_votes=self.request.vote_clip
        )

    def made(self, ask: Callable[[], Summed]) -> Summed:
        """The sum, which is kept before anything is done with it."""
        sum_file = _kept(
            self.inbox / "sum.npz", (None, None), ask, _REMEDY, asked=np.array(self.request.digest)
        )
        rule = "those of the request; take another inbox for another request"
        require(str(sum_file["asked"]) == self.request.digest, "inbox, queries", "others", rule)
        return sum_file["total"].astype(np.int64), tuple(sum_file["holders"].tolist())


@dataclass(frozen=True, eq=False)
class Gathered:
    """What came of one question."""

    total: Integers  # int64, the sum over all holders that are in it
    holders: tuple[str, ...]  # who is in it
    heads: Mapping[str, VoteManifest] = field(default_factory=dict)  # what they vouch for, by name
    # a line for each holder that is not in it, by name
    refused: Mapping[str, str] = field(default_factory=dict)


Exchange = Callable[[Question], Gathered]  # has one question answered by all holders


def gathered(roll: Roll, question: Question, contributions: Iterable[Contribution]) -> Gathered:
    """Adds up the answers that count.

    An answer counts as `counted` says, where it is a whole sum and answers this question. It is no longer than that of
    as many teachers as the roll says, so it moves a sum by what its own teachers are worth, and no more.
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
    """A question is out, in a file for the holders, and answers are not there yet, as HOLDER.npz in a folder."""

    def __init__(self, question: Path, answers: Path, missing: tuple[str, ...]) -> None:
        super().__init__(f"{question}: {len(missing)} holders have not answered")
        self.question = question
        self.answers = answers
        self.missing = missing


@dataclass(frozen=True)
class Mailbox:
    """An exchange: writes a question to `questions/NAME.npz`, and reads `answers/NAME/HOLDER.npz`."""

    folder: Path  # of both, of mode 0700
    roll: Roll  # who is expected
    wait: bool = True  # whether all of them are waited for; else `max_absent` of them may stay away

    def __call__(self, question: Question) -> Gathered:
        """The sum of the answers that are there; raises `AnswersAwaited` where they are too few."""
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
            """The answer of a holder; files of strangers, pipes, folders and files that are too large are not read."""
            usual = name in self.roll.holders and is_regular(path) and path.stat().st_size <= most
            return Contribution(name, path.read_bytes() if usual else None, problem)

        return gathered(self.roll, question, [read(*item) for item in paths.items()])


@dataclass(frozen=True)
class Opened:
    """What `opening.json` holds."""

    name: str  # of the release, random: sums of another inbox are not those of this one
    asked: str  # digest of the opening
    # what each holder vouches for, by name, as text
    heads: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundsOfHolders:
    """What the server does with rounds, whatever carries the messages.

    Rule: holders open the release; their teachers learn. Then each question is one sum: three for the prevalence, one
    for each round, every one against what was released before. The ledger is charged for the prevalence before its
    first sum, and for all rounds together before the noise of the first.

    Attributes:
        plan: what is released: `CenteredVotes` in rounds.
        roll: who is expected.
        pool: float32 `[P, d]`, public samples; trained teachers are asked of the first 2,048, the student learns from
            all of them.
        record_ids: `[P]`, what they are called.
        label_names: L.
        num_queries: how many of them the release is about, the first ones; None for all.
        inbox: the folder for sums, of mode 0700; no epsilon covers it.
        output_dir: the folder of the release; of it `release/` may be published.
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
        """Asks, releases, and asks again until all rounds are released; or goes on where it was killed.

        The exchange has one question answered by all holders; the monitor is told of progress, and who is absent.
        Raises `InvalidValue` where too many are, and for whatever `release_votes` refuses. Where rounds were charged
        and not finished, the same call goes on with them at no further price.
        """
        monitor = monitor or Monitor()
        source = AskedVotes(self, exchange, monitor)
        ids = self.record_ids[: self.num_queries]
        cohort = cohort_of_heads(
            source.heads,
            record_ids=ids,
            label_names=self.label_names,
            # of its sums; covered by no epsilon
            digest=hashlib.sha256(to_json(source.opened).encode()).hexdigest(),
            queries=queries_digest(
                np.asarray(self.pool[: self.num_queries], dtype=np.float32), ids
            ),
            places=Places.of(self.roll.holders),
            num_groups=sum(head.num_groups for head in source.heads),
        )
        return release_votes(self.plan, source, cohort, self.output_dir, monitor)


class AskedVotes(VotesInRounds, ShareSums):
    """Holders say sums and nothing finer, so no other form of votes is there. Queries are the first of the pool.

    Each question is asked once, and its sum is kept: a server that was killed goes on with the sums that it has. A sum
    that is lost is not made again as soon as a later question was asked. With other holders present it would be
    another sum, and the same noise on both would give their difference away.
    """

    readers = "centered_votes in rounds (aggregator.rounds=2 or more, or 200 teachers), which needs sums alone"

    def __init__(self, release: RoundsOfHolders, exchange: Exchange, monitor: Monitor) -> None:
        """Has the opening answered, if it was not."""
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
        """The sum that answers a question about the samples of the opening; whoever is absent adds nothing."""
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
        """Enters that a question is asked, before it is; the last one may be asked again."""
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
        """Returns the sums of label shares, which holders are asked for."""
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
    """Votes of rounds: each total is asked of all holders, and whoever is absent in a round adds nothing to it.

    Formal guarantee: see docs/proofs/vote_rounds.md, "Rounds of many holders".
    """

    def __init__(self, votes: AskedVotes, count: int) -> None:
        """Along so many directions of the public pool."""
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
