"""The base class of methods that train a model on private records by noisy sums over groups, without teachers."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from pate.accounting import Adjacency, Budget, Event, calibrate
from pate.aggregators.prevalence import Prevalence, ReleasedShares
from pate.array_types import Float32Array, FloatArray
from pate.comparison.alternatives.noisy_model import NoisyModel
from pate.comparison.alternatives.public_directions import MAX_ROWS, PublicDirections
from pate.comparison.alternatives.schedule import Schedule
from pate.comparison.bench import Bench
from pate.comparison.method import Contender, Method
from pate.comparison.trained import Trained, require_plain_name
from pate.files.digests import unabridged_repr
from pate.validation import InvalidValue, require_positive
from pate.votes.label_shares import RecordShares

# The share of the prevalence in 1 / noise_multiplier**2 of all that is released.
PREVALENCE_SHARE = 0.1
# The prevalence of each label that is assumed before one is released.
_LIKELY_PREVALENCE = 0.1
# A method is refused if it is expected to learn less than this share of the variance of the log-odds.
_MIN_LEARNED_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The data on which an alternative trains, and quantities of the public inputs that all seeds share.

    Attributes:
        bench: the data, queries and student that all methods of the comparison share.
    """

    bench: Bench

    @property
    def num_groups(self) -> int:
        """The number of private groups."""
        return self.bench.dataset.private.num_groups

    @cached_property
    def public_inputs(self) -> Float32Array:
        """The first inputs of the public pool, at most 10,000, without labels."""
        return np.asarray(self.bench.dataset.public.inputs[:MAX_ROWS])

    @cached_property
    def public_feature_map(self) -> PublicDirections:
        """Makes features along the principal directions of the public inputs."""
        return PublicDirections.fit(self.public_inputs)

    def release_shares(self, noise_multiplier: float, rng: np.random.Generator) -> ReleasedShares:
        """Releases the noisy prevalence of each label: its share of a group's records, averaged over groups.

        If some labels are unknown, the share is among the records whose label is known. The share of records whose
        label is known is released too. Both cost one Gaussian event of `noise_multiplier` together.
        """
        private_split = self.bench.dataset.private
        _, group_of_records = np.unique(private_split.group_ids, return_inverse=True)
        label_share_source = RecordShares(
            labels=private_split.labels,
            teacher_of=group_of_records,
            num_teachers=self.num_groups,
            known_label_mask=private_split.known,
        )
        return Prevalence(noise_multiplier=noise_multiplier).release_shares(
            label_share_source, num_teachers=self.num_groups, rng=rng
        )


