"""The split of a budget between the two steps of stable top-k, selection and test, and the noise of both.

The docstring of `split_budget` has the derivation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from pate.accounting import Budget, Event, NoOpEvent
from pate.accounting.conversion import conversion_penalty
from pate.aggregators.failures import failure_prob_of, require_delta_left
from pate.aggregators.gap_tests import TableTest, noise_of_rdp
from pate.validation import InvalidValue
from pate.votes.shape import VoteShape

if TYPE_CHECKING:
    from pate.aggregators.stable_top_k import StableTopK

# The share of the selection with which selection and test get equal parts.
EVEN_SHARE = 0.5
# The Renyi orders that are tried. The first pass tries each sixth of them.
_ORDERS = 1 + np.geomspace(0.4, 1e6, 80)
_STRIDE = 6
# The shares of the selection that are tried at first, and the steps from the best of them that are tried next.
_COARSE_SHARES = tuple(float(share) for share in np.linspace(0.05, 0.95, 19).round(2))
_FINE_STEPS = tuple(float(step) for step in np.linspace(-0.04, 0.04, 9).round(2))
# The largest number of levels of a table that only compares orders.
_MAX_LEVELS = 1500
# The log odds of a probability of 0.95.
_LOGIT_OF_95 = math.log(0.95 / 0.05)


@dataclass(frozen=True, kw_only=True)
class RdpBudget:
    """The Renyi divergence that one query may cost at one Renyi order.

    Attributes:
        renyi_order: the Renyi order, > 1.
        rdp: the Renyi divergence.
    """

    renyi_order: float
    rdp: float


def split_budget(
    aggregator: StableTopK,
    budget: Budget,
    vote_shape: VoteShape,
    *,
    k_selection_share: float | None,
    budget_share: float = 1.0,
) -> StableTopK:
    """Returns a copy of the aggregator whose selection and test share a budget in a given or in the best proportion.

    The present noises of the aggregator are replaced, except for a given table, and for the noise of the selection if
    only one size of the set is possible. The result fixes the proportion of the two noises; its price may miss the
    budget a little. The caller then multiplies both by the least factor that meets the budget (`Aggregator.scaled_to`).
    Everything is computed from public parameters.

    The derivation, for Q queries whose tests fail with the probability f each. Failures take Q f of delta and leave
    delta'. At a Renyi order a the rest of the price is the sum of divergences, and an epsilon is that sum plus
    `conversion_penalty(a, delta')`. So one query may cost

        r(a) = budget_share (epsilon - conversion_penalty(a, delta')) / Q.

    The selection gets the share s of r(a), and the test gets the rest:

        r_selection(a) = s r(a),    r_test(a) = (1 - s) r(a).

    Given a and s, each equation has one unknown, the noise of its step, which `_with_noise_for` solves for. The order a
    is chosen by `_best_order`. If `k_selection_share` is None, `_with_best_order_and_share` chooses both a and s.

    Args:
        aggregator: the aggregator with its kinds of noise, failure probability and adjacency.
        budget: epsilon and delta of the whole release.
        vote_shape: the number of queries, labels and teachers.
        k_selection_share: s, in (0, 1); None for the best value.
        budget_share: the part of the Renyi budget for these two steps; less than 1 for `StableFixedTopK`, which has a
            third step.

    Raises:
        InvalidValue: the failure probabilities use up delta, or no noise reaches the epsilon.
    """
    require_delta_left(aggregator, num_queries=vote_shape.num_queries, target_delta=budget.delta)
    rdp_budgets = _rdp_budgets(aggregator, budget, vote_shape, budget_share=budget_share)
    if not rdp_budgets:
        rule = "an epsilon that some noise can reach"
        raise InvalidValue("target_epsilon", budget.epsilon, rule=rule)
    if k_selection_share is None:
        return _with_best_order_and_share(aggregator, rdp_budgets, vote_shape)
    rdp_budget = _best_order(
        aggregator, rdp_budgets, vote_shape, k_selection_share=k_selection_share
    )
    return _with_noise_for(aggregator, rdp_budget, vote_shape, k_selection_share=k_selection_share)


def _rdp_budgets(
    aggregator: StableTopK, budget: Budget, vote_shape: VoteShape, *, budget_share: float
) -> list[RdpBudget]:
    """Returns the budget r(a) of one query at each Renyi order a with r(a) > 0; see `split_budget`."""
    remaining_delta = budget.delta - vote_shape.num_queries * failure_prob_of(aggregator)
    penalties_of_orders = conversion_penalty(_ORDERS, target_delta=remaining_delta)
    rdps_of_release = budget.required_epsilon() - penalties_of_orders
    rdps_of_query = rdps_of_release * budget_share / vote_shape.num_queries
    return [
        RdpBudget(renyi_order=float(order), rdp=float(rdp))
        for order, rdp in zip(_ORDERS, rdps_of_query, strict=True)
        if rdp > 0
    ]


def _with_noise_for(
    aggregator: StableTopK,
    rdp_budget: RdpBudget,
    vote_shape: VoteShape,
    *,
    k_selection_share: float,
) -> StableTopK:
    """Returns a copy of the aggregator whose selection and test each cost their share of a query's budget.

    A given table stays unchanged, and so does the selection's noise if only one size of the set is possible.

    Args:
        aggregator: the aggregator to copy.
        rdp_budget: the Renyi divergence that one query may cost.
        vote_shape: the number of queries, labels and teachers.
        k_selection_share: the part of the budget for the selection; the test gets the rest.
    """
    gap_test = aggregator.gap_test.tuned(
        renyi_order=rdp_budget.renyi_order,
        rdp=(1 - k_selection_share) * rdp_budget.rdp,
        num_teachers=vote_shape.num_teachers,
        adjacency=aggregator.adjacency,
    )
    aggregator_with_test = aggregator.with_gap_test(gap_test)
    k_selection = aggregator.gap_selection(
        num_labels=vote_shape.num_labels, num_teachers=vote_shape.num_teachers
    )
    if k_selection.event == NoOpEvent():
        # There is a single candidate, so the selection has no noise.
        return aggregator_with_test

    def selection_event_at_scale(noise_scale: float) -> Event:
        return replace(k_selection, noise_scale=noise_scale).event

    selection_scale = noise_of_rdp(
        selection_event_at_scale,
        renyi_order=rdp_budget.renyi_order,
        rdp=k_selection_share * rdp_budget.rdp,
    )
    return replace(aggregator_with_test, selection_scale=selection_scale)


def _best_order(
    aggregator: StableTopK,
    rdp_budgets: list[RdpBudget],
    vote_shape: VoteShape,
    *,
    k_selection_share: float,
) -> RdpBudget:
    """Returns the budget at the best Renyi order, for a given share of the selection.

    The best order is the one whose optimal table reaches a probability of passing of 0.95 at the smallest gap. A table
    stands in for the test of the aggregator. Its noise needs no search, so each order costs one table. An aggregator
    with a Gaussian or Laplace test keeps that test and takes over the order alone. The search is coarse first and then
    fine.

    Args:
        aggregator: the aggregator with the failure probability and the adjacency.
        rdp_budgets: the budget of one query at each order.
        vote_shape: the number of queries, labels and teachers.
        k_selection_share: the part of the budget for the selection.
    """
    num_gap_levels = min(
        vote_shape.num_teachers // aggregator.adjacency.gap_sensitivity + 2, _MAX_LEVELS
    )
    sort_key_of_budget = partial(
        _sort_key_of_order,
        test_share=1 - k_selection_share,
        failure_prob=failure_prob_of(aggregator),
        num_gap_levels=num_gap_levels,
    )
    return min(_near_the_best(rdp_budgets, sort_key_of_budget), key=sort_key_of_budget)


def _sort_key_of_order(
    rdp_budget: RdpBudget, *, test_share: float, failure_prob: float, num_gap_levels: int
) -> tuple[float, float]:
    """Returns the level of a stability table that passes with probability 0.95, and a number that breaks ties.

    The table is the optimal one for the budget. A level is a gap in sensitivities; it is interpolated between whole
    levels, and infinite if no level passes with 0.95. The second number is minus the log-odds that the highest level
    passes. The smaller pair is the better one.

    Args:
        rdp_budget: the budget of one query at one Renyi order.
        test_share: the part of the budget for the test.
        failure_prob: the largest probability that an unstable set passes the test.
        num_gap_levels: the number of levels of the table.
    """
    stand_in_test = TableTest(
        renyi_order=rdp_budget.renyi_order,
        rdp_budget=test_share * rdp_budget.rdp,
        failure_prob=failure_prob,
    )
    logits_of_levels = stand_in_test.table(num_levels=num_gap_levels).logits
    levels_to_95 = math.inf
    if logits_of_levels[-1] >= _LOGIT_OF_95:
        # In fractions of a level, so that neighboring orders differ.
        levels_to_95 = float(
            np.interp(_LOGIT_OF_95, logits_of_levels, np.arange(len(logits_of_levels)))
        )
    return levels_to_95, -float(logits_of_levels[-1])


def _near_the_best(
    rdp_budgets: list[RdpBudget], sort_key_of_budget: Callable[[RdpBudget], tuple[float, float]]
) -> list[RdpBudget]:
    """Returns the budgets that stand near the best one of every sixth budget, up to six places to either side.

    Args:
        rdp_budgets: the budget of one query at each Renyi order, in rising order of these.
        sort_key_of_budget: returns a pair for a budget; the smallest pair is the best.
    """
    best_coarse_budget = min(rdp_budgets[::_STRIDE], key=sort_key_of_budget)
    middle = rdp_budgets.index(best_coarse_budget)
    return rdp_budgets[max(middle - _STRIDE, 0) : middle + _STRIDE + 1]


def _with_best_order_and_share(
    aggregator: StableTopK, rdp_budgets: list[RdpBudget], vote_shape: VoteShape
) -> StableTopK:
    """Returns a copy of the aggregator with the Renyi order and selection share that release the smallest gap.

    A gap counts as released if its set is released with probability 1/2, while all other gaps are 0. The search first
    finds the order for equal shares, then the share at that order, and then the order again, near the first one. This
    suffices, as the best order hardly depends on the share. The first two searches are coarse first and then fine.
    """
    noise_search = _NoiseSearch(aggregator=aggregator, vote_shape=vote_shape)
    gap_key_at_even_share = partial(noise_search.released_gap_key, k_selection_share=EVEN_SHARE)
    near_rdp_budgets = _near_the_best(rdp_budgets, gap_key_at_even_share)
    best_budget_at_even = min(near_rdp_budgets, key=gap_key_at_even_share)

    coarse_share = noise_search.best_share(_COARSE_SHARES, rdp_budget=best_budget_at_even)
    fine_shares = [coarse_share + step for step in _FINE_STEPS]
    best_share = noise_search.best_share(fine_shares, rdp_budget=best_budget_at_even)

    best_rdp_budget = min(
        near_rdp_budgets, key=partial(noise_search.released_gap_key, k_selection_share=best_share)
    )
    return _with_noise_for(aggregator, best_rdp_budget, vote_shape, k_selection_share=best_share)


@dataclass(frozen=True)
class _NoiseSearch:
    """A search among copies of an aggregator with other noise, for the copy to which the smallest gap is enough.

    A gap is enough if its set is released with probability 1/2, while all other gaps are 0.

    Attributes:
        aggregator: the aggregator to copy.
        vote_shape: the number of queries, labels and teachers.
    """

    aggregator: StableTopK
    vote_shape: VoteShape

    def released_gap_key(
        self, rdp_budget: RdpBudget, k_selection_share: float
    ) -> tuple[float, float]:
        """Returns a pair that is smaller, the smaller the gap is that a copy with this budget and share releases.

        `SelectThenTest.released_gap_key` explains the pair.

        Args:
            rdp_budget: the budget of one query at one Renyi order.
            k_selection_share: the part of the budget for the selection.
        """
        tried_aggregator = _with_noise_for(
            self.aggregator, rdp_budget, self.vote_shape, k_selection_share=k_selection_share
        )
        selection_and_test = tried_aggregator.steps(
            num_labels=self.vote_shape.num_labels, num_teachers=self.vote_shape.num_teachers
        )
        return selection_and_test.released_gap_key()

    def best_share(self, selection_shares: Sequence[float], *, rdp_budget: RdpBudget) -> float:
        """Returns the one of some shares of the selection whose copy of the aggregator releases the smallest gap."""
        return min(selection_shares, key=partial(self.released_gap_key, rdp_budget))
