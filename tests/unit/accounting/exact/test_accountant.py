"""The exact accountant against closed forms, exhaustive play in rational numbers, and its own limits."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from pate.accounting import (
    ApproximateEvent,
    BoundedRangeEvent,
    ComposedEvent,
    Event,
    ExactAccountant,
    GaussianEvent,
    NoisyMaxGaussianEvent,
    NonPrivateEvent,
    NoOpEvent,
    OneBitEvent,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
    ZCdpEvent,
    gaussian_delta,
)
from pate.accounting.exact import profile
from pate.aggregators import StableTopK
from pate.validation import InvalidValue
from tests.oracle.golden import entries

DELTA = 1e-5
BIT = OneBitEvent((-6.0, -4.0, -1.0, 0.0, 2.0, 5.0), reach=1)


def golden(name: str) -> list[Any]:
    found = [(entry["inputs"], entry["value"]) for entry in entries() if entry["name"] == name]
    assert found
    return found


# Closed forms.


def binomial_delta(epsilon: float, count: int, target: float) -> float:
    """Of n-fold randomized response, summed term by term (Kairouz, Oh & Viswanath 2015)."""
    truth = 1 / (1 + math.exp(-epsilon))
    return math.fsum(
        math.comb(count, k)
        * truth**k
        * (1 - truth) ** (count - k)
        * max(0.0, -math.expm1(target - (2 * k - count) * epsilon))
        for k in range(count + 1)
    )


@pytest.mark.parametrize(("inputs", "value"), golden("kov_optimal_composition_eps"))
def test_pure_dp_is_the_golden_optimum(inputs: dict[str, float], value: float) -> None:
    event = SelfComposedEvent(PureDpEvent(inputs["eps"]), int(inputs["n"]))
    priced = ExactAccountant().compose(event).get_epsilon(inputs["delta"])
    assert priced == pytest.approx(value, rel=1e-4)
    assert priced >= value * (1 - 1e-9)
    cheaper = SelfComposedEvent(PureDpEvent(0.9 * inputs["eps"]), int(inputs["n"]))
    assert ExactAccountant().compose(cheaper).get_epsilon(inputs["delta"]) < value


@pytest.mark.parametrize(("epsilon", "count"), [(0.01, 40), (0.3, 1), (0.3, 12), (1.7, 5), (6.0, 3)])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.45, 0.8, 0.99])
def test_pure_dp_is_never_below_the_sum_over_binomials(epsilon: float, count: int, share: float) -> None:
    target = share * epsilon * count
    truth = binomial_delta(epsilon, count, target)
    charged = ExactAccountant().compose(PureDpEvent(epsilon), count).get_delta(target)
    assert truth * (1 - 1e-12) <= charged <= truth * (1 + 1e-2) + 1e-12


@pytest.mark.parametrize(("inputs", "value"), golden("gaussian_exact_eps"))
def test_gaussians_alone_are_exact(inputs: dict[str, Any], value: float) -> None:
    for made in (
        ExactAccountant().compose(GaussianEvent(1 / inputs["mu"])),
        ExactAccountant().compose(GaussianEvent(5 / inputs["mu"]), 25),
        ExactAccountant().compose(ApproximateEvent(GaussianEvent(1 / inputs["mu"]), 0.0)),
    ):
        assert made.get_epsilon(inputs["delta"]) == pytest.approx(value, rel=1e-8)
        assert made.get_delta(value) == pytest.approx(inputs["delta"], rel=1e-7)
        assert made.get_delta(value) >= inputs["delta"] * (1 - 1e-9)


def test_a_gaussian_and_next_to_nothing_cost_what_the_gaussian_costs() -> None:
    made = ExactAccountant().compose(GaussianEvent(0.8)).compose(PureDpEvent(1e-9))
    for epsilon in (0.0, 0.5, 3.0, 7.0):
        truth = gaussian_delta(1.25, epsilon=epsilon)
        assert truth <= made.get_delta(epsilon) <= truth * (1 + 1e-3)


# Exhaustive play, in rational numbers.


def best_play(families: list[list[tuple[Fraction, Fraction]]], y: Fraction) -> Fraction:
    """V at exp(x) = y by trying every pair (p, q) of chances of the first outcome, after every past."""
    if not families:
        return max(Fraction(0), 1 - y)
    here, later = families[0], families[1:]

    def play(p: Fraction, q: Fraction) -> Fraction:
        return p * best_play(later, y * q / p) + (1 - p) * best_play(later, y * (1 - q) / (1 - p))

    return max(play(p, q) for p, q in here)


def bits(chances: list[Fraction], reach: int) -> list[tuple[Fraction, Fraction]]:
    pairs = [(p, q) for i, p in enumerate(chances) for q in chances[i + 1 : i + 1 + reach]]
    return [pair for p, q in pairs for pair in ((p, q), (q, p))]


def spans(range_: Fraction, size: int) -> list[tuple[Fraction, Fraction]]:
    """Pairs whose likelihood ratios are s and s / range, so that both distributions sum to 1."""
    ratios = [1 + (range_ - 1) * Fraction(k, size) for k in range(1, size)]
    q = [(1 - s / range_) / (s - s / range_) for s in ratios]
    return [(s * chance, chance) for s, chance in zip(ratios, q, strict=True)]


CHANCES = [Fraction(n, 40) for n in (1, 7, 19, 33, 37)]
LOGITS = tuple(math.log(p / (1 - p)) for p in CHANCES)
PLAYS: dict[str, tuple[list[Event], list[list[tuple[Fraction, Fraction]]]]] = {
    "bits": ([OneBitEvent(LOGITS, 1)] * 3, [bits(CHANCES, 1)] * 3),
    "far bits": ([OneBitEvent(LOGITS, 3)] * 2, [bits(CHANCES, 3)] * 2),
    "range": ([BoundedRangeEvent(math.log(2))] * 2, [spans(Fraction(2), 24)] * 2),
    "small range": ([BoundedRangeEvent(math.log(1.1))] * 3, [spans(Fraction(11, 10), 20)] * 3),
    "range, bit, pure": (
        [BoundedRangeEvent(math.log(1.5)), OneBitEvent(LOGITS, 2), PureDpEvent(math.log(3))],
        [spans(Fraction(3, 2), 16), bits(CHANCES, 2), [(Fraction(3, 4), Fraction(1, 4))]],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYS)
@pytest.mark.parametrize("y", [Fraction(1), Fraction(21, 20), Fraction(5, 4), Fraction(2), Fraction(7, 2)])
def test_never_below_the_best_play_and_close_to_it(name: str, y: Fraction) -> None:
    events, families = PLAYS[name]
    searched = float(best_play(families, y))
    made = ExactAccountant()
    for event in events:
        made.compose(event)
    charged = made.get_delta(math.log(y))
    assert charged >= searched * (1 - 1e-12)
    assert charged <= searched * 1.01 + 5e-6  # the search tries few of the pairs of a range


@pytest.mark.parametrize(
    ("name", "cheaper"),
    [
        ("bits", OneBitEvent(tuple(0.9 * logit for logit in LOGITS), 1)),
        ("range", BoundedRangeEvent(0.9 * math.log(2))),
        ("small range", BoundedRangeEvent(0.9 * math.log(1.1))),
    ],
)
def test_events_made_a_tenth_too_small_fall_below_the_best_play(name: str, cheaper: Event) -> None:
    events, families = PLAYS[name]
    y = Fraction(21, 20)
    charged = ExactAccountant().compose(cheaper, len(events)).get_delta(math.log(y))
    assert charged < float(best_play(families, y)) * 0.97


# A noisy maximum.


@pytest.mark.parametrize(("noise", "candidates"), [(2.0, 2), (4.0, 5), (1.0, 40)])
def test_a_noisy_maximum_is_priced_by_both_bounds_on_its_tests(noise: float, candidates: int) -> None:
    """The hockey stick of the smaller of the two curves of docs/proofs/gap_selection.md, step 4."""
    shift, count = 2 / noise, candidates - 1
    chance = np.concatenate([np.geomspace(1e-14, 1e-3, 1000), np.linspace(1e-3, 1 - 1e-9, 60_000)])
    up = -np.expm1(count * np.log(ndtr(ndtri(np.exp(np.log1p(-chance) / count)) - shift)))
    down = ndtr(ndtri(chance ** (1 / count)) + shift) ** count
    made = ExactAccountant().compose(NoisyMaxGaussianEvent(noise, candidates))
    cheaper = ExactAccountant().compose(NoisyMaxGaussianEvent(noise / 0.9, candidates))
    for epsilon in (0.05, 0.3, 1.0, 2.0):
        envelope = float(np.max(np.minimum(up, down) - math.exp(epsilon) * chance))
        charged = made.get_delta(epsilon)
        assert envelope * (1 - 1e-9) <= charged <= envelope * (1 + 1e-3)
        assert cheaper.get_delta(epsilon) < envelope


def test_noisy_maxima_add_up_below_renyi() -> None:
    event = SelfComposedEvent(NoisyMaxGaussianEvent(50.0, 39), 600)
    renyi, made = RdpAccountant().compose(event), ExactAccountant().compose(event)
    assert 0.6 * renyi.get_epsilon(1e-6) < made.get_epsilon(1e-6) < 0.85 * renyi.get_epsilon(1e-6)
    assert ExactAccountant().compose(NoisyMaxGaussianEvent(0.5, 1)).get_epsilon(DELTA) == 0


# The paper's experiment.


@pytest.mark.slow
def test_the_papers_experiment_costs_what_was_computed_independently() -> None:
    """3.44 by the specification's own program; its non-adaptive lower bound is 3.438."""
    aggregator = StableTopK(selection_scale=38.985, test_std=60.0, failure_prob=1e-9, adjacency="add_remove")
    event = aggregator.event_for(num_queries=600, num_labels=40, num_teachers=800)
    assert 3.438 < ExactAccountant(in_blocks=False).compose(event).get_epsilon(1e-6) < 3.46
    assert 3.45 < ExactAccountant().compose(event).get_epsilon(1e-6) < 3.47


