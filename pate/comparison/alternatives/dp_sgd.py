"""DP-SGD, a competitor of `pate-compare`: gradient descent with noise in every step, on randomly sampled groups.

A group holds all records of one unit of privacy. In each step every group is sampled with the same probability, and
independently of the others (Poisson sampling). One random record of each sampled group adds its clipped gradient to the
sum of the step, and the sum gets noise.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import torch
from torch import nn

from pate.accounting import ComposedEvent, Event, SampledGaussianEvent, SelfComposedEvent
from pate.aggregators.prevalence import Prevalence
from pate.array_types import FloatArray
from pate.comparison.alternatives.alternative import (
    PREVALENCE_SHARE,
    Alternative,
    TrainingData,
    linear_model,
)
from pate.comparison.alternatives.clipped_gradients import clipped_sums
from pate.comparison.alternatives.noisy_gradient import NoisyClippedSum
from pate.comparison.alternatives.noisy_model import NoisyModel
from pate.comparison.alternatives.sampled_groups import SampledGroups
from pate.comparison.bench import Bench
from pate.extras import require_extra
from pate.run.random_streams import RandomStreams
from pate.threads import one_thread
from pate.validation import (
    InvalidValue,
    require_choice,
    require_count,
    require_positive,
)

# The kinds of networks that DP-SGD trains.
NETWORKS = ("linear", "mlp", "cnn")
# Probabilities of sampling are multiples of 1 / _PROB_STEPS, which a generator of doubles draws exactly.
_PROB_STEPS = 2**53
# Larger weights have diverged.
_LARGEST_WEIGHT = 1e6
# The share of the steps, the last ones, over which weights are averaged.
_AVERAGED_SHARE = 0.5
# The number of groups of channels of the second group norm; the first has half as many.
_NORM_GROUPS = 8


@dataclass(frozen=True, kw_only=True)
class DpSgd(Alternative):
    """Gradient descent whose every step uses the noisy sum of the gradients of a Poisson sample of the groups.

    The method needs Opacus, the extra `opacus`.

    Rule: the noisy prevalence of the labels becomes the bias of the last layer. In each step every group takes part
    with the same probability, by one record that is picked at random. The gradients of these records are clipped, and
    their sum is released with noise. A linear model learns on the features and at the learning rates of
    `Schedule.best`. An `mlp` on the same features and a `cnn` on images learn by Adam, and their weights are averaged
    over the last half of the steps.

    Formal guarantees:
        * In a step at most one record of a group contributes, with a gradient of at most one clip. If one group is
          replaced, the sum over all groups moves by at most two clips. Each step is a `SampledGaussianEvent` under
          replace-one, whose worst case are two opposite gradients of one clip each.
        * Samples and noise are drawn from the noise stream of the run. Opacus computes, clips and adds the gradients in
          double precision. The noise is `RoundedGaussian`.

    Attributes:
        network: `linear`, `mlp` (one hidden layer) or `cnn` (two convolutions, for images only).
        batch_size: the expected number of groups in a step. If there are fewer groups, all take part in every step.
        num_steps: the number of steps.
        hidden: the number of units in the hidden layer of `mlp`.
        learning_rate: the learning rate of Adam, for `mlp` and `cnn`.

    Source: Abadi et al. 2016; De et al. 2022 (large batches, group norms, averaged weights); Tramèr & Boneh 2021
    (normalized public features); docs/proofs/alternatives.md.
    """

    network: str = "linear"
    batch_size: int = 4096
    num_steps: int = 60
    hidden: int = 128
    learning_rate: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("network", self.network, NETWORKS)
        for setting_name in ("batch_size", "num_steps", "hidden"):
            require_count(setting_name, getattr(self, setting_name))
        require_positive("learning_rate", self.learning_rate)
        require_extra("method", "opacus", self.name)

    @property
    def model_kind(self) -> str:
        """The kind of network that the method trains."""
        return self.network

    def check(self, bench: Bench) -> None:
        """Raises `InvalidValue` for a `cnn` if the inputs are no images."""
        if self.network == "cnn" and bench.dataset.kind != "images":
            rule = "linear or mlp: the inputs are no images"
            raise InvalidValue("method.network", self.network, rule=rule)

    def sampling_prob(self, num_groups: int) -> float:
        """Returns the probability that a group takes part in a step, `batch_size` / `num_groups` but at most 1.

        It is rounded down to a multiple of 2^-53, and is at least 2^-53.
        """
        prob = min(1.0, self.batch_size / num_groups)
        return max(math.floor(prob * _PROB_STEPS), 1) / _PROB_STEPS

    def event_for(self, noise_multiplier: float, *, num_groups: int) -> Event:
        """Returns the price of the whole training: the prevalence, and one sampled Gaussian event for each step.

        The noise multiplier is that of each step. The prevalence gets one that follows from it, see
        `_prevalence_multiplier`.
        """
        step_event = SampledGaussianEvent(noise_multiplier, self.sampling_prob(num_groups))
        prevalence_multiplier = self._prevalence_multiplier(
            step_multiplier=noise_multiplier, num_groups=num_groups
        )
        prevalence_mechanism = Prevalence(noise_multiplier=prevalence_multiplier)
        event_of_all_steps = SelfComposedEvent(step_event, count=self.num_steps)
        return ComposedEvent(events=(prevalence_mechanism.event, event_of_all_steps))

    def noise_rate(self, noise_multiplier: float, *, clip: float, num_groups: int) -> float:
        """Returns the variance of the noise in an entry of a step's mean gradient, divided by the number of steps.

        The mean is over the expected number of groups in a step.
        """
        # The sensitivity of a sum is two clips, and the mean is over the expected groups of a step.
        expected_groups = self.sampling_prob(num_groups) * num_groups
        return (2 * clip * noise_multiplier / expected_groups) ** 2 / self.num_steps

    def train_model(
        self, noise_multiplier: float, training_data: TrainingData, *, seed: int
    ) -> NoisyModel:
        """Returns a network that learns by noisy sums of the clipped gradients of sampled groups.

        The noisy prevalence of the labels is released first, and its log-odds are a fixed bias of the output.

        Args:
            noise_multiplier: the standard deviation of the noise in the sum of a step, divided by the sensitivity of
                the sum, which is two clips.
            training_data: the data.
            seed: the seed of the noise, of samples and of first weights.

        Raises:
            InvalidValue: the weights diverge.
        """
        prevalence_rng, rng_after_prevalence = RandomStreams(seed).generator("noise").spawn(2)
        private_split = training_data.bench.dataset.private
        prevalence_multiplier = self._prevalence_multiplier(
            step_multiplier=noise_multiplier, num_groups=training_data.num_groups
        )
        released_shares = training_data.release_shares(prevalence_multiplier, rng=prevalence_rng)
        schedule = self.schedule(training_data, noise_multiplier, released_shares=released_shares)
        bias = scipy.special.logit(released_shares.prevalence)
        learning_rate_of_labels = schedule.label_learning_times / self.num_steps
        known_shares = released_shares.known_shares
        if known_shares is not None:
            # The mean gradient is over the records that know a label.
            learning_rate_of_labels = learning_rate_of_labels / known_shares

        def features_or_scaled_images(inputs: Any) -> FloatArray:
            """Returns inputs as the network reads them.

            A `cnn` reads images in [-1, 1]. A `linear` network reads k features, together of l2 length 1. An `mlp`
            reads the same features times sqrt(k).
            """
            if self.network == "cnn":
                return np.asarray(inputs, dtype=np.float64) * 2 - 1
            features = training_data.public_feature_map.features(inputs, ridge=schedule.ridge)
            if self.network == "mlp":
                return features * math.sqrt(features.shape[1])
            return features

        def compute_log_odds(inputs_to_predict: Any) -> FloatArray:
            """Returns the log-odds of each label for n inputs, `[n, L]`."""
            with torch.no_grad(), one_thread():
                network_inputs = torch.from_numpy(
                    np.ascontiguousarray(features_or_scaled_images(inputs_to_predict))
                )
                return np.asarray(network(network_inputs).numpy())

        private_groups = SampledGroups.from_records(
            inputs=features_or_scaled_images(private_split.inputs),
            labels=private_split.labels,
            group_ids=private_split.group_ids,
            known=private_split.known,
        )
        with one_thread(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            # Opacus and torch warn of hooks and generators that are not used here.
            warnings.simplefilter("ignore")
            torch.manual_seed(RandomStreams(seed).seed("student"))
            network = self._network(private_groups.inputs.shape[1:], bias).double()
            gradient_mechanism = NoisyClippedSum(
                clip=self.gradient_clip(released_shares),
                noise_per_sensitivity=noise_multiplier,
                max_units=len(private_groups.first_rows),
            )
            self._descend(
                network,
                private_groups,
                gradient_mechanism=gradient_mechanism,
                learning_rate_of_labels=learning_rate_of_labels,
                rng=rng_after_prevalence,
            )
        if self.network == "linear":
            (trained_parameter,) = network.parameters()
            return linear_model(
                training_data,
                schedule,
                model_weights=trained_parameter.detach().numpy().T.copy(),
                bias=bias,
            )
        network.eval()
        return NoisyModel(
            compute_log_odds=compute_log_odds,
            bias=bias,
            log_odds_noise_variance=np.zeros(len(bias)),
            inputs_for_threshold=training_data.public_inputs,
        )

    def _descend(
        self,
        network: nn.Module,
        private_groups: SampledGroups,
        *,
        gradient_mechanism: NoisyClippedSum,
        learning_rate_of_labels: FloatArray,
        rng: np.random.Generator,
    ) -> None:
        """Trains a network in place by `num_steps` noisy sums of clipped gradients.

        Equal arguments give the same weights to the last bit.

        Args:
            network: the network with its initial weights.
            private_groups: the private records by group.
            gradient_mechanism: releases the sum of the gradients of a step with noise.
            learning_rate_of_labels: the learning rate of each label, for a linear model, `[L]`.
            rng: draws samples and noise.

        Raises:
            InvalidValue: the weights diverge.
        """
        is_linear = self.network == "linear"
        sampling_prob = self.sampling_prob(len(private_groups.first_rows))
        network_parameters = list(network.parameters())
        parameter_sizes = [parameter.numel() for parameter in network_parameters]
        adam = torch.optim.Adam(network_parameters, lr=self.learning_rate)
        optimizer = torch.optim.SGD(network_parameters, lr=1.0) if is_linear else adam
        num_averaged = 0
        sum_of_parameter_vectors = torch.zeros(sum(parameter_sizes), dtype=torch.float64)
        with clipped_sums(network, clip=gradient_mechanism.clip) as clipped_sum:
            for step in range(self.num_steps):
                sampled_rows = private_groups.draw(sampling_prob, rng=rng)
                gradient_sum = clipped_sum(
                    private_groups.inputs[sampled_rows], private_groups.labels[sampled_rows]
                )
                noisy_gradient_sum = gradient_mechanism.release(gradient_sum, rng=rng)
                expected_groups = sampling_prob * len(private_groups.first_rows)
                noisy_gradient_mean = noisy_gradient_sum / expected_groups
                if is_linear:  # its only parameter has a row for each label
                    noisy_gradient_mean *= np.repeat(
                        learning_rate_of_labels,
                        len(noisy_gradient_mean) // len(learning_rate_of_labels),
                    )
                gradient_parts = torch.split(torch.from_numpy(noisy_gradient_mean), parameter_sizes)
                for parameter, gradient_part in zip(
                    network_parameters, gradient_parts, strict=True
                ):
                    parameter.grad = gradient_part.view_as(parameter)
                optimizer.step()
                parameter_vector = nn.utils.parameters_to_vector(network_parameters).detach()
                if not float(parameter_vector.abs().max()) < _LARGEST_WEIGHT:
                    rule = "a smaller one, weights diverged"
                    raise InvalidValue("method.learning_rate", self.learning_rate, rule=rule)
                if not is_linear and step >= (1 - _AVERAGED_SHARE) * self.num_steps:
                    sum_of_parameter_vectors = sum_of_parameter_vectors + parameter_vector
                    num_averaged += 1
        if num_averaged:
            nn.utils.vector_to_parameters(
                sum_of_parameter_vectors / num_averaged, network_parameters
            )

    def _network(self, input_shape: tuple[int, ...], bias: FloatArray) -> nn.Module:
        """Returns an untrained network, whose log-odds for every input are equal to the bias.

        Args:
            input_shape: the shape of one input.
            bias: the log-odds of the prevalence of each label, `[L]`.
        """
        if self.network == "linear":
            return _Biased(nn.Linear(input_shape[0], len(bias), bias=False), bias)
        if self.network == "mlp":
            hidden_layer = nn.Linear(input_shape[0], self.hidden)
            return _Biased(
                nn.Sequential(hidden_layer, nn.Tanh(), nn.Linear(self.hidden, len(bias))), bias
            )
        # Two strided convolutions with group norms, means over 4 x 4 cells, and a linear layer, as De et al. 2022 have
        # in larger networks.
        return _Biased(
            nn.Sequential(
                nn.Conv2d(input_shape[0], 16, 5, stride=2, padding=2),
                nn.GroupNorm(_NORM_GROUPS // 2, 16),
                nn.ReLU(),
                nn.Conv2d(16, 32, 3, stride=2, padding=1),
                nn.GroupNorm(_NORM_GROUPS, 32),
                nn.ReLU(),
                nn.AdaptiveAvgPool2d(4),
                nn.Flatten(),
                nn.Linear(512, len(bias)),
            ),
            bias,
        )

    def _prevalence_multiplier(self, step_multiplier: float, num_groups: int) -> float:
        """Returns the noise multiplier for the release of the prevalence.

        The prevalence gets about a tenth of 1 / multiplier**2 of the whole training.

        Args:
            step_multiplier: the noise multiplier of each step.
            num_groups: the number of private groups.
        """
        # T steps that sample with probability q cost about one Gaussian of 1 / m^2 = T q^2 / step_multiplier^2.
        multiplier_of_all_steps = step_multiplier / (
            self.sampling_prob(num_groups) * math.sqrt(self.num_steps)
        )
        return multiplier_of_all_steps * math.sqrt((1 - PREVALENCE_SHARE) / PREVALENCE_SHARE)


class _Biased(nn.Module):
    """A network that adds a fixed bias to the output of an inner network; this output is 0 before training."""

    def __init__(self, inner_network: nn.Module, bias: FloatArray) -> None:
        super().__init__()
        self.inner_network = inner_network
        self.bias = torch.from_numpy(bias).clone()
        for parameter in list(inner_network.modules())[-1].parameters():
            nn.init.zeros_(parameter)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the log-odds of each label, `[m, L]`, for a batch of m inputs."""
        inner_output: torch.Tensor = self.inner_network(inputs)
        return inner_output + self.bias
