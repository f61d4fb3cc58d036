"""Sums from which scores are computed: no two groups of test records differ by more than the price allows.

Without a clip they would.
"""

import itertools
import math
from dataclasses import replace
from typing import NamedTuple

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
SCORE_DESIGN = ScoreDesign(
    num_labels=2,
    most_counted_records=2,
    has_gaps=True,
    num_values=(2,),
    model_of_records=ScoreModel.of_public(PROBABILITIES, PREDICTED),
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


class ScoredRecord(NamedTuple):
    """A test record of two labels.

    Attributes:
        prediction: the row of `PROBABILITIES` and `PREDICTED` that the student predicts for it.
        labels: 1 for each label that it has, 0 for each that it lacks, -1 for each that is unknown.
        subgroup: the number of its subgroup; -1 if it is in none.
    """

    prediction: int
    labels: tuple[int, ...]
    subgroup: int


ALL_RECORDS = [
    ScoredRecord(prediction, labels=labels, subgroup=subgroup)
    for prediction in range(len(PROBABILITIES))
    for labels in itertools.product((0, 1, -1), repeat=2)
    for subgroup in (0, 1, -1)
]


def all_groups() -> list[tuple[ScoredRecord, ...]]:
    """Returns groups of test records: all of one record, all of three equal ones, and some of two or three."""
    singles = [(record,) for record in ALL_RECORDS]
    larger = [
        group
        for size in range(2, LARGEST_GROUP + 1)
        for group in itertools.combinations_with_replacement(ALL_RECORDS, size)
    ]
    return [*singles, *larger[::7], *[group * LARGEST_GROUP for group in singles]]


def steps_of_all_groups(
    score_design: ScoreDesign, *, is_clipped: bool = True
) -> dict[str, IntArray]:
    """Returns what each group alone adds to each block of the sums, in steps of the grid.

    The array of a block is `[num_groups, num_entries]`.

    Args:
        score_design: the blocks and their clips.
        is_clipped: whether a block of a group is clipped.
    """
    groups = all_groups()
    records = [record for group in groups for record in group]
    group_of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    predictions = [record.prediction for record in records]
    labels = np.array([record.labels for record in records])
    record_counts = RecordCounts.of_records(
        PROBABILITIES[predictions],
        PREDICTED[predictions],
        labels=labels == 1,
        known=labels >= 0,
        influences_of_labels=score_design.influences_of_labels,
    )
    subgroup_indices = np.array([record.subgroup for record in records])
    vectors_by_block = score_design.group_counts(
        record_counts, group_of, value_indices_by_column=[subgroup_indices]
    )
    if is_clipped:
        return score_design.clipped_steps(vectors_by_block)
    return {
        block: np.floor(vectors * (STEPS_PER_CLIP / score_design.clips[block])).astype(np.int64)
        for block, vectors in vectors_by_block.items()
    }


def largest_cost(score_design: ScoreDesign, steps_by_block: dict[str, IntArray]) -> float:
    """Returns the largest (l2 distance / noise std)^2 of two groups, summed over blocks, relative to the price."""
    stds = score_design.noise_stds(NOISE_MULTIPLIER)
    scaled = np.concatenate(
        [steps / stds[block] for block, steps in steps_by_block.items()], axis=1
    )
    squared_lengths = np.square(scaled).sum(axis=1)
    squared_distances = squared_lengths[:, None] + squared_lengths[None, :] - 2 * scaled @ scaled.T
    return float(squared_distances.max() * NOISE_MULTIPLIER**2)


@pytest.mark.slow
def test_no_replaced_group_moves_sums_further_than_priced() -> None:
    """A replaced group costs at most the price, and some exchange costs over three quarters of it.

    Groups of one record are all tried, and many larger ones.
    """
    cost = largest_cost(SCORE_DESIGN, steps_by_block=steps_of_all_groups(SCORE_DESIGN))
    assert 0.75 < cost <= 1


@pytest.mark.slow
def test_sums_without_a_clip_move_too_far() -> None:
    """Negative control: without the clip, a replaced group costs over 1.5 times the price for some pair of groups."""
    steps = steps_of_all_groups(SCORE_DESIGN, is_clipped=False)
    assert largest_cost(SCORE_DESIGN, steps_by_block=steps) > 1.5


@pytest.mark.slow
@pytest.mark.parametrize("block", SCORE_DESIGN.blocks)
def test_each_block_needs_its_own_clip(block: str) -> None:
    """What a group adds to a block, the sums for one kind of score, is at most as long as the clip.

    Without the clip, it would be longer in all blocks but `sizes` and `squares`.
    """
    clipped_length, unclipped_length = (
        np.linalg.norm(
            steps_of_all_groups(SCORE_DESIGN, is_clipped=is_clipped)[block], axis=1
        ).max()
        for is_clipped in (True, False)
    )
    assert clipped_length <= STEPS_PER_CLIP
    if block not in ("sizes", "squares"):  # squares are of counts that were clipped
        assert unclipped_length > STEPS_PER_CLIP


def test_noise_of_all_blocks_is_one_gaussian_release() -> None:
    """The noise multipliers of all blocks of sums compose to the multiplier of the event, which costs as much."""
    stds = SCORE_DESIGN.noise_stds(NOISE_MULTIPLIER)
    multipliers = [std / (math.sqrt(2) * STEPS_PER_CLIP) for std in stds.values()]
    composed_event = GaussianEvent.composed(multipliers)
    assert composed_event.noise_multiplier == pytest.approx(NOISE_MULTIPLIER, rel=1e-9)
    event = SCORE_DESIGN.event(NOISE_MULTIPLIER)
    epsilon, composed_epsilon = (
        ExactAccountant().compose(release).get_epsilon(target_delta=1e-6)
        for release in (event, composed_event)
    )
    assert epsilon == pytest.approx(composed_epsilon, rel=1e-6)


def test_the_grid_never_lengthens_a_row() -> None:
    """Rounded rows of many sizes and directions are whole numbers >= 0 that are not longer than the clip.

    Some are nearly as long.
    """
    rng = np.random.default_rng(0)
    score_design = replace(SCORE_DESIGN, clips=dict.fromkeys(SCORE_DESIGN.blocks, 1.0))
    magnitudes = np.abs(rng.standard_normal((2000, 6)))
    scales = 10.0 ** rng.integers(low=-9, high=9, size=(2000, 1))
    steps = score_design.clipped_steps({"calibration": magnitudes * scales})["calibration"]
    assert (steps >= 0).all()
    assert np.square(steps).sum(axis=1).max() <= STEPS_PER_CLIP**2
    assert np.square(steps).sum(axis=1).max() > 0.999 * STEPS_PER_CLIP**2
