"""If teachers may abstain from labels, one teacher's change of votes and abstentions moves no sum further than is paid.

All ensembles of few teachers are tried; each teacher votes for a label, against it, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pate.accounting import Adjacency
from pate.aggregators import CenteredVotes, ClippedVotes, GaussianVotes, GNMax, PowersetGNMax
from pate.aggregators.aggregator import Aggregator
from pate.aggregators.thresholds import squared_sensitivity
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.clipping import ClippedSum
from pate.votes.label_shares import KNOWN_WEIGHT, RecordShares
from pate.votes.moment_votes import MomentVotes
from pate.votes.public_pca import PublicPCA
from pate.votes.round_votes import RoundQuestion
from pate.votes.shape import VoteShape
from pate.votes.source import CountableVotes, TeacherVotes
from tests.cases.discovery import CASE_FILES
from tests.privacy.divergences import (
    assert_covered,
    assert_reached,
    assert_refuted,
    largest_move,
    largest_renyi,
    price_curve,
)
from tests.privacy.histograms import neighbors
from tests.privacy.rival_distributions import bits_distribution

Votes = tuple[int, ...]
"""The votes of one teacher on the labels of a query: 1, 0, or -1 where the teacher does not vote."""
Summary = tuple[int, ...]
"""What an aggregator reads of the votes of all teachers, in whole numbers."""
Summarize = Callable[[list[Votes]], Summary]
ADJACENCIES = tuple(Adjacency)
SIZES = [(1, 4), (2, 3), (3, 2)]  # labels and teachers
UNKNOWN = -1


class VotesWithGaps(TeacherVotes):
    """The votes of some teachers on one query, in which -1 stands for an abstention."""

    def __init__(self, votes_of_teachers: list[Votes], *, num_teachers: int) -> None:
        self.votes = np.array(votes_of_teachers, dtype=np.int64)
        self.num_teachers = num_teachers
        self.num_queries = 1
        self.num_labels = self.votes.shape[1]
        self.records_per_teacher = 1.0

    def bits(self) -> Iterator[BoolArray]:
        """Yields the votes for labels as one block of bits."""
        yield (self.votes == 1)[:, None]

    def label_shares(self) -> FloatArray:
        """Returns 1 for each label that a teacher votes for, else 0, `[num_teachers, num_labels]`."""
        return (self.votes == 1).astype(np.float64)

    def known_shares(self) -> FloatArray:
        """Returns 1 for each label on which a teacher votes, and 0 where it abstains, `[num_teachers, num_labels]`."""
        return (self.votes != UNKNOWN).astype(np.float64)


def make_count_reader(aggregator: Aggregator, num_teachers: int) -> Summarize:
    """Returns the function from the votes of an ensemble to the counts that an aggregator reads."""

    def summarize(votes: list[Votes]) -> Summary:
        teacher_votes = VotesWithGaps(votes, num_teachers=num_teachers)
        return tuple(aggregator.summarize(teacher_votes)[0].tolist())

    return summarize


def make_share_reader(num_teachers: int) -> Summarize:
    """Returns a function for negative controls, from an ensemble's votes to shares among those who vote on a label.

    A share is scaled to the number of all teachers.
    """

    def summarize(votes: list[Votes]) -> Summary:
        columns = np.array(votes).T
        return tuple(
            num_teachers * int((column == 1).sum()) // max(int((column >= 0).sum()), 1)
            for column in columns
        )

    return summarize


def pairs_of_changed_summaries(
    summarize: Summarize, num_labels: int, num_teachers: int, adjacency: Adjacency
) -> Iterator[tuple[Summary, Summary]]:
    """Yields what `summarize` returns for each pair of neighboring ensembles, in both orders, if the two differ."""
    all_votes = list(product((1, 0, UNKNOWN), repeat=num_labels))
    for other_votes in combinations_with_replacement(all_votes, num_teachers - 1):
        changed_summaries = [summarize([*other_votes, votes]) for votes in all_votes]
        if adjacency is Adjacency.ADD_REMOVE:
            removed = summarize(list(other_votes))
            pairs = [pair for one in changed_summaries for pair in ((one, removed), (removed, one))]
        else:
            pairs = list(product(changed_summaries, repeat=2))
        yield from (pair for pair in pairs if pair[0] != pair[1])


def neighboring_counts(
    num_labels: int, num_teachers: int, adjacency: Adjacency
) -> set[tuple[Summary, Summary]]:
    """Returns all pairs of neighboring counts, on which prices are verified."""
    first, second = neighbors(num_labels=num_labels, num_teachers=num_teachers, adjacency=adjacency)
    return set(zip(map(tuple, first.tolist()), map(tuple, second.tolist()), strict=True))


def readers_of_counts() -> list[Any]:
    """Returns one aggregator of each shipped class whose price holds for any neighboring counts.

    Such an aggregator reads the counts of all labels, and limits no teacher's number of votes.
    """
    aggregators = [file.contract_cases[0].aggregator for file in CASE_FILES]
    return [
        pytest.param(aggregator, id=type(aggregator).__name__)
        for aggregator in aggregators
        if aggregator.reads is CountableVotes and aggregator.max_votes_per_teacher is None
    ]


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("aggregator", readers_of_counts())
def test_counts_of_votes_with_gaps_are_those_that_prices_are_verified_on(
    aggregator: Aggregator, adjacency: Adjacency
) -> None:
    """If one teacher changes votes and abstentions, some neighbors without abstentions have the same two counts.

    So the prices that `test_shipped.py` verifies cover abstentions. Negative control: shares among those who vote on a
    label have pairs that no such neighbors have.
    """
    for num_labels, num_teachers in SIZES:
        allowed_pairs = neighboring_counts(num_labels, num_teachers, adjacency)

        def changed_pairs(
            summarize: Summarize, num_labels: int = num_labels, num_teachers: int = num_teachers
        ) -> set[tuple[Summary, Summary]]:
            return set(pairs_of_changed_summaries(summarize, num_labels, num_teachers, adjacency))

        assert changed_pairs(make_count_reader(aggregator, num_teachers)) <= allowed_pairs
        assert not changed_pairs(make_share_reader(num_teachers)) <= allowed_pairs


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("noise_std", [0.5, 3.0])
def test_the_price_of_majorities_covers_abstentions(adjacency: Adjacency, noise_std: float) -> None:
    """The exact law of `GaussianVotes`, which counts two abstentions as one vote, stays within its price.

    Negative control: the law of shares among those who vote on a label exceeds it.
    """
    num_labels, num_teachers = 2, 3
    aggregator = GaussianVotes(noise_std=noise_std, adjacency=adjacency)
    shape = VoteShape(num_queries=1, num_labels=num_labels, num_teachers=num_teachers)
    price = price_curve(aggregator.event(shape))

    def largest_divergence(summarize: Summarize) -> FloatArray:
        pairs = sorted(
            set(pairs_of_changed_summaries(summarize, num_labels, num_teachers, adjacency))
        )
        first_laws, second_laws = (
            np.array(
                [
                    list(
                        bits_distribution(
                            np.array(pair[side]), noise_std=noise_std, num_teachers=num_teachers
                        ).values()
                    )
                    for pair in pairs
                ]
            )
            for side in (0, 1)
        )
        return largest_renyi(first_laws, second_laws)

    exact = largest_divergence(summarize=make_count_reader(aggregator, num_teachers))
    assert assert_covered(renyi_divergence=exact, renyi_price=price) > 0.9
    exact_of_shares = largest_divergence(summarize=make_share_reader(num_teachers))
    assert_refuted(renyi_divergence=exact_of_shares, renyi_price=price)


def test_halves_are_rounded_down_to_whole_votes() -> None:
    """Two abstentions from a label count as one vote, and a single one as none."""
    votes = VotesWithGaps([(1, 1), (0, 1), (1, 0), (-1, 0), (-1, -1)], num_teachers=5)
    assert GaussianVotes(noise_std=1.0).summarize(votes).tolist() == [[2 + 1, 2]]
    assert votes.counts().tolist() == [[2, 2]]


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_limited_votes_with_gaps_move_as_many_counts_as_are_paid(adjacency: Adjacency) -> None:
    """One teacher with abstentions moves counts of `ClippedVotes` and `GNMax` by at most the charged number of votes.

    Negative control: abstentions as half votes would move more of the clipped counts.
    """
    num_labels, num_teachers = 3, 2
    clipped_aggregator = ClippedVotes(noise_std=1.0, vote_clip=1, adjacency=adjacency)
    winner_aggregator = GNMax(noise_std=1.0, adjacency=adjacency)
    charged_votes = squared_sensitivity(max_votes=1, num_labels=num_labels, adjacency=adjacency)

    def summarize_by_halves(votes: list[Votes]) -> Summary:
        counts = make_count_reader(clipped_aggregator, num_teachers)(votes)
        abstaining = (np.array(votes) == UNKNOWN).sum(axis=0)
        return tuple((np.array(counts) + abstaining // 2).tolist())

    def num_moved_votes(summarize: Summarize) -> int:
        pairs = pairs_of_changed_summaries(summarize, num_labels, num_teachers, adjacency)
        return max(int(np.abs(np.subtract(first, second)).sum()) for first, second in pairs)

    assert num_moved_votes(make_count_reader(clipped_aggregator, num_teachers)) == charged_votes
    assert num_moved_votes(make_count_reader(winner_aggregator, num_teachers)) == charged_votes
    assert num_moved_votes(summarize_by_halves) > charged_votes


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_teacher_with_gaps_votes_for_one_set(adjacency: Adjacency) -> None:
    """A teacher with abstentions votes for one set of labels, so that a change moves the counts of sets as is charged.

    Negative control: a vote for each set that its abstentions allow would move them further.
    """
    num_labels, num_teachers = 2, 2
    aggregator = PowersetGNMax(noise_std=1.0, adjacency=adjacency)
    all_sets = list(product((0, 1), repeat=num_labels))

    def summarize_by_sets(votes: list[Votes]) -> Summary:
        counted_sets = aggregator.summarize(VotesWithGaps(votes, num_teachers=num_teachers))
        count_of_set = {
            tuple(map(int, counted_set["labels"])): int(counted_set["count"])
            for counted_set in counted_sets
        }
        return tuple(count_of_set.get(labels, 0) for labels in all_sets)

    def summarize_by_completions(votes: list[Votes]) -> Summary:
        return tuple(
            sum(
                all(vote in (UNKNOWN, label) for vote, label in zip(one, labels, strict=True))
                for one in votes
            )
            for labels in all_sets
        )

    def num_moved_votes(summarize: Summarize) -> int:
        pairs = pairs_of_changed_summaries(summarize, num_labels, num_teachers, adjacency)
        return max(int(np.abs(np.subtract(first, second)).sum()) for first, second in pairs)

    assert num_moved_votes(summarize_by_sets) == adjacency.num_moved
    assert num_moved_votes(summarize_by_completions) > adjacency.num_moved


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_centered_votes_with_gaps_move_the_sum_by_as_much_as_is_paid(adjacency: Adjacency) -> None:
    """The votes of one teacher, with any abstentions, move the clipped sum by at most its sensitivity.

    Some votes move the sum by over 90% of the sensitivity. A teacher without any vote adds 0.
    """
    center = np.array([0.1, 0.6, 0.5])
    aggregator = CenteredVotes(
        noise_multiplier=1.0, prevalence_share=0.0, center=center, clip=0.5, adjacency=adjacency
    )
    clipped_votes = [
        aggregator.summarize(VotesWithGaps([votes], num_teachers=1)).ravel()
        for votes in product((1, 0, UNKNOWN), repeat=3)
    ]
    clipped_sum = ClippedSum(clip=0.5, sum_shape=(1, 3), adjacency=adjacency)
    assert_reached(clipped_votes, adjacency, claimed_l2_sensitivity=clipped_sum.l2_sensitivity)
    sum_without_votes = aggregator.summarize(VotesWithGaps([(UNKNOWN,) * 3], num_teachers=1))
    assert not sum_without_votes.any()


POOL = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)


@pytest.mark.parametrize("num_records", [1, 2, 40])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_votes_in_rounds_with_gaps_move_the_sum_by_as_much_as_is_paid(
    adjacency: Adjacency, num_records: int
) -> None:
    """If a teacher's labels, known or unknown, are replaced or removed, a round's sum moves by at most its sensitivity.

    Negative control: sums that are divided by the share of known labels after the clip would move further.
    """
    public_pca = PublicPCA.fit(POOL, max_directions=3)
    weights = np.random.default_rng(1).normal(size=(public_pca.width + 1, 2))
    moment_clipping = ClippedMoments(clip=0.2, num_teachers=1, adjacency=adjacency)
    question = RoundQuestion(weights, label_scale=np.ones(2), moment_clipping=moment_clipping)
    inputs = np.tile(POOL[:1], (num_records, 1))

    def sum_of_votes(labels: NDArray[np.int8]) -> IntArray:
        votes = MomentVotes(
            inputs=inputs,
            labels=labels,
            teacher_of=np.zeros(num_records, dtype=np.int64),
            num_teachers=1,
            public_pca=public_pca,
            public_inputs=POOL,
            records_per_teacher=1.0,
        )
        return votes.total(question).ravel()

    sums_of_possible_labels = []
    sums_over_known_share = []
    for labels_of_first_record in product((1, 0, UNKNOWN), repeat=2):
        for labels_of_other_records in product((1, 0, UNKNOWN), repeat=2):
            labels = np.tile(np.array(labels_of_other_records, dtype=np.int8), (num_records, 1))
            labels[0] = labels_of_first_record
            sums_of_possible_labels.append(sum_of_votes(labels))
            known_share = max((labels != UNKNOWN).mean(), 0.5 / num_records)
            sums_over_known_share.append(sums_of_possible_labels[-1] / known_share)
    assert_reached(
        sums_of_possible_labels, adjacency, claimed_l2_sensitivity=moment_clipping.l2_sensitivity
    )
    move_over_known_share = largest_move(np.array(sums_over_known_share), adjacency)
    assert move_over_known_share > moment_clipping.l2_sensitivity
    assert not sum_of_votes(np.full((num_records, 2), UNKNOWN, dtype=np.int8)).any()


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_vector_of_shares_with_gaps_moves_by_as_much_as_is_paid(adjacency: Adjacency) -> None:
    """A teacher's shares move the sum over teachers by at most the distance that is charged, and by over 90% of it.

    The shares of a teacher are, for each label, the share of its records that have the label, and the share for which
    the label is known. They are clipped as one vector. If both halves were clipped one by one, the sum would move
    further.
    """
    center = 0.5 * np.array([1, 1, KNOWN_WEIGHT, KNOWN_WEIGHT])
    clipped_sum = ClippedSum(clip=0.4, sum_shape=(1, 4), adjacency=adjacency)
    clipped_sum_of_teacher_halves = ClippedSum(clip=0.4, sum_shape=(1, 2), adjacency=adjacency)
    clipped_share_vectors = []
    vectors_clipped_by_halves = []
    for votes in product((1, 0, UNKNOWN), repeat=2):
        votes_of_teacher = np.array([votes])
        is_known = votes_of_teacher != UNKNOWN
        shares = RecordShares(
            labels=votes_of_teacher == 1,
            teacher_of=np.zeros(1, dtype=np.int64),
            num_teachers=1,
            known_label_mask=is_known,
        )
        clipped_share_vectors.append(shares.total(clipped_sum, center).ravel())
        assert shares.lengths().sum() == int((votes_of_teacher == 1).any())
        halves_of_vector = np.split(
            np.append(votes_of_teacher == 1, KNOWN_WEIGHT * is_known) - center, 2
        )
        sums = [
            clipped_sum_of_teacher_halves.total(
                half_of_vector[None, None], center=0.0, num_teachers=1
            )
            for half_of_vector in halves_of_vector
        ]
        vectors_clipped_by_halves.append(np.concatenate(sums, axis=1).ravel())
    assert_reached(
        clipped_share_vectors, adjacency, claimed_l2_sensitivity=clipped_sum.l2_sensitivity
    )
    assert (
        largest_move(np.array(vectors_clipped_by_halves), adjacency)
        > clipped_sum_of_teacher_halves.l2_sensitivity
    )
