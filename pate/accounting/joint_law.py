"""The joint-law accountant: it prices the selection of a gap and the test of the selected gap as one release.

Sort the vote counts of a query. A gap is the difference of two neighboring sorted counts. The gap with the largest
noisy value is selected, and then a noisy test decides whether its position is released (`SelectThenTestEvent`). The
votes of T teachers allow few large gaps, so most gaps that may be selected cannot pass the test. So the joint
distribution ("law") of both results costs less than selection and test composed.

At each order a > 1 linear programs bound the Renyi divergence of the joint law (`worst_joint_law`). That takes some
milliseconds, so only orders near the best order of `RdpAccountant` are computed (docs/proofs/joint_law.md).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Self

import numpy as np

from pate.accounting.conversion import rdp_to_deltas, rdp_to_epsilons
from pate.accounting.event_tree import count_leaves, nodes
from pate.accounting.events import Event, SelectThenTestEvent
from pate.accounting.loss_accountant import AccountantBesideRenyi
from pate.accounting.rdp import rdp_curve
from pate.accounting.worst_joint_law import GapTypes, largest_divergence
from pate.array_types import FloatArray

LARGEST_NUM_TEACHERS = 20_000
"""The largest number of teachers for which the joint law, which goes over every gap, is computed.

With more teachers the computation would take seconds, and at usual noise it would save little.
"""

# The orders that are computed are 1 + _ORDER_RATIO**step for whole numbers `step`. All calls have the same orders, so
# that a cached divergence serves many calls.
_ORDER_RATIO = 1.05
# The search for the best order walks by two steps first, and then by one step.
_STRIDES = (2, 1)
# The search ends so many steps from where it starts.
_FARTHEST_STEP = 24
# The search is left out where its first epsilon is above this share of the epsilon of the Renyi accountant.
_WORTH_SEARCHING = 0.99
# A selection with this range or a larger one is priced without its joint law.
_LARGEST_RANGE = 20.0
# With smaller log odds the probability that a test passes would lose digits.
_LOWEST_LOGIT = -700.0
# The exponential of a larger number may be no float.
_LARGEST_LOG = 700.0
# The bisection for delta: its smallest delta, and the ratio of both ends at which it stops.
_SMALLEST_DELTA = 1e-30
_DELTA_RATIO = 1.01
# The relative numerical error of an epsilon.
_RESOLUTION = 0.003
# For the trade-off curve: the Renyi curve is computed at every fourth step of the grid, from the smaller of the best
# orders of these deltas to `_FARTHEST_STEP` steps above the larger one.
_DELTAS_OF_COARSE_CURVE = (0.3, 1e-4)
_STRIDE_OF_COARSE_CURVE = 4


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class _CurveAtOrders:
    """A Renyi curve: some orders, and the divergence at each of them."""

    orders: FloatArray  # `[num_orders]`
    rdp: FloatArray  # `[num_orders]`


class JointLawAccountant(AccountantBesideRenyi):
    """An accountant that prices a gap selection and its test as one release, and other events as `RdpAccountant` does.

    The saving depends on the number of teachers beside the noise. Take a stable top-k with 40 labels, 600 queries and
    an optimal table of its stability test, under replace-one. An epsilon that is 8 by `RdpAccountant` is a fifth less
    with 400 teachers, an eighth less with 800, and about a thirtieth less with 2,000.

    Each Renyi order gives an upper bound on epsilon, and the smallest over a few orders near the best order of
    `RdpAccountant` is returned. One epsilon takes some tenths of a second. Its relative numerical error is up to 0.003,
    so a smaller difference between two epsilons means nothing.

    Source: docs/proofs/joint_law.md.
    """

    name = "joint_law"
    any_event_order = True

    def __init__(self) -> None:
        super().__init__()
        self._count_of_joint_price: Counter[SelectThenTestEvent] = Counter()
        # The Renyi curve at a few orders, for the trade-off curve; None until it is needed.
        self._coarse_curve: _CurveAtOrders | None = None

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event to the total, `count` times, and returns this accountant.

        Raises `InvalidValue`, and adds nothing, where an event within `event` has no known Renyi curve.
        """
        self._rdp.compose(event, count=count)
        self.failure_prob = self._rdp.failure_prob
        for select_then_test, num_times in count_select_then_tests(
            root_event=event, num_releases=count
        ).items():
            if select_then_test.num_teachers <= LARGEST_NUM_TEACHERS:
                self._count_of_joint_price[select_then_test] += num_times
        self._coarse_curve = None
        return self

    def resolution(self, target_delta: float) -> float:
        """Returns the relative numerical error of the epsilon at `target_delta`; 0 where no joint law is computed."""
        return _RESOLUTION if self._count_of_joint_price else 0.0

    def get_epsilon(self, target_delta: float) -> float:
        """Returns the smaller epsilon, at `target_delta`, of the joint law and of `RdpAccountant`.

        Raises `InvalidValue` where the failure probabilities of the events sum to `target_delta` or more.
        """
        renyi_epsilon = self._rdp.get_epsilon(target_delta)
        remaining_delta = self.remaining_delta(target_delta)
        if not self._count_of_joint_price or not 0 < renyi_epsilon < math.inf:
            return renyi_epsilon

        @cache
        def epsilon_at_order_step(order_step: int) -> float:
            """Returns the epsilon of all events at `remaining_delta`, by the Renyi order 1 + 1.05**order_step.

            Gap selections are priced by their joint law.
            """
            orders = np.array([1 + _ORDER_RATIO**order_step])
            rdp = self._curve(orders)
            return float(rdp_to_epsilons(orders, rdp, target_delta=remaining_delta)[0])

        best_order_step = _order_step_near(self._rdp.best_order(target_delta))
        if epsilon_at_order_step(best_order_step) <= renyi_epsilon * _WORTH_SEARCHING:
            best_order_step = _best_order_step(
                epsilon_at_order_step, first_order_step=best_order_step
            )
        return min(renyi_epsilon, epsilon_at_order_step(best_order_step))

    def get_delta(self, target_epsilon: float) -> float:
        """Returns the smallest delta, failures included, whose epsilon is at most `target_epsilon`.

        The delta is found by bisection, with a relative error of at most 0.01 upwards.
        """
        renyi_delta = self._rdp.get_delta(target_epsilon)
        if not self._count_of_joint_price or not self.failure_prob < renyi_delta < 1:
            return renyi_delta
        smallest_delta = renyi_delta
        low_delta = max(_SMALLEST_DELTA, 2 * math.ulp(self.failure_prob))
        high_delta = renyi_delta - self.failure_prob
        while high_delta > low_delta * _DELTA_RATIO:
            middle_delta = math.sqrt(low_delta * high_delta)
            # The sum is above the failure probability, because `low_delta` is larger than its rounding error.
            delta = self.failure_prob + middle_delta
            if self.get_epsilon(delta) <= target_epsilon:
                smallest_delta = delta
                high_delta = middle_delta
            else:
                low_delta = middle_delta
        return smallest_delta

    def _quick_delta(self, epsilon: float) -> float:
        renyi_delta = self._rdp.get_delta(epsilon)
        if not self._count_of_joint_price or not self.failure_prob < renyi_delta < 1:
            return renyi_delta
        if self._coarse_curve is None:
            self._coarse_curve = self._curve_at_few_orders()
        orders = self._coarse_curve.orders
        deltas_of_orders = rdp_to_deltas(orders, self._coarse_curve.rdp, target_epsilon=epsilon)
        return min(renyi_delta, float(deltas_of_orders.min()) + self.failure_prob)

    def _largest_useful_epsilon(self, negligible_delta: float) -> float:
        return self._rdp._largest_useful_epsilon(negligible_delta=negligible_delta)

    def _curve_at_few_orders(self) -> _CurveAtOrders:
        """Returns the Renyi curve of all events at a few orders, from the best order of delta = 0.3 upwards.

        The orders reach beyond the best order of delta = 1e-4.

        Gap selections are priced by their joint law. The computation takes about a second.
        """
        best_order_steps_of_deltas: list[int] = []
        for delta in _DELTAS_OF_COARSE_CURVE:
            best_order = self._rdp.best_order(max(delta, 2 * self.failure_prob))
            best_order_steps_of_deltas.append(_order_step_near(best_order))
        chosen_order_steps = range(
            min(best_order_steps_of_deltas),
            max(best_order_steps_of_deltas) + _FARTHEST_STEP,
            _STRIDE_OF_COARSE_CURVE,
        )
        orders = np.array([1 + _ORDER_RATIO**order_step for order_step in chosen_order_steps])
        return _CurveAtOrders(orders=orders, rdp=self._curve(orders))

    def _curve(self, orders: FloatArray) -> FloatArray:
        """Returns the Renyi curve of all events, with gap selections priced by their joint law, `[num_orders]`."""
        total_rdp = self._rdp.curve(orders)
        for event, count in self._count_of_joint_price.items():
            rdp_of_selection_and_test = rdp_curve(count_leaves(event), orders)
            rdp_by_joint_law = np.array([joint_rdp(event, order) for order in orders.tolist()])
            saved_rdp = np.subtract(
                rdp_of_selection_and_test,
                rdp_by_joint_law,
                out=np.zeros_like(rdp_of_selection_and_test),
                where=rdp_of_selection_and_test < math.inf,
            )
            total_rdp = total_rdp - count * saved_rdp
        return total_rdp


