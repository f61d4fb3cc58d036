"""A calibrated student of noisy moments: what is behind noise of known size, matched on public inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[np.float32]


def shrink_singular_values(noisy: Array, *, noise_std: float) -> Array:
    """The matrix `[m, n]` that is expected behind independent noise in every entry.

    Let y be a singular value in units of noise_std times the root of the longer side, and b the ratio of the sides.
    Above 1 + sqrt(b) it becomes sqrt((y**2 - b - 1)**2 - 4 b) / y, below that 0, because noise alone explains it. In
    mean square no other function of singular values does better asymptotically.

    Source: Gavish & Donoho 2017, "Optimal shrinkage of singular values", Frobenius loss.

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


_ROUNDS = 3  # in which weights of rows and the typical variance of a column settle
_LEAST_WEIGHT = 1e-9


def posterior_rows(noisy: Array, row_variances: Array) -> Array:
    """The matrix `[k, L]` that is expected behind independent noise of variance 1 in every entry.

    Rule: row j is a Gaussian vector with covariance row_variances[j] C. C is estimated by what the rows' products have
    beyond noise. A row v counts for it by v / (1 + v c)**2, c being the typical variance of a column: as much as its
    own product is certain. What columns share is shrunk by the variance that its estimate has, so that columns whose
    rows are few share little. Negative eigenvalues are set to 0; then each row is replaced by its posterior mean.

    Args:
        noisy: in units of the noise's std.
        row_variances: `[k]`, > 0, up to a common factor.

    Source: Efron & Morris 1972, "Empirical Bayes on vector observations", with rows of unequal variance; Schäfer &
    Strimmer 2005 for the shrinkage.

    >>> noisy = np.array([[30.0, 0.5], [-30.0, -0.5], [1.0, 1.0]])
    >>> posterior_rows(noisy, np.array([1.0, 1.0, 0.1])).round() + 0.0
    array([[ 30.,   0.],
           [-30.,   0.],
           [  1.,   0.]])
    """
    variances = row_variances / row_variances.mean()
    shared, vectors = np.linalg.eigh(_covariance(noisy, variances))
    explained = np.outer(variances, shared.clip(0))
    return np.asarray(((noisy @ vectors) * (explained / (explained + 1))) @ vectors.T)


def _covariance(noisy: Array, variances: Array) -> Array:
    """C `[L, L]`, its diagonal as it is found and the rest shrunk."""
    weights = variances
    beyond = (noisy**2).mean(axis=1) - 1
    for _ in range(_ROUNDS):
        typical = max(float((weights * beyond).sum() / (weights * variances).sum()), 0.0)
        weights = variances / (1 + typical * variances) ** 2
    total = (weights * variances).sum()
    found = ((noisy.T * weights) @ noisy - weights.sum() * np.eye(noisy.shape[1])) / total
    own = np.diag(np.diag(found))
    rows = 1 + np.outer(variances, np.diag(found).clip(0))  # each entry's variance, `[k, L]`
    chance = (rows.T * weights**2) @ rows / total**2  # of an entry of what was found
    apart = ~np.eye(len(found), dtype=np.bool_)
    shrunk = min(1.0, float(chance[apart].sum() / max((found[apart] ** 2).sum(), _LEAST_WEIGHT)))
    return np.asarray((1 - shrunk) * found + shrunk * own)


_PRIOR_SHARE = 0.1  # of the logits' variance that the moments show: its tail is what noise makes of them
_FREE = 1e3  # prior variance of a constant
_STEPS = 100  # of a search; with 40, what noise there is decides where it stops
_FEWER_STEPS, _MANY = 40, 256  # from so many features on: a budget that affords them has little noise
_NEWTON_STEPS = 12
_LOST = 0.005  # error of a share after the steps: so large only where they diverged
_SLOPES = (0.2, 50.0)  # the least and the most
_SUREST = 2.0  # std of the log-odds of a label that noise alone makes steep
_BISECTIONS = 30
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """What one round released.

    Attributes:
        residuals: `[D, L]`, the mean over records of features times label minus probability.
        noise_std: `[L]`, of each entry of a column.
        probabilities: float32 `[m, L]`, of the student that it was taken against, on the public rows.
    """

    residuals: Array
    noise_std: Array
    probabilities: Rows


