"""The release of a sum of clipped gradients with rounded Gaussian noise."""

import math
from dataclasses import dataclass

import numpy as np

from pate.array_types import FloatArray
from pate.comparison.alternatives.group_gradients import FEW_RECORDS, MOST_CANCELED, ROWS_AT_ONCE
from pate.mechanisms.noise.rounded_gaussian import RoundedGaussian

# The relative rounding error of the length of a clipped contribution.
_FLOAT = 2.0**-20
# The largest rounding error of all entries together, as a share of the clip.
_FINENESS = 2.0**-20
# The spacing of doubles at 1.
_UNIT = 2.0**-52


@dataclass(frozen=True)
class NoisyGradient:
    """A mechanism that releases the sum of contributions of units (groups or records) with rounded Gaussian noise.

    Formal guarantees:
        * An added or removed unit moves the sum by at most one clip in l2 norm, a replaced unit by at most two clips.
          The sensitivity includes the rounding errors of floats and of the grid. The noise is drawn exactly, in whole
          steps of the grid. So a release costs `GaussianEvent(noise_multiplier)`, or
          `SampledGaussianEvent(noise_multiplier, …)` if units are sampled.

    Attributes:
        clip: the largest l2 length of the contribution of a unit, > 0.
        noise_multiplier: the standard deviation of the noise divided by the sensitivity, > 0.
        num_units: the largest number of units N, public.
    """

    clip: float
    noise_multiplier: float
    num_units: int

    def step(self, num_entries: int) -> float:
        """Returns the spacing of the grid, a power of 2, for sums with `num_entries` entries."""
        return float(2.0 ** math.floor(math.log2(self.clip * _FINENESS / math.sqrt(num_entries))))

    def sensitivity(self, num_entries: int) -> float:
        """Returns the largest l2 distance, in steps, by which a replaced unit moves a rounded sum.

        The sum has `num_entries` entries. The distance is twice that of an added or removed unit.
        """
        # A unit that comes or goes moves the sum by a clip, and rounding either sum moves each entry by half a step:
        # that is sqrt(size) steps in all. Another unit in its place moves it as far again. `floats` bounds what adding
        # in double precision errs (docs/proofs/alternatives.md).
        of_few = MOST_CANCELED * (ROWS_AT_ONCE + FEW_RECORDS * self.num_units / ROWS_AT_ONCE)
        floats = 2 * _UNIT * (self.num_units + 8 + of_few) * self.num_units * max(self.clip, 1.0)
        return 2 * (
            (self.clip * (1 + _FLOAT) + floats) / self.step(num_entries) + math.sqrt(num_entries)
        )

    def release(self, gradient_sum: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Returns the sum, rounded to the grid, plus noise, in the shape of `gradient_sum`."""
        step = self.step(gradient_sum.size)
        noise_std = self.noise_multiplier * self.sensitivity(gradient_sum.size)
        noise = RoundedGaussian(noise_std).sample(gradient_sum.shape, rng)
        return np.asarray((np.rint(gradient_sum / step) + noise) * step)
