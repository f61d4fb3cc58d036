"""Fast sums of rows of bits, 64 bits in one operation."""

import math

import numpy as np
from numpy.typing import NDArray

from pate.array_types import IntArray

Words = NDArray[np.uint64]
Packed = NDArray[np.uint8]

# The number of bytes of a word.
_WORD = 8
# The number of words of one pass, so that what it reads and writes fits into a cache.
_CHUNK = 2**15
# The number of counts that are unpacked at a time.
_BITS_AT_ONCE = 2**24


class BitSums:
    """The number of rows in which each bit is set, for rows of packed bits that are added one by one.

    Rule: the counts are kept as binary digits. Digit i of the counts of all bits is itself a row of bits. On the level
    of digit i, two new rows and the row of the level become a sum and a carry (a carry-save adder). The sum stays on
    the level, and the carry goes to the next one. On average a row takes less than one such addition. An addition has
    five operations for 64 bits.
    """

    def __init__(self, *, num_queries: int, bytes_per_query: int) -> None:
        self.shape = (num_queries, bytes_per_query)  # the shape of one row
        self._num_words = -(-num_queries * bytes_per_query // _WORD)
        # the sum of each level, and a second row that waits for a third
        self._levels: list[list[Words]] = []

    def add(self, row: Packed) -> None:
        """Adds the bits of a row of bytes, uint8 `[num_queries, bytes_per_query]`.

        The caller may reuse the array afterward.
        """
        carried_row = np.zeros(self._num_words, dtype=np.uint64)
        carried_row.view(np.uint8)[: row.size] = row.reshape(-1)
        for rows_of_level in self._levels:
            if len(rows_of_level) == 1:
                rows_of_level.append(carried_row)
                return
            level_sum = rows_of_level[0]
            other = rows_of_level.pop()
            for start in range(0, self._num_words, _CHUNK):
                sum_words, other_words, carried_words = (
                    words[start : start + _CHUNK] for words in (level_sum, other, carried_row)
                )
                set_in_one = sum_words ^ other_words
                set_in_both = sum_words & other_words
                np.bitwise_xor(set_in_one, carried_words, out=sum_words)  # the sum stays
                np.bitwise_and(set_in_one, carried_words, out=set_in_one)
                np.bitwise_or(set_in_both, set_in_one, out=carried_words)  # what is carried
        self._levels.append([np.zeros(self._num_words, dtype=np.uint64), carried_row])

    def counts(self, num_labels: int) -> IntArray:
        """Returns the number of added rows in which each bit is set, int64 `[num_queries, num_labels]`.

        A byte has 8 bits. The first `num_labels` bits of each query are counted; the rest of its last byte is padding.
        """
        total = np.zeros((self.shape[0], num_labels), dtype=np.int64)
        queries_per_chunk = max(1, _BITS_AT_ONCE // (self.shape[1] * _WORD))
        for digit, rows_of_level in enumerate(self._levels):
            for words in rows_of_level:
                packed_bits = words.view(np.uint8)[: math.prod(self.shape)].reshape(self.shape)
                for first_query in range(0, self.shape[0], queries_per_chunk):
                    bits = np.unpackbits(
                        packed_bits[first_query : first_query + queries_per_chunk],
                        axis=1,
                        count=num_labels,
                    )
                    total[first_query : first_query + queries_per_chunk] += (
                        bits.astype(np.int64) << digit
                    )
        return total
