"""Steps of docs/proofs/hits.md: moments of single calls with less weight on hits, and what attains the bounds."""

import itertools
import math

import numpy as np
import pytest

from pate.accounting.events import BoundarySessionEvent, NoOpEvent, SessionEvent
from pate.accounting.renyi import bounded_range_rdp, pure_dp_rdp
from pate.accounting.session_rdp import call_cost, hit_cost, session_rdp
from pate.accounting.target_charging import (
    QTarget,
    boundary_distribution,
    not_prior,
    tight_boundary,
)
from pate.array_types import FloatArray

Pair = tuple[FloatArray, FloatArray]
"""The laws of calls on two neighbors, `[num_calls, num_outcomes]` each."""

CALL_EPSILONS = (0.05, 0.5, 1.5)
ROUNDING = 1e-12
every_kind = pytest.mark.parametrize(
    "bounded_range", [True, False], ids=["bounded range", "pure DP"]
)


def boundary_event(
    call_epsilon: float, *, bounded_range: bool, target_hits: int = 3, num_calls: float = math.inf
) -> SessionEvent:
    """Returns the event of a session of boundary calls, whose answer is at times "boundary", the hit.

    Args:
        call_epsilon: the epsilon of a call without the boundary wrapper.
        bounded_range: whether that epsilon is a bounded range, and not pure DP.
        target_hits: the number of hits that ends the session.
        num_calls: the largest number of calls.
    """
    target = tight_boundary(call_epsilon)
    return BoundarySessionEvent(
        epsilon=target.epsilon,
        hit_prob=target.hit_prob,
        target_hits=target_hits,
        num_calls=num_calls,
        accesses=NoOpEvent(),
        call_epsilon=call_epsilon,
        bounded_range=bounded_range,
    )


def target_event(
    target: QTarget, *, target_hits: int = 3, num_calls: float = math.inf
) -> SessionEvent:
    """Returns the event of a session of calls with a target; a hit is an outcome in the target's set."""
    return SessionEvent(
        epsilon=target.epsilon,
        hit_prob=target.hit_prob,
        target_hits=target_hits,
        num_calls=num_calls,
        accesses=NoOpEvent(),
    )


def orders_for(epsilon: float) -> FloatArray:
    """Returns 40 Renyi orders that suit calls of an epsilon."""
    return 1 + np.geomspace(1e-2, 3 / epsilon, 40)


def moment_terms(
    first_probs: FloatArray | float, second_probs: FloatArray | float, renyi_orders: FloatArray
) -> FloatArray:
    """Returns first_probs**a second_probs**(1 - a) for each Renyi order a, which lies along the last axis."""
    log_first = np.log(np.asarray(first_probs, dtype=np.float64))[..., None]
    log_second = np.log(np.asarray(second_probs, dtype=np.float64))[..., None]
    return np.asarray(np.exp(renyi_orders * log_first + (1 - renyi_orders) * log_second))


def draw_laws(rng: np.random.Generator, *, num_laws: int, num_outcomes: int) -> FloatArray:
    """Returns random distributions over outcomes, `[num_laws, num_outcomes]`.

    In most of them the first outcome has 0.9 to 1000 times the weight of all others together: these are near ties and
    nearly certain outcomes.
    """
    gamma_shapes_of_laws = rng.choice([0.05, 0.2, 1.0, 3.0], size=(num_laws, 1))
    weights = rng.gamma(gamma_shapes_of_laws, size=(num_laws, num_outcomes)) + 1e-12
    odds_of_first_outcome = rng.choice([0.0, 0.9, 1.0, 1.1, 2.0, 10.0, 1e3], size=num_laws)
    weights[:, 0] = np.where(
        odds_of_first_outcome > 0, odds_of_first_outcome * weights[:, 1:].sum(axis=1), weights[:, 0]
    )
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def draw_calls(call_epsilon: float, *, bounded_range: bool, num_laws: int = 3000) -> list[Pair]:
    """Returns the laws of random calls on two neighbors, before the boundary wrapper.

    The ratios of the laws are the extremes that `call_epsilon` allows, for a bounded range or for pure DP. Each pair is
    there in both directions.
    """
    rng = np.random.default_rng(0)
    exp_epsilon = math.exp(call_epsilon)
    pairs = []
    for num_outcomes in (2, 3, 5):
        first_laws = draw_laws(rng, num_laws=num_laws, num_outcomes=num_outcomes)
        is_rising = rng.random(first_laws.shape) < 0.5
        if bounded_range:
            second_laws = first_laws * np.where(is_rising, exp_epsilon, 1.0)
            second_laws /= second_laws.sum(axis=1, keepdims=True)
        else:
            prob_of_rising = (first_laws * is_rising).sum(axis=1, keepdims=True)
            is_valid = ((prob_of_rising > 0) & (prob_of_rising < 1))[:, 0]
            first_laws, is_rising, prob_of_rising = (
                first_laws[is_valid],
                is_rising[is_valid],
                prob_of_rising[is_valid],
            )
            prob_of_falling = 1 - prob_of_rising
            rise_factor = np.minimum(
                exp_epsilon, (1 - prob_of_falling / exp_epsilon) / prob_of_rising
            )
            fall_factor = (1 - prob_of_rising * rise_factor) / prob_of_falling
            second_laws = first_laws * np.where(is_rising, rise_factor, fall_factor)
        pairs += [(first_laws, second_laws), (second_laws, first_laws)]
    return pairs


