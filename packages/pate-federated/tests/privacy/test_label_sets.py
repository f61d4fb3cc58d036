"""With different labels at holders, one teacher's change of votes and abstentions moves no counts beyond their price.

A teacher votes for a label, against it, or not at all. All votes of one teacher are tried beside all votes of the
other, in files of two holders with different labels.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from pate.accounting import Adjacency
from pate.aggregators import ClippedVotes, GaussianVotes
from pate.aggregators.aggregator import Aggregator
from pate.aggregators.thresholds import squared_sensitivity
from pate.array_types import IntArray
from pate_federated.distributed_votes import DistributedVotes
from pate_federated.gathered_votes import GatheredVotes
from small_federation.label_sets import UNKNOWN, write_votes
from tests.privacy.histograms import neighbors

Votes = tuple[int, ...]
Summary = tuple[int, ...]
NORTH = ("a", "b", "c")
SOUTH = ("b", "c")  # so the teacher of south abstains from a, which is public
NUM_TEACHERS = 2
NUM_LABELS = 3


def all_votes(num_labels: int) -> list[Votes]:
    """Returns all combinations of a teacher's votes on `num_labels` labels: for, against or none."""
    return list(product((1, 0, UNKNOWN), repeat=num_labels))


@pytest.fixture(scope="module")
def lists_of_gathered_votes(tmp_path_factory: pytest.TempPathFactory) -> list[list[GatheredVotes]]:
    """Returns lists of ensembles of two teachers, one of the holder north and one of the holder south.

    Within a list, one of the teachers casts all its possible votes in turn, and the other does not change its vote.
    """

    def vote_file_of(holder: str, *, label_names: tuple[str, ...], votes: Votes) -> Path:
        folder = tmp_path_factory.mktemp("votes")
        return write_votes(
            folder,
            holder=holder,
            label_names=label_names,
            votes=np.array([[votes]], np.int8),
            have_gaps=True,
        )

    norths = [
        vote_file_of("north", label_names=NORTH, votes=votes)
        for votes in all_votes(num_labels=len(NORTH))
    ]
    souths = [
        vote_file_of("south", label_names=SOUTH, votes=votes)
        for votes in all_votes(num_labels=len(SOUTH))
    ]
    by_north = [[GatheredVotes.read([north, south]) for south in souths] for north in norths]
    by_south = [[row[place] for row in by_north] for place in range(len(souths))]
    return by_north + by_south


def summarizer_of(aggregator: Aggregator) -> Callable[[GatheredVotes], Summary]:
    """Returns the function from an ensemble to the counts that an aggregator reads."""

    def summarize(gathered_votes: GatheredVotes) -> Summary:
        return tuple(aggregator.summarize(gathered_votes)[0].tolist())

    return summarize


def shares_of_those_who_vote(gathered_votes: GatheredVotes) -> Summary:
    """Returns counts for a negative control: the share of votes among those who vote on a label, times all teachers."""
    num_voting = np.maximum(gathered_votes.num_teachers - gathered_votes.num_abstaining(), 1)
    return tuple((gathered_votes.num_teachers * gathered_votes.counts()[0] // num_voting).tolist())


def pairs_of_summaries(
    lists_of_gathered_votes: list[list[GatheredVotes]],
    summarize: Callable[[GatheredVotes], Summary],
) -> set[tuple[Summary, Summary]]:
    """Returns the pairs of different counts of ensembles that differ in one teacher."""
    all_pairs = set()
    for votes_of_changes in lists_of_gathered_votes:
        changed_summaries = {summarize(gathered_votes) for gathered_votes in votes_of_changes}
        all_pairs |= {pair for pair in product(changed_summaries, repeat=2) if pair[0] != pair[1]}
    return all_pairs


@pytest.mark.slow
@pytest.mark.parametrize(
    "aggregator",
    [
        GaussianVotes(noise_std=1.0),
        ClippedVotes(noise_std=1.0, vote_clip=2, threshold_share=0.5),
        DistributedVotes(noise_std=1.0, num_holders=2, threshold_share=0.4),
    ],
    ids=lambda aggregator: type(aggregator).__name__,
)
def test_counts_of_different_labels_are_neighboring_counts(
    aggregator: Aggregator, lists_of_gathered_votes: list[list[GatheredVotes]]
) -> None:
    """If one teacher changes votes or abstentions, both counts also occur on neighbors without abstentions.

    So the prices that are verified there hold. Negative control: counts by shares of those who vote do not all occur
    there.
    """
    first_counts, second_counts = neighbors(
        num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS, adjacency=Adjacency.REPLACE_ONE
    )
    first_rows = map(tuple, first_counts.tolist())
    second_rows = map(tuple, second_counts.tolist())
    allowed = set(zip(first_rows, second_rows, strict=True))
    assert (
        pairs_of_summaries(lists_of_gathered_votes, summarize=summarizer_of(aggregator)) <= allowed
    )
    assert (
        not pairs_of_summaries(lists_of_gathered_votes, summarize=shares_of_those_who_vote)
        <= allowed
    )


@pytest.mark.slow
def test_clipped_counts_of_different_labels_move_as_far_as_is_paid(
    lists_of_gathered_votes: list[list[GatheredVotes]],
) -> None:
    """One teacher moves clipped counts in l1 norm by as much as is charged, and by no more.

    Negative control: if its abstentions counted as half votes, it would move them further.
    """
    aggregator = ClippedVotes(noise_std=1.0, vote_clip=1, threshold_share=0.5)
    paid = squared_sensitivity(max_votes=1, num_labels=NUM_LABELS, adjacency=Adjacency.REPLACE_ONE)

    def counts_with_halves(gathered_votes: GatheredVotes) -> Summary:
        clipped: IntArray = (
            gathered_votes.counts(max_votes=1)[0] + gathered_votes.num_abstaining() // 2
        )
        return tuple(clipped.tolist())

    def largest_move(summarize: Callable[[GatheredVotes], Summary]) -> int:
        return max(
            int(np.abs(np.subtract(*pair)).sum())
            for pair in pairs_of_summaries(lists_of_gathered_votes, summarize=summarize)
        )

    assert largest_move(summarize=summarizer_of(aggregator)) == paid
    assert largest_move(summarize=counts_with_halves) > paid


@pytest.mark.slow
def test_sums_of_two_holders_move_as_the_files_do(
    lists_of_gathered_votes: list[list[GatheredVotes]], tmp_path: Path
) -> None:
    """A file with the sum of two vote files has their counts, with abstentions as half votes."""
    summarize = summarizer_of(GaussianVotes(noise_std=1.0))
    for gathered_votes in lists_of_gathered_votes[0]:
        gathered_votes.write(tmp_path / "sum.npz")
        summed = GatheredVotes.read([tmp_path / "sum.npz"])
        assert summarize(summed) == summarize(gathered_votes)
