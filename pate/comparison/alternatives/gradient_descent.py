"""Gradient descent on private records with noise: what all alternatives to PATE share, and the one of full batches.

The unit and the calibration, linear models of public features, groups' gradients clipped together, their sum released.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event, GaussianEvent, calibrate
from pate.aggregators.centered_votes import Prevalence
from pate.comparison.method import Bench, Contender, Method, Trained
from pate.files.values import full_text
from pate.mechanisms.noise.whole_numbers import RoundedGaussian
from pate.pricing import Budget
from pate.run.randomness import Streams
from pate.validation import require, require_features, require_non_negative, require_positive
from pate.votes.descent import LearningTimes, expected_f1_threshold
from pate.votes.public_pca import CONSTANT

Array = NDArray[np.float64]

PREVALENCE_SHARE = 0.1
"""Of 1 / noise_multiplier**2 of all that is released, as `CenteredVotes` has it."""

_MOST_DIRECTIONS, _MOST_ROWS = 256, 10_000
_SMALLEST_VARIANCE = 1e-9  # of the largest
_LENGTH = math.sqrt(1 - CONSTANT * CONSTANT)

_RIDGES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
_FEWEST_STEPS, _MOST_STEPS = 10, 100
_STABLE = 0.5  # of what a direction still lacks, at most that much a step
_LIKELY = 0.1  # a label's prevalence, where none is known
_USELESS = 0.01  # of the log-odds' variance

_FLOAT = 2.0**-20  # relative, of a length
_FINENESS = 2.0**-20  # of the clip: what rounding all entries is worth
_UNIT = 2.0**-52
_BLOCK_ENTRIES = 2**22
_FEW = 8  # records of a group whose product need not be formed
_MOST_CANCELED = 8.0  # of its records' lengths, in the length of such a group
_ROWS = 4096  # records that are added up in one product


@dataclass(frozen=True, eq=False)
class PublicDirections:
    """The principal directions of a public pool.

    Formal guarantee: public inputs alone decide them.
    """

    center: Array  # `[d]`, the pool's mean
    directions: Array  # `[d, k]`, orthonormal, the widest first, at most 256
    variances: Array  # `[k]`, of the pool along them, > 0
    has_height: bool  # whether these are all of the pool's directions

    @classmethod
    def of(cls, public_inputs: Any) -> PublicDirections:
        """Those of the first 10,000 public inputs; raises `InvalidValue` where they are all alike."""
        rows = _flat(np.asarray(public_inputs[:_MOST_ROWS]))
        center = rows.mean(axis=0)
        rows = rows - center
        wide = rows.shape[1] > len(rows)
        variances, vectors = np.linalg.eigh((rows @ rows.T if wide else rows.T @ rows) / len(rows))
        variances, vectors = variances[::-1], vectors[:, ::-1]
        there = int(np.sum(variances > _SMALLEST_VARIANCE * max(variances[0], 1e-30)))
        require(there > 0, "public_inputs", "all alike", "at least two different inputs")
        kept = min(there, _MOST_DIRECTIONS)
        variances, vectors = variances[:kept], vectors[:, :kept]
        if wide:
            vectors = rows.T @ vectors / np.sqrt(len(rows) * variances)
        return cls(center, vectors, variances, kept == there)

    def features(self, inputs: Any, *, ridge: float) -> Array:
        """Features of length 1: the directions, a height where `PublicPCA.with_constant` has one, a constant last.

        A ridge, in mean variances, of 0 gives every direction the same variance, much of it leaves them as they are.
        """
        require_non_negative("ridge", ridge)
        spread = np.sqrt(self.variances + ridge * self.variances.mean())
        spread *= np.sqrt((self.variances / spread**2).mean())  # on the pool, entries have a mean square of 1
        found = (_flat(np.asarray(inputs)) - self.center) @ (self.directions / spread)
        if self.has_height:
            found = np.append(found, np.ones((len(found), 1)), axis=1)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        found *= _LENGTH / np.where(lengths > 0, lengths, 1)
        return np.append(found, np.full((len(found), 1), CONSTANT), axis=1)

    @property
    def feature_variances(self) -> Array:
        """Of all features but the constant; a height counts as an average direction."""
        return np.append(self.variances, self.variances.mean()) if self.has_height else self.variances


def _flat(inputs: NDArray[Any]) -> Array:
    rows = require_features("inputs", inputs)
    return rows.reshape(len(rows), int(np.prod(rows.shape[1:]))).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Schedule:
    """On which features a linear model learns, and how long."""

    ridge: float  # of the features
    times: Array  # learning rate times number of steps, `[L]`
    num_steps: int  # that keep each step stable
    noise_variance: Array  # of the noise that is in each label's log-odds at the end, about, `[L]`
    error: float  # expected, of the log-odds' variance

    @classmethod
    def best(
        cls,
        directions: PublicDirections,
        public_inputs: Any,
        prevalence: Array,
        rate: float,
        *,
        clip_factor: float,
        signal_variance: float,
        concentrated: bool = False,
    ) -> Schedule:
        """What is expected to err least: a rule of public numbers, tuned on nobody's labels.

        Rule: that of `LearningTimes`, if the log-odds of a label vary by `signal_variance`, spread over the pool's
        directions by the roots of their variances; where it is `concentrated`, the best case, along the widest one. It
        takes the ridge with the least mean error. Prevalence, `[L]`, is public or released.

        Source: docs/when-to-take-what.md.
        """
        signal = np.sqrt(directions.feature_variances)
        if concentrated:
            signal[1:] = 0
        signal = signal_variance * signal / signal.sum()
        found = []
        for ridge in _RIDGES:
            widths = np.square(directions.features(public_inputs, ridge=ridge)[:, :-1]).mean(axis=0)  # [K]
            learning = LearningTimes.best(widths, signal, prevalence, rate, clip_factor=clip_factor)
            fastest = float((learning.speeds.max(axis=1) * learning.times).max())
            steps = min(max(math.ceil(fastest / _STABLE), _FEWEST_STEPS), _MOST_STEPS)
            found.append(cls(ridge, learning.within(steps), steps, learning.noise_variance, learning.error))
        return min(found, key=lambda each: each.error)


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
            products = np.einsum("ik,il->ikl", self.features[rows], residuals[rows])
            starts = self._starts[first:last] - self._starts[first]
            means = np.add.reduceat(products, starts, axis=0) / self.sizes[first:last, None, None]
            lengths = np.sqrt(np.square(means).sum(axis=(1, 2)))
            total += np.einsum("g,gkl->kl", clip / np.maximum(lengths, clip), means)
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

    def release(self, total: Array, rng: np.random.Generator) -> Array:
        """The sum with noise, of the same shape."""
        step = self.step(total.size)
        noise = RoundedGaussian(self.noise_multiplier * self.sensitivity(total.size)).sample(total.shape, rng)
        return np.asarray((np.rint(total / step) + noise) * step)


@dataclass(frozen=True, eq=False)
class Training:
    """The data of a training, and what public inputs alone say of it: made once for all seeds."""

    bench: Bench  # what all methods share

    @property
    def num_groups(self) -> int:
        return self.bench.dataset.private.num_groups

    @cached_property
    def public_inputs(self) -> NDArray[np.float32]:
        """The public pool without its labels, asked or not."""
        return np.asarray(self.bench.dataset.public.inputs[:_MOST_ROWS])

    @cached_property
    def directions(self) -> PublicDirections:
        return PublicDirections.of(self.public_inputs)

    def prevalence(self, noise_multiplier: float, rng: np.random.Generator) -> Array:
        """The released prevalence of each label, `[L]`."""
        private = self.bench.dataset.private
        groups = GroupGradients.of(np.zeros((len(private), 1)), private.labels, private.group_ids)
        released = Prevalence(noise_multiplier=noise_multiplier)
        return released.release(groups.label_shares(), num_teachers=self.num_groups, rng=rng)


@dataclass(frozen=True, eq=False)
class NoisyModel:
    """Log-odds around each label's prevalence, shrunk by their noise, and a threshold for all labels.

    The threshold, from which probability on a label is predicted, is that of the best micro-F1 to be expected on the
    public pool.
    """

    log_odds: Callable[[Any], Array]  # of inputs `[m, …]`, `[m, L]`
    bias: Array  # log-odds of the prevalence, `[L]`
    noise_variance: Array  # of the log-odds, `[L]`
    public_inputs: NDArray[np.float32]

    @cached_property
    def threshold(self) -> float:
        return expected_f1_threshold(self.predict_proba(self.public_inputs))

    def predict_proba(self, inputs: Any) -> Array:
        # The mean of sigmoid(x + z) over z of variance s^2 is about sigmoid(x / sqrt(1 + pi s^2 / 8)) (MacKay 1992).
        shrunk = 1 / np.sqrt(1 + math.pi / 8 * self.noise_variance)
        blocks = [self.log_odds(inputs[first : first + _ROWS]) for first in range(0, len(inputs), _ROWS)]
        return np.asarray(scipy.special.expit(self.bias + (np.concatenate(blocks) - self.bias) * shrunk))

    def predict(self, inputs: Any) -> NDArray[np.bool_]:
        return np.asarray(self.predict_proba(inputs) >= self.threshold)


@dataclass(frozen=True, kw_only=True)
class Alternative(Method):
    """A model that is trained on private records with noise, in place of teachers, votes and queries.

    Formal guarantees:
        * The unit of privacy is the group, as for PATE's teachers: one group's records replaced by any others, however
          many. The number of groups is public.
        * Calibrated to the same epsilon and delta by the same accountant; the price is a function of public numbers.
    """

    name: str  # in all tables
    adjacency: str = "replace_one"  # replace_one: dividing by the number of groups makes it public
    clip_factor: float = 0.5  # the clip, in typical lengths of a group's gradient, > 0
    signal_variance: float = 2.0  # what the log-odds of a label are taken to vary by where nothing is known, > 0

    def __post_init__(self) -> None:
        plain = self.name.replace("_", "").replace("-", "").isalnum()
        require(plain, "methods", self.name, "names of letters, digits, - and _")  # they name files
        rule = f"replace_one for {self.name}, which divides by the number of private groups"
        require(Adjacency.parse(self.adjacency) is Adjacency.REPLACE_ONE, "adjacency", self.adjacency, rule)
        require_positive("clip_factor", self.clip_factor)
        require_positive("signal_variance", self.signal_variance)

    def clip(self, prevalence: Array) -> float:
        """The greatest length of one group's gradient."""
        return self.clip_factor * math.sqrt(float((prevalence * (1 - prevalence)).sum()))

    def schedule(
        self, training: Training, noise_multiplier: float, prevalence: Array, *, concentrated: bool = False
    ) -> Schedule:
        return Schedule.best(
            training.directions,
            training.public_inputs,
            prevalence,
            self.rate(noise_multiplier, clip=self.clip(prevalence), num_groups=training.num_groups),
            clip_factor=self.clip_factor,
            signal_variance=self.signal_variance,
            concentrated=concentrated,
        )

    def identity(self, bench: Bench) -> list[Any]:
        return [full_text(self)]

    def columns(self, bench: Bench) -> dict[str, Any]:
        return {"adjacency": self.adjacency, "student": self.model_kind}

    @property
    def model_kind(self) -> str:
        return "linear"

    @abstractmethod
    def event_for(self, noise_multiplier: float, *, num_groups: int) -> Event:
        """The price of all that is released: the prevalence, then every noisy gradient."""

    @abstractmethod
    def trained(self, noise_multiplier: float, training: Training, *, seed: int) -> NoisyModel:
        """Trains once; raises `InvalidValue` where the training diverged."""

    @abstractmethod
    def rate(self, noise_multiplier: float, *, clip: float, num_groups: int) -> float:
        """The variance of the noise in a mean gradient's entry, over the number of steps: see `Schedule.best`."""

    def at(self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None) -> Contender:
        total, training = bench.dataset.private.num_groups, Training(bench)
        if parameters is None:
            noise = calibrate(
                lambda noise: self.event_for(noise, num_groups=total),
                target_epsilon=require_positive("target_epsilon", budget.target_epsilon or 0.0),
                target_delta=budget.target_delta,
                accountant=budget.accountant,
            )
            parameters = {"noise_multiplier": noise}
        noise = require_positive("noise_multiplier", dict(parameters).pop("noise_multiplier", 0.0))
        return Contender(
            budget.epsilon_of(self.event_for(noise, num_groups=total)),
            parameters,
            lambda seed: Trained(self.trained(noise, training, seed=seed)),
            lambda: self._refusal(noise, training),
        )

    def _refusal(self, noise_multiplier: float, training: Training) -> str:
        """Where next to nothing can be learned of labels that a tenth of the records have, even in the best case."""
        # A mean case would be wrong: 1% of the log-odds' variance orders samples 10% of the way, and real labels vary
        # along wide directions more than others.
        likely = np.full(training.bench.dataset.num_labels, _LIKELY)
        schedule = self.schedule(training, noise_multiplier, likely, concentrated=True)
        learned = 1 - schedule.error / self.signal_variance
        if learned >= _USELESS:
            return ""
        return (
            f"methods={self.name}: expected to learn {max(learned, 0.0):.1%} of what a linear model can from "
            f"{training.num_groups:,} groups; more groups, a larger epsilon in 'epsilons=[…]', or allow_useless=true"
        )


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
        private, total = training.bench.dataset.private, training.num_groups
        prevalence = training.prevalence(of_prevalence, for_prevalence)
        schedule = self.schedule(training, noise_multiplier, prevalence)
        features = training.directions.features(private.inputs, ridge=schedule.ridge)
        groups = GroupGradients.of(features, private.labels, private.group_ids)
        clip, bias = self.clip(prevalence), scipy.special.logit(prevalence)
        noisy = NoisySum(clip, of_steps * math.sqrt(schedule.num_steps), total)
        weights = np.zeros((features.shape[1], len(bias)))
        for _ in range(schedule.num_steps):
            gradient = noisy.release(groups.clipped_sum(weights, bias, clip), for_steps)
            weights += schedule.times / schedule.num_steps * gradient / total
        return linear_model(training, schedule, weights, bias)


def linear_model(training: Training, schedule: Schedule, weights: Array, bias: Array) -> NoisyModel:
    """A model of public features."""

    def log_odds(inputs: Any) -> Array:
        return np.asarray(training.directions.features(inputs, ridge=schedule.ridge) @ weights + bias)

    return NoisyModel(log_odds, bias, schedule.noise_variance, training.public_inputs)


def generators(seed: int) -> tuple[np.random.Generator, np.random.Generator]:
    """For the prevalence and for the gradients, from the stream that a release's noise has."""
    first, second = Streams(seed).generator("noise").spawn(2)
    return first, second


def _multipliers(noise_multiplier: float) -> tuple[float, float]:
    """Of the prevalence and of all steps together."""
    # Gaussians compose by 1 / m^2: a share s of 1 / m^2 is the prevalence's, the rest the steps'.
    return noise_multiplier / math.sqrt(PREVALENCE_SHARE), noise_multiplier / math.sqrt(1 - PREVALENCE_SHARE)