@dataclass(frozen=True, eq=False)
class MomentFit:
    """Logistic weights whose moments on public inputs are those that were released. Nothing is private, nothing random.

    Rule: a round's residual moment plus the moment of its own student on the public rows estimates the moment of the
    labels. Rounds are averaged by precision: their noise, and what m public rows leave open of the difference between
    the round's student and the present one. Of what is beyond the prevalence's moment the posterior mean is taken
    (`posterior_rows`): directions of more public variance say more, and labels share what they say. The weights match
    it, under a Gaussian prior whose variance is a tenth of what the moments themselves show; then each label's slope
    and constant are matched again, without a prior: so probabilities are calibrated. With much noise no slope may
    give the moment; the label's share is matched all the same.

    Attributes:
        public: float32 `[m, D]`, features of public inputs, the last one 1.
        prevalence: `[L]`, in (0, 1), released.
        num_records: private records, public.
        variances: `[D - 1]`, public, of what is behind each feature but the constant.
    """

    public: Rows
    prevalence: Array
    num_records: int
    variances: Array

    def start(self) -> Array:
        """The weights that give each label its prevalence."""
        weights = np.zeros((self.public.shape[1], len(self.prevalence)))
        weights[-1] = np.log(self.prevalence / (1 - self.prevalence))
        return weights

    def probabilities(self, weights: Array) -> Rows:
        """On the public rows, float32 `[m, L]`."""
        from scipy.special import expit  # loads slowly

        return np.asarray(expit(self.public @ weights.astype(np.float32)))

    def fit(self, rounds: Sequence[NoisyMoments], start: Array) -> Array:
        """The weights `[D, L]` after some rounds, searched from those before the last one."""
        weights = start
        for _ in range(2):  # the second time with what is known of how far the rounds' students are
            beyond, variance = self._beyond(rounds, self.probabilities(weights))
            std = np.sqrt(variance)
            noisy = beyond / std
            likely = posterior_rows(noisy[:-1], self._row_variances)
            target = self._known + np.append(likely, noisy[-1:], axis=0) * std
            weights = self._matched(target, self._penalty(beyond, variance), weights)
            weights = self._calibrated(target, weights)
        return weights

    @property
    def _row_variances(self) -> Array:
        """How much is to be expected of each direction's moments: log-odds go by the root of a direction's variance."""
        return np.asarray(np.sqrt(self.variances) * (self.public[:, :-1] ** 2).mean(axis=0, dtype=np.float64))

    @property
    def _variance(self) -> Array:
        """Of each label."""
        return self.prevalence * (1 - self.prevalence)

    def _moments(self, probabilities: Rows) -> Array:
        return np.asarray(self.public.T @ probabilities / len(self.public), dtype=np.float64)

    @property
    def _known(self) -> Array:
        """The moments that the prevalence alone would have, `[D, L]`."""
        return self._moments(self.probabilities(self.start()))

    def _beyond(self, rounds: Sequence[NoisyMoments], present: Rows) -> tuple[Array, Array]:
        """The labels' moments beyond what is known, `[D, L]`, and the variance of each column's entries, `[L]`."""
        distances = [((present - each.probabilities) ** 2).mean(axis=0, dtype=np.float64) for each in rounds]
        trust = [
            1 / np.maximum(each.noise_std**2 + far / len(self.public), _LEAST**2)
            for each, far in zip(rounds, distances, strict=True)
        ]
        found = sum(
            weight * (each.residuals + self._moments(each.probabilities))
            for each, weight in zip(rounds, trust, strict=True)
        ) / sum(trust)
        chance = (present * (1 - present)).mean(axis=0, dtype=np.float64) / self.num_records
        return found - self._known, 1 / sum(trust) + chance

    def _penalty(self, beyond: Array, variance: Array) -> Array:
        """Noise over the prior's variance, `[D, L]`: by how much the moments show more than noise."""
        weights, noise = beyond[:-1] / self._variance, variance / self._variance**2
        shown = (weights**2 / noise - 1).sum() / (len(weights) / noise).sum()
        prior = np.full((len(beyond), 1), _PRIOR_SHARE * max(float(shown), 1e-4))
        prior[-1] = _FREE
        return np.asarray(variance / self._variance / prior)

    def _matched(self, target: Array, penalty: Array, start: Array) -> Array:
        """The minimum of mean softplus(logits) - <weights, target> + penalty / 2 weights**2, a convex function."""
        from scipy.optimize import minimize  # loads slowly

        scale = 1 / np.sqrt(0.7 * self._variance + penalty)

        def loss(flat: Array) -> tuple[float, Array]:
            weights = flat.reshape(scale.shape) * scale
            logits = self.public @ weights.astype(np.float32)
            small = np.exp(-np.abs(logits))
            value = (np.maximum(logits, 0) + np.log1p(small)).sum(dtype=np.float64) / len(self.public)
            value += (penalty * weights**2).sum() / 2 - (weights * target).sum()
            probabilities = np.where(logits >= 0, 1, small) / (1 + small)
            gradient = self._moments(probabilities) - target + penalty * weights
            return float(value), (gradient * scale).ravel()

        search = {"maxiter": _FEWER_STEPS if len(scale) > _MANY else _STEPS, "ftol": 1e-9}
        found = minimize(loss, (start / scale).ravel(), jac=True, method="L-BFGS-B", options=search)
        return np.asarray(found.x.reshape(scale.shape) * scale)

    def _calibrated(self, target: Array, weights: Array) -> Array:
        """Each label's slope and constant by Newton's method: the moments along its own weights, and its share."""
        from scipy.special import expit  # loads slowly

        along = self.public[:, :-1] @ weights[:-1].astype(np.float32)
        wanted = (weights[:-1] * target[:-1]).sum(axis=0)
        slope, constant = np.ones(weights.shape[1]), weights[-1].copy()
        for _ in range(_NEWTON_STEPS):
            p = expit(slope * along + constant)
            q = p * (1 - p)
            off, tilt = target[-1] - p.mean(axis=0), wanted - (p * along).mean(axis=0)
            h00, h01 = q.mean(axis=0) + 1e-9, (q * along).mean(axis=0)
            h11 = (q * along**2).mean(axis=0) + 1e-9
            det = np.maximum(h00 * h11 - h01**2, _LEAST)
            more = np.clip((h00 * tilt - h01 * off) / det, -0.5 * slope, slope)
            slope = np.clip(slope + more, *_SLOPES)
            constant = constant + np.clip((h11 * off - h01 * tilt) / det, -1, 1)
        lost = np.abs(target[-1] - expit(slope * along + constant).mean(axis=0)) > _LOST
        if lost.any():
            slope[lost], constant[lost] = _slopes(along[:, lost], wanted[lost], target[-1, lost])
        return np.append(weights[:-1] * slope, constant[None], axis=0)


