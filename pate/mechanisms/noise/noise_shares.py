"""Gaussian noise that several places draw in shares, and how much of it is left where some drop out or collude."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pate.mechanisms.noise.discrete_gaussian import LARGEST_VARIANCE, DiscreteGaussian
from pate.validation import require, require_count, require_positive

_LEAST_SHARE = 8.0  # std of a share in steps: what a sum of shares differs by from one draw is below 10**-270 then
_UP, _DOWN = 1 + 2.0**-46, 1 - 2.0**-46  # relative: far above the rounding error of a few operations


@dataclass(frozen=True, kw_only=True)
class NoiseShares:
    """Shares of discrete Gaussian noise, of which any `num_counted` together have a standard deviation of `noise_std`.

    Counts are taken in steps of 1 / `steps` of a vote, so that a share is wide in steps, and every share has the
    variance `share.variance` in steps squared.

    Formal guarantee: the sum of `num_counted` shares or more, added to a vector of D counts that moves by at most s
    votes in l2 between neighbors, is s**2 / (2 variance) zCDP, except with probability `failure_prob(D)`. It holds
    against whoever sees the sum and up to `max_colluders` of the shares in it.

    Attributes:
        noise_std: in votes, > 0, of the shares that are counted on.
        num_holders: n, >= 1, how many draw a share.
        max_dropouts: d, how many of them may be missing.
        max_colluders: c, how many of the others may tell their share, or draw none.

    Source: Kairouz, Liu & Steinke 2021; docs/proofs/distributed_noise.md.

    >>> shares = NoiseShares(noise_std=50.0, num_holders=40, max_dropouts=4, max_colluders=4)
    >>> shares.num_counted, shares.steps, shares.share.variance
    (32, 1, 79)
    """

    noise_std: float
    num_holders: int
    max_dropouts: int = 0
    max_colluders: int = 0

    def __post_init__(self) -> None:
        require_positive("noise_std", self.noise_std)
        require_count("num_holders", self.num_holders)
        require_count("max_dropouts", self.max_dropouts, minimum=0)
        require_count("max_colluders", self.max_colluders, minimum=0)
        lost = self.max_dropouts + self.max_colluders
        rule = f"more than max_dropouts + max_colluders = {lost}"
        require(self.num_holders > lost, "num_holders", self.num_holders, rule)

    @property
    def num_counted(self) -> int:
        """N - d - c: shares that are in the sum and that nobody else knows."""
        return self.num_holders - self.max_dropouts - self.max_colluders

    @cached_property
    def steps(self) -> int:
        """Steps per vote, a power of two."""
        share_std = self.noise_std / math.sqrt(self.num_counted)
        return 1 << max(0, math.ceil(math.log2(_LEAST_SHARE / share_std)))

    @cached_property
    def share_variance(self) -> int:
        """Of one share, in steps squared; a whole number, rounded up."""
        return math.ceil(Fraction(self.noise_std) ** 2 * self.steps**2 / self.num_counted)

    @property
    def share(self) -> DiscreteGaussian:
        """What one holder adds to each of its counts, in steps.

        Raises:
            InvalidValue: noise too large to draw.
        """
        rule = f"at most {4096 * math.isqrt(self.num_counted)}: a share is drawn up to a standard deviation of 4096"
        require(self.share_variance <= LARGEST_VARIANCE, "noise_std", self.noise_std, rule)
        return DiscreteGaussian(self.share_variance)

    def drawn_together(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
        """Noise as wide as the shares of all holders together, drawn in one place; in steps.

        The sum of k shares and one draw of k times the variance differ by `failure_prob` at most, so as many shares are
        drawn as one as can be.
        """
        at_once = LARGEST_VARIANCE // self.share.variance
        whole, rest = divmod(self.num_holders, at_once)
        noise = np.zeros(shape, dtype=np.int64)
        for count in (*(at_once,) * whole, *((rest,) if rest else ())):
            noise += DiscreteGaussian(count * self.share_variance).sample(shape, rng)
        return noise

    @property
    def variance(self) -> float:
        """Of the shares that are counted on, in votes squared; rounded down."""
        return self.num_counted * self.share_variance / self.steps**2 * _DOWN

    def failure_prob(self, num_counts: int) -> float:
        """By how much the noise on that many counts may differ from one draw of discrete Gaussian noise.

        A sum of shares has a part of at least 1 minus this of the law of one draw (docs/proofs/distributed_noise.md).
        """
        exponents = (2 * math.pi**2 * self.share_variance * k / (k + 1) for k in range(1, self.num_counted))
        waves = (math.exp(-min(exponent * _DOWN, 700.0)) for exponent in exponents)
        spread = math.fsum(math.atanh(min(2 * wave / (1 - wave) * _UP, 1 - 2.0**-53)) for wave in waves)
        return -math.expm1(-2 * num_counts * spread * _UP) * _UP
