"""Discrete Laplace noise, drawn exactly with whole numbers, so that no rounding error reveals anything about a sum.

docs/proofs/floats.md.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from pate.array_types import BoolArray, FloatArray, IntArray
from pate.mechanisms.noise.rejection import draw_by_rejection
from pate.validation import require, require_generator, require_positive

# Rates are multiples of 1 / _STEPS_PER_UNIT_OF_RATE, so that the numbers of a draw fit into 64 bits.
_STEPS_PER_UNIT_OF_RATE = 2**32
_LARGEST_RATE = 2**16


@dataclass(frozen=True)
class DiscreteLaplace:
    """Discrete Laplace noise: whole numbers z with a probability proportional to exp(-rate |z|).

    Formal guarantee: let a whole number move by at most s between neighboring data sets. Then the number plus z is
    (s rate)-DP, for any adjacency. Nothing is rounded, because the sampler computes with whole numbers alone.

    Attributes:
        rate: the rate, a multiple of 2**-32 in (0, 2**16].

    Source: Canonne, Kamath & Steinke 2020, Algorithms 1 and 2.

    >>> noise = DiscreteLaplace.at_most(0.5)
    >>> noise.sample((4,), np.random.default_rng(0)).tolist()
    [-1, 2, -2, 1]
    """

    rate: Fraction

    def __post_init__(self) -> None:
        is_multiple = (
            isinstance(self.rate, Fraction) and _STEPS_PER_UNIT_OF_RATE % self.rate.denominator == 0
        )
        is_valid = is_multiple and 0 < self.rate <= _LARGEST_RATE
        require(is_valid, "rate", self.rate, "a multiple of 2**-32 in (0, 2**16]")

    @classmethod
    def at_most(cls, rate: float | Fraction) -> Self:
        """Returns the noise whose rate is the largest multiple of 2**-32 that is at most `rate`."""
        require_positive("rate", float(rate))
        num_steps = math.floor(Fraction(rate) * _STEPS_PER_UNIT_OF_RATE)
        is_in_range = 0 < num_steps <= _LARGEST_RATE * _STEPS_PER_UNIT_OF_RATE
        require(is_in_range, "rate", float(rate), "a number in [2**-32, 2**16]")
        return cls(rate=Fraction(num_steps, _STEPS_PER_UNIT_OF_RATE))

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> IntArray:
        """Draws an array of independent discrete Laplace noise, exactly."""
        require_generator(rng)

        return draw_by_rejection(shape, draw_candidates=partial(self._draw_candidates, rng=rng))

    def _draw_candidates(
        self, num_candidates: int, rng: np.random.Generator
    ) -> tuple[IntArray, BoolArray]:
        """Draws n candidates of the noise, `[n]`, and bits `[n]`: True where rejection sampling accepts one."""
        # With rate = numerator / denominator, a geometric variable in steps of 1 / denominator is the sum of a whole
        # part and a fraction. Its quotient by the numerator is |z|.
        denominator = self.rate.denominator
        fractions = rng.integers(0, denominator, size=num_candidates)
        accepted = toss_exponential_coins(numerators=fractions, denominator=denominator, rng=rng)
        whole_parts = _draw_geometric(num_candidates, rng=rng)
        magnitudes = (fractions + denominator * whole_parts) // self.rate.numerator
        is_negative = rng.integers(0, 2, size=num_candidates) == 1
        # The number 0 counts with one of its two signs alone.
        is_negative_zero = is_negative & (magnitudes == 0)
        return np.where(is_negative, -magnitudes, magnitudes), accepted & ~is_negative_zero

    def mass(self, values: ArrayLike) -> FloatArray:
        """Returns P(z = value) for each value."""
        # The weights exp(-r |z|) sum to (1 + exp(-r)) / (1 - exp(-r)) = 1 / tanh(r / 2).
        decay_rate = float(self.rate)
        return np.asarray(np.tanh(decay_rate / 2) * np.exp(-decay_rate * np.abs(values)))

    def tail(self, values: ArrayLike) -> FloatArray:
        """Returns P(z >= value) for each value. Small probabilities are as accurate as those near 1."""
        float_values = np.asarray(values, dtype=np.float64)
        decay_rate = float(self.rate)
        # For a value v > 0 the tail is tanh(r / 2) exp(-r v) / (1 - exp(-r)) = exp(-r v) / (1 + exp(-r)).
        factor = 1 / (1 + math.exp(-decay_rate))
        tail_above_0 = factor * np.exp(-decay_rate * np.maximum(float_values, 0))
        # By symmetry P(z < v) = P(z >= 1 - v), which is small for v <= 0.
        rest_up_to_0 = factor * np.exp(-decay_rate * (1 - np.minimum(float_values, 1)))
        return np.asarray(np.where(float_values > 0, tail_above_0, 1 - rest_up_to_0))


def _draw_geometric(num_values: int, rng: np.random.Generator) -> IntArray:
    """Draws n geometric numbers m with P(m >= j) = exp(-j), exactly: `[n]`."""
    # A number counts the coins of probability exp(-1) that show True before one does not.
    geometric_numbers = np.zeros(num_values, dtype=np.int64)
    running_indices = np.arange(num_values)
    while running_indices.size:
        ones = np.ones(running_indices.size, dtype=np.int64)
        running_indices = running_indices[
            toss_exponential_coins(numerators=ones, denominator=1, rng=rng)
        ]
        geometric_numbers[running_indices] += 1
    return geometric_numbers


def toss_exponential_coins(
    numerators: IntArray, denominator: int, rng: np.random.Generator
) -> BoolArray:
    """Tosses n coins, which show True with probability exp(-numerator / denominator), exactly; returns bits `[n]`.

    Args:
        numerators: whole numbers in 0..denominator, `[n]`.
        denominator: a whole number >= 1.
        rng: draws the coins.
    """
    # Round r = 1, 2, … goes on with probability numerator / (r denominator). The first round that does not go on is odd
    # with probability exp(-numerator / denominator).
    coins = np.zeros(len(numerators), dtype=bool)
    running_indices = np.arange(len(numerators))
    round_number = 1
    while running_indices.size:
        drawn_numbers = rng.integers(0, round_number * denominator, size=running_indices.size)
        goes_on = drawn_numbers < numerators[running_indices]
        coins[running_indices[~goes_on]] = round_number % 2 == 1
        running_indices = running_indices[goes_on]
        round_number += 1
    return coins
