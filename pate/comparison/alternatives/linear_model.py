"""Linear models of public features: the features, how long a model learns, and probabilities that know their noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from pate.validation import require, require_features, require_non_negative

Array = NDArray[np.float64]

_MOST_DIRECTIONS = 256
_MOST_ROWS = 10_000
_SMALLEST_VARIANCE = 1e-9  # of the largest
_CONSTANT = 0.2  # the last feature, of every input
_LENGTH = math.sqrt(1 - _CONSTANT * _CONSTANT)

_RIDGES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
_TIMES = np.concatenate([np.geomspace(1e-6, 0.5, 20), np.geomspace(1.0, 1e6, 80)])
_FEWEST_STEPS, _MOST_STEPS = 10, 100
_STABLE = 0.5  # of what a direction still lacks, at most that much a step

_PROBIT = math.pi / 8
_LEAST, _MOST = 1e-3, 0.999
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class PublicDirections:
    """The principal directions of a public pool.

    Formal guarantee: public inputs alone decide them.

    Attributes:
        center: `[d]`, the pool's mean.
        directions: `[d, k]`, orthonormal, the widest first, at most 256.
        variances: `[k]`, of the pool along them, > 0.
        has_height: whether these are all of the pool's directions.
    """

    center: Array
    directions: Array
    variances: Array
    has_height: bool

    @classmethod
    def of(cls, public_inputs: Any) -> PublicDirections:
        """Those of the first 10,000 public inputs.

        Raises:
            InvalidValue: inputs that are all alike.
        """
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
        return np.append(found, np.full((len(found), 1), _CONSTANT), axis=1)

    @property
    def feature_variances(self) -> Array:
        """Of all features but the constant; a height counts as an average direction."""
        return np.append(self.variances, self.variances.mean()) if self.has_height else self.variances


@dataclass(frozen=True, eq=False)
class Schedule:
    """On which features a linear model learns, and how long.

    Attributes:
        ridge: of the features.
        times: learning rate times number of steps, `[L]`.
        num_steps: that keep each step stable.
        noise_variance: of the noise that is in each label's log-odds at the end, about, `[L]`.
        error: expected, of the log-odds' variance.
    """

    ridge: float
    times: Array
    num_steps: int
    noise_variance: Array
    error: float

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
    ) -> Schedule:
        """What is expected to err least: a rule of public numbers, tuned on nobody's labels.

        Rule: gradient descent for a time t on features of variance c_i leaves exp(-t a_i) of the signal in direction i.
        It gathers noise of variance c_i v t (1 - exp(-2 t a_i)) / (2 a_i), with a_i = s h c_i. Here h = p (1 - p) is a
        label's curvature at its prevalence, s the clip factor, v the variance of the noise of all steps. The rule
        assumes that the log-odds of a label vary by `signal_variance`, spread over the pool's directions by the roots
        of their variances. It takes the ridge with the least mean error, and for each label the time with the least.

        Args:
            directions: of the public pool.
            public_inputs: of the pool, on which features are measured.
            prevalence: of each label, public or released, `[L]`.
            rate: v; the variance of the noise in a mean gradient's entry, over the number of steps.
            clip_factor: the clip in typical lengths of a gradient.
            signal_variance: of log-odds.

        Source: docs/when-to-take-what.md.
        """
        signal = np.sqrt(directions.feature_variances)
        signal = signal_variance * signal / signal.sum()
        found = []
        for ridge in _RIDGES:
            widths = np.square(directions.features(public_inputs, ridge=ridge)[:, :-1]).mean(axis=0)  # [K]
            speed = clip_factor * (prevalence * (1 - prevalence))[:, None, None] * widths  # [L, 1, K]
            # An error u of direction i follows du = -a_i u dt, so exp(-a_i t) of it is left. Noise of variance v t dt
            # arrives all along and decays alike: v t (1 - exp(-2 a_i t)) / (2 a_i) in a weight, times c_i in log-odds.
            left = np.exp(-speed * _TIMES[:, None])  # [L, times, K]
            noise = widths * rate * _TIMES[:, None] * (1 - left * left) / (2 * speed)
            errors = (signal * left * left + noise).sum(axis=2)
            best = errors.argmin(axis=1)
            rows = np.arange(len(best))
            fastest = float((speed.max(axis=(1, 2)) * _TIMES[best]).max())
            steps = min(max(math.ceil(fastest / _STABLE), _FEWEST_STEPS), _MOST_STEPS)
            times = np.minimum(_TIMES[best], _STABLE * 2 * steps / speed.max(axis=(1, 2)))
            found.append(cls(ridge, times, steps, noise.sum(axis=2)[rows, best], float(errors[rows, best].mean())))
        return min(found, key=lambda each: each.error)


@dataclass(frozen=True, eq=False)
class NoisyModel:
    """Log-odds around each label's prevalence, shrunk by their noise (MacKay 1992), and a threshold for all labels.

    Attributes:
        log_odds: of inputs `[m, …]`, `[m, L]`.
        bias: log-odds of the prevalence, `[L]`.
        noise_variance: of the log-odds, `[L]`.
        threshold: probability from which a label is predicted.
    """

    log_odds: Callable[[Any], Array]
    bias: Array
    noise_variance: Array
    threshold: float = 0.5

    def predict_proba(self, inputs: Any) -> Array:
        """The probability of each label, `[m, L]`."""
        # The mean of sigmoid(x + z) over z of variance s^2 is about sigmoid(x / sqrt(1 + pi s^2 / 8)) (MacKay 1992).
        shrunk = 1 / np.sqrt(1 + _PROBIT * self.noise_variance)
        blocks = [self.log_odds(inputs[first : first + _BLOCK]) for first in range(0, len(inputs), _BLOCK)]
        return np.asarray(scipy.special.expit(self.bias + (np.concatenate(blocks) - self.bias) * shrunk))

    def predict(self, inputs: Any) -> NDArray[np.bool_]:
        """The labels, `[m, L]`."""
        return np.asarray(self.predict_proba(inputs) >= self.threshold)


def expected_f1_threshold(probabilities: Array) -> float:
    """The threshold of the best micro-F1 to be expected, if the probabilities `[m, L]` are right: no labels needed."""
    # Of the m largest that are predicted their sum is expected to be right, and the sum of all to be there:
    # F1 is about 2 hits / (m + sum).
    falling = np.sort(probabilities, axis=None)[::-1]
    hits = np.cumsum(falling)
    expected = 2 * hits / (np.arange(1, len(falling) + 1) + hits[-1])
    return float(np.clip(falling[int(np.argmax(expected))], _LEAST, _MOST))


def _flat(inputs: NDArray[Any]) -> Array:
    rows = require_features("inputs", inputs)
    return rows.reshape(len(rows), int(np.prod(rows.shape[1:]))).astype(np.float64)
