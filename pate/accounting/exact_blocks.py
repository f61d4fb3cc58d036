"""Composition of many steps (releases): one by one, or in blocks whose privacy losses are summed.

`pate.accounting.exact` explains steps. Up to some 180 steps are composed one by one, from the last to the first. More
steps are grouped into blocks of consecutive steps, unless one of them has a rare and enormous loss. The largest delta
that an adversary can reach within a block is a privacy profile f(epsilon). Every such profile is the profile of some
pair of distributions. This pair dominates the block in every adaptive composition, whatever comes before and after
(Zhu, Dong & Wang 2022). So the distributions of the losses of all blocks are convolved.

The profile of a block is computed at the points x_i = i h from 0 to n h, and its mirror image left of 0. A pair whose
profile is linear in e^x between the points has its losses at the points. With f_i = f(x_i) the probability of the
loss x_i is

    P(x_i) = (f_(i-1) - f_i) / (1 - e^-h) - (f_i - f_(i+1)) / (e^h - 1),

and the mass on an infinite loss is the last f (docs/proofs/exact_composition.md).
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, Self

import numpy as np

from pate.accounting.convex import convex_minorant
from pate.accounting.discretized_loss import discretized_loss
from pate.accounting.exact_grid import CompositionStep, LossGrid, Profile, rounded_spacing
from pate.accounting.exact_pairs import Box, DominatingPairs, FixedPair, Span, SteppedPairs
from pate.accounting.exact_steps import composition_step, fixed_pair_step
from pate.accounting.noisy_maximum import NoisyMaximum, noisy_maximum_profile
from pate.accounting.winner import WinnerPairs
from pate.array_types import FloatArray

WORK_OF_FULL_BLOCK = 720
"""The size of a block, in quarters of an ordinary step.

