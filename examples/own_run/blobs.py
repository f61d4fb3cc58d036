"""Data set and teacher of your own. Only `load`, `fit_many` and `predict_many` are required."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pate.data import Dataset, Split
from pate.models import Shard, State, Teacher


@dataclass(frozen=True)
class Blobs:
    """Points around 0, whose label l holds where coordinate l is positive.

    Of a data set nothing is published but fields that say so.

    Attributes:
        num_private: records of the private pool, > 0.
        num_labels: L, > 0.
    """

    num_private: int = 2000
    num_labels: int = field(default=4, metadata={"public": True})

    def load(self) -> Dataset:
        rng = np.random.default_rng(0)
        inputs = rng.standard_normal((self.num_private + 800, self.num_labels + 2)).astype(
            np.float32
        )
        labels = (
            inputs[:, : self.num_labels] + 0.1 * rng.standard_normal((len(inputs), self.num_labels))
            > 0
        )
        ids = np.arange(len(inputs))

        def split(first: int, last: int) -> Split:
            rows = slice(first, last)
            return Split(inputs[rows], labels[rows], record_ids=ids[rows], group_ids=ids[rows])

        end = self.num_private
        names = tuple(f"positive_{index}" for index in range(self.num_labels))
        return Dataset(
            name="blobs",
            real=False,
            kind="features",
            label_names=names,
            private=split(0, end),
            public=split(end, end + 400),
            test=split(end + 400, end + 800),
        )


@dataclass(frozen=True)
class Centroids(Teacher):
    """A teacher that predicts, for each label, the nearer of two means: of the records with it and without it.

    Attributes:
        sharpness: how fast confidence grows with the difference of the distances, > 0.
    """

    sharpness: float = 1.0

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        return [self._fit(shard) for shard in shards]

    def predict_many(
        self, states: Sequence[State], inputs: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        return np.stack([self._confidences(state, inputs) for state in states]).astype(np.float32)

    def _fit(self, shard: Shard) -> State:
        held = shard.labels.T.astype(np.float64)  # [L, n]
        with_it = held @ shard.inputs / np.maximum(held.sum(axis=1), 1)[:, None]  # [L, d]
        without = (1 - held) @ shard.inputs / np.maximum((1 - held).sum(axis=1), 1)[:, None]
        state: State = {"with": with_it, "without": without}
        error = np.square(self._confidences(state, shard.inputs) - shard.labels).mean()
        return state | {"loss_curve": np.array([error], np.float32)}

    def _confidences(self, state: State, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        def distance(means: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.square(inputs[:, None] - means).sum(axis=2)  # [Q, L]

        difference = distance(state["without"]) - distance(state["with"])
        return 0.5 + 0.5 * np.tanh(self.sharpness * difference)
