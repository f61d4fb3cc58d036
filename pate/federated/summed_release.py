"""A release of a secure sum: the server never has a holder's votes, and with distributed noise no sum without noise.

The terms of such a sum, whole numbers of any size as digits that it has room for, and both sides of it.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from pate.aggregators import DistributedVotes
from pate.federated.question import LENGTHS, Question, Request
from pate.federated.roll import Roll
from pate.files.arrays import ArrayForm, read_arrays
from pate.files.disk import FROM_BACKUP, locked, make_folder, read_text, write_arrays, write_text
from pate.mechanisms import secret_generator
from pate.run.places import Places
from pate.run.progress import Monitor
from pate.run.stages.holder import HolderPlan
from pate.run.stages.release import Cohort, ReleasePlan, Terms, release_votes
from pate.validation import InvalidValue, require, require_count
from pate.votes.clipping import Integers
from pate.votes.source import CountedVotes, NoisySum, Total, VoteSource
from pate.votes.vote_file import VoteFile

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
    max_absent: int  # d, how many of them may be absent, >= 1; a sum of fewer than n - d holders is refused
    most: int  # the largest size of a number that a holder sends
    # k, odd: every holder shares its keys with k - 1 others, dealt at random, and two thirds of these open its part.
    # None for all n, of whom n - d open it: then not even the server can open a sum of fewer
    shares: int | None = None

    def __post_init__(self) -> None:
        require_count("num_holders", self.num_holders, minimum=3)
        rule = "1 or more with secure aggregation, in which all holders but one can open a sum"
        require(self.max_absent >= 1, "max_absent", self.max_absent, rule)
        most = (self.num_holders - 1) // 2
        rule = f"at most {most}, fewer than half: else a server opens single holders by telling half that one is absent"
        require(self.max_absent <= most, "max_absent", self.max_absent, rule)
        require_count("most", self.most)
        room = (MODULUS - 1) // (2 * self.num_holders)
        rule = f"at most {room}, so that the sum of {self.num_holders} holders stays below 2**32"
        require(self.most <= room, "most", self.most, rule)
        if self.shares is not None:
            require_count("shares", self.shares, minimum=_FEWEST_SHARES)
            rule = f"an odd number below num_holders={self.num_holders}"
            require(self.shares % 2 == 1 and self.shares < self.num_holders, "shares", self.shares, rule)
            # at most: that of some holder's shares too many are with absent holders, when as many are absent as may be
            spare = self.num_shares - self.threshold
            each = hypergeom.sf(spare, self.num_holders, self.max_absent, self.num_shares)
            fails = float(self.num_holders * each)
            rule = f"more: with max_absent={self.max_absent} a sum could not be opened with probability {fails:.1g}"
            require(fails <= _LIKELY_ENOUGH, "shares", self.shares, rule)

    @classmethod
    def of_counts(cls, roll: Roll, shares: int | None = None) -> SumTerms:
        most = max(roll.holders.values())
        return cls(num_holders=len(roll.holders), max_absent=roll.max_absent, most=most, shares=shares)

    @classmethod
    def of_noise(cls, aggregator: DistributedVotes, roll: Roll) -> SumTerms:
        """For counts with shares of noise; raises where the aggregator is for others, or for too many colluders."""
        for name, wanted in {"num_holders": len(roll.holders), "max_dropouts": roll.max_absent}.items():
            found = getattr(aggregator, name)
            require(found == wanted, f"aggregator.{name}", found, f"{wanted}, as the roll says")
        colluders, spare = aggregator.max_colluders, len(roll.holders) - 2 * roll.max_absent
        rule = f"less than {spare}: with max_absent={roll.max_absent} so many open single holders"
        require(colluders < spare, "aggregator.max_colluders", colluders, rule)
        shares = aggregator.shares
        reach = math.ceil(_TAILS * math.sqrt(shares.share_variance))
        most = shares.steps * max(roll.holders.values()) + reach
        return cls(num_holders=len(roll.holders), max_absent=roll.max_absent, most=most)

    @classmethod
    def of_digits(cls, roll: Roll, shares: int | None = None) -> SumTerms:
        """For all secure sums in rounds: digits as large as the sum has room for."""
        num_holders = len(roll.holders)
        most = 2 ** (((MODULUS - 1) // (2 * num_holders)).bit_length() - 1)
        return cls(num_holders=num_holders, max_absent=roll.max_absent, most=most, shares=shares)

    @property
    def least(self) -> int:
        return self.num_holders - self.max_absent

    @property
    def num_shares(self) -> int:
        return self.num_holders if self.shares is None else self.shares

    @property
    def threshold(self) -> int:
        """How many shares of a key it takes to open a sum."""
        return self.least if self.shares is None else -(-2 * self.shares // 3)

    def require_sendable(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """The numbers as floats that are the same; raises where one is too large, since it would be cut in silence."""
        if np.abs(numbers).max(initial=0) > self.most:
            raise InvalidValue(f"counts: expected numbers of at most {self.most}, the terms of the sum")
        return numbers.astype(np.float64)

    def exact_sum(self, average: Any, present: int) -> NDArray[np.int64]:
        """The sum of whole numbers from their average; raises for too few or too many holders, or other numbers."""
        rule = f"{self.least} to {self.num_holders}, of holders={self.num_holders} with max_absent={self.max_absent}"
        require(self.least <= present <= self.num_holders, "holders present", present, rule)
        scaled = np.asarray(average, dtype=np.float64) * present
        total = np.rint(scaled)
        whole = bool((np.abs(scaled - total) < 1e-3).all() and (np.abs(total) <= self.most * present).all())
        if not whole:
            raise InvalidValue("sum: expected whole numbers within the terms; some holder kept to others")
        return total.astype(np.int64)


@dataclass(frozen=True)
class Limbs:
    """A number x is sent as digits: x = sum of digit_i 2**(bits i), the last one with the sign of x.

    Digits are added up one by one and put together afterwards, so the sum is exact. The sums of the digits say a little
    more than the sum of the numbers: how often digits ran over. They are sums over all holders as well.
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
        digits, left = [], total.astype(np.int64)
        for _ in range(self.count - 1):
            digits.append(left & (2**self.bits - 1))
            left = left >> self.bits
        return np.stack([*digits, left])

    def joined(self, digits: Integers) -> Integers:
        powers = 2 ** (self.bits * np.arange(self.count, dtype=np.int64))
        return np.tensordot(powers, digits.astype(np.int64), axes=1)


