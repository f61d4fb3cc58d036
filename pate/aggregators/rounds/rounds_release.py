"""A release of centered votes in rounds: a calibrated student, and what it says of the queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event
from pate.accounting.special import expit
from pate.aggregators.release import REMEDY, Release, TrainingSet
from pate.files.arrays import ArrayForm
from pate.files.reading import damaged
from pate.votes.expected_f1 import expected_f1_threshold

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RoundsRelease(Release):
    """What `VoteRounds` released; all of it may be published.

    Attributes:
        scores: float64 `[Q, L]`, the student's probabilities.
        weights: float64 `[D, L]`, the student: logits on `PublicPCA.with_constant` of directions of the pool.
    """

    scores: Array
    weights: Array

    _FORMS: ClassVar[dict[str, ArrayForm]] = Release._FORMS | {
        "scores": ArrayForm("f", (None, None)),
        "weights": ArrayForm("f", (None, None)),
    }

    @classmethod
    def of(cls, weights: Array, features: NDArray[np.float32], num_queries: int, event: Event, by: Adjacency) -> Self:
        """That of a student, given the features of the pool, which begins with the queries.

        Labels are those from the probability on that has the best expected micro-F1 on the pool.
        """
        probabilities = np.asarray(expit(features @ weights), dtype=np.float64)
        scores = probabilities[:num_queries]
        labels = scores >= expected_f1_threshold(probabilities)
        return cls(labels, np.ones(num_queries, dtype=np.bool_), event, by, scores, weights)

    def training_set(self, inputs: NDArray[np.float32]) -> TrainingSet:
        """See `Release.training_set`; with the weights."""
        return replace(super().training_set(inputs), weights=self.weights)

    @classmethod
    def _check(cls, arrays: dict[str, NDArray[Any]], path: Path) -> None:
        """See `Release`."""
        labels, scores, weights = arrays["labels"], arrays["scores"], arrays["weights"]
        good = len(labels) == len(arrays["answered"]) and labels.shape == scores.shape
        if not good or weights.shape[1] != labels.shape[1]:
            raise damaged(path, "arrays of one length", "others", REMEDY)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """See `Release.arrays`."""
        return super().arrays() | {"scores": self.scores, "weights": self.weights}
