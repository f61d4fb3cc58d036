"""The sample of private records for baselines has whole groups, is repeatable, and leaves out none of few records."""

import numpy as np
import pytest

from pate.run.record_sample import sampled_rows

GROUP_OF_ROW = np.repeat(np.arange(300), np.arange(300) % 4 + 1)[::-1]  # 1 to 4 records each


def test_a_sample_has_whole_groups_and_nearly_as_many_records_as_it_may() -> None:
    """A sample of at most 100 records has 97 at least, and each group with all of its records or with none."""
    rows = sampled_rows(GROUP_OF_ROW, most_rows=100)
    assert 97 <= len(rows) <= 100
    assert (np.diff(rows) > 0).all()
    groups_of_rows_left_out = np.delete(GROUP_OF_ROW, rows)
    assert not np.isin(GROUP_OF_ROW[rows], groups_of_rows_left_out).any()


def test_equal_records_have_equal_samples() -> None:
    """A second call returns the same rows as the first, of more than 20 groups."""
    rows = sampled_rows(GROUP_OF_ROW, most_rows=100)
    np.testing.assert_array_equal(sampled_rows(GROUP_OF_ROW, most_rows=100), rows)
    assert len(np.unique(GROUP_OF_ROW[rows])) > 20


@pytest.mark.parametrize("most_rows", [len(GROUP_OF_ROW), len(GROUP_OF_ROW) + 1])
def test_few_records_are_all_taken(most_rows: int) -> None:
    """All records are taken if there are at most `most_rows`."""
    rows = sampled_rows(GROUP_OF_ROW, most_rows=most_rows)
    np.testing.assert_array_equal(rows, np.arange(len(GROUP_OF_ROW)))


def test_a_single_group_is_taken_whole_even_if_it_is_too_large() -> None:
    """`sampled_rows` takes all 50 records of the only group, although the sample should have at most 10."""
    same_group_of_rows = np.zeros(50, dtype=np.int64)
    assert len(sampled_rows(same_group_of_rows, most_rows=10)) == 50