@dataclass(frozen=True, kw_only=True)
class Alternative(Method):
    """The base class of methods that train a model on private records by noisy sums over groups, without teachers.

    Formal guarantees:
        * The unit of privacy is the group, as for the teachers of PATE. Neighboring data sets differ in all records of
          one group. The number of groups is public.
        * Which labels of a group are known is covered like its labels. That labels have gaps at all is public.
        * The noise is calibrated to the epsilon and delta of the comparison by the same accountant. The price is a
          function of public numbers.

    Attributes:
        name: the name in all tables.
        adjacency: replace_one, as sums are divided by the number of groups, which is public then.
        clip_factor: the clip, in typical lengths of a group's gradient, > 0.
        signal_variance: the variance of a label's log-odds that is assumed, > 0.
    """

    name: str
    adjacency: str = "replace_one"
    clip_factor: float = 0.5
    signal_variance: float = 2.0

    def __post_init__(self) -> None:
        require_plain_name("methods", self.name)
        is_replace_one = Adjacency.parse(self.adjacency) is Adjacency.REPLACE_ONE
        if not is_replace_one:
            raise InvalidValue(
                "adjacency",
                self.adjacency,
                rule=f"replace_one for {self.name}, which divides by the number of private groups",
            )
        require_positive("clip_factor", self.clip_factor)
        require_positive("signal_variance", self.signal_variance)

    def gradient_clip(self, released_shares: ReleasedShares) -> float:
        """Returns the clip, which is the largest l2 length of a group's gradient: `clip_factor` times a typical length.

        The square of a typical length is the sum over labels of p (1 - p) times the share of records that know the
        label, for prevalence p.

        Args:
            released_shares: the released prevalence of each label, and the share of records that know it.
        """
        prevalence = released_shares.prevalence
        known_shares = released_shares.known_shares
        residual_variances = prevalence * (1 - prevalence)
        if known_shares is not None:  # a gradient is 0 where the label is unknown
            residual_variances = residual_variances * known_shares
        return self.clip_factor * math.sqrt(float(residual_variances.sum()))

    def schedule(
        self,
        training_data: TrainingData,
        noise_multiplier: float,
        released_shares: ReleasedShares,
        *,
        signal_is_concentrated: bool = False,
    ) -> Schedule:
        """Returns the training schedule with the least expected error of the log-odds.

        Args:
            training_data: the data.
            noise_multiplier: the noise multiplier of the method.
            released_shares: the prevalence of each label, and the share of records that know it.
            signal_is_concentrated: whether to assume the best case: all signal lies along the widest direction.
        """
        noise_rate: FloatArray | float = self.noise_rate(
            noise_multiplier,
            clip=self.gradient_clip(released_shares),
            num_groups=training_data.num_groups,
        )
        if released_shares.known_shares is not None:
            # The mean gradient is over the records that know a label.
            noise_rate = noise_rate / released_shares.known_shares**2
        return Schedule.best(
            training_data.public_feature_map,
            training_data.public_inputs,
            prevalence=released_shares.prevalence,
            noise_rate=noise_rate,
            clip_in_typical_lengths=self.clip_factor,
            signal_variance=self.signal_variance,
            signal_is_concentrated=signal_is_concentrated,
        )

    def identity(self, bench: Bench) -> list[Any]:
        """Returns all settings on which the results of the method depend, apart from data, budget and seed."""
        return [unabridged_repr(self)]

    def columns(self, bench: Bench) -> dict[str, Any]:
        """Returns the cells of the method in comparison.csv: adjacency and student."""
        return {"adjacency": self.adjacency, "student": self.model_kind}

    @property
    def model_kind(self) -> str:
        """The kind of model that the method trains."""
        return "linear"

    @abstractmethod
    def event_for(self, noise_multiplier: float, *, num_groups: int) -> Event:
        """Returns the price of the whole training, which releases the prevalence and then all other noisy sums.

        Args:
            noise_multiplier: the noise multiplier of the method. It is that of the whole training as one Gaussian
                mechanism, but that of a single step in `DpSgd`.
            num_groups: the number of private groups.
        """

    @abstractmethod
    def train_model(
        self, noise_multiplier: float, training_data: TrainingData, *, seed: int
    ) -> NoisyModel:
        """Returns a model that is trained with noise; `DpSgd` raises `InvalidValue` if the weights diverge.

        Args:
            noise_multiplier: the noise multiplier of the method, as in `event_for`.
            training_data: the data.
            seed: the seed of the noise, of samples and of first weights.
        """

    @abstractmethod
    def noise_rate(self, noise_multiplier: float, *, clip: float, num_groups: int) -> float:
        """Returns the variance of the noise in an entry of a step's mean gradient, divided by the number of steps.

        The mean is over the expected number of groups that take part in the step.

        Args:
            noise_multiplier: the noise multiplier of the method, as in `event_for`.
            clip: the largest l2 length of a group's gradient.
            num_groups: the number of private groups.
        """

    def at(
        self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None
    ) -> Contender:
        """Returns the method with the noise multiplier that meets a budget; see `Method.at`."""
        training_data = TrainingData(bench=bench)
        event_for = partial(self.event_for, num_groups=training_data.num_groups)
        if parameters is None:
            target_epsilon = budget.required_epsilon()
            make_accountant = budget.accountant
            parameters = {
                "noise_multiplier": calibrate(
                    event_for=event_for,
                    target_epsilon=target_epsilon,
                    target_delta=budget.delta,
                    accountant=make_accountant,
                )
            }
        if set(parameters) != {"noise_multiplier"}:
            raise TypeError(f"{self.name} has the parameter noise_multiplier alone")
        noise_multiplier = require_positive("noise_multiplier", parameters["noise_multiplier"])

        def train_with_seed(seed: int) -> Trained:
            """Returns a model that is trained with a seed."""
            return Trained(
                model=self.train_model(noise_multiplier, training_data=training_data, seed=seed)
            )

        return Contender(
            epsilon=budget.epsilon_of(event_for(noise_multiplier)),
            parameters=parameters,
            train=train_with_seed,
            refusal=partial(self._refusal, noise_multiplier, training_data),
        )

    def _refusal(self, noise_multiplier: float, training_data: TrainingData) -> str:
        """Returns the reason not to train if a model is expected to learn too little under its noise, else "".

        A model learns too little if it is expected to explain less than 1% of the variance of the labels' log-odds in
        the best case. In that case all signal lies along the direction in which the public inputs vary most, and each
        label has a prevalence of 0.1. Public numbers alone are read.

        Args:
            noise_multiplier: the noise multiplier of the method.
            training_data: the data.
        """
        # A mean case would refuse too much. A model with 1% of the variance of the log-odds has a correlation of 0.1
        # with them, and real labels vary along wide directions more than along others.
        likely_prevalence = np.full(training_data.bench.dataset.num_labels, _LIKELY_PREVALENCE)
        schedule = self.schedule(
            training_data,
            noise_multiplier,
            released_shares=ReleasedShares(likely_prevalence),
            signal_is_concentrated=True,
        )
        learned_share = 1 - schedule.expected_squared_error / self.signal_variance
        if learned_share >= _MIN_LEARNED_SHARE:
            return ""
        return (
            f"methods={self.name}: expected to learn {max(learned_share, 0.0):.1%} of what a linear model can "
            f"from {training_data.num_groups:,} groups; more groups, a larger epsilon in 'epsilons=[…]', "
            "or allow_useless=true"
        )


def linear_model(
    training_data: TrainingData, schedule: Schedule, model_weights: FloatArray, bias: FloatArray
) -> NoisyModel:
    """Returns the model of given weights, which were trained with noise; its log-odds are linear in the features.

    Args:
        training_data: the data.
        schedule: the training schedule.
        model_weights: `[k, L]`, for k features and L labels.
        bias: the log-odds of the prevalence of each label, `[L]`.
    """

    def compute_log_odds(inputs_to_predict: Any) -> FloatArray:
        """Returns the log-odds of each label for n inputs, `[n, L]`."""
        features = training_data.public_feature_map.features(
            inputs_to_predict, ridge=schedule.ridge
        )
        return np.asarray(features @ model_weights + bias)

    return NoisyModel(
        compute_log_odds=compute_log_odds,
        bias=bias,
        log_odds_noise_variance=schedule.log_odds_noise_variance,
        inputs_for_threshold=training_data.public_inputs,
    )
