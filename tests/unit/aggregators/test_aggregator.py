"""What names a release: every field in full, arrays included."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pytest
from numpy.typing import NDArray

from pate.accounting import Event, NoOpEvent
from pate.aggregators import PerQueryAggregator

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
