"""Price of a release to a group of units, by docs/proofs/many_places.md, against exact distributions."""

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


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Returns the exact delta at epsilon of N(0, 1) against N(mu, 1)."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


def hockey_stick(epsilon: float, first_law: np.ndarray, second_law: np.ndarray) -> float:
    """Returns the hockey-stick divergence of two distributions at epsilon."""
    return float(np.maximum(first_law - math.exp(epsilon) * second_law, 0).sum())


def together(*units: dict[int, float]) -> np.ndarray:
    """Returns the joint law of several units' independent outcomes 0, 1 or 2, `[3 ** number of units]`."""
    return np.array([math.prod(law.get(bit, 0.0) for law, bit in zip(units, bound, strict=True))
                     for bound in product((0, 1, 2), repeat=len(units))])  # fmt: skip


@pytest.mark.parametrize("accountant", [RdpAccountant, ExactAccountant])
@pytest.mark.parametrize("size", [1, 2, 10])
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
    event: GaussianEvent, mu: float, size: int, accountant: type
) -> None:
    """A group of `size` units moves a Gaussian release by `size` times mu; at the group's epsilon its delta is at most
    1e-6.

    By the exact accountant, delta is over 1e-6 at 99% of this epsilon less 0.001.
    """
    bound = group_epsilon(event, size, budget=Budget(delta=DELTA, accountant=accountant))
    assert gaussian_delta(bound, mu=size * mu) <= DELTA
    if accountant is ExactAccountant:
        assert gaussian_delta(bound * 0.99 - 1e-3, mu=size * mu) > DELTA, "and the bound is tight"


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_group_of_randomized_responses_is_never_dearer_than_said(size: int) -> None:
    """`size` units answer by randomized response: at the group's epsilon, nearly `size` times the
    unit's, their exact delta is at most 1e-6.
    """
    epsilon = 0.4
    bound = group_epsilon(PureDpEvent(epsilon), size, budget=Budget(delta=DELTA))
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    first, second = (together(*[{bit: keep, 1 - bit: 1 - keep}] * size) for bit in (0, 1))
    assert hockey_stick(bound, first_law=first, second_law=second) <= DELTA
    assert bound >= size * epsilon - 0.02, "as each response is spent to the full"


def test_k_times_epsilon_at_the_same_delta_is_no_bound() -> None:
    """Negative control: a mechanism reveals a bit with probability delta, and otherwise nothing.

    For four units, the delta at four times epsilon is over 3 times that of one unit, so k epsilon at the same delta is
    no bound. It is at most 4 e^(3 epsilon) times that of one unit, as is proven.
    """
    size = 4
    epsilon = 0.1
    delta = 0.05
    # the mechanism reveals a bit with some probability, and otherwise nothing
    laws = [{2: 1 - delta, bit: delta} for bit in (0, 1)]
    unit_delta = hockey_stick(epsilon, *(together(law) for law in laws))
    assert unit_delta <= delta + 1e-15
    group_delta = hockey_stick(size * epsilon, *(together(*[law] * size) for law in laws))
    assert group_delta > 3 * delta, "k epsilon at the same delta would be wrong"
    assert group_delta <= size * math.exp((size - 1) * epsilon) * delta


def test_where_no_figure_holds_none_is_given() -> None:
    """Failures of half of delta leave a finite epsilon for one unit, and an infinite one for a
    group of two.
    """
    event = ApproximateEvent(PureDpEvent(epsilon=1.0), failure_prob=DELTA / 2)
    assert Budget(delta=DELTA).epsilon_of(event) < 1.1
    assert math.isinf(group_epsilon(event, size=2, budget=Budget(delta=DELTA)))
