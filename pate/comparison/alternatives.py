"""Alternatives to PATE as methods of a comparison, with the same unit of privacy: gradient descent with noise.

The unit and the calibration, linear models of public features, groups' gradients clipped together, their sum released.
And DP-SGD on Poisson samples of the groups: Opacus clips and adds gradients, sampling and noise are the house's own.
"""

import importlib
import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from pate.accounting import (
    Adjacency,
    Budget,
    ComposedEvent,
    Event,
    GaussianEvent,
    SampledGaussianEvent,
    SelfComposedEvent,
    calibrate,
)
from pate.aggregators.prevalence import Prevalence
from pate.comparison.method import AllRecords, Bench, Contender, Method, Trained, require_plain_name
from pate.extras import require_extra
from pate.files.digests import full_text
from pate.mechanisms.noise.whole_numbers import RoundedGaussian
from pate.run.random_streams import RandomStreams
from pate.threads import one_thread
from pate.validation import (
    InvalidValue,
    require,
    require_choice,
    require_count,
    require_features,
    require_non_negative,
    require_positive,
)
from pate.votes.descent import LearningTimes, expected_f1_threshold
from pate.votes.label_shares import mean_labels
from pate.votes.recipe import DEFAULT_RECIPE

__all__ = ["AllRecords", "Alternative", "DpGradientDescent", "DpSgd"]

Array = NDArray[np.float64]

# of 1 / noise_multiplier**2 of all that is released, as `CenteredVotes` has it
PREVALENCE_SHARE = 0.1
_MOST_DIRECTIONS = 256
_MOST_ROWS = 10_000
_SMALLEST_VARIANCE = 1e-9  # of the largest
# the last feature of every input, as in rounds of centered votes
CONSTANT = DEFAULT_RECIPE.constant_feature
_LENGTH = math.sqrt(1 - CONSTANT * CONSTANT)
_RIDGES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
_FEWEST_STEPS = 10
_MOST_STEPS = 100
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

NETWORKS = ("linear", "mlp", "cnn")
_COINS = 2**53
_LARGEST_WEIGHT = 1e6
_CHUNK_VALUES = 2**20  # of gradients of single records at once
_AVERAGED = 0.5  # the last share of the steps
_NORM_GROUPS = 8


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
    def of(cls, public_inputs: Any) -> Self:
        """Those of the first 10,000 public inputs; raises `InvalidValue` where they are all alike."""
        rows = _flat(np.asarray(public_inputs[:_MOST_ROWS]))
        center = rows.mean(axis=0)
        rows = rows - center
        wide = rows.shape[1] > len(rows)
        variances, vectors = np.linalg.eigh((rows @ rows.T if wide else rows.T @ rows) / len(rows))
        variances = variances[::-1]
        vectors = vectors[:, ::-1]
        there = int(np.sum(variances > _SMALLEST_VARIANCE * max(variances[0], 1e-30)))
        require(there > 0, "public_inputs", "all alike", "at least two different inputs")
        kept = min(there, _MOST_DIRECTIONS)
        variances = variances[:kept]
        vectors = vectors[:, :kept]
        if wide:
            vectors = rows.T @ vectors / np.sqrt(len(rows) * variances)
        return cls(center, vectors, variances, kept == there)

    def features(self, inputs: Any, *, ridge: float) -> Array:
        """Features of length 1: the directions, a height where `PublicPCA.with_constant` has one, a constant last.

        A ridge, in mean variances, of 0 gives every direction the same variance, much of it leaves them as they are.
        """
        require_non_negative("ridge", ridge)
        spread = np.sqrt(self.variances + ridge * self.variances.mean())
        # on the pool, entries have a mean square of 1
        spread *= np.sqrt((self.variances / spread**2).mean())
        found = (_flat(np.asarray(inputs)) - self.center) @ (self.directions / spread)
        if self.has_height:
            found = np.append(found, np.ones((len(found), 1)), axis=1)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        found *= _LENGTH / np.where(lengths > 0, lengths, 1)
        return np.append(found, np.full((len(found), 1), CONSTANT), axis=1)


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
    ) -> Self:
        """What is expected to err least: a rule of public numbers, tuned on nobody's labels.

        Rule: that of `LearningTimes`, if the log-odds of a label vary by `signal_variance`, spread over the pool's
        directions by the roots of their variances; where it is `concentrated`, the best case, along the widest one. It
        takes the ridge with the least mean error. Prevalence, `[L]`, is public or released.

        Source: docs/when-to-take-what.md.
        """
        variances = directions.variances
        if directions.has_height:  # which counts as an average direction
            variances = np.append(variances, variances.mean())
        signal = np.sqrt(variances)
        if concentrated:
            signal[1:] = 0
        signal = signal_variance * signal / signal.sum()
        found = []
        for ridge in _RIDGES:
            # [K]
            widths = np.square(directions.features(public_inputs, ridge=ridge)[:, :-1]).mean(axis=0)
            learning = LearningTimes.best(widths, signal, prevalence, rate, clip_factor=clip_factor)
            fastest = float((learning.speeds.max(axis=1) * learning.times).max())
            steps = min(max(math.ceil(fastest / _STABLE), _FEWEST_STEPS), _MOST_STEPS)
            found.append(
                cls(ridge, learning.within(steps), steps, learning.noise_variance, learning.error)
            )
        return min(found, key=lambda each: each.error)


