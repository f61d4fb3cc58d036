"""Steps of docs/proofs/hits.md: one call's moment where hits weigh less, by kind of call, and its attainment."""

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

EPSILONS = (0.05, 0.5, 1.5)
KINDS = (True, False)
MOST_ROUNDING = 1e-12


def boundary_event(
    epsilon: float, *, bounded_range: bool, hits: int = 3, calls: float = math.inf
) -> SessionEvent:
    """Returns the event of a session of boundary calls of an epsilon; a hit is the boundary
    outcome.
    """
    target = tight_boundary(epsilon)
    return BoundarySessionEvent(
        target.epsilon,
        target.hit_prob,
        target_hits=hits,
        num_calls=calls,
        accesses=NoOpEvent(),
        call_epsilon=epsilon,
        bounded_range=bounded_range,
    )


def target_event(target: QTarget, hits: int = 3, calls: float = math.inf) -> SessionEvent:
    """Returns the event of a session of calls with a target; a hit is an outcome in the target's
    set.
    """
    return SessionEvent(
        target.epsilon, target.hit_prob, target_hits=hits, num_calls=calls, accesses=NoOpEvent()
    )


def orders_for(epsilon: float) -> FloatArray:
    """Returns 40 Renyi orders that suit calls of an epsilon."""
    return 1 + np.geomspace(1e-2, 3 / epsilon, 40)


def weigh(
    first_probs: FloatArray | float, second_probs: FloatArray | float, renyi_orders: FloatArray
) -> FloatArray:
    """Returns first_probs**a second_probs**(1 - a) for each Renyi order a, with the Renyi orders along the last
    axis.
    """
    log_first = np.log(np.asarray(first_probs, dtype=np.float64))[..., None]
    log_second = np.log(np.asarray(second_probs, dtype=np.float64))[..., None]
    return np.asarray(np.exp(renyi_orders * log_first + (1 - renyi_orders) * log_second))


def draw_laws(rng: np.random.Generator, num: int, num_outcomes: int) -> FloatArray:
    """Returns `num` random distributions over outcomes, `[num, num_outcomes]`.

    In most of them the first outcome has 0.9 to 1000 times the weight of all others together: these are near ties and
    nearly certain outcomes.
    """
    weights = (
        rng.gamma(rng.choice([0.05, 0.2, 1.0, 3.0], size=(num, 1)), size=(num, num_outcomes))
        + 1e-12
    )
    lead = rng.choice([0.0, 0.9, 1.0, 1.1, 2.0, 10.0, 1e3], size=num)
    weights[:, 0] = np.where(lead > 0, lead * weights[:, 1:].sum(axis=1), weights[:, 0])
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def calls(epsilon: float, *, bounded_range: bool, num: int = 3000) -> list[Pair]:
    """Returns pairs of arrays `[N, num_outcomes]`: laws of N calls on two neighbors, before the boundary wrapper.

    The ratios of the laws are the extremes that epsilon allows, for a bounded range or for pure DP. Each pair is there
    in both directions.
    """
    rng = np.random.default_rng(0)
    growth = math.exp(epsilon)
    pairs = []
    for num_outcomes in (2, 3, 5):
        first = draw_laws(rng, num, num_outcomes)
        up = rng.random(first.shape) < 0.5
        if bounded_range:
            second = first * np.where(up, growth, 1.0)
            second /= second.sum(axis=1, keepdims=True)
        else:
            share = (first * up).sum(axis=1, keepdims=True)
            room = np.clip(1 - share, 1e-300, None)
            rise = np.minimum(growth, (1 - room / growth) / np.maximum(share, 1e-300))
            second = first * np.where(up, rise, (1 - share * rise) / room)
        valid = ((share > 0) & (share < 1))[:, 0] if not bounded_range else np.ones(num, dtype=bool)
        pairs += [(first[valid], second[valid]), (second[valid], first[valid])]
    return pairs


def moments(pair: Pair, renyi_orders: FloatArray) -> Pair:
    """Returns the moments of a wrapped call at each Renyi order, `[N, A]` each: over outcomes that
    are no hit, and of the hit.
    """
    terms = weigh(*(boundary_distribution(law) for law in pair), renyi_orders)
    return terms[:, :-1].sum(axis=1), terms[:, -1]


