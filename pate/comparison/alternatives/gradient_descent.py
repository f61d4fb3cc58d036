"""Full-batch gradient descent with noise on a linear model: groups' gradients clipped together, their sum released."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from pate.accounting import Event, GaussianEvent
from pate.aggregators.prevalence import Prevalence
from pate.comparison.alternatives.alternative import (
    PREVALENCE_SHARE,
    Alternative,
    NoisyModel,
    PublicDirections,
    Training,
    generators,
    prevalence_of,
)
from pate.mechanisms.noise.whole_numbers import RoundedGaussian
from pate.validation import require_positive
from pate.votes.descent import expected_f1_threshold

Array = NDArray[np.float64]

_FLOAT = 2.0**-20  # relative, of a length
_FINENESS = 2.0**-20  # of the clip: what rounding all entries is worth
_UNIT = 2.0**-52
_BLOCK_ENTRIES = 2**22
_FEW = 8  # records of a group whose product need not be formed
_MOST_CANCELED = 8.0  # of its records' lengths, in the length of such a group
_ROWS = 4096  # records that are added up in one product


@dataclass(frozen=True, eq=False)
class GroupGradients:
    """The private records of a linear logistic model, by group.

    Rule: a group's gradient is the mean over its records of features x (labels - probabilities), one matrix; it counts
    for min(1, clip / length). Whatever its records are and however many, it is at most `clip` long.
    """

    features: Array  # of length 1, `[n, k]`, records of a group beside each other, small groups first
    labels: Array  # `[n, L]`
    sizes: NDArray[np.int64]  # each group's number of records, rising, `[N]`

    @classmethod
    def of(cls, features: Array, labels: NDArray[np.bool_], group_ids: NDArray[np.int64]) -> GroupGradients:
        _, group, sizes = np.unique(group_ids, return_inverse=True, return_counts=True)
        order = np.lexsort((group, sizes[group]))
        return cls(features[order], labels[order].astype(np.float64), np.sort(sizes))

    @property
    def num_groups(self) -> int:
        return len(self.sizes)

    def label_shares(self) -> Array:
        """Each group's share of records with each label, `[N, L]`."""
        shares = np.add.reduceat(self.labels, self._starts, axis=0)
        return np.asarray((shares / self.sizes[:, None]).clip(0, 1))

    def clipped_sum(self, weights: Array, bias: Array, clip: float) -> Array:
        """The sum over groups of their clipped gradients at a model, `[k, L]`."""
        residuals = self.labels - scipy.special.expit(self.features @ weights + bias)
        num_few = int(np.searchsorted(self.sizes, _FEW, side="right"))
        end = int(self.sizes[:num_few].sum())
        residuals[:end] *= self._shares_of_few(residuals, clip)[:, None]
        total = np.zeros((self.features.shape[1], residuals.shape[1]))
        for start in range(0, end, _ROWS):
            rows = slice(start, min(start + _ROWS, end))
            total += self.features[rows].T @ residuals[rows]
        for first, last in self._blocks(num_few, max(1, _BLOCK_ENTRIES // total.size)):
            rows = slice(int(self._starts[first]), int(self._starts[last - 1] + self.sizes[last - 1]))
            total += self._sum_of(rows, slice(first, last), residuals, clip)
        return np.asarray(total)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.cumsum(self.sizes) - self.sizes

    def _shares_of_few(self, residuals: Array, clip: float) -> Array:
        """What each record of a small group counts for: its group's weight over its number of records.

        The length of a mean product comes from the products of its features and of its residuals. Where records all but
        cancel each other, it is taken for an eighth of theirs: so rounding is a tiny share of it.
        """
        found = []
        for size in range(1, _FEW + 1):
            first, last = np.searchsorted(self.sizes, [size, size + 1])
            for start in range(int(first), int(last), _ROWS):
                groups = min(_ROWS, int(last) - start)
                rows = slice(int(self._starts[start]), int(self._starts[start]) + groups * size)
                x, r = (each[rows].reshape(groups, size, -1) for each in (self.features, residuals))
                alike = (x @ x.transpose(0, 2, 1)) * (r @ r.transpose(0, 2, 1))
                apart = np.sqrt(np.diagonal(alike, axis1=1, axis2=2)).sum(axis=1)
                lengths = np.sqrt(np.maximum(alike.sum(axis=(1, 2)), 0))
                lengths = np.maximum(lengths, apart / _MOST_CANCELED) / size
                found.append(np.repeat(clip / np.maximum(lengths, clip) / size, size))
        return np.concatenate(found) if found else np.empty(0)

    def _blocks(self, first: int, records: int) -> list[tuple[int, int]]:
        """Runs of groups from the first one on, of about that many records each."""
        blocks, held = [], 0
        for index, size in enumerate(self.sizes[first:].tolist(), start=first):
            if held and held + size > records:
                blocks.append((first, index))
                first, held = index, 0
            held += size
        return [*blocks, (first, len(self.sizes))] if held else blocks

    def _sum_of(self, rows: slice, groups: slice, residuals: Array, clip: float) -> Array:
        products = np.einsum("ik,il->ikl", self.features[rows], residuals[rows])
        starts = self._starts[groups] - self._starts[groups.start]
        means = np.add.reduceat(products, starts, axis=0) / self.sizes[groups, None, None]
        lengths = np.sqrt(np.square(means).sum(axis=(1, 2)))
        return np.asarray(np.einsum("g,gkl->kl", clip / np.maximum(lengths, clip), means))


@dataclass(frozen=True)
class NoisySum:
    """Releases a sum of contributions, each at most `clip` long, with rounded Gaussian noise.

    Formal guarantees:
        * One unit moves the sum by at most a clip in l2, replaced by another by two. What floats and the grid add to
          that is in the sensitivity. So the noise, whole steps drawn exactly, costs `GaussianEvent(noise_multiplier)`,
          and `SampledGaussianEvent(noise_multiplier, …)` where units take part at random.
    """

    clip: float  # > 0
    noise_multiplier: float  # noise std over sensitivity, > 0
    num_units: int  # N, public: how many contributions are added, at most

    def __post_init__(self) -> None:
        require_positive("clip", self.clip)
        require_positive("noise_multiplier", self.noise_multiplier)

    def step(self, size: int) -> float:
        """The grid's spacing for that many entries, a power of 2."""
        return float(2.0 ** math.floor(math.log2(self.clip * _FINENESS / math.sqrt(size))))

    def sensitivity(self, size: int) -> float:
        """How far one unit replaced moves the rounded sum, in steps; twice how far it does beside no unit at all."""
        # Beside no unit at all the sum moves by a clip, and rounding either sum moves each entry by half a step: that
        # is sqrt(size) steps in all. Another unit in its place moves it as far again. `floats` bounds what adding in
        # double precision errs (docs/proofs/alternatives.md).
        of_few = _MOST_CANCELED * (_ROWS + _FEW * self.num_units / _ROWS)
        floats = 2 * _UNIT * (self.num_units + 8 + of_few) * self.num_units * max(self.clip, 1.0)
        return 2 * ((self.clip * (1 + _FLOAT) + floats) / self.step(size) + math.sqrt(size))

    def std(self, size: int) -> float:
        """Of the noise in an entry."""
        return self.noise_multiplier * self.sensitivity(size) * self.step(size)

    def release(self, total: Array, rng: np.random.Generator) -> Array:
        """The sum with noise, of the same shape."""
        step = self.step(total.size)
        noise = RoundedGaussian(self.noise_multiplier * self.sensitivity(total.size)).sample(total.shape, rng)
        return np.asarray((np.rint(total / step) + noise) * step)


@dataclass(frozen=True, kw_only=True)
class DpGradientDescent(Alternative):
    """Gradient descent on all groups in every step: nothing is sampled, so the price is exactly a Gaussian's.

    Rule: the prevalence of the labels is released (`Prevalence`) and becomes the bias. `Schedule.best` then chooses
    features, learning time and number of steps. In each step every group's mean gradient, clipped to a length, is
    summed, released with noise, divided by the number of groups, and the weights of each label move by its rate.
    Probabilities are shrunk by the noise that is known to be in them; the threshold is that of the best micro-F1 to be
    expected on the public pool.

    Formal guarantees:
        * One group replaced moves each sum by at most two clips: steps of equal noise, together one Gaussian event
          with the prevalence's. Later steps depend on the data through what was released alone. The number of steps is
          a function of the released prevalence; their price is not.

    Source: Song, Chaudhuri & Sarwate 2013; Tramèr & Boneh 2021 for public features; docs/proofs/alternatives.md.
    """

    @property
    def model_kind(self) -> str:
        return "linear"

    def event_for(self, noise_multiplier: float, *, num_groups: int) -> Event:
        """One Gaussian event, whatever the numbers of groups and steps."""
        of_prevalence, of_steps = _multipliers(noise_multiplier)
        prevalence = Prevalence(noise_multiplier=of_prevalence).event
        return GaussianEvent.composed([prevalence.noise_multiplier, of_steps])

    def rate(self, noise_multiplier: float, *, clip: float, num_groups: int) -> float:
        """A sum's sensitivity is two clips, and the mean is over all groups."""
        return (2 * clip * _multipliers(noise_multiplier)[1] / num_groups) ** 2

    def trained(self, noise_multiplier: float, training: Training, *, seed: int) -> NoisyModel:
        for_prevalence, for_steps = generators(seed)
        of_prevalence, of_steps = _multipliers(noise_multiplier)
        private = training.bench.dataset.private
        total = training.num_groups
        unplaced = GroupGradients.of(np.zeros((len(private), 1)), private.labels, private.group_ids)
        prevalence = prevalence_of(unplaced.label_shares(), of_prevalence, for_prevalence)
        schedule = self.schedule(training, noise_multiplier, prevalence)
        features = training.directions.features(private.inputs, ridge=schedule.ridge)
        groups = GroupGradients.of(features, private.labels, private.group_ids)
        clip, bias = self.clip(prevalence), scipy.special.logit(prevalence)
        noisy = NoisySum(clip, of_steps * math.sqrt(schedule.num_steps), total)
        weights = np.zeros((features.shape[1], len(bias)))
        for _ in range(schedule.num_steps):
            gradient = noisy.release(groups.clipped_sum(weights, bias, clip), for_steps)
            weights += schedule.times / schedule.num_steps * gradient / total
        return linear_model(training, schedule.ridge, weights, bias, schedule.noise_variance)


def linear_model(training: Training, ridge: float, weights: Array, bias: Array, noise_variance: Array) -> NoisyModel:
    """A model of public features, with its threshold placed on the public pool."""
    log_odds = partial(_log_odds, training.directions, ridge, weights, bias)
    model = NoisyModel(log_odds, bias, noise_variance)
    return replace(model, threshold=expected_f1_threshold(model.predict_proba(training.public_inputs)))


def _log_odds(directions: PublicDirections, ridge: float, weights: Array, bias: Array, inputs: Any) -> Array:
    return np.asarray(directions.features(inputs, ridge=ridge) @ weights + bias)


def _multipliers(noise_multiplier: float) -> tuple[float, float]:
    """Of the prevalence and of all steps together."""
    # Gaussians compose by 1 / m^2: a share s of 1 / m^2 is the prevalence's, the rest the steps'.
    return noise_multiplier / math.sqrt(PREVALENCE_SHARE), noise_multiplier / math.sqrt(1 - PREVALENCE_SHARE)