@dataclass(frozen=True, eq=False)
class GroupGradients:
    """The private records of a linear logistic model, by group.

    Rule: a group's gradient is the mean over its records of features x (labels - probabilities), one matrix; it counts
    for min(1, clip / length). Whatever its records are and however many, it is at most `clip` long.
    """

    # of length 1, `[n, k]`, records of a group beside each other, small groups first
    features: Array
    labels: Array  # `[n, L]`
    sizes: NDArray[np.int64]  # each group's number of records, rising, `[N]`

    @classmethod
    def of(cls, features: Array, labels: NDArray[np.bool_], group_ids: NDArray[np.int64]) -> Self:
        """Makes the gradients of groups, rows of one group side by side."""
        _, group, sizes = np.unique(group_ids, return_inverse=True, return_counts=True)
        order = np.lexsort((group, sizes[group]))
        return cls(features[order], labels[order].astype(np.float64), np.sort(sizes))

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
            rows = slice(
                int(self._starts[first]), int(self._starts[last - 1] + self.sizes[last - 1])
            )
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
        found = [np.empty(0)]
        for size in range(1, _FEW + 1):
            first, last = np.searchsorted(self.sizes, [size, size + 1]).tolist()
            for start in range(first, last, _ROWS):
                groups = min(_ROWS, last - start)
                begin = int(self._starts[start])
                rows = slice(begin, begin + groups * size)
                x, r = (each[rows].reshape(groups, size, -1) for each in (self.features, residuals))
                alike = (x @ x.transpose(0, 2, 1)) * (r @ r.transpose(0, 2, 1))
                apart = np.sqrt(np.diagonal(alike, axis1=1, axis2=2)).sum(axis=1)
                lengths = np.sqrt(np.maximum(alike.sum(axis=(1, 2)), 0))
                lengths = np.maximum(lengths, apart / _MOST_CANCELED) / size
                found.append(np.repeat(clip / np.maximum(lengths, clip) / size, size))
        return np.concatenate(found)

    def _blocks(self, first: int, records: int) -> list[tuple[int, int]]:
        """Runs of groups from the first one on, of about that many records each."""
        blocks = []
        held = 0
        for index, size in enumerate(self.sizes[first:].tolist(), start=first):
            if held and held + size > records:
                blocks.append((first, index))
                first = index
                held = 0
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

    clip: float  # the longest that a unit's contribution is, in l2, > 0
    noise_multiplier: float  # noise std over sensitivity, > 0
    num_units: int  # N, public: how many contributions are added, at most

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
        noise = RoundedGaussian(self.noise_multiplier * self.sensitivity(total.size)).sample(
            total.shape, rng
        )
        return np.asarray((np.rint(total / step) + noise) * step)


