"""Grid of a comparison: every mechanism at every k, every price and both adjacencies, its draws and its rows."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pate.accounting import Adjacency
from pate.validation import require, require_choice, require_count
from reproductions.counts import CountData
from reproductions.top_k.contender import FAMILIES
from reproductions.top_k.price import SharedBudget, fit
from reproductions.top_k.score import SelectionScores, repeated


@dataclass(frozen=True)
class Cell:
    """A mechanism at one k and one price; the order of the fields is that of the columns."""

    data: str  # name of the counts
    kind: str  # "real" or "synthetic"
    k: int  # how many items were asked for
    adjacency: str  # what one change means
    mechanism: str  # the contender's label
    epsilon: float  # what was allowed for all histograms together
    sound_epsilon: float  # what is spent, at most that
    delta: float  # for both
    releases: int  # how many histograms
    repeats: int  # independent draws


@dataclass(frozen=True, kw_only=True)
class SelectionGrid:
    """The mechanisms, k, prices and adjacencies of a comparison."""

    names: Sequence[str] = tuple(FAMILIES)  # contenders, by their names in `FAMILIES`
    ks: Sequence[int]  # how many items are asked for, one comparison each
    epsilons: Sequence[float]  # of all histograms together, one comparison each
    adjacencies: Sequence[Adjacency] = tuple(Adjacency)  # one comparison each
    delta: float = 1e-6  # of all histograms together
    repeats: int = 200  # independent draws of each
    seed: int = 0  # of the draws; every cell has a stream of its own, whatever else is compared

    def __post_init__(self) -> None:
        for name in self.names:
            require_choice("mechanisms", name, tuple(FAMILIES))
        for field in ("names", "ks", "epsilons", "adjacencies"):
            require(len(getattr(self, field)) > 0, field, "()", "at least one")
        for epsilon in self.epsilons:
            SharedBudget(epsilon=epsilon, delta=self.delta)
        for k in self.ks:
            require_count("k", k)
        require_count("repeats", self.repeats)
        require_count("seed", self.seed, minimum=0)

    @property
    def size(self) -> int:
        """Returns the number of cells."""
        return len(self.names) * len(self.ks) * len(self.epsilons) * len(self.adjacencies)

    def cells(self, data: CountData) -> Iterator[tuple[Cell, list[SelectionScores]]]:
        """Yields all cells with the scores of their draws; the days of `data` are histograms that share epsilon.

        Raises:
            InvalidValue: before any draw, where k does not fit the data.
        """
        for k in self.ks:
            require(k < len(data.items), "k", k, f"below the number of items, {len(data.items)}")
        for adjacency in self.adjacencies:
            for k in self.ks:
                for epsilon in self.epsilons:
                    for name in self.names:
                        yield self._drawn(
                            data, name=name, k=k, epsilon=epsilon, adjacency=adjacency
                        )

    def _drawn(
        self, data: CountData, *, name: str, k: int, epsilon: float, adjacency: Adjacency
    ) -> tuple[Cell, list[SelectionScores]]:
        days, family, where = np.atleast_2d(data.counts), FAMILIES[name], str(adjacency)
        budget = SharedBudget(epsilon=epsilon, delta=self.delta, releases=len(days))
        fitted = fit(name, budget.task(data, k=k, adjacency=adjacency), budget)
        rng = self._rng(name, k, epsilon, where)
        scores = [
            repeated(
                fitted.contender,
                counts=day,
                k=k,
                ordered=family.ordered,
                repeats=self.repeats,
                rng=rng,
            )
            for day in days
        ]
        return Cell(
            data.name,
            data.kind,
            k,
            where,
            family.label,
            epsilon,
            fitted.epsilon,
            self.delta,
            len(days),
            self.repeats,
        ), scores

    def _rng(self, *cell: object) -> np.random.Generator:
        """Returns the generator of one cell."""
        return np.random.default_rng([self.seed, zlib.crc32(repr(cell).encode())])


MEASURES = ("l_inf", "l_1", "k_relative")
QUARTILES = (25, 50, 75)


@dataclass(frozen=True)
class RecallRow(Cell):
    """The recall and precision of a cell's picks."""

    # mean of the part of the true top k that was returned, over repeats and histograms
    recall_mean: float
    recall_std: float  # standard deviation between repeats
    precision_mean: float  # mean of the part of the returned that is true
    precision_std: float  # its standard deviation

    @classmethod
    def from_scores(cls, cell: Cell, scores: Sequence[SelectionScores]) -> RecallRow:
        """Averages each repeat over its histograms, then takes mean and spread over the repeats."""
        recall = np.mean([score.recall for score in scores], axis=0)  # [repeats]
        precision = np.mean([score.precision for score in scores], axis=0)
        return cls(
            **vars(cell),
            recall_mean=float(recall.mean()),
            recall_std=float(recall.std()),
            precision_mean=float(precision.mean()),
            precision_std=float(precision.std()),
        )


@dataclass(frozen=True)
class ErrorRow(Cell):
    """The error of a cell's picks by one measure."""

    measure: str  # "l_inf", "l_1" or "k_relative"
    lower: float  # its 25th percentile over the repeats
    median: float  # its 50th
    upper: float  # its 75th

    @classmethod
    def rows_from_scores(cls, cell: Cell, scores: SelectionScores) -> list[ErrorRow]:
        """Returns a row for each measure, of one histogram."""
        rows = []
        for measure in MEASURES:
            lower, median, upper = np.percentile(getattr(scores, measure), QUARTILES).tolist()
            rows.append(cls(**vars(cell), measure=measure, lower=lower, median=median, upper=upper))
        return rows
