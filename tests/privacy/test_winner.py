"""The price of a winner against exact distributions on all tables of small instances with one vote a teacher."""

import numpy as np
import pytest

from pate.accounting import Accountant, Adjacency, ExactAccountant, PldAccountant, RdpAccountant
from pate.aggregators import ConfidentGNMax, GNMax, PowersetGNMax
from pate.mechanisms.noise.kinds import gaussian_argmax
from pate.verification import Claim, Verdict, verify

NUM_LABELS, NUM_TEACHERS = 3, 5
adjacencies = pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])


def verified(event, adjacency: str, *, noise_std: float, scale: float = 1.0, kind: type[Accountant]) -> Verdict:  # type: ignore[no-untyped-def]
    def distribution(histogram: np.ndarray) -> dict[int, float]:
        return dict(enumerate(gaussian_argmax(histogram / noise_std).tolist()))

    return verify(
        distribution,
        num_labels=NUM_LABELS,
        num_teachers=NUM_TEACHERS,
        adjacency=Adjacency.parse(adjacency),
        event=Claim.of(event, accountant=kind).scaled(scale),
        one_vote=True,
    )


@adjacencies
@pytest.mark.parametrize("noise_std", [0.7, 2.0, 6.0])
@pytest.mark.parametrize("kind", [RdpAccountant, ExactAccountant, PldAccountant])
def test_no_pair_of_tables_costs_more(kind: type[Accountant], noise_std: float, adjacency: str) -> None:
    shape = {"num_queries": 1, "num_labels": NUM_LABELS, "num_teachers": NUM_TEACHERS}
    event = GNMax(noise_std=noise_std, adjacency=Adjacency.parse(adjacency)).event_for(**shape)
    assert verified(event, adjacency, noise_std=noise_std, kind=kind).sound
    control = verified(event, adjacency, noise_std=noise_std, kind=kind, scale=0.6)
    assert control.refuted or noise_std == 0.7


def test_the_counts_price_would_not_be_refuted_until_it_is_much_smaller() -> None:
    """The control's control: at 0.6 of the winner's price something is found, so 1.0 is nearly what there is."""
    event = GNMax(noise_std=6.0).event_for(num_queries=1, num_labels=3, num_teachers=5)
    assert verified(event, "replace_one", noise_std=6.0, kind=RdpAccountant).ratio > 0.88


@adjacencies
def test_three_aggregators_charge_for_a_winner(adjacency: str) -> None:
    shape = {"num_queries": 2, "num_labels": 3, "num_teachers": 5}
    kind = Adjacency.parse(adjacency)
    one = GNMax(noise_std=4.0, adjacency=kind).event_for(**shape)
    assert PowersetGNMax(noise_std=4.0, adjacency=kind).event_for(**shape) == one
    confident = ConfidentGNMax(screening_std=1e9, threshold_share=0.5, noise_std=4.0, adjacency=kind)
    prices = [RdpAccountant().compose(event).get_epsilon(1e-5) for event in (one, confident.event_for(**shape))]
    assert prices[0] == pytest.approx(prices[1], rel=1e-4)