def _order_step_near(order: float) -> int:
    """Returns the whole number whose order 1 + 1.05**step is nearest to an order > 1, on a logarithmic scale."""
    return round(math.log(order - 1) / math.log(_ORDER_RATIO))


def _best_order_step(
    epsilon_at_order_step: Callable[[int], float], *, first_order_step: int
) -> int:
    """Returns the step with the smallest epsilon that a walk downhill to both sides of `first_order_step` reaches.

    A step is a whole number that stands for the Renyi order 1 + 1.05**step.

    Args:
        epsilon_at_order_step: returns the epsilon at the order of a step; its values should be cached.
        first_order_step: the step where the walk starts.
    """
    best_order_step = first_order_step
    for stride in _STRIDES:
        start_order_step = best_order_step
        for direction in (-stride, stride):
            order_step = start_order_step
            while epsilon_at_order_step(order_step) <= epsilon_at_order_step(best_order_step):
                order_step += direction
                if abs(order_step - first_order_step) > _FARTHEST_STEP:
                    break
                best_order_step = min(best_order_step, order_step, key=epsilon_at_order_step)
    return best_order_step


@lru_cache(maxsize=1024)  # the search for the best order comes back to the same orders
def joint_rdp(select_then_test: SelectThenTestEvent, order: float) -> float:
    """Returns an upper bound on the Renyi divergence of one query's selection and test, given that no failure happens.

    The bound is at most the sum of the divergences of selection and test. The results are cached.

    Args:
        select_then_test: the price of the query.
        order: the order of the divergence, > 1.
    """

    def divergence_of_ratios(ratios: FloatArray) -> FloatArray:
        """Returns f(x) = x^(1-a) - 1 + (a - 1) (x - 1) of each entry x of `ratios`, where a is the order.

        An entry is the ratio Q / P of the probabilities of one outcome on two neighbors. The mean of f under P is
        E_Q[(P/Q)^a] - 1.
        """
        with np.errstate(divide="ignore", over="ignore"):
            log_ratios = np.log(ratios)
            return np.asarray(
                np.expm1((1 - order) * log_ratios) + (order - 1) * np.expm1(log_ratios)
            )

    rdp_of_selection_and_test = float(
        rdp_curve(count_leaves(select_then_test), orders=np.array([order]))[0]
    )
    lowest_logit = min(
        (logit for logit in select_then_test.bit.logits if logit > -math.inf), default=0.0
    )
    if (
        not 0 < select_then_test.selection.epsilon < _LARGEST_RANGE
        or lowest_logit < _LOWEST_LOGIT
        or rdp_of_selection_and_test == math.inf
    ):
        return rdp_of_selection_and_test
    gap_types = GapTypes.from_event(select_then_test)
    excess_moment = largest_divergence(gap_types, divergence_of_ratios)
    rounding = math.expm1(min(order * gap_types.rounding, _LARGEST_LOG))
    excess_moment += rounding * (excess_moment + order)
    return min(rdp_of_selection_and_test, math.log1p(excess_moment) / (order - 1))


def count_select_then_tests(root_event: Event, num_releases: int) -> Counter[SelectThenTestEvent]:
    """Returns the gap selections with their tests within an event, with the number of times that each is released.

    Args:
        root_event: the event, which may be composed of others.
        num_releases: the number of times that the event is released, >= 0.
    """
    count_of_price: Counter[SelectThenTestEvent] = Counter()
    for node, times in nodes(root_event, num_releases=num_releases):
        if isinstance(node, SelectThenTestEvent):
            count_of_price[node] += times
    return +count_of_price  # the unary plus drops counts of 0
