"""The best play against a session: never below any play, attained, and never above the price of accesses."""

from __future__ import annotations

import math
import operator
from functools import cache

import mpmath
import numpy as np
import pytest

from pate.accounting.pure_composition import pure_dp_composition_delta
from pate.accounting.target_charging import (
    QTarget,
    best_play_delta,
    best_session_price,
    not_prior,
    tight_boundary,
)

TARGETS = (not_prior(0.7), tight_boundary(0.5), QTarget(0.7, 0.6), QTarget(0.4, 0.2))
Call = tuple[tuple[float, float, bool], ...]
"""Probabilities of an outcome on both neighbors, and whether it is a hit."""


def random_calls(target: QTarget, num: int, rng: np.random.Generator) -> list[Call]:
    """Accesses of up to two hits and two misses, with any ratios within the target's epsilon."""
    found: list[Call] = []
    while len(found) < num:
        first = rng.dirichlet(rng.choice([0.3, 1.0, 3.0], size=4))
        second = first * np.exp(rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], size=4) * target.epsilon)
        second /= second.sum()
        near = np.abs(np.log(second / first)).max() <= target.epsilon
        if near and min(first[:2].sum(), second[:2].sum()) >= target.hit_prob:
            pairs = zip(first.tolist(), second.tolist(), strict=True)
            found.append(tuple((p, q, at < 2) for at, (p, q) in enumerate(pairs)))
    return found


def played(calls: list[Call], num_accesses: int, target_hits: int, epsilon: float) -> float:
    """The best play with these calls alone, in any order that outcomes decide."""

    @cache
    def value(accesses: int, hits: int, loss: float) -> float:
        stop = max(0.0, 1 - math.exp(epsilon - loss))
        if accesses == 0 or hits == 0:
            return stop
        plays = (
            sum(p * value(accesses - 1, hits - hit, round(loss + math.log(p / q), 12)) for p, q, hit in call)
            for call in calls
        )
        return max(stop, *plays)

    return value(num_accesses, target_hits, 0.0)


@pytest.mark.parametrize("target_hits", [1, 2])
@pytest.mark.parametrize("target", TARGETS)
def test_no_play_of_random_calls_is_better(target: QTarget, target_hits: int) -> None:
    rng, epsilon = np.random.default_rng(0), 0.8
    best = best_play_delta(target, target_hits=target_hits, num_accesses=4, target_epsilon=epsilon)
    plays = [played(random_calls(target, 3, rng), 4, target_hits, epsilon) for _ in range(30)]
    assert 0 < max(plays) <= best


@pytest.mark.parametrize("target_hits", [1, 3])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_randomized_response_attains_it(epsilon: float, target_hits: int) -> None:
    """A bit that is the prior or is not, whichever is the likelier; or a bit of hits; or one beside an idle hit."""
    likely, rare = math.exp(epsilon) / (math.exp(epsilon) + 1), 1 / (math.exp(epsilon) + 1)
    calls: list[Call] = [((likely, rare, hit), (rare, likely, not hit)) for hit in (True, False)]
    calls.append(((likely, rare, True), (rare, likely, True)))
    shares = [(share * likely, share * rare, hit) for share, hit in ((rare, True), (likely, False))]
    calls.append((*shares, *((q, p, hit) for p, q, hit in shares)))  # a hit as rare as can be, of no meaning
    target, at = not_prior(epsilon), 2 * epsilon
    best = best_play_delta(target, target_hits=target_hits, num_accesses=7, target_epsilon=at)
    attained = played(calls, 7, target_hits, at)
    assert 0.99 * best < attained <= best * (1 + 1e-9)


@pytest.mark.parametrize("target", TARGETS)
def test_without_a_limit_it_is_optimal_composition(target: QTarget) -> None:
    delta = best_play_delta(target, target_hits=9, num_accesses=9, target_epsilon=1.0)
    assert delta == pytest.approx(pure_dp_composition_delta(target.epsilon, count=9, target_epsilon=1.0), rel=1e-9)


@pytest.mark.parametrize("target_hits", [1, 4, 10])
@pytest.mark.parametrize("target", TARGETS)
def test_a_price_is_that_of_the_play_and_below_that_of_accesses(target: QTarget, target_hits: int) -> None:
    played_out = best_session_price(target, target_hits=target_hits, target_delta=1e-5)
    counted = best_session_price(target, target_hits=target_hits, target_delta=1e-5, by_play=False)
    assert played_out.epsilon < counted.epsilon
    assert (played_out.num_accesses, played_out.overrun_prob) == (counted.num_accesses, counted.overrun_prob)
    beyond = best_play_delta(
        target, target_hits=target_hits, num_accesses=150, target_epsilon=0.99 * played_out.epsilon
    )
    assert beyond > 1e-5 * 0.99


def test_many_hits_are_priced_by_their_accesses() -> None:
    price = best_session_price(not_prior(0.1), target_hits=300, target_delta=1e-6)
    assert price == best_session_price(not_prior(0.1), target_hits=300, target_delta=1e-6, by_play=False)


def test_counters_share_delta() -> None:
    options = {"target_hits": 2, "target_delta": 1e-5}
    one, three = (best_session_price(not_prior(0.2), num_counters=k, **options).epsilon for k in (1, 3))
    assert one < three < best_session_price(not_prior(0.2), num_counters=3, **options, by_play=False).epsilon


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3, 0.3])
def test_deltas_are_rounded_up(epsilon: float, share: float) -> None:
    """Against the same recursion in 40 digits, at few accesses of few hits."""
    target = QTarget(epsilon, share / (math.exp(epsilon) + 1))
    for at in (0.0, 0.4 * epsilon, epsilon, 2.5 * epsilon):
        exact = _in_many_digits(target, num_accesses=5, target_hits=2, target_epsilon=at)
        found = best_play_delta(target, target_hits=2, num_accesses=5, target_epsilon=at)
        assert exact <= found <= exact * (1 + 1e-9) + 1e-11 * epsilon


def _in_many_digits(target: QTarget, *, num_accesses: int, target_hits: int, target_epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(40):
        epsilon, least = mpmath.mpf(target.epsilon), mpmath.mpf(target.hit_prob)
        growth, rare = mpmath.exp(epsilon), 1 / (mpmath.exp(epsilon) + 1)
        most = min(growth * least, 1 - (1 - least) / growth)
        one = mpmath.mpf(1)
        corners = [
            (one, one),
            (least, least),
            (least, most),
            (most, least),
            (rare, growth * rare),
            (growth * rare, rare),
        ]

        def split(first: mpmath.mpf, second: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
            return growth * (growth * first - second) / (growth**2 - 1), (growth * second - first) / (growth**2 - 1)

        moves = [split(*hit) + split(1 - hit[0], 1 - hit[1]) for hit in corners]

        @cache
        def value(accesses: int, hits: int, steps: int) -> mpmath.mpf:
            stop = max(mpmath.mpf(0), 1 - mpmath.exp(target_epsilon - steps * epsilon))
            if accesses == 0 or hits == 0:
                return stop
            later = [value(accesses - 1, left, steps + step) for left in (hits - 1, hits) for step in (1, -1)]
            return max(stop, *(sum(map(operator.mul, move, later)) for move in moves))

        return value(num_accesses, target_hits, 0)
