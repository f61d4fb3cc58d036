"""How far one teacher moves the sum of centered votes, against its sensitivity, and the noise that is charged."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency, ExactAccountant, GaussianEvent, gaussian_epsilon
from pate.aggregators import CenteredVotes, Prevalence
from pate.array_types import FloatArray
from pate.votes.blocks import LowRankVotes
from pate.votes.clipping import ClippedSum
from pate.votes.public_pca import PublicPCA
from tests.privacy.divergences import assert_reached, record_constructed

ADJACENCIES = tuple(Adjacency)


def draw_adversarial_votes(
    teacher_votes_shape: tuple[int, int], rng: np.random.Generator
) -> FloatArray:
    """Returns n possible votes of one teacher, `[n, *teacher_votes_shape]`.

    They are random votes, and votes of -1, 0 and 1 at scales from tiny to huge.
    """
    num_votes = math.prod(teacher_votes_shape)
    corners = (
        np.array(list(product((-1.0, 0.0, 1.0), repeat=num_votes)))
        if num_votes <= 4
        else rng.choice(3, size=(200, num_votes)) - 1.0
    )
    scaled_corners = [corners * factor for factor in (1e-9, 0.3, 1.0, 7.0, 1e9)]
    random_votes = rng.normal(size=(50, num_votes))
    return np.concatenate([*scaled_corners, random_votes]).reshape(-1, *teacher_votes_shape)


@pytest.mark.slow
@pytest.mark.parametrize("weight", [None, 1.0, 0.5, 0.07, 0.003])
@pytest.mark.parametrize("teacher_votes_shape", [(1, 1), (1, 3), (2, 2), (3, 2)])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_no_change_of_one_group_moves_the_sum_further_than_its_weight(
    teacher_votes_shape: tuple[int, int], adjacency: Adjacency, weight: float | None
) -> None:
    """A group of weight w that is replaced or removed moves the clipped sum by at most w times the sensitivity.

    All adversarial votes and all pairs of them are tried at four clips, at one of them also as low-rank factors. Some
    reach 90% of the bound.
    """
    rng = np.random.default_rng(math.prod(teacher_votes_shape))
    num_queries = teacher_votes_shape[0]
    group_weight = None if weight is None else np.array([weight])
    span = PublicPCA.fit(np.random.default_rng(0).normal(size=(50, 4)), max_directions=1).span(
        np.ones((num_queries, 4))
    )
    for clip, center in (
        (0.37, 0.5),
        (0.7, 0.0),
        (1.0, 0.0),
        (2.5, rng.random(teacher_votes_shape)),
    ):
        clipped_sum = ClippedSum(clip, sum_shape=teacher_votes_shape, adjacency=adjacency)
        adversarial_votes = draw_adversarial_votes(teacher_votes_shape, rng)
        votes_by_form: list[list[Any]] = [[vote[None] + center for vote in adversarial_votes]]
        if clip == 0.7:
            votes_by_form.append(
                [LowRankVotes(span, weights=vote[None, :1]) for vote in adversarial_votes]
            )
        for votes_of_form in votes_by_form:
            clipped_votes = [
                clipped_sum.total(
                    votes, center=center, num_teachers=1, teacher_weights=group_weight
                ).ravel()
                for votes in votes_of_form
            ]
            assert_reached(
                clipped_votes,
                adjacency,
                claimed_l2_sensitivity=(weight or 1.0) * clipped_sum.l2_sensitivity,
            )


def test_one_teacher_of_an_ensemble_moves_the_sum_by_at_most_the_sensitivity() -> None:
    """If one of 30 teachers is removed or votes the opposite, the sum moves by at most the sensitivity.

    The sum moves by over 90% of the sensitivity, whichever teacher it is.
    """
    votes = np.random.default_rng(0).random(size=(30, 4, 3))
    for teacher in range(30):
        with_opposite_votes = votes.copy()
        with_opposite_votes[teacher] = 1 - votes[teacher]
        neighboring_votes = {
            Adjacency.REPLACE_ONE: with_opposite_votes,
            Adjacency.ADD_REMOVE: np.delete(votes, teacher, axis=0),
        }
        for adjacency, changed_votes in neighboring_votes.items():
            clipped_sum = ClippedSum(clip=0.5, sum_shape=(4, 3), adjacency=adjacency)
            totals = [
                clipped_sum.total(ensemble_votes, center=0.5, num_teachers=30)
                for ensemble_votes in (votes, changed_votes)
            ]
            assert_reached(
                contributions=[(totals[0] - totals[1]).ravel()],
                adjacency=Adjacency.ADD_REMOVE,
                claimed_l2_sensitivity=clipped_sum.l2_sensitivity,
            )


def test_factored_votes_move_the_sum_by_at_most_the_sensitivity() -> None:
    """If one teacher's weights are replaced, the sum of factored votes moves by at most the sensitivity.

    Such votes are public features times private weights. Some weights move the sum by 90% of the sensitivity.
    """
    rng = np.random.default_rng(1)
    shape = (6, 4)
    span = PublicPCA.fit(rng.normal(size=(50, 5)), max_directions=3).span(rng.normal(size=(6, 5)))
    clipped_sum = ClippedSum(clip=1.0, sum_shape=shape)
    other_weights = rng.normal(size=(9, 3, 4))
    usual_weights = rng.normal(size=(40, 3, 4))
    tiny_and_huge_weights = 10 ** rng.uniform(low=-9, high=9, size=(10, 3, 4))
    totals_by_changed_weights = []
    for changed_weights in (*usual_weights, *tiny_and_huge_weights):
        for sign in (1, -1):
            all_weights = np.concatenate([other_weights, sign * changed_weights[None]])
            factored_votes = LowRankVotes(span, weights=all_weights)
            total = clipped_sum.total(factored_votes, center=0.5, num_teachers=10)
            totals_by_changed_weights.append(total.ravel())
    assert_reached(
        contributions=totals_by_changed_weights,
        adjacency=Adjacency.REPLACE_ONE,
        claimed_l2_sensitivity=clipped_sum.l2_sensitivity,
    )


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_price_is_that_of_the_noise_really_used(adjacency: Adjacency) -> None:
    """The std of the drawn noise over the largest move of one teacher is the charged multiplier, or up to 0.1% more.

    The largest move is one clip under add-remove and two under replace-one, before rounding. It is counted in steps of
    the grid, as is the std.
    """
    shape = (5, 3)
    num_teachers = 10
    multiplier = 3.0
    aggregator = CenteredVotes(
        noise_multiplier=multiplier, adjacency=adjacency, prevalence_share=0.0, center=0.5, clip=0.7
    )
    rng = np.random.default_rng(0)
    votes = rng.random(size=(num_teachers, *shape))
    release: Any = aggregator.aggregate(votes, num_teachers=num_teachers, rng=rng)
    step = ClippedSum(clip=0.7, sum_shape=shape, adjacency=adjacency).step
    noise_std_in_steps = release.noise_std * num_teachers / step
    num_clips = 2 if adjacency == Adjacency.REPLACE_ONE else 1
    largest_move_in_steps = num_clips * 0.7 / step
    assert multiplier <= noise_std_in_steps / largest_move_in_steps < 1.001 * multiplier
    assert release.event == GaussianEvent(noise_multiplier=multiplier)


def test_prevalence_and_votes_add_up_to_the_price() -> None:
    """The events of prevalence and votes compose to the event of the aggregator.

    Their inverse squared noise multipliers add up to that of the aggregator.
    """
    aggregator = CenteredVotes(noise_multiplier=5.0, prevalence_share=0.1)
    events = [
        aggregator.prevalence.event,
        aggregator.centered_at(center=0.5).event_for(
            num_queries=600, num_labels=40, num_teachers=400
        ),
    ]
    sum_of_squared_mus = sum(1 / event.noise_multiplier**2 for event in events)
    assert sum_of_squared_mus == pytest.approx(1 / 25.0, rel=1e-9)
    accountant_of_parts = ExactAccountant()
    for event in events:
        accountant_of_parts.compose(event)
    whole_event = aggregator.event_for(num_queries=600, num_labels=40, num_teachers=400)
    whole_epsilon = ExactAccountant().compose(whole_event).get_epsilon(target_delta=1e-6)
    epsilon_of_parts = accountant_of_parts.get_epsilon(target_delta=1e-6)
    assert epsilon_of_parts == pytest.approx(whole_epsilon, rel=1e-9)
    assert whole_epsilon >= gaussian_epsilon(mu=0.2, target_delta=1e-6)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_steps_of_the_prevalence_use_the_noise_that_is_charged(
    adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The noise of the three steps of a prevalence composes to the charged multiplier.

    The multiplier of a step is its noise std over the furthest move of one teacher.
    """
    noises = record_constructed(
        monkeypatch, module_name="pate.aggregators.prevalence", class_name="RoundedGaussian"
    )
    sums = record_constructed(
        monkeypatch, module_name="pate.aggregators.prevalence", class_name="ClippedSum"
    )
    prevalence = Prevalence(noise_multiplier=2.0, adjacency=adjacency)
    label_shares = np.random.default_rng(0).random(size=(40, 5))
    prevalence.release(label_shares, num_teachers=40, rng=np.random.default_rng(1))
    one_hot_lengths_after = np.eye(5) if adjacency == Adjacency.REPLACE_ONE else np.zeros((1, 5))
    sums = sums[1:]  # without that of the check before the charge
    moves = [
        np.linalg.norm(np.eye(5)[:, None] - one_hot_lengths_after, axis=2).max(),
        *(clipped_sum.l2_sensitivity for clipped_sum in sums),
    ]
    assert [clipped_sum.adjacency for clipped_sum in sums] == [adjacency, adjacency]
    multipliers = np.array([noise.std for noise in noises]) / moves
    assert 1 / (1 / multipliers**2).sum() == pytest.approx(4.0, rel=1e-9)
    assert prevalence.event.noise_multiplier == pytest.approx(2.0, rel=1e-9)
