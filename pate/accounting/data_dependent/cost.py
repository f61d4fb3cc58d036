"""The type of a data-dependent cost, which no accountant takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.validation import require, require_each

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class DataDependentCost:
    """The Renyi curve of releases that were made, computed from the votes they were made on.

    It bounds D_a(M(D) || M(D')) and D_a(M(D') || M(D)) for the D at hand and all of its neighbors D'. It is not a
    guarantee: another D has another curve. And it is private: it tells about the votes, so it may leave the machine
    only through a sanitizer. That is why it is no `Event`: accountants, ledgers and files refuse it, and its repr shows
    no number.

    Costs of releases on the same data add: `cost + cost`. A query that was refused costs what its refusal cost.

    Attributes:
        orders: `[A]` orders > 1.
        rdp: `[A]` the divergence at each, >= 0; infinity is allowed.
        failure_prob: in [0, 1), the probability outside of which the curve holds.
    """

    orders: Array
    rdp: Array
    failure_prob: float = 0.0

    def __post_init__(self) -> None:
        orders, rdp = order_array(self.orders).copy(), np.array(self.rdp, dtype=np.float64)
        require(rdp.shape == orders.shape, "rdp.shape", rdp.shape, f"{orders.shape}, one number for each order")
        bad = int((~(rdp >= 0)).sum())  # their number only: the cost is private
        require(bad == 0, "rdp", f"{bad} of {rdp.size} numbers", "numbers >= 0")
        require(0 <= self.failure_prob < 1, "failure_prob", self.failure_prob, "a number in [0, 1)")
        for name, array in (("orders", orders), ("rdp", rdp)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def __add__(self, other: DataDependentCost) -> DataDependentCost:
        """The cost of both, at the same orders."""
        if not isinstance(other, DataDependentCost):
            return NotImplemented
        same = np.array_equal(self.orders, other.orders)
        require(same, "orders", f"{self.orders}, {other.orders}", "the same orders in both costs")
        return DataDependentCost(self.orders, self.rdp + other.rdp, self.failure_prob + other.failure_prob)

    def __repr__(self) -> str:
        """Says that it is private, and nothing else."""
        return "DataDependentCost(private: computed from votes; release it through a sanitizer)"


def order_array(orders: object) -> Array:
    """Orders as an array `[A]`, or raises unless there is one and all are finite and > 1."""
    array = np.atleast_1d(np.asarray(orders, dtype=np.float64))
    require(array.ndim == 1 and array.size > 0, "orders.shape", array.shape, "[num_orders], at least one")
    require_each("orders", array, (array > 1) & np.isfinite(array), "finite numbers > 1")
    return array


def rank_of(orders: Array) -> NDArray[np.intp]:
    """Where each order stands among the sorted orders."""
    return np.argsort(np.argsort(orders, kind="stable"), kind="stable")
