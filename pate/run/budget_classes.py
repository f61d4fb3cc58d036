"""Private records whose groups have budgets or weights of their own, and the part that each record takes in a run.

A group with a smaller budget counts less: by a weight in the sums of its teacher, or by being with fewer teachers
(docs/proofs/budgets.md).
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting.rounding import format_epsilon
from pate.data import Dataset
from pate.pricing import PricedRelease


def record_weights(dataset: Dataset, priced: PricedRelease) -> NDArray[np.float64] | None:
    """Returns the weight of each private record's group, `[num_private]`; None where every group counts once."""
    if dataset.budgets is None or priced.aggregator.budgets_by == "teachers":
        return dataset.weights
    weights = {budget_class.name: budget_class.weight for budget_class in priced.classes}
    return _for_each_record(dataset, weights)


def num_whole_groups(dataset: Dataset, weights: NDArray[np.float64]) -> int:
    """Returns the sum of the weights of all private groups, rounded down; at least 1.

    A sum of 100 protects as well as 100 groups that count once each. `weights` are by record, `[num_private]`.
    """
    first_records = np.unique(dataset.private.group_ids, return_index=True)[1]
    return max(1, math.floor(float(weights[first_records].sum())))


def repeat_records(dataset: Dataset, priced: PricedRelease) -> Dataset:
    """Returns the data set that teachers learn from, in which a group is repeated for each teacher that it pays for."""
    if all(budget_class.teachers == 1 for budget_class in priced.classes):
        return dataset
    counts = {budget_class.name: budget_class.teachers for budget_class in priced.classes}
    return dataset.repeat_private(_for_each_record(dataset, counts))


def budget_class_remarks(dataset: Dataset, priced: PricedRelease) -> Iterator[str]:
    """Yields a line on each budget class, with its groups and their price, and a line on what no epsilon protects."""
    if dataset.budgets is None:
        return
    first_records = np.unique(dataset.private.group_ids, return_index=True)[1]
    for budget_class in priced.classes:
        count = int((dataset.budgets[first_records] == budget_class.name).sum())
        price = f"epsilon <= {format_epsilon(budget_class.epsilon)}"
        if budget_class.teachers > 1:
            share = f"is with {budget_class.teachers} teachers"
        else:
            share = f"counts {budget_class.weight:.3g}"
        yield f"data.budget={budget_class.name}: {count:,} groups, {price}, each {share}"
    largest = f"the largest budget, {priced.classes[-1].budget:g}, is in place of target_epsilon"
    yield f"data.budget: {largest}; who is in which class is taken as public, and no epsilon protects it"


def _for_each_record(dataset: Dataset, value_of_class: Mapping[str, float]) -> NDArray[Any]:
    """Returns the value of each private record's budget class, `[num_private]`."""
    names, positions = np.unique(np.asarray(dataset.budgets), return_inverse=True)
    values = np.array([value_of_class[name] for name in names.tolist()])
    return np.asarray(values[positions])
