"""The release of a sum of clipped gradients with rounded Gaussian noise."""

import math
from dataclasses import dataclass

import numpy as np

from pate.array_types import FloatArray
from pate.comparison.alternatives.group_gradients import FEW_RECORDS, MAX_CANCELLATION, ROWS_AT_ONCE
from pate.mechanisms.noise.rounded_gaussian import RoundedGaussian

# A bound on the relative rounding error of the l2 length of a clipped contribution.
_LENGTH_ERROR = 2.0**-20
# The largest l2 length of the spacings of all entries of a sum on the grid, as a share of the clip.
_GRID_SHARE = 2.0**-20
# The spacing of doubles at 1.
_DOUBLE_SPACING = 2.0**-52


@dataclass(frozen=True)
class NoisyClippedSum:
    """A mechanism that releases the sum of contributions of units (groups or records) with rounded Gaussian noise.

    Formal guarantees:
        * An added or removed unit moves the sum by at most one clip in l2 norm, a replaced unit by at most two clips.
          The sensitivity includes the rounding errors of floats and of the grid. The noise is drawn exactly, in whole
          steps of the grid. So a release costs `GaussianEvent(noise_per_sensitivity)`, or
          `SampledGaussianEvent(noise_per_sensitivity, …)` if units are sampled.

    Attributes:
        clip: the largest l2 length of the contribution of a unit, > 0.
        noise_per_sensitivity: the standard deviation of the noise divided by the sensitivity to a replaced unit, > 0.
        max_units: the largest number of units N, public.
    """

    clip: float
    noise_per_sensitivity: float
    max_units: int

    def grid_step(self, num_entries: int) -> float:
        """Returns the spacing of the grid to which sums with `num_entries` entries are rounded, a power of 2."""
        return float(2.0 ** math.floor(math.log2(self.clip * _GRID_SHARE / math.sqrt(num_entries))))

    def sensitivity_in_steps(self, num_entries: int) -> float:
        """Returns the largest l2 distance, in steps of the grid, by which a replaced unit moves a rounded sum.

        The sum has `num_entries` entries. The distance is twice that of an added or removed unit.
        """
        # An added or removed unit moves the sum by at most one clip. Rounding moves each entry of the sums with and
        # without the unit by half a step, which is sqrt(num_entries) steps in all. A replaced unit moves the sum twice
        # as far. The bound on errors of sums in double precision is derived in docs/proofs/alternatives.md.
        num_terms_of_few = MAX_CANCELLATION * (
            ROWS_AT_ONCE + FEW_RECORDS * self.max_units / ROWS_AT_ONCE
        )
        num_terms = self.max_units + 8 + num_terms_of_few
        max_contribution_length = max(self.clip, 1.0)  # of a unit, taken as at least 1
        float_error = 2 * _DOUBLE_SPACING * num_terms * self.max_units * max_contribution_length
        max_distance = self.clip * (1 + _LENGTH_ERROR) + float_error
        return 2 * (max_distance / self.grid_step(num_entries=num_entries) + math.sqrt(num_entries))

    def release(self, gradient_sum: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Returns a sum that is rounded to the grid, plus noise.

        Args:
            gradient_sum: the sum of the clipped contributions of all units, of any shape.
            rng: draws the noise.
        """
        grid_step = self.grid_step(num_entries=gradient_sum.size)
        noise_std_in_steps = self.noise_per_sensitivity * self.sensitivity_in_steps(
            num_entries=gradient_sum.size
        )
        noise_in_steps = RoundedGaussian(std=noise_std_in_steps).sample(gradient_sum.shape, rng=rng)
        return np.asarray((np.rint(gradient_sum / grid_step) + noise_in_steps) * grid_step)
