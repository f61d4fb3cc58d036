"""Gradient descent on noisy sums: how long it learns, what is expected behind their noise, and where labels begin."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import expit
from pate.votes.public_pca import CONSTANT

Array = NDArray[np.float64]
_ROUNDS = 3  # in which weights of rows and the typical variance of a column settle
_LEAST_WEIGHT = 1e-9
Rows = NDArray[np.float32]
_TIMES = np.concatenate([np.geomspace(1e-6, 0.5, 20), np.geomspace(1.0, 1e6, 80)])
_BLOCK_ENTRIES = 2**22
_SIGNAL = 2.0  # what a label's log-odds vary by, before anything is known
_LONGER = 2.0  # than is best for single weights: the posterior takes their noise off
# power of the share of a label's signal that its time was enough for: rare labels would be too
# unsure
_MISSED = 0.5
# of a direction's variance, in what its weights are expected to add to log-odds
_SIGNAL_POWER = 0.25
_NARROWEST = 1e-12
# of a prevalence, about, that steps say too much or too little: clips cut some gradients more
_CLIPPED_AWAY = 0.02
_RAREST = 1e-3
_BISECTIONS = 30


def shrink_singular_values(noisy: Array, *, noise_std: float) -> Array:
    """The matrix `[m, n]` that is expected behind independent noise in every entry.

    Let y be a singular value in units of noise_std times the root of the longer side, and b the ratio of the sides.
    Above 1 + sqrt(b) it becomes sqrt((y**2 - b - 1)**2 - 4 b) / y, below that 0, because noise alone explains it. In
    mean square no other function of singular values does better asymptotically. Source: Gavish & Donoho 2017, "Optimal
    shrinkage of singular values", Frobenius loss.

    >>> shrink_singular_values(np.diag([100.0, 0.1]), noise_std=1.0).round(1).tolist()
    [[100.0, 0.0], [0.0, 0.0]]
    """
    if noise_std == 0:
        return noisy
    left, singular, right = np.linalg.svd(noisy, full_matrices=False)
    ratio = min(noisy.shape) / max(noisy.shape)
    unit = noise_std * math.sqrt(max(noisy.shape))
    value = singular / unit
    edge = np.maximum((value**2 - ratio - 1) ** 2 - 4 * ratio, 0)
    kept = np.where(value > 1 + math.sqrt(ratio), np.sqrt(edge) / np.maximum(value, 1), 0)
    return np.asarray((left * (kept * unit)) @ right)


def posterior_rows(noisy: Array, row_variances: Array) -> Array:
    """The matrix `[k, L]` that is expected behind independent noise of variance 1 in every entry.

    Rule: row j is a Gaussian vector with covariance row_variances[j] C. C is estimated by what the rows' products have
    beyond noise. A row v counts for it by v / (1 + v c)**2, c being the typical variance of a column. What columns
    share, and what they have more or less than the mean of them, is shrunk by the variance of its estimate. Negative
    eigenvalues are set to 0; then each row is replaced by its posterior mean. Row variances `[k]` are > 0, up to a
    common factor. Source: Efron & Morris 1972, "Empirical Bayes on vector observations", with rows of unequal variance;
    Schäfer & Strimmer 2005 for the shrinkage.

    >>> noisy = np.array([[30.0, 0.5], [-30.0, -0.5]] * 8)
    >>> posterior_rows(noisy, np.ones(16))[:2].round() + 0.0
    array([[ 30.,   0.],
           [-30.,   0.]])
    """
    variances = row_variances / row_variances.mean()
    # C is shrunk: its diagonal toward its mean, the rest toward 0, each by how much of it chance explains
    weights = variances
    beyond = (noisy**2).mean(axis=1) - 1
    for _ in range(_ROUNDS):
        typical = max(float((weights * beyond).sum() / (weights * variances).sum()), 0.0)
        weights = variances / (1 + typical * variances) ** 2
    total = (weights * variances).sum()
    found = ((noisy.T * weights) @ noisy - weights.sum() * np.eye(noisy.shape[1])) / total
    own = np.diag(found)
    mean = max(float(own.mean()), 0.0)
    # a square's variance is 2
    chance = 2 * float(np.square((1 + variances * mean) * weights).sum()) / total**2
    kept = 1 - min(1.0, chance / max(float(own.var()), _LEAST_WEIGHT))
    own = mean + kept * (own - mean)
    rows = 1 + np.outer(variances, own.clip(0))  # each entry's variance, `[k, L]`
    chances = (rows.T * weights**2) @ rows / total**2  # of an entry of what was found
    apart = ~np.eye(len(found), dtype=np.bool_)
    shrunk = min(1.0, float(chances[apart].sum() / max((found[apart] ** 2).sum(), _LEAST_WEIGHT)))
    covariance = (1 - shrunk) * found * apart + np.diag(own)
    found, vectors = np.linalg.eigh(covariance)
    explained = np.outer(variances, found.clip(0))
    return np.asarray(((noisy @ vectors) * (explained / (explained + 1))) @ vectors.T)


@dataclass(frozen=True, eq=False)
class LearningTimes:
    """How long gradient descent learns each label of a linear model: until it is expected to err least.

    Rule: in a time t on features of variance c_i it leaves exp(-t a_i) of the signal in direction i. It gathers noise
    of variance c_i v t (1 - exp(-2 t a_i)) / (2 a_i), with a_i = s h c_i. Here h = p (1 - p) is a label's curvature at
    its prevalence, s the clip factor, v the variance of the noise of all steps.
    """

    times: Array  # learning rate times number of steps, `[L]`
    speeds: Array  # a_i, `[L, K]`
    noise_variance: Array  # of the noise that is then in each label's log-odds, about, `[L]`
    error: float  # expected, of the log-odds' variance

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
        """A rule of public numbers.

        `widths` c `[K]` > 0 are the mean squares of the features on public inputs, `signal` `[K]` what log-odds are
        taken to vary by along each. Prevalences `[L]` are in (0, 1). `rate`, v, one or `[L]`, is the variance of the
        noise in a mean gradient's entry, over the number of steps; the clip is in typical lengths of a gradient.
        """
        speeds = (clip_factor * (prevalence * (1 - prevalence)))[:, None] * widths
        each = max(1, _BLOCK_ENTRIES // (len(_TIMES) * len(widths)))  # labels at once
        rates = np.broadcast_to(rate, len(speeds))
        found = []
        for first in range(0, len(speeds), each):
            speed = speeds[first : first + each, None]  # [c, 1, K]
            # An error u of direction i follows du = -a_i u dt, so exp(-a_i t) of it is left. Noise of variance v t dt
            # arrives all along and decays alike: v t (1 - exp(-2 a_i t)) / (2 a_i) in a weight, times c_i in log-odds.
            left = np.exp(-speed * _TIMES[:, None])  # [c, times, K]
            noise = (
                widths
                * rates[first : first + each, None, None]
                * _TIMES[:, None]
                * (1 - left * left)
                / (2 * speed)
            )
            errors = (signal * left * left + noise).sum(axis=2)
            best = errors.argmin(axis=1)
            rows = np.arange(len(best))
            found.append(
                np.stack([_TIMES[best], noise.sum(axis=2)[rows, best], errors[rows, best]])
            )
        times, noise_variance, errors = np.concatenate(found, axis=1)
        return cls(times, speeds, noise_variance, float(errors.mean()))

    def within(self, num_steps: int, *, longer: float = 1.0) -> Array:
        """So many times as long, `[L]`, or as so many steps allow: one takes at most what a direction still lacks."""
        return np.asarray(np.minimum(longer * self.times, num_steps / self.speeds.max(axis=1)))


@dataclass(frozen=True, eq=False)
class Descent:
    """A logistic model that learns from noisy gradients. Nothing is private, nothing random.

    Rule: it begins with each label's prevalence. A step moves a label's weights by the noisy mean of features times
    what the model gets wrong, for a share of the label's time. That is twice what `LearningTimes` finds best if
    log-odds vary by the roots of the directions' variances. At the end the weights become their posterior mean
    (`posterior_rows`), divided by the root of the share that the label had time to learn. Constants are matched, so
    that a label's mean probability on the public rows is its prevalence: the one released, and what the steps'
    constants say of it, weighted by their noise.
    """

    # float32 `[m, D]`, features of public inputs, of length 1, the last one `CONSTANT`
    public: Rows
    variances: Array  # `[D - 1]`, public, of what is behind each feature but the constant
    prevalence: Array  # `[L]`, in (0, 1), released
    clip_factor: float  # the clip in typical lengths of a gradient
    num_steps: int  # >= 1

    def start(self) -> Array:
        """The weights `[D, L]` that give each label its prevalence."""
        weights = np.zeros((self.public.shape[1], len(self.prevalence)))
        weights[-1] = np.log(self.prevalence / (1 - self.prevalence)) / CONSTANT
        return weights

    def probabilities(self, weights: Array) -> Rows:
        """On the public rows, float32 `[m, L]`."""
        return np.asarray(expit(self.public @ weights.astype(np.float32)))

    def pace(self, rate: Array) -> LearningTimes:
        """How long each label learns, given the variance of its gradients' noise, over the number of steps, `[L]`."""
        signal = np.sqrt(self.variances)
        best = LearningTimes.best(
            self._widths,
            _SIGNAL * signal / signal.sum(),
            self.prevalence,
            rate,
            clip_factor=self._unclipped,
        )
        return replace(best, times=best.within(self.num_steps, longer=_LONGER))

    def moved(self, weights: Array, gradient: Array, pace: LearningTimes) -> Array:
        """The weights after one step; a constant takes at most what it still lacks, too."""
        times = np.broadcast_to(pace.times, weights.shape).copy()
        speed = self._unclipped * self.prevalence * (1 - self.prevalence) * CONSTANT**2
        times[-1] = np.minimum(times[-1], self.num_steps / speed)
        return np.asarray(weights + times / self.num_steps * gradient)

    def prevalence_seen(self, probabilities: Rows, gradient: Array) -> Array:
        """What one step says of it, `[L]`: the student's mean, and the constants' gradient before a clip."""
        return np.asarray(
            probabilities.mean(axis=0, dtype=np.float64)
            + gradient[-1] / (CONSTANT * self._unclipped)
        )

    def prevalence_with(self, variance: float, seen: Array, rate: Array) -> Array:
        """The one released, of that variance, and the mean of all steps' with the noise of that rate, in (0, 1)."""
        of_seen = rate / (CONSTANT * self._unclipped) ** 2 + _CLIPPED_AWAY**2
        found = (self.prevalence * of_seen + seen * variance) / (of_seen + variance)
        return np.asarray(found.clip(_RAREST, 1 - _RAREST))

    def finished(
        self, weights: Array, pace: LearningTimes, rate: Array, prevalence: Array
    ) -> Array:
        """The weights after all steps, given the rate of their noise, `[L]`, 0 for none."""
        rows = weights[:-1]
        if rate.all():
            # [K, L], [L]
            speeds = pace.speeds.T
            times = pace.times
            learned = -np.expm1(-speeds * times)
            variance = rate * times * -np.expm1(-2 * speeds * times) / (2 * speeds)
            signal = self.variances**_SIGNAL_POWER
            expected = (signal / self._widths)[:, None] * learned**2 / variance
            std = np.sqrt(variance)
            rows = posterior_rows(rows / std, expected.mean(axis=1)) * std
            rows /= (signal @ learned / signal.sum()) ** _MISSED
        # what added to each label's logits gives its mean probability
        logits = self.public[:, :-1] @ rows.astype(np.float32)
        usual = np.log(prevalence / (1 - prevalence))
        low = usual - logits.max(axis=0)
        high = usual - logits.min(axis=0)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            less = (
                expit(logits + middle.astype(np.float32)).mean(axis=0, dtype=np.float64)
                < prevalence
            )
            low = np.where(less, middle, low)
            high = np.where(less, high, middle)
        return np.append(rows, (low + high)[None] / 2 / CONSTANT, axis=0)

    @property
    def _unclipped(self) -> float:
        """About what a clip leaves of a gradient."""
        return min(self.clip_factor, 1.0)

    @cached_property
    def _widths(self) -> Array:
        """Of each feature; one that no public row has counts next to nothing."""
        return np.asarray(
            np.square(self.public[:, :-1]).mean(axis=0, dtype=np.float64).clip(_NARROWEST)
        )


def expected_f1_threshold(probabilities: NDArray[np.floating]) -> float:
    """The threshold with the best expected micro-F1 on rows that nobody labeled, if the probabilities are true.

    Of all labels of all rows `[n, L]` those with the highest probabilities are predicted, as many as make 2 (sum of
    these) / (their number + sum of all) largest. It is the smallest of these, in (0, 1].

    >>> expected_f1_threshold(np.array([[0.9, 0.4], [0.3, 0.1]]))
    0.4
    """
    falling = np.sort(probabilities.ravel().astype(np.float64))[::-1]
    gain = np.cumsum(falling) / (np.arange(1, len(falling) + 1) + falling.sum())
    return float(np.clip(falling[int(np.argmax(gain))], 1e-3, 1.0))