Blocks of this size enlarge the bound little. The number has many divisors, so that repeated releases give equal blocks.
"""
# The time of an ordinary step, and of the step of a winner, in the units of `WORK_OF_FULL_BLOCK`. An ordinary step
# takes some milliseconds.
_WORK = 4
_WORK_OF_WINNER = 10
# Steps are composed one by one where one of them has a loss of more than so many of its standard deviations.
_RARE_LOSS = 30.0
# The relative rounding error of a hull between its corners, and of the sums of a profile.
_BLOCK_ROUNDING = 1e-11
# The largest number of points where losses are convolved, which then takes a second at most.
_LARGEST_CONVOLUTION = 6000
# The probability that the loss of one noisy maximum lies beyond its grid.
_MAXIMUM_TAIL_PROB = 1e-15
# This is added to the profile of a noisy maximum: more than rounding takes away.
_MAXIMUM_ROUNDING = 1e-13
# The share of the variance of all losses that interpolation between the points of a grid may add.
_WIDENING = 3e-3
# The share that the wider spacing between blocks may add.
_BLOCK_WIDENING = 3e-4
# The grid of a block reaches so many standard deviations of its loss.
_BLOCK_DEVIATIONS = 9.2
# Minus the logarithm of the mass that may lie beyond the largest loss of a block with a rare loss.
_MINUS_LOG_TAIL_PROB = 42.0
# A grid of steps that are composed one by one has at least so many points from 0 to its largest epsilon.
_POINTS_PER_REACH = 2000
# Such a grid has at most about so many points from 0 to its largest epsilon, where all losses are small beside it.
_LARGEST_NUM_POINTS = 200_000
# Such a grid begins left of 0, at this share of its largest epsilon or farther off.
_LEFT_SHARE = 0.25
# With at most so many steps, each of which may change delta much, it begins as far left of 0 as it ends right.
_FEW_STEPS = 10
# The error that all steps together may add for speed, as a share of the smallest delta.
_NEGLIGIBLE = 1e-3


class RepeatedStep(NamedTuple):
    """One release, described by the pairs that dominate it, with the number of times that it is repeated in a row."""

    pairs: DominatingPairs
    num_times: int


Steps = tuple[RepeatedStep, ...]
"""The steps of a composition, in their order."""
Run = tuple[SteppedPairs, ...]
"""The consecutive steps of one block; a repeated step is listed several times."""


@lru_cache(maxsize=64)  # accountants, copies and plans of a command ask for the same profiles
def compose_steps(
    repeated_steps: Steps,
    *,
    largest_epsilon: float,
    smallest_delta: float,
    in_blocks: bool = True,
    any_event_order: bool = False,
) -> Profile:
    """Returns the privacy profile of steps (releases) in a given order, or in any order; the results are cached.

    Args:
        repeated_steps: the steps, in the order of their releases.
        largest_epsilon: the largest epsilon of the profile, in (0, 500).
        smallest_delta: the smallest delta that is of interest. For speed the profile may be too large by a thousandth
            of it, besides relative errors.
        in_blocks: False composes all steps one by one, whatever their number, unless `any_event_order` is True.
        any_event_order: True makes each step a separate block, so that the bound holds for every order.
    """
    num_steps = sum(num_times for _, num_times in repeated_steps)
    negligible_delta = _NEGLIGIBLE * smallest_delta / num_steps
    variance = math.fsum(
        num_times * step_pairs.variance for step_pairs, num_times in repeated_steps
    )
    # The chord between two points widens a loss by a variance of at most h^2 / 4.
    widest_spacing = math.sqrt(4 * _WIDENING * variance / num_steps)
    if any_event_order or (in_blocks and not are_composed_one_by_one(repeated_steps)):
        block = compose_in_blocks(
            repeated_steps,
            spacing=_aligned(widest_spacing, repeated_steps),
            largest_finite_loss=largest_epsilon,
            negligible_delta=negligible_delta,
            any_event_order=any_event_order,
        )
        deltas = block.profile()[len(block.loss_masses) // 2 :]
        grid = LossGrid(first_index=0, num_points=len(deltas), spacing=block.spacing)
        return Profile(grid=grid, deltas=np.minimum(deltas, 1.0))
    grid = _grid_of_steps(
        repeated_steps, widest_spacing=widest_spacing, largest_epsilon=largest_epsilon
    )
    return _compose_one_by_one(repeated_steps, grid, negligible_delta=negligible_delta)


def _grid_of_steps(
    repeated_steps: Steps, *, widest_spacing: float, largest_epsilon: float
) -> LossGrid:
    """Returns the grid of epsilons on which steps (releases) are composed one by one.

    Args:
        repeated_steps: the steps, in the order of their releases.
        widest_spacing: the widest spacing at which interpolation adds little to the variance of the losses. The grid
            has a wider one only where it would have too many points otherwise.
        largest_epsilon: the largest epsilon of the profile.
    """
    num_steps = sum(num_times for _, num_times in repeated_steps)
    has_fixed_pair = any(isinstance(step_pairs, FixedPair) for step_pairs, _ in repeated_steps)
    largest_num_points = _LARGEST_CONVOLUTION if has_fixed_pair else _LARGEST_NUM_POINTS
    fine_spacing = min(largest_epsilon / _POINTS_PER_REACH, widest_spacing)
    spacing = _aligned(max(fine_spacing, largest_epsilon / largest_num_points), repeated_steps)
    share_left_of_zero = min(max(_LEFT_SHARE, _FEW_STEPS / num_steps), 1.0)
    first_index = -math.ceil(share_left_of_zero * largest_epsilon / spacing) - 1
    last_index = math.ceil(largest_epsilon / spacing) + 2
    return LossGrid(
        first_index=first_index, num_points=last_index + 1 - first_index, spacing=spacing
    )


def _compose_one_by_one(
    repeated_steps: Steps, grid: LossGrid, *, negligible_delta: float
) -> Profile:
    """Returns the privacy profile of steps (releases), which are composed from the last to the first.

    Args:
        repeated_steps: the steps, in the order of their releases.
        grid: the grid of the epsilons of the profile.
        negligible_delta: the amount by which each step may raise every delta for speed.
    """
    composer_of_pairs: dict[SteppedPairs, CompositionStep] = {}
    # after the last step V(x) = max(0, 1 - e^x)
    later_deltas = -np.expm1(np.minimum(grid.points, 0.0))
    for step_pairs, num_times in reversed(repeated_steps):
        if isinstance(step_pairs, FixedPair):
            fixed_pair_block = _repeated_block(
                step_pairs, num_times=num_times, grid=grid, negligible_delta=negligible_delta
            )
            compose_all_times = fixed_pair_step(
                grid,
                loss_masses=fixed_pair_block.loss_masses,
                infinite_loss_prob=fixed_pair_block.infinite_loss_prob,
            )
            later_deltas = compose_all_times(later_deltas)
            continue
        if step_pairs not in composer_of_pairs:
            composer_of_pairs[step_pairs] = composition_step(
                step_pairs, grid, negligible_delta=negligible_delta
            )
        for _ in range(num_times):
            later_deltas = composer_of_pairs[step_pairs](later_deltas)
    return Profile(grid=grid, deltas=later_deltas)


def _aligned(spacing: float, repeated_steps: Steps) -> float:
    """Returns a spacing near `spacing` that divides the most important privacy loss of the steps (releases).

    A loss that is a multiple of the spacing needs no interpolation. The losses that count are the lengths of bounded
    ranges (`Span`) and the larger loss of each single two-point pair (`Box`), unless they are below `spacing`. The most
    important one is the loss whose steps add the most variance. Where no loss counts, `spacing` is returned, rounded.
    """
    spacing = rounded_spacing(spacing)
    variance_by_privacy_loss = {0.0: 0.0}
    for step_pairs, num_times in repeated_steps:
        is_range_of_losses = isinstance(step_pairs, Box) and step_pairs.dominated_pairs
        loss = 0.0 if is_range_of_losses else largest_loss(step_pairs, loss_if_unbounded=0.0)
        if loss >= spacing:
            variance_by_privacy_loss[loss] = (
                variance_by_privacy_loss.get(loss, 0.0) + num_times * loss * loss
            )
    loss = max(variance_by_privacy_loss, key=variance_by_privacy_loss.__getitem__)
    if loss == 0:
        return spacing
    return rounded_spacing(loss / (2 * math.ceil(loss / (2 * spacing))))


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Block:
    """The loss distribution of a pair that dominates a block of consecutive releases (steps).

    The losses are multiples of a spacing.

    Attributes:
        loss_masses: the probabilities of -n..n times the spacing, `[2 n + 1]`; they may sum to a little more than 1.
        infinite_loss_prob: the probability of an infinite loss.
        spacing: the distance between two losses, > 0.
    """

    loss_masses: FloatArray
    infinite_loss_prob: float
    spacing: float

    @classmethod
    def from_profile(cls, deltas: FloatArray, spacing: float) -> Self:
        """Returns the block of a pair whose privacy profile bounds each profile f that is at most `deltas`.

        Profiles are convex in e^x, so the result need not reach a delta that lies above a chord between two others.
        Neighbors can be exchanged, so at -x the profile is at least the mirror image f(-x) = 1 - e^-x + e^-x f(x).

        Args:
            deltas: upper bounds on f at 0, spacing, 2 * spacing, …, `[num_points]`.
            spacing: the distance between two losses.
        """
        losses = np.arange(len(deltas), dtype=np.float64) * spacing
        delta_hull = convex_minorant(x=np.exp(losses), y=deltas)
        mirrored_deltas = -np.expm1(-losses) + np.exp(-losses) * delta_hull
        two_sided_deltas = np.concatenate([mirrored_deltas[:0:-1], delta_hull])
        hull_before = np.append(mirrored_deltas[1:2], delta_hull[:-1])
        hull_after = np.append(delta_hull[1:], delta_hull[-1])
        # The formula of the module's docstring, at losses >= 0. The mirror image has e^-x times the mass at -x.
        masses_right = np.maximum(
            (hull_before - delta_hull) / -np.expm1(-spacing)
            - (delta_hull - hull_after) / np.expm1(spacing),
            0.0,
        )
        masses_left = (masses_right[1:] * np.exp(-losses[1:]))[::-1]
        infinite_loss_prob = float(delta_hull[-1])
        block = cls(
            loss_masses=np.concatenate([masses_left, masses_right]),
            infinite_loss_prob=infinite_loss_prob,
            spacing=spacing,
        )
        # Rounding may have made the profile of the block too small, or its total mass less than 1. One factor repairs
        # both.
        shortfall_ratios = np.divide(
            two_sided_deltas,
            block.profile(),
            out=np.ones_like(two_sided_deltas),
            where=two_sided_deltas > 0,
        )
        repair_factor = max(
            1.0,
            float(shortfall_ratios.max()),
            1 / (float(block.loss_masses.sum()) + infinite_loss_prob),
        ) * (1 + _BLOCK_ROUNDING)
        return replace(
            block,
            loss_masses=block.loss_masses * repair_factor,
            infinite_loss_prob=infinite_loss_prob * repair_factor,
        )

    def profile(self) -> FloatArray:
        """Returns the privacy profile: delta at each epsilon i * `spacing`, for i from -n to n, `[2 n + 1]`.

        The relative error of each delta is below 1e-11.
        """
        mass_share: float = -np.expm1(-self.spacing)
        delta_share: float = np.exp(-self.spacing)
        # the mass of all larger losses, for each loss from the largest down
        mass_beyond = [0.0, *np.cumsum(self.loss_masses[:0:-1]).tolist()]

        def next_delta(delta: float, mass: float) -> float:
            return mass_share * mass + delta_share * delta

        deltas = list(accumulate(mass_beyond, next_delta))
        return np.array(deltas[::-1]) + self.infinite_loss_prob

    def convolved(self, other_block: Self, *, largest_multiple: int) -> Self:
        """Returns the distribution of the sum of the losses of this and another block with the same spacing.

        Args:
            other_block: the other block.
            largest_multiple: n; a sum below -n times the spacing is rounded up to -n times the spacing, and a sum
                above n times the spacing counts as infinite.
        """
        n = largest_multiple
        loss_masses = np.convolve(self.loss_masses, other_block.loss_masses)
        loss_masses *= 1 + min(len(self.loss_masses), len(other_block.loss_masses)) * 2.0**-51
        infinite_loss_prob = self.infinite_loss_prob * max(
            other_block.total_with_infinite_loss, 1.0
        ) + other_block.infinite_loss_prob * max(self.total_with_infinite_loss, 1.0)
        middle = len(loss_masses) // 2
        if middle > n:
            infinite_loss_prob += float(loss_masses[middle + n + 1 :].sum()) * (1 + _BLOCK_ROUNDING)
            mass_below = float(loss_masses[: middle - n].sum()) * (1 + _BLOCK_ROUNDING)
            loss_masses = loss_masses[middle - n : middle + n + 1].copy()
            loss_masses[0] += mass_below
        return replace(
            self,
            loss_masses=loss_masses,
            infinite_loss_prob=infinite_loss_prob * (1 + _BLOCK_ROUNDING),
        )

    def power(self, num_losses: int, *, largest_multiple: int) -> Self:
        """Returns the distribution of the sum of `num_losses` >= 1 independent losses of this block.

        The sum is computed by repeated squaring. `convolved` explains `largest_multiple`.
        """
        block_of_power = self  # of 1, 2, 4, … losses
        block_of_product: Self | None = None
        num_remaining = num_losses
        while num_remaining:
            is_odd = num_remaining % 2 == 1
            if is_odd and block_of_product is None:
                block_of_product = block_of_power
            elif is_odd and block_of_product is not None:
                block_of_product = block_of_product.convolved(
                    block_of_power, largest_multiple=largest_multiple
                )
            num_remaining //= 2
            if num_remaining:
                block_of_power = block_of_power.convolved(
                    block_of_power, largest_multiple=largest_multiple
                )
        return block_of_product or block_of_power

    @property
    def total_with_infinite_loss(self) -> float:
        """The sum of all probabilities, that of an infinite loss included."""
        return float(self.loss_masses.sum()) + self.infinite_loss_prob


def compose_in_blocks(
    repeated_steps: Steps,
    *,
    spacing: float,
    largest_finite_loss: float,
    negligible_delta: float,
    any_event_order: bool = False,
) -> Block:
    """Returns the loss distribution of a pair that dominates all steps (releases) together.

    The steps are divided into blocks of consecutive steps. The loss distributions of all blocks are convolved.

    Args:
        repeated_steps: the steps, in the order of their releases.
        spacing: the distance between two losses within a block.
        largest_finite_loss: the largest loss; larger losses count as infinite.
        negligible_delta: the amount by which each step may raise every delta of a profile for speed.
        any_event_order: True makes each step a separate block, so that the bound holds for every order.
    """
    num_blocks_of_run = Counter(
        _runs(repeated_steps, work_of_full_run=0 if any_event_order else WORK_OF_FULL_BLOCK)
    )
    fixed_pairs = [
        (step_pairs, num_times)
        for step_pairs, num_times in repeated_steps
        if isinstance(step_pairs, FixedPair)
    ]
    # a power of ten, so that similar numbers of steps share cached profiles
    negligible_delta = 10.0 ** math.floor(math.log10(negligible_delta))
    variance = math.fsum(
        num_times * step_pairs.variance for step_pairs, num_times in repeated_steps
    )
    num_blocks = num_blocks_of_run.total() + sum(num_times for _, num_times in fixed_pairs)
    # Between blocks the spacing is `stride` times that inside a block.
    block_spacing = math.sqrt(4 * _BLOCK_WIDENING * variance / num_blocks)
    stride = max(int(block_spacing / spacing), 1)
    if fixed_pairs:
        stride = max(stride, math.ceil(largest_finite_loss / spacing / _LARGEST_CONVOLUTION))
    num_points = math.ceil(largest_finite_loss / spacing / stride) + 1
    block_grid = LossGrid(
        first_index=0, num_points=num_points, spacing=stride * rounded_spacing(spacing)
    )
    block_of: dict[Run, Block] = {}
    for steps_of_longest_run in sorted(num_blocks_of_run, key=len, reverse=True):
        if steps_of_longest_run in block_of:
            continue
        grid = _grid_of_run(
            steps_of_longest_run, spacing=spacing, largest_finite_loss=largest_finite_loss
        )
        profiles = _profiles_of_last_steps(
            steps_of_longest_run, grid=grid, negligible_delta=negligible_delta
        )
        # The last steps of a run may be a run of their own, whose profile is computed on the way.
        for steps_of_run in num_blocks_of_run:
            last_steps = steps_of_longest_run[len(steps_of_longest_run) - len(steps_of_run) :]
            if steps_of_run not in block_of and last_steps == steps_of_run:
                deltas = profiles[len(steps_of_run) - 1][::stride]
                block_of[steps_of_run] = Block.from_profile(deltas, spacing=stride * grid.spacing)
    blocks = [
        block.power(num_losses=num_blocks_of_run[steps_of_run], largest_multiple=num_points)
        for steps_of_run, block in block_of.items()
    ]
    blocks += [
        _repeated_block(
            pair, num_times=num_times, grid=block_grid, negligible_delta=negligible_delta
        )
        for pair, num_times in fixed_pairs
    ]
    total_block = blocks[0]
    for block in blocks[1:]:
        total_block = total_block.convolved(block, largest_multiple=num_points)
    return total_block


def _grid_of_run(steps_of_run: Run, *, spacing: float, largest_finite_loss: float) -> LossGrid:
    """Returns a grid for the summed privacy losses of a run, the consecutive steps (releases) of one block.

    The points reach from 0 to a sum that is almost never exceeded, or to `largest_finite_loss` if that is smaller.
    """
    usual_losses = _BLOCK_DEVIATIONS * math.sqrt(
        math.fsum(step_pairs.variance for step_pairs in steps_of_run)
    )
    rare_loss = max(
        largest_loss(step_pairs, loss_if_unbounded=0.0) - 2 * math.sqrt(step_pairs.variance)
        for step_pairs in steps_of_run
    )
    farthest = min(
        usual_losses + max(_MINUS_LOG_TAIL_PROB / 3 * rare_loss, 0.0), largest_finite_loss
    )
    return LossGrid(
        first_index=0,
        num_points=math.ceil(farthest / spacing) + 3,
        spacing=rounded_spacing(spacing),
        mirrored=True,
    )


def _repeated_block(
    fixed_pair: FixedPair, num_times: int, grid: LossGrid, negligible_delta: float
) -> Block:
    """Returns the distribution of the summed privacy losses of `num_times` releases with one fixed pair.

    A fixed pair leaves the adversary no choice, so the losses of its releases are independent.

    Args:
        fixed_pair: the pair of distributions that dominates each release.
        num_times: the number of releases.
        grid: the grid of losses; larger losses count as infinite.
        negligible_delta: the probability of large losses that may count as infinite.
    """
    num_points = grid.first_index + grid.num_points
    if isinstance(fixed_pair, NoisyMaximum):
        block = _maximum_block(
            noisy_maximum=fixed_pair, spacing=grid.spacing, num_points=num_points
        )
    else:
        masses, infinite_loss_prob = discretized_loss(
            gaussian_pair=fixed_pair,
            spacing=grid.spacing,
            largest_multiple=grid.num_points,
            negligible_mass=negligible_delta,
        )
        block = Block(
            loss_masses=masses, infinite_loss_prob=infinite_loss_prob, spacing=grid.spacing
        )
    return block.power(num_losses=num_times, largest_multiple=num_points)


@lru_cache(maxsize=16)  # several blocks of steps hold the same maximum
def _maximum_block(noisy_maximum: NoisyMaximum, spacing: float, num_points: int) -> Block:
    """Returns the loss distribution of a pair that dominates a noisy maximum, from a cache.

    Args:
        noisy_maximum: the noisy maximum.
        spacing: the distance between two losses.
        num_points: the largest loss, as a multiple of the spacing.
    """
    farthest_epsilon = noisy_maximum.epsilon_below(delta=_MAXIMUM_TAIL_PROB)
    num_spacings = min(math.ceil(farthest_epsilon / spacing) + 1, num_points)
    epsilons = np.arange(-num_spacings, num_spacings + 1, dtype=np.float64) * spacing
    # The part at 0 and above is enough: neighbors can be exchanged, so that the mirror image holds below 0.
    profile = (
        noisy_maximum_profile(noisy_maximum.event, epsilons)[num_spacings:] + _MAXIMUM_ROUNDING
    )
    return Block.from_profile(np.minimum(profile, 1.0), spacing=spacing)


@lru_cache(maxsize=6)
def _profiles_of_last_steps(
    steps_of_run: Run, grid: LossGrid, negligible_delta: float
) -> FloatArray:
    """Returns the privacy profiles of the last 1, 2, … steps of a run, `[num_steps, grid.num_points]`.

    A run is the consecutive steps (releases) of one block. The results are cached, because totals of other numbers of
    releases have the same full runs.

    Args:
        steps_of_run: the run.
        grid: the grid of the epsilons of the profiles.
        negligible_delta: the amount by which each step may raise every delta for speed.
    """
    composer_of_pairs: dict[SteppedPairs, CompositionStep] = {}
    num_steps = len(steps_of_run)
    later_deltas = np.zeros(grid.num_points)
    profiles = np.empty((num_steps, grid.num_points))
    for profile_index, step_pairs in enumerate(reversed(steps_of_run)):
        if step_pairs not in composer_of_pairs:
            composer_of_pairs[step_pairs] = composition_step(
                step_pairs, grid, negligible_delta=negligible_delta
            )
        profiles[profile_index] = later_deltas = composer_of_pairs[step_pairs](later_deltas)
    return profiles


def are_composed_one_by_one(repeated_steps: Steps) -> bool:
    """Returns True if steps (releases) are composed one by one, and not in blocks.

    That is so for up to 180 steps (72 steps if all of them are winners of noisy counts), and where one of the steps has
    a rare and enormous privacy loss. Steps with one fixed pair do not count.
    """
    total_work = sum(
        num_times * work_of_step(step_pairs) for step_pairs, num_times in repeated_steps
    )
    has_rare_loss = any(
        largest_loss(step_pairs, loss_if_unbounded=0.0)
        > _RARE_LOSS * math.sqrt(step_pairs.variance)
        for step_pairs, _ in repeated_steps
    )
    return total_work <= WORK_OF_FULL_BLOCK or has_rare_loss


def work_of_step(step_pairs: DominatingPairs) -> int:
    """Returns the estimated time of one step (release), in quarters of the time of an ordinary step.

    The time is 0 for a step with one fixed pair of distributions, as all steps with that pair are composed at once.
    """
    if isinstance(step_pairs, FixedPair):
        return 0
    return _WORK_OF_WINNER if isinstance(step_pairs, WinnerPairs) else _WORK


def work_in_blocks(repeated_steps: Steps, *, any_event_order: bool) -> int:
    """Returns the estimated time of composing steps in blocks, in quarters of the time of an ordinary step.

    Equal blocks count once. `any_event_order` makes each step a separate block.
    """
    different_runs = set(
        _runs(repeated_steps, work_of_full_run=0 if any_event_order else WORK_OF_FULL_BLOCK)
    )
    return sum(sum(map(work_of_step, steps_of_run)) for steps_of_run in different_runs)


def _runs(repeated_steps: Steps, *, work_of_full_run: int) -> Iterator[Run]:
    """Yields the steps (releases) in runs of consecutive steps; steps with one fixed pair are left out.

    A repeated step is listed several times in a run.

    Args:
        repeated_steps: the steps, in the order of their releases.
        work_of_full_run: the time at which a run ends, in quarters of the time of an ordinary step; 0 makes each step a
            run.
    """
    steps_of_run: list[SteppedPairs] = []
    remaining_work = work_of_full_run
    for step_pairs, num_times in repeated_steps:
        if isinstance(step_pairs, FixedPair):
            continue
        work = work_of_step(step_pairs)
        for _ in range(num_times):
            steps_of_run.append(step_pairs)
            remaining_work -= work
            if remaining_work <= 0:
                yield tuple(steps_of_run)
                steps_of_run = []
                remaining_work = work_of_full_run
    if steps_of_run:
        yield tuple(steps_of_run)


def largest_loss(step_pairs: DominatingPairs, *, loss_if_unbounded: float) -> float:
    """Returns the largest privacy loss of one step whose pairs are a `Box` or a `Span`, such as a bit.

    Returns `loss_if_unbounded` for other pairs.
    """
    if isinstance(step_pairs, Box):
        return step_pairs.largest_up_loss
    return step_pairs.length if isinstance(step_pairs, Span) else loss_if_unbounded
