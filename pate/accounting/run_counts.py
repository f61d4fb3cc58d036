"""Distributions of the secret number of runs of a tuned release.

A tuned release runs a mechanism K times on the same private data, and publishes the best run alone. K is drawn from a
distribution here, and stays secret. Let f(x) = E[x^K] be the generating function of K. The price of the best run needs
E[K], P(K = 0) and f(1 - p), the probability that none of the runs has a property that each of them has with
probability p (docs/proofs/tuning.md).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from pate.validation import InvalidValue, require, require_kind, require_positive

# The largest expected number of runs that may be given, and the smallest gamma of a truncated negative binomial.
_LARGEST_MEAN = 1e6
_SMALLEST_GAMMA = 1e-9
# An eta that is not 0 has at least this absolute value, because the closed forms cancel near 0.
_SMALLEST_ETA = 1e-9
# Relative, and above the rounding errors of all closed forms in this module.
_ROUNDING = 2.0**-40


class RunCount:
    """The base class of distributions of the number of runs K of a tuned release."""

    __slots__ = ()

    @property
    @abstractmethod
    def mean(self) -> float:
        """E[K], the expected number of runs, rounded up where it is computed."""

    @property
    @abstractmethod
    def prob_of_none(self) -> float:
        """P(K = 0), the probability that nothing is run."""

    @abstractmethod
    def prob_of_any(self, prob: float) -> float:
        """Returns the probability that at least one of K runs has a property, rounded up.

        Args:
            prob: the probability that one run has the property, in [0, 1].
        """

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> int:
        """Returns a number of runs, drawn from the distribution. The number is secret."""


def _require_shape_eta(eta: float) -> None:
    is_valid = math.isfinite(eta) and eta > -1 and (eta == 0 or abs(eta) >= _SMALLEST_ETA)
    require(is_valid, "eta", eta, "0, or a finite number > -1 that is not nearly 0")


@dataclass(frozen=True, slots=True)
class TruncatedNegativeBinomial(RunCount):
    """A number of runs K >= 1 with the truncated negative binomial distribution of Papernot & Steinke (2022).

    P(K = k) is in proportion to (1 - gamma)^k (eta + 1) ... (eta + k - 1) / k!. So K is geometric where eta is 1, and
    logarithmic where eta is 0. A smaller eta makes the price smaller at the same mean, and one run alone more frequent.

    >>> round(TruncatedNegativeBinomial(eta=1.0, gamma=0.25).mean, 6)
    4.0
    """

    eta: float  # > -1; 1 for geometric, 0 for logarithmic
    gamma: float  # in [1e-9, 1); a smaller gamma makes more runs

    def __post_init__(self) -> None:
        _require_shape_eta(self.eta)
        is_valid = _SMALLEST_GAMMA <= self.gamma < 1
        require(is_valid, "gamma", self.gamma, f"a number in [{_SMALLEST_GAMMA:g}, 1)")

    @classmethod
    def of_mean(cls, mean: float, *, eta: float = 0.0) -> TruncatedNegativeBinomial:
        """Returns the distribution with the expected number of runs `mean`, to within a relative 1e-9.

        Raises `InvalidValue` for a mean that, at this eta, needs a gamma below 1e-9.

        Args:
            mean: the expected number of runs, in (1, 1e6].
            eta: the shape, > -1.
        """
        _require_shape_eta(eta)
        require(1 < mean <= _LARGEST_MEAN, "mean", mean, f"a number in (1, {_LARGEST_MEAN:g}]")
        low_log_gamma = math.log(_SMALLEST_GAMMA)
        smallest_complement = 1e-12  # of gamma, so that its logarithm is below 0
        high_log_gamma = math.log1p(-smallest_complement)
        distribution_of_most_runs = cls(eta=eta, gamma=_SMALLEST_GAMMA)
        if distribution_of_most_runs.mean < mean:
            rule = f"fewer runs, or a larger eta: gamma would be below {_SMALLEST_GAMMA:g}"
            raise InvalidValue("mean", mean, rule=rule)
        for _ in range(100):  # the mean falls as gamma rises
            middle_log_gamma = (low_log_gamma + high_log_gamma) / 2
            middle_distribution = cls(eta=eta, gamma=math.exp(middle_log_gamma))
            if middle_distribution.mean > mean:
                low_log_gamma = middle_log_gamma
            else:
                high_log_gamma = middle_log_gamma
        return cls(eta=eta, gamma=math.exp(high_log_gamma))

    @property
    def mean(self) -> float:
        """E[K], the expected number of runs, rounded up."""
        log_gamma = math.log(self.gamma)
        if self.eta == 0:
            mean = math.expm1(-log_gamma) / -log_gamma
        else:
            mean = self.eta * math.expm1(-log_gamma) / -math.expm1(self.eta * log_gamma)
        return max(mean, 1.0) * (1 + 4 * _ROUNDING)

    @property
    def prob_of_none(self) -> float:
        """P(K = 0), which is 0."""
        return 0.0

    def prob_of_any(self, prob: float) -> float:
        """Returns the probability that at least one of K runs has a property, rounded up.

        Args:
            prob: the probability that one run has the property, in [0, 1].
        """
        # 1 - f(1 - p), where f(x) is (1 - (1 - gamma) x)^-eta up to a shift and a scale that make f(0) = 0 and f(1) = 1
        log_gamma = math.log(self.gamma)
        log_ratio = math.log1p(math.expm1(-log_gamma) * prob)
        if self.eta == 0:
            prob_of_any_with_property = log_ratio / -log_gamma
        else:
            prob_of_any_with_property = math.expm1(-self.eta * log_ratio) / math.expm1(
                self.eta * log_gamma
            )
        return min(prob_of_any_with_property * (1 + _ROUNDING), 1.0)

    def draw(self, rng: np.random.Generator) -> int:
        """Returns a number of runs, drawn from the distribution. The number is secret."""
        # The inverse of the distribution function: P(K = 1), P(K = 2), … are subtracted from a uniform number.
        remainder = float(rng.random())
        log_gamma = math.log(self.gamma)
        scale = -log_gamma if self.eta == 0 else math.expm1(-self.eta * log_gamma) / self.eta
        prob = (1 - self.gamma) / scale  # P(K = 1)
        num_runs = 1
        # P(K = k + 1) / P(K = k) = (1 - gamma) (eta + k) / (k + 1). The probability that the loop ends because `prob`
        # became 0 is below 2^-53.
        while remainder >= prob and prob > 0:
            remainder -= prob
            prob *= (1 - self.gamma) * (self.eta + num_runs) / (num_runs + 1)
            num_runs += 1
        return num_runs


@dataclass(frozen=True, slots=True)
class Poisson(RunCount):
    """A number of runs K with the Poisson distribution.

    With the probability e^(-mean) nothing is run: then nothing is published, and the price is spent all the same.

    >>> round(Poisson(mean=4.0).prob_of_none, 4)
    0.0183
    """

    mean: float  # E[K], in (0, 1e6]

    def __post_init__(self) -> None:
        require_positive("mean", self.mean)
        require(self.mean <= _LARGEST_MEAN, "mean", self.mean, f"at most {_LARGEST_MEAN:g}")

    @property
    def prob_of_none(self) -> float:
        """P(K = 0), the probability that nothing is run."""
        return math.exp(-self.mean)

    def prob_of_any(self, prob: float) -> float:
        """Returns the probability that at least one of K runs has a property, rounded up.

        Args:
            prob: the probability that one run has the property, in [0, 1].
        """
        return min(-math.expm1(-self.mean * prob) * (1 + _ROUNDING), 1.0)

    def draw(self, rng: np.random.Generator) -> int:
        """Returns a number of runs, drawn from the distribution. The number is secret."""
        return int(rng.poisson(self.mean))


RUN_COUNTS: dict[str, type[RunCount]] = {
    kind.__name__: kind for kind in (Poisson, TruncatedNegativeBinomial)
}
"""The distributions that an event may name, by class name."""


def require_run_count(field_name: str, field_value: Any) -> None:
    """Raises `InvalidValue` unless a value is a distribution of a number of runs."""
    rule = f"a distribution of {' or '.join(sorted(RUN_COUNTS))}"
    require_kind(field_name, field_value, kind=RunCount, rule=rule)
