"""The best adaptive session on small neighbors is within its price. It ends with the last allowed hit or call.

A hit is a call with an outcome that is charged.
"""

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import softmax

from pate.accounting import Adjacency, Event, RdpAccountant, SessionEvent
from pate.accounting.event_tree import leaves
from pate.accounting.events import BoundarySessionEvent, NoOpEvent
from pate.accounting.session_rdp import session_rdp
from pate.accounting.target_charging import not_prior, tight_boundary
from pate.aggregators import BoundaryMax, NotPriorTopK
from pate.aggregators.session_event import bit_epsilon
from pate.array_types import FloatArray
from tests.privacy.histograms import neighbors
from tests.privacy.test_charged import (
    NOISES,
    TopKNoise,
    boundary_top_k_calls,
    make_prior_check,
    wrap_in_boundary,
)

Laws = tuple[FloatArray, FloatArray]

ADJACENCIES = tuple(Adjacency)
ORDERS = 1 + np.geomspace(0.05, 60, 25)


class SessionLimits(NamedTuple):
    """The largest numbers of calls and hits of a session."""

    num_calls: int
    target_hits: int


every_limit = pytest.mark.parametrize(
    argnames="limits",
    argvalues=[
        SessionLimits(num_calls=1, target_hits=1),
        SessionLimits(num_calls=5, target_hits=1),
        SessionLimits(num_calls=40, target_hits=1),
        SessionLimits(num_calls=40, target_hits=3),
        pytest.param(SessionLimits(num_calls=300, target_hits=3), marks=pytest.mark.slow),
    ],
    ids=lambda limits: f"{limits.num_calls} calls, {limits.target_hits} hits",
)


