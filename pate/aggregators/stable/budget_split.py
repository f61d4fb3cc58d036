"""How a target epsilon is split in stable top-k: at which Renyi order, and how much goes to selection and test."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pate.accounting.conversion import conversion_penalty
from pate.accounting.events import Event, NoOpEvent, count_leaves
from pate.accounting.rdp import rdp_curve
from pate.aggregators.stable.select_then_test import SelectThenTest
from pate.validation import InvalidValue, require_positive

_ORDERS = 1 + np.geomspace(0.4, 1e6, 80)
_LOG_SCALES = (-60.0, 25.0)
_LOGIT_OF_95 = math.log(0.95 / 0.05)
_STRIDE = 6
_SHARES = tuple(float(share) for share in np.linspace(0.05, 0.95, 19).round(2))
_FINER = tuple(float(step) for step in np.linspace(-0.04, 0.04, 9).round(2))

Rank = tuple[float, float]


def best_split(
    steps: SelectThenTest,
    *,
    selection_share: float | None,
    target_epsilon: float,
    target_delta: float,
    num_queries: int,
    budget_share: float = 1.0,
) -> SelectThenTest:
    """The steps with the order, the selection scale and the test that suit a target; public parameters only.

    At each order the target leaves a Renyi budget for every query. The steps get `budget_share` of it, and of that
    `selection_share` goes to the selection. Given that share, the best order is the one whose table rises to 0.95 in
    the fewest levels. Without it, order and share are those at which the smallest lone gap is released with
    probability 1/2 (`SelectThenTest.gap_to_release`).

    Raises:
        InvalidValue: a ready table; no order leaves a budget; failure probabilities use up delta.
    """
    steps.parameters.require_no_ready_table()
    require_positive("target_epsilon", target_epsilon)
    failure_prob = steps.parameters.failure_prob
    left = target_delta - num_queries * failure_prob
    if left <= 0:
        raise InvalidValue(
            f"failure_prob={failure_prob}: {num_queries} queries use up target_delta={target_delta}: "
            "expected the sum over all queries to stay below it"
        )
    budgets = (target_epsilon - conversion_penalty(_ORDERS, target_delta=left)) * budget_share / num_queries  # [A]
    fits = [(float(order), float(budget)) for order, budget in zip(_ORDERS, budgets, strict=True) if budget > 0]
    if not fits:
        raise InvalidValue(f"target_epsilon={target_epsilon}: expected an epsilon that some noise can reach")
    split = _Split(steps)
    if selection_share is not None:
        order, budget = min(fits, key=lambda fit: split.levels_to_pass(fit[0], (1 - selection_share) * fit[1]))
        return split.spend(order, selection_share * budget, (1 - selection_share) * budget)
    return split.best(fits)


@dataclass(frozen=True)
class _Split:
    """Two steps, and what a budget buys there."""

    steps: SelectThenTest

    def best(self, fits: list[tuple[float, float]]) -> SelectThenTest:
        """The order at an even split, the best share there, the order once more: the order hardly needs the share."""

        def spend(fit: tuple[float, float], share: float) -> SelectThenTest:
            return self.spend(fit[0], share * fit[1], (1 - share) * fit[1])

        def best_fit(share: float, fits: list[tuple[float, float]]) -> tuple[float, float]:
            return min(fits, key=lambda fit: split_rank(spend(fit, share)))

        middle = fits.index(best_fit(0.5, fits[::_STRIDE]))
        near = fits[max(middle - _STRIDE, 0) : middle + _STRIDE + 1]
        fit = best_fit(0.5, near)
        coarse = min(_SHARES, key=lambda share: split_rank(spend(fit, share)))
        share = min((coarse + step for step in _FINER), key=lambda share: split_rank(spend(fit, share)))
        return spend(best_fit(share, near), share)

    def spend(self, order: float, selection_rdp: float, test_rdp: float) -> SelectThenTest:
        """The steps that cost these Renyi divergences at one order."""
        selection, parameters = self.steps.selection, self.steps.parameters
        if selection.event != NoOpEvent():  # one candidate: nothing is chosen, any scale will do
            scale = _noise_at(lambda noise: replace(selection, noise_scale=noise).event, order, selection_rdp)
            selection = replace(selection, noise_scale=scale)
        if parameters.test == "table":
            return SelectThenTest(selection, replace(parameters, table_order=order, table_budget=test_rdp))
        std = _noise_at(self._test_event, order, test_rdp)
        return SelectThenTest(selection, replace(parameters, test_std=std))

    def levels_to_pass(self, order: float, test_rdp: float) -> Rank:
        """At how many levels the table reaches 0.95, in fractions so that orders compare; then how low it ends."""
        parameters = replace(self.steps.parameters, test="table", table_order=order, table_budget=test_rdp)
        num_levels = self.steps.selection.num_teachers // parameters.adjacency.gap_sensitivity + 2
        table = parameters.optimal_table(num_levels=num_levels)
        last = table.logits[-1]
        if last < _LOGIT_OF_95:
            return math.inf, -last
        return float(np.interp(_LOGIT_OF_95, table.logits, np.arange(len(table.logits)))), -last

    def _test_event(self, noise: float) -> Event:
        parameters = replace(self.steps.parameters, test_std=noise)
        return parameters.stability_test(num_teachers=self.steps.selection.num_teachers).event


def split_rank(steps: SelectThenTest) -> Rank:
    """Smaller is better: the lone gap released with 1/2, in fractions of a vote; then how rarely that of T votes is."""
    most = steps.release_probability(steps.selection.num_teachers)
    gap = steps.gap_to_release(0.5)
    if not gap:
        return (math.inf if gap is None else 0.0), -most
    around = [steps.release_probability(votes) for votes in (gap - 1, gap)]
    return gap - 1 + float(np.interp(0.5, around, (0.0, 1.0))), -most


def _noise_at(event: Callable[[float], Event], order: float, rdp: float) -> float:
    """The noise that costs `rdp` at one order."""
    from scipy.optimize import brentq  # loads slowly

    orders = np.array([order])

    def excess(log_noise: float) -> float:
        curve = rdp_curve(count_leaves(event(math.exp(log_noise))), orders)
        return math.log(max(float(curve[0]), 1e-300) / rdp)

    return math.exp(brentq(excess, *_LOG_SCALES)) if excess(_LOG_SCALES[0]) > 0 else math.exp(_LOG_SCALES[0])