@dataclass(frozen=True, eq=False)
class Training:
    """The data of a training, and what public inputs alone say of it: made once for all seeds."""

    bench: Bench  # what all methods share

    @property
    def num_groups(self) -> int:
        """The number of private groups."""
        return self.bench.dataset.private.num_groups

    @cached_property
    def public_inputs(self) -> NDArray[np.float32]:
        """The public pool without its labels, asked or not."""
        return np.asarray(self.bench.dataset.public.inputs[:_MOST_ROWS])

    @cached_property
    def directions(self) -> PublicDirections:
        """The principal directions of the public inputs."""
        return PublicDirections.of(self.public_inputs)

    def prevalence(self, noise_multiplier: float, rng: np.random.Generator) -> Array:
        """The released prevalence of each label, `[L]`."""
        private = self.bench.dataset.private
        _, group = np.unique(private.group_ids, return_inverse=True)
        shares = mean_labels(private.labels, group, self.num_groups)
        return Prevalence(noise_multiplier=noise_multiplier).release(
            shares, num_teachers=self.num_groups, rng=rng
        )


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
        """The threshold of probabilities that is expected to have the largest F1."""
        return expected_f1_threshold(self.predict_proba(self.public_inputs))

    def predict_proba(self, inputs: Any) -> Array:
        """Predicts probabilities `[n, L]`, shrunk by the noise of the weights."""
        # The mean of sigmoid(x + z) over z of variance s^2 is about sigmoid(x / sqrt(1 + pi s^2 / 8)) (MacKay 1992).
        shrunk = 1 / np.sqrt(1 + math.pi / 8 * self.noise_variance)
        blocks = [
            self.log_odds(inputs[first : first + _ROWS]) for first in range(0, len(inputs), _ROWS)
        ]
        return np.asarray(
            scipy.special.expit(self.bias + (np.concatenate(blocks) - self.bias) * shrunk)
        )

    def predict(self, inputs: Any) -> NDArray[np.bool_]:
        """Predicts labels, bool `[n, L]`."""
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
    # what the log-odds of a label are taken to vary by where nothing is known, > 0
    signal_variance: float = 2.0

    def __post_init__(self) -> None:
        require_plain_name("methods", self.name)
        rule = f"replace_one for {self.name}, which divides by the number of private groups"
        require(
            Adjacency.parse(self.adjacency) is Adjacency.REPLACE_ONE,
            "adjacency",
            self.adjacency,
            rule,
        )
        require_positive("clip_factor", self.clip_factor)
        require_positive("signal_variance", self.signal_variance)

    def clip(self, prevalence: Array) -> float:
        """The greatest length of one group's gradient."""
        return self.clip_factor * math.sqrt(float((prevalence * (1 - prevalence)).sum()))

    def schedule(
        self,
        training: Training,
        noise_multiplier: float,
        prevalence: Array,
        *,
        concentrated: bool = False,
    ) -> Schedule:
        """Returns the steps of training that suit a noise and a prevalence."""
        rate = self.rate(
            noise_multiplier, clip=self.clip(prevalence), num_groups=training.num_groups
        )
        return Schedule.best(
            training.directions,
            training.public_inputs,
            prevalence,
            rate,
            clip_factor=self.clip_factor,
            signal_variance=self.signal_variance,
            concentrated=concentrated,
        )

    def identity(self, bench: Bench) -> list[Any]:
        """Returns all that decides the method's results beside data and budget."""
        return [full_text(self)]

    def columns(self, bench: Bench) -> dict[str, Any]:
        """Returns the method's own columns of the table."""
        return {"adjacency": self.adjacency, "student": self.model_kind}

    @property
    def model_kind(self) -> str:
        """The kind of model that it trains."""
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

    def at(
        self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None
    ) -> Contender:
        """Returns the method at a budget, with the noise that meets it."""
        training = Training(bench)
        event_for = partial(self.event_for, num_groups=training.num_groups)
        if parameters is None:
            target = budget.required_epsilon()
            parameters = {
                "noise_multiplier": calibrate(
                    event_for,
                    target_epsilon=target,
                    target_delta=budget.delta,
                    accountant=budget.accountant,
                )
            }
        noise = require_positive("noise_multiplier", parameters.get("noise_multiplier", 0.0))

        def train(seed: int) -> Trained:
            return Trained(self.trained(noise, training, seed=seed))

        return Contender(
            budget.epsilon_of(event_for(noise)),
            parameters,
            train,
            lambda: self._refusal(noise, training),
        )

    def _refusal(self, noise_multiplier: float, training: Training) -> str:
        """Where next to nothing can be learned of labels that a tenth of the records have, even in the best case."""
        # A mean case would be wrong: 1% of the log-odds' variance orders samples 10% of the way, and real labels vary
        # along wide directions more than others.
        likely = np.full(training.bench.dataset.num_labels, _LIKELY)
        schedule = self.schedule(training, noise_multiplier, likely, concentrated=True)
        learned = 1 - schedule.error / self.signal_variance
        said = (
            f"expected to learn {max(learned, 0.0):.1%} of what a linear model can "
            f"from {training.num_groups:,} groups"
        )
        helps = "more groups, a larger epsilon in 'epsilons=[…]', or allow_useless=true"
        return "" if learned >= _USELESS else f"methods={self.name}: {said}; {helps}"


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
        """Trains a linear model by noisy gradients of all groups."""
        for_prevalence, for_steps = RandomStreams(seed).generator("noise").spawn(2)
        of_prevalence, of_steps = _multipliers(noise_multiplier)
        private = training.bench.dataset.private
        total = training.num_groups
        prevalence = training.prevalence(of_prevalence, for_prevalence)
        schedule = self.schedule(training, noise_multiplier, prevalence)
        features = training.directions.features(private.inputs, ridge=schedule.ridge)
        groups = GroupGradients.of(features, private.labels, private.group_ids)
        clip = self.clip(prevalence)
        bias = scipy.special.logit(prevalence)
        noisy = NoisySum(clip, of_steps * math.sqrt(schedule.num_steps), total)
        weights = np.zeros((features.shape[1], len(bias)))
        for _ in range(schedule.num_steps):
            gradient = noisy.release(groups.clipped_sum(weights, bias, clip), for_steps)
            weights += schedule.times / schedule.num_steps * gradient / total
        return linear_model(training, schedule, weights, bias)


