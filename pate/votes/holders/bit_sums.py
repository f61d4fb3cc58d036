"""Counts of votes from packed bits, without a byte for each vote."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Packed = NDArray[np.uint8]

_WORD = 8  # bytes
_CHUNK = 2**15  # words of one pass: what it reads and writes fits into a cache
_BITS_AT_ONCE = 2**24


class BitSums:
    """Adds up rows of bits, 64 of them in one operation, in counters whose digits are rows of bits themselves.

    Rule: a level of weight 2**i keeps at most one row. Two rows and the one that is there become a sum, which stays,
    and a carry, which goes to the next level (a carry-save adder). A row costs less than one such addition in the mean,
    five operations for 64 bits, however many rows there are.

    Args:
        shape: of the bytes of one row, `[Q, B]`.

    Attributes:
        num_rows: rows that were added.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape, self.num_rows = shape, 0
        self._num_words = -(-shape[0] * shape[1] // _WORD)
        self._levels: list[Words] = []
        self._waiting: list[Words | None] = []

    def add(self, row: Packed) -> None:
        """Adds the bits of bytes `[Q, B]`; the array may be used again afterward."""
        carry = self._words(row)
        level = 0
        while True:
            if level == len(self._levels):
                self._levels.append(np.zeros(self._num_words, dtype=np.uint64))
                self._waiting.append(None)
            other = self._waiting[level]
            if other is None:
                self._waiting[level] = carry
                break
            self._waiting[level] = None
            carry = _added(self._levels[level], other, carry)
            level += 1
        self.num_rows += 1

    def counts(self, num_labels: int) -> NDArray[np.int64]:
        """How many rows have each bit, int64 `[Q, num_labels]`.

        Args:
            num_labels: L, of the B bytes of a query the first bits.
        """
        total = np.zeros((self.shape[0], num_labels), dtype=np.int64)
        rows = max(1, _BITS_AT_ONCE // (self.shape[1] * _WORD))
        for level, (kept, waiting) in enumerate(zip(self._levels, self._waiting, strict=True)):
            for words in (kept, waiting):
                if words is None:
                    continue
                packed = words.view(np.uint8)[: self.shape[0] * self.shape[1]].reshape(self.shape)
                for first in range(0, self.shape[0], rows):
                    bits = np.unpackbits(packed[first : first + rows], axis=1, count=num_labels)
                    total[first : first + rows] += bits.astype(np.int64) << level
        return total

    def _words(self, row: Packed) -> Words:
        words = np.zeros(self._num_words, dtype=np.uint64)
        words.view(np.uint8)[: row.size] = row.reshape(-1)
        return words


def _added(kept: Words, first: Words, second: Words) -> Words:
    """Adds two rows of bits to the one that is kept, in place; returns the carries, in the place of the second."""
    for start in range(0, len(kept), _CHUNK):
        part = slice(start, start + _CHUNK)
        a, b, c = kept[part], first[part], second[part]
        either = a ^ b
        both = a & b
        np.bitwise_xor(either, c, out=a)
        np.bitwise_and(either, c, out=either)
        np.bitwise_or(both, either, out=c)
    return second