def _slopes(logits: Rows, wanted: Array, shares: Array) -> tuple[Array, Array]:
    """Each column's slope and constant: its mean probability is `shares`, its moment along the logits is `wanted`.

    Where no slope has that moment, the slope is the nearest of its limits: what noise asks for gives no student that is
    sure of everything. Both are bisected, which cannot diverge.
    """
    from scipy.special import expit  # loads slowly

    shares = np.clip(shares, 1 / len(logits), 1 - 1 / len(logits))  # noise can ask for less than 0
    low = np.full(logits.shape[1], math.log(_SLOPES[0]))
    high = np.log(np.clip(_SUREST / np.maximum(logits.std(axis=0), _LEAST), 1.0, _SLOPES[1]))
    for _ in range(_BISECTIONS // 2):
        middle = (low + high) / 2
        sloped = np.exp(middle) * logits
        probabilities = expit(sloped + _constants(sloped, shares))
        less = (probabilities * logits).mean(axis=0) < wanted
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    slopes = np.exp((low + high) / 2)
    return slopes, _constants(slopes * logits, shares)


def _constants(logits: Array, shares: Array) -> Array:
    """What added to each column of logits `[m, L]` gives its mean probability, `[L]`."""
    from scipy.special import expit, logit  # loads slowly

    low, high = logit(shares) - logits.max(axis=0), logit(shares) - logits.min(axis=0)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        less = expit(logits + middle).mean(axis=0) < shares
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return np.asarray((low + high) / 2)


def expected_f1_threshold(probabilities: NDArray[np.floating]) -> float:
    """The threshold with the best expected micro-F1 on rows that nobody labeled, if the probabilities are true.

    Of all labels of all rows those with the highest probabilities are predicted, as many as make
    2 (sum of these) / (their number + sum of all) largest.

    Args:
        probabilities: `[n, L]`, n > 0.

    Returns:
        The smallest probability that is predicted, in (0, 1].

    >>> expected_f1_threshold(np.array([[0.9, 0.4], [0.3, 0.1]]))
    0.4
    """
    falling = np.sort(probabilities.ravel().astype(np.float64))[::-1]
    gain = np.cumsum(falling) / (np.arange(1, len(falling) + 1) + falling.sum())
    return float(np.clip(falling[int(np.argmax(gain))], 1e-3, 1.0))
