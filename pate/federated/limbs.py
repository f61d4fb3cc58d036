"""Whole numbers of any size as digits that a secure sum has room for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pate.federated.question import LENGTHS, Question
from pate.federated.roll import Roll
from pate.federated.summed_release import MODULUS, SumTerms
from pate.votes.clipping import Integers


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
