"""Constant predictions, which are the same for all samples; a student should have better scores."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from pate.array_types import BoolArray, FloatArray
from pate.report.metrics import Scores, multilabel_metrics


@dataclass(frozen=True, eq=False)
class Constant:
    """A prediction of the same labels for all samples; its scores are the frequencies of the labels."""

    labels: BoolArray  # bool `[L]`
    frequencies: FloatArray  # `[L]`, the score of each label

    @classmethod
    def prior(cls, frequencies: FloatArray) -> Self:
        """Returns the labels that more than half of the samples have, which is the constant with the best accuracy.

        `frequencies` is the share of samples with each label, `[num_labels]`.
        """
        return cls(labels=frequencies > 0.5, frequencies=frequencies)

    @classmethod
    def best(cls, frequencies: FloatArray) -> Self:
        """Returns the k most frequent labels, with the k that gives the best micro-F1 on data with these frequencies.

        `frequencies` is the share of samples with each label, `[num_labels]`.
        """
        # A set S of labels has n sum_S f hits on n samples, among n |S| predicted labels and n sum f true ones.
        order = np.argsort(-frequencies, kind="stable")
        ranks = np.cumsum(frequencies[order])
        micro_f1 = 2 * ranks / (np.arange(1, len(order) + 1) + ranks[-1])
        labels = np.zeros(len(order), dtype=np.bool_)
        labels[order[: int(np.argmax(micro_f1)) + 1]] = True
        return cls(labels, frequencies)

    def for_samples(self, num_samples: int) -> tuple[BoolArray, FloatArray]:
        """Returns the labels and the scores for `num_samples` samples, both `[num_samples, num_labels]`."""
        return np.tile(self.labels, (num_samples, 1)), np.tile(self.frequencies, (num_samples, 1))

    def metrics(self, true_labels: BoolArray) -> Scores:
        """Returns the metrics of the constant for true labels, bool `[num_samples, num_labels]`."""
        predicted, scores = self.for_samples(len(true_labels))
        return multilabel_metrics(
            predicted_labels=predicted, scores=scores, true_labels=true_labels
        )


CONSTANTS = {"prior": Constant.prior, "best_constant": Constant.best}
"""Constants by the names of report.json, made from the true frequency of each label, which no epsilon covers."""
