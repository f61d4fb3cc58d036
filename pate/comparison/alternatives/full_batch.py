"""The base class of alternatives whose every step sums over all groups, at the price of one Gaussian."""

from abc import ABC
from dataclasses import dataclass
from math import sqrt

from pate.accounting import Event, GaussianEvent
from pate.aggregators.prevalence import Prevalence
from pate.comparison.alternatives.alternative import PREVALENCE_SHARE, Alternative


@dataclass(frozen=True)
class Multipliers:
    """The noise multipliers of the two parts of a training, which together cost one Gaussian.

    Attributes:
        prevalence: the noise multiplier of the prevalence.
        steps: the noise multiplier of all that is released after the prevalence, together.
    """

    prevalence: float
    steps: float

    @classmethod
    def of_training(cls, noise_multiplier: float) -> "Multipliers":
        """Returns the multipliers of the parts of a training with a noise multiplier."""
        # Gaussians compose by 1 / m^2: a share s of 1 / m^2 is the prevalence's, the rest the steps'.
        return cls(
            prevalence=noise_multiplier / sqrt(PREVALENCE_SHARE),
            steps=noise_multiplier / sqrt(1 - PREVALENCE_SHARE),
        )


@dataclass(frozen=True, kw_only=True)
class FullBatch(Alternative, ABC):
    """The base class of alternatives whose every step sums over all groups.

    Formal guarantee: no groups are sampled, so the price is exactly that of a Gaussian mechanism.
    """

    def event_for(self, noise_multiplier: float, *, num_groups: int) -> Event:
        """Returns the price of the whole training, one Gaussian event; it does not depend on the number of groups."""
        multipliers = Multipliers.of_training(noise_multiplier)
        prevalence = Prevalence(noise_multiplier=multipliers.prevalence).event
        return GaussianEvent.composed([prevalence.noise_multiplier, multipliers.steps])

    def rate(self, noise_multiplier: float, *, clip: float, num_groups: int) -> float:
        """Returns the variance of the noise in an entry of a mean gradient, divided by the number of steps."""
        # The sensitivity of a sum is two clips, and the mean is over all groups.
        steps_multiplier = Multipliers.of_training(noise_multiplier).steps
        return (2 * clip * steps_multiplier / num_groups) ** 2
