"""The stability test: its table of probabilities, its floor, its grid, its refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import laplace, norm

from pate.accounting import Adjacency, ApproximateEvent, OneBitEvent
from pate.mechanisms import StabilityTest, optimal_stability_table
from pate.validation import InvalidValue

SHAPE: dict[str, Any] = {"failure_prob": 1e-3, "num_teachers": 50}
ADJACENCIES = [("replace_one", 2), ("add_remove", 1)]


@pytest.mark.parametrize(("adjacency", "sens"), ADJACENCIES)
@pytest.mark.parametrize("test_std", [0.7, 3.0, 100.0])
def test_gaussian_in_closed_form(adjacency: Adjacency, sens: int, test_std: float) -> None:
    """max(sens, gap) + N(0, std**2) - std Phi^-1(1 - failure_prob) > sens."""
    test = StabilityTest.gaussian(test_std=test_std, adjacency=adjacency, **SHAPE)
    gaps = np.arange(51)
    expected = norm.sf(sens + test_std * norm.isf(1e-3) - np.maximum(sens, gaps), scale=test_std)
    np.testing.assert_allclose(test.pass_probs, np.minimum(expected, 1 - 2.0**-40), rtol=1e-9)


@pytest.mark.parametrize(("adjacency", "sens"), ADJACENCIES)
@pytest.mark.parametrize("test_std", [0.7, 3.0, 100.0])
def test_laplace_in_closed_form(adjacency: Adjacency, sens: int, test_std: float) -> None:
    """The same with Laplace noise of that std and the threshold that passes the floor with failure_prob."""
    test = StabilityTest.laplace(test_std=test_std, adjacency=adjacency, **SHAPE)
    scale = test_std / math.sqrt(2)
    expected = laplace.sf(sens + scale * math.log(1 / 2e-3) - np.maximum(sens, np.arange(51)), scale=scale)
    np.testing.assert_allclose(test.pass_probs, np.minimum(expected, 1 - 2.0**-40), rtol=1e-9)


@pytest.mark.parametrize(("adjacency", "sens"), ADJACENCIES)
def test_table_rises_one_level_for_each_sens_votes(adjacency: Adjacency, sens: int) -> None:
    table = optimal_stability_table(order=5.0, rdp_budget=0.1, failure_prob=1e-3, num_levels=60)
    test = StabilityTest.from_table(table, num_teachers=50, adjacency=adjacency)
    for gap in range(51):
        level = max(0, math.ceil((gap - sens) / sens))
        expected = 1 / (1 + math.exp(-table.logits[min(level, len(table.logits) - 1)]))
        assert test.pass_probs[gap] == pytest.approx(min(expected, 1 - 2.0**-40), rel=1e-9)


@pytest.mark.parametrize("make", [StabilityTest.gaussian, StabilityTest.laplace])
@pytest.mark.parametrize("failure_prob", [1e-12, 1e-9, 0.4, 0.6, 0.999])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_probabilities_rise_from_the_failure_probability_on_a_grid(
    make: Any, failure_prob: float, adjacency: Adjacency
) -> None:
    test = make(test_std=2.0, failure_prob=failure_prob, num_teachers=60, adjacency=adjacency)
    probs = np.array(test.pass_probs)
    assert (np.diff(probs) >= 0).all()
    assert probs[adjacency.gap_sensitivity] <= failure_prob
    assert (probs * 2.0**53 == np.floor(probs * 2.0**53)).all()
    assert probs.max() <= 1 - 2.0**-40


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_fewer_teachers_than_the_sensitivity(adjacency: Adjacency) -> None:
    test = StabilityTest.gaussian(test_std=1.0, failure_prob=0.01, num_teachers=1, adjacency=adjacency)
    assert len(test.pass_probs) == 2
    assert max(test.pass_probs) <= 0.01
    assert isinstance(test.event, ApproximateEvent)


def test_event_is_one_bit_of_the_very_probabilities() -> None:
    test = StabilityTest.gaussian(test_std=1.0, failure_prob=0.01, num_teachers=12)
    event = test.event
    assert isinstance(event, ApproximateEvent)
    assert isinstance(event.event, OneBitEvent)
    assert (event.failure_prob, event.event.reach) == (0.01, 2)
    recovered = 1 / (1 + np.exp(-np.array(event.event.logits)))
    np.testing.assert_allclose(recovered, test.pass_probs, rtol=1e-12)


def test_gap_to_pass() -> None:
    test = StabilityTest.gaussian(test_std=60.0, failure_prob=1e-9, num_teachers=800, adjacency=Adjacency.ADD_REMOVE)
    assert test.gap_to_pass(0.5) == 361  # spec section 11
    assert test.gap_to_pass(0.95) == 460
    assert test.gap_to_pass(0.0) == 0
    assert StabilityTest.gaussian(test_std=60.0, failure_prob=1e-9, num_teachers=300).gap_to_pass(0.5) is None


@pytest.mark.parametrize("shape", [(), (7,)])
def test_draws_have_the_shape_of_the_gaps(shape: tuple[int, ...]) -> None:
    test = StabilityTest.gaussian(test_std=1.0, **SHAPE)
    passed = test(np.full(shape, 50), rng=np.random.default_rng(0))
    assert passed.shape == shape
    assert passed.dtype == np.bool_
    assert passed.all()
    assert not test(np.full(shape, 0), rng=np.random.default_rng(0)).any()


@pytest.mark.parametrize("gaps", [[51], [-1], [1.5]])
def test_impossible_gaps_are_refused(gaps: list[float]) -> None:
    test = StabilityTest.gaussian(test_std=1.0, **SHAPE)
    with pytest.raises(InvalidValue, match=r"gaps(\[|\.dtype=).*: expected (counts in 0\.\.50|integer vote counts)"):
        test(np.array(gaps), rng=np.random.default_rng(0))


@pytest.mark.parametrize("make", [StabilityTest.gaussian, StabilityTest.laplace])
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("test_std", 0.0, r"test_std=0\.0: expected a number > 0"),
        ("test_std", -1.0, r"test_std=-1\.0: expected a number > 0"),
        ("failure_prob", 0.0, r"failure_prob=0\.0: expected a number in"),
        ("failure_prob", 1.0, r"failure_prob=1\.0: expected a number in"),
        ("num_teachers", 0, r"num_teachers=0: expected a whole number >= 1"),
        ("adjacency", "swap", r"adjacency=swap: expected one of replace_one, add_remove"),
    ],
)
def test_impossible_parameters_are_refused(make: Any, field: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        make(**({"test_std": 1.0} | SHAPE | {field: value}))


@pytest.mark.parametrize(
    ("probs", "message"),
    [
        ((), r"pass_probs=\(0,\): expected one probability for each gap"),
        ((0.0, 0.0, 0.0, 1.5), r"pass_probs=1\.5: expected numbers in \[0, 1\]"),
        ((0.0, 0.0, 0.0, math.nan), r"pass_probs=nan: expected numbers in \[0, 1\]"),
        ((0.01, 0.0, 0.0, 0.5), r"pass_probs=0\.01, 0\.0: expected numbers that never decrease"),
        ((0.0, 0.0, 0.02, 0.5), r"pass_probs=0\.02: expected at most failure_prob=0\.01 up to the sensitivity"),
    ],
)
def test_impossible_tables_are_refused(probs: tuple[float, ...], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        StabilityTest(pass_probs=probs, failure_prob=0.01)


class Fixed(np.random.Generator):
    """Every uniform number is the same."""

    value = 0.0

    def random(self, size: Any = None) -> Any:
        return np.full(size, self.value)


def test_a_draw_equal_to_the_probability_refuses() -> None:
    """So that a pass has exactly the probability that is priced, which is a multiple of 2**-53."""
    test, rng = StabilityTest(pass_probs=(0.0, 0.0, 0.0, 0.25), failure_prob=0.1), Fixed(np.random.PCG64(0))
    assert not test(np.array([0, 1]), rng=rng).any()
    assert test(np.array([3]), rng=rng).all()
    rng.value = 0.25
    assert not test(np.array([3]), rng=rng).any()
