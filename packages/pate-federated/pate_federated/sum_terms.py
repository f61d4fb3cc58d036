"""The terms of a secure sum, on which server and holders agree, and the digits of numbers that are too large for it."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.stats import hypergeom

from pate.array_types import FloatArray, IntArray
from pate.errors import InvalidValue
from pate.validation import require, require_count
from pate_federated.distributed_votes import DistributedVotes
from pate_federated.question import LENGTHS, Question, Roll

# Secure sums are computed modulo this number.
MODULUS = 2**32
# The smallest number of holders among which a key may be divided, unless it is divided among all.
_MIN_SHARES = 21
# The largest probability that a sum cannot be opened, since too many shares of a key are with absent holders.
_MAX_FAILURE_PROB = 1e-3
# A share of the noise is taken to be at most so many standard deviations. Larger ones have probability below 10**-340.
_MAX_DEVIATIONS = 40


@dataclass(frozen=True, kw_only=True)
class SumTerms:
    """The terms of a secure sum, on which the server and all holders agree beforehand.

    Secure aggregation adds numbers modulo 2**32. The numbers of a holder lie in -largest_number..largest_number and are
    sent without rounding. The sum is exact, since `num_holders * 2 * largest_number` must be below 2**32.

    Attributes:
        num_holders: n, the number of holders.
        max_absent: d, the largest number of absent holders, >= 1; a sum over fewer than n - d holders is refused.
        largest_number: the largest absolute value of a number that a holder sends.
        shares: k, the number of shares of each key, odd. A holder divides its keys among itself and k - 1
            others, chosen at random, and two thirds of them can open its part. None divides a key among all n holders,
            of whom n - d can open a part. Then not even the server can open a sum over fewer holders.
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
            is_odd_and_below = self.shares % 2 == 1 and self.shares < self.num_holders
            require(is_odd_and_below, "shares", self.shares, rule)
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
    def fewest_holders(self) -> int:
        """The smallest number of holders over which a sum is made, n - d."""
        return self.num_holders - self.max_absent

    @property
    def num_shares(self) -> int:
        """The number of holders among which a key is divided: `shares`, or all holders if that is None."""
        return self.num_holders if self.shares is None else self.shares

    @property
    def threshold(self) -> int:
        """The number of shares that reconstruct a holder's key: two thirds of `shares`, rounded up, or n - d."""
        if self.shares is None:
            return self.fewest_holders
        return math.ceil(2 * self.shares / 3)

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
        rule = (
            f"{self.fewest_holders} to {self.num_holders}, of holders={self.num_holders} with "
            f"max_absent={self.max_absent}"
        )
        is_possible = self.fewest_holders <= num_present <= self.num_holders
        require(is_possible, "holders present", num_present, rule)
        scaled = np.asarray(average, dtype=np.float64) * num_present
        total = np.rint(scaled)
        is_whole = np.abs(scaled - total) < 1e-3
        is_within_terms = np.abs(total) <= self.largest_number * num_present
        if not (is_whole & is_within_terms).all():
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
        mask_of_digit = 2**self.bits_per_digit - 1
        lower_digits = [shifted_numbers & mask_of_digit for shifted_numbers in shifted[:-1]]
        return np.stack([*lower_digits, shifted[-1]])

    def join(self, digits: IntArray) -> IntArray:
        """Returns the whole numbers `[...]` that have the digits `[count, ...]`, the lowest digit first."""
        powers = 2 ** (self.bits_per_digit * np.arange(self.num_digits, dtype=np.int64))
        return np.tensordot(powers, digits.astype(np.int64), axes=1)
