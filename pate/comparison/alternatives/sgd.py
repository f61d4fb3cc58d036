"""DP-SGD: gradient descent on Poisson samples of the groups, through Opacus."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from pate.accounting import ComposedEvent, Event, SampledGaussianEvent, SelfComposedEvent
from pate.aggregators.prevalence import Prevalence
from pate.comparison.alternatives.alternative import PREVALENCE_SHARE, Alternative, Training, generators, prevalence_of
from pate.comparison.alternatives.gradient_descent import linear_model
from pate.comparison.alternatives.group_gradients import GroupGradients
from pate.comparison.alternatives.noisy_model import NoisyModel, expected_f1_threshold
from pate.comparison.alternatives.sgd_steps import Descent, Group, require_opacus
from pate.comparison.bench import Bench
from pate.run.randomness import Streams
from pate.validation import require, require_choice, require_count, require_positive

Array = NDArray[np.float64]

_COINS = 2**53
NETWORKS = ("linear", "mlp", "cnn")


@dataclass(frozen=True, kw_only=True)
class DpSgd(Alternative):
    """Stochastic gradient descent with noise; needs Opacus (`pip install 'pate-multilabel[opacus]'`).

    Rule: the prevalence of the labels is released first and becomes the last layer's bias. In each step every group
    takes part with the same probability, with one of its records picked at random; its gradient is clipped, the sum is
    released with noise. A linear model learns on the features and at the rates of `LearningRule`; `mlp` on the same
    features, and `cnn` on images, by Adam, their weights averaged over the last half of the steps.

    Formal guarantees:
        * However many records a group has, one of them counts in a step, for at most a clip: one group replaced moves
          the sum over all groups by two clips. Each step is a `SampledGaussianEvent` under replace-one, whose worst
          case is a clip in one direction before and the opposite after.
        * Samples and noise are drawn from the run's stream for noise. Opacus computes each record's gradient, clips and
          adds them, in double precision; the noise is `RoundedGaussian`.

    Raises:
        InvalidValue: Opacus is not installed; an attribute outside its range.

    Attributes:
        network: `linear`, `mlp` (one hidden layer) or `cnn` (two convolutions; images alone).
        batch_size: groups a step, expected; all where there are fewer.
        num_steps: how many.
        hidden: units of the hidden layer of `mlp`.
        learning_rate: of Adam, for `mlp` and `cnn`.

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
        for name in ("batch_size", "num_steps", "hidden"):
            require_count(name, getattr(self, name))
        require_positive("learning_rate", self.learning_rate)
        require_opacus(self.name)

    @property
    def model_kind(self) -> str:
        """See `Alternative.model_kind`."""
        return self.network

    def check(self, bench: Bench) -> None:
        """See `Method.check`: a `cnn` needs images."""
        images = bench.dataset.kind == "images"
        require(
            self.network != "cnn" or images, "method.network", self.network, "linear or mlp: the inputs are no images"
        )

    def sampling_prob(self, num_groups: int) -> float:
        """Of a group in a step: a multiple of 2^-53, which a coin of 53 bits has exactly."""
        return max(math.floor(min(1.0, self.batch_size / num_groups) * _COINS), 1) / _COINS

    def event_for(self, noise_multiplier: float, *, num_groups: int) -> Event:
        """See `Alternative.event_for`."""
        step = SampledGaussianEvent(noise_multiplier, self.sampling_prob(num_groups))
        prevalence = Prevalence(noise_multiplier=self._of_prevalence(noise_multiplier, num_groups))
        return ComposedEvent((prevalence.event, SelfComposedEvent(step, self.num_steps)))

    def rate(self, noise_multiplier: float, *, clip: float, num_groups: int) -> float:
        """See `Alternative.rate`."""
        expected = self.sampling_prob(num_groups) * num_groups
        return (2 * clip * noise_multiplier / expected) ** 2 / self.num_steps

    def trained(self, noise_multiplier: float, training: Training, *, seed: int) -> NoisyModel:
        """See `Alternative.trained`."""
        for_prevalence, for_steps = generators(seed)
        private, total = training.bench.dataset.private, training.num_groups
        shares = GroupGradients.of(np.zeros((len(private), 1)), private.labels, private.group_ids).label_shares()
        prevalence = prevalence_of(shares, self._of_prevalence(noise_multiplier, total), for_prevalence)
        schedule = training.schedule(self, noise_multiplier, prevalence)
        place = (
            partial(_images) if self.network == "cnn" else partial(training.directions.features, ridge=schedule.ridge)
        )
        descent = Descent(
            network=self.network,
            hidden=self.hidden,
            bias=scipy.special.logit(prevalence),
            clip=self.rule.clip(prevalence),
            noise_multiplier=noise_multiplier,
            sampling_prob=self.sampling_prob(total),
            num_steps=self.num_steps,
            rates=schedule.times / self.num_steps,
            learning_rate=self.learning_rate,
            seed=Streams(seed).seeds("student", 1)[0],
        )
        made = descent.run(Group.of(place(private.inputs), private.labels, private.group_ids), for_steps)
        if self.network == "linear":
            return linear_model(training, schedule.ridge, made.weights, descent.bias, schedule.noise_variance)
        model = NoisyModel(partial(_log_odds, made, place), descent.bias, np.zeros(len(prevalence)))
        return replace(model, threshold=expected_f1_threshold(model.predict_proba(training.public_inputs)))

    def _of_prevalence(self, noise_multiplier: float, num_groups: int) -> float:
        """A tenth of about what the steps' own price amounts to, as Gaussians."""
        steps = noise_multiplier / (self.sampling_prob(num_groups) * math.sqrt(self.num_steps))
        return steps * math.sqrt((1 - PREVALENCE_SHARE) / PREVALENCE_SHARE)


def _images(inputs: Any) -> Array:
    """Images in [-1, 1]."""
    return np.asarray(inputs, dtype=np.float64) * 2 - 1


def _log_odds(made: Any, place: Any, inputs: Any) -> Array:
    return np.asarray(made.log_odds(place(inputs)))
