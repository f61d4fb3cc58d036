"""What the alternatives to PATE share: the unit, the calibration, the prevalence, and what is not worth it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event, calibrate
from pate.aggregators.prevalence import Prevalence
from pate.comparison.alternatives.linear_model import NoisyModel, PublicDirections, Schedule
from pate.comparison.bench import Bench, Trained, kind
from pate.comparison.method import Contender, Method, Reference
from pate.files.fingerprint import full_text
from pate.pricing import Budget
from pate.run.randomness import Streams
from pate.validation import InvalidValue, require, require_positive

Array = NDArray[np.float64]

PREVALENCE_SHARE = 0.1
"""Of 1 / noise_multiplier**2 of all that is released, as `CenteredVotes` has it."""

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

    def clip(self, prevalence: Array) -> float:
        """The greatest length of one group's gradient."""
        return self.clip_factor * math.sqrt(float((prevalence * (1 - prevalence)).sum()))

    def schedule(self, training: Training, noise_multiplier: float, prevalence: Array) -> Schedule:
        """Features, learning time and number of steps."""
        rate = self.rate(noise_multiplier, clip=self.clip(prevalence), num_groups=training.num_groups)
        chosen = {"clip_factor": self.clip_factor, "signal_variance": self.signal_variance}
        return Schedule.best(training.directions, training.public_inputs, prevalence, rate, **chosen)

    def identity(self, bench: Bench) -> list[Any]:
        """All settings."""
        return [full_text(self)]

    def columns(self, bench: Bench) -> dict[str, Any]:
        """No teachers; the model in the student's place."""
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
        """The variance of the noise in a mean gradient's entry, over the number of steps: see `Schedule.best`."""

    def at(self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None) -> Contender:
        """With the noise that the budget allows, or that was solved for before."""
        total, training = bench.dataset.private.num_groups, Training(bench)
        if parameters is None:
            noise = calibrate(
                lambda noise: self.event_for(noise, num_groups=total),
                target_epsilon=require_positive("target_epsilon", budget.target_epsilon or 0.0),
                target_delta=budget.target_delta,
                accountant=budget.accountant,
            )
            parameters = {"noise_multiplier": noise}
        noise = require_positive("noise_multiplier", dict(parameters).pop("noise_multiplier", 0.0))
        return Contender(
            budget.epsilon_of(self.event_for(noise, num_groups=total)),
            parameters,
            lambda seed: Trained(self.trained(noise, training, seed=seed)),
            lambda: self._refusal(noise, training),
        )

    def _refusal(self, noise_multiplier: float, training: Training) -> str:
        """Where a linear model is expected to learn next to nothing of labels that a tenth of the records have."""
        likely = np.full(training.bench.dataset.num_labels, _LIKELY)
        learned = 1 - self.schedule(training, noise_multiplier, likely).error / self.signal_variance
        if learned >= _USELESS:
            return ""
        return (
            f"methods={self.name}: expected to learn {max(learned, 0.0):.1%} of what a linear model can from "
            f"{training.num_groups:,} groups; more groups, a larger epsilon in epsilons=[…], or allow_useless=true"
        )


@dataclass(frozen=True, eq=False)
class Training:
    """The data of a training, and what public inputs alone say of it: made once for all seeds.

    Attributes:
        bench: what all methods share.
    """

    bench: Bench

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


@dataclass(frozen=True, kw_only=True)
class AllRecords(Method):
    """The ceiling of the comparison's student, trained on every private record and its true labels.

    No epsilon covers it, so tables show it in a single row without an epsilon.

    Attributes:
        name: in all tables.
        adjacency: nothing follows from it.
    """

    is_private: ClassVar[bool] = False

    name: str
    adjacency: str = "replace_one"

    def identity(self, bench: Bench) -> list[Any]:
        """The ceiling's recipe."""
        return [full_text(bench.student.ceiling)]

    def at(self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None) -> Contender:
        """Raises: nothing about it is private."""
        raise InvalidValue(f"epsilon={budget.target_epsilon}: expected a private method; this one has no epsilon")

    def references(self, bench: Bench) -> Iterator[Reference]:
        """Its single row."""
        columns = {"student": kind(bench.student.ceiling)}
        yield Reference(self.name, bench.all_records_model, self.identity(bench), columns)


def prevalence_of(shares: Array, noise_multiplier: float, rng: np.random.Generator) -> Array:
    """The released prevalence of each label, `[L]`, from each group's shares `[N, L]`."""
    return Prevalence(noise_multiplier=noise_multiplier).release(shares, num_teachers=len(shares), rng=rng)


def generators(seed: int) -> tuple[np.random.Generator, np.random.Generator]:
    """For the prevalence and for the gradients, from the stream that a release's noise has."""
    first, second = Streams(seed).generator("noise").spawn(2)
    return first, second
