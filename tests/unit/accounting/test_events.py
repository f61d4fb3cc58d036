"""Events: edge cases of their parameters, their parts, their failure probabilities; sessions, and adjacencies."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest

from pate.accounting import (
    Accountant,
    Adjacency,
    ApproximateEvent,
    AutoAccountant,
    BoundarySessionEvent,
    BoundedRangeEvent,
    ComposedEvent,
    Event,
    ExactAccountant,
    GaussianEvent,
    NoisyMaxGaussianEvent,
    NonPrivateEvent,
    NoOpEvent,
    OneBitEvent,
    PldAccountant,
    PureDpAccountant,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
    SessionEvent,
    ZCdpAccountant,
    ZCdpEvent,
)
from pate.accounting.events import by_accesses, failure_probability, leaves
from pate.accounting.filters import RenyiFilter, Spent, ZCdpFilter
from pate.accounting.renyi import hit_cost, pure_epsilon
from pate.accounting.target_charging import not_prior, tight_boundary
from pate.validation import InvalidValue

GAUSSIAN = GaussianEvent(2.0)


@pytest.mark.parametrize(
    "make",
    [GaussianEvent, ZCdpEvent, PureDpEvent, BoundedRangeEvent, lambda value: NoisyMaxGaussianEvent(value, 3)],
    ids=["gaussian", "zcdp", "pure", "range", "noisy max"],
)
@pytest.mark.parametrize("value", [-1.0, -1e-300, math.nan])
def test_negative_and_nan_parameters_are_refused(make: Any, value: float) -> None:
    with pytest.raises(InvalidValue, match=rf"(noise_multiplier|rho|epsilon)={value}: expected a number >= 0"):
        make(value)


@pytest.mark.parametrize("make", [ZCdpEvent, PureDpEvent, BoundedRangeEvent])
def test_zero_and_infinite_prices_are_values(make: Any) -> None:
    assert make(0.0) == make(0)
    assert make(math.inf) == make(math.inf)


def test_zero_noise_is_a_value_and_infinite_noise_is_not() -> None:
    assert GaussianEvent(0.0).noise_multiplier == 0
    with pytest.raises(InvalidValue, match="noise_multiplier=inf: expected a number >= 0"):
        GaussianEvent(math.inf)


@pytest.mark.parametrize("candidates", [0, -2, 2.5])
def test_noisy_max_needs_candidates(candidates: Any) -> None:
    with pytest.raises(InvalidValue, match=rf"num_candidates={candidates}: expected a whole number >= 1"):
        NoisyMaxGaussianEvent(1.0, candidates)


def test_one_bit_takes_rising_log_odds_with_infinities() -> None:
    assert OneBitEvent((-math.inf, -math.inf, 0.0, math.inf), reach=2).reach == 2
    for logits, found in (
        ((0.0, 1.0, 0.5), "1.0, 0.5"),
        ((math.nan,), r"\(nan,\)"),
        ((0.0, math.nan, 1.0), "0.0, nan"),
    ):
        with pytest.raises(InvalidValue, match=rf"^logits={found}: expected numbers that never decrease$"):
            OneBitEvent(logits, reach=1)
    with pytest.raises(InvalidValue, match=r"logits=\(\): expected at least one number"):
        OneBitEvent((), reach=1)
    with pytest.raises(InvalidValue, match=r"reach=0: expected a whole number >= 1"):
        OneBitEvent((0.0,), reach=0)


@pytest.mark.parametrize("failure_prob", [-0.1, 1.0, 1.5, math.nan])
def test_failure_probability_lies_in_0_1(failure_prob: float) -> None:
    with pytest.raises(InvalidValue, match=rf"failure_prob={failure_prob}: expected a number in \[0, 1\)"):
        ApproximateEvent(GAUSSIAN, failure_prob)


@pytest.mark.parametrize("count", [-1, 1.5, True])
def test_self_composition_needs_a_count(count: Any) -> None:
    with pytest.raises(InvalidValue, match=rf"count={count}: expected a whole number >= 0"):
        SelfComposedEvent(GAUSSIAN, count)


def test_parts_must_be_events() -> None:
    with pytest.raises(InvalidValue, match=r"event=float: expected an event of pate\.accounting"):
        SelfComposedEvent(3.0, 2)
    with pytest.raises(InvalidValue, match=r"event=str: expected an event of pate\.accounting"):
        ApproximateEvent("free", 0.1)
    with pytest.raises(InvalidValue, match=r"events=int: expected an event of pate\.accounting"):
        ComposedEvent((GAUSSIAN, 5))


def test_events_are_frozen_values_that_can_be_keys() -> None:
    event = ComposedEvent((GAUSSIAN, SelfComposedEvent(OneBitEvent((0.0, 1.0), 1), 3)))
    assert {event: 1}[ComposedEvent((GaussianEvent(2.0), SelfComposedEvent(OneBitEvent((0.0, 1.0), 1), 3)))] == 1
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field"):
        GAUSSIAN.noise_multiplier = 3.0


def test_leaves_multiplies_counts_down_the_tree() -> None:
    bit = OneBitEvent((0.0, 1.0), 1)
    tree = ComposedEvent((GAUSSIAN, SelfComposedEvent(ComposedEvent((ApproximateEvent(bit, 0.1), GAUSSIAN)), 5)))
    counted: dict[Event, int] = {}
    for leaf, times in leaves(tree, count=2):
        counted[leaf] = counted.get(leaf, 0) + times
    assert counted == {GAUSSIAN: 2 + 10, bit: 10}
    assert list(leaves(ComposedEvent(()))) == []


def test_leaves_takes_trees_deeper_than_the_stack() -> None:
    event: Event = GAUSSIAN
    for _ in range(5000):
        event = ComposedEvent((event,))
    assert list(leaves(event)) == [(GAUSSIAN, 1)]


def test_leaves_refuses_what_is_no_event() -> None:
    with pytest.raises(InvalidValue, match=r"event=dict: expected an event of pate\.accounting"):
        list(leaves({}))


def test_failure_probabilities_add_up() -> None:
    inner = ApproximateEvent(GAUSSIAN, 1e-3)
    tree = ComposedEvent((SelfComposedEvent(ApproximateEvent(inner, 1e-4), 10), inner, GAUSSIAN, NoOpEvent()))
    assert failure_probability(tree) == pytest.approx(10 * 1.1e-3 + 1e-3, rel=1e-12)
    assert failure_probability(GAUSSIAN) == 0
    assert failure_probability(SelfComposedEvent(inner, 0)) == 0


def test_events_of_dp_accounting() -> None:
    dp_accounting = pytest.importorskip("dp_accounting")
    tree = ComposedEvent((GAUSSIAN, SelfComposedEvent(GAUSSIAN, 3), NoOpEvent(), NonPrivateEvent()))
    assert tree.to_dp_event() == dp_accounting.ComposedDpEvent(
        [
            dp_accounting.GaussianDpEvent(2.0),
            dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(2.0), 3),
            dp_accounting.NoOpDpEvent(),
            dp_accounting.NonPrivateDpEvent(),
        ]
    )
    assert ApproximateEvent(GAUSSIAN, 0.0).to_dp_event() == dp_accounting.GaussianDpEvent(2.0)


@pytest.mark.parametrize("event", [ApproximateEvent(GAUSSIAN, 0.1), OneBitEvent((0.0,), 1), BoundedRangeEvent(0.1)])
def test_events_that_dp_accounting_has_not(event: Event) -> None:
    with pytest.raises(InvalidValue, match=rf"event={type(event).__name__}: expected an event that dp-accounting has"):
        event.to_dp_event()


def test_an_array_of_gaussians_is_one_gaussian() -> None:
    assert GaussianEvent.composed(np.array([3.0, 4.0])).noise_multiplier == pytest.approx(12 / 5, rel=1e-12)
    assert GaussianEvent.composed([2.0] * 100).noise_multiplier == pytest.approx(0.2, rel=1e-12)
    multipliers = np.random.default_rng(0).uniform(20.0, 200.0, size=100_000)
    exact = math.fsum((1 / multipliers) ** 2) ** -0.5
    assert exact * (1 - 1e-12) <= GaussianEvent.composed(multipliers).noise_multiplier <= exact


def test_an_array_of_gaussians_at_the_ends() -> None:
    assert GaussianEvent.composed([1.0, 0.0, 5.0]) == GaussianEvent(0.0)
    assert GaussianEvent.composed([1e-200, 1e200]).noise_multiplier == pytest.approx(1e-200, rel=1e-12)
    assert GaussianEvent.composed([1e300] * 4).noise_multiplier == pytest.approx(5e299, rel=1e-12)


@pytest.mark.parametrize(
    ("noise_multipliers", "found"),
    [
        ([], r"\.shape=\(0,\)"),
        ([[1.0]], r"\.shape=\(1, 1\)"),
        (3.0, r"\.shape=\(\)"),
        ([1.0, -1.0], r"=-1\.0"),
        ([math.nan], "=nan"),
        ([math.inf], "=inf"),
    ],
)
def test_an_array_of_gaussians_needs_finite_numbers(noise_multipliers: Any, found: str) -> None:
    with pytest.raises(InvalidValue, match=rf"^noise_multipliers{found}: expected one or more finite numbers >= 0$"):
        GaussianEvent.composed(noise_multipliers)


def test_names_and_sensitivities() -> None:
    assert [str(member) for member in Adjacency] == ["replace_one", "add_remove"]
    assert Adjacency.parse("replace_one") is Adjacency.REPLACE_ONE
    assert Adjacency.parse(Adjacency.ADD_REMOVE) is Adjacency.ADD_REMOVE
    assert (Adjacency.REPLACE_ONE.gap_sensitivity, Adjacency.REPLACE_ONE.gap_range) == (2, 4)
    assert (Adjacency.ADD_REMOVE.gap_sensitivity, Adjacency.ADD_REMOVE.gap_range) == (1, 2)


def test_unknown_names_are_refused_with_the_nearest() -> None:
    match = r"adjacency=add-remove: expected one of replace_one, add_remove \(did you mean add_remove"
    with pytest.raises(InvalidValue, match=match):
        Adjacency.parse("add-remove")


DELTA = 1e-6
TARGET = tight_boundary(0.05)
ACCESSES = ApproximateEvent(SelfComposedEvent(PureDpEvent(TARGET.epsilon), 101), 3.3e-7)
SESSION = BoundarySessionEvent(TARGET.epsilon, TARGET.hit_prob, 10, 2000, ACCESSES, 0.05, True)


def epsilon(accountant: type[Accountant], *events: Event, delta: float = DELTA) -> float:
    made = accountant()
    for event in events:
        made.compose(event)
    return made.get_epsilon(delta)


def test_accesses_take_the_place_of_sessions_and_of_nothing_else() -> None:
    plain = ComposedEvent((GaussianEvent(2.0), SelfComposedEvent(ApproximateEvent(PureDpEvent(0.1), 1e-9), 3)))
    assert by_accesses(plain) is plain
    whole = ComposedEvent((plain, SelfComposedEvent(ApproximateEvent(SESSION, 1e-9), 2)))
    assert by_accesses(whole) == ComposedEvent((plain, SelfComposedEvent(ApproximateEvent(ACCESSES, 1e-9), 2)))


@pytest.mark.parametrize("accountant", [ZCdpAccountant, PureDpAccountant])
def test_without_a_renyi_curve_accesses_are_counted(accountant: type[Accountant]) -> None:
    assert epsilon(accountant, SESSION) == epsilon(accountant, ACCESSES)


@pytest.mark.parametrize("accountant", [ExactAccountant, PldAccountant, AutoAccountant])
def test_others_return_the_smaller_price(accountant: type[Accountant]) -> None:
    assert epsilon(accountant, SESSION) == pytest.approx(epsilon(RdpAccountant, SESSION), rel=1e-9)
    beside = BoundedRangeEvent(0.3)
    both = epsilon(accountant, beside, SESSION, beside)
    assert both <= epsilon(RdpAccountant, beside, SESSION, beside) * (1 + 1e-9)
    assert both < epsilon(ExactAccountant, beside, ACCESSES, beside)


@pytest.mark.parametrize("accountant", [ExactAccountant, PldAccountant])
def test_accesses_win_where_they_are_cheaper(accountant: type[Accountant]) -> None:
    cheap = SelfComposedEvent(PureDpEvent(TARGET.epsilon), 3)
    session = SessionEvent(TARGET.epsilon, TARGET.hit_prob, 10, 3, cheap)
    assert epsilon(accountant, session) == epsilon(accountant, cheap) < epsilon(RdpAccountant, session)
    made = accountant().compose(session)
    assert made.get_delta(0.1) == accountant().compose(cheap).get_delta(0.1)


@pytest.mark.parametrize("accountant", [ExactAccountant, PldAccountant])
def test_an_overrun_above_delta_leaves_the_price_by_hits(accountant: type[Accountant]) -> None:
    assert epsilon(accountant, SESSION, delta=1e-7) == epsilon(RdpAccountant, SESSION, delta=1e-7)
    delta = accountant().compose(SESSION).get_delta(3.0)
    assert delta == RdpAccountant().compose(SESSION).get_delta(3.0) < 3.3e-7
    with pytest.raises(InvalidValue, match="failure_prob"):
        epsilon(accountant, ACCESSES, delta=1e-7)


def test_filters_count_hits_by_renyi_and_accesses_by_rho() -> None:
    assert RenyiFilter(1.8, DELTA).affords(Spent(), SESSION) == 1
    assert RenyiFilter(1.8, DELTA).affords(Spent(), ACCESSES) == 0
    by_rho = ZCdpFilter(4.0, DELTA)
    assert by_rho.fixed_by(SESSION) == by_rho.fixed_by(ACCESSES)
    assert by_rho.price(SESSION) == by_rho.price(ACCESSES)


def test_a_session_is_as_pure_as_all_its_calls() -> None:
    assert pure_epsilon(SESSION) == pytest.approx(2000 * TARGET.epsilon)
    assert pure_epsilon(SessionEvent(0.1, 0.4, 1, math.inf, ACCESSES)) == math.inf
    assert pure_epsilon(SessionEvent(0.1, 0.4, 1, 0, ACCESSES)) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0: expected a number > 0"),
        ({"hit_prob": 1.0}, "hit_prob=1.0: expected a number in"),
        ({"target_hits": 0}, "target_hits=0: expected a whole number >= 1"),
        ({"num_calls": 1.5}, "num_calls=1.5: expected a whole number >= 0 or infinity"),
        ({"accesses": 3}, "accesses=int: expected an event of pate.accounting"),
        ({"call_epsilon": -1.0}, "call_epsilon=-1.0: expected a number > 0"),
        ({"bounded_range": 1}, "bounded_range=int: expected True or False"),
    ],
)
def test_what_is_no_session_is_refused(changes: dict[str, Any], message: str) -> None:
    values = {name: getattr(SESSION, name) for name in SESSION.__dataclass_fields__}
    with pytest.raises(InvalidValue, match=message):
        BoundarySessionEvent(**(values | changes))


@pytest.mark.parametrize(
    ("order", "call_epsilon"),
    [(323_960.43135932373, 3.113915523281301e-10), (20_000.0, 5e-9), (400.0, 1e-7), (3.0, 0.02)],
)
def test_the_cost_of_a_hit_is_rounded_up_at_every_order(order: float, call_epsilon: float) -> None:
    event = replace(SESSION, epsilon=3 * call_epsilon, call_epsilon=call_epsilon, bounded_range=False)
    with mpmath.workdps(60):
        a, b = mpmath.mpf(order), mpmath.exp(-mpmath.mpf(call_epsilon)) / 2

        def weighed(one: Any, other: Any) -> Any:
            return one**a * other ** (1 - a)

        likelier, likeliest, half = 1 + b, mpmath.mpf("1.5"), mpmath.mpf("0.5")
        rises = 2 - (weighed(likelier, likeliest) - weighed(1 - b, half)) / weighed(b, half)
        falls = 2 - (weighed(likeliest, likelier) - weighed(half, 1 - b)) / weighed(half, b)
        exact = max(rises, falls)
        found = hit_cost(event, np.array([order]))[0]
        assert exact <= found <= exact * 1.2 + order * 1e-13


def test_auto_asks_for_accesses_beside_other_events() -> None:
    """A session of many hits in few calls, whose accesses compose optimally with the rest."""
    target = not_prior(0.3)
    accesses = SelfComposedEvent(PureDpEvent(target.epsilon), 10)
    event = ComposedEvent((SessionEvent(target.epsilon, target.hit_prob, 10, 10, accesses), PureDpEvent(0.5)))
    assert epsilon(AutoAccountant, event) == epsilon(ExactAccountant, event) < epsilon(RdpAccountant, event)
