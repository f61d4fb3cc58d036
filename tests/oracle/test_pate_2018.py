"""Prices for the MNIST experiment of Papernot et al. 2018: 1,000 queries screened, at most 286 answered, delta 1e-5."""

import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from pate.accounting import DEFAULT_ORDERS, AutoAccountant, ExactAccountant, RdpAccountant
from pate.accounting.data_dependent_epsilon import DataDependentEpsilon, UnknownCost
from pate.accounting.events import ComposedEvent, GaussianEvent, SelfComposedEvent
from pate.aggregators import (
    Aggregator,
    CenteredVotes,
    ConfidentGNMax,
    ConfidentVotes,
    GaussianVotes,
    GNMax,
    StableTopK,
)
from pate.auditing.aggregator_cost import cost_on, threshold_cost
from pate.auditing.data_dependent import DataDependentCost
from tests.refusals import refused_parameter

DELTA = 1e-5
SCREENED = 1000
ANSWERED = 286
TEACHERS = 250
PAPER = ConfidentGNMax(screening_std=150, threshold_share=0.8, noise_std=40, max_answers=ANSWERED)


def test_the_cost_of_all_counts_follows_proposition_8() -> None:
    """If all noisy counts are released, epsilon is 3.24 by Proposition 8 and 2.60 by the exact accountant.

    Two counts differ between neighbors.
    """
    rho = ANSWERED / 40**2 + SCREENED / (2 * 150**2)
    assert rho + 2 * math.sqrt(rho * math.log(1 / DELTA)) == pytest.approx(3.24, abs=0.005)
    queries_and_screenings = (
        SelfComposedEvent(event=GaussianEvent(noise_multiplier=40 / 2**0.5), count=ANSWERED),
        SelfComposedEvent(event=GaussianEvent(noise_multiplier=150), count=SCREENED),
    )
    exact = (
        ExactAccountant()
        .compose(ComposedEvent(queries_and_screenings))
        .get_epsilon(target_delta=DELTA)
    )
    assert exact == pytest.approx(2.60, abs=0.005)
    mu = mpmath.sqrt(2 * rho)
    normal_cdf = mpmath.ncdf
    delta = normal_cdf(mu / 2 - exact / mu) - mpmath.exp(exact) * normal_cdf(-mu / 2 - exact / mu)
    assert float(delta) == pytest.approx(DELTA, rel=1e-6)


@pytest.mark.slow
def test_data_independent_price_of_winners_is_below_that_of_all_counts() -> None:
    """If only the labels with the largest noisy counts are released, epsilon is 2.21 by Renyi and 2.07 by `auto`.

    That is less than the 3.24 and 2.60 of all counts.
    """
    event = PAPER.event_for(num_queries=SCREENED, num_labels=10, num_teachers=TEACHERS)
    prices = [
        make_accountant().compose(event).get_epsilon(target_delta=DELTA)
        for make_accountant in (RdpAccountant, AutoAccountant)
    ]
    assert prices == [pytest.approx(2.21, abs=0.005), pytest.approx(2.07, abs=0.005)]


def clear_vote_counts(num_queries: int) -> np.ndarray:
    """Returns vote counts `[num_queries, 10]` of queries on which all but ten of 250 teachers agree, as on MNIST."""
    others = np.random.default_rng(0).multinomial(n=10, pvals=[1 / 9] * 9, size=num_queries)
    return np.column_stack([np.full(num_queries, TEACHERS - 10), others])


@pytest.mark.parametrize(
    "aggregator",
    [
        PAPER,
        GNMax(noise_std=40),
        GaussianVotes(noise_std=40),
        ConfidentVotes(screening_std=150, threshold_share=0.8, noise_std=40),
    ],
)
def test_clear_votes_cost_less_than_the_guarantee(aggregator: Aggregator) -> None:
    """On clear votes, the data-dependent cost is at most the price at each Renyi order, and its epsilon is smaller.

    This epsilon is marked as private, and cannot be added to a number. The cost of all queries is at least that of the
    answered ones.
    """
    vote_counts = clear_vote_counts(num_queries=SCREENED)
    answered = np.arange(SCREENED) < ANSWERED
    cost = cost_on(
        aggregator, vote_counts, num_teachers=TEACHERS, orders=DEFAULT_ORDERS, answered=answered
    )
    assert cost is not None
    event = aggregator.event_for(num_queries=SCREENED, num_labels=10, num_teachers=TEACHERS)
    curve = RdpAccountant(orders=DEFAULT_ORDERS).compose(event).rdp
    assert (cost.rdp <= curve * (1 + 1e-9)).all()
    epsilon_on_votes = cost.epsilon(target_delta=DELTA)
    assert (
        0 < epsilon_on_votes.value < RdpAccountant().compose(event).get_epsilon(target_delta=DELTA)
    )
    assert "private, no guarantee" in str(epsilon_on_votes)
    with pytest.raises(TypeError, match="unsupported operand"):
        epsilon_on_votes + 1.0  # type: ignore[operator]  # it is no price
    everything = cost_on(aggregator, vote_counts, num_teachers=TEACHERS, orders=DEFAULT_ORDERS)
    assert everything is not None
    assert (everything.rdp >= cost.rdp).all()