@dataclass(frozen=True)
class HolderSum:
    """A holder's side of a secure sum. All of it is the holder's own: nothing comes from the server."""

    terms: SumTerms  # of the sum
    # the aggregator whose share of the noise is added; None where the server adds the noise, and sees the sum
    noise: DistributedVotes | None = None
    # of the noise, for tests; whoever knows it is a colluder. None draws from the operating system
    seed: int | None = None
    # to how many requests numbers with noise are sent in all: each is a release, at the price of one
    max_answers: int = 1

    def __post_init__(self) -> None:
        require_count("max_answers", self.max_answers)

    def numbers(self, plan: HolderPlan, request: Request, votes: Path, folder: Path) -> NDArray[np.float64]:
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
        require(request.vote_clip == most, "vote_clip", request.vote_clip, f"max_votes={most} of the agreed noise")
        self._answer_once(folder, request)
        rng = secret_generator() if self.seed is None else np.random.default_rng([self.seed, *plan.holder.encode()])
        noisy = self.noise.contribution(counts, num_teachers=file.manifest.num_teachers, rng=rng)
        return self.terms.require_sendable(noisy)

    def _answer_once(self, folder: Path, request: Request) -> None:
        """Notes on disk, before anything is sent, that this request has its answer."""
        path = folder / f"answered-{request.digest}"
        with locked(folder / _LOCK):
            rule = "a request that was not answered before: a second noisy sum is a second release"
            if os.path.lexists(path):
                raise InvalidValue(f"request: expected {rule}")
            others = len(list(folder.glob("answered-*")))
            rule = f"at most {self.max_answers}, the max_answers of this holder"
            require(others < self.max_answers, "requests answered with noise", others + 1, rule)
            write_text(path, "")


