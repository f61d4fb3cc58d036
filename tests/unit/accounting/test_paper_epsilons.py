"""Published formulas by hand, and that they do what they are said to do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pate.accounting import GaussianEvent, zcdp_to_epsilon
from pate.accounting.conversion import zcdp_to_epsilon_classic
from pate.accounting.paper_epsilons import converted, corollary_9_rdp, curve_of, gaussian_stand_in
from pate.accounting.renyi import noisy_max_gaussian_rdp
from pate.validation import InvalidValue

ORDERS = np.array([1.5, 2.0, 8.0, 64.0])


def test_corollary_9_by_hand_and_never_below_the_bound_in_use() -> None:
    assert corollary_9_rdp(np.array([3.0]), noise_multiplier=2.0, num_labels=7)[0] == 1.5 + math.log(7) / 2
    for multiplier in (1.0, 50.0):
        printed = corollary_9_rdp(ORDERS, noise_multiplier=multiplier, num_labels=40)
        assert (printed >= noisy_max_gaussian_rdp(multiplier, 40, ORDERS)).all()


def test_the_stand_in_is_two_gaussians() -> None:
    event = gaussian_stand_in(selection_multiplier=2.0, test_multiplier=4.0)
    assert curve_of(event)(ORDERS) == pytest.approx(ORDERS * (1 / 8 + 1 / 32), rel=1e-12)


def test_conversions_find_the_best_order() -> None:
    curve, options = curve_of(GaussianEvent(10.0)), {"count": 20, "target_delta": 1e-6}
    assert converted(curve, conversion="classic", **options) == pytest.approx(
        zcdp_to_epsilon_classic(0.1, target_delta=1e-6), rel=1e-5
    )
    assert converted(curve, conversion="tight", **options) == pytest.approx(
        zcdp_to_epsilon(0.1, target_delta=1e-6), rel=1e-5
    )


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(InvalidValue, match="conversion=other: expected one of classic, tight"):
        converted(curve_of(GaussianEvent(1.0)), count=1, target_delta=0.1, conversion="other")
    with pytest.raises(InvalidValue, match=r"noise_multiplier=0\.0: expected a number > 0"):
        corollary_9_rdp(ORDERS, noise_multiplier=0.0, num_labels=3)
    with pytest.raises(InvalidValue, match="num_labels=0: expected a whole number >= 1"):
        corollary_9_rdp(ORDERS, noise_multiplier=1.0, num_labels=0)
