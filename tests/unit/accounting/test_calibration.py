"""Calibration finds noise that meets a target epsilon, and slightly less noise does not meet it."""

import itertools
import math
from collections.abc import Callable

import pytest

from pate import accounting
from pate.accounting.count_search import largest_count
from pate.accounting.pure_dp import pure_dp_composition_epsilon
from pate.validation import InvalidValue


@pytest.mark.parametrize("target", [1e-3, 0.5, 8.0, 500.0])
@pytest.mark.parametrize("start", [1e-6, 1.0, 1e9])
def test_calibrated_noise_meets_the_target_and_slightly_less_does_not(
    target: float, start: float
) -> None:
    """The calibrated noise of a Gaussian costs at most the target epsilon; 0.02% less noise costs more.

    The search begins at the noise `start`, which may be far from the result. Calibration by the
    Renyi accountant gives more noise than calibration by the default accountant.
    """

    def event_for(noise: float) -> accounting.ApproximateEvent:
        return accounting.ApproximateEvent(
            event=accounting.GaussianEvent(noise_multiplier=noise), failure_prob=1e-9
        )

    noise = accounting.calibrate(event_for, target_epsilon=target, target_delta=1e-6, start=start)

    def epsilon_with_noise(noise: float) -> float:
        return (
            accounting.AutoAccountant()
            .compose(event_for(noise=noise))
            .get_epsilon(target_delta=1e-6)
        )

    assert epsilon_with_noise(noise=noise) <= target < epsilon_with_noise(noise=noise * (1 - 2e-4))
    renyi_noise = accounting.calibrate(
        event_for,
        accountant=accounting.RdpAccountant,
        target_epsilon=target,
        target_delta=1e-6,
        start=start,
    )
    assert (
        accounting.RdpAccountant()
        .compose(event_for(noise=renyi_noise))
        .get_epsilon(target_delta=1e-6)
        <= target
    )
    assert noise < renyi_noise


@pytest.mark.parametrize("target", [0.2, 3.0])
def test_calibration_calls_a_slow_accountant_a_few_times_only(target: float) -> None:
    """Calibration of 30 pure-DP events calls `get_epsilon` of the exact accountant at most 8 times.

    The calibrated noise meets the target epsilon, and 1% less noise would not.
    """
    num_calls = 0

    class CountingAccountant(accounting.ExactAccountant):
        def get_epsilon(self, target_delta: float) -> float:
            nonlocal num_calls
            num_calls += 1
            return super().get_epsilon(target_delta)

    def event_for(noise: float) -> accounting.Event:
        return accounting.SelfComposedEvent(
            event=accounting.PureDpEvent(epsilon=1 / noise), count=30
        )

    noise = accounting.calibrate(
        event_for=event_for,
        target_epsilon=target,
        target_delta=1e-6,
        accountant=CountingAccountant,
    )
    assert num_calls <= 8
    assert pure_dp_composition_epsilon(epsilon=1 / noise, count=30, target_delta=1e-6) <= target
    assert pure_dp_composition_epsilon(epsilon=1.01 / noise, count=30, target_delta=1e-6) > target


def test_largest_count_finds_every_boundary() -> None:
    """`largest_count` returns the largest n up to `maximum` for which a predicate, here `n <= boundary`, holds.

    This holds for every boundary from 0 to 69, three maxima and five first guesses of the search.
    """
    for boundary, maximum, guess in itertools.product(range(70), (0, 11, 64), (0, 1, 10, 64, 100)):
        count = largest_count(
            holds=lambda n, boundary=boundary: n <= boundary, maximum=maximum, guess=guess
        )
        assert count == min(boundary, maximum)


def event_above_two(noise: float) -> accounting.Event:
    """Returns an event whose epsilon is above 2 for every noise."""
    return accounting.PureDpEvent(epsilon=2.0 + 1 / noise)


def event_that_fails_often(noise: float) -> accounting.Event:
    """Returns an event whose failure probability is above the delta of the test."""
    gaussian = accounting.GaussianEvent(noise_multiplier=noise)
    return accounting.ApproximateEvent(event=gaussian, failure_prob=1e-3)


@pytest.mark.parametrize(
    ("name", "event_for", "target"),
    [
        ("target_epsilon", event_above_two, 1.0),
        ("failure_prob", event_that_fails_often, 1.0),
        ("target_epsilon", accounting.GaussianEvent, 0.0),
        ("target_epsilon", accounting.GaussianEvent, -1.0),
        ("target_epsilon", accounting.GaussianEvent, math.nan),
        ("target_epsilon", accounting.GaussianEvent, math.inf),
    ],
)
def test_calibration_refuses_a_target_that_no_noise_reaches(
    name: str, event_for: Callable[[float], accounting.Event], target: float
) -> None:
    """`calibrate` refuses a target epsilon that no noise reaches, or that is not positive and finite.

    The error is an `InvalidValue` about the parameter `name`. The noise determines the event by `event_for(noise)`.
    """
    with pytest.raises(InvalidValue, match=": expected ") as refused:
        accounting.calibrate(event_for, target_epsilon=target, target_delta=1e-6)
    assert refused.value.name.startswith(name)