def test_the_costs_of_screening_and_answers_add_up() -> None:
    """The data-dependent cost of ConfidentGNMax is the sum of its cost without answers and that of GNMax."""
    vote_counts = clear_vote_counts(num_queries=ANSWERED)
    none_answered = np.zeros(ANSWERED, bool)
    orders = np.array([2.0, 8.0, 20.0])
    screening = cost_on(
        PAPER, vote_counts, num_teachers=TEACHERS, orders=orders, answered=none_answered
    )
    both = cost_on(PAPER, vote_counts, num_teachers=TEACHERS, orders=orders)
    assert screening is not None
    assert both is not None
    answers = cost_on(GNMax(noise_std=40), vote_counts, num_teachers=TEACHERS, orders=orders)
    assert isinstance(answers, DataDependentCost)
    np.testing.assert_allclose(both.rdp, screening.rdp + answers.rdp)


def test_votes_without_a_theorem_raise_unknown_cost() -> None:
    """`cost_on` raises `UnknownCost` where no theorem applies.

    Four cases are tried: a teacher that casts no vote, add-remove adjacency, the aggregators `StableTopK` and
    `CenteredVotes`, and people with two teachers.
    """
    vote_counts = clear_vote_counts(num_queries=3)
    vote_counts[1, 0] -= 1  # a teacher that said nothing
    with refused_parameter("votes", rule_words="one vote of", kind=UnknownCost):
        cost_on(GNMax(noise_std=40), vote_counts, num_teachers=TEACHERS, orders=[2.0])
    add_remove_aggregator = GNMax(noise_std=40, adjacency="add_remove")  # type: ignore[arg-type]
    with refused_parameter("adjacency", value="add_remove", kind=UnknownCost):
        cost_on(
            add_remove_aggregator,
            clear_vote_counts(num_queries=3),
            num_teachers=TEACHERS,
            orders=[2.0],
        )
    for aggregator in (
        StableTopK(selection_scale=5.0, test_std=5.0),
        CenteredVotes(noise_multiplier=5.0),
    ):
        with refused_parameter("aggregator", value=type(aggregator).__name__, kind=UnknownCost):
            cost_on(
                aggregator, clear_vote_counts(num_queries=3), num_teachers=TEACHERS, orders=[2.0]
            )
    aggregator_of_two_teachers_a_person = GaussianVotes(noise_std=40, teachers_reached=2)
    with refused_parameter("teachers_reached", value=2, kind=UnknownCost):
        cost_on(
            aggregator_of_two_teachers_a_person,
            clear_vote_counts(num_queries=3),
            num_teachers=TEACHERS,
            orders=[2.0],
        )
    assert isinstance(
        DataDependentCost(orders=np.array([2.0]), rdp=np.array([0.1])).epsilon(target_delta=DELTA),
        DataDependentEpsilon,
    )


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_a_bits_cost_is_the_largest_divergence_to_a_neighbor(share: float) -> None:
    """The data-dependent cost of one bit is the largest Renyi divergence to or from a neighboring count."""
    teachers = 9
    std = 1.5
    order = 3.0
    yes_probs = ndtr((np.arange(teachers + 1) - share * teachers) / std)

    def divergence(p: float, q: float) -> float:
        """Returns the Renyi divergence at `order` of two bits that are 1 with the probabilities p and q."""
        moment = p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
        return math.log(moment) / (order - 1)

    for count in range(teachers + 1):
        neighbors = [near for near in (count - 1, count + 1) if 0 <= near <= teachers]
        worst = max(
            max(
                divergence(p=yes_probs[count], q=yes_probs[near]),
                divergence(p=yes_probs[near], q=yes_probs[count]),
            )
            for near in neighbors
        )
        actual = threshold_cost(
            np.array([count]),
            noise_std=std,
            threshold_share=share,
            num_teachers=teachers,
            orders=[order],
        )
        assert actual.rdp[0] == pytest.approx(worst, rel=1e-9)
