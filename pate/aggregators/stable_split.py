"""The split of a budget between the selection of a stable top-k and its test: from an epsilon to the noise of both.

`split_budget` has the derivation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pate.accounting import Budget, Event, NoOpEvent
from pate.accounting.conversion import conversion_penalty
from pate.aggregators.failures import failure_prob_of, require_delta_left
from pate.aggregators.gap_tests import TableTest, noise_of_rdp
from pate.validation import require
from pate.votes.shape import VoteShape

if TYPE_CHECKING:
    from pate.aggregators.stable_top_k import ReleaseRank, StableTopK

EVEN_SHARE = 0.5
"""The share of the selection where selection and test get equal parts."""

_ORDERS = 1 + np.geomspace(0.4, 1e6, 80)
_STRIDE = 6  # of the orders that are tried first
_COARSE_SHARES = tuple(float(share) for share in np.linspace(0.05, 0.95, 19).round(2))
_FINE_STEPS = tuple(float(step) for step in np.linspace(-0.04, 0.04, 9).round(2))
_MOST_LEVELS = 1500  # of a table that only ranks orders
_LOGIT_OF_95 = math.log(0.95 / 0.05)


@dataclass(frozen=True, kw_only=True)
class RdpBudget:
    """The Renyi divergence that one query may cost at one Renyi order."""

    order: float
    rdp: float


@dataclass(frozen=True, order=True)
class TableRank:
    """The rank of a Renyi order by the table that it allows; the smaller rank is better.

    Attributes:
        levels_to_95: the level at which the table passes with probability 0.95; infinite for a table that never does.
        negated_last_logit: minus the log odds that the last level passes.
    """

    levels_to_95: float
    negated_last_logit: float


def split_budget(
    aggregator: StableTopK,
    budget: Budget,
    shape: VoteShape,
    *,
    selection_share: float | None,
    budget_share: float = 1.0,
) -> StableTopK:
    """Returns the aggregator with the noise of selection and test that a split of the budget gives.

    Both noises are found anew: those that the aggregator has are not read (but a ready table stays). The result fixes
    their proportion and is no guarantee. The caller multiplies both by one factor, the least at which the price itself
    meets the budget: `Aggregator.scaled_to`. All of it is computed from public parameters.

    The derivation, for Q queries. Failures of the tests take Q f of delta and leave delta'. At a Renyi order a the rest
    of the price is the sum of divergences, and an epsilon is that sum plus `conversion_penalty(a, delta')`. So one
    query may cost

        r(a) = budget_share (epsilon - conversion_penalty(a, delta')) / Q.

    The selection gets the share s of it and the test what is left:

        r_selection(a) = s r(a),    r_test(a) = (1 - s) r(a).

    Given a and s, each line has one unknown, the noise of its step, and is solved for it (`_with_noise_for`). What is
    left to choose is a, and s where `selection_share` is None: `_best_order` and `_with_best_order_and_share`.

    Args:
        aggregator: the kinds of noise and of test, the failure probability, the adjacency.
        budget: epsilon and delta of the whole release.
        shape: the number of queries, labels and teachers.
        selection_share: s, in (0, 1); None for the best one.
        budget_share: the part of the Renyi budget that the two steps get; `StableFixedTopK` has a third.

    Raises `InvalidValue` where failures use up delta, or no noise reaches the epsilon.
    """
    require_delta_left(aggregator, num_queries=shape.num_queries, target_delta=budget.delta)
    rdp_budgets = _rdp_budgets(aggregator, budget, shape, budget_share=budget_share)
    rule = "an epsilon that some noise can reach"
    require(bool(rdp_budgets), "target_epsilon", budget.epsilon, rule)
    if selection_share is None:
        return _with_best_order_and_share(aggregator, rdp_budgets, shape)
    rdp_budget = _best_order(aggregator, rdp_budgets, shape, selection_share=selection_share)
    return _with_noise_for(aggregator, rdp_budget, shape, selection_share=selection_share)


def _rdp_budgets(
    aggregator: StableTopK, budget: Budget, shape: VoteShape, *, budget_share: float
) -> list[RdpBudget]:
    """Returns r(a) for all orders a at which r(a) > 0, so that some noise reaches it."""
    delta_left = budget.delta - shape.num_queries * failure_prob_of(aggregator)
    rdp_of_release = budget.required_epsilon() - conversion_penalty(
        _ORDERS, target_delta=delta_left
    )
    rdp_of_query = rdp_of_release * budget_share / shape.num_queries
    return [
        RdpBudget(order=float(order), rdp=float(rdp))
        for order, rdp in zip(_ORDERS, rdp_of_query, strict=True)
        if rdp > 0
    ]


def _with_noise_for(
    aggregator: StableTopK, rdp_budget: RdpBudget, shape: VoteShape, *, selection_share: float
) -> StableTopK:
    """Returns the aggregator whose selection costs its share of a query's budget, and whose test costs the rest."""
    test = aggregator.gap_test.tuned(
        order=rdp_budget.order,
        rdp=(1 - selection_share) * rdp_budget.rdp,
        num_teachers=shape.num_teachers,
        adjacency=aggregator.adjacency,
    )
    with_test = aggregator.with_gap_test(test)
    selection = aggregator.gap_selection(
        num_labels=shape.num_labels, num_teachers=shape.num_teachers
    )
    if selection.event == NoOpEvent():  # a single candidate: no choice, no noise
        return with_test

    def selection_event(scale: float) -> Event:
        return replace(selection, noise_scale=scale).event

    selection_scale = noise_of_rdp(
        selection_event, order=rdp_budget.order, rdp=selection_share * rdp_budget.rdp
    )
    return replace(with_test, selection_scale=selection_scale)


def _best_order(
    aggregator: StableTopK,
    rdp_budgets: list[RdpBudget],
    shape: VoteShape,
    *,
    selection_share: float,
) -> RdpBudget:
    """Returns the budget at the order whose best test rises to 0.95 in the fewest levels, for a given share.

    The best test of a price is a table (`TableTest`). It stands in for whatever test the aggregator has: it needs no
    noise to be solved for, so all orders are compared at the cost of one table each. An aggregator with a Gaussian or
    Laplace test keeps that test; only its order is the table's.
    """
    failure_prob = failure_prob_of(aggregator)
    num_levels = min(shape.num_teachers // aggregator.adjacency.gap_sensitivity + 2, _MOST_LEVELS)

    def rank(rdp_budget: RdpBudget) -> TableRank:
        stand_in = TableTest(
            order=rdp_budget.order,
            budget=(1 - selection_share) * rdp_budget.rdp,
            failure_prob=failure_prob,
        )
        logits = stand_in.table(num_levels=num_levels).logits
        levels_to_95 = math.inf
        if logits[-1] >= _LOGIT_OF_95:
            # in fractions of a level, so that near orders compare
            levels_to_95 = float(np.interp(_LOGIT_OF_95, logits, np.arange(len(logits))))
        return TableRank(levels_to_95, -float(logits[-1]))

    return min(rdp_budgets, key=rank)


def _with_best_order_and_share(
    aggregator: StableTopK, rdp_budgets: list[RdpBudget], shape: VoteShape
) -> StableTopK:
    """Returns the aggregator with the order and the share at which the smallest lone gap is released half the time.

    The order at an even split is found first, then the best share at that order, then the order once more for that
    share: the best order hardly depends on the share. Both searches are coarse before they are fine.
    """

    def rank(rdp_budget: RdpBudget, selection_share: float) -> ReleaseRank:
        candidate = _with_noise_for(aggregator, rdp_budget, shape, selection_share=selection_share)
        return candidate.steps(num_labels=shape.num_labels, num_teachers=shape.num_teachers).rank()

    coarse_best = min(rdp_budgets[::_STRIDE], key=lambda rdp_budget: rank(rdp_budget, EVEN_SHARE))
    middle = rdp_budgets.index(coarse_best)
    near_budgets = rdp_budgets[max(middle - _STRIDE, 0) : middle + _STRIDE + 1]
    best_at_even = min(near_budgets, key=lambda rdp_budget: rank(rdp_budget, EVEN_SHARE))

    coarse_share = min(_COARSE_SHARES, key=lambda share: rank(best_at_even, share))
    fine_shares = [coarse_share + step for step in _FINE_STEPS]
    best_share = min(fine_shares, key=lambda share: rank(best_at_even, share))

    best_budget = min(near_budgets, key=lambda rdp_budget: rank(rdp_budget, best_share))
    return _with_noise_for(aggregator, best_budget, shape, selection_share=best_share)
