"""The training schedule of a linear model: its features, its learning rates and its number of steps."""

import math
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self

import numpy as np

from pate.array_types import FloatArray
from pate.comparison.alternatives.public_directions import PublicDirections
from pate.votes.learning_times import LearningTimes

# The ridges of the features that are tried.
_RIDGES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
_MIN_STEPS = 10
_MAX_STEPS = 100
# The largest share of what a direction still lacks that one step may learn, so that steps are stable. More than the
# largest number of steps is not taken for it; a step may then learn up to all that the fastest direction lacks.
_MAX_SHARE_PER_STEP = 0.5


@dataclass(frozen=True, eq=False)
class Schedule:
    """The training schedule of a linear model: its features, its learning rates and its number of steps.

    Attributes:
        ridge: the ridge of the features, see `PublicDirections.features`.
        label_learning_times: the learning time of each label, its learning rate times the number of steps, `[L]`.
            Times are shortened if even 100 steps of them would be too large to be stable.
        num_steps: the number of gradient steps, from 10 to 100.
        log_odds_noise_variance: the approximate variance of the noise in each label's log-odds after training, `[L]`.
        expected_squared_error: the expected mean square error of the log-odds.
    """

    ridge: float
    label_learning_times: FloatArray
    num_steps: int
    log_odds_noise_variance: FloatArray
    expected_squared_error: float

    @classmethod
    def best(
        cls,
        public_feature_map: PublicDirections,
        public_inputs: Any,
        prevalence: FloatArray,
        noise_rate: FloatArray | float,
        *,
        clip_in_typical_lengths: float,
        signal_variance: float,
        signal_is_concentrated: bool = False,
    ) -> Self:
        """Returns the schedule with the least expected error of the log-odds.

        It depends on public and released numbers alone. The learning times are those of `LearningTimes` for each of six
        ridges. The ridge with the least error is taken.

        Args:
            public_feature_map: makes features along the principal directions of the public pool.
            public_inputs: the inputs of the public pool.
            prevalence: the prevalence of each label, public or released, `[L]`.
            noise_rate: the variance of the noise in an entry of a mean gradient, divided by the number of steps; one
                number or one for each label, `[L]`.
            clip_in_typical_lengths: the clip divided by the typical length of a group's gradient, as in
                `Alternative.gradient_clip`.
            signal_variance: the assumed variance of the log-odds of a label, which is divided among the directions in
                proportion to their standard deviations.
            signal_is_concentrated: whether to assume the best case: all signal lies along the widest direction.

        Source: docs/how-centered-votes-work.md for the learning times.
        """
        relative_signal_variances = public_feature_map.standard_deviations
        if signal_is_concentrated:
            relative_signal_variances[1:] = 0
        signal_variance_of_features = (
            signal_variance * relative_signal_variances / relative_signal_variances.sum()
        )
        schedules = []
        for ridge in _RIDGES:
            features = public_feature_map.features(public_inputs, ridge=ridge)[:, :-1]
            learning = LearningTimes.best(
                public_mean_squares=np.square(features).mean(axis=0),
                signal_variances=signal_variance_of_features,
                prevalence=prevalence,
                noise_rate=noise_rate,
                clip_factor=clip_in_typical_lengths,
            )
            # `[L]`: `learning.speeds` is `[L, k]` for k features
            speed_of_fastest_feature = learning.speeds.max(axis=1)
            fastest_progress = float((speed_of_fastest_feature * learning.times).max())
            num_steps = min(
                max(math.ceil(fastest_progress / _MAX_SHARE_PER_STEP), _MIN_STEPS), _MAX_STEPS
            )
            schedules.append(
                cls(
                    ridge=ridge,
                    label_learning_times=learning.within(num_steps),
                    num_steps=num_steps,
                    log_odds_noise_variance=learning.log_odds_noise_variance,
                    expected_squared_error=learning.error,
                )
            )
        return min(schedules, key=attrgetter("expected_squared_error"))
