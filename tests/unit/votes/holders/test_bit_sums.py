"""Counts from packed bits are those of the bits, for any number of rows and labels."""

from __future__ import annotations

import numpy as np
import pytest

from pate.votes.gathered import BitSums


@pytest.mark.parametrize("num_rows", [1, 2, 3, 4, 7, 8, 15, 16, 100, 257])
@pytest.mark.parametrize(("num_queries", "num_labels"), [(1, 1), (3, 8), (5, 11), (40, 1000)])
def test_sums_of_packed_bits_are_sums_of_bits(num_rows: int, num_queries: int, num_labels: int) -> None:
    rng = np.random.default_rng(num_rows)
    bits = rng.random((num_rows, num_queries, num_labels)) < rng.random((num_queries, num_labels))
    sums = BitSums((num_queries, -(-num_labels // 8)))
    row = np.empty((num_queries, -(-num_labels // 8)), dtype=np.uint8)
    for votes in bits:
        row[:] = np.packbits(votes, axis=1)
        sums.add(row)  # which is used again
        row[:] = 0xFF
    np.testing.assert_array_equal(sums.counts(num_labels), bits.sum(axis=0))
    np.testing.assert_array_equal(sums.counts(num_labels), bits.sum(axis=0), "and may be read twice")
    assert sums.num_rows == num_rows


def test_all_votes_for_everything_fill_every_digit() -> None:
    sums = BitSums((2, 1))
    for _ in range(1023):
        sums.add(np.full((2, 1), 0xFF, dtype=np.uint8))
    assert (sums.counts(8) == 1023).all()
