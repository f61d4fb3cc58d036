"""The accountant of selections and their tests: composition, readings, calibration, and what it leaves to others."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from pate.accounting import (
    Accountant,
    ApproximateEvent,
    AutoAccountant,
    BoundedRangeEvent,
    Event,
    ExactAccountant,
    GaussianEvent,
    JointLawAccountant,
    OneBitEvent,
    RdpAccountant,
    SelectThenTestEvent,
    SelfComposedEvent,
)
from pate.accounting.joint_law.accountant import joint_rdp
from pate.accounting.rdp import count_leaves, rdp_curve
from pate.aggregators import StableTopK
from pate.validation import InvalidValue

SHAPE = {"num_queries": 300, "num_labels": 20, "num_teachers": 200}
DELTA = 1e-6
TEST = ApproximateEvent(OneBitEvent((-9.0, -3.0, 0.0, 3.0), 1), 1e-9)


@pytest.fixture(scope="module")
def event() -> Event:
    table = StableTopK(selection_scale=40.0, test="table", table_order=5.0, table_budget=0.005)
    return table.event_for(**SHAPE)


def test_few_votes_make_it_cheaper(event: Event) -> None:
    joint, rdp, auto = (kind().compose(event) for kind in (JointLawAccountant, RdpAccountant, AutoAccountant))
    assert joint.get_epsilon(DELTA) < 0.9 * rdp.get_epsilon(DELTA)
    assert joint.failure_prob == pytest.approx(300e-9)
    assert auto.get_epsilon(DELTA) == joint.get_epsilon(DELTA)
    assert (auto.winner(DELTA), auto.resolution(DELTA)) == ("joint_law", joint.resolution(DELTA))


def test_other_events_are_added_and_cost_what_they_cost(event: Event) -> None:
    other = GaussianEvent(2.0)
    alone, both = JointLawAccountant().compose(other), JointLawAccountant().compose(event).compose(other)
    assert alone.get_epsilon(DELTA) == RdpAccountant().compose(other).get_epsilon(DELTA)
    assert alone.resolution(DELTA) == 0.0
    separately = JointLawAccountant().compose(event).get_epsilon(DELTA)
    assert separately < both.get_epsilon(DELTA) < separately + alone.get_epsilon(DELTA)
    assert both.resolution(DELTA) > 0


def test_a_copy_is_its_own(event: Event) -> None:
    first = JointLawAccountant().compose(event)
    second = first.copy().compose(event)
    assert first.get_epsilon(DELTA) < second.get_epsilon(DELTA)
    assert JointLawAccountant().get_epsilon(DELTA) == 0.0


def test_delta_goes_with_epsilon(event: Event) -> None:
    spent = JointLawAccountant().compose(event)
    assert spent.get_delta(spent.get_epsilon(DELTA)) == pytest.approx(DELTA, rel=0.1)
    assert spent.get_delta(1e-3) <= RdpAccountant().compose(event).get_delta(1e-3)


@pytest.mark.parametrize("kind", [JointLawAccountant, AutoAccountant])
def test_a_delta_of_little_more_than_failures_is_found(kind: type[Accountant]) -> None:
    release = StableTopK(selection_scale=40.0, test_std=60.0)
    spent = kind().compose(release.event_for(num_queries=100, num_labels=40, num_teachers=300))
    known = RdpAccountant().compose(release.event_for(num_queries=100, num_labels=40, num_teachers=300))
    for epsilon in (4.0, 4.5, 5.0, 5.5, 50.0):
        delta = spent.get_delta(epsilon)
        assert spent.failure_prob <= delta <= known.get_delta(epsilon) < 1.001 * spent.failure_prob
        if delta > spent.failure_prob:
            assert spent.get_epsilon(delta) <= epsilon


def test_calibration_needs_less_noise() -> None:
    loose, tight = (
        StableTopK(selection_scale=30.0, test_std=25.0).calibrated(
            target_epsilon=3.0, target_delta=DELTA, accountant=kind, **SHAPE
        )
        for kind in (ExactAccountant, AutoAccountant)
    )
    assert tight.selection_scale < 0.9 * loose.selection_scale
    epsilon = AutoAccountant().compose(tight.event_for(**SHAPE)).get_epsilon(DELTA)
    assert 0.99 * 3.0 < epsilon <= 3.0


@pytest.mark.parametrize(
    "events",
    [
        (),
        (TEST,),
        (TEST, BoundedRangeEvent(0.1)),
        (GaussianEvent(1.0), TEST),
        (BoundedRangeEvent(0.1), ApproximateEvent(GaussianEvent(1.0), 1e-9)),
    ],
)
def test_other_parts_are_refused(events: tuple[Event, ...]) -> None:
    with pytest.raises(InvalidValue, match="events="):
        SelectThenTestEvent(events, 4)


def test_one_candidate_is_no_selection() -> None:
    with pytest.raises(InvalidValue, match="num_candidates=1"):
        SelectThenTestEvent((BoundedRangeEvent(0.1), TEST), 1)


def test_an_accountant_that_does_not_know_it_adds_its_parts() -> None:
    parts = (BoundedRangeEvent(0.1), TEST)
    one = RdpAccountant().compose(SelfComposedEvent(SelectThenTestEvent(parts, 4), 9)).get_epsilon(DELTA)
    assert one == RdpAccountant().compose(parts[0], 9).compose(parts[1], 9).get_epsilon(DELTA)


@pytest.mark.parametrize(
    ("range_epsilon", "logits"),
    [
        (1e-6, (-20.0, -10.0, 0.0, 10.0)),
        (60.0, (-20.0, -10.0, 0.0, 10.0)),
        (0.1, (-math.inf, -math.inf, 0.0, math.inf)),
    ],
)
@pytest.mark.parametrize("order", [1.0001, 3.0, 1e4])
def test_extreme_parameters_give_a_price(range_epsilon: float, logits: tuple[float, ...], order: float) -> None:
    event = SelectThenTestEvent((BoundedRangeEvent(range_epsilon), ApproximateEvent(OneBitEvent(logits, 1), 1e-9)), 3)
    assert joint_rdp(event, order) >= 0
    epsilon = JointLawAccountant().compose(event, 100).get_epsilon(1e-5)
    assert 0 <= epsilon <= RdpAccountant().compose(event, 100).get_epsilon(1e-5)


@pytest.mark.parametrize("num_teachers", [1, 2, 3])
@pytest.mark.parametrize("scale", [1e-4, 0.01, 1.0])
def test_few_teachers_and_little_noise_give_a_price(num_teachers: int, scale: float) -> None:
    shape = {"num_queries": 100, "num_labels": 4, "num_teachers": num_teachers}
    event = StableTopK(selection_scale=scale, test_std=scale).event_for(**shape)
    joint, parts = (kind().compose(event).get_epsilon(DELTA) for kind in (JointLawAccountant, RdpAccountant))
    assert 0 <= joint <= parts


def test_delta_is_found_far_from_renyis_order() -> None:
    shape = {"num_queries": 600, "num_labels": 10, "num_teachers": 50}
    spent = JointLawAccountant().compose(StableTopK(selection_scale=17.13, test_std=15.46).event_for(**shape))
    assert spent.get_delta(spent.get_epsilon(1e-3)) == pytest.approx(1e-3, rel=0.2)


@pytest.mark.parametrize("lowest", [-1000.0, -709.0])
def test_where_passing_is_no_full_double_it_costs_what_its_parts_do(lowest: float) -> None:
    """The gap rises from 1 to 2 and passing becomes e^50 times as likely: the price of the test alone covers that."""
    logits = tuple(lowest + 50.0 * gap for gap in range(7))
    test = OneBitEvent(logits, 2)
    event = SelectThenTestEvent((BoundedRangeEvent(0.1), ApproximateEvent(test, 1e-9)), 2)
    for order in (2.0, 40.0):
        parts = float(rdp_curve(count_leaves(event), np.array([order]))[0])
        assert joint_rdp(event, order) == parts >= bit_rdp(logits[2], logits[1], order)


def bit_rdp(logit: float, other: float, order: float) -> float:
    """The Renyi divergence of two bits, with many digits."""
    with mpmath.workdps(60):
        chances = [1 / (1 + mpmath.exp(-mpmath.mpf(place))) for place in (logit, other)]
        p, q = ([chance, 1 - chance] for chance in chances)
        return float(mpmath.log(sum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True))) / (order - 1))


@pytest.mark.parametrize("order", [1.5, 8.0, 400.0])
def test_ratios_that_are_a_little_off_change_a_divergence_no_more_than_is_added(order: float) -> None:
    off, ratios = 1e-3, np.exp(np.linspace(-1, 1, 41))

    def divergence(of: Any) -> Any:
        return of ** (1 - order) - 1 + (order - 1) * (of - 1)

    for rounded in (ratios * np.exp(off), ratios * np.exp(-off)):
        found = divergence(rounded)
        assert (divergence(ratios) <= found + np.expm1(order * off) * (found + order)).all()
