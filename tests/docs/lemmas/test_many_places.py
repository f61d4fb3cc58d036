"""docs/proofs/many_places.md: what a release costs a group of units, against exact distributions."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from pate.accounting import (
    ApproximateEvent,
    ComposedEvent,
    ExactAccountant,
    GaussianEvent,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
)
from pate.pricing import Budget
from pate.run.places import group_epsilon

DELTA = 1e-6


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The exact privacy profile of N(0, 1) against N(mu, 1)."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


def hockey_stick(epsilon: float, first: np.ndarray, second: np.ndarray) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def responses(truth: tuple[int, ...], epsilon: float) -> np.ndarray:
    """The distribution of randomized responses to bits, one unit each."""
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    return np.array(
        [math.prod(keep if said == bit else 1 - keep for said, bit in zip(outcome, truth, strict=True))
         for outcome in product((0, 1), repeat=len(truth))]
    )  # fmt: skip


@pytest.mark.parametrize("accountant", [RdpAccountant, ExactAccountant])
@pytest.mark.parametrize("size", [1, 2, 10])
@pytest.mark.parametrize(
    ("event", "mu"),
    [
        (GaussianEvent(5.0), 1 / 5),
        (SelfComposedEvent(GaussianEvent(40.0), 25), 5 / 40),
        (ComposedEvent((GaussianEvent(10.0), SelfComposedEvent(GaussianEvent(20.0), 3))), (1 / 100 + 3 / 400) ** 0.5),
    ],
)
def test_a_group_of_gaussian_releases_is_never_dearer_than_said(
    event: GaussianEvent, mu: float, size: int, accountant: type
) -> None:
    said = group_epsilon(event, size, Budget(target_delta=DELTA, accountant=accountant))
    assert gaussian_delta(said, size * mu) <= DELTA
    if accountant is ExactAccountant:
        assert gaussian_delta(said * 0.99 - 1e-3, size * mu) > DELTA, "and the bound is tight"


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_group_of_randomized_responses_is_never_dearer_than_said(size: int) -> None:
    epsilon = 0.4
    said = group_epsilon(PureDpEvent(epsilon), size, Budget(target_delta=DELTA))
    first, second = responses((0,) * size, epsilon), responses((1,) * size, epsilon)
    assert hockey_stick(said, first, second) <= DELTA
    assert said >= size * epsilon - 0.02, "as each response is spent to the full"


def revealing(truth: tuple[int, ...], chance: float) -> np.ndarray:
    """The distribution of outcomes where each unit's bit is told with some chance, and else nothing."""
    told = [{2: 1 - chance, bit: chance} for bit in truth]
    return np.array(
        [math.prod(one.get(said, 0.0) for said, one in zip(outcome, told, strict=True))
         for outcome in product((0, 1, 2), repeat=len(truth))]
    )  # fmt: skip


def test_k_times_epsilon_at_the_same_delta_is_no_bound() -> None:
    """The negative control: what a reader would make of the card's first line."""
    size, epsilon, delta = 4, 0.1, 0.05
    alone = hockey_stick(epsilon, revealing((0,), delta), revealing((1,), delta))
    assert alone <= delta + 1e-15
    together = hockey_stick(size * epsilon, revealing((0,) * size, delta), revealing((1,) * size, delta))
    assert together > 3 * delta, "k epsilon at the same delta would be wrong"
    assert together <= size * math.exp((size - 1) * epsilon) * delta


def test_where_no_figure_holds_none_is_given() -> None:
    """Failures that use up the smaller delta leave nothing to say."""
    event = ApproximateEvent(PureDpEvent(1.0), failure_prob=DELTA / 2)
    assert Budget(target_delta=DELTA).epsilon_of(event) < 1.1
    assert math.isinf(group_epsilon(event, 2, Budget(target_delta=DELTA)))
