"""Families of pairs: what they hold, that boxes contain their members, and the ends of the scale."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import mpmath
import numpy as np
import pytest

from pate.accounting import (
    BoundedRangeEvent,
    GaussianEvent,
    NoisyMaxGaussianEvent,
    NonPrivateEvent,
    NoOpEvent,
    OneBitEvent,
    PureDpEvent,
    ZCdpEvent,
)
from pate.accounting.exact.dominating_pairs import Box, ShiftedMaximum, Span, dominating_pairs, probabilities
from pate.validation import InvalidValue


def single_pairs(box: Box) -> Iterator[Box]:
    if not box.halves:
        yield box
    for half in box.halves:
        yield from single_pairs(half)


@pytest.mark.parametrize("up", [1e-300, 1e-12, 0.3, 40.0, 800.0])
@pytest.mark.parametrize("down", [-1e-300, -1e-9, -0.2, -50.0, -900.0])
def test_probabilities_are_those_of_both_ratios_to_their_last_digits(up: float, down: float) -> None:
    with mpmath.workdps(700):
        expected = mpmath.expm1(down) / mpmath.expm1(mpmath.mpf(down) - up)
        other = mpmath.exp(down) * mpmath.expm1(-mpmath.mpf(up)) / mpmath.expm1(mpmath.mpf(down) - up)
        first, second = probabilities(up, down)
        assert abs(first - expected) <= 1e-14 * expected
        assert abs(second - other) <= 1e-14 * other + 1e-320


def test_a_bit_gives_both_roles_at_the_full_reach_and_drops_what_others_dominate() -> None:
    chances = [0.05, 0.2, 0.45, 0.8]
    box = dominating_pairs(OneBitEvent(tuple(math.log(p / (1 - p)) for p in chances), reach=2))
    assert isinstance(box, Box)
    found = {(round(pair.up, 9), round(pair.down, 9)) for pair in single_pairs(box)}
    roles = set()
    for p, q in ((0.05, 0.45), (0.2, 0.8), (0.45, 0.8)):
        one, zero = math.log(q / p), math.log((1 - q) / (1 - p))
        roles |= {(round(one, 9), round(zero, 9)), (round(-zero, 9), round(-one, 9))}
    dominated = {a for a in roles for b in roles if a != b and a[0] <= b[0] and a[1] >= b[1]}
    assert found == roles - dominated
    assert dominated


def test_losses_of_bits_are_never_below_those_in_high_precision() -> None:
    rng = np.random.default_rng(0)
    for low, step in zip(rng.uniform(-40, 40, 200).tolist(), (10 ** rng.uniform(-9, 1, 200)).tolist(), strict=True):
        logits = (low, low + step)
        box = dominating_pairs(OneBitEvent(logits, reach=1))
        assert isinstance(box, Box)
        with mpmath.workdps(60):
            one, other = (mpmath.log1p(mpmath.exp(-mpmath.mpf(x))) for x in logits)
            gain = one - other
            loss = mpmath.mpf(logits[1]) - mpmath.mpf(logits[0]) - gain
            losses = [(pair.up, pair.down) for pair in single_pairs(box)]
            assert any(up >= gain and -down >= loss and up <= gain * (1 + 1e-5) + 2e-13 for up, down in losses)
            assert any(up >= loss and -down >= gain and up <= loss * (1 + 1e-5) + 2e-13 for up, down in losses)


def test_every_box_contains_its_halves() -> None:
    root = dominating_pairs(OneBitEvent(tuple(np.linspace(-8, 8, 101).tolist()), reach=3))
    assert isinstance(root, Box)
    pending = [root]
    while pending:
        box = pending.pop()
        for half in box.halves:
            assert box.up >= half.up
            assert box.down <= half.down
            pending.append(half)


def test_families_of_the_other_events() -> None:
    pair = dominating_pairs(PureDpEvent(0.4))
    assert isinstance(pair, Box)
    assert (pair.up, pair.down, pair.halves) == (0.4, -0.4, ())
    assert pair.variance == pytest.approx(0.16)
    assert dominating_pairs(BoundedRangeEvent(0.3)) == Span(0.3)
    assert dominating_pairs(GaussianEvent(4.0)) == ShiftedMaximum(1, 0.25)
    assert dominating_pairs(NoisyMaxGaussianEvent(4.0, 7)) == ShiftedMaximum(6, 0.5)


@pytest.mark.parametrize(
    "event",
    [
        NoOpEvent(),
        PureDpEvent(0.0),
        BoundedRangeEvent(0.0),
        NoisyMaxGaussianEvent(2.0, 1),
        OneBitEvent((3.0,), reach=5),
        OneBitEvent((1.0, 1.0), reach=1),
    ],
    ids=repr,
)
def test_where_nothing_can_happen_there_is_no_family(event: NoOpEvent) -> None:
    assert dominating_pairs(event) is None


@pytest.mark.parametrize(
    "logits", [(-math.inf, 0.0, math.inf), (-1e308, 1e308), (-math.inf, math.inf), (5e-324, 1e-323)]
)
def test_limits_make_no_warning(logits: tuple[float, ...]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        box = dominating_pairs(OneBitEvent(logits, reach=1))
    assert isinstance(box, Box)
    assert box.up > 0 > box.down


@pytest.mark.parametrize("event", [ZCdpEvent(0.1), NonPrivateEvent()], ids=repr)
def test_an_event_without_a_family_is_refused(event: ZCdpEvent) -> None:
    with pytest.raises(
        InvalidValue, match=f"event={type(event).__name__}: expected an event that the exact accountant"
    ):
        dominating_pairs(event)
