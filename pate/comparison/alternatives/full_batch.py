"""The base class of alternatives whose every step sums over all groups, at the price of one Gaussian."""

import math
from abc import ABC
from dataclasses import dataclass
from typing import Self

from pate.accounting import Event, GaussianEvent
from pate.aggregators.prevalence import Prevalence
from pate.comparison.alternatives.alternative import PREVALENCE_SHARE, Alternative


@dataclass(frozen=True)
class Multipliers:
    """The noise multipliers of the two parts of a training, the prevalence and the steps after it.

    The two parts together cost one Gaussian event.

    Attributes:
        prevalence: the noise multiplier of the prevalence.
        steps: the noise multiplier of all that is released after the prevalence, together.
    """

    prevalence: float
    steps: float

    @classmethod
    def of_training(cls, noise_multiplier: float) -> Self:
        """Returns the noise multipliers for the prevalence and for the steps, which together cost the whole training.

        Args:
            noise_multiplier: the noise multiplier of the whole training.
        """
        # The values 1 / multiplier^2 of Gaussian mechanisms add up. The prevalence gets a fixed share of the sum, and
        # the steps get the rest.
        return cls(
            prevalence=noise_multiplier / math.sqrt(PREVALENCE_SHARE),
            steps=noise_multiplier / math.sqrt(1 - PREVALENCE_SHARE),
        )


@dataclass(frozen=True, kw_only=True)
class FullBatch(Alternative, ABC):
    """The base class of alternatives whose every step sums over all groups.

    Formal guarantee: no groups are sampled, so the price is exactly that of a Gaussian mechanism.
    """

    def event_for(self, noise_multiplier: float, *, num_groups: int) -> Event:
        """Returns the price of the whole training, one Gaussian event; it does not depend on the number of groups."""
        noise_multipliers = Multipliers.of_training(noise_multiplier)
        prevalence_event = Prevalence(noise_multiplier=noise_multipliers.prevalence).event
        return GaussianEvent.composed([prevalence_event.noise_multiplier, noise_multipliers.steps])

    def noise_rate(self, noise_multiplier: float, *, clip: float, num_groups: int) -> float:
        """Returns the variance of the noise in an entry of a step's mean gradient, divided by the number of steps.

        The mean is over all groups.
        """
        # The sensitivity of a sum is two clips, and the mean is over all groups.
        multiplier_of_all_steps = Multipliers.of_training(noise_multiplier).steps
        return (2 * clip * multiplier_of_all_steps / num_groups) ** 2
