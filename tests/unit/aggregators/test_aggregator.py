"""What names a release: every field in full, arrays included."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pytest
from numpy.typing import NDArray

from pate.accounting import Event, Ledger, NoOpEvent
from pate.aggregators import PerQueryAggregator
from pate.validation import InvalidValue

SHAPE = {"num_labels": 4, "num_teachers": 9}


@dataclass(frozen=True, kw_only=True, eq=False)
class Thresholds(PerQueryAggregator):
    """Answers with the labels above thresholds that are given as an array, or as anything else."""

    thresholds: Any

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        return NoOpEvent()

    def scaled(self, factor: float) -> Self:
        return self

    def _draw(
        self, votes: NDArray[np.int64], *, num_teachers: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        return votes > np.asarray(self.thresholds)[: votes.shape[1]], np.ones(len(votes), dtype=np.bool_)


def long_array(middle: float) -> np.ndarray:
    values = np.zeros(5000)
    values[2500] = middle
    return values


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (long_array(0.0), long_array(1.0)),
        (long_array(1.0), long_array(1.0 + 1e-15)),
        (np.zeros(3), np.zeros(3, dtype=int)),
        (np.zeros(3), np.zeros((1, 3))),
        (np.zeros(3), [0.0, 0.0, 0.0]),
        ((1.0,), [1.0]),
        ([long_array(0.0)], [long_array(1.0)]),
        ({"a": long_array(0.0)}, {"a": long_array(1.0)}),
        (Thresholds(thresholds=long_array(0.0)), Thresholds(thresholds=long_array(1.0))),
    ],
)
def test_fields_that_differ_give_different_names(one: Any, other: Any) -> None:
    names = [Thresholds(thresholds=value).identity(**SHAPE) for value in (one, one, other)]
    assert names[0] == names[1] != names[2]


def test_classes_of_one_name_and_adjacencies_give_different_names() -> None:
    first = Thresholds(thresholds=0)
    twin = type("Thresholds", (Thresholds,), {"__qualname__": "Elsewhere"})(thresholds=0)
    names = {item.identity(**SHAPE) for item in (first, twin, replace(first, adjacency="add_remove"))}
    assert len(names) == 3


def test_another_number_of_teachers_is_another_release() -> None:
    """Whatever the aggregator makes of it: the price of this one does not depend on it."""
    ledger, votes = Ledger(target_delta=1e-6), np.zeros((1, 4), dtype=int)
    one = Thresholds(thresholds=[0, 0, 0, 0])
    one.aggregate(votes, num_teachers=9, rng=np.random.default_rng(0), ledger=ledger)
    with pytest.raises(InvalidValue, match=r"noise=\w+: expected fresh noise"):
        one.aggregate(votes, num_teachers=10, rng=np.random.default_rng(0), ledger=ledger)


def test_two_arrays_that_print_alike_are_two_releases() -> None:
    """The same noise may not serve both."""
    one, other = (Thresholds(thresholds=long_array(middle)) for middle in (0.0, 1.0))
    assert repr(one) == repr(other)
    ledger, votes = Ledger(target_delta=1e-6), np.zeros((1, 4), dtype=int)
    for _ in range(2):
        one.aggregate(votes, num_teachers=9, rng=np.random.default_rng(0), ledger=ledger)
    assert len(ledger.entries) == 1
    with pytest.raises(InvalidValue, match=r"noise=\w+: expected fresh noise"):
        other.aggregate(votes, num_teachers=9, rng=np.random.default_rng(0), ledger=ledger)
