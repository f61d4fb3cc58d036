"""Sessions as events: who prices their hits, and who their accesses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest

from pate.accounting import (
    Accountant,
    ApproximateEvent,
    AutoAccountant,
    BoundarySessionEvent,
    BoundedRangeEvent,
    ComposedEvent,
    Event,
    ExactAccountant,
    GaussianEvent,
    PldAccountant,
    PureDpAccountant,
    PureDpEvent,
    RdpAccountant,
    RenyiFilter,
    SelfComposedEvent,
    SessionEvent,
    ZCdpAccountant,
    ZCdpFilter,
)
from pate.accounting.filters.privacy_filter import Spent
from pate.accounting.pure_dp import pure_epsilon
from pate.accounting.session_event import by_accesses
from pate.accounting.session_rdp import hit_cost
from pate.accounting.target_charging import not_prior, tight_boundary
from pate.validation import InvalidValue

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