@pytest.mark.parametrize("bounded_range", KINDS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_boundary_call_has_a_moment_above_1_where_hits_weigh_less(
    epsilon: float, bounded_range: bool
) -> None:
    """At Renyi orders where a hit costs less than 1, the moment of any boundary call is at most 1
    if its hit weighs less by the cost.

    At all Renyi orders the plain moment is at most 1 plus the cost of a call.
    """
    orders = orders_for(epsilon)
    event = boundary_event(epsilon, bounded_range=bounded_range)
    cost = hit_cost(event, orders)
    plain = call_cost(event, orders)
    limited = cost < 1
    assert limited.sum() > 10
    for pair in calls(epsilon, bounded_range=bounded_range):
        missed, hit = moments(pair, orders)
        assert (missed + hit <= 1 + plain + MOST_ROUNDING).all()
        assert (missed + (1 - cost) * hit)[:, limited].max() <= 1 + MOST_ROUNDING


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_rare_outcomes_attain_the_cost_of_a_bounded_range(epsilon: float) -> None:
    """Calls with a rare outcome reach over 99% of the cost of a hit, at each Renyi order where this
    cost is below 1.
    """
    orders = orders_for(epsilon)
    cost = hit_cost(boundary_event(epsilon, bounded_range=True), orders)
    share_used = np.zeros_like(orders)
    for odds in (1e-5, 1e-4):
        pair = tuple(
            np.array([[1.0, odds * growth]]) / (1 + odds * growth)
            for growth in (1.0, math.exp(epsilon))
        )
        missed, hit = moments((pair[0], pair[1]), orders)
        share_used = np.maximum(share_used, (1 - (1 - missed) / hit)[0] / cost)
    assert 0.99 < share_used[cost < 1].min() <= share_used.max() <= 1 + 1e-6


@pytest.mark.parametrize(
    "target",
    [
        not_prior(epsilon=0.05),
        not_prior(epsilon=1.0),
        tight_boundary(epsilon=0.3),
        QTarget(epsilon=0.4, hit_prob=0.6),
    ],
)
def test_the_worst_q_target_call_is_a_corner(target: QTarget) -> None:
    """Calls of a target mix ratios e^epsilon and e^-epsilon, and hit with probability q or more:
    their moment with the hit weighed less is at most 1.

    Randomized response whose likelier answer misses attains 1.
    """
    orders = orders_for(target.epsilon)
    growth = math.exp(target.epsilon)
    cost = hit_cost(target_event(target), orders)
    limited = cost < 1
    high = growth / (growth + 1)
    low = 1 / (growth + 1)
    ends = (
        weigh(first_probs=growth, second_probs=1.0, renyi_orders=orders),
        weigh(first_probs=1.0, second_probs=growth, renyi_orders=orders),
    )
    attained = np.full_like(orders, -np.inf)
    grid = np.linspace(0, 1, 60)
    for first, second in np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2):
        hits_near = first <= growth * second and second <= growth * first
        misses_near = 1 - first <= growth * (1 - second) and 1 - second <= growth * (1 - first)
        if not (hits_near and misses_near) or min(first, second) < target.hit_prob:
            continue
        parts = [
            ((growth * x - y) * ends[0] + (growth * y - x) * ends[1]) / (growth**2 - 1)
            for x, y in ((1 - first, 1 - second), (first, second))
        ]
        moment = parts[0] + (1 - cost) * parts[1]
        attained = np.maximum(attained, moment)
        assert (moment[limited] <= 1 + MOST_ROUNDING).all()
    if target.hit_prob == low:  # randomized response whose likelier answer misses here
        moment = (high * (growth ** (orders - 1))) + (1 - cost) * low * growth ** (1 - orders)
        np.testing.assert_allclose(moment[limited], 1, rtol=1e-9)


def test_few_calls_cost_by_calls_and_many_by_hits() -> None:
    """The price of a session of 10 hits does not fall as its number of calls rises.

    One call costs its bounded range, and infinitely many calls cost 10 hits. Seven pure calls cost 7 times one call.
    """
    orders = np.array([1.5, 4.0, 9.0, 12.0])
    sessions = [
        boundary_event(epsilon=0.05, bounded_range=True, hits=10, calls=n)
        for n in (1, 3, 10, 40, 100, 1000, math.inf)
    ]
    curves = np.array([session_rdp(session, orders) for session in sessions])
    assert (np.diff(curves, axis=0) >= -1e-15).all()
    np.testing.assert_allclose(curves[0], bounded_range_rdp(epsilon=0.05, orders=orders), rtol=1e-6)
    np.testing.assert_allclose(
        curves[-1], -10 * np.log1p(-hit_cost(sessions[-1], orders)) / (orders - 1), rtol=1e-9
    )
    short_session = target_event(not_prior(epsilon=0.1), hits=10, calls=7)
    np.testing.assert_allclose(
        session_rdp(short_session, orders), 7 * pure_dp_rdp(epsilon=0.1, orders=orders), rtol=1e-9
    )


def test_at_renyi_orders_where_hits_limit_nothing_all_calls_are_paid() -> None:
    """At Renyi orders where one hit costs 1 or more, a session without a limit of calls has an infinite price.

    A session of at most 20 calls costs at most 20 times the epsilon of the target.
    """
    orders = np.array([1e3, 1e6])
    assert (hit_cost(boundary_event(epsilon=0.05, bounded_range=False), orders) >= 1).all()
    assert np.isinf(session_rdp(boundary_event(epsilon=0.05, bounded_range=False), orders)).all()
    finite = session_rdp(boundary_event(epsilon=0.05, bounded_range=True, calls=20), orders)
    assert (finite <= 20 * tight_boundary(epsilon=0.05).epsilon * (1 + 1e-9)).all()
