"""The attack by draws: its bound keeps its confidence, comes close to the truth, and refutes what is too small."""

import math

import numpy as np
import pytest

from pate.testing import PriceRefuted, attack_draws
from pate.testing.proportions import highest_share, lowest_share
from tests.refusals import refused


def answer(truth: int, rng: np.random.Generator) -> int:
    """Draws a randomized response that says the truth with 3/4: epsilon is log 3."""
    return truth if rng.random() < 0.75 else 1 - truth


@pytest.mark.slow
def test_the_bound_is_close_and_keeps_its_confidence() -> None:
    """At confidence 80%, at most some 20 of 100 bounds exceed the true epsilon of log 3; most are near it."""
    rng = np.random.default_rng(0)
    bounds = [
        attack_draws(answer, 0, 1, delta=0.0, rng=rng, num_draws=400, confidence=0.8).lower_bound
        for _ in range(100)
    ]
    assert sum(bound > math.log(3) for bound in bounds) <= 20
    assert np.median(bounds) > 0.7 * math.log(3)


def test_a_price_too_small_is_refuted_in_words() -> None:
    """Without noise the neighbors are told apart, and the error says by which test."""
    attack = attack_draws(
        lambda data, rng: data, 0.0, 1.0, delta=1e-6, rng=np.random.default_rng(0), num_draws=200
    )
    assert 2 < attack.lower_bound < 4
    attack.require(attack.lower_bound)
    with pytest.raises(PriceRefuted, match=r"a score .* shows an epsilon of at least"):
        attack.require(1.0)


def test_equal_draws_refute_nothing() -> None:
    """A mechanism that reads no data has a bound of 0."""
    attack = attack_draws(
        lambda data, rng: rng.normal(), 0, 1, delta=0.0, rng=np.random.default_rng(0), num_draws=100
    )
    assert attack.lower_bound == 0.0


def test_a_delta_that_covers_the_difference_refutes_nothing() -> None:
    """Where delta is 1/2, the randomized response has epsilon 0."""
    attack = attack_draws(answer, 0, 1, delta=0.5, rng=np.random.default_rng(1), num_draws=400)
    assert attack.lower_bound == 0.0


def test_a_score_that_is_no_number_is_refused() -> None:
    """NaN orders nothing."""
    with refused("score[0, 0]"):
        attack_draws(
            lambda data, rng: math.nan, 0, 1, delta=0.0, rng=np.random.default_rng(0), num_draws=4
        )


def test_shares_are_those_of_clopper_and_pearson() -> None:
    """For 3 hits of 10 the 95% interval of tables is [.0667, .6525]; for 10 of 10 it is [.6915, 1]."""
    assert float(lowest_share(hits=3, num_trials=10, error_prob=0.025)) == pytest.approx(
        0.0667, abs=5e-5
    )
    assert float(highest_share(hits=3, num_trials=10, error_prob=0.025)) == pytest.approx(
        0.6525, abs=5e-5
    )
    assert float(lowest_share(hits=10, num_trials=10, error_prob=0.025)) == pytest.approx(
        0.6915, abs=5e-5
    )
    assert float(highest_share(hits=10, num_trials=10, error_prob=0.025)) == 1.0