def moments_of_wrapped(call_laws: Pair, renyi_orders: FloatArray) -> Pair:
    """Returns two moments of calls in the boundary wrapper at each Renyi order, `[num_calls, num_orders]` each.

    The first is over the outcomes that are no hit, the second is that of the hit, the outcome "boundary" of the
    wrapper.
    """
    terms = moment_terms(
        first_probs=boundary_distribution(call_laws[0]),
        second_probs=boundary_distribution(call_laws[1]),
        renyi_orders=renyi_orders,
    )
    return terms[:, :-1].sum(axis=1), terms[:, -1]


@every_kind
@pytest.mark.parametrize("call_epsilon", CALL_EPSILONS)
def test_no_boundary_call_has_a_moment_above_1_where_hits_weigh_less(
    call_epsilon: float, bounded_range: bool
) -> None:
    """The moment of a random boundary call is at most 1 if its hit, "boundary", is weighed with 1 minus the hit's cost.

    The bound is for Renyi orders at which the cost is below 1. At all 40 orders, the plain moment is at most 1 plus the
    cost of a call.
    """
    orders = orders_for(call_epsilon)
    event = boundary_event(call_epsilon, bounded_range=bounded_range)
    cost_of_hit = hit_cost(event, orders=orders)
    cost_of_call = call_cost(event, orders=orders)
    is_limited = cost_of_hit < 1
    assert is_limited.sum() > 10
    for call_laws in draw_calls(call_epsilon, bounded_range=bounded_range):
        moment_of_misses, moment_of_hit = moments_of_wrapped(call_laws, renyi_orders=orders)
        assert (moment_of_misses + moment_of_hit <= 1 + cost_of_call + ROUNDING).all()
        assert (moment_of_misses + (1 - cost_of_hit) * moment_of_hit)[
            :, is_limited
        ].max() <= 1 + ROUNDING


@pytest.mark.parametrize("call_epsilon", CALL_EPSILONS)
def test_rare_outcomes_attain_the_cost_of_a_bounded_range(call_epsilon: float) -> None:
    """Boundary calls of two outcomes, one of them rare, reach over 99% of the cost of a hit where it is below 1.

    The cost is computed at 40 Renyi orders. "Boundary", which the wrapper answers at times, is the hit.
    """
    orders = orders_for(call_epsilon)
    cost = hit_cost(boundary_event(call_epsilon, bounded_range=True), orders=orders)
    reached_share = np.zeros_like(orders)
    for odds in (1e-5, 1e-4):
        first_law, second_law = (
            np.array([[1.0, rare_odds]]) / (1 + rare_odds)
            for rare_odds in (odds, odds * math.exp(call_epsilon))
        )
        moment_of_misses, moment_of_hit = moments_of_wrapped(
            (first_law, second_law), renyi_orders=orders
        )
        reached_share = np.maximum(
            reached_share, (1 - (1 - moment_of_misses) / moment_of_hit)[0] / cost
        )
    assert 0.99 < reached_share[cost < 1].min() <= reached_share.max() <= 1 + 1e-6


