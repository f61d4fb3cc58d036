"""Constant predictions, which are the same for all samples. A useful student has better scores than they have."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from pate.array_types import BoolArray, FloatArray
from pate.report.metrics import Scores, multilabel_metrics


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Constant:
    """A prediction of the same labels and scores for all samples.

    Attributes:
        labels: the predicted labels, bool `[num_labels]`.
        frequencies: the frequency of each label, which is its score, `[num_labels]`.
    """

    labels: BoolArray
    frequencies: FloatArray

    @classmethod
    def prior(cls, frequencies: FloatArray) -> Self:
        """Returns the prediction of the labels that more than half of the samples have.

        On samples with these frequencies, no prediction that is the same for all samples has a better accuracy.
        `frequencies` is the share of samples with each label, `[num_labels]`.
        """
        label_frequencies = frequencies
        return cls(labels=label_frequencies > 0.5, frequencies=label_frequencies)

    @classmethod
    def best(cls, frequencies: FloatArray) -> Self:
        """Returns the prediction of the k most frequent labels, with the k that gives the best micro-F1.

        The micro-F1 is that on samples with these frequencies. `frequencies` is the share of samples with each label,
        `[num_labels]`.
        """
        # On one sample, the expected number of hits of k labels is the sum of their frequencies, among k predicted
        # labels. The expected number of true labels is the sum of all frequencies.
        label_frequencies = frequencies
        labels_by_frequency = np.argsort(-label_frequencies, kind="stable")
        num_hits = np.cumsum(label_frequencies[labels_by_frequency])
        num_predicted = np.arange(1, len(labels_by_frequency) + 1)
        num_true = num_hits[-1]
        micro_f1_of_top_k = 2 * num_hits / (num_predicted + num_true)
        best_k = int(np.argmax(micro_f1_of_top_k)) + 1
        predicted_labels = np.zeros(len(labels_by_frequency), dtype=np.bool_)
        predicted_labels[labels_by_frequency[:best_k]] = True
        return cls(labels=predicted_labels, frequencies=label_frequencies)

    def for_samples(self, num_samples: int) -> tuple[BoolArray, FloatArray]:
        """Returns the labels and the scores for `num_samples` samples, both `[num_samples, num_labels]`."""
        predicted_labels = np.tile(self.labels, (num_samples, 1))
        label_scores = np.tile(self.frequencies, (num_samples, 1))
        return predicted_labels, label_scores

    def metrics(self, true_labels: BoolArray) -> Scores:
        """Returns the metrics of the constant for true labels, bool `[num_samples, num_labels]`."""
        predicted_labels, label_scores = self.for_samples(len(true_labels))
        return multilabel_metrics(
            predicted_labels=predicted_labels, scores=label_scores, true_labels=true_labels
        )


CONSTANTS = {"prior": Constant.prior, "best_constant": Constant.best}
"""The functions that make each constant from the frequencies of labels, by its name in report.json.

Reports pass the frequencies among the private records, which no epsilon covers.
"""
