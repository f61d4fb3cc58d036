"""Errors over k at one sound price: quartiles of three measures of how far the picked counts fall short."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pate.accounting import Adjacency
from pate.validation import require
from reproductions.contender import FAMILIES, Task
from reproductions.counts import CountData
from reproductions.price import Target, fit
from reproductions.recall import Plan
from reproductions.trial import repeated

MEASURES = ("l_inf", "l_1", "k_relative")
QUARTILES = (25, 50, 75)


@dataclass(frozen=True)
class CurvePoint:
    """One mechanism at one k, by one measure; the order of the fields is that of the columns.

    Attributes:
        data: name of the counts.
        kind: "real" or "synthetic".
        adjacency: what one change means.
        mechanism: the contender's label.
        epsilon: what was allowed.
        sound_epsilon: what is spent.
        delta: for both.
        k: how many items were asked for.
        measure: "l_inf", "l_1" or "k_relative".
        lower: its 25th percentile over the repeats.
        median: its 50th.
        upper: its 75th.
    """

    data: str
    kind: str
    adjacency: str
    mechanism: str
    epsilon: float
    sound_epsilon: float
    delta: float
    k: int
    measure: str
    lower: float
    median: float
    upper: float


def curve_points(data: CountData, plan: Plan) -> Iterator[tuple[CurvePoint, ...]]:
    """For each cell of the plan, its points by all measures.

    Raises:
        InvalidValue: before any draw, where k does not fit the data or the data are not one histogram.
    """
    require(data.counts.ndim == 1, "counts.shape", data.counts.shape, "one histogram")
    for k in plan.ks:
        require(k < len(data.items), "k", k, f"below the number of items, {len(data.items)}")
    for adjacency in plan.adjacencies:
        for epsilon in plan.epsilons:
            for k in plan.ks:
                for name in plan.names:
                    yield _points(data, plan, name=name, k=k, epsilon=epsilon, adjacency=adjacency)


def _points(
    data: CountData, plan: Plan, *, name: str, k: int, epsilon: float, adjacency: Adjacency
) -> tuple[CurvePoint, ...]:
    family, target = FAMILIES[name], Target(epsilon=epsilon, delta=plan.delta)
    task = Task(k=k, num_items=len(data.items), most=data.most, failure_prob=target.failure_prob, adjacency=adjacency)
    found = fit(name, task, target)
    scored = repeated(
        found.contender,
        data.counts,
        k=k,
        ordered=family.ordered,
        repeats=plan.repeats,
        rng=plan.rng(name, k, epsilon, str(adjacency)),
    )
    where = (data.name, data.kind, str(adjacency), family.label, epsilon, found.epsilon, plan.delta, k)
    return tuple(
        CurvePoint(*where, measure, *np.percentile(getattr(scored, measure), QUARTILES).tolist())
        for measure in MEASURES
    )
