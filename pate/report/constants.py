"""Predictions that are the same for every sample: what a model has to beat before it is worth anything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.report.metrics import multilabel_metrics
from pate.report.scores import Scores

CONSTANT_NAMES = ("prior", "best_constant")


@dataclass(frozen=True, eq=False)
class Constant:
    """One set of labels for all samples, ranked by how frequent each label is.

    Attributes:
        labels: bool `[L]`.
        frequencies: `[L]`, the score of each label.
    """

    labels: NDArray[np.bool_]
    frequencies: NDArray[np.float64]

    @classmethod
    def prior(cls, frequencies: NDArray[np.float64]) -> Constant:
        """Each label's majority: the constant with the best accuracy."""
        return cls(frequencies > 0.5, frequencies)

    @classmethod
    def best(cls, frequencies: NDArray[np.float64]) -> Constant:
        """The k most frequent labels, k for the best micro-F1 on data with these frequencies."""
        order = np.argsort(-frequencies, kind="stable")
        found = np.cumsum(frequencies[order])
        micro_f1 = 2 * found / (np.arange(1, len(order) + 1) + found[-1])
        labels = np.zeros(len(order), dtype=np.bool_)
        labels[order[: int(np.argmax(micro_f1)) + 1]] = True
        return cls(labels, frequencies)

    @classmethod
    def named(cls, name: str, frequencies: NDArray[np.float64]) -> Constant:
        """That of `CONSTANT_NAMES`, from the true frequency of each label `[L]`, which no epsilon covers."""
        return cls.prior(frequencies) if name == "prior" else cls.best(frequencies)

    def for_samples(self, count: int) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Labels and scores for that many samples, `[count, L]` each."""
        return np.tile(self.labels, (count, 1)), np.tile(self.frequencies, (count, 1))

    def metrics(self, true: NDArray[np.bool_]) -> Scores:
        """Its metrics against true labels `[n, L]`."""
        return multilabel_metrics(*self.for_samples(len(true)), true)
