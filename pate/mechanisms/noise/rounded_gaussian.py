"""Rounded Gaussian noise, drawn exactly, so that no rounding error reveals anything about a sum.

docs/proofs/floats.md.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import numpy as np

from pate.array_types import BoolArray, FloatArray, IntArray
from pate.mechanisms.noise.enclosures import Bounds, exp_bounds, is_below
from pate.mechanisms.noise.lazy_uniforms import LazyUniform, Words, draw_words
from pate.mechanisms.noise.rejection import draw_by_rejection
from pate.mechanisms.parameters import POSITIVE, Parameters
from pate.validation import require, require_generator

# With a larger standard deviation too many draws would need more than 64 bits.
LARGEST_STD = 2.0**44
_WORD_UNIT = 2.0**-64
# A coin this close to its probability is compared exactly. The error of the probability in floats is below 2**-50.
_COIN_MARGIN = 2.0**-40
# Entry j - 1 is floor(exp(-j) 2**64). A uniform number whose first 64 bits are smaller is below exp(-j).
_EXP_TABLE = np.array(
    [math.floor(exp_bounds(-Fraction(j), decimal_digits=40)[0] * 2**64) for j in range(1, 45)],
    dtype=np.uint64,
)


@dataclass(frozen=True)
class RoundedGaussian(Parameters):
    """Gaussian noise that is rounded to the nearest whole number, drawn exactly.

    Formal guarantee: a vector of whole numbers plus this noise has the distribution of the vector plus continuous
    Gaussian noise, rounded afterwards. By post-processing it costs at most as much as continuous Gaussian noise.

    Attributes:
        std: the standard deviation of the noise before it is rounded, in (0, 2**44].

    Source: von Neumann 1951 for the comparison of lazily drawn bits, Karney 2016 for exact normal deviates;
    docs/proofs/centered_votes.md.

    >>> RoundedGaussian(10.0).sample((5,), np.random.default_rng(0)).tolist()
    [-6, 16, 1, -6, 13]
    """

    std: float = field(metadata=POSITIVE)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.std <= LARGEST_STD, "std", self.std, f"at most 2**44 = {LARGEST_STD:.0f}")

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> IntArray:
        """Draws an array of independent Gaussian noise, rounded to whole numbers, exactly."""
        require_generator(rng)

        def draw_candidates(num_candidates: int) -> tuple[IntArray, BoolArray]:
            uniform_words = draw_words(rng, shape=(4, num_candidates))
            magnitudes, accepted = self._candidates(uniform_words, rng)
            is_negative = (uniform_words[3] & np.uint64(1)) == 1
            return np.where(is_negative, -magnitudes, magnitudes), accepted

        return draw_by_rejection(shape, draw_candidates=draw_candidates)

    def _candidates(
        self, uniform_words: Words, rng: np.random.Generator
    ) -> tuple[IntArray, BoolArray]:
        """Returns n candidates for the absolute value of the noise, rounded to whole numbers.

        Args:
            uniform_words: uniform words of 64 bits, `[4, n]`, of which the first three rows are used.
            rng: draws further bits for the few candidates that three words do not decide.

        Returns:
            The whole numbers, `[n]`, and bits `[n]`: True for a candidate that rejection sampling accepts.
        """
        # A candidate is x = m + u with P(m) proportional to exp(-m) and u uniform. It is accepted with probability
        # exp(m - 1/2 - x**2 / 2), which makes x the absolute value of a standard normal number. Every comparison is
        # decided from an enclosure of both sides. Where 64 bits do not decide it, more bits are drawn and `decimal`
        # computes more digits.
        whole_parts, is_decided = _geometric_numbers(uniform_words[0])
        fractions = uniform_words[1] * _WORD_UNIT
        coins = uniform_words[2] * _WORD_UNIT
        log_acceptance_chances = (
            -0.5 * (whole_parts - 1.0) ** 2 - fractions * whole_parts - 0.5 * fractions**2
        )
        acceptance_chances = np.exp(log_acceptance_chances)
        accepted = coins < acceptance_chances
        is_decided &= np.abs(coins - acceptance_chances) > _COIN_MARGIN
        # The value is rounded down after 0.5 was added, so that it lies between the whole numbers on both sides.
        shifted_magnitudes = self.std * (whole_parts + fractions) + 0.5
        rounded_magnitudes = np.floor(shifted_magnitudes)
        distances = np.minimum(
            shifted_magnitudes - rounded_magnitudes, rounded_magnitudes + 1 - shifted_magnitudes
        )
        # Further bits of the fraction add less than std times a unit of the word.
        margins = 2.0**-48 * shifted_magnitudes + 2.0**-48 + 2 * (self.std * _WORD_UNIT)
        is_decided &= ~accepted | (distances > margins)
        magnitudes = rounded_magnitudes.astype(np.int64)
        for index in np.flatnonzero(~is_decided).tolist():
            first_words = [int(word) for word in uniform_words[:3, index]]
            magnitudes[index], accepted[index] = self._exact_candidate(first_words, rng)
        return magnitudes, accepted

    def _exact_candidate(
        self, first_words: list[int], rng: np.random.Generator
    ) -> tuple[int, bool]:
        """Returns one candidate for the absolute value of the noise, and whether rejection sampling accepts it.

        Rounding errors affect neither. The value of a rejected candidate is 0.

        Args:
            first_words: the three uniform words of 64 bits of the candidate, as in `_candidates`.
            rng: draws further bits.
        """
        whole_part_uniform, fraction_uniform, coin_uniform = (
            LazyUniform(first_word=word, rng=rng) for word in first_words
        )
        whole_part = 0
        while whole_part_uniform.below(partial(exp_bounds, Fraction(-whole_part - 1))):
            whole_part += 1

        def compute_chance_bounds() -> Bounds:
            low_end, high_end = (
                (whole_part + end_of_fraction) ** 2 / 2 + Fraction(1, 2) - whole_part
                for end_of_fraction in fraction_uniform.compute_bounds_so_far()
            )
            return (
                exp_bounds(-high_end, decimal_digits=fraction_uniform.decimal_digits_to_compare)[0],
                exp_bounds(-low_end, decimal_digits=fraction_uniform.decimal_digits_to_compare)[1],
            )

        is_accepted = is_below(
            coin_uniform.compute_bounds_so_far,
            compute_chance_bounds,
            refine_functions=[fraction_uniform.extend, coin_uniform.extend],
        )
        if not is_accepted:
            return 0, False
        while True:
            low_end, high_end = (
                math.floor(Fraction(self.std) * (whole_part + end_of_fraction) + Fraction(1, 2))
                for end_of_fraction in fraction_uniform.compute_bounds_so_far()
            )
            if low_end == high_end:
                return low_end, True
            fraction_uniform.extend()


def _geometric_numbers(uniform_words: Words) -> tuple[FloatArray, BoolArray]:
    """Returns geometric numbers m with P(m >= j) = exp(-j), one for each uniform word of 64 bits.

    Also returns bits: True for a number that the 64 bits of its word decide.
    """
    rising_exp_table = _EXP_TABLE[::-1]
    # The number of entries that are at most the word.
    num_entries_up_to_word = np.searchsorted(rising_exp_table, uniform_words, side="right")
    is_on_edge = (num_entries_up_to_word > 0) & (
        rising_exp_table[np.maximum(num_entries_up_to_word - 1, 0)] == uniform_words
    )
    numbers = (len(rising_exp_table) - num_entries_up_to_word).astype(np.float64)
    return numbers, ~is_on_edge & (uniform_words > 0)
