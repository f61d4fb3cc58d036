"""How a target epsilon is split in stable top-k: at which Renyi order, and how much goes to selection and test."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from pate.accounting.conversion import conversion_penalty
from pate.accounting.events import Event, NoOpEvent
from pate.accounting.rdp import count_leaves, rdp_curve
from pate.aggregators.stable.release_probability import SelectThenTest, gap_to_release, release_probability
from pate.aggregators.stable.test_parameters import TestChoice
from pate.mechanisms.stable.stability_table import optimal_stability_table
from pate.validation import InvalidValue, require_positive

_ORDERS = 1 + np.geomspace(0.4, 1e6, 80)
_LOG_SCALES = (-60.0, 25.0)
_LOGIT_OF_95 = math.log(0.95 / 0.05)
_STRIDE = 6
_SHARES = tuple(float(share) for share in np.linspace(0.05, 0.95, 19).round(2))
_FINER = tuple(float(step) for step in np.linspace(-0.04, 0.04, 9).round(2))

Rank = tuple[float, float]


class Splittable(SelectThenTest, TestChoice, Protocol):
    """A frozen dataclass whose two steps share a budget: `StableTopK`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def selection_share(self) -> float | None:
        """The part of the budget that the selection gets; None to find it."""


S = TypeVar("S", bound=Splittable)


def best_split(
    aggregator: S,
    *,
    target_epsilon: float,
    target_delta: float,
    num_queries: int,
    num_labels: int,
    num_teachers: int,
    budget_share: float = 1.0,
) -> S:
    """The aggregator with the order, the selection scale and the test that suit a target; public parameters only.

    At each order the target leaves a Renyi budget for every query. The aggregator gets `budget_share` of it, and of
    that `selection_share` goes to the selection. Given that share, the best order is the one whose table rises to 0.95
    in the fewest levels. Without it, order and share are those at which the smallest lone gap is released with
    probability 1/2 (`gap_to_release`).

    Raises:
        InvalidValue: a ready table; no order leaves a budget; failure probabilities use up delta.
    """
    if aggregator.table is not None:
        raise InvalidValue("table: expected table_order and table_budget, a ready table cannot be scaled")
    require_positive("target_epsilon", target_epsilon)
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
    split = _Split(aggregator, num_labels, num_teachers)
    share = aggregator.selection_share
    if share is not None:
        order, budget = min(fits, key=lambda fit: split.levels_to_pass(fit[0], (1 - share) * fit[1]))
        return split.spend(order, share * budget, (1 - share) * budget)
    return split.best(fits)


@dataclass(frozen=True)
class _Split(Generic[S]):
    """A StableTopK and the votes it is for: what a budget buys there."""

    aggregator: S
    num_labels: int
    num_teachers: int

    def best(self, fits: list[tuple[float, float]]) -> S:
        """The order at an even split, the best share there, the order once more: the order hardly needs the share."""

        def spend(fit: tuple[float, float], share: float) -> S:
            return self.spend(fit[0], share * fit[1], (1 - share) * fit[1])

        def best_fit(share: float, fits: list[tuple[float, float]]) -> tuple[float, float]:
            return min(fits, key=lambda fit: self.rank(spend(fit, share)))

        middle = fits.index(best_fit(0.5, fits[::_STRIDE]))
        near = fits[max(middle - _STRIDE, 0) : middle + _STRIDE + 1]
        fit = best_fit(0.5, near)
        coarse = min(_SHARES, key=lambda share: self.rank(spend(fit, share)))
        share = min((coarse + step for step in _FINER), key=lambda share: self.rank(spend(fit, share)))
        return spend(best_fit(share, near), share)

    def spend(self, order: float, selection_rdp: float, test_rdp: float) -> S:
        """The aggregator whose two steps cost these Renyi divergences at one order."""
        selection = self.aggregator.gap_selection(num_labels=self.num_labels, num_teachers=self.num_teachers)
        scale = selection.noise_scale
        if selection.event != NoOpEvent():  # one candidate: nothing is chosen, any scale will do
            scale = _noise_at(lambda noise: replace(selection, noise_scale=noise).event, order, selection_rdp)
        chosen = replace(self.aggregator, selection_scale=scale)
        if chosen.test == "table":
            return replace(chosen, table_order=order, table_budget=test_rdp)
        return replace(chosen, test_std=_noise_at(self._test_event, order, test_rdp))

    def levels_to_pass(self, order: float, test_rdp: float) -> Rank:
        """At how many levels the table reaches 0.95, in fractions so that orders compare; then how low it ends."""
        table = optimal_stability_table(
            order=order,
            rdp_budget=test_rdp,
            failure_prob=self.aggregator.failure_prob,
            num_levels=self.num_teachers // self.aggregator.adjacency.gap_sensitivity + 2,
        )
        last = table.logits[-1]
        if last < _LOGIT_OF_95:
            return math.inf, -last
        return float(np.interp(_LOGIT_OF_95, table.logits, np.arange(len(table.logits)))), -last

    def rank(self, aggregator: S) -> Rank:
        """The lone gap that is released with 1/2, in fractions of a vote; then how rarely that of all T votes is."""
        shape = {"num_labels": self.num_labels, "num_teachers": self.num_teachers}
        most = release_probability(aggregator, self.num_teachers, **shape)
        gap = gap_to_release(aggregator, 0.5, **shape)
        if not gap:
            return (math.inf if gap is None else 0.0), -most
        around = [release_probability(aggregator, votes, **shape) for votes in (gap - 1, gap)]
        return gap - 1 + float(np.interp(0.5, around, (0.0, 1.0))), -most

    def _test_event(self, noise: float) -> Event:
        return replace(self.aggregator, test_std=noise).stability_test(num_teachers=self.num_teachers).event


def _noise_at(event: Callable[[float], Event], order: float, rdp: float) -> float:
    """The noise that costs `rdp` at one order."""
    from scipy.optimize import brentq  # loads slowly

    orders = np.array([order])

    def excess(log_noise: float) -> float:
        curve = rdp_curve(count_leaves(event(math.exp(log_noise))), orders)
        return math.log(max(float(curve[0]), 1e-300) / rdp)

    return math.exp(brentq(excess, *_LOG_SCALES)) if excess(_LOG_SCALES[0]) > 0 else math.exp(_LOG_SCALES[0])