# Limits.


@pytest.mark.parametrize(
    "event",
    [
        PureDpEvent(math.inf),
        BoundedRangeEvent(math.inf),
        NonPrivateEvent(),
        GaussianEvent(0.0),
        NoisyMaxGaussianEvent(0.0, 3),
        OneBitEvent((-math.inf, 0.0), reach=1),
        OneBitEvent((0.0, math.inf), reach=1),
        OneBitEvent((-math.inf, math.inf), reach=2),
    ],
    ids=repr,
)
def test_an_infinite_price_is_infinite_among_others(event: Event) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = ExactAccountant().compose(ComposedEvent((PureDpEvent(0.1), event, BIT, GaussianEvent(3.0))))
        assert made.get_epsilon(DELTA) == math.inf
        assert made.get_delta(5.0) == 1


@pytest.mark.parametrize(
    "event",
    [
        PureDpEvent(800.0),
        BoundedRangeEvent(900.0),
        PureDpEvent(1e305),
        GaussianEvent(1e-150),
        GaussianEvent(1e150),
        NoisyMaxGaussianEvent(1e-9, 10),
        NoisyMaxGaussianEvent(1e9, 10),
        OneBitEvent((-1e305, 1e305), reach=1),
        OneBitEvent((-700.0, -1.0, -1.0 + 1e-15, 700.0), reach=1),
        OneBitEvent((5e-324, 1e-300), reach=1),
    ],
    ids=repr,
)
def test_extreme_prices_among_others_are_bounds_below_renyi(event: Event) -> None:
    both = ComposedEvent((event, PureDpEvent(0.2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for made, renyi in ((kind().compose(both, 2) for kind in (ExactAccountant, RdpAccountant)),):
            for delta in (1e-290, 1e-5, 0.9):
                assert 0 <= made.get_epsilon(delta) <= renyi.get_epsilon(delta)
            for epsilon in (0.0, 1.0, 1e3, 1e300):
                assert 0 <= made.get_delta(epsilon) <= renyi.get_delta(epsilon)


def test_beyond_the_sum_of_all_losses_delta_is_next_to_nothing() -> None:
    made = ExactAccountant().compose(ApproximateEvent(PureDpEvent(0.2), 1e-8), 3)
    assert made.get_delta(0.61) == pytest.approx(3e-8, rel=1e-9)
    assert made.get_epsilon(1e-7) <= 0.6 * (1 + 1e-6)


def test_events_of_other_kinds_are_refused_and_nothing_is_added() -> None:
    made = ExactAccountant().compose(PureDpEvent(0.3))
    before = made.get_epsilon(DELTA)
    with pytest.raises(InvalidValue, match=r"event=ZCdpEvent: expected an event .* \(the rdp accountant may know it\)"):
        made.compose(ComposedEvent((PureDpEvent(0.3), ZCdpEvent(0.1))))
    assert made.get_epsilon(DELTA) == before


def test_never_above_renyi() -> None:
    rng = np.random.default_rng(0)
    for _ in range(6):
        pool = [
            BoundedRangeEvent(rng.uniform(0.01, 1)),
            PureDpEvent(rng.uniform(0.01, 1)),
            BIT,
            GaussianEvent(rng.uniform(1, 20)),
        ]
        event = ComposedEvent(tuple(pool[i] for i in rng.integers(0, 4, size=8)))
        made, renyi = ExactAccountant().compose(event), RdpAccountant().compose(event)
        for delta in (1e-9, 1e-5, 1e-2):
            assert 0 < made.get_epsilon(delta) <= renyi.get_epsilon(delta)
        for epsilon in (0.0, 0.3, 2.0):
            assert 0 < made.get_delta(epsilon) <= renyi.get_delta(epsilon)


def test_the_profile_falls_and_is_convex_and_both_readings_agree() -> None:
    made = ExactAccountant().compose(ComposedEvent((BoundedRangeEvent(0.3), BIT)), 4)
    epsilons = np.linspace(0, 3, 40)
    deltas = np.array([made.get_delta(float(epsilon)) for epsilon in epsilons])
    assert (np.diff(deltas) < 0).all()
    for epsilon, delta in zip(epsilons[1:].tolist(), deltas[1:].tolist(), strict=True):
        assert made.get_epsilon(delta) == pytest.approx(epsilon, rel=1e-3)


def test_several_readings_compose_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = profile.composition_step
    monkeypatch.setattr(profile, "composition_step", lambda *args, **kw: calls.append(args) or original(*args, **kw))
    made = ExactAccountant().compose(PureDpEvent(0.123), 5)
    first = made.get_epsilon(1e-4)
    made.get_delta(0.2)
    ExactAccountant().compose(PureDpEvent(0.123), 5).get_epsilon(1e-3)
    assert len(calls) == 1
    made.compose(NoOpEvent()).compose(PureDpEvent(0.123))
    assert made.get_epsilon(1e-4) > first
    assert len(calls) == 2