@pytest.mark.parametrize(
    "target",
    [
        not_prior(call_epsilon=0.05),
        not_prior(call_epsilon=1.0),
        tight_boundary(call_epsilon=0.3),
        QTarget(epsilon=0.4, hit_prob=0.6),
    ],
)
def test_the_worst_q_target_call_is_a_corner(target: QTarget) -> None:
    """If a call hits with at least the target's probability, its moment is at most 1.

    In the moment, the hit is weighed with 1 minus its cost. Outcomes have the extreme ratios e^epsilon and e^-epsilon.
    Randomized response whose likelier answer misses, a corner of the allowed laws, attains 1.
    """
    orders = orders_for(target.epsilon)
    exp_epsilon = math.exp(target.epsilon)
    cost = hit_cost(target_event(target), orders=orders)
    is_limited = cost < 1

    def are_within_epsilon(first_prob: float, second_prob: float) -> bool:
        return first_prob <= exp_epsilon * second_prob and second_prob <= exp_epsilon * first_prob

    moment_up = moment_terms(first_probs=exp_epsilon, second_probs=1.0, renyi_orders=orders)
    moment_down = moment_terms(first_probs=1.0, second_probs=exp_epsilon, renyi_orders=orders)

    def largest_part(first_prob: float, second_prob: float) -> FloatArray:
        """Returns the largest moment of outcomes with these total probabilities and the ratios e^±epsilon."""
        weight_up = (exp_epsilon * first_prob - second_prob) / (exp_epsilon**2 - 1)
        weight_down = (exp_epsilon * second_prob - first_prob) / (exp_epsilon**2 - 1)
        return weight_up * moment_up + weight_down * moment_down

    hit_probs = np.linspace(0, 1, 60)
    for first_hit_prob, second_hit_prob in itertools.product(hit_probs, repeat=2):
        if (
            min(first_hit_prob, second_hit_prob) >= target.hit_prob
            and are_within_epsilon(first_hit_prob, second_hit_prob)
            and are_within_epsilon(1 - first_hit_prob, 1 - second_hit_prob)
        ):
            moment_of_misses = largest_part(1 - first_hit_prob, 1 - second_hit_prob)
            moment_of_hit = largest_part(first_hit_prob, second_hit_prob)
            assert (
                (moment_of_misses + (1 - cost) * moment_of_hit)[is_limited] <= 1 + ROUNDING
            ).all()
    likelier = exp_epsilon / (exp_epsilon + 1)
    rarer = 1 / (exp_epsilon + 1)
    if target.hit_prob == rarer:  # randomized response whose likelier answer misses
        moment_of_misses = likelier * exp_epsilon ** (orders - 1)
        moment_of_hit = rarer * exp_epsilon ** (1 - orders)
        np.testing.assert_allclose(
            (moment_of_misses + (1 - cost) * moment_of_hit)[is_limited], 1, rtol=1e-9
        )


def test_few_calls_cost_by_calls_and_many_by_hits() -> None:
    """The price of a session of 10 hits does not fall as its number of calls rises.

    One call costs its bounded range, and infinitely many calls cost 10 hits. Seven pure-DP calls cost 7 times one call.
    """
    orders = np.array([1.5, 4.0, 9.0, 12.0])
    sessions = [
        boundary_event(call_epsilon=0.05, bounded_range=True, target_hits=10, num_calls=num_calls)
        for num_calls in (1, 3, 10, 40, 100, 1000, math.inf)
    ]
    curves = np.array([session_rdp(session, orders=orders) for session in sessions])
    assert (np.diff(curves, axis=0) >= -1e-15).all()
    np.testing.assert_allclose(
        curves[0], bounded_range_rdp(loss_range=0.05, orders=orders), rtol=1e-6
    )
    price_of_ten_hits = -10 * np.log1p(-hit_cost(sessions[-1], orders=orders)) / (orders - 1)
    np.testing.assert_allclose(curves[-1], price_of_ten_hits, rtol=1e-9)
    short_session = target_event(not_prior(call_epsilon=0.1), target_hits=10, num_calls=7)
    price_of_seven_calls = 7 * pure_dp_rdp(epsilon=0.1, orders=orders)
    np.testing.assert_allclose(
        session_rdp(short_session, orders=orders), price_of_seven_calls, rtol=1e-9
    )


def test_at_renyi_orders_where_hits_limit_nothing_all_calls_are_paid() -> None:
    """At Renyi orders where one hit costs 1 or more, a session without a limit of calls has an infinite price.

    A session of at most 20 calls costs at most 20 times the epsilon of the target.
    """
    orders = np.array([1e3, 1e6])
    unlimited_session = boundary_event(call_epsilon=0.05, bounded_range=False)
    assert (hit_cost(unlimited_session, orders=orders) >= 1).all()
    assert np.isinf(session_rdp(unlimited_session, orders=orders)).all()
    limited_session = boundary_event(call_epsilon=0.05, bounded_range=True, num_calls=20)
    largest_price = 20 * tight_boundary(call_epsilon=0.05).epsilon
    assert (session_rdp(limited_session, orders=orders) <= largest_price * (1 + 1e-9)).all()
