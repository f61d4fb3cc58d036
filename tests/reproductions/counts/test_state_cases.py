"""Daily cases from cumulative ones: first days, missing days, corrections, cuts, windows; and the look-alikes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pate.validation import InvalidValue
from reproductions.counts import CountData, StateCases, check_ins_look_alike, sparse_histogram, state_cases_look_alike

ROWS = [
    "date,state,fips,cases,deaths",
    "2020-03-01,Ohio,39,5,0",
    "2020-03-02,Ohio,39,9,0",
    "2020-03-02,Utah,49,3,0",
    "2020-03-03,Ohio,39,7,1",
    "2020-03-05,Ohio,39,27,1",
    "2020-03-05,Utah,49,4,0",
]


def written(folder: Path, rows: list[str]) -> Path:
    path = folder / "us-states.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_differences_by_hand(tmp_path: Path) -> None:
    data = StateCases(written(tmp_path, ROWS), num_days=5, most=15).load()
    assert (data.items, data.real, data.most) == (("Ohio", "Utah"), True, 15)
    assert data.counts.tolist() == [[5, 0], [4, 3], [0, 0], [0, 0], [15, 1]]
    assert data.notes == (
        "5 days from 2020-03-01",
        "1 corrections that lower a cumulative count taken as 0 new cases",
        "1 counts cut to 15",
    )


def test_the_window_is_the_last_days_unless_it_is_given(tmp_path: Path) -> None:
    path = written(tmp_path, ROWS)
    assert StateCases(path, num_days=2).load().counts.tolist() == [[0, 0], [20, 1]]
    assert StateCases(path, num_days=2, first_day="2020-03-02").load().counts.tolist() == [[4, 3], [0, 0]]
    with pytest.raises(InvalidValue, match="first_day=2020-03-04: expected 3 days between 2020-03-01 and 2020-03-05"):
        StateCases(path, num_days=3, first_day="2020-03-04").load()
    with pytest.raises(InvalidValue, match="first_day=2020-02-25: expected 10 days between"):
        StateCases(path).load()
    with pytest.raises(InvalidValue, match="first_day=March: expected a day such as"):
        StateCases(path, num_days=2, first_day="March").load()


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        ("2020-03-06,Ohio,39,7", "line 8: expected date,state,fips,cases,deaths, with whole numbers"),
        ("2020-03-06,Ohio,39,-7,0", "line 8: expected .* whole numbers >= 0"),
        ("2020-03-06,Ohio,39,7.5,0", "line 8: expected .* whole numbers >= 0"),
        ("2020-03-06,Ohio,39,9999999999999999999,0", r"line 8: expected .* whole numbers >= 0"),
        ("2020-03-06,,39,7,0", "line 8: expected date,state"),
        ("2020-13-06,Ohio,39,7,0", "line 8: expected a day such as"),
        ("2020-03-05,Utah,49,4,0", "line 8: expected one line a day and state, and Utah has another on 2020-03-05"),
    ],
)
def test_a_row_that_does_not_fit_is_named(tmp_path: Path, row: str, rule: str) -> None:
    with pytest.raises(InvalidValue, match=rule):
        StateCases(written(tmp_path, [*ROWS, row]), num_days=2).load()


def test_headers_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="line 1: expected the header date,state,fips,cases,deaths"):
        StateCases(written(tmp_path, ROWS[1:])).load()
    with pytest.raises(InvalidValue, match="expected at least one line of counts"):
        StateCases(written(tmp_path, ROWS[:1])).load()


def test_look_alikes_are_the_same_each_time_and_say_that_they_are_synthetic() -> None:
    for make in (state_cases_look_alike, check_ins_look_alike, sparse_histogram):
        one, two = make(), make()
        assert np.array_equal(one.counts, two.counts)
        assert one.kind == "synthetic"
    assert state_cases_look_alike(4, num_states=7).counts.shape == (4, 7)
    sparse = sparse_histogram()
    assert ((sparse.counts > 0).sum(), len(sparse.items)) == (700, 15_000)
    assert sparse_histogram(least=500).counts[699:701].tolist() == [500, 0]


def test_counts_and_names_fit_together() -> None:
    with pytest.raises(InvalidValue, match=r"counts\.shape=\(2,\): expected 1 items"):
        CountData("toy", False, ("a",), np.array([1, 2]), most=2)
    with pytest.raises(InvalidValue, match=r"counts\[0\]: expected counts in 0\.\.2"):
        CountData("toy", False, ("a",), np.array([3]), most=2)
    with pytest.raises(InvalidValue, match="num_counts=9: expected at most num_items=3"):
        sparse_histogram(3, 9)
    with pytest.raises(InvalidValue, match=r"least=-1: expected a number in 0\.\.most=50000"):
        sparse_histogram(least=-1)
