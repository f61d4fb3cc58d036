"""Budget classes: private groups that allow different epsilons, and how much each of their records counts.

A group that allows less epsilon has less influence on the votes. Either its records have a smaller weight in the sums
of their teacher, or fewer teachers learn from them (docs/proofs/budgets.md).
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting.rounding import format_epsilon
from pate.array_types import FloatArray
from pate.data import Dataset
from pate.pricing import PricedRelease


def record_weights(dataset: Dataset, *, priced_release: PricedRelease) -> FloatArray | None:
    """Returns the weight of each private record in votes, in (0, 1], `[num_private]`; None stands for weights of 1.

    A record has the weight of its budget class. Without budget classes, or if a class sets the number of teachers of a
    group, it has the weight that the data set gives, and None is returned if the data set gives none.
    """
    if dataset.budgets is None or priced_release.aggregator.budgets_by == "teachers":
        return dataset.weights
    weight_of_class = {
        budget_class.name: budget_class.weight for budget_class in priced_release.classes
    }
    return _for_each_record(dataset, value_of_class=weight_of_class)


def num_whole_groups(dataset: Dataset, *, weight_of_record: FloatArray) -> int:
    """Returns the sum of the vote weights of all private groups, rounded down; at least 1.

    Groups whose weights sum to 100 vote as much, beside a given noise, as 100 groups of weight 1 do.

    Args:
        dataset: the data set with the private records and their groups.
        weight_of_record: the weight of each private record's group, `[num_private]`.
    """
    first_row_of_groups = np.unique(dataset.private.group_ids, return_index=True)[1]
    return max(1, math.floor(float(weight_of_record[first_row_of_groups].sum())))


def repeat_by_budget_class(dataset: Dataset, *, priced_release: PricedRelease) -> Dataset:
    """Returns the data set that teachers learn from, in which private groups with a larger budget appear repeatedly.

    A group appears once for each teacher that may learn from it under the epsilon of the group's budget class.
    """
    if all(budget_class.teachers == 1 for budget_class in priced_release.classes):
        return dataset
    teachers_of_class = {
        budget_class.name: budget_class.teachers for budget_class in priced_release.classes
    }
    return dataset.repeat_private(_for_each_record(dataset, value_of_class=teachers_of_class))


def budget_class_remarks(dataset: Dataset, *, priced_release: PricedRelease) -> Iterator[str]:
    """Yields a sentence for each budget class: the number of its groups, their price, and their weight or teachers.

    A last sentence states that the largest budget takes the place of `target_epsilon`, and that the assignment of
    groups to classes is public, so no epsilon protects it. Without budget classes there is no sentence.
    """
    if dataset.budgets is None:
        return
    first_row_of_groups = np.unique(dataset.private.group_ids, return_index=True)[1]
    for budget_class in priced_release.classes:
        num_groups = int((dataset.budgets[first_row_of_groups] == budget_class.name).sum())
        price = f"epsilon <= {format_epsilon(budget_class.epsilon)}"
        if budget_class.teachers > 1:
            share = f"is with {budget_class.teachers} teachers"
        else:
            share = f"counts {budget_class.weight:.3g}"
        yield f"data.budget={budget_class.name}: {num_groups:,} groups, {price}, each {share}"
    largest = (
        f"the largest budget, {priced_release.classes[-1].budget:g}, is in place of target_epsilon"
    )
    yield f"data.budget: {largest}; who is in which class is taken as public, and no epsilon protects it"


def _for_each_record(dataset: Dataset, *, value_of_class: Mapping[str, float]) -> NDArray[Any]:
    """Returns, for each private record, the value of its budget class, as an array `[num_private]`.

    `value_of_class` maps the name of each class to its value, such as a weight.
    """
    class_names, class_indices = np.unique(np.asarray(dataset.budgets), return_inverse=True)
    class_values = np.array([value_of_class[name] for name in class_names.tolist()])
    return np.asarray(class_values[class_indices])
