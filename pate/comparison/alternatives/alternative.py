"""What the private alternatives to PATE share: the unit, the calibration, the prevalence, and what is not worth it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event, GaussianEvent, calibrate
from pate.aggregators.prevalence import Prevalence
from pate.comparison.alternatives.learning_rule import LearningRule, Schedule
from pate.comparison.alternatives.noisy_model import NoisyModel
from pate.comparison.alternatives.public_features import PublicDirections
from pate.comparison.bench import Bench
from pate.comparison.method import Contender, Method, Trained
from pate.files.fingerprint import full_text
from pate.pricing import Budget
from pate.run.randomness import Streams
from pate.validation import InvalidValue, require, require_positive

Array = NDArray[np.float64]

PREVALENCE_SHARE = 0.1
"""Of 1 / noise_multiplier**2 of all that is released, as `CenteredVotes` has it."""

_SLACK = 1 + 1e-9
_LIKELY = 0.1  # a label's prevalence, where none is known
_USELESS = 0.01  # of the log-odds' variance


@dataclass(frozen=True, kw_only=True)
class Alternative(Method):
    """A model that is trained on private records with noise, in place of teachers, votes and queries.

    Formal guarantees:
        * The unit of privacy is the group, as for PATE's teachers: one group's records replaced by any others, however
          many. The number of groups is public.
        * Calibrated to the same epsilon and delta by the same accountant; the price is a function of public numbers.

    Attributes:
        name: in all tables.
        adjacency: replace_one: dividing by the number of groups makes it public.
        clip_factor: the clip, in typical lengths of a group's gradient, > 0.
        signal_variance: what the log-odds of a label are taken to vary by where nothing is known, > 0.
    """

    name: str
    adjacency: str = "replace_one"
    clip_factor: float = 0.5
    signal_variance: float = 2.0

    def __post_init__(self) -> None:
        plain = self.name.replace("_", "").replace("-", "").isalnum()
        require(plain, "methods", self.name, "names of letters, digits, - and _")  # they name files
        rule = f"replace_one for {self.name}, which divides by the number of private groups"
        require(Adjacency.parse(self.adjacency) is Adjacency.REPLACE_ONE, "adjacency", self.adjacency, rule)
        require_positive("clip_factor", self.clip_factor)
        require_positive("signal_variance", self.signal_variance)

    @property
    def rule(self) -> LearningRule:
        """For features, clip and learning time."""
        return LearningRule(self.clip_factor, self.signal_variance)

    def identity(self, bench: Bench) -> list[Any]:
        """See `Method.identity`."""
        return [full_text(self)]

    def columns(self, bench: Bench) -> dict[str, Any]:
        """See `Method.columns`."""
        return {"adjacency": self.adjacency, "student": self.model_kind}

    @property
    @abstractmethod
    def model_kind(self) -> str:
        """What is trained: linear, mlp, cnn."""

    @abstractmethod
    def event_for(self, noise_multiplier: float, *, num_groups: int) -> Event:
        """The price of all that is released: the prevalence, then every noisy gradient."""

    @abstractmethod
    def trained(self, noise_multiplier: float, training: Training, *, seed: int) -> NoisyModel:
        """Trains once.

        Raises:
            InvalidValue: the training diverged.
        """

    @abstractmethod
    def rate(self, noise_multiplier: float, *, clip: float, num_groups: int) -> float:
        """See `LearningRule.schedule`."""

    def at(self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None) -> Contender:
        """See `Method.at`."""
        total = bench.dataset.private.num_groups
        most = require_positive("target_epsilon", budget.target_epsilon or 0.0)
        if parameters is None:
            noise = calibrate(
                lambda noise: self.event_for(noise, num_groups=total),
                target_epsilon=most,
                target_delta=budget.target_delta,
                accountant=budget.accountant,
            )
            parameters = {"noise_multiplier": noise}
        noise = require_positive("noise_multiplier", dict(parameters).pop("noise_multiplier", 0.0))
        epsilon = budget.epsilon_of(self.event_for(noise, num_groups=total))
        if epsilon > most * _SLACK:
            raise InvalidValue(f"epsilon={epsilon:.6g}: expected at most {most:g} once calibrated")
        return AlternativeContender(epsilon, parameters, self, Training(bench))


class Training:
    """The data of a training, and what public inputs alone say of it: made once for all seeds."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def __reduce__(self) -> Any:
        return Training, (self.bench,)

    @property
    def num_groups(self) -> int:
        """N."""
        return self.bench.dataset.private.num_groups

    @cached_property
    def public_inputs(self) -> NDArray[np.float32]:
        """The public pool without its labels, asked or not."""
        return np.asarray(self.bench.dataset.public.inputs[:10_000])

    @cached_property
    def directions(self) -> PublicDirections:
        """Of the public pool."""
        return PublicDirections.of(self.public_inputs)

    def schedule(self, method: Alternative, noise_multiplier: float, prevalence: Array) -> Schedule:
        """See `LearningRule.schedule`."""
        rule = method.rule
        rate = method.rate(noise_multiplier, clip=rule.clip(prevalence), num_groups=self.num_groups)
        return rule.schedule(self.directions, self.public_inputs, prevalence, rate)


@dataclass(frozen=True, eq=False)
class AlternativeContender(Contender):
    """An alternative with its noise.

    Attributes:
        epsilon: see `Contender`, like `parameters`.
        parameters: see above.
        method: whose it is.
        training: the data.
    """

    epsilon: float
    parameters: Mapping[str, Any]
    method: Alternative
    training: Training

    @property
    def refusal(self) -> str:
        """Where a linear model is expected to learn next to nothing of labels that a tenth of the records have."""
        likely = np.full(self.training.bench.dataset.num_labels, _LIKELY)
        schedule = self.training.schedule(self.method, self.parameters["noise_multiplier"], likely)
        learned = 1 - schedule.error / self.method.rule.signal_variance
        if learned >= _USELESS:
            return ""
        return (
            f"methods={self.method.name}: expected to learn {max(learned, 0.0):.1%} of what a linear model can from "
            f"{self.training.num_groups:,} groups; more groups, a larger epsilon in epsilons=[…], or allow_useless=true"
        )

    def train(self, seed: int) -> Trained:
        """See `Contender.train`."""
        return Trained(self.method.trained(self.parameters["noise_multiplier"], self.training, seed=seed))


def prevalence_of(shares: Array, noise_multiplier: float, rng: np.random.Generator) -> Array:
    """The released prevalence of each label, `[L]`, from each group's shares `[N, L]`."""
    return Prevalence(noise_multiplier=noise_multiplier).release(shares, num_teachers=len(shares), rng=rng)


def composed(prevalence_multiplier: float, descent_multiplier: float) -> GaussianEvent:
    """The price of a prevalence and of noisy gradients that are Gaussian releases."""
    prevalence = Prevalence(noise_multiplier=prevalence_multiplier).event
    return GaussianEvent.composed([prevalence.noise_multiplier, descent_multiplier])


def generators(seed: int) -> tuple[np.random.Generator, np.random.Generator]:
    """For the prevalence and for the gradients, from the stream that a release's noise has."""
    first, second = Streams(seed).generator("noise").spawn(2)
    return first, second
