"""Gradients of groups on a linear model, clipped together, and their sum released with exact noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from pate.mechanisms.noise.rounded_gaussian import RoundedGaussian
from pate.validation import require_positive

Array = NDArray[np.float64]

_FLOAT = 2.0**-20  # relative, of a length
_FINENESS = 2.0**-20  # of the clip: what rounding all entries is worth
_UNIT = 2.0**-52
_BLOCK_ENTRIES = 2**22


@dataclass(frozen=True, eq=False)
class GroupGradients:
    """The private records of a linear logistic model, by group.

    Rule: a group's gradient is the mean over its records of features x (labels - probabilities), one matrix; it counts
    for min(1, clip / length). Whatever its records are and however many, it is at most `clip` long.

    Attributes:
        features: of length 1, `[n, k]`, records of a group beside each other, groups of one record first.
        labels: `[n, L]`.
        num_single: groups of one record.
        starts: the first record of each other group, `[G]`.
        sizes: their numbers of records, `[G]`.
    """

    features: Array
    labels: Array
    num_single: int
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, features: Array, labels: NDArray[np.bool_], group_ids: NDArray[np.int64]) -> GroupGradients:
        """Sorts records by group.

        Args:
            features: `[n, k]`.
            labels: `[n, L]`.
            group_ids: `[n]`.
        """
        _, group, sizes = np.unique(group_ids, return_inverse=True, return_counts=True)
        order = np.lexsort((group, sizes[group] > 1))
        several = sizes[sizes > 1]
        num_single = int(np.sum(sizes == 1))
        starts = num_single + np.cumsum(several) - several
        return cls(features[order], labels[order].astype(np.float64), num_single, starts, several)

    @property
    def num_groups(self) -> int:
        """N, public under replace-one."""
        return self.num_single + len(self.sizes)

    def label_shares(self) -> Array:
        """Each group's share of records with each label, `[N, L]`."""
        if len(self.sizes) == 0:
            return self.labels
        shares = np.add.reduceat(self.labels[self.num_single :], self.starts - self.num_single, axis=0)
        return np.concatenate([self.labels[: self.num_single], (shares / self.sizes[:, None]).clip(0, 1)])

    def clipped_sum(self, weights: Array, bias: Array, clip: float) -> Array:
        """The sum over groups of their clipped gradients at a model, `[k, L]`."""
        residuals = self.labels - expit(self.features @ weights + bias)
        features, single = self.features[: self.num_single], residuals[: self.num_single]
        lengths = np.linalg.norm(features, axis=1) * np.linalg.norm(single, axis=1)
        total = features.T @ (single * (clip / np.maximum(lengths, clip))[:, None])
        per_block = max(1, _BLOCK_ENTRIES // total.size)
        for first, last in self._blocks(per_block):
            rows = slice(int(self.starts[first]), int(self.starts[last - 1] + self.sizes[last - 1]))
            total += self._sum_of(rows, slice(first, last), residuals, clip)
        return np.asarray(total)

    def _blocks(self, records: int) -> list[tuple[int, int]]:
        """Runs of groups of several records, of about that many records each."""
        blocks, first, held = [], 0, 0
        for index, size in enumerate(self.sizes.tolist()):
            if held and held + size > records:
                blocks.append((first, index))
                first, held = index, 0
            held += size
        return [*blocks, (first, len(self.sizes))] if held else blocks

    def _sum_of(self, rows: slice, groups: slice, residuals: Array, clip: float) -> Array:
        products = np.einsum("ik,il->ikl", self.features[rows], residuals[rows])
        starts = self.starts[groups] - self.starts[groups.start]
        means = np.add.reduceat(products, starts, axis=0) / self.sizes[groups, None, None]
        lengths = np.sqrt(np.square(means).sum(axis=(1, 2)))
        return np.asarray(np.einsum("g,gkl->kl", clip / np.maximum(lengths, clip), means))


@dataclass(frozen=True)
class NoisySum:
    """Releases a sum of contributions, each at most `clip` long, with rounded Gaussian noise.

    Formal guarantees:
        * One unit replaced moves the sum by at most 2 clip in l2. What floats and the grid add to that is in the
          sensitivity, so the noise, whole steps drawn exactly, costs `GaussianEvent(noise_multiplier)`.

    Attributes:
        clip: > 0.
        noise_multiplier: noise std over sensitivity, > 0.
        num_units: N, public: how many contributions are added, at most.
    """

    clip: float
    noise_multiplier: float
    num_units: int

    def __post_init__(self) -> None:
        require_positive("clip", self.clip)
        require_positive("noise_multiplier", self.noise_multiplier)

    def step(self, size: int) -> float:
        """The grid's spacing for that many entries, a power of 2."""
        return float(2.0 ** math.floor(math.log2(self.clip * _FINENESS / math.sqrt(size))))

    def sensitivity(self, size: int) -> float:
        """How far one unit replaced moves the rounded sum, in steps."""
        floats = 2 * _UNIT * (self.num_units + 8) * self.num_units * max(self.clip, 1.0)
        return (2 * self.clip * (1 + _FLOAT) + floats) / self.step(size) + math.sqrt(size)

    def std(self, size: int) -> float:
        """Of the noise in an entry."""
        return self.noise_multiplier * self.sensitivity(size) * self.step(size)

    def release(self, total: Array, rng: np.random.Generator) -> Array:
        """The sum with noise, of the same shape."""
        step = self.step(total.size)
        noise = RoundedGaussian(self.noise_multiplier * self.sensitivity(total.size)).sample(total.shape, rng)
        return np.asarray((np.rint(total / step) + noise) * step)
