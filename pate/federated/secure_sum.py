"""The terms of a secure sum, and whole numbers of any size as digits that it has room for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from pate.aggregators import DistributedVotes
from pate.federated.question import LENGTHS, Question
from pate.federated.roll import Roll
from pate.validation import InvalidValue, require, require_count
from pate.votes.clipping import Integers

MODULUS = 2**32
_FEWEST_SHARES = 21
_LIKELY_ENOUGH = 1e-3
_TAILS = 40  # standard deviations of a share: beyond them lie less than 10**-340 of it


@dataclass(frozen=True, kw_only=True)
class SumTerms:
    """The same at every holder and at the server, agreed on beforehand.

    Secure aggregation adds numbers up modulo 2**32. Every holder's numbers are in -most..most and are sent as they are,
    so that the sum of all of them comes out exactly: `num_holders * 2 * most` has to be below 2**32.

    Attributes:
        num_holders: n.
        max_absent: d, how many of them may be absent, >= 1; a sum of fewer than n - d holders is refused.
        most: the largest size of a number that a holder sends.
        shares: k, odd: every holder shares its keys with k - 1 others, dealt at random, and two thirds of these open
            its part. None for all n, of whom n - d open it: then not even the server can open a sum of fewer.
    """

    num_holders: int
    max_absent: int
    most: int
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
        most, absent = max(roll.holders.values()), roll.max_absent
        return cls(num_holders=len(roll.holders), max_absent=absent, most=most, shares=shares)

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
        terms = cls.terms_of(roll, shares)
        bits = terms.most.bit_length() - 1
        largest = 1 if question.kind == LENGTHS else math.ceil(question.reach)
        room = (largest * max(roll.holders.values())).bit_length() + 1
        return cls(terms, bits, max(1, -(-room // bits)))

    @staticmethod
    def terms_of(roll: Roll, shares: int | None = None) -> SumTerms:
        """The terms of all secure sums in rounds: digits as large as the sum has room for."""
        num_holders, absent = len(roll.holders), roll.max_absent
        room = (MODULUS - 1) // (2 * num_holders)
        return SumTerms(num_holders=num_holders, max_absent=absent, most=2 ** (room.bit_length() - 1), shares=shares)

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
