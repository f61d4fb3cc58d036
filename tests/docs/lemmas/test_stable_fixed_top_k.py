"""Steps of docs/proofs/stable_fixed_top_k.md."""

import math
from itertools import pairwise

import numpy as np
import pytest

from pate.accounting.renyi import bounded_range_rdp

ORDERS = np.array([1.05, 1.5, 2.0, 4.0, 8.0, 30.0, 200.0])


@pytest.mark.parametrize("width", [0.01, 0.1, 0.5, 2.0, 8.0])
def test_j_picks_never_cost_more_than_the_limit_of_many(width: float) -> None:
    """The RDP of j picks of an index, each of bounded range width / sqrt(j), does not fall as j rises from 1 to 1000.

    At each Renyi order it is at most the order times width^2 / 8, the limit of many picks.
    """
    curves = [
        num_picks * bounded_range_rdp(loss_range=width / math.sqrt(num_picks), orders=ORDERS)
        for num_picks in (1, 2, 3, 4, 8, 40, 1000)
    ]
    for fewer, more in pairwise(curves):
        assert (fewer <= more * (1 + 1e-7)).all()
    assert (curves[-1] <= ORDERS * width**2 / 8 * (1 + 1e-9)).all()


def largest_delta(loss_range: float, num_picks: int) -> float:
    """Returns the largest delta at epsilon 0 of any sequence of picks, each of the bounded range `loss_range`.

    Each pick may depend on the picks before it. The delta is computed by dynamic programming.
    """
    remaining_epsilons = np.linspace(-3, 3, 6001)  # epsilon minus the losses so far
    deltas = np.maximum(0, -np.expm1(remaining_epsilons))
    for _ in range(num_picks):
        largest_deltas = np.zeros_like(deltas)
        for upper_loss in np.linspace(0, loss_range, 41)[1:-1]:
            # the probability of the upper loss, so that ratios average to 1
            upper_prob = -math.expm1(upper_loss - loss_range) / -math.expm1(-loss_range)
            after_upper = np.interp(remaining_epsilons - upper_loss, remaining_epsilons, deltas)
            after_lower = np.interp(
                remaining_epsilons - (upper_loss - loss_range), remaining_epsilons, deltas
            )
            mean_deltas = upper_prob * after_upper + (1 - upper_prob) * after_lower
            largest_deltas = np.maximum(largest_deltas, mean_deltas)
        deltas = largest_deltas
    return float(np.interp(0, remaining_epsilons, deltas))


def test_many_picks_do_not_stand_for_one_in_delta() -> None:
    """At epsilon 0, one pick of range e has delta tanh(e / 4), and four of range e / 2 have less than 90% of it."""
    delta_of_one_pick = largest_delta(loss_range=0.4, num_picks=1)
    delta_of_four_picks = largest_delta(loss_range=0.2, num_picks=4)
    assert delta_of_one_pick == pytest.approx(math.tanh(0.1), rel=1e-3)
    assert delta_of_four_picks < 0.9 * delta_of_one_pick
