"""DP-GD, a competitor of `pate-compare`: full-batch gradient descent with noise in every step."""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from pate.comparison.alternatives.alternative import TrainingData, linear_model
from pate.comparison.alternatives.full_batch import FullBatch, Multipliers
from pate.comparison.alternatives.group_gradients import GroupGradients
from pate.comparison.alternatives.noisy_gradient import NoisyClippedSum
from pate.comparison.alternatives.noisy_model import NoisyModel
from pate.run.random_streams import RandomStreams


@dataclass(frozen=True, kw_only=True)
class DpGradientDescent(FullBatch):
    """Gradient descent whose every step uses the noisy sum of the gradients of all groups.

    Rule: the noisy prevalence of the labels (`Prevalence`) becomes the bias. `Schedule.best` then chooses features,
    learning time and number of steps. In each step the mean gradient of every group is clipped. The sum of all groups
    is released with noise and divided by the number of groups, and the weights of each label move by its learning rate.
    Predicted probabilities are shrunk to account for the noise in the weights. The threshold of predictions has the
    best expected micro-F1 on the public pool.

    Formal guarantees:
        * If one group is replaced, each sum moves by at most two clips. All steps together with the prevalence cost one
          Gaussian event. A step depends on the data only through the releases of earlier steps. The number of steps
          depends on the released prevalence, but the price does not.

    Source: Song, Chaudhuri & Sarwate 2013; Tramèr & Boneh 2021 for public features; docs/proofs/alternatives.md.
    """

    def train_model(
        self, noise_multiplier: float, training_data: TrainingData, *, seed: int
    ) -> NoisyModel:
        """Returns a linear model that learns by gradient descent with noisy sums of the gradients of all groups.

        The prevalence is released first, and the number of steps follows from it. All releases together cost one
        Gaussian event of `noise_multiplier`.
        """
        prevalence_rng, rng_after_prevalence = RandomStreams(seed).generator("noise").spawn(2)
        noise_multipliers = Multipliers.of_training(noise_multiplier)
        private_split = training_data.bench.dataset.private
        num_groups = training_data.num_groups
        released_shares = training_data.release_shares(
            noise_multipliers.prevalence, rng=prevalence_rng
        )
        schedule = self.schedule(training_data, noise_multiplier, released_shares=released_shares)
        private_features = training_data.public_feature_map.features(
            private_split.inputs, ridge=schedule.ridge
        )
        group_gradients = GroupGradients.from_records(
            private_features,
            private_split.labels,
            private_split.group_ids,
            known=private_split.known,
        )
        clip = self.gradient_clip(released_shares)
        bias = scipy.special.logit(released_shares.prevalence)
        # The values 1 / multiplier^2 of all steps add up to that of the steps together.
        multiplier_of_one_step = noise_multipliers.steps * math.sqrt(schedule.num_steps)
        noisy_gradient = NoisyClippedSum(
            clip=clip,
            noise_per_sensitivity=multiplier_of_one_step,
            max_units=num_groups,
        )
        model_weights = np.zeros((private_features.shape[1], len(bias)))
        learning_rate_of_labels = schedule.label_learning_times / schedule.num_steps
        known_shares = released_shares.known_shares
        if known_shares is not None:
            # The mean gradient is over the records that know a label.
            learning_rate_of_labels = learning_rate_of_labels / known_shares
        for _ in range(schedule.num_steps):
            gradient_sum = group_gradients.clipped_sum(
                model_weights=model_weights, bias=bias, clip=clip
            )
            noisy_sum = noisy_gradient.release(gradient_sum, rng=rng_after_prevalence)
            model_weights += learning_rate_of_labels * noisy_sum / num_groups
        return linear_model(
            training_data, schedule=schedule, model_weights=model_weights, bias=bias
        )
