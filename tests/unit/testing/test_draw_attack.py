"""An attack that tells neighbors apart by draws: its bound on epsilon keeps its confidence and refutes low prices."""

import math

import numpy as np
import pytest

from pate.testing import PriceRefuted, attack_draws
from pate.testing.proportions import highest_share, lowest_share
from tests.refusals import refused_parameter


def randomized_response(bit: int, rng: np.random.Generator) -> int:
    """Draws a randomized response, which is the bit with a probability of 3/4: its epsilon is log 3."""
    return bit if rng.random() < 0.75 else 1 - bit


def publish_exactly(number: float, rng: np.random.Generator) -> float:
    """Returns the number without noise."""
    return number


def ignore_data(number: float, rng: np.random.Generator) -> float:
    """Draws noise alone."""
    return float(rng.normal())


def draw_nan(number: float, rng: np.random.Generator) -> float:
    """Returns NaN."""
    return math.nan


@pytest.mark.slow
def test_the_bound_is_close_and_keeps_its_confidence() -> None:
    """At confidence 80%, at most 20 of 100 bounds exceed the true epsilon, log 3; their median is above 0.7 log 3."""
    rng = np.random.default_rng(0)
    epsilon_bounds = []
    for _ in range(100):
        attack = attack_draws(
            randomized_response,
            data=0,
            neighbor=1,
            delta=0.0,
            rng=rng,
            num_draws=400,
            confidence=0.8,
        )
        epsilon_bounds.append(attack.lower_bound)
    assert sum(bound > math.log(3) for bound in epsilon_bounds) <= 20
    assert np.median(epsilon_bounds) > 0.7 * math.log(3)


def test_a_price_too_small_is_refuted_in_words() -> None:
    """A price that is below the bound raises an error with the score that shows the larger epsilon.

    The mechanism has no noise.
    """
    attack = attack_draws(
        publish_exactly,
        data=0.0,
        neighbor=1.0,
        delta=1e-6,
        rng=np.random.default_rng(0),
        num_draws=200,
    )
    assert 2 < attack.lower_bound < 4
    attack.require(attack.lower_bound)
    with pytest.raises(PriceRefuted, match=r"a score .* shows an epsilon of at least"):
        attack.require(1.0)


def test_equal_draws_refute_nothing() -> None:
    """The bound is 0 for a mechanism that reads no data."""
    attack = attack_draws(
        ignore_data,
        data=0.0,
        neighbor=1.0,
        delta=0.0,
        rng=np.random.default_rng(0),
        num_draws=100,
    )
    assert attack.lower_bound == 0.0


def test_a_delta_that_covers_the_difference_refutes_nothing() -> None:
    """The bound on the epsilon of randomized response is 0 at a delta of 1/2."""
    attack = attack_draws(
        randomized_response,
        data=0,
        neighbor=1,
        delta=0.5,
        rng=np.random.default_rng(1),
        num_draws=400,
    )
    assert attack.lower_bound == 0.0


def test_a_score_that_is_no_number_is_refused() -> None:
    """A mechanism that draws NaN is refused, as NaN is neither above nor below a threshold."""
    with refused_parameter("score[0, 0]"):
        attack_draws(
            draw_nan,
            data=0.0,
            neighbor=1.0,
            delta=0.0,
            rng=np.random.default_rng(0),
            num_draws=4,
        )


@pytest.mark.parametrize(
    ("hits", "expected_low", "expected_high"), [(3, 0.0667, 0.6525), (10, 0.6915, 1.0)]
)
def test_shares_are_those_of_clopper_and_pearson(
    hits: int, expected_low: float, expected_high: float
) -> None:
    """The 95% intervals for 3 and for 10 hits in 10 trials are those of printed tables."""
    low = float(lowest_share(hits, num_trials=10, error_prob=0.025))
    high = float(highest_share(hits, num_trials=10, error_prob=0.025))
    assert low == pytest.approx(expected_low, abs=5e-5)
    assert high == (1.0 if hits == 10 else pytest.approx(expected_high, abs=5e-5))
