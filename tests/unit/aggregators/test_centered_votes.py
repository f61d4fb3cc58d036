"""Centered votes in one matrix: values computed by hand, and what is charged or refused.

A center is subtracted from the votes of each teacher: the released prevalence, or a public value.
"""

import dataclasses
from typing import Any

import numpy as np
import pytest

from pate.accounting import ExactAccountant, GaussianEvent, Ledger
from pate.aggregators import CenteredVotes
from pate.array_types import FloatArray
from pate.votes.arrays import VoteBlocks
from tests.refusals import ANY, Refusal, refused_parameter


def confidences_of_teachers(num_teachers: int) -> FloatArray:
    """Returns confidences `[num_teachers, 20, 3]` near a truth of 20 queries and 3 labels.

    Of the queries, 10 have the first label, 7 the second and one the third.
    """
    truth = np.stack([np.arange(20) % 2 == 0, np.arange(20) % 3 == 0, np.arange(20) < 1], axis=1)
    noise = np.random.default_rng(1).normal(loc=0, scale=0.2, size=(num_teachers, 20, 3))
    return np.clip(0.8 * truth + 0.1 + noise, 0, 1)


def release_zeros() -> Any:
    """Returns a release of 10 teachers whose confidences are all 0."""
    zero_confidences = np.zeros((10, 40, 30))
    aggregator = CenteredVotes(noise_multiplier=3.0, prevalence_share=0.0, center=0.0, clip=2.0)
    return aggregator.aggregate(zero_confidences, num_teachers=10, rng=np.random.default_rng(0))


def test_noise_std_matches_the_noise_of_the_scores() -> None:
    """If all votes are 0, the scores of a release have the standard deviation `noise_std`.

    This deviation is the multiplier times the sensitivity over the number of teachers.
    """
    release = release_zeros()
    assert release.noise_std == pytest.approx(3.0 * 2 * 2.0 / 10, rel=1e-3)
    assert release.scores.std() == pytest.approx(release.noise_std, rel=0.05)


def test_scores_lie_on_a_grid() -> None:
    """If all votes are 0, every score of a release is a multiple of one spacing."""
    release = release_zeros()
    spacing = np.gcd.reduce(np.rint(release.scores * 2**40).astype(np.int64)) / 2**40
    steps = release.scores / spacing
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-6)


def test_the_clip_is_a_function_of_the_center() -> None:
    """`clip_factor` multiplies sqrt(sum of c (1 - c)), where the sum is over queries and labels and c is the center.

    For 20 queries with 3 labels and c = 1/2, the sums equal those with `clip` set to `clip_factor` * sqrt(20 * 3 / 4).
    """
    votes_longer_than_any_clip = 1e6 * confidences_of_teachers(num_teachers=4)
    vote_blocks = VoteBlocks(votes_longer_than_any_clip, num_teachers=4)
    aggregator = CenteredVotes(noise_multiplier=1.0, prevalence_share=0.0, clip_factor=0.5)
    explicit = dataclasses.replace(aggregator, clip=0.5 * np.sqrt(15.0))
    np.testing.assert_array_equal(
        aggregator.summarize(vote_blocks), explicit.summarize(vote_blocks)
    )


def test_one_charge_pays_for_prevalence_and_votes() -> None:
    """A release at epsilon 1 is one entry of the ledger, whose event composes the noise of prevalence and votes."""
    ledger = Ledger(target_delta=1e-5, accountant=ExactAccountant)
    aggregator = CenteredVotes(noise_multiplier=2.0).calibrated(
        target_epsilon=1.0,
        target_delta=1e-5,
        accountant=ExactAccountant,
        num_queries=20,
        num_labels=3,
        num_teachers=50,
    )
    rng = np.random.default_rng(0)
    aggregator.aggregate(
        confidences_of_teachers(num_teachers=50), num_teachers=50, rng=rng, ledger=ledger
    )
    multipliers = [aggregator.prevalence.event.noise_multiplier, aggregator.votes_multiplier]
    assert [entry.event for entry in ledger.entries] == [GaussianEvent.composed(multipliers)]
    assert 0.99 < ledger.epsilon <= 1.0


def test_a_center_of_other_queries_is_refused() -> None:
    """`summarize` refuses a center of 7 queries beside votes for 20."""
    aggregator = CenteredVotes(noise_multiplier=1.0, prevalence_share=0.0, center=np.zeros((7, 3)))
    with refused_parameter("center.shape", value=(7, 3), rule_words="(20"):
        aggregator.summarize(VoteBlocks(confidences_of_teachers(num_teachers=5), num_teachers=5))


def test_a_stream_cannot_be_read_twice() -> None:
    """`CenteredVotes` refuses an iterator of votes in place of an array if it computes the center itself.

    It then reads the votes a first time for the center, the prevalence of each label, and again to sum them.
    """
    rng = np.random.default_rng(0)
    with refused_parameter("votes", value=ANY, rule_words="an array"):
        CenteredVotes(noise_multiplier=1.0).aggregate(
            iter([confidences_of_teachers(num_teachers=5)]), num_teachers=5, rng=rng
        )


def test_summarize_needs_a_known_center() -> None:
    """`summarize` is refused if the release is to estimate the center itself (`prevalence_share` above 0)."""
    with refused_parameter("prevalence_share", value=0.1, rule_words="0"):
        CenteredVotes(noise_multiplier=1.0).summarize(
            VoteBlocks(confidences_of_teachers(num_teachers=5), num_teachers=5)
        )


