"""Discrete Gaussian noise, drawn exactly, so that no rounding error reveals anything about a sum.

docs/proofs/floats.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from pate.array_types import FloatArray, IntArray
from pate.mechanisms.noise.lazy_uniforms import LazyUniforms
from pate.mechanisms.noise.weighted_index import Interval, exponential_encloser, index_of
from pate.mechanisms.parameters import COUNT, Parameters
from pate.validation import InvalidValue, require_generator

# Up to this variance the table of a draw (`_cumulated_probs`) has fewer than 2**17 entries.
LARGEST_VARIANCE = 2**24
# The number of values that are drawn at a time, so that working copies stay small.
_BLOCK_SIZE = 2**17
# Weights in the table are whole multiples of 1 / _TABLE_UNIT, whose sums fit into 64 bits.
_TABLE_UNIT = 2.0**48
# The table ends at so many standard deviations. Numbers beyond are decided like those near an edge.
_TABLE_STDS = 9.5
# A uniform number this close to an edge of the table is compared exactly. Rounded weights put an edge off by less than
# 2**-45.
_TABLE_MARGIN = 2.0**-43
# A bound above log(10).
_LOG_10_UP = 2.31


@dataclass(frozen=True)
class DiscreteGaussian(Parameters):
    """Discrete Gaussian noise: whole numbers z with a probability proportional to exp(-z**2 / (2 variance)).

    Draws are exact.

    Formal guarantee: let a vector of whole numbers move by at most s in l2 norm between neighboring data sets. The
    vector with independent noise on every entry costs s**2 / (2 variance) zCDP.

    Attributes:
        variance: the variance in the exponent, a whole number in 1..2**24. The variance of the noise is at most this.

    Source: Canonne, Kamath & Steinke 2020; docs/proofs/distributed_noise.md.

    >>> DiscreteGaussian(100).sample((5,), np.random.default_rng(0)).tolist()
    [-9, -3, 1, 0, -13]
    """

    variance: int = field(metadata=COUNT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variance > LARGEST_VARIANCE:
            rule = f"at most 2**24 = {LARGEST_VARIANCE}"
            raise InvalidValue("variance", self.variance, rule=rule)

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> IntArray:
        """Draws an array of independent discrete Gaussian noise, exactly."""
        require_generator(rng)
        flat_noise = np.empty(math.prod(shape), dtype=np.int64)
        for start in range(0, len(flat_noise), _BLOCK_SIZE):
            noise_block = flat_noise[start : start + _BLOCK_SIZE]
            noise_block[:] = self._quantiles(LazyUniforms.draw(shape=noise_block.shape, rng=rng))
        return flat_noise.reshape(shape)

    def mass(self, values: ArrayLike) -> FloatArray:
        """Returns P(z = value) for each value."""
        # Weights beyond 40 standard deviations are 0 as floats: exp(-40**2 / 2) < 10**-347.
        total_weight = 2 * math.fsum(_weights(self.variance, num_stds=40.0)) - 1
        squares = np.square(np.asarray(values, dtype=np.float64))
        return np.asarray(np.exp(-squares / (2 * self.variance)) / total_weight)

    def _quantiles(self, lazy_uniforms: LazyUniforms) -> IntArray:
        """Returns the noise for each uniform number u.

        The noise is the first z of 0, 1, -1, 2, -2, … at which the weights exp(-z**2 / (2 variance)) so far add up to
        more than u times the total weight.
        """
        cumulated_probs = _cumulated_probs(self.variance)
        u = lazy_uniforms.approximate()
        places = np.searchsorted(cumulated_probs, u, side="right") - 1
        # u is below 1, the last entry, so each place has a next one.
        is_near_edge = (u - cumulated_probs[places] <= _TABLE_MARGIN) | (
            cumulated_probs[places + 1] - u <= _TABLE_MARGIN
        )
        for index in np.flatnonzero(is_near_edge).tolist():
            places[index] = index_of(
                lazy_uniforms.entry((index,)), enclose_weights=self._enclose_weights
            )
        signs = np.where(places % 2 == 1, 1, -1)
        return signs * ((places + 1) // 2)

    def _enclose_weights(self, decimal_digits: int) -> Sequence[Interval]:
        """Returns an interval of whole numbers around the weight exp(-z**2 / (2 variance)) of z = 0, 1, -1, 2, -2, ….

        All weights are multiplied by one factor. The last interval encloses the total weight of all further z, which
        are left out.

        Args:
            decimal_digits: the number of decimal digits to which the weights are known.
        """
        # For the variance v and the largest z, the weights left out sum to at most 2 v / z exp(-z**2 / (2 v)). This is
        # less than 2 v 10**-num_digits, and so less than the unit 10**-decimal_digits.
        num_digits = decimal_digits + len(str(2 * self.variance))
        largest_z = math.isqrt(math.ceil(2 * self.variance * _LOG_10_UP * num_digits)) + 1
        exponents = [Fraction(z * z, 2 * self.variance) for z in range(largest_z + 1)]
        weight_intervals = exponential_encloser(exponents)(decimal_digits)
        both_signs = [interval for interval in weight_intervals[1:] for _ in range(2)]
        return [weight_intervals[0], *both_signs, (0, 1)]


def _weights(variance: int, num_stds: float) -> FloatArray:
    """Returns the weight exp(-z**2 / (2 variance)) for z = 0, 1, 2, … up to at least `num_stds` sqrt(variance)."""
    z = np.arange(math.ceil(num_stds * math.sqrt(variance)) + 2.0)
    return np.asarray(np.exp(-(z**2) / (2 * variance)))


# Each block of a large array of noise reads the same edges.
@lru_cache(maxsize=8)
def _cumulated_probs(variance: int) -> FloatArray:
    """Returns -1, and then P(z is among the first j of 0, 1, -1, 2, -2, …) for j = 1, 2, …, in rising order.

    A uniform number u is compared with these edges. -1 stands in place of 0: no value of z lies below the edge at 0, so
    a u near 0 needs no exact comparison.
    """
    grid_weights = np.rint(_weights(variance, num_stds=_TABLE_STDS) * _TABLE_UNIT).astype(np.int64)
    cumulated_weights = np.cumsum(
        np.concatenate([grid_weights[:1], np.repeat(grid_weights[1:], 2)])
    )
    return np.concatenate([[-1.0], cumulated_weights / cumulated_weights[-1]])
