"""The price of the label with the largest noisy count, against exact laws on all histograms with one vote a teacher."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from pate.accounting import (
    Accountant,
    Adjacency,
    Event,
    ExactAccountant,
    GaussianEvent,
    PldAccountant,
    RdpAccountant,
)
from pate.aggregators import ConfidentGNMax, GNMax, PowersetGNMax
from pate.mechanisms.noise.maxima import gaussian_argmax
from pate.testing import Claim, Verdict, verify
from pate.votes.arrays import VoteBlocks
from tests.privacy.rival_distributions import noisy_max_distribution

every_adjacency = pytest.mark.parametrize("adjacency", tuple(Adjacency))


def verdict_on_winner(
    event: Event | Claim,
    *,
    adjacency: Adjacency,
    noise_std: float,
    num_labels: int = 3,
    num_teachers: int = 5,
) -> Verdict:
    """Returns the verdict on a claim about the label with the largest noisy count.

    It compares all neighboring histograms with one vote of each teacher.
    """

    def compute_distribution(histogram: np.ndarray) -> dict[int, float]:
        expected = noisy_max_distribution(histogram, noise_std=noise_std)
        of_package = gaussian_argmax(histogram / noise_std)
        np.testing.assert_allclose(of_package, expected, rtol=1e-6, atol=1e-12)
        return dict(enumerate(expected.tolist()))

    return verify(
        compute_distribution,
        num_labels=num_labels,
        num_teachers=num_teachers,
        adjacency=adjacency,
        event=event,
        one_vote=True,
    )


@pytest.mark.slow
@every_adjacency
@pytest.mark.parametrize("noise_std", [0.7, 2.0, 6.0])
@pytest.mark.parametrize("accountant_class", [RdpAccountant, ExactAccountant, PldAccountant])
def test_no_pair_of_tables_costs_more(
    accountant_class: type[Accountant], noise_std: float, adjacency: Adjacency
) -> None:
    """The price of GNMax holds on all neighboring histograms of five teachers.

    Negative control: 60% of the price is refuted, unless the noise is 0.7.
    """
    event = GNMax(noise_std=noise_std, adjacency=adjacency).event_for(
        num_queries=1, num_labels=3, num_teachers=5
    )
    claim = Claim.from_event(event, accountant=accountant_class)
    verdict, verdict_on_less = (
        verdict_on_winner(each, adjacency=adjacency, noise_std=noise_std)
        for each in (claim, claim.scaled(factor=0.6))
    )
    assert verdict.sound
    assert verdict_on_less.refuted or noise_std == 0.7
    if (noise_std, accountant_class, adjacency) == (6.0, RdpAccountant, Adjacency.REPLACE_ONE):
        assert verdict.ratio > 0.88  # so the price is nearly attained


@every_adjacency
def test_three_aggregators_charge_for_a_winner(adjacency: Adjacency) -> None:
    """GNMax and powerset GNMax have the same event.

    ConfidentGNMax has the same epsilon if its screening costs nearly nothing.
    """
    event, powerset_event, event_of_confident_gnmax = (
        aggregator.event_for(num_queries=1, num_labels=3, num_teachers=5)
        for aggregator in (
            GNMax(noise_std=4.0, adjacency=adjacency),
            PowersetGNMax(noise_std=4.0, adjacency=adjacency),
            ConfidentGNMax(
                screening_std=1e9, threshold_share=0.5, noise_std=4.0, adjacency=adjacency
            ),
        )
    )
    assert powerset_event == event
    epsilon, epsilon_of_confident_gnmax = (
        RdpAccountant().compose(release).get_epsilon(target_delta=1e-5)
        for release in (event, event_of_confident_gnmax)
    )
    assert epsilon == pytest.approx(epsilon_of_confident_gnmax, rel=1e-4)


@pytest.mark.parametrize("num_teachers", [1, 2, 4])
@every_adjacency
def test_a_winner_among_all_sets_of_two_labels_is_covered(
    adjacency: Adjacency, num_teachers: int
) -> None:
    """The price of powerset GNMax on two labels, which have four sets, holds on all neighboring histograms of sets.

    Over 30% of the price is reached.
    """
    event = PowersetGNMax(noise_std=1.0, adjacency=adjacency).event_for(
        num_queries=1, num_labels=2, num_teachers=9
    )
    verdict = verdict_on_winner(
        event, adjacency=adjacency, noise_std=1.0, num_labels=4, num_teachers=num_teachers
    )
    assert verdict.require().ratio > 0.3


def test_a_price_of_one_count_does_not_cover_replace_one() -> None:
    """Negative control: under replace-one, the price of one noisy count that moves is refuted.

    The price of two noisy counts that move holds, but is not reached, as only the winner is shown.
    """
    verdict_on_one_count, verdict_on_two_counts = (
        verdict_on_winner(
            GaussianEvent(noise_multiplier=noise_multiplier),
            adjacency=Adjacency.REPLACE_ONE,
            noise_std=1.0,
            num_labels=4,
            num_teachers=4,
        )
        for noise_multiplier in (1.0, 0.5**0.5)
    )
    assert not verdict_on_one_count.sound
    assert 0.5 < verdict_on_two_counts.ratio < 1


def test_a_histogram_of_sets_is_what_the_teachers_say() -> None:
    """The summary of powerset GNMax counts how many of three teachers voted for each of four sets of labels."""
    aggregator = PowersetGNMax(noise_std=1.0)
    all_sets = np.array(list(product((False, True), repeat=2)))
    for sets_of_teachers in combinations_with_replacement(range(len(all_sets)), r=3):
        votes = all_sets[list(sets_of_teachers)][:, None]
        summary = aggregator.summarize(VoteBlocks(votes, num_teachers=3))
        counts = np.zeros(4, dtype=int)
        counts[summary["labels"] @ [2, 1]] = summary["count"]
        np.testing.assert_array_equal(counts, np.bincount(sets_of_teachers, minlength=4))


@pytest.mark.parametrize("max_size", [1, 2, None])
def test_one_teacher_counts_for_one_set_and_no_label_that_it_did_not_name(
    max_size: int | None,
) -> None:
    """The summary of one teacher is one set of at most `max_size` labels, all of which it voted for."""
    aggregator = PowersetGNMax(noise_std=1.0, max_size=max_size)
    for votes in product((False, True), repeat=4):
        summary = aggregator.summarize(VoteBlocks(np.array([[votes]]), num_teachers=1))
        assert summary["count"].tolist() == [1]
        counted_set = summary["labels"][0].tolist()
        assert sum(counted_set) == min(sum(votes), max_size or 4)
        assert all(vote for vote, counted in zip(votes, counted_set, strict=True) if counted)
