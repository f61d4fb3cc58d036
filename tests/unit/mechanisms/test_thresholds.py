"""Above threshold and between thresholds: distributions, draws, prices, limits and messages."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency, PureDpEvent
from pate.accounting.target_charging import TargetCharging, not_prior
from pate.mechanisms import AboveThreshold, BetweenThresholds
from pate.validation import InvalidValue
from tests.statistical.chi_square import p_value

DRAWS = 20_000


def test_distributions_sum_to_one_far_and_near() -> None:
    values = np.array([-(2**40), -50, 0, 3, 7, 60, 2**40])
    above = AboveThreshold(threshold=3, epsilon=0.3).probabilities(values, largest=12)
    between = BetweenThresholds(lower=3, upper=9, epsilon=0.3).probabilities(values)
    assert above.shape == (7, 12)
    assert between.shape == (7, 3)
    for distribution in (above, between):
        assert (distribution >= 0).all()
        np.testing.assert_allclose(distribution.sum(axis=1), 1, rtol=1e-12)


def test_the_two_distributions_agree_where_they_say_the_same() -> None:
    for value in (-4, 0, 3, 5, 8, 20):
        above = AboveThreshold(threshold=3, epsilon=0.5).probabilities(value, largest=8)
        between = BetweenThresholds(lower=3, upper=9, epsilon=0.5).probabilities(value)
        np.testing.assert_allclose(between, [above[0], above[1:-1].sum(), above[-1]], rtol=1e-9)


def test_the_rare_side_keeps_its_digits() -> None:
    """Fifty scales away "between" has a mass of e^-100, by hand."""
    distribution = BetweenThresholds(lower=100, upper=101, epsilon=1.0).probabilities(0)
    assert distribution[1] == pytest.approx(math.tanh(0.5) * math.exp(-100), rel=1e-9)


def test_draws_follow_the_distributions() -> None:
    values = np.full(DRAWS, 4)
    released = AboveThreshold(threshold=3, epsilon=0.4)(values, rng=np.random.default_rng(1))
    distribution = AboveThreshold(threshold=3, epsilon=0.4).probabilities(4, largest=60)
    names = [None, *range(3, 61), 61]
    drawn = [int(value) if answered else None for value, answered in zip(*vars(released).values(), strict=True)]
    assert p_value(Counter(drawn), dict(zip(names, distribution.tolist(), strict=True))) > 1e-4
    sides = BetweenThresholds(lower=3, upper=6, epsilon=0.4)(values, rng=np.random.default_rng(2)).sides
    side_distribution = BetweenThresholds(lower=3, upper=6, epsilon=0.4).probabilities(4).tolist()
    assert p_value(Counter(sides.tolist()), dict(zip((-1, 0, 1), side_distribution, strict=True))) > 1e-4
    wrong = BetweenThresholds(lower=3, upper=6, epsilon=0.44).probabilities(4).tolist()
    assert p_value(Counter(sides.tolist()), dict(zip((-1, 0, 1), wrong, strict=True))) < 1e-4


@pytest.mark.parametrize(
    ("statistic", "adjacency", "sensitivity"),
    [
        ("count", Adjacency.REPLACE_ONE, 1),
        ("count", Adjacency.ADD_REMOVE, 1),
        ("gap", Adjacency.REPLACE_ONE, 2),
        ("gap", Adjacency.ADD_REMOVE, 1),
    ],
)
def test_noise_grows_with_what_one_change_moves(statistic: str, adjacency: Adjacency, sensitivity: int) -> None:
    options: dict[str, Any] = {"epsilon": 0.5, "statistic": statistic, "adjacency": adjacency}
    for test in (AboveThreshold(threshold=3, **options), BetweenThresholds(lower=3, upper=7, **options)):
        assert float(test.noise.rate) == 0.5 / sensitivity
        assert test.event == PureDpEvent(0.5)
        assert test.target.epsilon == 0.5
    between = BetweenThresholds(lower=3, upper=7, **options)
    expected = (1 - math.exp(-4 * 0.5 / sensitivity)) / (math.exp(0.5) + 1)
    assert between.target.hit_prob == pytest.approx(expected, rel=1e-12)
    assert AboveThreshold(threshold=3, **options).target == not_prior(0.5)


def test_the_price_is_that_of_the_noise_as_drawn() -> None:
    test = AboveThreshold(threshold=0, epsilon=0.1)
    assert 0.1 - 2**-32 < test.call_epsilon <= 0.1
    assert test.event == PureDpEvent(test.call_epsilon)


def test_outcomes_charge_a_session() -> None:
    test = BetweenThresholds(lower=300, upper=500, epsilon=1.0)
    session = TargetCharging.of_targets([test.target], 2, target_delta=1e-6)
    outcome = test(np.array([100, 400, 700, 420, 410]), rng=np.random.default_rng(0))
    assert outcome.in_target.tolist() == [False, True, False, True, True]
    assert session.charge_batch(outcome.in_target, target=test.target) == 4
    released = AboveThreshold(threshold=300, epsilon=5.0)(700, rng=np.random.default_rng(0))
    assert released.in_target
    assert released.values.shape == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 2.5}, r"threshold=2.5: expected a whole number"),
        ({"threshold": True}, r"threshold=True: expected a whole number"),
        ({"epsilon": 0.0}, r"epsilon=0.0: expected a number > 0"),
        ({"epsilon": 1e-12}, r"rate=1e-12: expected a number in"),
        ({"statistic": "counts"}, r"statistic=counts: expected one of count, gap \(did you mean count\?\)"),
        ({"adjacency": "swap"}, r"adjacency=swap: expected one of"),
    ],
)
def test_impossible_parameters_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        AboveThreshold(**({"threshold": 3, "epsilon": 1.0} | options))


def test_impossible_values_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r"upper=3: expected more than lower=3"):
        BetweenThresholds(lower=3, upper=3, epsilon=1.0)
    test = AboveThreshold(threshold=3, epsilon=1.0)
    for values, message in (
        (np.array([0.5]), r"values.dtype=float64: expected whole numbers"),
        (np.zeros((2, 2), dtype=int), r"values.shape=\(2, 2\): expected \[\] or \[num_queries\]"),
        (np.array([2**60]), r"values=1152921504606846976: expected at most 2\*\*53 in size"),
    ):
        with pytest.raises(InvalidValue, match=message):
            test(values, rng=np.random.default_rng(0))
    with pytest.raises(InvalidValue, match="rng=0: expected a numpy"):
        test(3, rng=0)
    with pytest.raises(InvalidValue, match=r"largest=2: expected a whole number >= 3"):
        test.probabilities(3, largest=2)
    assert test(np.zeros(0, dtype=int), rng=np.random.default_rng(0)).values.shape == (0,)
