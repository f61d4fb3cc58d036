"""A logistic model that learns from noisy gradients: how long each label learns, and what noise is then taken off.

In rounds of centered votes every round releases one noisy mean gradient, and the student takes a step along it. Nothing
private enters here, and nothing is random. Three public rules decide the rest:

- **How long.** Longer learning finds more of the signal and gathers more noise. In a time t on a feature of variance c,
  gradient descent with curvature a = h c leaves exp(-t a) of the signal and gathers noise of variance
  c v t (1 - exp(-2 t a)) / (2 a). `LearningTimes` takes, for each label, the t at which the sum is expected least.
- **What is behind the noise.** At the end the weights are replaced by their posterior mean (`posterior_rows`): their
  noise is known, and labels share what they learned.
- **Where a label begins.** Its constant is matched, so that the mean probability on the public rows is its prevalence.

docs/proofs/vote_rounds.md explains why none of it costs privacy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import expit
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.shrinkage import posterior_rows

Array = NDArray[np.float64]
Rows = NDArray[np.float32]

# Candidates for learning times: the best one is found to about a sixth.
_TIMES = np.concatenate([np.geomspace(1e-6, 0.5, 20), np.geomspace(1.0, 1e6, 80)])
_BLOCK_ENTRIES = 2**22
_NARROWEST = 1e-12  # mean square of a feature that no public row has
_BISECTIONS = 30  # which find a constant to a billionth of the range of logits
_LEAST_THRESHOLD = 1e-3


@dataclass(frozen=True, eq=False)
class LearningTimes:
    """The times that gradient descent learns each label of a linear model, until the label is expected to err least.

    Rule: in a time t on features of variance c_i it leaves exp(-t a_i) of the signal in direction i. It gathers noise
    of variance c_i v t (1 - exp(-2 t a_i)) / (2 a_i), with a_i = s h c_i. Here h = p (1 - p) is a label's curvature at
    its prevalence, s the clip factor, v the variance of the noise of all steps.

    Attributes:
        times: `[L]`, learning rate times number of steps.
        speeds: `[L, K]`, the a_i.
        noise_variance: `[L]`, of the noise that is then in each label's log-odds, about.
        error: expected, of the log-odds' variance, the mean over labels.
    """

    times: Array
    speeds: Array
    noise_variance: Array
    error: float

    @classmethod
    def best(
        cls,
        widths: Array,
        signal: Array,
        prevalence: Array,
        rate: Array | float,
        *,
        clip_factor: float,
    ) -> Self:
        """Returns the times with the least expected error: a rule of public numbers.

        Args:
            widths: `[K]`, > 0, the c_i: mean squares of the features on public inputs.
            signal: `[K]`, the variance that log-odds are taken to have along each feature.
            prevalence: `[L]`, in (0, 1).
            rate: v, one number or `[L]`: the variance of the noise in a mean gradient's entry, over the number of
                steps.
            clip_factor: s, the clip in typical lengths of a gradient.
        """
        speeds = (clip_factor * (prevalence * (1 - prevalence)))[:, None] * widths
        rates = np.broadcast_to(rate, len(speeds))
        labels_at_once = max(1, _BLOCK_ENTRIES // (len(_TIMES) * len(widths)))
        blocks = []
        for first in range(0, len(speeds), labels_at_once):
            rows = slice(first, first + labels_at_once)
            speed = speeds[rows, None]  # [c, 1, K]
            # An error u of direction i follows du = -a_i u dt, so exp(-a_i t) of it is left. Noise of variance v t dt
            # arrives all along and decays alike: v t (1 - exp(-2 a_i t)) / (2 a_i) in a weight, times c_i in log-odds.
            left = np.exp(-speed * _TIMES[:, None])  # [c, times, K]
            gathered = widths * rates[rows, None, None] * _TIMES[:, None] * (1 - left * left)
            noise = gathered / (2 * speed)
            errors = (signal * left * left + noise).sum(axis=2)
            best = errors.argmin(axis=1)
            labels = np.arange(len(best))
            best_noise = noise.sum(axis=2)[labels, best]
            blocks.append(np.stack([_TIMES[best], best_noise, errors[labels, best]]))
        times, noise_variance, errors = np.concatenate(blocks, axis=1)
        return cls(
            times=times,
            speeds=speeds,
            noise_variance=noise_variance,
            error=float(errors.mean()),
        )

    def within(self, num_steps: int, *, longer: float = 1.0) -> Array:
        """Returns the times `[L]`, multiplied by `longer`, as far as so many steps allow.

        One step takes at most what the fastest direction still lacks.
        """
        return np.asarray(np.minimum(longer * self.times, num_steps / self.speeds.max(axis=1)))


@dataclass(frozen=True, eq=False)
class Descent:
    """The steps of a logistic model that learns from noisy gradients.

    Rule: the model begins with each label's prevalence. A step moves a label's weights by the noisy mean of features
    times what the model gets wrong, for a share of the label's time. That time is `Recipe.longer` times the one that
    `LearningTimes` finds best if log-odds vary by the roots of the directions' variances. At the end the weights become
    their posterior mean (`posterior_rows`), divided by a power of the share that the label had time to learn. Constants
    are matched, so that a label's mean probability on the public rows is its prevalence: the mean of the released
    prevalence and of the steps' suggestions (`prevalence_seen`), weighted by their noise.

    Attributes:
        public: float32 `[m, D]`, features of public inputs, of length 1; the last one is `recipe.constant_feature`.
        variances: `[D - 1]`, public: the variance that each feature but the constant is expected to explain.
        prevalence: `[L]`, in (0, 1), public or released.
        clip_factor: the clip in typical lengths of a gradient.
        num_steps: >= 1.
        recipe: the constants.
    """

    public: Rows
    variances: Array
    prevalence: Array
    clip_factor: float
    num_steps: int
    recipe: Recipe = DEFAULT_RECIPE

    def start(self) -> Array:
        """Returns the weights `[D, L]` that give each label its prevalence on every input."""
        weights = np.zeros((self.public.shape[1], len(self.prevalence)))
        weights[-1] = np.log(self.prevalence / (1 - self.prevalence)) / self._constant
        return weights

    def probabilities(self, weights: Array) -> Rows:
        """Returns the model's probabilities on the public rows, float32 `[m, L]`."""
        return np.asarray(expit(self.public @ weights.astype(np.float32)))

    def pace(self, rate: Array) -> LearningTimes:
        """Returns how long each label learns.

        Args:
            rate: `[L]`, the variance of the noise in a label's mean gradient, over the number of steps.
        """
        signal = np.sqrt(self.variances)
        best = LearningTimes.best(
            widths=self._widths,
            signal=self.recipe.signal_variance * signal / signal.sum(),
            prevalence=self.prevalence,
            rate=rate,
            clip_factor=self._unclipped,
        )
        return replace(best, times=best.within(self.num_steps, longer=self.recipe.longer))

    def moved(self, weights: Array, gradient: Array, pace: LearningTimes) -> Array:
        """Returns the weights `[D, L]` after one step along a noisy mean gradient `[D, L]`.

        A constant takes at most what it still lacks, as every direction does.
        """
        times = np.broadcast_to(pace.times, weights.shape).copy()
        speed = self._unclipped * self.prevalence * (1 - self.prevalence) * self._constant**2
        times[-1] = np.minimum(times[-1], self.num_steps / speed)
        return np.asarray(weights + times / self.num_steps * gradient)

    def prevalence_seen(self, probabilities: Rows, gradient: Array) -> Array:
        """Returns the prevalence `[L]` that one step suggests.

        It is the model's mean probability, plus the constants' gradient as it was before a clip.
        """
        mean = probabilities.mean(axis=0, dtype=np.float64)
        return np.asarray(mean + gradient[-1] / (self._constant * self._unclipped))

    def prevalence_with(self, variance: float, seen: Array, rate: Array) -> Array:
        """Returns the prevalence `[L]` in (0, 1) that the released one and that of the steps suggest together.

        Args:
            variance: of the noise in the released prevalence; 0 where it is public.
            seen: `[L]`, the mean of `prevalence_seen` over all steps.
            rate: `[L]`, as of `pace`.
        """
        variance_of_seen = rate / (self._constant * self._unclipped) ** 2 + self.recipe.clip_bias**2
        weighted = self.prevalence * variance_of_seen + seen * variance
        floor = self.recipe.matched_floor
        return np.asarray((weighted / (variance_of_seen + variance)).clip(floor, 1 - floor))

    def finished(
        self, weights: Array, pace: LearningTimes, rate: Array, prevalence: Array
    ) -> Array:
        """Returns the weights `[D, L]` that are published, given those after all steps.

        Args:
            weights: `[D, L]`, after the last step.
            pace: as the steps went by.
            rate: `[L]`, as of `pace`; 0 where there was no noise.
            prevalence: `[L]`, which the constants are matched to.
        """
        rows = weights[:-1]
        if rate.all():
            rows = self._posterior(rows, pace, rate)
        return np.append(rows, self._matched_constants(rows, prevalence)[None], axis=0)

    def _posterior(self, rows: Array, pace: LearningTimes, rate: Array) -> Array:
        """Returns the posterior mean of weights `[K, L]`, grown by what a label had no time to learn."""
        speeds = pace.speeds.T  # [K, L]
        times = pace.times  # [L]
        learned = -np.expm1(-speeds * times)
        # as in `LearningTimes`, of a weight
        variance = rate * times * -np.expm1(-2 * speeds * times) / (2 * speeds)
        signal = self.variances**self.recipe.signal_power
        expected = (signal / self._widths)[:, None] * learned**2 / variance
        std = np.sqrt(variance)
        rows = posterior_rows(rows / std, expected.mean(axis=1)) * std
        rows /= (signal @ learned / signal.sum()) ** self.recipe.missed_power
        return np.asarray(rows)

    def _matched_constants(self, rows: Array, prevalence: Array) -> Array:
        """Returns the constants' weights `[L]` at which each label's mean probability is its prevalence."""
        logits = self.public[:, :-1] @ rows.astype(np.float32)
        usual = np.log(prevalence / (1 - prevalence))
        low = usual - logits.max(axis=0)
        high = usual - logits.min(axis=0)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            mean = expit(logits + middle.astype(np.float32)).mean(axis=0, dtype=np.float64)
            is_too_low = mean < prevalence
            low = np.where(is_too_low, middle, low)
            high = np.where(is_too_low, high, middle)
        return np.asarray((low + high) / 2 / self._constant)

    @property
    def _constant(self) -> float:
        return self.recipe.constant_feature

    @property
    def _unclipped(self) -> float:
        """The part of a gradient that a clip leaves, about."""
        return min(self.clip_factor, 1.0)

    @cached_property
    def _widths(self) -> Array:
        """The mean square of each feature but the constant on the public rows, `[K]`, > 0."""
        mean_squares = np.square(self.public[:, :-1]).mean(axis=0, dtype=np.float64)
        return np.asarray(mean_squares.clip(_NARROWEST))


def expected_f1_threshold(probabilities: NDArray[np.floating]) -> float:
    """Returns the threshold with the best expected micro-F1 on rows that nobody labeled, if probabilities are true.

    Let m labels of all rows `[n, L]` be predicted, those with the highest probabilities. Their expected micro-F1 is
    2 (sum of the m probabilities) / (m + sum of all probabilities). The threshold is the smallest of the m
    probabilities at the best m, in (0, 1].

    >>> expected_f1_threshold(np.array([[0.9, 0.4], [0.3, 0.1]]))
    0.4
    """
    falling = np.sort(probabilities.ravel().astype(np.float64))[::-1]
    f1 = np.cumsum(falling) / (np.arange(1, len(falling) + 1) + falling.sum())
    return float(np.clip(falling[int(np.argmax(f1))], _LEAST_THRESHOLD, 1.0))
