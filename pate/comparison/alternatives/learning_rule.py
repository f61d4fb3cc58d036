"""How long a linear model learns, and on which features: a rule of public numbers, tuned on nobody's labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.comparison.alternatives.public_features import PublicDirections
from pate.validation import require, require_positive

Array = NDArray[np.float64]

_TIMES = np.concatenate([np.geomspace(1e-6, 0.5, 20), np.geomspace(1.0, 1e6, 80)])
_FEWEST_STEPS, _MOST_STEPS = 10, 100
_STABLE = 0.5  # of what a direction still lacks, at most that much a step


@dataclass(frozen=True)
class LearningRule:
    """Chooses features and learning time by their expected error.

    Rule: gradient descent for a time t on features of variance c_i leaves exp(-t a_i) of the signal in direction i.
    It gathers noise of variance c_i v t (1 - exp(-2 t a_i)) / (2 a_i), with a_i = s h c_i. Here h = p (1 - p) is a
    label's curvature at its prevalence, s the clip factor, v the variance of the noise of all steps. The rule assumes
    that the log-odds of a label vary by `signal_variance`, spread over the pool's directions by the roots of their
    variances. It takes the ridge with the least mean error, and for each label the time with the least error.

    Attributes:
        clip_factor: the clip is that many typical lengths of a gradient, > 0.
        signal_variance: of log-odds, > 0.
        ridges: candidates for `PublicDirections.features`.

    Source: docs/when-to-take-what.md.
    """

    clip_factor: float = 0.5
    signal_variance: float = 2.0
    ridges: tuple[float, ...] = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)

    def __post_init__(self) -> None:
        require_positive("clip_factor", self.clip_factor)
        require_positive("signal_variance", self.signal_variance)
        require(len(self.ridges) > 0, "ridges", "()", "at least one number >= 0")

    def clip(self, prevalence: Array) -> float:
        """The greatest length of one group's gradient."""
        return self.clip_factor * math.sqrt(float((prevalence * (1 - prevalence)).sum()))

    def schedule(self, directions: PublicDirections, public_inputs: Any, prevalence: Array, rate: float) -> Schedule:
        """What is expected to err least.

        Args:
            directions: of the public pool.
            public_inputs: of the pool, on which features are measured.
            prevalence: of each label, public or released, `[L]`.
            rate: v; the variance of the noise in a mean gradient's entry, over the number of steps.
        """
        found = [self._at(ridge, directions, public_inputs, prevalence, rate) for ridge in self.ridges]
        return min(found, key=lambda each: each.error)

    def _at(
        self, ridge: float, directions: PublicDirections, public_inputs: Any, prevalence: Array, rate: float
    ) -> Schedule:
        widths = np.square(directions.features(public_inputs, ridge=ridge)[:, :-1]).mean(axis=0)  # [K]
        signal = np.sqrt(directions.feature_variances)
        signal = self.signal_variance * signal / signal.sum()
        speed = self.clip_factor * (prevalence * (1 - prevalence))[:, None, None] * widths  # [L, 1, K]
        left = np.exp(-speed * _TIMES[:, None])  # [L, times, K]
        noise = widths * rate * _TIMES[:, None] * (1 - left * left) / (2 * speed)
        errors = (signal * left * left + noise).sum(axis=2)
        best = errors.argmin(axis=1)
        rows = np.arange(len(best))
        fastest = float((speed.max(axis=(1, 2)) * _TIMES[best]).max())
        steps = min(max(math.ceil(fastest / _STABLE), _FEWEST_STEPS), _MOST_STEPS)
        times = np.minimum(_TIMES[best], _STABLE * 2 * steps / speed.max(axis=(1, 2)))
        return Schedule(ridge, times, steps, noise.sum(axis=2)[rows, best], float(errors[rows, best].mean()))


@dataclass(frozen=True, eq=False)
class Schedule:
    """What the rule chose.

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