def linear_model(training: Training, schedule: Schedule, weights: Array, bias: Array) -> NoisyModel:
    """A model of public features."""

    def log_odds(inputs: Any) -> Array:
        return np.asarray(
            training.directions.features(inputs, ridge=schedule.ridge) @ weights + bias
        )

    return NoisyModel(log_odds, bias, schedule.noise_variance, training.public_inputs)


def _multipliers(noise_multiplier: float) -> tuple[float, float]:
    """Of the prevalence and of all steps together."""
    # Gaussians compose by 1 / m^2: a share s of 1 / m^2 is the prevalence's, the rest the steps'.
    return noise_multiplier / math.sqrt(PREVALENCE_SHARE), noise_multiplier / math.sqrt(
        1 - PREVALENCE_SHARE
    )


class Groups:
    """Records by group: one record per group is picked at random each time that the group takes part."""

    def __init__(
        self, inputs: Array, labels: NDArray[np.bool_], group_ids: NDArray[np.int64]
    ) -> None:
        order = np.argsort(group_ids, kind="stable")  # records of a group beside each other
        _, self.starts, self.sizes = np.unique(
            group_ids[order], return_index=True, return_counts=True
        )
        self.inputs = inputs[order]
        self.labels = labels[order].astype(np.float64)

    def draw(self, sampling_prob: float, rng: np.random.Generator) -> NDArray[np.int64]:
        """A Poisson sample of the groups, and of each a record: rows `[m]`.

        Every group draws both of its numbers whether it takes part or not: what one group is moves no other's draws.
        """
        taken, picked = rng.random((2, len(self.starts)))
        rows = self.starts + np.minimum((picked * self.sizes).astype(np.int64), self.sizes - 1)
        return np.asarray(rows[taken < sampling_prob])


