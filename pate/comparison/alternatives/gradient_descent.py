"""Full-batch gradient descent with noise, on a linear logistic model of public features."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from pate.accounting import Event
from pate.comparison.alternatives.alternative import (
    PREVALENCE_SHARE,
    Alternative,
    Training,
    composed,
    generators,
    prevalence_of,
)
from pate.comparison.alternatives.group_gradients import GroupGradients, NoisySum
from pate.comparison.alternatives.noisy_model import NoisyModel, expected_f1_threshold
from pate.comparison.alternatives.public_features import PublicDirections

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class DpGradientDescent(Alternative):
    """Gradient descent on all groups in every step: nothing is sampled, so the price is exactly a Gaussian's.

    Rule: the prevalence of the labels is released (`Prevalence`) and becomes the bias. `LearningRule` then chooses
    features, learning time and number of steps. In each step every group's mean gradient, clipped to a length, is
    summed, released with noise, divided by the number of groups, and the weights of each label move by its rate.
    Probabilities are shrunk by the noise that is known to be in them; the threshold is that of the best micro-F1 to be
    expected on the public pool.

    Formal guarantees:
        * One group replaced moves each sum by at most two clips: steps of equal noise, together one Gaussian event
          with the prevalence's. Later steps depend on the data through what was released alone. The number of steps is
          a function of the released prevalence; their price is not.

    Source: Song, Chaudhuri & Sarwate 2013; Tramèr & Boneh 2021 for public features; docs/proofs/alternatives.md.
    """

    @property
    def model_kind(self) -> str:
        """See `Alternative.model_kind`."""
        return "linear"

    def event_for(self, noise_multiplier: float, *, num_groups: int) -> Event:
        """See `Alternative.event_for`: one Gaussian event, whatever the numbers of groups and steps."""
        return composed(*_multipliers(noise_multiplier))

    def rate(self, noise_multiplier: float, *, clip: float, num_groups: int) -> float:
        """See `Alternative.rate`."""
        return (2 * clip * _multipliers(noise_multiplier)[1] / num_groups) ** 2

    def trained(self, noise_multiplier: float, training: Training, *, seed: int) -> NoisyModel:
        """See `Alternative.trained`."""
        for_prevalence, for_steps = generators(seed)
        of_prevalence, of_steps = _multipliers(noise_multiplier)
        private = training.bench.dataset.private
        total = training.num_groups
        unplaced = GroupGradients.of(np.zeros((len(private), 1)), private.labels, private.group_ids)
        prevalence = prevalence_of(unplaced.label_shares(), of_prevalence, for_prevalence)
        schedule = training.schedule(self, noise_multiplier, prevalence)
        features = training.directions.features(private.inputs, ridge=schedule.ridge)
        groups = GroupGradients.of(features, private.labels, private.group_ids)
        clip, bias = self.rule.clip(prevalence), scipy.special.logit(prevalence)
        noisy = NoisySum(clip, of_steps * math.sqrt(schedule.num_steps), total)
        weights = np.zeros((features.shape[1], len(bias)))
        for _ in range(schedule.num_steps):
            gradient = noisy.release(groups.clipped_sum(weights, bias, clip), for_steps)
            weights += schedule.times / schedule.num_steps * gradient / total
        return linear_model(training, schedule.ridge, weights, bias, schedule.noise_variance)


def linear_model(training: Training, ridge: float, weights: Array, bias: Array, noise_variance: Array) -> NoisyModel:
    """A model of public features, with its threshold placed on the public pool."""
    log_odds = partial(_log_odds, training.directions, ridge, weights, bias)
    model = NoisyModel(log_odds, bias, noise_variance)
    return replace(model, threshold=expected_f1_threshold(model.predict_proba(training.public_inputs)))


def _log_odds(directions: PublicDirections, ridge: float, weights: Array, bias: Array, inputs: Any) -> Array:
    return np.asarray(directions.features(inputs, ridge=ridge) @ weights + bias)


def _multipliers(noise_multiplier: float) -> tuple[float, float]:
    """Of the prevalence and of all steps together."""
    return noise_multiplier / math.sqrt(PREVALENCE_SHARE), noise_multiplier / math.sqrt(1 - PREVALENCE_SHARE)
