"""The price of a release for a group of units, by docs/proofs/many_places.md, is at least the exact one."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from pate.accounting import (
    ApproximateEvent,
    Budget,
    ComposedEvent,
    ExactAccountant,
    GaussianEvent,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
)
from pate.run.places import group_epsilon

DELTA = 1e-6


def gaussian_delta(*, mu: float, epsilon: float) -> float:
    """Returns the exact delta at epsilon of N(0, 1) against N(mu, 1)."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


def hockey_stick(first_law: np.ndarray, second_law: np.ndarray, *, epsilon: float) -> float:
    """Returns the hockey-stick divergence of two distributions at epsilon."""
    return float(np.maximum(first_law - math.exp(epsilon) * second_law, 0).sum())


def joint_law(law_of_privacy_unit: dict[int, float], *, num_units: int) -> np.ndarray:
    """Returns the law of the independent outcomes of several units, `[3 ** num_units]`.

    Args:
        law_of_privacy_unit: the probability of each outcome 0, 1 or 2 of one unit.
        num_units: the number of units.
    """
    probs = np.array([law_of_privacy_unit.get(outcome, 0.0) for outcome in (0, 1, 2)])
    return np.array([math.prod(path) for path in product(probs, repeat=num_units)])


@pytest.mark.parametrize("accountant_class", [RdpAccountant, ExactAccountant])
@pytest.mark.parametrize("group_size", [1, 2, 10])
@pytest.mark.parametrize(
    ("event", "mu"),
    [
        (GaussianEvent(noise_multiplier=5.0), 1 / 5),
        (SelfComposedEvent(GaussianEvent(noise_multiplier=40.0), count=25), 5 / 40),
        (
            ComposedEvent(
                (
                    GaussianEvent(noise_multiplier=10.0),
                    SelfComposedEvent(GaussianEvent(noise_multiplier=20.0), count=3),
                )
            ),
            (1 / 100 + 3 / 400) ** 0.5,
        ),
    ],
)
def test_a_group_of_gaussian_releases_is_never_dearer_than_said(
    event: GaussianEvent, mu: float, group_size: int, accountant_class: type
) -> None:
    """At the epsilon of `group_epsilon`, the exact delta of Gaussian releases for a group is at most 1e-6.

    A group of `group_size` units moves a release by `group_size` times mu. By the exact accountant, delta exceeds 1e-6
    at 99% of this epsilon minus 0.001.
    """
    epsilon = group_epsilon(
        event, group_size=group_size, budget=Budget(delta=DELTA, accountant=accountant_class)
    )
    group_mu = group_size * mu
    assert gaussian_delta(mu=group_mu, epsilon=epsilon) <= DELTA
    if accountant_class is ExactAccountant:
        smaller_epsilon = 0.99 * epsilon - 1e-3
        assert gaussian_delta(mu=group_mu, epsilon=smaller_epsilon) > DELTA, "it is tight"


@pytest.mark.parametrize("group_size", [2, 3, 5])
def test_a_group_of_randomized_responses_is_never_dearer_than_said(group_size: int) -> None:
    """At the epsilon that `group_epsilon` states, the exact delta of `group_size` randomized responses is at most 1e-6.

    The stated epsilon is nearly `group_size` times that of one response.
    """
    unit_epsilon = 0.4
    epsilon = group_epsilon(
        PureDpEvent(epsilon=unit_epsilon), group_size=group_size, budget=Budget(delta=DELTA)
    )
    truth_prob = math.exp(unit_epsilon) / (1 + math.exp(unit_epsilon))
    first_law = joint_law({0: truth_prob, 1: 1 - truth_prob}, num_units=group_size)
    second_law = joint_law({1: truth_prob, 0: 1 - truth_prob}, num_units=group_size)
    assert hockey_stick(first_law, second_law, epsilon=epsilon) <= DELTA
    assert epsilon >= group_size * unit_epsilon - 0.02, "as each response is spent to the full"


def test_k_times_epsilon_at_the_same_delta_is_no_bound() -> None:
    """Negative control: k epsilon at the same delta is no bound for a group of k units.

    A mechanism that reveals a bit with probability delta, and otherwise nothing, has over 3 times the delta of one unit
    for four units at four times epsilon. As is proven, it has at most 4 e^(3 epsilon) times the delta of one unit.
    """
    group_size = 4
    epsilon = 0.1
    delta = 0.05
    # the outcome 2 stands for nothing
    law_of_zero = {0: delta, 2: 1 - delta}
    law_of_one = {1: delta, 2: 1 - delta}

    def delta_of_group(num_units: int) -> float:
        return hockey_stick(
            first_law=joint_law(law_of_zero, num_units=num_units),
            second_law=joint_law(law_of_one, num_units=num_units),
            epsilon=num_units * epsilon,
        )

    assert delta_of_group(num_units=1) <= delta + 1e-15
    group_delta = delta_of_group(num_units=group_size)
    assert group_delta > 3 * delta, "k epsilon at the same delta would be wrong"
    assert group_delta <= group_size * math.exp((group_size - 1) * epsilon) * delta


def test_where_no_figure_holds_none_is_given() -> None:
    """If failures use up half of delta, epsilon is finite for one unit, and infinite for a group of two."""
    event = ApproximateEvent(PureDpEvent(epsilon=1.0), failure_prob=DELTA / 2)
    assert Budget(delta=DELTA).epsilon_of(event) < 1.1
    assert math.isinf(group_epsilon(event, group_size=2, budget=Budget(delta=DELTA)))
