"""Optimal composition of pure DP against enumeration and against Renyi bounds."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from pate.accounting import PureDpEvent, RdpAccountant
from pate.accounting.pure_composition import pure_dp_composition_delta, pure_dp_composition_epsilon
from pate.validation import InvalidValue


def enumerated_delta(epsilon: float, count: int, target_epsilon: float) -> float:
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    first, second = (
        np.array([math.prod(p) for p in product(bit, repeat=count)]) for bit in ((truth, 1 - truth), (1 - truth, truth))
    )
    return float(np.maximum(first - math.exp(target_epsilon) * second, 0).sum())


@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 1), (0.5, 6), (2.0, 9)])
def test_delta_by_enumeration_of_randomized_responses(epsilon: float, count: int) -> None:
    for share in (0.0, 0.1, 0.35, 0.8, 0.99):
        target = share * epsilon * count
        delta = pure_dp_composition_delta(epsilon, count=count, target_epsilon=target)
        assert delta == pytest.approx(enumerated_delta(epsilon, count, target), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(("epsilon", "count"), [(0.05, 600), (0.5, 20), (3.0, 7)])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01, 0.3])
def test_epsilon_inverts_delta_and_is_below_renyi(epsilon: float, count: int, delta: float) -> None:
    composed = pure_dp_composition_epsilon(epsilon, count=count, target_delta=delta)
    assert pure_dp_composition_delta(epsilon, count=count, target_epsilon=composed) <= delta * (1 + 1e-6) + 1e-14
    assert composed <= RdpAccountant().compose(PureDpEvent(epsilon), count).get_epsilon(delta)
    if composed > 0:
        smaller = pure_dp_composition_delta(epsilon, count=count, target_epsilon=composed * (1 - 1e-6))
        assert smaller > delta


def test_limits() -> None:
    assert pure_dp_composition_epsilon(1.0, count=0, target_delta=1e-6) == 0.0
    assert pure_dp_composition_epsilon(0.0, count=100, target_delta=1e-6) == 0.0
    assert pure_dp_composition_epsilon(20.0, count=200, target_delta=1e-6) == pytest.approx(4000, rel=1e-6)
    assert pure_dp_composition_delta(0.1, count=5, target_epsilon=0.6) == 0.0
    with pytest.raises(InvalidValue, match=r"target_delta=0: expected a number in \(0, 1\)"):
        pure_dp_composition_epsilon(0.1, count=5, target_delta=0)
    with pytest.raises(InvalidValue, match=r"count=1.5: expected a whole number >= 0"):
        pure_dp_composition_epsilon(0.1, count=1.5, target_delta=0.1)


@pytest.mark.parametrize(
    ("epsilon", "count", "exact"), [(1e-3, 10**6, 4.88654374375764913), (0.05, 600, 6.14206480167059754)]
)
def test_epsilon_is_never_below_the_sums_of_forty_digits(epsilon: float, count: int, exact: float) -> None:
    composed = pure_dp_composition_epsilon(epsilon, count=count, target_delta=1e-6)
    assert exact <= composed <= exact * (1 + 1e-8)
