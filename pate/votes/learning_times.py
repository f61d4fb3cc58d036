"""The time for which gradient descent on noisy gradients learns each label.

Longer learning finds more of the signal and gathers more noise. The time is the one at which the expected sum of both
errors is smallest, computed from public numbers. `Descent` explains the rest of the method.

Source: docs/proofs/vote_rounds.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from pate.array_types import FloatArray

# The candidate learning times; from 1 on, each is 1.19 times the one before.
_TIMES = np.concatenate([np.geomspace(1e-6, 0.5, 20), np.geomspace(1.0, 1e6, 80)])
# The largest number of entries of the arrays that the search for the times fills at once.
_BLOCK_ENTRIES = 2**22


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class LearningTimes:
    """The time for which gradient descent learns each label of a linear model, chosen for the least expected error.

    Rule: let c_i be the mean square of feature i, and let a_i = s h c_i. Here h = p (1 - p) is the curvature of a label
    with prevalence p, s is the share of a gradient that the clip leaves, and v is the variance of the noise in the mean
    of all steps' gradients. In time t, descent leaves exp(-t a_i) of the signal along feature i. It gathers noise of
    variance c_i v t (1 - exp(-2 t a_i)) / (2 a_i).

    Attributes:
        times: `[num_labels]`, the learning time of each label: the learning rate times the number of steps.
        speeds: `[num_labels, num_features]`, a_i for each label and feature.
        log_odds_noise_variance: `[num_labels]`, the approximate variance of the noise in each label's log-odds at the
            end.
        error: the expected squared error of the log-odds, averaged over labels.
    """

    times: FloatArray
    speeds: FloatArray
    log_odds_noise_variance: FloatArray
    error: float

    @classmethod
    def best(
        cls,
        *,
        public_mean_squares: FloatArray,
        signal_variances: FloatArray,
        prevalence: FloatArray,
        noise_rate: FloatArray | float,
        clip_factor: float,
    ) -> Self:
        """Returns the times with the least expected error among some candidates, from public or released numbers.

        Args:
            public_mean_squares: `[num_features]`, > 0, c_i: the mean square of each feature on public inputs.
            signal_variances: `[num_features]`, or `[num_labels, num_features]`: the variance that log-odds are assumed
                to have along each feature.
            prevalence: `[num_labels]`, in (0, 1).
            noise_rate: v, one number or `[num_labels]`: the variance of the noise in an entry of a mean gradient,
                divided by the number of steps.
            clip_factor: s, the approximate share of a gradient that the clip leaves; for a clip below the usual length
                of a gradient, the clip divided by this length.
        """
        curvature = prevalence * (1 - prevalence)
        speeds_by_label = (clip_factor * curvature)[:, None] * public_mean_squares
        noise_rates = np.broadcast_to(noise_rate, len(prevalence))
        signal_variances_of_labels = np.broadcast_to(signal_variances, speeds_by_label.shape)
        labels_at_once = max(1, _BLOCK_ENTRIES // (len(_TIMES) * len(public_mean_squares)))
        feature_axis = 2
        results_of_label_blocks = []
        for first_label in range(0, len(prevalence), labels_at_once):
            label_range = slice(first_label, first_label + labels_at_once)
            # [c, 1, K] for c labels and K features
            speeds_of_block_labels = speeds_by_label[label_range, None]
            # An error u of direction i follows du = -a_i u dt, so the share exp(-a_i t) of it remains after time t.
            # Noise of variance v t dt arrives at each moment and decays like the error. In all it has the variance
            # v t (1 - exp(-2 a_i t)) / (2 a_i) in a weight, and c_i times that in log-odds.
            remaining_shares = np.exp(-speeds_of_block_labels * _TIMES[:, None])  # [c, times, K]
            arrived_noise = (
                public_mean_squares * noise_rates[label_range, None, None] * _TIMES[:, None]
            )
            remaining_noise = (
                arrived_noise
                * (1 - remaining_shares * remaining_shares)
                / (2 * speeds_of_block_labels)
            )
            errors_by_label_and_time = (
                signal_variances_of_labels[label_range, None] * remaining_shares * remaining_shares
                + remaining_noise
            ).sum(axis=feature_axis)
            best_time_indices = errors_by_label_and_time.argmin(axis=1)
            label_indices = np.arange(len(best_time_indices))
            best_noise = remaining_noise.sum(axis=feature_axis)[label_indices, best_time_indices]
            results_of_label_blocks.append(
                np.stack(
                    [
                        _TIMES[best_time_indices],
                        best_noise,
                        errors_by_label_and_time[label_indices, best_time_indices],
                    ]
                )
            )
        best_times, best_noise_variance, errors = np.concatenate(results_of_label_blocks, axis=1)
        return cls(
            times=best_times,
            speeds=speeds_by_label,
            log_odds_noise_variance=best_noise_variance,
            error=float(errors.mean()),
        )

    def within(self, num_steps: int, *, time_factor: float = 1.0) -> FloatArray:
        """Returns the learning times multiplied by a factor, at most what a number of steps can take, `[num_labels]`.

        A step of a label takes at most 1 over its largest speed, the time in which one step removes the error along
        the fastest feature.

        Args:
            num_steps: the number of steps.
            time_factor: the factor of the times.
        """
        return np.asarray(np.minimum(time_factor * self.times, num_steps / self.speeds.max(axis=1)))
