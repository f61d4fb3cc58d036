"""Lower bounds on epsilon: prices are at most a known factor above them, and a price below them is noticed."""

import pytest

from benchmarks.tightness import find_faults
from pate.accounting import AutoAccountant, RdpAccountant
from pate.aggregators import (
    Aggregator,
    BoundaryMax,
    CenteredVotes,
    ClippedVotes,
    FixedTopK,
    GaussianVotes,
    GNMax,
    PowersetGNMax,
    StableTopK,
)
from pate.auditing import lower_bound_of
from pate.votes import VoteShape

SHAPE = VoteShape(num_queries=60, num_labels=4, num_teachers=200)
TIGHT: dict[str, tuple[Aggregator, float]] = {
    "gnmax": (GNMax(noise_std=20.0), 1.15),
    "gnmax, add/remove": (GNMax(noise_std=20.0, adjacency="add_remove"), 1.6),  # type: ignore[arg-type]
    "powerset": (PowersetGNMax(noise_std=20.0), 1.15),
    "gaussian": (GaussianVotes(noise_std=30.0), 1.1),
    "clipped": (ClippedVotes(noise_std=20.0, vote_clip=1), 1.15),
    "stable": (StableTopK(selection_scale=20.0, test_std=8.0), 1.6),
    "peeling": (FixedTopK(k=2, epsilon=0.2), 1.2),
    "joint": (FixedTopK(k=1, epsilon=0.2, mechanism="joint"), 1.1),
    "boundary": (BoundaryMax(selection_scale=20.0, target_hits=2), 1.6),
    "boundary, add/remove": (
        BoundaryMax(selection_scale=10.0, target_hits=2, adjacency="add_remove"),
        1.6,
    ),  # type: ignore[arg-type]
    "canonical": (FixedTopK(k=3, epsilon=0.2, mechanism="canonical"), 1.6),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TIGHT)
def test_prices_are_between_the_lower_bound_and_a_little_more(name: str) -> None:
    """The Renyi price of an aggregator lies between its lower bound and a known multiple of it.

    The lower bound comes from a search over neighboring votes.
    """
    aggregator, most = TIGHT[name]
    lower_bound = lower_bound_of(aggregator, shape=SHAPE, target_delta=1e-5)
    assert lower_bound is not None
    price = RdpAccountant().compose(aggregator.event(SHAPE)).get_epsilon(target_delta=1e-5)
    assert lower_bound.epsilon <= price <= most * lower_bound.epsilon


def test_what_no_search_is_known_for_has_no_bound() -> None:
    """`lower_bound_of` returns None for centered votes, and for fixed top-k that releases all labels."""
    assert (
        lower_bound_of(
            aggregator=CenteredVotes(noise_multiplier=1.0, clip=1.0), shape=SHAPE, target_delta=1e-5
        )
        is None
    )
    assert (
        lower_bound_of(aggregator=FixedTopK(k=4, epsilon=0.2), shape=SHAPE, target_delta=1e-5)
        is None
    )


@pytest.mark.parametrize(
    "shape",
    [
        VoteShape(num_queries=60, num_labels=4, num_teachers=4),
        VoteShape(num_queries=60, num_labels=1, num_teachers=200),
    ],
)
def test_stable_top_k_without_a_gap_to_try_has_no_bound(shape: VoteShape) -> None:
    """`lower_bound_of` returns None for stable top-k of so few teachers or labels that no gap fits."""
    aggregator = StableTopK(selection_scale=20.0, test_std=8.0)
    assert lower_bound_of(aggregator, shape=shape, target_delta=1e-5) is None


def test_clipped_votes_are_bounded_by_labels_that_lose_and_gain_alike() -> None:
    """The neighbors of the lower bound for clipped votes under replace-one have equally many votes.

    A teacher that takes back its only vote can cast one other vote. Counts are not symmetric around the threshold of
    67.6 votes, so a lost and a gained vote tell different amounts. The price is at most 1.15 times the lower bound.
    """
    aggregator = ClippedVotes(noise_std=20.0, vote_clip=1, threshold_share=0.338)
    lower_bound = lower_bound_of(aggregator, shape=SHAPE, target_delta=1e-5)
    assert lower_bound is not None
    assert sum(lower_bound.first) == sum(lower_bound.second)
    assert lower_bound.num_releases == SHAPE.num_queries
    price = RdpAccountant().compose(aggregator.event(SHAPE)).get_epsilon(target_delta=1e-5)
    assert lower_bound.epsilon <= price <= 1.15 * lower_bound.epsilon


@pytest.mark.slow
def test_a_price_10_percent_too_small_is_refuted_and_a_looser_one_noticed() -> None:
    """`find_faults` reports a price 10% too small, a price 10% larger than recorded, and a price without a record.

    The price is compared with its lower bound and with the recorded ratio of both. The right price gives no fault.
    """
    aggregator = FixedTopK(k=1, epsilon=0.2, mechanism="joint")
    lower_bound = lower_bound_of(aggregator, shape=SHAPE, target_delta=1e-5)
    assert lower_bound is not None
    price = AutoAccountant().compose(aggregator.event(SHAPE)).get_epsilon(target_delta=1e-5)
    recorded_ratios = {"auto": price / lower_bound.epsilon}
    right_price, small_price, large_price = (
        {"auto": price},
        {"auto": 0.9 * price},
        {"auto": 1.1 * price},
    )
    assert find_faults(lower_bound.epsilon, prices=right_price, recorded=recorded_ratios) == []
    [fault] = find_faults(lower_bound.epsilon, prices=small_price, recorded=recorded_ratios)
    assert "refuted" in fault
    [fault] = find_faults(lower_bound.epsilon, prices=large_price, recorded=recorded_ratios)
    assert "times its lower bound" in fault
    [fault] = find_faults(lower_bound.epsilon, prices=right_price, recorded={})
    assert "no recorded ratio" in fault
