"""Recall at equal sound price: every contender, every k, every epsilon, both adjacencies."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency
from pate.validation import require, require_choice, require_count
from reproductions.contender import FAMILIES, Task
from reproductions.counts import CountData
from reproductions.price import Target, fit
from reproductions.trial import repeated

NOT_STATED = "not stated"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is compared.

    Attributes:
        names: contenders, by their names in `FAMILIES`.
        ks: how many items are asked for, one comparison each.
        epsilons: of all histograms together, one comparison each.
        adjacencies: one comparison each.
        delta: of all histograms together.
        repeats: independent draws of each.
        seed: of the draws; every cell has a stream of its own, whatever else is compared.
    """

    names: Sequence[str] = tuple(FAMILIES)
    ks: Sequence[int]
    epsilons: Sequence[float]
    adjacencies: Sequence[Adjacency] = tuple(Adjacency)
    delta: float = 1e-6
    repeats: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        for name in self.names:
            require_choice("mechanisms", name, tuple(FAMILIES))
        for field in ("names", "ks", "epsilons", "adjacencies"):
            require(len(getattr(self, field)) > 0, field, "()", "at least one")
        for epsilon in self.epsilons:
            Target(epsilon=epsilon, delta=self.delta)
        for k in self.ks:
            require_count("k", k)
        require_count("repeats", self.repeats)
        require_count("seed", self.seed, minimum=0)

    @property
    def size(self) -> int:
        """How many cells there are."""
        return len(self.names) * len(self.ks) * len(self.epsilons) * len(self.adjacencies)

    def rng(self, *cell: object) -> np.random.Generator:
        """The generator of one cell."""
        return np.random.default_rng([self.seed, zlib.crc32(repr(cell).encode())])


@dataclass(frozen=True)
class Outcome:
    """One cell of the comparison; the order of the fields is that of the columns.

    Attributes:
        data: name of the counts.
        kind: "real" or "synthetic".
        k: how many items were asked for.
        adjacency: what one change means.
        mechanism: the contender's label.
        epsilon: what was allowed for all histograms together.
        sound_epsilon: what is spent, at most that.
        delta: for both.
        releases: how many histograms.
        repeats: independent draws.
        recall_mean: mean of the part of the true top k that was returned, over repeats and histograms.
        recall_std: standard deviation between repeats.
        precision_mean: mean of the part of the returned that is true.
        precision_std: its standard deviation.
        paper_recall: the paper's figure, where we know it.
    """

    data: str
    kind: str
    k: int
    adjacency: str
    mechanism: str
    epsilon: float
    sound_epsilon: float
    delta: float
    releases: int
    repeats: int
    recall_mean: float
    recall_std: float
    precision_mean: float
    precision_std: float
    paper_recall: str = NOT_STATED


def outcomes(data: CountData, plan: Plan) -> Iterator[Outcome]:
    """All cells, one after the other; a day of `data` is a histogram of its own, and all days share epsilon.

    Raises:
        InvalidValue: before any draw, where k does not fit the data.
    """
    days = np.atleast_2d(data.counts)
    for k in plan.ks:
        require(k < days.shape[1], "k", k, f"below the number of items, {days.shape[1]}")
    for adjacency in plan.adjacencies:
        for k in plan.ks:
            for epsilon in plan.epsilons:
                for name in plan.names:
                    yield _outcome(data, days, plan, name=name, k=k, epsilon=epsilon, adjacency=adjacency)


def _outcome(
    data: CountData,
    days: NDArray[np.int64],
    plan: Plan,
    *,
    name: str,
    k: int,
    epsilon: float,
    adjacency: Adjacency,
) -> Outcome:
    target = Target(epsilon=epsilon, delta=plan.delta, releases=len(days))
    task = Task(k=k, num_items=days.shape[1], most=data.most, failure_prob=target.failure_prob, adjacency=adjacency)
    found, rng = fit(name, task, target), plan.rng(name, k, epsilon, str(adjacency))
    family = FAMILIES[name]
    scored = [
        repeated(found.contender, day, k=k, ordered=family.ordered, repeats=plan.repeats, rng=rng) for day in days
    ]
    recall = np.mean([scores.recall for scores in scored], axis=0)  # [repeats]
    precision = np.mean([scores.precision for scores in scored], axis=0)
    return Outcome(
        data=data.name,
        kind=data.kind,
        k=k,
        adjacency=str(adjacency),
        mechanism=family.label,
        epsilon=epsilon,
        sound_epsilon=found.epsilon,
        delta=plan.delta,
        releases=len(days),
        repeats=plan.repeats,
        recall_mean=float(recall.mean()),
        recall_std=float(recall.std()),
        precision_mean=float(precision.mean()),
        precision_std=float(precision.std()),
    )
