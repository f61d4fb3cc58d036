"""What the alternatives to PATE share: the unit, the calibration, linear models of public features."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event, calibrate
from pate.aggregators.prevalence import Prevalence
from pate.comparison.method import Bench, Contender, Method, Reference, Trained
from pate.files.values import full_text
from pate.pricing import Budget
from pate.run.randomness import Streams
from pate.validation import InvalidValue, require, require_features, require_non_negative, require_positive
from pate.votes.descent import LearningTimes
from pate.votes.public_pca import CONSTANT

Array = NDArray[np.float64]

_MOST_DIRECTIONS = 256
_MOST_ROWS = 10_000
_SMALLEST_VARIANCE = 1e-9  # of the largest
_LENGTH = math.sqrt(1 - CONSTANT * CONSTANT)

_RIDGES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
_FEWEST_STEPS, _MOST_STEPS = 10, 100
_STABLE = 0.5  # of what a direction still lacks, at most that much a step

_PROBIT = math.pi / 8
_BLOCK = 4096


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

        Args:
            inputs: `[n, …]`.
            ridge: >= 0, in mean variances: 0 gives every direction the same variance, much of it leaves them as they
                are.
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
        directions by the roots of their variances. It takes the ridge with the least mean error.

        Args:
            directions: of the public pool.
            public_inputs: of the pool, on which features are measured.
            prevalence: of each label, public or released, `[L]`.
            rate: as `LearningTimes.best`.
            clip_factor: as `LearningTimes.best`.
            signal_variance: of log-odds.
            concentrated: whether all of it is along the widest direction, the best case, instead.

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
class NoisyModel:
    """Log-odds around each label's prevalence, shrunk by their noise (MacKay 1992), and a threshold for all labels."""

    log_odds: Callable[[Any], Array]  # of inputs `[m, …]`, `[m, L]`
    bias: Array  # log-odds of the prevalence, `[L]`
    noise_variance: Array  # of the log-odds, `[L]`
    threshold: float = 0.5  # probability from which a label is predicted

    def predict_proba(self, inputs: Any) -> Array:
        # The mean of sigmoid(x + z) over z of variance s^2 is about sigmoid(x / sqrt(1 + pi s^2 / 8)) (MacKay 1992).
        shrunk = 1 / np.sqrt(1 + _PROBIT * self.noise_variance)
        blocks = [self.log_odds(inputs[first : first + _BLOCK]) for first in range(0, len(inputs), _BLOCK)]
        return np.asarray(scipy.special.expit(self.bias + (np.concatenate(blocks) - self.bias) * shrunk))

    def predict(self, inputs: Any) -> NDArray[np.bool_]:
        return np.asarray(self.predict_proba(inputs) >= self.threshold)


def _flat(inputs: NDArray[Any]) -> Array:
    rows = require_features("inputs", inputs)
    return rows.reshape(len(rows), int(np.prod(rows.shape[1:]))).astype(np.float64)


PREVALENCE_SHARE = 0.1
"""Of 1 / noise_multiplier**2 of all that is released, as `CenteredVotes` has it."""

_LIKELY = 0.1  # a label's prevalence, where none is known
_USELESS = 0.01  # of the log-odds' variance


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
    @abstractmethod
    def model_kind(self) -> str: ...
    @abstractmethod
    def event_for(self, noise_multiplier: float, *, num_groups: int) -> Event:
        """The price of all that is released: the prevalence, then every noisy gradient."""

    @abstractmethod
    def trained(self, noise_multiplier: float, training: Training, *, seed: int) -> NoisyModel:
        """Trains once.

        Raises:
            InvalidValue: the training diverged.
        """

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
        return np.asarray(self.bench.dataset.public.inputs[:10_000])

    @cached_property
    def directions(self) -> PublicDirections:
        return PublicDirections.of(self.public_inputs)


@dataclass(frozen=True, kw_only=True)
class AllRecords(Method):
    """The ceiling of the comparison's student, trained on every private record and its true labels.

    No epsilon covers it, so tables show it in a single row without an epsilon.
    """

    is_private: ClassVar[bool] = False

    name: str  # in all tables
    adjacency: str = "replace_one"

    def identity(self, bench: Bench) -> list[Any]:
        return bench.ceiling(self.name).identity

    def at(self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None) -> Contender:
        """Raises: nothing about it is private."""
        raise InvalidValue(f"epsilon={budget.target_epsilon}: expected a private method; this one has no epsilon")

    def references(self, bench: Bench) -> Iterator[Reference]:
        yield bench.ceiling(self.name)


def prevalence_of(shares: Array, noise_multiplier: float, rng: np.random.Generator) -> Array:
    """The released prevalence of each label, `[L]`, from each group's shares `[N, L]`."""
    return Prevalence(noise_multiplier=noise_multiplier).release(shares, num_teachers=len(shares), rng=rng)


def generators(seed: int) -> tuple[np.random.Generator, np.random.Generator]:
    """For the prevalence and for the gradients, from the stream that a release's noise has."""
    first, second = Streams(seed).generator("noise").spawn(2)
    return first, second