def first_note(path: Path, text: str) -> str | None:
    """Writes a note where none is of that name, and says what is in an earlier one; for processes side by side."""
    with locked(path.parent / _LOCK):
        if os.path.lexists(path):
            return read_text(path, remedy=FROM_BACKUP)
        write_text(path, text)
    return None


_FORMS = {"total": ArrayForm("i", (None, None)), "holders": ArrayForm("U", (None,)), "asked": ArrayForm("U", ())}
_REMEDY = "restore it from a backup; without noise, remove it and holders are asked again"
_MOST_BYTES = 2**36

Summed = tuple[NDArray[np.int64], tuple[str, ...]]
"""The sum `[Q, L]`, and who is in it."""


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
    # of the sum, see `SumTerms.shares`; None with the holders' noise: its price rests on who can open it
    shares: int | None = None

    def __post_init__(self) -> None:
        if self.noise is not None:
            rule = "None: holders have agreed on the noise; pate-account solves for it"
            require(self.plan.target_epsilon is None, "target_epsilon", self.plan.target_epsilon, rule)
            clip, most = self.request.vote_clip, self.noise.max_votes
            require(clip == most, "vote_clip", clip, f"max_votes={most} of the aggregator")
            rule = "None with distributed_votes: nobody may open a sum of fewer holders than its price counts on"
            require(self.shares is None, "shares", self.shares, rule)

    @property
    def noise(self) -> DistributedVotes | None:
        aggregator = self.plan.aggregator
        return aggregator if isinstance(aggregator, DistributedVotes) else None

    @property
    def terms(self) -> SumTerms:
        if self.noise is not None:
            return SumTerms.of_noise(self.noise, self.roll)
        return SumTerms.of_counts(self.roll, self.shares)

    def run(self, ask: Callable[[], Summed], monitor: Monitor | None = None) -> Terms:
        """Has the sum made once, by `secure_sum`, and releases it, or continues where it was killed.

        Raises `InvalidValue` for too few holders, and for whatever `release_votes` refuses.
        """
        _ = self.terms
        make_folder(self.inbox)
        request = self.request
        source: VoteSource

        def total() -> Total:
            found, holders = self.made(ask)
            return found, len(holders)

        if self.noise is not None:
            asked = repr((request.digest, request.vote_clip, sorted(self.roll.holders.items())))
            digest = hashlib.sha256(asked.encode()).hexdigest()
            shape = {"num_queries": request.num_queries, "num_labels": request.num_labels}
            source = NoisySum(total, num_teachers=self.roll.num_teachers, **shape, digest=digest)
        else:
            source = self.counted(ask)
            digest = hashlib.sha256(b"summed votes" + np.ascontiguousarray(source.counts()).tobytes()).hexdigest()
        cohort = Cohort(
            dataset=self.dataset,
            real=self.real,
            record_ids=request.record_ids,
            label_names=request.label_names,
            digest=digest,
            queries=request.digest,
            places=Places.of(self.roll.holders),
        )
        return release_votes(self.plan, source, cohort, self.output_dir, monitor)

    def counted(self, ask: Callable[[], Summed]) -> VoteSource:
        """The votes of all teachers; those of absent holders are as in `Collection.source`."""
        counts, holders = self.made(ask)
        if self.plan.aggregator.single_label:
            counts[:, 0] += sum(count for name, count in self.roll.holders.items() if name not in holders)
        return CountedVotes(counts, num_teachers=self.roll.num_teachers, max_votes=self.request.vote_clip)

    def made(self, ask: Callable[[], Summed]) -> Summed:
        """The sum, which is kept before anything is done with it."""
        path = self.inbox / "sum.npz"
        if not os.path.lexists(path):
            total, holders = ask()
            asked = np.array(self.request.digest)
            write_arrays(path, total=total, holders=np.array(holders, dtype=np.str_), asked=asked)
        found = read_arrays(path, _FORMS, remedy=_REMEDY, most=_MOST_BYTES)
        rule = "those of the request; take another inbox for another request"
        require(str(found["asked"]) == self.request.digest, "inbox, queries", "others", rule)
        return found["total"].astype(np.int64), tuple(found["holders"].tolist())
