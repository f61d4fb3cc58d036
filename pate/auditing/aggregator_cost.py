"""The data-dependent cost of a release, for each type of aggregator for which a theorem bounds this cost.

The types are `GaussianVotes`, `ConfidentVotes`, `GNMax` and `ConfidentGNMax`; docs/proofs/data_dependent.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import numpy as np

from pate.accounting import DEFAULT_ORDERS, Adjacency, RdpAccountant
from pate.accounting.data_dependent_epsilon import DataDependentEpsilon, UnknownCost
from pate.aggregators import Aggregator, GaussianVotes, GNMax
from pate.aggregators.confident import ScreenedAggregator
from pate.aggregators.thresholds import threshold_event, threshold_window
from pate.array_types import BoolArray, IntArray
from pate.auditing.data_dependent import DataDependentCost, gnmax_cost, one_bit_cost
from pate.votes.shape import VoteShape


def epsilon_on(
    aggregator: Aggregator,
    vote_counts: IntArray,
    vote_shape: VoteShape,
    target_delta: float,
    answered: BoolArray | None = None,
) -> DataDependentEpsilon:
    """Returns the data-dependent epsilon of a release of votes, which is itself private and no guarantee.

    Args:
        aggregator: the aggregator of the release, with its noise.
        vote_counts: the counts of votes on all queries, `[Q, L]`.
        vote_shape: the numbers of queries, labels and teachers.
        target_delta: the delta of the epsilon.
        answered: bool `[Q]`, True for an answered query; None if all queries were answered, which costs most.

    Raises:
        UnknownCost: no theorem bounds the cost of this aggregator, or its theorem is not about votes like these.
    """
    cost = cost_on(
        aggregator,
        vote_counts,
        num_teachers=vote_shape.num_teachers,
        orders=DEFAULT_ORDERS,
        answered=answered,
    )
    return cost.epsilon(target_delta)


def has_data_dependent_cost(aggregator: Aggregator) -> bool:
    """Returns True if a theorem bounds the data-dependent cost of this type of aggregator."""
    return cost_on.dispatch(type(aggregator)) is not cost_on.dispatch(object)


@singledispatch
def cost_on(
    aggregator: Aggregator,
    vote_counts: IntArray,
    *,
    num_teachers: int,
    orders: object,
    answered: BoolArray | None = None,
) -> DataDependentCost:
    """Returns the data-dependent cost of a release of votes, which is itself private and no guarantee.

    Args:
        aggregator: the aggregator of the release, with its noise.
        vote_counts: the counts of votes on all queries, `[Q, L]`.
        num_teachers: the number of teachers T.
        orders: Renyi orders > 1, a number or `[A]`.
        answered: bool `[Q]`, True for an answered query; None if all queries were answered, which costs most.

    Raises:
        UnknownCost: no theorem bounds the cost of this aggregator, or its theorem is not about votes like these.
    """
    rule = (
        "GaussianVotes, ConfidentVotes, GNMax or ConfidentGNMax, of which theorems say what votes cost; "
        "event_for gives the price for all votes"
    )
    raise UnknownCost(name="aggregator", value=type(aggregator).__name__, rule=rule)


@cost_on.register
def _cost_of_gaussian_votes(
    aggregator: GaussianVotes,
    vote_counts: IntArray,
    *,
    num_teachers: int,
    orders: object,
    answered: BoolArray | None = None,
) -> DataDependentCost:
    """Returns the data-dependent cost of `GaussianVotes`: the sum over one bit for each label of each query.

    Arguments and errors are those of `cost_on`.
    """
    if aggregator.teachers_reached > 1:
        rule = "1: theorems on votes know a change that reaches one teacher"
        raise UnknownCost(name="teachers_reached", value=aggregator.teachers_reached, rule=rule)
    return threshold_cost(
        vote_counts,
        noise_std=aggregator.noise_std,
        threshold_share=0.5,
        num_teachers=num_teachers,
        orders=orders,
    )


@cost_on.register
def _cost_of_gnmax(
    aggregator: GNMax,
    vote_counts: IntArray,
    *,
    num_teachers: int,
    orders: object,
    answered: BoolArray | None = None,
) -> DataDependentCost:
    """Returns the data-dependent cost of `GNMax`, which is at most its price.

    Arguments are those of `cost_on`.

    Raises:
        UnknownCost: the adjacency is not replace-one, there are fewer than two labels, `max_votes` is not 1, or not
            every teacher has exactly one vote in each query.
    """
    if aggregator.adjacency is not Adjacency.REPLACE_ONE:
        rule = "replace_one, which the theorem is about"
        raise UnknownCost(name="adjacency", value=aggregator.adjacency, rule=rule)
    has_two_labels = vote_counts.shape[1] >= 2
    has_all_votes = bool((vote_counts.sum(axis=1) == num_teachers).all())
    if aggregator.max_votes != 1 or not has_two_labels or not has_all_votes:
        rule = "one vote of each teacher in each query, which the theorem is about"
        raise UnknownCost("votes", rule=rule)
    cost = gnmax_cost(
        vote_counts, noise_std=aggregator.noise_std, num_teachers=num_teachers, orders=orders
    )
    event = aggregator.event(VoteShape.from_counts(vote_counts, num_teachers=num_teachers))
    price = RdpAccountant(orders=cost.orders).compose(event)
    return replace(cost, rdp=np.minimum(cost.rdp, price.rdp))


@cost_on.register
def _cost_of_screened(
    aggregator: ScreenedAggregator,
    vote_counts: IntArray,
    *,
    num_teachers: int,
    orders: object,
    answered: BoolArray | None = None,
) -> DataDependentCost:
    """Returns the data-dependent cost of screening all queries plus that of answering those that pass.

    Arguments and errors are those of `cost_on`.
    """
    cost_of_screening = threshold_cost(
        aggregator.statistic(vote_counts, num_teachers=num_teachers),
        noise_std=aggregator.screening_std,
        threshold_share=aggregator.threshold_share,
        num_teachers=num_teachers,
        orders=orders,
    )
    answered_counts = vote_counts if answered is None else vote_counts[answered]
    if len(answered_counts) == 0:
        return cost_of_screening
    answering_aggregator = aggregator.answers
    cost_of_answers = cost_on(
        answering_aggregator, answered_counts, num_teachers=num_teachers, orders=orders
    )
    return cost_of_screening + cost_of_answers


def threshold_cost(
    counts: IntArray, *, noise_std: float, threshold_share: float, num_teachers: int, orders: object
) -> DataDependentCost:
    """Returns the data-dependent cost of a release of bits, one for each count.

    A bit is 1 if the count plus Gaussian noise reaches a threshold.

    Args:
        counts: `[Q]` or `[Q, n]`, each in 0..num_teachers.
        noise_std: the standard deviation of the noise in votes, > 0.
        threshold_share: the threshold as a fraction of the number of teachers.
        num_teachers: the number of teachers T.
        orders: Renyi orders > 1, a number or `[A]`.
    """
    lowest_open_count, highest_open_count = threshold_window(
        noise_std, threshold=threshold_share * num_teachers, num_teachers=num_teachers
    )
    event = threshold_event(noise_std, threshold_share=threshold_share, num_teachers=num_teachers)
    return one_bit_cost(
        statistics=np.clip(counts, lowest_open_count, highest_open_count) - lowest_open_count,
        event=event,
        orders=orders,
    )
