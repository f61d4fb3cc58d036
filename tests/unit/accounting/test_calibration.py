"""Calibration: the smallest noise for a target, from below and from above."""

from __future__ import annotations

import math

import pytest

from pate.accounting import (
    ApproximateEvent,
    AutoAccountant,
    ExactAccountant,
    GaussianEvent,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
    calibrate,
)
from pate.accounting.calibration import largest_count
from pate.accounting.pure_dp import pure_dp_composition_epsilon
from pate.validation import InvalidValue


def epsilon_at(noise: float, delta: float = 1e-6) -> float:
    return RdpAccountant().compose(GaussianEvent(noise), 10).get_epsilon(delta)


@pytest.mark.parametrize("target", [1e-3, 0.5, 8.0, 500.0])
@pytest.mark.parametrize("start", [1e-6, 1.0, 1e9])
def test_result_is_affordable_and_little_less_noise_is_not(target: float, start: float) -> None:
    def event_for(noise: float) -> ApproximateEvent:
        return ApproximateEvent(GaussianEvent(noise), 1e-9)

    noise = calibrate(event_for, target_epsilon=target, target_delta=1e-6, start=start)

    def spent(noise: float) -> float:
        return AutoAccountant().compose(event_for(noise)).get_epsilon(1e-6)

    assert spent(noise) <= target < spent(noise * (1 - 2e-4))
    by_renyi = calibrate(event_for, target_epsilon=target, target_delta=1e-6, start=start, accountant=RdpAccountant)
    assert RdpAccountant().compose(event_for(by_renyi)).get_epsilon(1e-6) <= target
    assert noise < by_renyi


@pytest.mark.parametrize("target", [0.2, 3.0])
def test_a_slow_accountant_is_asked_little_as_the_renyi_answer_is_near(target: float) -> None:
    asked = []

    class Counting(ExactAccountant):
        def get_epsilon(self, target_delta: float) -> float:
            asked.append(target_delta)
            return super().get_epsilon(target_delta)

    def event_for(noise: float) -> PureDpEvent:
        return PureDpEvent(1 / noise)

    noise = calibrate(
        lambda noise: SelfComposedEvent(event_for(noise), 30),
        target_epsilon=target,
        target_delta=1e-6,
        accountant=Counting,
    )
    assert len(asked) <= 8
    assert pure_dp_composition_epsilon(1 / noise, count=30, target_delta=1e-6) <= target
    assert pure_dp_composition_epsilon(1.01 / noise, count=30, target_delta=1e-6) > target


def test_pure_dp_at_a_tiny_delta_is_found_in_closed_form() -> None:
    noise = calibrate(lambda scale: PureDpEvent(1 / scale), target_epsilon=2.0, target_delta=1e-300)
    assert noise == pytest.approx(0.5, rel=1e-3)


def test_a_target_that_no_noise_reaches_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"target_epsilon=1\.0: expected an epsilon that some noise can reach"):
        calibrate(lambda noise: PureDpEvent(2.0 + 1 / noise), target_epsilon=1.0, target_delta=1e-6)


def test_a_target_that_any_noise_reaches_gives_a_tiny_one() -> None:
    assert calibrate(lambda noise: PureDpEvent(0.5), target_epsilon=1.0, target_delta=1e-6) < 1e-15


@pytest.mark.parametrize("target", [0.0, -1.0, math.nan, math.inf])
def test_impossible_targets_are_refused(target: float) -> None:
    with pytest.raises(InvalidValue, match=rf"target_epsilon={target}: expected a number > 0"):
        calibrate(GaussianEvent, target_epsilon=target, target_delta=1e-6)


def test_failures_that_use_up_delta_are_named() -> None:
    with pytest.raises(InvalidValue, match=r"failure_prob: 0\.001 in all uses up target_delta=1e-06"):
        calibrate(lambda n: ApproximateEvent(GaussianEvent(n), 1e-3), target_epsilon=1.0, target_delta=1e-6)


def test_largest_count_finds_every_boundary() -> None:
    for boundary in range(12):
        assert largest_count(lambda n, boundary=boundary: n <= boundary, maximum=11) == min(boundary, 11)
    assert largest_count(lambda n: False, maximum=5) == 0
    with pytest.raises(InvalidValue, match=r"maximum=-1: expected a whole number >= 0"):
        largest_count(lambda n: True, maximum=-1)