def test_blocks_of_no_teacher_are_refused() -> None:
    """`VoteBlocks` refuses an iterator without blocks when 5 teachers are declared."""
    with refused_parameter("num_teachers", value=5, rule_words="0"):
        VoteBlocks(iter([]), num_teachers=5)


@pytest.mark.parametrize(
    ("votes", "refusal"),
    [
        (
            np.ones((5, 20, 3), dtype=np.int64),
            refused_parameter("votes.dtype", value="int64", rule_words="bool votes or confidences"),
        ),
        (
            np.full((5, 20, 3), np.nan),
            refused_parameter("votes[0, 0, 0]", rule_words="confidences in"),
        ),
        (
            np.full((5, 20, 3), 1.5),
            refused_parameter("votes[0, 0, 0]", rule_words="confidences in"),
        ),
        (np.ones((20, 3)), refused_parameter("votes.shape", value=(20, 3))),
        ([[[1.0], [1.0, 1.0]]], refused_parameter("votes", rule_words="rows of")),
    ],
)
def test_impossible_votes_are_refused_before_the_prevalence_is_charged(
    votes: Any, refusal: Refusal
) -> None:
    """Votes of a wrong type, shape or range are refused, and nothing is charged."""
    ledger = Ledger(target_delta=1e-6)
    rng = np.random.default_rng(0)
    with refusal:
        CenteredVotes(noise_multiplier=1.0).aggregate(votes, num_teachers=5, rng=rng, ledger=ledger)
    assert not ledger.entries


def public_answers() -> FloatArray:
    """Returns a public model's probabilities for 20 queries and 3 labels."""
    return np.random.default_rng(2).uniform(low=0.05, high=0.95, size=(20, 3))


def votes_around_public_answers(clip: float | None = None) -> CenteredVotes:
    """Returns an aggregator whose center is `public_answers()`, with little noise, 0.01 times the sensitivity.

    Args:
        clip: the largest l2 length of an expert's answers minus the public ones; None for the square root of the
            sum of p (1 - p) over the public answers p.
    """
    return CenteredVotes(noise_multiplier=0.01, clip=clip).around(public_answers())


def test_experts_who_say_what_is_public_release_the_public_answers() -> None:
    """If all experts give the public answers, these are released unchanged, as no difference exceeds the noise."""
    public = public_answers()
    release = votes_around_public_answers().aggregate(
        np.tile(public, (30, 1, 1)), num_teachers=30, rng=np.random.default_rng(0)
    )
    np.testing.assert_array_equal(release.probabilities, public)
    np.testing.assert_array_equal(release.center, public)
    np.testing.assert_array_equal(release.labels.sum(axis=0), np.rint(public.sum(axis=0)))


def test_what_experts_add_to_public_answers_is_released() -> None:
    """If all experts lift the first label by up to a tenth, the probabilities follow, and stay in [0, 1]."""
    public = public_answers()
    lifted = public.copy()
    lifted[:, 0] += np.linspace(0, 0.1, 20)
    release = votes_around_public_answers(clip=10.0).aggregate(
        np.tile(lifted, (300, 1, 1)), num_teachers=300, rng=np.random.default_rng(0)
    )
    assert np.abs(release.probabilities - lifted.clip(0, 1)).max() < 0.02
    assert ((release.probabilities >= 0) & (release.probabilities <= 1)).all()


def test_a_center_of_all_queries_releases_no_probabilities() -> None:
    """A release with one center for all queries, and not a public model's answers, has no probabilities."""
    assert release_zeros().probabilities is None


def test_a_student_learns_the_public_answers_beside_the_difference() -> None:
    """A training set has both parts that a student learns: the public answers, and the released differences from them.

    The public answers are the `center` of its scores. The `values` are the released scores minus the public answers.
    """
    release = votes_around_public_answers().aggregate(
        confidences_of_teachers(num_teachers=30), num_teachers=30, rng=np.random.default_rng(0)
    )
    training = release.training_set(np.zeros((20, 2), dtype=np.float32))
    assert training.scores is not None
    np.testing.assert_array_equal(training.scores.center, public_answers())
    np.testing.assert_array_equal(training.scores.values, release.scores - public_answers())


@pytest.mark.parametrize(
    ("center", "rounds", "public_probabilities", "refusal"),
    [
        pytest.param(
            0.5,
            None,
            public_answers(),
            refused_parameter("center", value=(), rule_words="none"),
            id="a center",
        ),
        pytest.param(
            None,
            3,
            public_answers(),
            refused_parameter("rounds", value=3, rule_words="cast once"),
            id="rounds",
        ),
        pytest.param(
            None,
            None,
            public_answers()[0],
            refused_parameter("public_answers.shape", value=(3,)),
            id="one query without an axis",
        ),
        pytest.param(
            None,
            None,
            1 + public_answers(),
            refused_parameter("public_answers[0, 0]", value=ANY, rule_words="in [0, 1]"),
            id="numbers above 1",
        ),
    ],
)
def test_public_answers_that_do_not_fit_are_refused(
    center: float | None, rounds: int | None, public_probabilities: FloatArray, refusal: Refusal
) -> None:
    """Public answers are refused beside a center or several rounds, and if they are no probabilities of queries."""
    aggregator = CenteredVotes(noise_multiplier=1.0, center=center, rounds=rounds)
    with refusal:
        aggregator.around(public_probabilities)
