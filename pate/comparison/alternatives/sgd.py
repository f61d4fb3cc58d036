"""DP-SGD on Poisson samples of the groups: Opacus clips and adds gradients; sampling and noise are the house's own."""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from pate.accounting import ComposedEvent, Event, SampledGaussianEvent, SelfComposedEvent
from pate.aggregators.prevalence import Prevalence
from pate.comparison.alternatives.alternative import (
    PREVALENCE_SHARE,
    Alternative,
    NoisyModel,
    Training,
    generators,
    prevalence_of,
)
from pate.comparison.alternatives.gradient_descent import GroupGradients, NoisySum, linear_model
from pate.comparison.method import Bench
from pate.networks.device import one_thread
from pate.run.randomness import Streams
from pate.validation import InvalidValue, require, require_choice, require_count, require_extra, require_positive
from pate.votes.descent import expected_f1_threshold

Array = NDArray[np.float64]

NETWORKS = ("linear", "mlp", "cnn")

_COINS = 2**53
_LARGEST_WEIGHT = 1e6
_CHUNK_VALUES = 2**20  # of gradients of single records at once
_AVERAGED = 0.5  # the last share of the steps
_NORM_GROUPS = 8
_SUM, _EACH = "summed_grad", "grad_sample"  # what Opacus adds to a parameter


