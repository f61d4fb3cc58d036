"""GaussianVotes and ClippedVotes: the threshold, the price, the sum of clipped votes, and votes that are refused."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, ndtr

from pate.accounting import Adjacency, RdpAccountant, SelfComposedEvent, ThresholdEvent
from pate.accounting.event_tree import count_leaves
from pate.accounting.rdp import rdp_curve
from pate.aggregators import ClippedVotes, GaussianVotes
from pate.votes.arrays import VoteBlocks
from tests.memory import measure_memory
from tests.refusals import Refusal, refused_parameter

CLEAR_COUNTS = np.array([[100, 0, 51], [0, 100, 49]])
L1_CLIPPED_VOTES = ClippedVotes(noise_std=3.0, vote_clip=2)


def test_price_is_one_bit_a_label_with_the_distribution_of_the_draw() -> None:
    """The event for 5 queries and 7 labels is 35 bits.

    At each count, a bit is 1 with the probability that the count plus noise exceeds half of the teachers.
    """
    event = GaussianVotes(noise_std=3.0).event_for(num_queries=5, num_labels=7, num_teachers=9)
    assert isinstance(event, SelfComposedEvent)
    assert event.count == 35
    assert isinstance(event.event, ThresholdEvent)
    assert event.event.reach == 1
    expected_one_probs = ndtr((np.arange(10) - 4.5) / 3.0)
    one_probs = expit(event.event.log_odds)
    np.testing.assert_allclose(one_probs, expected_one_probs, rtol=1e-12)


@pytest.mark.parametrize("num_teachers", [30_001, 10**6, 10**12])
def test_price_looks_only_at_counts_within_nine_stds_of_the_threshold(num_teachers: int) -> None:
    """For many teachers, the event has only counts within 9 standard deviations of the noise around the threshold.

    The threshold, half of the teachers, lies between two counts if the number of teachers is odd. Then the event also
    has the next count at each end, half a vote beyond.
    """
    event = (
        GaussianVotes(noise_std=100.0)
        .event_for(num_queries=1, num_labels=1, num_teachers=num_teachers)
        .event
    )
    is_odd = num_teachers % 2 == 1
    assert event == ThresholdEvent(
        noise_std=100.0,
        lowest=-900.5 if is_odd else -900.0,
        num_values=1802 if is_odd else 1801,
    )


def test_counts_outside_the_window_are_moved_into_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counts outside the window around the threshold are answered like the nearest count inside it.

    The window here has counts 1 to 5 of 6 teachers, so a count of 0 is answered like a count of 1.
    The drawn frequencies agree with the event's bits.
    """
    monkeypatch.setattr("pate.aggregators.thresholds._HALF_WINDOW", 0.5)
    vote_counts = np.tile([0, 1, 6], (40_000, 1))
    aggregator = GaussianVotes(noise_std=3.0)
    release = aggregator.aggregate(vote_counts, num_teachers=6, rng=np.random.default_rng(0))
    label_frequencies = release.labels.mean(axis=0)
    one_probs = expit(
        aggregator.event_for(num_queries=1, num_labels=1, num_teachers=6).event.log_odds
    )
    assert len(one_probs) == 5
    probs_of_counts_0_1_6 = one_probs[[0, 0, 4]]
    five_stds = 5 * 0.5 / math.sqrt(40_000)
    np.testing.assert_allclose(label_frequencies, probs_of_counts_0_1_6, atol=five_stds)
    prob_of_count_0_without_window = ndtr(-1.0)
    assert abs(label_frequencies[0] - prob_of_count_0_without_window) > five_stds


# Double precision loses the last two beside a threshold of 50 votes.
@pytest.mark.parametrize("noise_std", [0.01, 1e-15, 1e-30])
def test_clear_majorities_are_released(noise_std: float) -> None:
    """With hardly any noise, counts of 51 and 49 votes of 100 are answered rightly, at an epsilon above 1000."""
    release = GaussianVotes(noise_std=noise_std).aggregate(
        CLEAR_COUNTS, num_teachers=100, rng=np.random.default_rng(0)
    )
    assert release.answered.all()
    assert RdpAccountant().compose(release.event).get_epsilon(target_delta=1e-6) > 1000
    np.testing.assert_array_equal(release.labels, [[True, False, True], [False, True, False]])


def test_l2_shortens_long_vectors_to_the_root_of_the_clip() -> None:
    """A teacher with more votes than the clip contributes a vector of length sqrt(clip).

    A vector of at most this length is unchanged. Too many teachers for an exact sum are refused.
    """
    vote_clip = 2
    num_labels = 4
    aggregator = ClippedVotes(noise_std=1.0, vote_clip=vote_clip, norm="l2")
    votes_within_clip = np.array([[[True, True, False, False]]])
    votes_beyond_clip = np.ones((3, 4, num_labels), dtype=bool)
    counts = aggregator.summarize(VoteBlocks(votes_beyond_clip, num_teachers=3))
    three_shortened_votes = 3 * math.sqrt(vote_clip / num_labels)
    np.testing.assert_allclose(counts, three_shortened_votes, rtol=1e-9)
    assert (counts <= three_shortened_votes).all()
    counts = aggregator.summarize(VoteBlocks(votes_within_clip, num_teachers=1))
    np.testing.assert_array_equal(counts, votes_within_clip[0])
    with refused_parameter("num_teachers", value=2**20 + 1):
        # The weights of so many teachers would not add up exactly.
        aggregator.summarize(VoteBlocks(votes_within_clip, num_teachers=2**20 + 1))


