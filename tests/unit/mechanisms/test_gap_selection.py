"""Gap selection on single histograms and batches, its candidates, regularizers and refusals."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency, BoundedRangeEvent, NoOpEvent, OpposedMaximaEvent, PureDpEvent
from pate.mechanisms import FixedKRegularizer, GapSelection
from pate.mechanisms.gap_selection import SELECTION_NOISES, checked_regularizer, exactly_addable, offsets_of
from pate.validation import InvalidValue

SELECTION = GapSelection(noise_scale=2.0, num_labels=4, num_teachers=6)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_candidates_with_and_without_padding() -> None:
    assert SELECTION.candidates.tolist() == [1, 2, 3]
    padded = GapSelection(noise_scale=2.0, num_labels=4, num_teachers=6, padded=True)
    assert padded.candidates.tolist() == [0, 1, 2, 3, 4]


def test_distribution_by_hand() -> None:
    """Gaps (1, 3, 2) at scale 2: weights exp(gap / 2)."""
    weights = np.exp(np.array([1, 3, 2]) / 2)
    np.testing.assert_allclose(SELECTION.probabilities(np.array([6, 0, 5, 2])), weights / weights.sum(), rtol=1e-12)


def test_padding_adds_the_gaps_to_all_and_to_none() -> None:
    padded = GapSelection(noise_scale=1.0, num_labels=2, num_teachers=9, padded=True)
    weights = np.exp(np.array([9 - 5, 5 - 3, 3], dtype=float))
    np.testing.assert_allclose(padded.probabilities(np.array([3, 5])), weights / weights.sum(), rtol=1e-12)


@pytest.mark.parametrize("noise", SELECTION_NOISES)
def test_a_batch_is_its_rows(noise: str) -> None:
    selection = GapSelection(noise_scale=2.0, noise=noise, num_labels=4, num_teachers=6)
    votes = np.array([[6, 5, 2, 0], [0, 1, 1, 6], [3, 3, 3, 3]])
    rows = np.stack([selection.probabilities(row) for row in votes])
    np.testing.assert_allclose(selection.probabilities(votes), rows, rtol=1e-12)
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-9)
    drawn = selection(votes, rng=rng())
    assert drawn.shape == (3,)
    assert selection(votes[0], rng=rng()).shape == ()


@pytest.mark.parametrize("noise", SELECTION_NOISES)
def test_a_clear_gap_wins_against_little_noise(noise: str) -> None:
    selection = GapSelection(noise_scale=0.1, noise=noise, num_labels=4, num_teachers=30)
    votes = np.tile([30, 0, 29, 28], (100, 1))
    assert (selection(votes, rng=rng()) == 3).all()


@pytest.mark.parametrize("noise", SELECTION_NOISES)
def test_huge_noise_chooses_evenly(noise: str) -> None:
    selection = GapSelection(noise_scale=1e6, noise=noise, num_labels=4, num_teachers=6)
    np.testing.assert_allclose(selection.probabilities(np.array([6, 0, 0, 0])), np.full(3, 1 / 3), atol=1e-5)


@pytest.mark.parametrize("noise", SELECTION_NOISES)
def test_regularizer_as_function_or_numbers(noise: str) -> None:
    def make(regularizer: Any) -> np.ndarray:
        selection = GapSelection(
            noise_scale=2.0, noise=noise, num_labels=4, num_teachers=6, regularizer=regularizer, padded=True
        )
        return selection.probabilities(np.array([6, 4, 3, 1]))

    as_function, as_numbers = make(lambda k: -0.5 * k), make([0, -0.5, -1, -1.5, -2])
    np.testing.assert_allclose(as_function, as_numbers, rtol=1e-12)
    constant = make(lambda k: 7.0)
    np.testing.assert_allclose(constant, make(None), rtol=1e-9)
    assert (as_function[0] > make(None)[0]) and (as_function[4] < make(None)[4])


@pytest.mark.parametrize(
    ("padded", "max_k", "candidates"),
    [(False, 1, [1]), (False, 2, [1, 2]), (False, 9, [1, 2, 3]), (True, 1, [0, 1]), (True, 4, [0, 1, 2, 3, 4])],
)
def test_candidates_up_to_max_k(padded: bool, max_k: int, candidates: list[int]) -> None:
    selection = dataclasses.replace(SELECTION, padded=padded, max_k=max_k)
    assert selection.candidates.tolist() == candidates
    dataclasses.replace(selection, regularizer=[0.0] * len(candidates))
    with pytest.raises(InvalidValue, match=rf"regularizer=\(7,\): expected {len(candidates)} numbers"):
        dataclasses.replace(selection, regularizer=[0.0] * 7)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("noise", SELECTION_NOISES)
def test_with_max_k_only_the_best_counts_matter(noise: str, padded: bool) -> None:
    """Two candidates need three counts; how many labels there are beside them, and their votes, is all the same."""
    distributions = []
    for votes in ([6, 3, 1], [1, 6, 0, 3, 1], [1, 1, 6, 0, 0, 1, 3]):
        selection = GapSelection(
            noise_scale=2.0, noise=noise, num_labels=len(votes), num_teachers=6, padded=padded, max_k=2
        )
        distributions.append(selection.probabilities(np.array(votes)))
    np.testing.assert_array_equal(distributions[0], distributions[1])
    np.testing.assert_array_equal(distributions[0], distributions[2])


def test_with_max_k_fewer_candidates_are_priced() -> None:
    assert dataclasses.replace(SELECTION, max_k=1).event == NoOpEvent()
    assert dataclasses.replace(SELECTION, max_k=2).event == SELECTION.event
    gaussian = dataclasses.replace(SELECTION, noise="gaussian", num_labels=40, max_k=2)
    assert gaussian.event == OpposedMaximaEvent(1.0, 2)


@pytest.mark.parametrize(
    ("adjacency", "noise", "event"),
    [
        ("replace_one", "gumbel", BoundedRangeEvent(4 / 2.5)),
        ("add_remove", "gumbel", BoundedRangeEvent(2 / 2.5)),
        ("replace_one", "laplace", PureDpEvent(4 / 2.5)),
        ("add_remove", "laplace", PureDpEvent(2 / 2.5)),
        ("replace_one", "exponential", PureDpEvent(4 / 2.5)),
        ("add_remove", "exponential", PureDpEvent(2 / 2.5)),
        ("replace_one", "gaussian", OpposedMaximaEvent(2.5 / 2, 3)),
        ("add_remove", "gaussian", OpposedMaximaEvent(2.5, 3)),
    ],
)
def test_price_of_each_noise_and_adjacency(adjacency: Adjacency, noise: str, event: Any) -> None:
    selection = GapSelection(noise_scale=2.5, noise=noise, num_labels=4, num_teachers=6, adjacency=adjacency)
    assert selection.event == event


def test_one_candidate_needs_no_noise() -> None:
    selection = GapSelection(noise_scale=2.5, num_labels=2, num_teachers=6)
    assert selection.event == NoOpEvent()
    assert selection.probabilities(np.array([1, 5])).tolist() == [1.0]
    assert (selection(np.tile([1, 5], (20, 1)), rng=rng()) == 1).all()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("noise_scale", 0.0, r"noise_scale=0\.0: expected a number > 0"),
        ("noise_scale", math.nan, r"noise_scale=nan: expected a number > 0"),
        ("noise_scale", "2", r"noise_scale=2: expected a number > 0"),
        ("noise", "gumble", r"noise=gumble: expected one of .* \(did you mean gumbel\?\)"),
        ("num_labels", 1, r"num_labels=1: expected a whole number >= 2"),
        ("num_teachers", 0, r"num_teachers=0: expected a whole number >= 1"),
        ("adjacency", "swap", r"adjacency=swap: expected one of replace_one, add_remove"),
        ("max_k", 0, r"max_k=0: expected a whole number >= 1"),
        ("max_k", 2.0, r"max_k=2\.0: expected a whole number >= 1"),
        ("regularizer", [1.0, 2.0], r"regularizer=\(2,\): expected 3 numbers"),
        ("regularizer", lambda k: math.inf, r"regularizer=.*: expected finite numbers"),
        ("regularizer", [0.0, math.nan, 0.0], r"regularizer=.*: expected finite numbers"),
    ],
)
def test_impossible_parameters_are_refused(field: str, value: Any, message: str) -> None:
    parameters: dict[str, Any] = {"noise_scale": 2.0, "num_labels": 4, "num_teachers": 6} | {field: value}
    with pytest.raises(InvalidValue, match=message):
        GapSelection(**parameters)


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        ([1, 2, 3], r"votes\.shape=\(3,\): expected 4 labels"),
        ([1, 2, 3, 7], r"votes\[3\]: expected counts in 0\.\.6"),
        ([0.5, 2, 3, 4], r"votes\.dtype=float64: expected integer vote counts"),
    ],
)
def test_impossible_votes_are_refused(votes: list[float], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        SELECTION(np.array(votes), rng=rng())
    with pytest.raises(InvalidValue, match=message):
        SELECTION.probabilities(np.array(votes))


def test_a_seed_is_no_generator() -> None:
    with pytest.raises(InvalidValue, match=r"rng=5: expected a numpy\.random\.Generator, not a seed"):
        SELECTION(np.array([1, 2, 3, 4]), rng=5)


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
