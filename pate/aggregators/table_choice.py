"""The table of a StableTopK for a target epsilon: at which order, and how much of the budget it gets."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pate.accounting.conversion import conversion_penalty
from pate.accounting.events import NoOpEvent
from pate.accounting.rdp import count_leaves, rdp_curve
from pate.mechanisms.gap_selection import GapSelection
from pate.mechanisms.stability_table import optimal_stability_table
from pate.validation import InvalidValue

if TYPE_CHECKING:
    from pate.aggregators.stable_top_k import StableTopK

_ORDERS = 1 + np.geomspace(0.4, 1e6, 80)
_LOG_SCALES = (-60.0, 25.0)
_LOGIT_OF_95 = math.log(0.95 / 0.05)


def best_table(
    aggregator: StableTopK,
    *,
    target_epsilon: float,
    target_delta: float,
    num_queries: int,
    num_labels: int,
    num_teachers: int,
    budget_share: float = 1.0,
) -> StableTopK:
    """The aggregator with the order, table budget and selection scale that suit a target.

    A table is made for one order. At each order the target leaves a Renyi budget for every query. The aggregator gets
    `budget_share` of it, and of that `selection_share` goes to the selection; the best order is the one whose table
    rises to 0.95 in the fewest levels.
    Depends on public parameters only.

    Raises:
        InvalidValue: no order leaves a budget; failure probabilities use up delta.
    """
    left = target_delta - num_queries * aggregator.failure_prob
    if left <= 0:
        raise InvalidValue(
            f"failure_prob={aggregator.failure_prob}: {num_queries} queries use up target_delta={target_delta}: "
            "expected the sum over all queries to stay below it"
        )
    budgets = (target_epsilon - conversion_penalty(_ORDERS, target_delta=left)) * budget_share / num_queries  # [A]
    fits = [(float(order), float(budget)) for order, budget in zip(_ORDERS, budgets, strict=True) if budget > 0]
    if not fits:
        raise InvalidValue(f"target_epsilon={target_epsilon}: expected an epsilon that some noise can reach")
    share = aggregator.selection_share
    num_levels = num_teachers // aggregator.adjacency.gap_sensitivity + 2

    def rank(fit: tuple[float, float]) -> tuple[float, float]:
        return _levels_to_pass(fit[0], (1 - share) * fit[1], aggregator.failure_prob, num_levels)

    order, budget = min(fits, key=rank)
    selection = aggregator.gap_selection(num_labels=num_labels, num_teachers=num_teachers)
    return replace(
        aggregator,
        table=None,
        table_order=order,
        table_budget=(1 - share) * budget,
        selection_scale=_scale_at(selection, order, share * budget),
    )


def _levels_to_pass(order: float, rdp_budget: float, failure_prob: float, num_levels: int) -> tuple[float, float]:
    """At how many levels the table reaches 0.95, in fractions so that orders compare; then how low it ends."""
    table = optimal_stability_table(
        order=order, rdp_budget=rdp_budget, failure_prob=failure_prob, num_levels=num_levels
    )
    last = table.logits[-1]
    if last < _LOGIT_OF_95:
        return math.inf, -last
    return float(np.interp(_LOGIT_OF_95, table.logits, np.arange(len(table.logits)))), -last


def _scale_at(selection: GapSelection, order: float, rdp: float) -> float:
    """The selection scale that costs `rdp` at one order."""
    if selection.event == NoOpEvent():  # one candidate: nothing is chosen, any scale will do
        return selection.noise_scale
    from scipy.optimize import brentq  # loads slowly

    orders = np.array([order])

    def excess(log_scale: float) -> float:
        event = replace(selection, noise_scale=math.exp(log_scale)).event
        return math.log(max(float(rdp_curve(count_leaves(event), orders)[0]), 1e-300) / rdp)

    return math.exp(brentq(excess, *_LOG_SCALES)) if excess(_LOG_SCALES[0]) > 0 else math.exp(_LOG_SCALES[0])
