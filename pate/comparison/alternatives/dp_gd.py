"""DP-GD: gradient descent with noise on all groups in every step."""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from pate.accounting import (
    Event,
    GaussianEvent,
)
from pate.aggregators.prevalence import Prevalence
from pate.comparison.alternatives.alternative import (
    PREVALENCE_SHARE,
    Alternative,
    Training,
    linear_model,
)
from pate.comparison.alternatives.group_gradients import GroupGradients
from pate.comparison.alternatives.noisy_gradient import NoisyGradient
from pate.comparison.alternatives.noisy_model import NoisyModel
from pate.run.random_streams import RandomStreams


@dataclass(frozen=True, kw_only=True)
class DpGradientDescent(Alternative):
    """A method of gradient descent with noise on all groups in every step.

    Nothing is sampled, so the price is exactly that of a Gaussian.

    Rule: the prevalence of the labels is released (`Prevalence`) and becomes the bias. `Schedule.best` then chooses
    features, learning time and number of steps. In each step every group's mean gradient, clipped to a length, is
    summed, released with noise, divided by the number of groups, and the weights of each label move by its rate.
    Probabilities are shrunk by the noise that is known to be in them; the threshold is that of the best micro-F1 to be
    expected on the public pool.

    Formal guarantees:
        * One group replaced moves each sum by at most two clips: steps of equal noise, together one Gaussian event
          with the prevalence. Later steps depend on the data only through what earlier steps released. The number of
          steps is a function of the released prevalence; their price is not.

    Source: Song, Chaudhuri & Sarwate 2013; Tramèr & Boneh 2021 for public features; docs/proofs/alternatives.md.
    """

    def event_for(self, noise_multiplier: float, *, num_groups: int) -> Event:
        """Returns one Gaussian event, the same for all numbers of groups and steps."""
        of_prevalence, of_steps = _multipliers(noise_multiplier)
        prevalence = Prevalence(noise_multiplier=of_prevalence).event
        return GaussianEvent.composed([prevalence.noise_multiplier, of_steps])

    def rate(self, noise_multiplier: float, *, clip: float, num_groups: int) -> float:
        """See `Alternative.rate`."""
        # the sensitivity of a sum is two clips, and the mean is over all groups
        return (2 * clip * _multipliers(noise_multiplier)[1] / num_groups) ** 2

    def trained(self, noise_multiplier: float, training: Training, *, seed: int) -> NoisyModel:
        """Trains a linear model by noisy gradients of all groups."""
        for_prevalence, for_steps = RandomStreams(seed).generator("noise").spawn(2)
        of_prevalence, of_steps = _multipliers(noise_multiplier)
        private = training.bench.dataset.private
        total = training.num_groups
        prevalence = training.prevalence(of_prevalence, for_prevalence)
        schedule = self.schedule(training, noise_multiplier, prevalence)
        features = training.directions.features(private.inputs, ridge=schedule.ridge)
        groups = GroupGradients.from_records(features, private.labels, private.group_ids)
        clip = self.clip(prevalence)
        bias = scipy.special.logit(prevalence)
        noisy = NoisyGradient(clip, of_steps * math.sqrt(schedule.num_steps), total)
        weights = np.zeros((features.shape[1], len(bias)))
        for _ in range(schedule.num_steps):
            gradient = noisy.release(groups.clipped_sum(weights, bias, clip), for_steps)
            weights += schedule.times / schedule.num_steps * gradient / total
        return linear_model(training, schedule, weights, bias)


def _multipliers(noise_multiplier: float) -> tuple[float, float]:
    """Returns the noise multipliers of the prevalence and of all steps together."""
    # Gaussians compose by 1 / m^2: a share s of 1 / m^2 is the prevalence's, the rest the steps'.
    return noise_multiplier / math.sqrt(PREVALENCE_SHARE), noise_multiplier / math.sqrt(
        1 - PREVALENCE_SHARE
    )
