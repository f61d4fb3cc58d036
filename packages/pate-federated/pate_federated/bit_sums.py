"""Sums of rows of bits, 64 of them in one operation."""

import math

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Packed = NDArray[np.uint8]

_WORD = 8  # bytes
_CHUNK = 2**15  # words of one pass: what it reads and writes fits into a cache
_BITS_AT_ONCE = 2**24


class BitSums:
    """Adds up rows of bits, 64 of them in one operation, in counters whose digits are rows of bits themselves.

    Rule: on a level of weight 2**i two rows and the one that is there become a sum, which stays, and a carry, which
    goes to the next level (a carry-save adder). A row costs less than one such addition in the mean, five operations
    for 64 bits, however many rows there are.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape  # of the bytes of one row, `[Q, B]`
        self._num_words = -(-shape[0] * shape[1] // _WORD)
        # the sum of each level, and beside it the row that waits
        self._levels: list[list[Words]] = []

    def add(self, row: Packed) -> None:
        """Adds the bits of bytes `[Q, B]`; the array may be used again afterward."""
        carry = np.zeros(self._num_words, dtype=np.uint64)
        carry.view(np.uint8)[: row.size] = row.reshape(-1)
        for level in self._levels:
            if len(level) == 1:
                level.append(carry)
                return
            kept = level[0]
            other = level.pop()
            for start in range(0, self._num_words, _CHUNK):
                a, b, c = (words[start : start + _CHUNK] for words in (kept, other, carry))
                either = a ^ b
                both = a & b
                np.bitwise_xor(either, c, out=a)  # the sum stays
                np.bitwise_and(either, c, out=either)
                np.bitwise_or(both, either, out=c)  # what is carried
        self._levels.append([np.zeros(self._num_words, dtype=np.uint64), carry])

    def counts(self, num_labels: int) -> NDArray[np.int64]:
        """How many rows have each bit, int64 `[Q, num_labels]`: the first bits of the B bytes of a query."""
        total = np.zeros((self.shape[0], num_labels), dtype=np.int64)
        rows = max(1, _BITS_AT_ONCE // (self.shape[1] * _WORD))
        for digit, level in enumerate(self._levels):
            for words in level:
                packed = words.view(np.uint8)[: math.prod(self.shape)].reshape(self.shape)
                for first in range(0, self.shape[0], rows):
                    bits = np.unpackbits(packed[first : first + rows], axis=1, count=num_labels)
                    total[first : first + rows] += bits.astype(np.int64) << digit
        return total
