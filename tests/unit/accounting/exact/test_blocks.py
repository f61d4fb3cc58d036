"""Many steps in blocks: above the best play, near it, and what would be below it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from pate.accounting import BoundedRangeEvent, ExactAccountant, OneBitEvent
from pate.accounting.exact import blocks as module
from pate.accounting.exact.block import Block
from pate.accounting.exact.blocks import composed_in_blocks, has_rare_losses, work
from pate.accounting.exact.dominating_pairs import Box, DominatingPairs, ShiftedMaximum, Span, dominating_pairs
from pate.accounting.exact.gaussian import gaussian_delta
from pate.accounting.exact.loss_grid import LossGrid, MirroredGrid, rounded_spacing
from pate.accounting.exact.profile import Profile, composed
from tests.unit.accounting.exact.test_accountant import LOGITS, best_play, bits, spans

PAIR = Box.pair(0.05, -0.05)
BIT = OneBitEvent(tuple(np.linspace(-3, 3, 60).tolist()), reach=1)


def bit() -> DominatingPairs:
    made = dominating_pairs(BIT)
    assert made is not None
    return made


def profile_of(block: Block) -> Profile:
    deltas = block.profile()[len(block.masses) // 2 :]
    return Profile(LossGrid(first=0, size=len(deltas), spacing=block.spacing), deltas)


def binomial_delta(epsilon: float, count: int, target: float) -> float:
    truth = 1 / (1 + math.exp(-epsilon))
    return math.fsum(
        math.exp(math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1))
        * truth**k
        * (1 - truth) ** (count - k)
        * max(0.0, -math.expm1(target - (2 * k - count) * epsilon))
        for k in range(count + 1)
    )


def test_a_single_pair_many_times_is_the_sum_over_binomials() -> None:
    made = profile_of(composed_in_blocks(((PAIR, 900),), spacing=rounded_spacing(0.0125), reach=12.0, negligible=1e-20))
    for target in (0.0, 2.0, 4.0, 6.5):
        truth = binomial_delta(0.05, 900, target)
        assert truth * (1 - 1e-11) <= made.delta(target) <= truth * 1.02 + 1e-13


def test_a_tenth_less_noise_falls_below_the_sum_over_binomials() -> None:
    cheaper = Box.pair(0.045, -0.045)
    made = profile_of(composed_in_blocks(((cheaper, 900),), spacing=0.01125, reach=12.0, negligible=1e-20))
    assert made.delta(4.0) < binomial_delta(0.05, 900, 4.0) * 0.8


@pytest.mark.slow
@pytest.mark.parametrize("family", ["span", "bit", "both"])
def test_blocks_are_above_the_play_step_by_step_and_near_it(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"span": ((Span(0.1), 1),), "bit": ((bit(), 1),), "both": ((Span(0.1), 1), (bit(), 1))}[family]
    steps = one * 150
    monkeypatch.setattr(module, "CAPACITY", 10**9)
    alone = profile_of(composed_in_blocks(steps, spacing=0.005, reach=6.0, negligible=1e-18))
    monkeypatch.setattr(module, "CAPACITY", 4 * 40)
    several = profile_of(composed_in_blocks(steps, spacing=0.005, reach=6.0, negligible=1e-18))
    for delta in (1e-3, 1e-6, 1e-9):
        assert alone.epsilon(delta) * (1 - 2e-4) <= several.epsilon(delta) <= alone.epsilon(delta) * 1.03


def test_blocks_of_two_steps_are_above_exhaustive_play(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CAPACITY", 8)
    chances = [Fraction(n, 40) for n in (1, 7, 19, 33, 37)]
    a_bit, a_range = dominating_pairs(OneBitEvent(LOGITS, 1)), dominating_pairs(BoundedRangeEvent(math.log(1.5)))
    assert a_bit is not None and a_range is not None
    steps = ((a_bit, 1), (a_range, 1), (a_bit, 1))
    made = profile_of(composed_in_blocks(steps, spacing=rounded_spacing(0.01), reach=8.0, negligible=1e-15))
    families = [bits(chances, 1), spans(Fraction(3, 2), 12), bits(chances, 1)]
    for y in (Fraction(1), Fraction(5, 4), Fraction(2), Fraction(7, 2)):
        assert made.delta(math.log(y)) >= float(best_play(families, y)) * (1 - 1e-12)
    cheaper = dominating_pairs(OneBitEvent(tuple(0.8 * logit for logit in LOGITS), 1))
    assert cheaper is not None
    steps = ((cheaper, 1), (a_range, 1), (cheaper, 1))
    low = profile_of(composed_in_blocks(steps, spacing=rounded_spacing(0.01), reach=8.0, negligible=1e-15))
    assert low.delta(math.log(2)) < float(best_play(families, Fraction(2)))


def test_gaussians_in_blocks_are_their_closed_form() -> None:
    steps = ((ShiftedMaximum(1, 0.05), 800),)
    made = profile_of(composed_in_blocks(steps, spacing=rounded_spacing(0.004), reach=14.0, negligible=1e-20))
    for epsilon in (0.0, 1.0, 4.0, 8.0):
        truth = gaussian_delta(0.05 * math.sqrt(800), epsilon=epsilon)
        assert truth * (1 - 1e-9) <= made.delta(epsilon) <= truth * 1.03 + 1e-12


def test_a_block_is_nowhere_below_its_values_nor_their_mirror_image() -> None:
    spacing = 0.07
    losses = np.arange(60) * spacing
    values = np.array([gaussian_delta(0.8, epsilon=x) for x in losses.tolist()])
    values[10] *= 1.001  # no longer convex
    made = Block.above(values, spacing)
    reached = made.profile()
    truth = np.array([gaussian_delta(0.8, epsilon=x) for x in losses.tolist()])
    assert (reached[59:] >= truth).all()
    assert (reached[59:] <= truth * 1.002).all()
    mirrored = -np.expm1(-losses) + np.exp(-losses) * truth
    assert (reached[59::-1] >= mirrored).all()
    assert 1 <= made.total <= 1 + 1e-3


def test_losses_beyond_the_most_are_infinite_or_moved_up() -> None:
    pair = Block(np.array([0.1, 0.2, 0.7]), 0.0, 1.0)
    made = pair.times(pair, most=1)
    assert made.masses == pytest.approx([0.01 + 0.04, 0.18, 0.28])
    assert made.missing == pytest.approx(0.49)
    assert made.total >= 1


def test_a_mirrored_grid_pads_with_the_mirror_image() -> None:
    grid = MirroredGrid(first=0, size=40, spacing=0.25)
    values = np.array([gaussian_delta(1.3, epsilon=x) for x in grid.points.tolist()])
    padded = grid.padded(values, 50)
    assert len(padded) == 140
    for place in (1, 7, 39):
        x = place * 0.25
        assert padded[50 - place] == pytest.approx(-math.expm1(-x) + math.exp(-x) * gaussian_delta(1.3, epsilon=x))
    assert (np.diff(padded) <= 0).all()


def test_long_runs_are_blocks_and_rare_losses_are_not() -> None:
    assert has_rare_losses(((Box.pair(9.0, -1e-9), 1),))
    assert not has_rare_losses(((bit(), 1), (Span(0.1), 1), (PAIR, 1)))
    steps = ((Span(0.1), 1), (bit(), 1)) * 600
    assert work(steps) < 2 * module.CAPACITY < 4 * 1200
    assert composed(((PAIR, 24_000),), reach=9.0, smallest_delta=1e-12).grid.first == 0


def test_without_blocks_every_step_counts_and_nothing_is_given_away() -> None:
    event = BoundedRangeEvent(0.05)
    in_blocks, alone = (ExactAccountant(in_blocks=value).compose(event, 400) for value in (True, False))
    assert alone.get_epsilon(1e-6) < in_blocks.get_epsilon(1e-6) < 1.01 * alone.get_epsilon(1e-6)