@pytest.mark.parametrize(("norm", "divergence_share"), [("l1", 2 / np.pi), ("l2", 1.0)])
@pytest.mark.parametrize(
    ("adjacency", "num_moved_votes"), [(Adjacency.REPLACE_ONE, 6), (Adjacency.ADD_REMOVE, 3)]
)
def test_price_grows_with_the_number_of_movable_votes(
    adjacency: Adjacency, num_moved_votes: int, norm: str, divergence_share: float
) -> None:
    """With a clip of 3 votes, one change moves 6 counts of a query by 1 under replace-one, and 3 under add-remove.

    A release of the noisy counts would have a Renyi divergence in proportion to that number, `num_moved_votes`. The
    price is `divergence_share` times as much: 2/pi with the l1 norm, where each label is released as a bit, and 1 with
    the l2 norm, where the noisy counts are charged.
    """
    aggregator = ClippedVotes(noise_std=200.0, vote_clip=3, norm=norm, adjacency=adjacency)
    event = aggregator.event_for(num_queries=600, num_labels=40, num_teachers=800)
    rdp = rdp_curve(count_leaves(event), orders=np.array([4.0]))[0]
    rdp_of_counts = 600 * num_moved_votes * 4 / (2 * 200.0**2)
    assert rdp == pytest.approx(divergence_share * rdp_of_counts, rel=2e-3)


@pytest.mark.parametrize(
    ("votes", "refusal"),
    [
        pytest.param(
            np.ones((3, 3, 1), dtype=bool),
            refused_parameter("num_teachers", value=2, rule_words="3, the teachers"),
            id="three teachers",
        ),
        pytest.param(
            iter([np.ones((1, 3, 1), dtype=bool), np.ones((1, 2, 1), dtype=bool)]),
            refused_parameter("votes.shape", value=(1, 2, 1)),
            id="blocks of different shapes",
        ),
        pytest.param(
            iter([]),
            refused_parameter("num_teachers", value=2, rule_words="0, the teachers in"),
            id="no blocks",
        ),
        pytest.param(7, refused_parameter("votes", value="int"), id="a number"),
    ],
)
def test_impossible_votes_are_refused(votes: Any, refusal: Refusal) -> None:
    """Votes are refused unless their blocks have one shape and, together, the two teachers that are declared."""
    with refusal:
        L1_CLIPPED_VOTES.summarize(VoteBlocks(votes, num_teachers=2))


@pytest.mark.slow
def test_temporary_arrays_hold_only_a_few_teachers() -> None:
    """A block of 40 MB of votes is summed with less than 80 MB of temporary memory."""
    rng = np.random.default_rng(0)
    votes = rng.integers(low=0, high=8, size=(1000, 1000, 40), dtype=np.uint8) == 0
    aggregator = replace(L1_CLIPPED_VOTES, vote_clip=5)
    source = VoteBlocks(votes, num_teachers=1000)
    counts = measure_memory(lambda: aggregator.summarize(source))
    assert counts.result.shape == (1000, 40)
    assert counts.peak_memory < 2 * votes.nbytes


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_under_add_remove_a_declared_teacher_may_be_missing(norm: str) -> None:
    """Six of seven declared teachers have votes: the summary equals that with a seventh teacher without a vote.

    Under replace-one, and with more teachers than declared, the votes are refused.
    """
    votes = np.random.default_rng(0).random(size=(6, 4, 5)) < 0.5
    aggregator = ClippedVotes(noise_std=1.0, vote_clip=2, norm=norm, adjacency=Adjacency.ADD_REMOVE)
    votes_with_silent_teacher = np.concatenate([votes, np.zeros((1, 4, 5), dtype=bool)])
    np.testing.assert_array_equal(
        aggregator.summarize(VoteBlocks(votes, num_teachers=7)),
        aggregator.summarize(VoteBlocks(votes_with_silent_teacher, num_teachers=7)),
    )
    replace_one_aggregator = replace(aggregator, adjacency=Adjacency.REPLACE_ONE)
    with refused_parameter("num_teachers", value=7, rule_words="0, the teachers"):
        aggregator.summarize(VoteBlocks(iter([]), num_teachers=7))
    with refused_parameter("num_teachers", value=5, rule_words="6, the teachers"):
        aggregator.summarize(VoteBlocks(iter([votes]), num_teachers=5))
    with refused_parameter("num_teachers", value=7, rule_words="6, the teachers"):
        replace_one_aggregator.summarize(VoteBlocks(iter([votes]), num_teachers=7))
