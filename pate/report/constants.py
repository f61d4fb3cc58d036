"""Constant predictions: one set of labels for all samples, which a student has to beat."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from pate.report.metrics import Bits, Floats, Scores, multilabel_metrics


@dataclass(frozen=True, eq=False)
class Constant:
    """A prediction of the same labels for all samples, whose scores are the labels' frequencies."""

    labels: Bits  # bool `[L]`
    frequencies: Floats  # `[L]`, the score of each label

    @classmethod
    def prior(cls, frequencies: Floats) -> Self:
        """Returns each label's majority, the constant with the best accuracy, from frequencies `[L]`."""
        return cls(frequencies > 0.5, frequencies)

    @classmethod
    def best(cls, frequencies: Floats) -> Self:
        """Returns the k most frequent labels, k for the best micro-F1 on data with these frequencies `[L]`."""
        # A set S of labels has n sum_S f hits on n samples, among n |S| predicted labels and n sum f true ones.
        order = np.argsort(-frequencies, kind="stable")
        ranks = np.cumsum(frequencies[order])
        micro_f1 = 2 * ranks / (np.arange(1, len(order) + 1) + ranks[-1])
        labels = np.zeros(len(order), dtype=np.bool_)
        labels[order[: int(np.argmax(micro_f1)) + 1]] = True
        return cls(labels, frequencies)

    def for_samples(self, count: int) -> tuple[Bits, Floats]:
        """Returns labels and scores for `count` samples, `[count, L]` each."""
        return np.tile(self.labels, (count, 1)), np.tile(self.frequencies, (count, 1))

    def metrics(self, true: Bits) -> Scores:
        """Returns the metrics of the constant against true labels `[n, L]`."""
        predicted, scores = self.for_samples(len(true))
        return multilabel_metrics(predicted, scores, true)


CONSTANTS = {"prior": Constant.prior, "best_constant": Constant.best}
"""Constants by the names of report.json, made from the true frequency of each label, which no epsilon covers."""
