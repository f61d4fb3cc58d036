"""Events: edge cases of their parameters, their parts, their failure probabilities."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from pate.accounting import (
    ApproximateEvent,
    BoundedRangeEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    NoisyMaxGaussianEvent,
    NonPrivateEvent,
    NoOpEvent,
    OneBitEvent,
    PureDpEvent,
    SelfComposedEvent,
    ZCdpEvent,
)
from pate.accounting.events import leaves
from pate.accounting.failure_probability import failure_probability
from pate.validation import InvalidValue

GAUSSIAN = GaussianEvent(2.0)


@pytest.mark.parametrize(
    "make",
    [GaussianEvent, ZCdpEvent, PureDpEvent, BoundedRangeEvent, lambda value: NoisyMaxGaussianEvent(value, 3)],
    ids=["gaussian", "zcdp", "pure", "range", "noisy max"],
)
@pytest.mark.parametrize("value", [-1.0, -1e-300, math.nan])
def test_negative_and_nan_parameters_are_refused(make: Any, value: float) -> None:
    with pytest.raises(InvalidValue, match=rf"(noise_multiplier|rho|epsilon)={value}: expected a number >= 0"):
        make(value)


@pytest.mark.parametrize("make", [ZCdpEvent, PureDpEvent, BoundedRangeEvent])
def test_zero_and_infinite_prices_are_values(make: Any) -> None:
    assert make(0.0) == make(0)
    assert make(math.inf) == make(math.inf)


def test_zero_noise_is_a_value_and_infinite_noise_is_not() -> None:
    assert GaussianEvent(0.0).noise_multiplier == 0
    with pytest.raises(InvalidValue, match="noise_multiplier=inf: expected a number >= 0"):
        GaussianEvent(math.inf)


@pytest.mark.parametrize("candidates", [0, -2, 2.5])
def test_noisy_max_needs_candidates(candidates: Any) -> None:
    with pytest.raises(InvalidValue, match=rf"num_candidates={candidates}: expected a whole number >= 1"):
        NoisyMaxGaussianEvent(1.0, candidates)


def test_one_bit_takes_rising_log_odds_with_infinities() -> None:
    assert OneBitEvent((-math.inf, -math.inf, 0.0, math.inf), reach=2).reach == 2
    for logits, found in (
        ((0.0, 1.0, 0.5), "1.0, 0.5"),
        ((math.nan,), r"\(nan,\)"),
        ((0.0, math.nan, 1.0), "0.0, nan"),
    ):
        with pytest.raises(InvalidValue, match=rf"^logits={found}: expected numbers that never decrease$"):
            OneBitEvent(logits, reach=1)
    with pytest.raises(InvalidValue, match=r"logits=\(\): expected at least one number"):
        OneBitEvent((), reach=1)
    with pytest.raises(InvalidValue, match=r"reach=0: expected a whole number >= 1"):
        OneBitEvent((0.0,), reach=0)


@pytest.mark.parametrize("failure_prob", [-0.1, 1.0, 1.5, math.nan])
def test_failure_probability_lies_in_0_1(failure_prob: float) -> None:
    with pytest.raises(InvalidValue, match=rf"failure_prob={failure_prob}: expected a number in \[0, 1\)"):
        ApproximateEvent(GAUSSIAN, failure_prob)


@pytest.mark.parametrize("count", [-1, 1.5, True])
def test_self_composition_needs_a_count(count: Any) -> None:
    with pytest.raises(InvalidValue, match=rf"count={count}: expected a whole number >= 0"):
        SelfComposedEvent(GAUSSIAN, count)


def test_parts_must_be_events() -> None:
    with pytest.raises(InvalidValue, match=r"event=float: expected an event of pate\.accounting"):
        SelfComposedEvent(3.0, 2)
    with pytest.raises(InvalidValue, match=r"event=str: expected an event of pate\.accounting"):
        ApproximateEvent("free", 0.1)
    with pytest.raises(InvalidValue, match=r"events=int: expected an event of pate\.accounting"):
        ComposedEvent((GAUSSIAN, 5))


def test_events_are_frozen_values_that_can_be_keys() -> None:
    event = ComposedEvent((GAUSSIAN, SelfComposedEvent(OneBitEvent((0.0, 1.0), 1), 3)))
    assert {event: 1}[ComposedEvent((GaussianEvent(2.0), SelfComposedEvent(OneBitEvent((0.0, 1.0), 1), 3)))] == 1
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field"):
        GAUSSIAN.noise_multiplier = 3.0


def test_leaves_multiplies_counts_down_the_tree() -> None:
    bit = OneBitEvent((0.0, 1.0), 1)
    tree = ComposedEvent((GAUSSIAN, SelfComposedEvent(ComposedEvent((ApproximateEvent(bit, 0.1), GAUSSIAN)), 5)))
    counted: dict[Event, int] = {}
    for leaf, times in leaves(tree, count=2):
        counted[leaf] = counted.get(leaf, 0) + times
    assert counted == {GAUSSIAN: 2 + 10, bit: 10}
    assert list(leaves(ComposedEvent(()))) == []


def test_leaves_takes_trees_deeper_than_the_stack() -> None:
    event: Event = GAUSSIAN
    for _ in range(5000):
        event = ComposedEvent((event,))
    assert list(leaves(event)) == [(GAUSSIAN, 1)]


def test_leaves_refuses_what_is_no_event() -> None:
    with pytest.raises(InvalidValue, match=r"event=dict: expected an event of pate\.accounting"):
        list(leaves({}))


def test_failure_probabilities_add_up() -> None:
    inner = ApproximateEvent(GAUSSIAN, 1e-3)
    tree = ComposedEvent((SelfComposedEvent(ApproximateEvent(inner, 1e-4), 10), inner, GAUSSIAN, NoOpEvent()))
    assert failure_probability(tree) == pytest.approx(10 * 1.1e-3 + 1e-3, rel=1e-12)
    assert failure_probability(GAUSSIAN) == 0
    assert failure_probability(SelfComposedEvent(inner, 0)) == 0


def test_events_of_dp_accounting() -> None:
    dp_accounting = pytest.importorskip("dp_accounting")
    tree = ComposedEvent((GAUSSIAN, SelfComposedEvent(GAUSSIAN, 3), NoOpEvent(), NonPrivateEvent()))
    assert tree.to_dp_event() == dp_accounting.ComposedDpEvent(
        [
            dp_accounting.GaussianDpEvent(2.0),
            dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(2.0), 3),
            dp_accounting.NoOpDpEvent(),
            dp_accounting.NonPrivateDpEvent(),
        ]
    )
    assert ApproximateEvent(GAUSSIAN, 0.0).to_dp_event() == dp_accounting.GaussianDpEvent(2.0)


@pytest.mark.parametrize("event", [ApproximateEvent(GAUSSIAN, 0.1), OneBitEvent((0.0,), 1), BoundedRangeEvent(0.1)])
def test_events_that_dp_accounting_has_not(event: Event) -> None:
    with pytest.raises(InvalidValue, match=rf"event={type(event).__name__}: expected an event that dp-accounting has"):
        event.to_dp_event()


def test_an_array_of_gaussians_is_one_gaussian() -> None:
    assert GaussianEvent.composed(np.array([3.0, 4.0])).noise_multiplier == pytest.approx(12 / 5, rel=1e-12)
    assert GaussianEvent.composed([2.0] * 100).noise_multiplier == pytest.approx(0.2, rel=1e-12)
    multipliers = np.random.default_rng(0).uniform(20.0, 200.0, size=100_000)
    exact = math.fsum((1 / multipliers) ** 2) ** -0.5
    assert exact * (1 - 1e-12) <= GaussianEvent.composed(multipliers).noise_multiplier <= exact


def test_an_array_of_gaussians_at_the_ends() -> None:
    assert GaussianEvent.composed([1.0, 0.0, 5.0]) == GaussianEvent(0.0)
    assert GaussianEvent.composed([1e-200, 1e200]).noise_multiplier == pytest.approx(1e-200, rel=1e-12)
    assert GaussianEvent.composed([1e300] * 4).noise_multiplier == pytest.approx(5e299, rel=1e-12)


@pytest.mark.parametrize(
    ("noise_multipliers", "found"),
    [
        ([], r"\.shape=\(0,\)"),
        ([[1.0]], r"\.shape=\(1, 1\)"),
        (3.0, r"\.shape=\(\)"),
        ([1.0, -1.0], r"=-1\.0"),
        ([math.nan], "=nan"),
        ([math.inf], "=inf"),
    ],
)
def test_an_array_of_gaussians_needs_finite_numbers(noise_multipliers: Any, found: str) -> None:
    with pytest.raises(InvalidValue, match=rf"^noise_multipliers{found}: expected one or more finite numbers >= 0$"):
        GaussianEvent.composed(noise_multipliers)
