"""docs/proofs/exact_composition.md: the recursion against exhaustive search, and its single steps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit, logit, ndtr, ndtri

from pate.accounting import ApproximateEvent, BoundedRangeEvent, Event, GaussianEvent, OneBitEvent, PureDpEvent
from pate.accounting.exact import ExactAccountant

Pair = tuple[float, float]


def probability(up: float, down: float) -> float:
    return math.expm1(-down) / (math.exp(-down) - math.exp(-up))


def best_play(families: list[list[Pair]], x: float) -> float:
    """V at x by trying every choice after every past."""
    if not families:
        return max(0.0, -math.expm1(x))
    here, later = families[0], families[1:]

    def play(up: float, down: float) -> float:
        p = probability(up, down)
        return p * best_play(later, x - up) + (1 - p) * best_play(later, x - down)

    return max(play(*pair) for pair in here)


def bit_family(probabilities: list[float], reach: int) -> list[Pair]:
    """Every pair of statistics at most `reach` apart, in both roles, not only those at the full reach."""
    pairs = []
    for i, p in enumerate(probabilities):
        for q in probabilities[i + 1 : i + 1 + reach]:
            one, zero = math.log(q / p), math.log((1 - q) / (1 - p))
            pairs += [(one, zero), (-zero, -one)]
    return pairs


def bounded_range_family(epsilon: float, size: int) -> list[Pair]:
    return [(t, t - epsilon) for t in np.linspace(0, epsilon, size + 2)[1:-1].tolist()]


BITS = [0.05, 0.2, 0.45, 0.8, 0.9]
BIT_EVENT = OneBitEvent(tuple(logit(BITS).tolist()), reach=2)
PLAYS: dict[str, tuple[list[Event], list[list[Pair]]]] = {
    "bits": ([BIT_EVENT] * 3, [bit_family(BITS, 2)] * 3),
    "bounded range": ([BoundedRangeEvent(0.8)] * 3, [bounded_range_family(0.8, 31)] * 3),
    "pure": ([PureDpEvent(0.5)] * 6, [[(0.5, -0.5)]] * 6),
    "selection and test": (
        [BoundedRangeEvent(0.6), BIT_EVENT] * 2,
        [bounded_range_family(0.6, 11), bit_family(BITS, 2)] * 2,
    ),
}


@pytest.mark.parametrize("name", PLAYS)
@pytest.mark.parametrize(("share", "slack"), [(0.3, 2.0), (0.7, 1.02)])
def test_the_accountant_is_above_the_best_play_and_close_where_delta_is_small(
    name: str, share: float, slack: float
) -> None:
    events, families = PLAYS[name]
    epsilon = share * sum(max(up for up, _ in family) for family in families)
    accountant = ExactAccountant()
    for event in events:
        accountant.compose(event)
    searched, charged = best_play(families, epsilon), accountant.get_delta(epsilon)
    assert searched <= charged * (1 + 1e-12)
    assert charged <= searched * slack


def test_choosing_after_seeing_the_past_beats_every_fixed_choice() -> None:
    family = bounded_range_family(0.8, 15)
    fixed = max(best_play([[a], [b], [c]], 0.5) for a in family for b in family for c in family)
    assert fixed < best_play([family] * 3, 0.5)


def test_a_box_is_no_better_for_the_data_than_its_members() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        up, down = rng.uniform(0.05, 1, 2) * np.array([1, -1])
        wider = (up + rng.uniform(0, 0.5), down - rng.uniform(0, 0.5))
        x = float(rng.uniform(-0.5, 1))
        later = [[(0.3, -0.2), (0.1, -0.5)]]
        assert best_play([[(up, down)], *later], x) <= best_play([[wider], *later], x) + 1e-12


def test_the_value_is_convex_in_the_exponential() -> None:
    families = [bounded_range_family(0.6, 7), bit_family(BITS, 2)]
    y = np.linspace(0.4, 6.0, 120)
    values = np.array([best_play(families, math.log(point)) for point in y])
    assert np.diff(values, 2).min() >= -1e-12


def test_gaussian_steps_may_come_in_any_order_and_their_failures_add_up() -> None:
    first = ExactAccountant().compose(GaussianEvent(2.0)).compose(PureDpEvent(0.3)).compose(GaussianEvent(3.0))
    merged = GaussianEvent((1 / 4 + 1 / 9) ** -0.5)
    second = ExactAccountant().compose(PureDpEvent(0.3)).compose(merged)
    assert first.get_epsilon(1e-4) == pytest.approx(second.get_epsilon(1e-4), rel=1e-9)
    failing = ExactAccountant().compose(PureDpEvent(0.3)).compose(ApproximateEvent(merged, 4e-5))
    assert failing.get_epsilon(1e-4) == pytest.approx(second.get_epsilon(6e-5), rel=1e-3)


def test_a_gaussian_before_a_bit_against_a_quadrature() -> None:
    mu, epsilon = 0.5, 2.5
    pairs = bit_family(BITS, 2)
    losses = np.linspace(mu * mu / 2 - 9 * mu, mu * mu / 2 + 9 * mu, 4001)
    weights = np.exp(-0.5 * ((losses - mu * mu / 2) / mu) ** 2)
    searched = float(np.dot(weights / weights.sum(), [best_play([pairs], epsilon - loss) for loss in losses]))
    charged = ExactAccountant().compose(GaussianEvent(1 / mu)).compose(BIT_EVENT).get_delta(epsilon)
    assert searched <= charged <= searched * 1.02
    assert expit(BIT_EVENT.logits[0]) == pytest.approx(BITS[0])


@pytest.mark.slow
def test_a_piece_of_a_range_is_bounded_by_its_ends_and_the_bend() -> None:
    rng = np.random.default_rng(1)
    later = [bit_family(BITS, 2), bounded_range_family(0.5, 5)]
    for _ in range(60):
        span = float(rng.uniform(0.1, 1.5))
        low, high = np.sort(rng.uniform(0, span, 2)).tolist()
        x = float(rng.uniform(-0.5, 1.0))

        def value(loss: float, x: float = x) -> float:
            return best_play(later, x - loss)

        def expected(t: float, span: float = span) -> float:
            p = math.expm1(span - t) / (math.expm1(span - t) - math.expm1(-t)) if 0 < t < span else float(t == 0)
            return p * value(t) + (1 - p) * value(t - span)

        bend = math.expm1(high - low) / math.expm1(span)
        bend *= math.exp(span) * (value(high) - value(low)) - (value(high - span) - value(low - span))
        for t in np.linspace(low, high, 9).tolist():
            share = (math.exp(t) - math.exp(low)) / (math.exp(high) - math.exp(low))
            bound = (1 - share) * expected(low) + share * expected(high) + max(bend, 0.0) * share * (1 - share)
            assert expected(t) <= bound + 1e-12
        rise = abs(expected(high) - expected(low))
        bend = max(bend, rise, 1e-300)
        largest = (expected(low) + expected(high)) / 2 + (rise * rise / bend + bend) / 4
        assert max(expected(t) for t in np.linspace(low, high, 9).tolist()) <= largest + 1e-12


@pytest.mark.parametrize(("count", "shift"), [(1, 0.7), (4, 0.3), (38, 1.5)])
def test_the_pair_of_a_noisy_maximum_has_tests_on_both_curves(count: int, shift: float) -> None:
    x = np.linspace(-5, 7, 100_001)
    still, moved = ndtr(x) ** count, ndtr(x - shift) ** count
    middle = int(np.argmax(still >= 1 - moved))
    assert (1 - moved[middle]) + (1 - still[middle]) == pytest.approx(1, abs=1e-3)
    later = slice(middle, None)  # tests that accept all of the first copy, and x <= t in the second
    accepted = (1 - still[middle]) + (moved[later] - moved[middle])
    power = (1 - moved[middle]) + (still[later] - still[middle])
    assert np.abs(accepted - moved[later]).max() < 1e-3
    quantile = ndtri(moved[later] ** (1 / count))  # the second curve: P[M - D <= y] where P[M <= y] = p
    assert np.abs(power - ndtr(quantile + shift) ** count).max() < 1e-3