@dataclass(frozen=True, kw_only=True)
class DpSgd(Alternative):
    """Stochastic gradient descent with noise; needs Opacus, the extra `opacus`.

    Rule: the prevalence of the labels is released first and becomes the last layer's bias. In each step every group
    takes part with the same probability, with one of its records picked at random; its gradient is clipped, the sum is
    released with noise. A linear model learns on the features and at the rates of `Schedule.best`; `mlp` on the same
    features, and `cnn` on images, by Adam, their weights averaged over the last half of the steps.

    Formal guarantees:
        * However many records a group has, one of them counts in a step, for at most a clip: one group replaced moves
          the sum over all groups by two clips. Each step is a `SampledGaussianEvent` under replace-one, whose worst
          case is a clip in one direction before and the opposite after.
        * Samples and noise are drawn from the run's stream for noise. Opacus computes each record's gradient, clips and
          adds them, in double precision; the noise is `RoundedGaussian`.

    Attributes:
        network: `linear`, `mlp` (one hidden layer) or `cnn` (two convolutions; images alone).
        batch_size: groups a step, expected; all where there are fewer.
        num_steps: how many.
        hidden: units of the hidden layer of `mlp`.
        learning_rate: of Adam, for `mlp` and `cnn`.

    Source: Abadi et al. 2016; De et al. 2022 (large batches, group norms, averaged weights); Tramèr & Boneh 2021
    (normalized public features); docs/proofs/alternatives.md.
    """

    network: str = "linear"
    batch_size: int = 4096
    num_steps: int = 60
    hidden: int = 128
    learning_rate: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("network", self.network, NETWORKS)
        for name in ("batch_size", "num_steps", "hidden"):
            require_count(name, getattr(self, name))
        require_positive("learning_rate", self.learning_rate)
        require_extra("method", "opacus", self.name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module("opacus")

    @property
    def model_kind(self) -> str:
        """The kind of network that it trains."""
        return self.network

    def check(self, bench: Bench) -> None:
        """Raises `InvalidValue` for a network that cannot take the inputs."""
        fits = self.network != "cnn" or bench.dataset.kind == "images"
        require(fits, "method.network", self.network, "linear or mlp: the inputs are no images")

    def sampling_prob(self, num_groups: int) -> float:
        """Of a group in a step: a multiple of 2^-53, which a coin of 53 bits has exactly."""
        return max(math.floor(min(1.0, self.batch_size / num_groups) * _COINS), 1) / _COINS

    def event_for(self, noise_multiplier: float, *, num_groups: int) -> Event:
        """The prevalence, then as many sampled Gaussians as there are steps."""
        step = SampledGaussianEvent(noise_multiplier, self.sampling_prob(num_groups))
        prevalence = Prevalence(noise_multiplier=self._of_prevalence(noise_multiplier, num_groups))
        return ComposedEvent((prevalence.event, SelfComposedEvent(step, self.num_steps)))

    def rate(self, noise_multiplier: float, *, clip: float, num_groups: int) -> float:
        """A sum's sensitivity is two clips, and the mean is over the groups that are expected in a step."""
        expected = self.sampling_prob(num_groups) * num_groups
        return (2 * clip * noise_multiplier / expected) ** 2 / self.num_steps

    def trained(self, noise_multiplier: float, training: Training, *, seed: int) -> NoisyModel:
        """Trains a network by noisy gradients of sampled groups."""
        for_prevalence, for_steps = RandomStreams(seed).generator("noise").spawn(2)
        private = training.bench.dataset.private
        prevalence = training.prevalence(
            self._of_prevalence(noise_multiplier, training.num_groups), for_prevalence
        )
        schedule = self.schedule(training, noise_multiplier, prevalence)
        bias = scipy.special.logit(prevalence)

        def placed(inputs: Any) -> Array:
            if self.network == "cnn":
                return np.asarray(inputs, dtype=np.float64) * 2 - 1
            found = training.directions.features(inputs, ridge=schedule.ridge)
            return found * math.sqrt(found.shape[1]) if self.network == "mlp" else found

        def log_odds(inputs: Any) -> Array:
            with torch.no_grad(), one_thread():
                return np.asarray(
                    network(torch.from_numpy(np.ascontiguousarray(placed(inputs)))).numpy()
                )

        groups = Groups(placed(private.inputs), private.labels, private.group_ids)
        with one_thread(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            # Opacus and torch on hooks and generators that are not used
            warnings.simplefilter("ignore")
            torch.manual_seed(RandomStreams(seed).seed("student"))
            network = self._network(groups.inputs.shape[1:], bias).double()
            noisy = NoisySum(self.clip(prevalence), noise_multiplier, len(groups.starts))
            self._descend(network, groups, noisy, schedule.times / self.num_steps, for_steps)
        if self.network == "linear":
            return linear_model(
                training, schedule, next(network.parameters()).detach().numpy().T.copy(), bias
            )
        network.eval()
        return NoisyModel(log_odds, bias, np.zeros(len(bias)), training.public_inputs)

    def _descend(
        self,
        network: nn.Module,
        groups: Groups,
        noisy: NoisySum,
        rates: Array,
        rng: np.random.Generator,
    ) -> None:
        """Trains a network; `rates`, `[L]`, are those of a linear model. Equal arguments give equal bytes.

        Raises `InvalidValue` where the weights grew beyond all bounds.
        """
        linear = self.network == "linear"
        sampling_prob = self.sampling_prob(len(groups.starts))
        parameters = list(network.parameters())
        sizes = [parameter.numel() for parameter in parameters]
        adam = torch.optim.Adam(parameters, lr=self.learning_rate)
        optimizer = torch.optim.SGD(parameters, lr=1.0) if linear else adam
        kept = 0
        mean = torch.zeros(sum(sizes), dtype=torch.float64)
        with _clipped_sums(network, noisy.clip) as summed:
            for step in range(self.num_steps):
                rows = groups.draw(sampling_prob, rng)
                released = noisy.release(summed(groups.inputs[rows], groups.labels[rows]), rng)
                released /= sampling_prob * len(groups.starts)
                if linear:  # its one parameter has a row for each label
                    released *= np.repeat(rates, len(released) // len(rates))
                parts = torch.split(torch.from_numpy(released), sizes)
                for parameter, part in zip(parameters, parts, strict=True):
                    parameter.grad = part.view_as(parameter)
                optimizer.step()
                weights = nn.utils.parameters_to_vector(parameters).detach()
                if not float(weights.abs().max()) < _LARGEST_WEIGHT:
                    rule = "a smaller one, weights diverged"
                    raise InvalidValue("method.learning_rate", self.learning_rate, rule=rule)
                if not linear and step >= (1 - _AVERAGED) * self.num_steps:
                    mean = mean + weights
                    kept = kept + 1
        if kept:
            nn.utils.vector_to_parameters(mean / kept, parameters)

    def _network(self, shape: tuple[int, ...], bias: Array) -> nn.Module:
        if self.network == "linear":
            return _Biased(nn.Linear(shape[0], len(bias), bias=False), bias)
        if self.network == "mlp":
            hidden = nn.Linear(shape[0], self.hidden)
            return _Biased(
                nn.Sequential(hidden, nn.Tanh(), nn.Linear(self.hidden, len(bias))), bias
            )
        # two strided convolutions with group norms, means over 4 x 4 cells, a linear head (De et al. 2022, in small)
        return _Biased(
            nn.Sequential(
                nn.Conv2d(shape[0], 16, 5, stride=2, padding=2),
                nn.GroupNorm(_NORM_GROUPS // 2, 16),
                nn.ReLU(),
                nn.Conv2d(16, 32, 3, stride=2, padding=1),
                nn.GroupNorm(_NORM_GROUPS, 32),
                nn.ReLU(),
                nn.AdaptiveAvgPool2d(4),
                nn.Flatten(),
                nn.Linear(512, len(bias)),
            ),
            bias,
        )

    def _of_prevalence(self, noise_multiplier: float, num_groups: int) -> float:
        """A tenth of about what the steps' own price amounts to, as Gaussians."""
        # T steps that sample with probability q cost about one Gaussian of 1 / m^2 = T q^2 / noise_multiplier^2.
        steps = noise_multiplier / (self.sampling_prob(num_groups) * math.sqrt(self.num_steps))
        return steps * math.sqrt((1 - PREVALENCE_SHARE) / PREVALENCE_SHARE)


@contextmanager
def _clipped_sums(network: nn.Module, clip: float) -> Iterator[Callable[[Array, Array], Array]]:
    """Sums of clipped gradients of single records, by Opacus, which is off the network again after the block."""
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    module: Any = GradSampleModule(network, loss_reduction="sum")
    parameters: list[Any] = list(network.parameters())
    size = sum(parameter.numel() for parameter in parameters)
    clipping: Any = DPOptimizer(
        torch.optim.SGD(parameters, lr=0.0),
        noise_multiplier=0.0,
        expected_batch_size=None,
        loss_reduction="sum",
        max_grad_norm=clip,
    )

    def summed(inputs: Array, labels: Array) -> Array:
        """The sum over records `[m, …]`, as one vector; its sign is that of the loss's gradient."""
        if not len(inputs):  # nobody takes part
            return np.zeros(size)
        for parameter in parameters:
            parameter.summed_grad = None
        rows = max(1, _CHUNK_VALUES // size)
        for first in range(0, len(inputs), rows):
            some, wanted = (
                torch.from_numpy(each[first : first + rows]) for each in (inputs, labels)
            )
            loss = functional.binary_cross_entropy_with_logits(
                module(some), wanted, reduction="sum"
            )
            torch.autograd.backward(loss)
            clipping.clip_and_accumulate()
            for parameter in parameters:
                parameter.grad_sample = parameter.grad = None
        return np.concatenate(
            [parameter.summed_grad.detach().numpy().ravel() for parameter in parameters]
        )

    yield summed
    module.to_standard_module()
    for parameter in parameters:
        parameter.requires_grad_(False)


class _Biased(nn.Module):
    """Log-odds of the prevalence, and what a network adds to them, at first nothing."""

    def __init__(self, inner: nn.Module, bias: Array) -> None:
        super().__init__()
        self.inner = inner
        self.prevalence = torch.from_numpy(bias).clone()
        for parameter in list(inner.modules())[-1].parameters():
            nn.init.zeros_(parameter)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = self.inner(inputs)
        return added + self.prevalence
