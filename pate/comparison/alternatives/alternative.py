"""The base of methods that train on private records with noise, in place of teachers, votes and queries."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import (
    Adjacency,
    Budget,
    Event,
    calibrate,
)
from pate.aggregators.prevalence import Prevalence
from pate.comparison.alternatives.group_gradients import Array
from pate.comparison.alternatives.noisy_model import NoisyModel
from pate.comparison.alternatives.public_directions import MOST_ROWS, PublicDirections
from pate.comparison.alternatives.schedule import Schedule
from pate.comparison.bench import Bench
from pate.comparison.method import Contender, Method
from pate.comparison.trained import Trained, require_plain_name
from pate.files.digests import full_text
from pate.validation import (
    require,
    require_positive,
)
from pate.votes.label_shares import mean_labels

# of 1 / noise_multiplier**2 of all that is released, as `CenteredVotes` has it
PREVALENCE_SHARE = 0.1
_LIKELY = 0.1  # a label's prevalence, where none is known
_USELESS = 0.01  # of the log-odds' variance


@dataclass(frozen=True, eq=False)
class Training:
    """The data of a training, and what public inputs alone say of it: made once for all seeds."""

    bench: Bench  # what all methods share

    @property
    def num_groups(self) -> int:
        """The number of private groups."""
        return self.bench.dataset.private.num_groups

    @cached_property
    def public_inputs(self) -> NDArray[np.float32]:
        """The public pool without its labels, asked or not."""
        return np.asarray(self.bench.dataset.public.inputs[:MOST_ROWS])

    @cached_property
    def directions(self) -> PublicDirections:
        """The principal directions of the public inputs."""
        return PublicDirections.of(self.public_inputs)

    def prevalence(self, noise_multiplier: float, rng: np.random.Generator) -> Array:
        """The released prevalence of each label, `[L]`."""
        private = self.bench.dataset.private
        _, group = np.unique(private.group_ids, return_inverse=True)
        shares = mean_labels(private.labels, group, self.num_groups)
        return Prevalence(noise_multiplier=noise_multiplier).release(
            shares, num_teachers=self.num_groups, rng=rng
        )


@dataclass(frozen=True, kw_only=True)
class Alternative(Method):
    """A model that is trained on private records with noise, in place of teachers, votes and queries.

    Formal guarantees:
        * The unit of privacy is the group, as for PATE's teachers: one group's records replaced by any others, however
          many. The number of groups is public.
        * Calibrated to the same epsilon and delta by the same accountant; the price is a function of public numbers.
    """

    name: str  # in all tables
    adjacency: str = "replace_one"  # replace_one: dividing by the number of groups makes it public
    clip_factor: float = 0.5  # the clip, in typical lengths of a group's gradient, > 0
    # what the log-odds of a label are taken to vary by where nothing is known, > 0
    signal_variance: float = 2.0

    def __post_init__(self) -> None:
        require_plain_name("methods", self.name)
        rule = f"replace_one for {self.name}, which divides by the number of private groups"
        require(
            Adjacency.parse(self.adjacency) is Adjacency.REPLACE_ONE,
            "adjacency",
            self.adjacency,
            rule,
        )
        require_positive("clip_factor", self.clip_factor)
        require_positive("signal_variance", self.signal_variance)

    def clip(self, prevalence: Array) -> float:
        """The greatest length of one group's gradient."""
        return self.clip_factor * math.sqrt(float((prevalence * (1 - prevalence)).sum()))

    def schedule(
        self,
        training: Training,
        noise_multiplier: float,
        prevalence: Array,
        *,
        concentrated: bool = False,
    ) -> Schedule:
        """Returns the steps of training that suit a noise and a prevalence."""
        rate = self.rate(
            noise_multiplier, clip=self.clip(prevalence), num_groups=training.num_groups
        )
        return Schedule.best(
            training.directions,
            training.public_inputs,
            prevalence,
            rate,
            clip_factor=self.clip_factor,
            signal_variance=self.signal_variance,
            concentrated=concentrated,
        )

    def identity(self, bench: Bench) -> list[Any]:
        """Returns all that decides the method's results beside data and budget."""
        return [full_text(self)]

    def columns(self, bench: Bench) -> dict[str, Any]:
        """Returns the method's own columns of the table."""
        return {"adjacency": self.adjacency, "student": self.model_kind}

    @property
    def model_kind(self) -> str:
        """The kind of model that it trains."""
        return "linear"

    @abstractmethod
    def event_for(self, noise_multiplier: float, *, num_groups: int) -> Event:
        """The price of all that is released: the prevalence, then every noisy gradient."""

    @abstractmethod
    def trained(self, noise_multiplier: float, training: Training, *, seed: int) -> NoisyModel:
        """Trains once; raises `InvalidValue` where the training diverged."""

    @abstractmethod
    def rate(self, noise_multiplier: float, *, clip: float, num_groups: int) -> float:
        """The variance of the noise in a mean gradient's entry, over the number of steps: see `Schedule.best`."""

    def at(
        self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None
    ) -> Contender:
        """Returns the method at a budget, with the noise that meets it."""
        training = Training(bench)
        event_for = partial(self.event_for, num_groups=training.num_groups)
        if parameters is None:
            target = budget.required_epsilon()
            parameters = {
                "noise_multiplier": calibrate(
                    event_for,
                    target_epsilon=target,
                    target_delta=budget.delta,
                    accountant=budget.accountant,
                )
            }
        noise = require_positive("noise_multiplier", parameters.get("noise_multiplier", 0.0))

        def train(seed: int) -> Trained:
            return Trained(self.trained(noise, training, seed=seed))

        return Contender(
            budget.epsilon_of(event_for(noise)),
            parameters,
            train,
            lambda: self._refusal(noise, training),
        )

    def _refusal(self, noise_multiplier: float, training: Training) -> str:
        """Where next to nothing can be learned of labels that a tenth of the records have, even in the best case."""
        # A mean case would be wrong: 1% of the log-odds' variance orders samples 10% of the way, and real labels vary
        # along wide directions more than others.
        likely = np.full(training.bench.dataset.num_labels, _LIKELY)
        schedule = self.schedule(training, noise_multiplier, likely, concentrated=True)
        learned = 1 - schedule.error / self.signal_variance
        said = (
            f"expected to learn {max(learned, 0.0):.1%} of what a linear model can "
            f"from {training.num_groups:,} groups"
        )
        helps = "more groups, a larger epsilon in 'epsilons=[…]', or allow_useless=true"
        return "" if learned >= _USELESS else f"methods={self.name}: {said}; {helps}"


def linear_model(training: Training, schedule: Schedule, weights: Array, bias: Array) -> NoisyModel:
    """A model of public features."""

    def log_odds(inputs: Any) -> Array:
        return np.asarray(
            training.directions.features(inputs, ridge=schedule.ridge) @ weights + bias
        )

    return NoisyModel(log_odds, bias, schedule.noise_variance, training.public_inputs)
