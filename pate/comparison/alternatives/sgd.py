"""DP-SGD on Poisson samples of the groups: Opacus clips and adds gradients; sampling and noise are the house's own."""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from pate.accounting import ComposedEvent, Event, SampledGaussianEvent, SelfComposedEvent
from pate.aggregators.centered_votes import Prevalence
from pate.comparison.alternatives.gradient_descent import (
    PREVALENCE_SHARE,
    Alternative,
    NoisyModel,
    NoisySum,
    Training,
    generators,
    linear_model,
)
from pate.comparison.method import Bench
from pate.networks.device import one_thread
from pate.run.randomness import Streams
from pate.validation import InvalidValue, require, require_choice, require_count, require_extra, require_positive

Array = NDArray[np.float64]

NETWORKS = ("linear", "mlp", "cnn")

_COINS = 2**53
_LARGEST_WEIGHT = 1e6
_CHUNK_VALUES = 2**20  # of gradients of single records at once
_AVERAGED = 0.5  # the last share of the steps
_NORM_GROUPS = 8


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
        require_extra(f"method={self.name}", "opacus")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module("opacus")

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
        private = training.bench.dataset.private
        prevalence = training.prevalence(self._of_prevalence(noise_multiplier, training.num_groups), for_prevalence)
        schedule = self.schedule(training, noise_multiplier, prevalence)
        bias = scipy.special.logit(prevalence)

        def placed(inputs: Any) -> Array:
            if self.network == "cnn":
                return np.asarray(inputs, dtype=np.float64) * 2 - 1
            found = training.directions.features(inputs, ridge=schedule.ridge)
            return found * math.sqrt(found.shape[1]) if self.network == "mlp" else found

        def log_odds(inputs: Any) -> Array:
            with torch.no_grad(), one_thread():
                return np.asarray(network(torch.from_numpy(np.ascontiguousarray(placed(inputs)))).numpy())

        groups = Groups(placed(private.inputs), private.labels, private.group_ids)
        with one_thread(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Opacus and torch on hooks and generators that are not used
            torch.manual_seed(Streams(seed).seeds("student", 1)[0])
            network = self._network(groups.inputs.shape[1:], bias).double()
            noisy = NoisySum(self.clip(prevalence), noise_multiplier, len(groups.starts))
            self._descend(network, groups, noisy, schedule.times / self.num_steps, for_steps)
        if self.network == "linear":
            return linear_model(training, schedule, next(network.parameters()).detach().numpy().T.copy(), bias)
        network.eval()
        return NoisyModel(log_odds, bias, np.zeros(len(bias)), training.public_inputs)

    def _descend(
        self, network: nn.Module, groups: Groups, noisy: NoisySum, rates: Array, rng: np.random.Generator
    ) -> None:
        """Trains a network; `rates`, `[L]`, are those of a linear model. Equal arguments give equal bytes.

        Raises `InvalidValue` where the weights grew beyond all bounds.
        """
        linear, sampling_prob = self.network == "linear", self.sampling_prob(len(groups.starts))
        parameters = list(network.parameters())
        sizes = [parameter.numel() for parameter in parameters]
        adam = torch.optim.Adam(parameters, lr=self.learning_rate)
        optimizer = torch.optim.SGD(parameters, lr=1.0) if linear else adam
        kept, mean = 0, torch.zeros(sum(sizes), dtype=torch.float64)
        with _clipped_sums(network, noisy.clip) as summed:
            for step in range(self.num_steps):
                rows = groups.draw(sampling_prob, rng)
                released = noisy.release(summed(groups.inputs[rows], groups.labels[rows]), rng)
                released /= sampling_prob * len(groups.starts)
                if linear:  # its one parameter has a row for each label
                    released *= np.repeat(rates, len(released) // len(rates))
                parts = torch.split(torch.from_numpy(released), sizes)
                for parameter, part in zip(parameters, parts, strict=True):
                    parameter.grad = part.view_as(parameter)
                optimizer.step()
                weights = nn.utils.parameters_to_vector(parameters).detach()
                if not float(weights.abs().max()) < _LARGEST_WEIGHT:
                    rule = "a smaller one, weights diverged"
                    raise InvalidValue(f"method.learning_rate={self.learning_rate}: expected {rule}")
                if not linear and step >= (1 - _AVERAGED) * self.num_steps:
                    mean, kept = mean + weights, kept + 1
        if kept:
            nn.utils.vector_to_parameters(mean / kept, parameters)

    def _network(self, shape: tuple[int, ...], bias: Array) -> nn.Module:
        if self.network == "linear":
            return _Biased(nn.Linear(shape[0], len(bias), bias=False), bias)
        if self.network == "mlp":
            hidden = nn.Linear(shape[0], self.hidden)
            return _Biased(nn.Sequential(hidden, nn.Tanh(), nn.Linear(self.hidden, len(bias))), bias)
        return _Biased(_convolutions(shape, len(bias)), bias)

    def _of_prevalence(self, noise_multiplier: float, num_groups: int) -> float:
        """A tenth of about what the steps' own price amounts to, as Gaussians."""
        # T steps that sample with probability q cost about one Gaussian of 1 / m^2 = T q^2 / noise_multiplier^2.
        steps = noise_multiplier / (self.sampling_prob(num_groups) * math.sqrt(self.num_steps))
        return steps * math.sqrt((1 - PREVALENCE_SHARE) / PREVALENCE_SHARE)


class Groups:
    """Records by group: one record per group is picked at random each time that the group takes part."""

    def __init__(self, inputs: Array, labels: NDArray[np.bool_], group_ids: NDArray[np.int64]) -> None:
        order = np.argsort(group_ids, kind="stable")  # records of a group beside each other
        _, self.starts, self.sizes = np.unique(group_ids[order], return_index=True, return_counts=True)
        self.inputs, self.labels = inputs[order], labels[order].astype(np.float64)

    def draw(self, sampling_prob: float, rng: np.random.Generator) -> NDArray[np.int64]:
        """A Poisson sample of the groups, and of each a record: rows `[m]`.

        Every group draws both of its numbers whether it takes part or not: what one group is moves no other's draws.
        """
        taken, picked = rng.random((2, len(self.starts)))
        rows = self.starts + np.minimum((picked * self.sizes).astype(np.int64), self.sizes - 1)
        return np.asarray(rows[taken < sampling_prob])


@contextmanager
def _clipped_sums(network: nn.Module, clip: float) -> Iterator[Callable[[Array, Array], Array]]:
    """Sums of clipped gradients of single records, by Opacus, which is off the network again after the block."""
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    module: Any = GradSampleModule(network, loss_reduction="sum")
    parameters: list[Any] = list(network.parameters())
    size = sum(parameter.numel() for parameter in parameters)
    terms = {"noise_multiplier": 0.0, "max_grad_norm": clip}
    unused = torch.optim.SGD(parameters, lr=0.0)
    clipping: Any = DPOptimizer(unused, **terms, expected_batch_size=None, loss_reduction="sum")

    def summed(inputs: Array, labels: Array) -> Array:
        """The sum over records `[m, …]`, as one vector; its sign is that of the loss's gradient."""
        if not len(inputs):  # nobody takes part
            return np.zeros(size)
        for parameter in parameters:
            parameter.summed_grad = None
        rows = max(1, _CHUNK_VALUES // size)
        for first in range(0, len(inputs), rows):
            logits = module(torch.from_numpy(inputs[first : first + rows]))
            wanted = torch.from_numpy(labels[first : first + rows])
            loss = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="sum")
            torch.autograd.backward(loss)
            clipping.clip_and_accumulate()
            for parameter in parameters:
                parameter.grad_sample = parameter.grad = None
        return np.concatenate([parameter.summed_grad.detach().numpy().ravel() for parameter in parameters])

    yield summed
    module.to_standard_module()
    for parameter in parameters:
        parameter.requires_grad_(False)


class _Biased(nn.Module):
    """Log-odds of the prevalence, and what a network adds to them, at first nothing."""

    def __init__(self, inner: nn.Module, bias: Array) -> None:
        super().__init__()
        self.inner = inner
        self.prevalence = torch.from_numpy(bias).clone()
        for parameter in list(inner.modules())[-1].parameters():
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
