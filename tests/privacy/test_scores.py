"""Sums of scores: no two groups of test records differ by more than the price allows, and a missing clip would."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from pate.accounting import ExactAccountant, GaussianEvent
from pate.array_types import IntArray
from pate.run.score_model import ScoreModel
from pate.run.score_sums import STEPS_PER_CLIP, RecordCounts, ScoreDesign

PROBABILITIES = np.array([[0.9, 0.2], [0.35, 0.65]])
PREDICTED = np.array([[True, False], [False, True]])
THRESHOLD = 0.5
LARGEST_GROUP = 3
NOISE_MULTIPLIER = 2.0
DESIGN = ScoreDesign(
    num_labels=2,
    most_records=2,
    has_gaps=True,
    num_values=(2,),
    model=ScoreModel.of_public(PROBABILITIES, PREDICTED),
    clips={
        "totals": 1.5,
        "squares": 2.25,
        "calibration": 0.7,
        "macro_f1": 0.4,
        "average_precision": 0.2,
        "sizes": 2 * math.sqrt(2),
        "subgroups": 1.2,
    },
)


def records() -> Iterator[tuple[int, tuple[int, ...], int]]:
    """Yields all records of two labels: a row of probabilities, each label absent, present or unknown, a subgroup."""
    yield from itertools.product(
        range(len(PROBABILITIES)), itertools.product((0, 1, -1), repeat=2), (0, 1, -1)
    )


def groups() -> list[tuple[tuple[int, tuple[int, ...], int], ...]]:
    """Returns all groups of one record, and one in seven of the larger groups of up to three."""
    singles = [(record,) for record in records()]
    larger = [
        group
        for size in range(2, LARGEST_GROUP + 1)
        for group in itertools.combinations_with_replacement(records(), size)
    ]
    return [*singles, *larger[::7], *[group * LARGEST_GROUP for group in singles]]


def steps_of_all(design: ScoreDesign, *, is_clipped: bool = True) -> dict[str, IntArray]:
    """Returns the steps of all groups by block, each as if it were alone; without the clip if asked."""
    all_groups = groups()
    flat = [record for group in all_groups for record in group]
    group_of = np.repeat(np.arange(len(all_groups)), [len(group) for group in all_groups])
    rows = np.array([record[0] for record in flat])
    labels = np.array([record[1] for record in flat])
    counts = RecordCounts.of_records(
        PROBABILITIES[rows],
        PREDICTED[rows],
        labels=labels == 1,
        known=labels >= 0,
        influences=design.influences,
    )
    values = np.array([record[2] for record in flat])
    vectors = design.group_vectors(counts, group_of, [values])
    if is_clipped:
        return design.clipped_steps(vectors)
    return {
        name: np.floor(rows * (STEPS_PER_CLIP / design.clips[name])).astype(np.int64)
        for name, rows in vectors.items()
    }


def largest_cost(design: ScoreDesign, steps: dict[str, IntArray]) -> float:
    """Returns the largest (l2 distance / noise std)^2 of all blocks of two groups, relative to the price."""
    stds = design.noise_stds(NOISE_MULTIPLIER)
    scaled = np.concatenate([block / stds[name] for name, block in steps.items()], axis=1)
    squares = np.square(scaled).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * scaled @ scaled.T
    return float(distances.max() * NOISE_MULTIPLIER**2)


@pytest.mark.slow
def test_no_replaced_group_moves_sums_further_than_priced() -> None:
    """Over all groups of one record and many larger ones the distance stays within the price, and comes near it."""
    cost = largest_cost(DESIGN, steps_of_all(DESIGN))
    assert 0.75 < cost <= 1


@pytest.mark.slow
def test_sums_without_a_clip_move_too_far() -> None:
    """Without the clip the same groups cost more than the price: the control."""
    assert largest_cost(DESIGN, steps_of_all(DESIGN, is_clipped=False)) > 1.5


@pytest.mark.slow
@pytest.mark.parametrize("block", DESIGN.blocks)
def test_each_block_needs_its_own_clip(block: str) -> None:
    """A block that alone is not clipped breaks its share of the price; sizes are never longer than their clip."""
    clipped = steps_of_all(DESIGN)
    open_steps = steps_of_all(DESIGN, is_clipped=False)
    longest = np.square(open_steps[block]).sum(axis=1).max()
    assert np.square(clipped[block]).sum(axis=1).max() <= STEPS_PER_CLIP**2
    if block not in ("sizes", "squares"):  # squares are of counts that were clipped
        assert longest > STEPS_PER_CLIP**2


def test_noise_of_all_blocks_is_one_gaussian_release() -> None:
    """The multipliers of the blocks compose to the multiplier of the event, and cost its epsilon."""
    stds = DESIGN.noise_stds(NOISE_MULTIPLIER)
    multipliers = [std / (math.sqrt(2) * STEPS_PER_CLIP) for std in stds.values()]
    composed = GaussianEvent.composed(multipliers)
    assert composed.noise_multiplier == pytest.approx(NOISE_MULTIPLIER, rel=1e-9)
    event = DESIGN.event(NOISE_MULTIPLIER)
    costs = [
        ExactAccountant().compose(each).get_epsilon(target_delta=1e-6) for each in (event, composed)
    ]
    assert costs[0] == pytest.approx(costs[1], rel=1e-6)


def test_the_grid_never_lengthens_a_row() -> None:
    """Rows of any size and direction become whole numbers >= 0 whose squares are within the clip."""
    rng = np.random.default_rng(0)
    design = replace(DESIGN, clips=dict.fromkeys(DESIGN.blocks, 1.0))
    rows = np.abs(rng.standard_normal((2000, 6))) * 10.0 ** rng.integers(-9, 9, (2000, 1))
    steps = design.clipped_steps({"calibration": rows})["calibration"]
    assert (steps >= 0).all()
    assert np.square(steps).sum(axis=1).max() <= STEPS_PER_CLIP**2
    assert np.square(steps).sum(axis=1).max() > 0.999 * STEPS_PER_CLIP**2
