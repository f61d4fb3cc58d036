"""ClippedVotes and the limit of votes: what is kept, blocks, prices, refusals."""

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency
from pate.aggregators import ClippedVotes
from pate.validation import InvalidValue

L1 = ClippedVotes(noise_std=3.0, vote_clip=2)
SHAPE = {"num_queries": 600, "num_labels": 40, "num_teachers": 800}
ALL = np.ones((3, 4, 4), dtype=bool)


def test_l2_shortens_long_vectors_to_the_root_of_the_clip() -> None:
    counts = ClippedVotes(noise_std=1.0, vote_clip=2, norm="l2").gather(ALL, num_teachers=3)
    np.testing.assert_allclose(counts, 3 * 0.5**0.5, rtol=1e-9)
    assert (counts <= 3 * 0.5**0.5).all()
    short = np.array([[[True, True, False, False]]])
    np.testing.assert_array_equal(
        ClippedVotes(noise_std=1.0, vote_clip=2, norm="l2").gather(short, num_teachers=1), short[0]
    )


@pytest.mark.parametrize(("norm", "share"), [("l1", 2 / np.pi), ("l2", 1.0)])
def test_prices_follow_the_votes_that_can_move(norm: str, share: float) -> None:
    """tau = 3: six counts move under replace-one, three under add/remove; l1 costs bits, 2/pi of the vector."""
    from pate.accounting.events import count_leaves
    from pate.accounting.rdp import rdp_curve

    for adjacency, moved in ((Adjacency.REPLACE_ONE, 6), (Adjacency.ADD_REMOVE, 3)):
        aggregator = ClippedVotes(noise_std=200.0, vote_clip=3, norm=norm, adjacency=adjacency)
        rdp = rdp_curve(count_leaves(aggregator.event_for(**SHAPE)), np.array([4.0]))[0]
        assert rdp == pytest.approx(share * 600 * moved * 4 / (2 * 200.0**2), rel=2e-3)


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        (np.ones((3, 3, 1), dtype=bool), r"num_teachers=2: expected 3, the teachers in votes"),
        (iter([np.ones((1, 3, 1), bool), np.ones((1, 2, 1), bool)]), r"votes\.shape=\(1, 2, 1\): expected \[c, 3, 1\]"),
        (iter([]), r"num_teachers=2: expected 0, the teachers in votes"),
        (7, r"votes=int: expected an array \[N, Q, L\] or blocks of one"),
    ],
)
def test_impossible_votes_are_refused(votes: Any, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        L1.gather(votes, num_teachers=2)


@pytest.mark.slow
def test_working_copies_are_those_of_a_few_teachers() -> None:
    """A block of 40 MB is read in pieces: beside it, less than twice as much."""
    votes = np.random.default_rng(0).integers(0, 8, size=(1000, 1000, 40), dtype=np.uint8) == 0
    tracemalloc.start()
    try:
        counts = replace(L1, vote_clip=5).gather(votes, num_teachers=1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert counts.shape == (1000, 40)
    assert peak < 2 * votes.nbytes


def test_teachers_whose_weights_do_not_add_up_exactly_are_refused() -> None:
    votes, most = np.ones((1, 1, 3), dtype=bool), 2**20
    with pytest.raises(InvalidValue, match=f"num_teachers={most + 1}: expected at most {most}"):
        ClippedVotes(noise_std=1.0, vote_clip=1, norm="l2").gather(votes, num_teachers=most + 1)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_under_add_remove_a_declared_teacher_may_be_missing(norm: str) -> None:
    """The threshold stays where the declared number puts it; counts are those of a teacher without a vote."""
    votes = np.random.default_rng(0).random((6, 4, 5)) < 0.5
    aggregator = ClippedVotes(noise_std=1.0, vote_clip=2, norm=norm, adjacency=Adjacency.ADD_REMOVE)
    silent = np.concatenate([votes, np.zeros((1, 4, 5), dtype=bool)])
    np.testing.assert_array_equal(aggregator.gather(votes, num_teachers=7), aggregator.gather(silent, num_teachers=7))
    with pytest.raises(InvalidValue, match="num_teachers=7: expected 0, the teachers in votes"):
        aggregator.gather(iter([]), num_teachers=7)
    with pytest.raises(InvalidValue, match="num_teachers=5: expected 6"):
        aggregator.gather(votes, num_teachers=5)
    with pytest.raises(InvalidValue, match="num_teachers=7: expected 6"):
        replace(aggregator, adjacency=Adjacency.REPLACE_ONE).gather(votes, num_teachers=7)
