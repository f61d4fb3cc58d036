"""Shares of discrete Gaussian noise: each holder draws one share, and the shares add up to the noise of a release."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from pate.array_types import IntArray
from pate.mechanisms.noise.discrete_gaussian import LARGEST_VARIANCE, DiscreteGaussian
from pate.mechanisms.parameters import COUNT, NATURAL, POSITIVE, Parameters
from pate.validation import require

# The smallest standard deviation of a share, in steps. A sum of shares then differs from one draw by less than
# 10**-270.
_MIN_SHARE_STD = 8.0
# Relative bounds on the rounding error of a few operations, with much room.
_UP = 1 + 2.0**-46
_DOWN = 1 - 2.0**-46


@dataclass(frozen=True, kw_only=True)
class NoiseShares(Parameters):
    """Shares of discrete Gaussian noise; any `num_counted` together have at least the standard deviation `noise_std`.

    Formal guarantee: let one change move D counts by at most s votes in l2, and let at least
    `num_holders - max_dropouts` holders add their share to each count. Then the noisy counts are
    (s**2 / (2 variance))-zCDP, except with probability `failure_prob(D)`. This holds against anybody who knows the
    noisy counts, even if up to `max_colluders` of these holders disclose their share or add none. One vote is divided
    into `steps` steps, so that a share has a large variance in steps.
    Source: Kairouz, Liu & Steinke 2021; docs/proofs/distributed_noise.md.

    >>> shares = NoiseShares(noise_std=50.0, num_holders=40, max_dropouts=4, max_colluders=4)
    >>> shares.num_counted, shares.steps, shares.share.variance
    (32, 1, 79)
    """

    noise_std: float = field(metadata=POSITIVE)  # of the counted shares together, in votes, > 0
    num_holders: int = field(metadata=COUNT)  # the number of holders that draw a share, n >= 1
    max_dropouts: int = field(default=0, metadata=NATURAL)  # the most absent holders, d
    # the most other holders that disclose their share, or draw none, c
    max_colluders: int = field(default=0, metadata=NATURAL)

    def __post_init__(self) -> None:
        super().__post_init__()
        lost = self.max_dropouts + self.max_colluders
        rule = f"more than max_dropouts + max_colluders = {lost}"
        require(self.num_holders > lost, "num_holders", self.num_holders, rule)

    @property
    def num_counted(self) -> int:
        """The number of shares that the price counts on, num_holders - max_dropouts - max_colluders."""
        return self.num_holders - self.max_dropouts - self.max_colluders

    @cached_property
    def steps(self) -> int:
        """The number of steps of the noise's grid in one vote, a power of two."""
        num_counted_shares = self.num_counted
        share_std = self.noise_std / math.sqrt(num_counted_shares)
        return 1 << max(0, math.ceil(math.log2(_MIN_SHARE_STD / share_std)))

    @cached_property
    def share_variance(self) -> int:
        """The variance of one share in squared steps, a whole number, rounded up."""
        num_counted_shares = self.num_counted
        return math.ceil(Fraction(self.noise_std) ** 2 * self.steps**2 / num_counted_shares)

    @property
    def share(self) -> DiscreteGaussian:
        """The noise that a holder adds to each of its counts, in steps.

        Raises `InvalidValue` if this noise has too large a variance to be drawn.
        """
        num_counted_shares = self.num_counted
        rule = f"at most {4096 * math.isqrt(num_counted_shares)}: a share is drawn up to a standard deviation of 4096"
        require(self.share_variance <= LARGEST_VARIANCE, "noise_std", self.noise_std, rule)
        return DiscreteGaussian(self.share_variance)

    def drawn_together(self, shape: tuple[int, ...], rng: np.random.Generator) -> IntArray:
        """Returns noise with the variance of all `num_holders` shares together, in steps, drawn at one place.

        Args:
            shape: the shape of the noise.
            rng: the source of the noise.
        """
        # The law of a sum of k shares is nearly that of one draw of k times the variance
        # (docs/proofs/distributed_noise.md). So as many shares as possible are drawn as one.
        shares_at_once = LARGEST_VARIANCE // self.share.variance
        num_full_draws, num_shares_left = divmod(self.num_holders, shares_at_once)
        noise = np.zeros(shape, dtype=np.int64)
        share_counts = [shares_at_once] * num_full_draws
        if num_shares_left > 0:
            share_counts.append(num_shares_left)
        for num_shares in share_counts:
            noise += DiscreteGaussian(num_shares * self.share_variance).sample(shape, rng)
        return noise

    @property
    def variance(self) -> float:
        """The variance of `num_counted` shares together, in squared votes, rounded down."""
        return self.num_counted * self.share_variance / self.steps**2 * _DOWN

    def failure_prob(self, num_counts: int) -> float:
        """Returns an upper bound f on the probability that the summed noise behaves unlike one discrete Gaussian.

        The law of the sum on `num_counts` counts contains the law of independent discrete Gaussians with a weight of at
        least 1 - f. The price takes f from delta.
        """
        # a sum of shares has a part of at least 1 minus this of the law of one draw (docs/proofs/distributed_noise.md)
        exponents = (
            2 * math.pi**2 * self.share_variance * k / (k + 1) for k in range(1, self.num_counted)
        )
        waves = (math.exp(-min(exponent * _DOWN, 700.0)) for exponent in exponents)
        spread = math.fsum(
            math.atanh(min(2 * wave / (1 - wave) * _UP, 1 - 2.0**-53)) for wave in waves
        )
        return -math.expm1(-2 * num_counts * spread * _UP) * _UP
