"""The release of a sum of clipped gradients with whole-number Gaussian noise."""

import math
from dataclasses import dataclass

import numpy as np

from pate.comparison.alternatives.group_gradients import (
    FEW_RECORDS,
    MOST_CANCELED,
    ROWS_AT_ONCE,
    Array,
)
from pate.mechanisms.noise.whole_numbers import RoundedGaussian

_FLOAT = 2.0**-20  # relative, of a length
_FINENESS = 2.0**-20  # of the clip: what rounding all entries is worth
_UNIT = 2.0**-52


@dataclass(frozen=True)
class NoisyGradient:
    """The release of a sum of contributions, each at most `clip` long, with rounded Gaussian noise.

    Formal guarantees:
        * A unit moves the sum by at most a clip in l2, and by two clips where another unit replaces it. The sensitivity
          includes the errors of floats and of the grid. So the noise, drawn exactly in whole steps, costs
          `GaussianEvent(noise_multiplier)`, and `SampledGaussianEvent(noise_multiplier, …)` where units are sampled.
    """

    clip: float  # the greatest l2 length of a unit's contribution, > 0
    noise_multiplier: float  # noise std over sensitivity, > 0
    num_units: int  # N, public: the largest number of contributions

    def step(self, size: int) -> float:
        """Returns the spacing of the grid for that many entries, a power of 2."""
        return float(2.0 ** math.floor(math.log2(self.clip * _FINENESS / math.sqrt(size))))

    def sensitivity(self, size: int) -> float:
        """Returns the l2 distance, in steps, that replacing a unit moves the rounded sum.

        It is twice the distance that a unit moves which comes or goes.
        """
        # A unit that comes or goes moves the sum by a clip, and rounding either sum moves each entry by half a step:
        # that is sqrt(size) steps in all. Another unit in its place moves it as far again. `floats` bounds what adding
        # in double precision errs (docs/proofs/alternatives.md).
        of_few = MOST_CANCELED * (ROWS_AT_ONCE + FEW_RECORDS * self.num_units / ROWS_AT_ONCE)
        floats = 2 * _UNIT * (self.num_units + 8 + of_few) * self.num_units * max(self.clip, 1.0)
        return 2 * ((self.clip * (1 + _FLOAT) + floats) / self.step(size) + math.sqrt(size))

    def release(self, total: Array, rng: np.random.Generator) -> Array:
        """Returns the sum with noise, of the same shape."""
        step = self.step(total.size)
        noise = RoundedGaussian(self.noise_multiplier * self.sensitivity(total.size)).sample(
            total.shape, rng
        )
        return np.asarray((np.rint(total / step) + noise) * step)
