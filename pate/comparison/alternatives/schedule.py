"""The schedule of a linear model's training: its features, its learning times and its number of steps."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from pate.comparison.alternatives.group_gradients import Array
from pate.comparison.alternatives.public_directions import PublicDirections
from pate.votes.descent import LearningTimes

_RIDGES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
_FEWEST_STEPS = 10
_MOST_STEPS = 100
_STABLE = 0.5  # of what a direction still lacks, at most that much a step


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
