"""The success that an aggregator expects of a release before it sees a vote, and warnings of useless releases."""

import time
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from pate.accounting import NonPrivateEvent
from pate.aggregators import (
    Aggregator,
    Answers,
    BoundaryMax,
    BoundaryTopK,
    CenteredVotes,
    ClippedVotes,
    FixedTopK,
    GaussianVotes,
    MemoryRecord,
    NotPriorTopK,
    PowersetGNMax,
    StableTopK,
    UselessReleaseWarning,
    expectation,
    expected_release,
)
from pate.aggregators.powerset import _right_sets
from pate.config import build_aggregator
from pate.config.schema import names_in_config_group
from pate.votes import VoteShape
from pate.votes.arrays import CountTable
from pate.votes.made_up import MadeUpVotes
from pate.votes.source import TeacherVotes, VoteSource
from tests.aggregator_settings import settings_of_aggregator

SHAPE = VoteShape(num_queries=600, num_labels=40, num_teachers=400)
NAMES = names_in_config_group(group="aggregator")


@cache
def shipped_aggregator(name: str) -> Aggregator:
    """Returns the aggregator that the setting `aggregator=NAME` builds."""
    return build_aggregator(
        node=settings_of_aggregator(name), adjacency="replace_one", allowed_targets=[]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_expectation_falls_with_the_noise(name: str) -> None:
    """Each shipped aggregator has an expected success above 0.9 at 0.02 times its noise, and below 0.6 at 1000 times.

    The success is the probability of an answer times the mean of two shares: present labels that are named, and
    absent labels that are left out.
    """
    aggregator = shipped_aggregator(name=name)
    calm = aggregator.scaled(noise_factor=0.02)
    loud = aggregator.scaled(noise_factor=1000.0)
    assert expected_release(aggregator=calm, shape=SHAPE).success > 0.9
    assert expected_release(aggregator=loud, shape=SHAPE).success < 0.6


def test_all_later_queries_of_a_session_are_checked_however_few_they_are() -> None:
    """Of 110 queries, the first 100 are answered without a check, and the first check fails and ends the session.

    The session has one hit, whose query is answered.
    """
    aggregator = NotPriorTopK(
        prior_scale=1.0,
        prior_margin=1000.0,
        first_queries=100,
        target_hits=1,
        selection_scale=0.5,
        table_order=3.0,
        table_budget=4.0,
    )
    shape = VoteShape(num_queries=110, num_labels=10, num_teachers=200)
    assert expected_release(aggregator, shape).answered == pytest.approx((100 + 1) / 110)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_expectation_is_repeatable_and_leaves_numpys_generator_alone(name: str) -> None:
    """Two expectations of one release are equal and leave NumPy's global generator as it was.

    The first of the two takes less than 0.3 seconds of CPU time, after an expectation for other votes.
    """
    aggregator = shipped_aggregator(name=name)
    expected_release(aggregator, SHAPE)
    state, started = str(np.random.get_state()), time.process_time()  # noqa: NPY002 - that it is left alone
    again = expected_release(aggregator, SHAPE, agreement=0.9)
    assert time.process_time() - started < 0.3
    assert again == expected_release(aggregator, SHAPE, agreement=0.9)
    assert state == str(np.random.get_state())  # noqa: NPY002


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_expectation_grows_with_agreement(name: str) -> None:
    """As the teachers' agreement grows from 0.6 to 1, the expected success does not fall by more than 0.03."""
    successes = [
        expected_release(
            aggregator=shipped_aggregator(name=name), shape=SHAPE, agreement=share
        ).success
        for share in (0.6, 0.8, 1.0)
    ]
    assert successes[0] <= successes[1] + 0.03 and successes[1] <= successes[2] + 0.03


@pytest.mark.parametrize("agreement", [1.0, 0.7])
def test_gaussian_votes_in_closed_form(agreement: float) -> None:
    """The expected shares of right bits for present and absent labels agree with the normal distribution function."""
    expected = expected_release(
        aggregator=GaussianVotes(noise_std=300.0), shape=SHAPE, agreement=agreement
    )
    votes_for_present = agreement * 400
    assert expected.present == pytest.approx(ndtr((votes_for_present - 200) / 300), abs=0.04)
    votes_for_absent = 3 * (1 - agreement) * 400 / 37
    assert expected.absent == pytest.approx(ndtr((200 - votes_for_absent) / 300), abs=0.02)


def made_up_votes_and_summary(aggregator: Any, agreement: float = 1.0) -> tuple[MadeUpVotes, Any]:
    """Returns the made-up votes of 60 teachers, and the summary that an aggregator makes of them."""
    made_up_votes = MadeUpVotes(
        num_queries=30, num_labels=12, num_teachers=60, agreement=agreement, num_present=3
    )
    return made_up_votes, aggregator.summarize(made_up_votes)


@pytest.mark.parametrize(("norm", "vote_clip"), [("l1", 4), ("l2", 3)])
def test_expectation_of_clipped_votes_needs_only_counts(norm: str, vote_clip: int) -> None:
    """Clipping leaves the sum of made-up votes at their counts, so an expectation needs no vote of a single teacher."""
    made_up_votes, summary = made_up_votes_and_summary(
        aggregator=ClippedVotes(noise_std=60.0, vote_clip=vote_clip, norm=norm)
    )
    np.testing.assert_allclose(made_up_votes.counts(), summary, rtol=1e-8)


@pytest.mark.parametrize("agreement", [1.0, 0.9])
def test_expectation_of_powerset_needs_only_counts(agreement: float) -> None:
    """For each query, the summary counts the right set of labels as often as the expectation assumes."""
    made_up_votes, summary = made_up_votes_and_summary(
        aggregator=PowersetGNMax(noise_std=3.0), agreement=agreement
    )
    for right_set in _right_sets(made_up_votes):
        is_right = (summary["query"] == right_set["query"]) & (
            summary["labels"] == right_set["labels"]
        ).all(axis=1)
        assert summary["count"][is_right].item() == right_set["count"]


@pytest.mark.slow
@pytest.mark.parametrize("clip_factor", [1.0, 0.25])
def test_expectation_of_centered_votes_matches_the_best_reader(
    clip_factor: float,
) -> None:
    """The expected share of right present labels is within 0.04 of that of a reader who removes noise from the scores.

    The reader keeps the whole signal, and of the noise only the part in 128 random directions of 600.
    """
    aggregator = CenteredVotes(
        noise_multiplier=6.0, prevalence_share=0.0, center=3 / 40, clip_factor=clip_factor
    )
    expected = expected_release(aggregator, SHAPE)
    made_up_votes = MadeUpVotes(
        num_queries=600, num_labels=40, num_teachers=400, agreement=1.0, num_present=3
    )
    summary = aggregator.summarize(made_up_votes)
    release: Any = aggregator.release(
        made_up_votes, rng=np.random.default_rng(1), record=MemoryRecord()
    )
    signal = aggregator._matrix_mechanism.release_from_sum(
        summary, std_in_steps=0.0, event=NonPrivateEvent(), num_teachers=400
    ).scores
    basis = np.linalg.qr(np.random.default_rng(2).standard_normal(size=(600, 128)))[0]
    read = signal + basis @ (basis.T @ (release.scores - signal))
    middle = (signal[made_up_votes.labels].mean() + signal[~made_up_votes.labels].mean()) / 2
    share_read_right = ((read > middle) == made_up_votes.labels)[made_up_votes.labels].mean()
    assert expected.present == pytest.approx(share_read_right, abs=0.04)


def test_early_halt_lowers_the_expectation() -> None:
    """A session that ends with its last hit answers a smaller expected share of many queries than of few.

    The share is over 80% of 100 queries and below 20% of 2000.
    """
    aggregator = BoundaryTopK(selection_scale=58.65, test_std=17.74, failure_prob=2e-11)
    of_small, of_large = (
        expected_release(aggregator, shape=replace(SHAPE, num_queries=count))
        for count in (100, 2000)
    )
    assert of_small.answered > 0.8
    assert of_large.answered < 0.2 and of_large.present == of_small.present


@pytest.mark.parametrize(
    "aggregator",
    [
        CenteredVotes(noise_multiplier=1.0),
        BoundaryMax(selection_scale=20.0, target_hits=3),
        GaussianVotes(noise_std=20.0),
    ],
)
def test_shape_without_queries_has_the_expectation_of_one_query(aggregator: Aggregator) -> None:
    """The expectation of a release without queries is that of a release with one query."""
    one_query = VoteShape(num_queries=1, num_labels=4, num_teachers=10)
    no_query = replace(one_query, num_queries=0)
    assert expected_release(aggregator, shape=no_query) == expected_release(
        aggregator, shape=one_query
    )


def test_made_up_queries_have_as_many_labels_as_answers_may_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An aggregator that answers with at most 1, 2 or 5 labels is judged on made-up queries with that many labels."""
    at_most_two = StableTopK(selection_scale=1.0, test_std=1.0, max_k=2)
    for aggregator, num_present in (
        (FixedTopK(k=1, epsilon=5.0), 1),
        (FixedTopK(k=5, epsilon=5.0), 5),
        (at_most_two, 2),
    ):
        assert expected_release(aggregator, SHAPE).present == 1.0
        with monkeypatch.context() as patched:
            patched.setattr(
                expectation, "expected_from_votes", lambda aggregator, votes, num_queries: votes
            )
            made_up_votes: Any = expected_release(aggregator, SHAPE)
        assert (made_up_votes.labels.sum(axis=1) == num_present).all()


class _MinimalAggregator(Aggregator):
    """A user's aggregator with only the methods that the base class needs."""

    reads = TeacherVotes

    def event(self, shape: VoteShape) -> Any:
        return GaussianVotes(noise_std=1.0).event(shape)

    def scaled(self, noise_factor: float) -> Any:
        return self

    def summarize(self, votes: VoteSource) -> np.ndarray:
        blocks = self.checked_blocks(votes.bits(), votes.shape)
        return np.asarray(sum(block.sum(axis=0, dtype=np.int64) for block in blocks))

    def draw(self, summary: Any, shape: VoteShape, rng: np.random.Generator) -> Answers:
        return GaussianVotes(noise_std=3.0).draw(summary, shape=shape, rng=rng)


@pytest.mark.slow
def test_custom_aggregator_has_an_expectation_by_drawing() -> None:
    """A user's aggregator without an expectation is judged by a draw from made-up votes: its success is 1."""
    assert expected_release(aggregator=_MinimalAggregator(), shape=SHAPE).success == 1.0


VOTE_COUNTS = np.array([[90, 3, 60]])


@pytest.mark.filterwarnings("always::pate.aggregators.UselessReleaseWarning")
def test_useless_release_warns_once_and_is_still_made() -> None:
    """Gaussian votes with far too much noise warn once in three releases, in the caller's file, and still answer.

    Clipped votes and a boundary session warn in the same way.
    """
    aggregator = GaussianVotes(noise_std=987.25)
    rng = np.random.default_rng(0)
    warning = "unanimous votes of 100 teachers would be heard in .*; take more"
    with pytest.warns(UselessReleaseWarning, match=warning) as caught:
        for _ in range(3):
            assert aggregator.aggregate(VOTE_COUNTS, num_teachers=100, rng=rng).num_answered == 1
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.warns(UselessReleaseWarning, match="ClippedVotes"):
        ClippedVotes(noise_std=987.0, vote_clip=2).aggregate(
            np.ones((9, 2, 4), bool), num_teachers=9, rng=rng
        )
    with pytest.warns(UselessReleaseWarning, match="BoundaryTopK"):
        session = BoundaryTopK(selection_scale=987.0, test_std=9.0, failure_prob=1e-10)
        session.aggregate(VOTE_COUNTS, num_teachers=100, rng=rng)


@pytest.mark.filterwarnings("error::pate.aggregators.UselessReleaseWarning")
def test_useful_and_already_judged_releases_give_no_warning() -> None:
    """A useful release gives no warning, and neither does `release`, whose caller has judged the plan already."""
    GaussianVotes(noise_std=10.0).aggregate(
        VOTE_COUNTS, num_teachers=100, rng=np.random.default_rng(0)
    )
    count_table = CountTable(VOTE_COUNTS, num_teachers=100)
    noisy_votes = GaussianVotes(noise_std=987.5)
    noisy_votes.release(count_table, rng=np.random.default_rng(0), record=MemoryRecord())
