"""Regularizers: the one for a fixed k, numbers that compare by value, refusals on one line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pate.mechanisms import FixedKRegularizer, GapSelection
from pate.mechanisms.gap_selection import SELECTION_NOISES, checked_regularizer, exactly_addable, offsets_of
from pate.validation import InvalidValue

CANDIDATES = np.arange(1, 4)


def test_fixed_k_by_hand() -> None:
    regularizer = FixedKRegularizer(k=2, penalty=1.5)
    assert [regularizer(candidate) for candidate in range(5)] == [-3.0, -1.5, 0.0, -1.5, -3.0]
    assert regularizer == FixedKRegularizer(k=2, penalty=1.5)
    assert math.copysign(1, FixedKRegularizer(k=2, penalty=0.0)(2)) == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"k": -1, "penalty": 1.0}, r"k=-1: expected a whole number >= 0"),
        ({"k": 2.0, "penalty": 1.0}, r"k=2\.0: expected a whole number >= 0"),
        ({"k": 2, "penalty": -1.0}, r"penalty=-1\.0: expected a number >= 0"),
        ({"k": 2, "penalty": math.inf}, r"penalty=inf: expected a number >= 0"),
    ],
)
def test_impossible_preferences_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        FixedKRegularizer(**fields)


@pytest.mark.parametrize("numbers", [[0, 1, -2], (0.0, 1.0, -2.0), np.array([0, 1, -2]), np.float32([0, 1, -2])])
def test_numbers_become_a_tuple_that_compares_and_hashes(numbers: Any) -> None:
    assert checked_regularizer(numbers) == (0.0, 1.0, -2.0)
    selection = GapSelection(noise_scale=1.0, num_labels=4, num_teachers=5, regularizer=numbers)
    assert hash(selection) == hash(GapSelection(noise_scale=1.0, num_labels=4, num_teachers=5, regularizer=[0, 1, -2]))


def test_functions_and_nothing_stay_what_they_are() -> None:
    def steps(k: int) -> float:
        return float(k)

    assert checked_regularizer(steps) is steps
    assert checked_regularizer(None) is None
    assert offsets_of(None, CANDIDATES).tolist() == [0, 0, 0]
    assert offsets_of(steps, CANDIDATES).tolist() == [1, 2, 3]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "1", None, True, [1.0], 1j])
def test_values_that_are_no_finite_numbers_are_refused_on_one_line(value: Any) -> None:
    for refuse in (
        lambda: checked_regularizer([0.0, value, 0.0]),
        lambda: offsets_of(lambda k: value, CANDIDATES),
        lambda: offsets_of([0.0, value, 0.0], CANDIDATES),
    ):
        with pytest.raises(InvalidValue, match=r"regularizer=.*: expected finite numbers") as caught:
            refuse()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "shown"), [(3.0, r"3\.0"), ("steep", "steep"), (np.zeros((2, 2)), r"array of shape \(2, 2\)")]
)
def test_what_is_neither_function_nor_list_is_refused(value: Any, shown: str) -> None:
    with pytest.raises(InvalidValue, match=rf"regularizer={shown}: expected a function of k or a list of numbers"):
        checked_regularizer(value)


@pytest.mark.parametrize("count", [0, 2, 4])
def test_one_number_for_each_candidate(count: int) -> None:
    with pytest.raises(InvalidValue, match=rf"regularizer=\({count},\): expected 3 numbers"):
        offsets_of([0.0] * count, CANDIDATES)


@pytest.mark.parametrize("noise", SELECTION_NOISES)
@pytest.mark.parametrize("offset", [0.1, 1e6 + 0.3, 1e15, -(2.0**50)])
def test_large_offsets_do_not_round_gaps(noise: str, offset: float) -> None:
    """What is added to all candidates changes nothing: rounded sums would move by more than the price allows."""
    shape: dict[str, Any] = {"noise_scale": 100.0, "noise": noise, "num_labels": 3, "num_teachers": 1000}
    plain, moved = GapSelection(**shape), GapSelection(**shape, regularizer=[offset, offset])
    votes = np.array([[600, 600 - gap, 200] for gap in range(100, 117)])
    np.testing.assert_allclose(moved.probabilities(votes), plain.probabilities(votes), rtol=1e-12)


def test_offsets_beside_which_gaps_would_be_rounded_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r"regularizer=1e\+17: expected numbers up to 2\*\*50"):
        GapSelection(noise_scale=1.0, num_labels=3, num_teachers=9, regularizer=[1e17, 1e17])
    assert exactly_addable(np.array([0.1, -3.0]), to=1000).tolist() == pytest.approx([0.1, -3.0], abs=1e-12)