def largest_moments(
    laws: Laws,
    num_calls: int,
    target_hits: int,
    renyi_orders: FloatArray = ORDERS,
    moment_after_hit: FloatArray | float = 1.0,
) -> FloatArray:
    """Returns the logarithm of the largest moment of all adaptive sessions, `[A]` for A Renyi orders, exactly.

    The moment at order a is the sum of p^a q^(1 - a) over all transcripts, whose probabilities on both neighbors are p
    and q. Every call may be of any pair of neighbors, whatever came before.

    Args:
        laws: the probabilities `[P, Y + 1]` of the outcomes of P pairs, one array for each neighbor; the last outcome
            is the hit.
        num_calls: the largest number of calls.
        target_hits: the number of hits after which the session ends.
        renyi_orders: the Renyi orders, `[A]`.
        moment_after_hit: the largest moment of the release that follows each hit, `[A]`.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.log(laws[0])[:, :, None]
        second = np.log(laws[1])[:, :, None]
        terms = np.exp(renyi_orders * first + (1 - renyi_orders) * second)
    terms = np.where(np.isneginf(first), 0.0, terms)
    miss_terms = terms[:, :-1].sum(axis=1)
    hit_terms = terms[:, -1]
    log_largest_moments = np.zeros(len(renyi_orders))
    # the largest moment of the rest of a session, by the number of hits that are still allowed
    moments = np.ones((target_hits + 1, len(renyi_orders)))
    for _ in range(num_calls):
        longer_moments = [moments[0]]
        for hits in range(1, target_hits + 1):
            moments_of_pairs = (
                miss_terms * moments[hits] + hit_terms * moment_after_hit * moments[hits - 1]
            )
            # a session may also make no further call
            longer_moments.append(np.maximum(moments_of_pairs.max(axis=0), moments[hits]))
        log_largest_moments = log_largest_moments + np.log(longer_moments[-1])
        moments = np.array(longer_moments) / longer_moments[-1]
    return np.asarray(log_largest_moments)


def session_of(event: Event) -> SessionEvent:
    """Returns the first event of a composed event, which must be a boundary session."""
    session = next(leaf for leaf, _ in leaves(event))
    assert isinstance(session, BoundarySessionEvent)
    return session


@lru_cache(maxsize=8)
def single_label_laws(
    adjacency: Adjacency, noise_scale: float, num_labels: int, num_teachers: int
) -> Laws:
    """Returns the distributions of a call of boundary max on all neighbors; pairs with equal ones are listed once."""
    pairs = neighbors(num_labels=num_labels, num_teachers=num_teachers, adjacency=adjacency)
    laws = [wrap_in_boundary(softmax(counts / noise_scale, axis=1)) for counts in pairs]
    unique_pairs = np.unique(np.concatenate(laws, axis=1), axis=0)
    first_laws, second_laws = np.split(unique_pairs, 2, axis=1)
    return first_laws, second_laws


@every_limit
@pytest.mark.parametrize("noise_scale", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_no_adaptive_session_of_single_labels_exceeds_the_price(
    adjacency: Adjacency, noise_scale: float, limits: SessionLimits
) -> None:
    """The exact moment of the best adaptive session of boundary max is at most the Renyi price, at 25 orders.

    All neighbors of six teachers are tried. The session ends with its last call or its last hit.
    """
    aggregator = BoundaryMax(
        selection_scale=noise_scale, target_hits=limits.target_hits, adjacency=adjacency
    )
    event = aggregator.event_for(num_queries=limits.num_calls, num_labels=3, num_teachers=6)
    exact = largest_moments(
        laws=single_label_laws(adjacency, noise_scale, num_labels=3, num_teachers=6),
        num_calls=limits.num_calls,
        target_hits=limits.target_hits,
    )
    price = RdpAccountant().compose(event).curve(ORDERS) * (ORDERS - 1)
    assert (exact <= price * (1 + 1e-9) + 1e-12).all()


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_price_of_hits_5_percent_too_small_is_refuted(adjacency: Adjacency) -> None:
    """Negative control: 95% of the price of a session of one hit is exceeded, and the whole price is not.

    The price is for any number of calls. The exact moment is that of 20,000 calls on 40 teachers and two labels. Its
    logarithm is compared with the price times (Renyi order - 1).
    """
    noise_scale = 8.0 if adjacency is Adjacency.REPLACE_ONE else 4.0
    aggregator = BoundaryMax(selection_scale=noise_scale, target_hits=1, adjacency=adjacency)
    session = session_of(aggregator.event_for(num_queries=10**6, num_labels=2, num_teachers=40))
    orders = np.array([1.5, 2.0, 2.5])
    exact = largest_moments(
        laws=single_label_laws(adjacency, noise_scale, num_labels=2, num_teachers=40),
        num_calls=20_000,
        target_hits=1,
        renyi_orders=orders,
    )
    price = session_rdp(replace(session, num_calls=math.inf), orders) * (orders - 1)
    assert (exact <= price).all()
    assert (exact > 0.95 * price).all()


@every_limit
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_no_adaptive_session_of_sets_exceeds_the_price(
    adjacency: Adjacency, noise: TopKNoise, limits: SessionLimits
) -> None:
    """The exact moment of the best adaptive session of boundary top-k is at most the Renyi price.

    The session ends with its last call or its last hit. An outcome is the size of the released set, so that two sets of
    one size are not told apart.
    """
    calls = boundary_top_k_calls(noise, adjacency, padded=True)
    epsilon = calls.aggregator.call_epsilon_for(num_labels=3, num_teachers=6)
    target = tight_boundary(epsilon)
    session = BoundarySessionEvent(
        target.epsilon,
        target.hit_prob,
        target_hits=limits.target_hits,
        num_calls=limits.num_calls,
        accesses=NoOpEvent(),
        call_epsilon=epsilon,
        bounded_range=False,
    )
    exact = largest_moments(
        laws=(wrap_in_boundary(calls.first_laws), wrap_in_boundary(calls.second_laws)),
        num_calls=limits.num_calls,
        target_hits=limits.target_hits,
    )
    price = session_rdp(session, orders=ORDERS) * (ORDERS - 1)
    assert (exact <= price * (1 + 1e-9) + 1e-12).all()


def check_laws(aggregator: NotPriorTopK) -> Laws:
    """Returns the distributions of a check of the prior for all pairs of margins that differ by the gap sensitivity."""
    keep_prob_by_margin = aggregator.check_probabilities(num_teachers=40)
    sensitivity = aggregator.adjacency.gap_sensitivity
    laws = np.stack([keep_prob_by_margin, 1 - keep_prob_by_margin], axis=1)
    larger_margins = laws[sensitivity:]
    smaller_margins = laws[:-sensitivity]
    return (
        np.concatenate([larger_margins, smaller_margins]),
        np.concatenate([smaller_margins, larger_margins]),
    )


@every_limit
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_no_adaptive_session_of_checks_exceeds_the_price(
    adjacency: Adjacency, limits: SessionLimits
) -> None:
    """The exact moment of a session of checks against a prior is at most the Renyi price.

    The session ends with its last call or its last hit, which is a failed check. With 300 calls and 3 hits, the
    logarithm of the moment exceeds 70% of the price at the six largest of twelve Renyi orders.
    """
    aggregator = make_prior_check(adjacency, noise_scale=6.0, margin=0.0)
    target = not_prior(
        bit_epsilon(
            aggregator.check_probabilities(num_teachers=40), sensitivity=adjacency.gap_sensitivity
        )
    )
    event = SessionEvent(
        target.epsilon,
        target.hit_prob,
        target_hits=limits.target_hits,
        num_calls=limits.num_calls,
        accesses=NoOpEvent(),
    )
    orders = ORDERS[:12]
    exact = largest_moments(
        laws=check_laws(aggregator),
        num_calls=limits.num_calls,
        target_hits=limits.target_hits,
        renyi_orders=orders,
    )
    price = session_rdp(event, orders) * (orders - 1)
    assert (exact <= price * (1 + 1e-9)).all()
    if limits == SessionLimits(num_calls=300, target_hits=3):
        assert (exact[-6:] > 0.7 * price[-6:]).all()  # Laplace noise is no randomized response


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_price_adds_the_release_that_follows_each_hit(
    adjacency: Adjacency,
) -> None:
    """In `NotPriorTopK` a release follows each failed check, also the last one, and the price covers these releases.

    The exact moment is at most the price. Negative control: the price without one of these releases is exceeded.
    """
    num_calls = 300
    target_hits = 3
    orders = ORDERS[:12]
    aggregator = make_prior_check(
        adjacency,
        noise_scale=30.0,
        margin=0.0,
        selection_scale=20.0,
        target_hits=target_hits,
        session_delta=1e-6,
        failure_prob=1e-9,
    )
    event = aggregator.event_for(num_queries=num_calls, num_labels=5, num_teachers=40)
    session = next(leaf for leaf, _ in leaves(event) if isinstance(leaf, SessionEvent))
    price = RdpAccountant().compose(event).curve(orders) * (orders - 1)
    release_event = aggregator.release_step.event_for(num_queries=1, num_labels=5, num_teachers=40)
    release_cost = RdpAccountant().compose(release_event).curve(orders) * (orders - 1)
    exact = largest_moments(
        laws=check_laws(aggregator),
        num_calls=num_calls,
        target_hits=target_hits,
        renyi_orders=orders,
        moment_after_hit=np.exp(release_cost),
    )
    assert (session.target_hits, session.num_calls) == (target_hits, num_calls)
    assert (exact <= price * (1 + 1e-9)).all()
    assert (exact > price - release_cost).any()
