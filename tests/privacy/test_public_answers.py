"""Public answers: how far one expert moves the sum around them, exhaustively, and controls that move it further."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from pate.accounting import Adjacency, GaussianEvent
from pate.aggregators import CenteredVotes
from pate.array_types import FloatArray
from pate.votes import ExpertAnswers, PublicAnswers
from pate.votes.arrays import VoteBlocks

PUBLIC = np.array([[0.9, 0.02]])
"""The public answers to one query with two labels."""
KINDS = tuple(np.array([pair]) for pair in product((0.0, 0.4, 1.0), repeat=2))
"""All answers that an expert may give here."""
NUM_EXPERTS = 2


def aggregator_around(
    public: FloatArray, adjacency: Adjacency, *, clip_factor: float = 1.0
) -> CenteredVotes:
    """Returns the aggregator of answers, with a clip of `clip_factor` times the usual one."""
    aggregator = CenteredVotes(noise_multiplier=1.0, adjacency=adjacency, clip_factor=clip_factor)
    return aggregator.around(public)


def ensembles(num_experts: int) -> list[FloatArray]:
    """Returns every ensemble of `num_experts` experts, `[num_experts, 1, 2]` each."""
    return [np.array(answers) for answers in product(KINDS, repeat=num_experts)]


def neighbors(answers: FloatArray, adjacency: Adjacency) -> list[FloatArray]:
    """Returns every ensemble in which the first expert is replaced, or missing."""
    if adjacency is Adjacency.ADD_REMOVE:
        return [answers[1:]]
    return [np.concatenate([other[None], answers[1:]]) for other in KINDS]


def moved_clips(
    first: FloatArray,
    second: FloatArray,
    *,
    centers: tuple[FloatArray, FloatArray],
    adjacency: Adjacency,
    clip_factor: float,
) -> float:
    """Returns how far the sum moves between two ensembles, as a share of the sensitivity of the first.

    Args:
        first: the answers of an ensemble.
        second: those of its neighbor.
        centers: what is taken for public answers beside each of them.
        adjacency: the adjacency.
        clip_factor: multiplies the usual clip.
    """
    sums = []
    for answers, center in zip((first, second), centers, strict=True):
        aggregator = aggregator_around(center, adjacency, clip_factor=clip_factor)
        votes = VoteBlocks(answers, num_teachers=len(answers))
        sums.append(aggregator.summarize(votes) * aggregator._clipped_sum((1, 2)).step)
    aggregator = aggregator_around(centers[0], adjacency, clip_factor=clip_factor)
    clipped_sum = aggregator._clipped_sum((1, 2))
    return float(np.linalg.norm(sums[0] - sums[1])) / (
        clipped_sum.l2_sensitivity * clipped_sum.step
    )


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", tuple(Adjacency))
def test_no_change_of_one_expert_moves_the_sum_further_than_the_price(adjacency: Adjacency) -> None:
    """All ensembles of two experts and all their neighbors: the sum moves by at most the sensitivity.

    Some pair reaches 90% of it, so a smaller price would be refuted.
    """
    shares = [
        moved_clips(
            answers,
            neighbor,
            centers=(PUBLIC, PUBLIC),
            adjacency=adjacency,
            clip_factor=clip_factor,
        )
        for clip_factor in (1.0, 8.0)
        for answers in ensembles(NUM_EXPERTS)
        for neighbor in neighbors(answers, adjacency)
    ]
    assert max(shares) <= 1
    assert max(shares) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", tuple(Adjacency))
def test_public_answers_made_of_the_votes_break_the_price(adjacency: Adjacency) -> None:
    """A control: the first expert's answers are taken for public, and replacing it moves all differences."""
    shares = [
        moved_clips(
            answers,
            neighbor,
            centers=(answers[0], neighbor[0]),
            adjacency=adjacency,
            clip_factor=8.0,
        )
        for answers in ensembles(num_experts=3)[::5]
        for neighbor in neighbors(answers, adjacency)
    ]
    assert max(shares) > 1.5


@pytest.mark.parametrize("adjacency", tuple(Adjacency))
def test_answers_that_are_not_clipped_break_the_price(adjacency: Adjacency) -> None:
    """A control: the plain sum of differences moves further than the sensitivity of the clipped one."""
    aggregator = aggregator_around(PUBLIC, adjacency)
    clipped_sum = aggregator._clipped_sum((1, 2))
    moves = [
        np.linalg.norm((answers - PUBLIC).sum(axis=0) - (neighbor - PUBLIC).sum(axis=0))
        for answers in ensembles(NUM_EXPERTS)
        for neighbor in neighbors(answers, adjacency)
    ]
    assert max(moves) > 1.5 * clipped_sum.l2_sensitivity * clipped_sum.step


@pytest.mark.parametrize("adjacency", tuple(Adjacency))
def test_the_price_is_that_of_the_noise_really_used(adjacency: Adjacency, tmp_path: Path) -> None:
    """The noise in the released scores is the multiplier times what one expert may move: one Gaussian event."""
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "public.npz", answers=rng.normal(size=(6, 3)))
    np.savez(tmp_path / "answers.npz", answers=rng.normal(size=(20, 6, 3)))
    public = PublicAnswers.read(tmp_path / "public.npz")
    votes = ExpertAnswers(paths=[tmp_path / "answers.npz"], public=public)
    unsolved = CenteredVotes(noise_multiplier=3.0, adjacency=adjacency)
    aggregator = unsolved.around(public.probabilities)
    assert aggregator.event(votes.shape) == GaussianEvent(noise_multiplier=3.0)
    assert unsolved.event(votes.shape).noise_multiplier == pytest.approx(3.0)
    blocks = np.concatenate(list(votes.confidences()))
    release = aggregator.aggregate(blocks, num_teachers=20, rng=rng)
    variances = public.probabilities * (1 - public.probabilities)
    clip = 0.25 * np.sqrt(variances.sum())
    clips = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    assert aggregator.clip == pytest.approx(clip)
    assert release.noise_std * 20 == pytest.approx(3.0 * clips * clip, rel=1e-3)


def test_the_clip_is_a_function_of_public_values_alone() -> None:
    """Two ensembles of other answers give one aggregator, with one text and one price."""
    first = aggregator_around(PUBLIC, Adjacency.REPLACE_ONE)
    assert first == aggregator_around(PUBLIC.copy(), Adjacency.REPLACE_ONE)
    assert first != aggregator_around(PUBLIC + 0.01, Adjacency.REPLACE_ONE)
    assert first.prevalence_share == 0
