"""The sample of private records that the baselines of a report are computed from, where there are many records.

A *baseline* is a model that the student is compared with. Two baselines may read the private records once more: the
model of all private records, and the student of the votes without noise, if the teachers need no training. On many
records each would take as long as the release, and a sample tells nearly the same. No epsilon covers a baseline.
"""

import numpy as np

from pate.array_types import IntArray
from pate.data import Split

MAX_ROWS = 200_000
"""The largest number of private records that a baseline reads, unless the user asks for all or one group has more."""

# The sample needs no secrecy, as baselines are never published, and runs that share models need the same one.
_SEED = 0


def baseline_rows(private_records: Split) -> IntArray:
    """Returns the row numbers, ascending, of the private records that baselines learn from if there are many.

    They are those of `sampled_rows`; with few records, those of all records.
    """
    return sampled_rows(private_records.group_ids, most_rows=MAX_ROWS)


def sampled_rows(group_ids: IntArray, *, most_rows: int) -> IntArray:
    """Returns the row numbers, ascending, of a random sample of whole groups of records.

    If there are at most `most_rows` records, all are taken. Otherwise groups are taken in a random order until the next
    one would exceed `most_rows`, and at least one is taken. Equal arguments give equal samples.

    Args:
        group_ids: the group of each private record, `[num_records]`.
        most_rows: the largest number of records that are taken, unless the first group has more.
    """
    num_records = len(group_ids)
    if num_records <= most_rows:
        return np.arange(num_records)
    _, group_of, group_sizes = np.unique(group_ids, return_inverse=True, return_counts=True)
    group_order = np.random.default_rng(_SEED).permutation(len(group_sizes))
    num_groups = max(
        1, int(np.searchsorted(np.cumsum(group_sizes[group_order]), most_rows, side="right"))
    )
    is_taken = np.zeros(len(group_sizes), dtype=np.bool_)
    is_taken[group_order[:num_groups]] = True
    return np.flatnonzero(is_taken[group_of])


def is_sampled(private_records: Split, *, wants_all_records_model: bool | None) -> bool:
    """Returns True if baselines read only a sample of the private records.

    That is so if there are too many of them, and `all_records` is not true.

    Args:
        private_records: the private records.
        wants_all_records_model: the setting `all_records`.
    """
    return not wants_all_records_model and len(private_records) > MAX_ROWS


def sample_in_words(*, num_taken: int, num_records: int) -> str:
    """Returns a phrase on a sample of private records.

    >>> sample_in_words(num_taken=200_000, num_records=1_500_000)
    'a random sample of whole groups, 200,000 of 1,500,000 private records'
    """
    taken = f"{num_taken:,} of {num_records:,} private records"
    return f"a random sample of whole groups, {taken}"