@dataclass(frozen=True, kw_only=True)
class DpSgd(Alternative):
    """Stochastic gradient descent with noise; needs Opacus, the extra `opacus`.

    Rule: the prevalence of the labels is released first and becomes the last layer's bias. In each step every group
    takes part with the same probability, with one of its records picked at random; its gradient is clipped, the sum is
    released with noise. A linear model learns on the features and at the rates of `Schedule.best`; `mlp` on the same
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
        return self.network

    def check(self, bench: Bench) -> None:
        images = bench.dataset.kind == "images"
        require(
            self.network != "cnn" or images, "method.network", self.network, "linear or mlp: the inputs are no images"
        )

    def sampling_prob(self, num_groups: int) -> float:
        """Of a group in a step: a multiple of 2^-53, which a coin of 53 bits has exactly."""
        return max(math.floor(min(1.0, self.batch_size / num_groups) * _COINS), 1) / _COINS

    def event_for(self, noise_multiplier: float, *, num_groups: int) -> Event:
        """The prevalence, then as many sampled Gaussians as there are steps."""
        step = SampledGaussianEvent(noise_multiplier, self.sampling_prob(num_groups))
        prevalence = Prevalence(noise_multiplier=self._of_prevalence(noise_multiplier, num_groups))
        return ComposedEvent((prevalence.event, SelfComposedEvent(step, self.num_steps)))

    def rate(self, noise_multiplier: float, *, clip: float, num_groups: int) -> float:
        """A sum's sensitivity is two clips, and the mean is over the groups that are expected in a step."""
        expected = self.sampling_prob(num_groups) * num_groups
        return (2 * clip * noise_multiplier / expected) ** 2 / self.num_steps

    def trained(self, noise_multiplier: float, training: Training, *, seed: int) -> NoisyModel:
        for_prevalence, for_steps = generators(seed)
        private, total = training.bench.dataset.private, training.num_groups
        shares = GroupGradients.of(np.zeros((len(private), 1)), private.labels, private.group_ids).label_shares()
        prevalence = prevalence_of(shares, self._of_prevalence(noise_multiplier, total), for_prevalence)
        schedule = self.schedule(training, noise_multiplier, prevalence)
        bias = scipy.special.logit(prevalence)
        place = _images if self.network == "cnn" else partial(training.directions.features, ridge=schedule.ridge)
        groups = Group.of(place(private.inputs), private.labels, private.group_ids)
        with one_thread(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Opacus and torch on hooks and generators that are not used
            torch.manual_seed(Streams(seed).seeds("student", 1)[0])
            network = self._network(groups.inputs.shape[1:], bias).double()
            noisy = NoisySum(self.clip(prevalence), noise_multiplier, len(groups.starts))
            self._descend(network, groups, noisy, schedule.times / self.num_steps, for_steps)
        if self.network == "linear":
            weights = next(network.parameters()).detach().numpy().T.copy()
            return linear_model(training, schedule.ridge, weights, bias, schedule.noise_variance)
        model = NoisyModel(partial(_log_odds, network.eval(), place), bias, np.zeros(len(prevalence)))
        return replace(model, threshold=expected_f1_threshold(model.predict_proba(training.public_inputs)))

    def _descend(
        self, network: nn.Module, groups: Group, noisy: NoisySum, rates: Array, rng: np.random.Generator
    ) -> None:
        """Trains a network; `rates`, `[L]`, are those of a linear model. Equal arguments give equal bytes.

        Raises `InvalidValue` where the weights grew beyond all bounds.
        """
        linear, total = self.network == "linear", len(groups.starts)
        gradients, sampling_prob = ClippedGradients(network, noisy.clip), self.sampling_prob(total)
        optimizer: torch.optim.Optimizer = (
            torch.optim.SGD(gradients.parameters, lr=1.0)
            if linear
            else torch.optim.Adam(gradients.parameters, lr=self.learning_rate)
        )
        kept, mean = 0, torch.zeros(gradients.size, dtype=torch.float64)
        for step in range(self.num_steps):
            rows = groups.draw(sampling_prob, rng)
            summed = gradients.summed(groups.inputs[rows], groups.labels[rows])
            released = noisy.release(summed, rng) / (sampling_prob * total)
            gradients.put(torch.from_numpy(released))
            if linear:
                gradients.scale(torch.from_numpy(rates))
            optimizer.step()
            weights = nn.utils.parameters_to_vector(gradients.parameters).detach()
            if not float(weights.abs().max()) < _LARGEST_WEIGHT:
                raise InvalidValue(
                    f"method.learning_rate={self.learning_rate}: expected a smaller one, weights diverged"
                )
            if not linear and step >= (1 - _AVERAGED) * self.num_steps:
                mean, kept = mean + weights, kept + 1
        if kept:
            nn.utils.vector_to_parameters(mean / kept, gradients.parameters)
        gradients.close()

    def _network(self, shape: tuple[int, ...], bias: Array) -> nn.Module:
        if self.network == "linear":
            return _Biased(nn.Linear(shape[0], len(bias), bias=False), bias)
        if self.network == "mlp":
            scale = _Scaled(math.sqrt(shape[0]))
            layers = [scale, nn.Linear(shape[0], self.hidden), nn.Tanh(), nn.Linear(self.hidden, len(bias))]
            return _Biased(nn.Sequential(*layers), bias)
        return _Biased(_convolutions(shape, len(bias)), bias)

    def _of_prevalence(self, noise_multiplier: float, num_groups: int) -> float:
        """A tenth of about what the steps' own price amounts to, as Gaussians."""
        # T steps that sample with probability q cost about one Gaussian of 1 / m^2 = T q^2 / noise_multiplier^2.
        steps = noise_multiplier / (self.sampling_prob(num_groups) * math.sqrt(self.num_steps))
        return steps * math.sqrt((1 - PREVALENCE_SHARE) / PREVALENCE_SHARE)


def _images(inputs: Any) -> Array:
    return np.asarray(inputs, dtype=np.float64) * 2 - 1


def _log_odds(network: nn.Module, place: Callable[[Any], Array], inputs: Any) -> Array:
    with torch.no_grad(), one_thread():
        return np.asarray(network(torch.from_numpy(np.ascontiguousarray(place(inputs)))).numpy())


def require_opacus(name: str) -> None:
    """Raises unless Opacus can be imported."""
    require_extra(f"method={name}", "opacus")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("opacus")


@dataclass(frozen=True, eq=False)
class Group:
    """Records by group: one record per group is picked at random each time that the group takes part."""

    inputs: Array  # `[n, …]`, records of a group beside each other
    labels: Array  # `[n, L]`
    starts: NDArray[np.int64]  # the first record of each group, `[N]`
    sizes: NDArray[np.int64]  # their numbers of records, `[N]`

    @classmethod
    def of(cls, inputs: Array, labels: NDArray[np.bool_], group_ids: NDArray[np.int64]) -> Group:
        order = np.argsort(group_ids, kind="stable")
        _, starts, sizes = np.unique(group_ids[order], return_index=True, return_counts=True)
        return cls(inputs[order], labels[order].astype(np.float64), starts, sizes)

    def draw(self, sampling_prob: float, rng: np.random.Generator) -> NDArray[np.int64]:
        """A Poisson sample of the groups, and of each a record: rows `[m]`.

        Every group draws both of its numbers whether it takes part or not: what one group is moves no other's draws.
        """
        taken, picked = rng.random((2, len(self.starts)))
        rows = self.starts + np.minimum((picked * self.sizes).astype(np.int64), self.sizes - 1)
        return np.asarray(rows[taken < sampling_prob])


class ClippedGradients:
    """Sums of clipped gradients of single records, by Opacus; `size` is the number of values of all parameters."""

    def __init__(self, network: nn.Module, clip: float) -> None:
        from opacus import GradSampleModule
        from opacus.optimizers import DPOptimizer

        self._module: Any = GradSampleModule(network, loss_reduction="sum")
        self.parameters = list(network.parameters())
        self.size = sum(parameter.numel() for parameter in self.parameters)
        self._clipping: Any = DPOptimizer(
            torch.optim.SGD(self.parameters, lr=0.0),
            noise_multiplier=0.0,
            max_grad_norm=clip,
            expected_batch_size=None,
            loss_reduction="sum",
        )

    def summed(self, inputs: Array, labels: Array) -> Array:
        """The sum over records `[m, …]`, as one vector `[size]`; its sign is that of the loss's gradient."""
        for parameter in self.parameters:
            setattr(parameter, _SUM, None)
        rows = max(1, _CHUNK_VALUES // self.size)
        for first in range(0, len(inputs), rows):
            logits = self._module(torch.from_numpy(inputs[first : first + rows]))
            wanted = torch.from_numpy(labels[first : first + rows])
            loss = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="sum")
            torch.autograd.backward(loss)
            self._clipping.clip_and_accumulate()
            for parameter in self.parameters:
                setattr(parameter, _EACH, None)
                parameter.grad = None
        found = [getattr(parameter, _SUM, None) for parameter in self.parameters]
        parts = [each.detach().numpy().ravel() for each in found if each is not None]
        whole = len(parts) == len(found)  # not where nobody takes part
        return np.concatenate(parts) if whole else np.zeros(self.size)

    def put(self, gradient: torch.Tensor) -> None:
        sizes = [parameter.numel() for parameter in self.parameters]
        for parameter, part in zip(self.parameters, torch.split(gradient, sizes), strict=True):
            parameter.grad = part.view_as(parameter).clone()

    def scale(self, rates: torch.Tensor) -> None:
        """Multiplies the first parameter's gradient `[d, …]` with a rate `[d]` for each of its rows."""
        gradient = self.parameters[0].grad
        if gradient is not None:
            gradient *= rates[:, None]

    def close(self) -> None:
        self._module.to_standard_module()
        for parameter in self.parameters:
            parameter.requires_grad_(False)


class _Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs * self.factor


class _Biased(nn.Module):
    """Log-odds of the prevalence, and what a network adds to them, at first nothing."""

    def __init__(self, inner: nn.Module, bias: Array) -> None:
        super().__init__()
        self.inner = inner
        self.prevalence = torch.from_numpy(bias).clone()
        last = list(inner.modules())[-1]
        for parameter in last.parameters():
            nn.init.zeros_(parameter)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = self.inner(inputs)
        return added + self.prevalence


def _convolutions(shape: tuple[int, ...], num_labels: int) -> nn.Module:
    """Two strided convolutions with group norms, means over 4 x 4 cells, a linear head (De et al. 2022, in small)."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 16, 5, stride=2, padding=2),
        nn.GroupNorm(_NORM_GROUPS // 2, 16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.GroupNorm(_NORM_GROUPS, 32),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(512, num_labels),
    )
