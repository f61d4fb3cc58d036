"""The base class of alternatives that know the covariance of the features, and so the noise along each axis."""

import math
from abc import ABC
from dataclasses import dataclass

import numpy as np

from pate.aggregators.prevalence import ReleasedShares
from pate.array_types import FloatArray
from pate.comparison.alternatives.alternative import TrainingData
from pate.comparison.alternatives.feature_covariance import (
    COVARIANCE_SHARE,
    NOISY,
    PUBLIC,
    CovarianceRelease,
    FeatureAxes,
)
from pate.comparison.alternatives.full_batch import FullBatch, Multipliers
from pate.comparison.alternatives.group_gradients import GroupGradients
from pate.comparison.alternatives.noisy_gradient import NoisyClippedSum
from pate.comparison.alternatives.public_directions import PublicDirections
from pate.comparison.alternatives.signal_posterior import SignalPosterior
from pate.run.random_streams import RandomStreams
from pate.validation import require_choice


@dataclass(frozen=True, kw_only=True)
class CovarianceMethod(FullBatch, ABC):
    """The base class of methods that train on noisy gradients and scale them by the covariance of the features.

    Rule for the covariance, if `covariance` is None: the covariance of the public pool is taken, unless a noisy
    covariance of the private features has a smaller expected error. The squared error of a pool of m records is assumed
    to be 1 / m. A noisy covariance gets a fifth of 1 / noise_multiplier**2 of all releases after the prevalence.

    Attributes:
        covariance: `public` for that of the public pool, `noisy` for one of the private features, None for the rule.
    """

    covariance: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.covariance is not None:
            require_choice("covariance", self.covariance, (PUBLIC, NOISY))

    def released_covariance(
        self, training_data: TrainingData, noise_multiplier: float, num_features: int
    ) -> CovarianceRelease | None:
        """Returns the mechanism that releases the covariance, or None if that of the public pool is taken.

        Args:
            training_data: the data.
            noise_multiplier: the noise multiplier of all that is released after the prevalence.
            num_features: D, the number of features.
        """
        covariance_release = CovarianceRelease(
            noise_multiplier=noise_multiplier / math.sqrt(COVARIANCE_SHARE),
            num_groups=training_data.num_groups,
        )
        if self.covariance is None:
            pool_covariance_error = 1 / len(training_data.public_inputs)
            is_noisy = covariance_release.squared_error(num_features) < pool_covariance_error
        else:
            is_noisy = self.covariance == NOISY
        return covariance_release if is_noisy else None

    def start_training(
        self, noise_multiplier: float, training_data: TrainingData, *, seed: int
    ) -> "CovarianceState":
        """Returns the state of a training before its first gradient.

        The prevalence is released here, and so is the covariance unless that of the public pool is taken.

        Args:
            noise_multiplier: the noise multiplier of the method.
            training_data: the data.
            seed: the seed of the noise.
        """
        prevalence_rng, rng_after_prevalence = RandomStreams(seed).generator("noise").spawn(2)
        noise_multipliers = Multipliers.of_training(noise_multiplier)
        private_split = training_data.bench.dataset.private
        released_shares = training_data.release_shares(
            noise_multipliers.prevalence, rng=prevalence_rng
        )
        ridge = self.schedule(
            training_data, noise_multiplier, released_shares=released_shares
        ).ridge
        private_features = training_data.public_feature_map.features(
            private_split.inputs, ridge=ridge
        )
        public_features = training_data.public_feature_map.features(
            training_data.public_inputs, ridge=ridge
        )
        covariance_release = self.released_covariance(
            training_data,
            noise_multiplier=noise_multipliers.steps,
            num_features=private_features.shape[1],
        )
        if covariance_release is None:
            covariance = public_features.T @ public_features / len(public_features)
            feature_axes = FeatureAxes.of_covariance(covariance)
            share_left_by_covariance = 1.0
        else:
            covariance = covariance_release.release(
                private_features, private_split.group_ids, rng=rng_after_prevalence
            )
            feature_axes = FeatureAxes.of_covariance(
                covariance, noise_std=covariance_release.noise_std
            )
            share_left_by_covariance = 1 - COVARIANCE_SHARE
        prior_weight_variances = _prior_weight_variances(
            training_data.public_feature_map,
            public_features,
            feature_axes,
            signal_variance=self.signal_variance,
        )
        return CovarianceState(
            released_shares=released_shares,
            ridge=ridge,
            public_features=public_features,
            group_gradients=GroupGradients.from_records(
                private_features,
                private_split.labels,
                private_split.group_ids,
                known=private_split.known,
            ),
            num_groups=training_data.num_groups,
            feature_axes=feature_axes,
            weight_prior=SignalPosterior.before_observations(
                prior_weight_variances, num_labels=len(released_shares.prevalence)
            ),
            noise_multiplier=noise_multipliers.steps / math.sqrt(share_left_by_covariance),
            clip_in_typical_lengths=self.clip_factor,
            rng=rng_after_prevalence,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class CovarianceState:
    """The state of a training before its first gradient.

    Attributes:
        released_shares: the released prevalence of each label, and the share of records for which the label is known.
        ridge: the ridge of the features, see `PublicDirections.features`.
        public_features: the features of the public pool, `[m, D]`.
        group_gradients: the private records by group.
        num_groups: the number of groups N, public.
        feature_axes: the principal axes of the features, from the covariance.
        weight_prior: the distribution of the weights along the axes before any gradient.
        noise_multiplier: the noise multiplier of all gradients together.
        clip_in_typical_lengths: the clip, in typical lengths of a group's gradient.
        rng: draws the noise of the gradients.
    """

    released_shares: ReleasedShares
    ridge: float
    public_features: FloatArray
    group_gradients: GroupGradients
    num_groups: int
    feature_axes: FeatureAxes
    weight_prior: SignalPosterior
    noise_multiplier: float
    clip_in_typical_lengths: float
    rng: np.random.Generator

    def observe_gradient(
        self,
        weight_posterior: SignalPosterior,
        *,
        bias: FloatArray,
        model_weights: FloatArray,
        curvature_of_labels: FloatArray,
        num_steps: int,
    ) -> SignalPosterior:
        """Releases the noisy sum of all groups' clipped gradients, and returns the posterior that it gives.

        The gradient along an axis is s h c times the distance of the weight from its best value. Here s is the share of
        the gradient that remains after clipping, h the curvature of the label, and c the variance along the axis. So a
        gradient is an observation of the best weight with known noise.

        Args:
            weight_posterior: the posterior of the weights before the gradient.
            bias: the log-odds of the prevalence of each label, `[L]`.
            model_weights: the weights of the model, `[D, L]`.
            curvature_of_labels: the mean of p (1 - p) for each label, with p the probabilities of the model, `[L]`.
            num_steps: the number of gradients that share the noise multiplier, this one included.
        """
        known_share_of_labels = self.released_shares.known_shares
        if known_share_of_labels is None:
            known_share_of_labels = np.ones_like(bias)
        clip = self.clip_in_typical_lengths * math.sqrt(
            float((curvature_of_labels * known_share_of_labels).sum())
        )
        noisy_gradient = NoisyClippedSum(
            clip=clip,
            noise_per_sensitivity=self.noise_multiplier * math.sqrt(num_steps),
            max_units=self.num_groups,
        )
        gradient_sum = self.group_gradients.clipped_sum(
            model_weights=model_weights, bias=bias, clip=clip
        )
        mean_gradient = (
            noisy_gradient.release(gradient_sum, rng=self.rng)
            / self.num_groups
            / known_share_of_labels
        )
        # A clip at a share of the typical length leaves about this share of a gradient.
        clipped_gradient_share = min(self.clip_in_typical_lengths, 1.0)
        gradient_slopes = (
            clipped_gradient_share * curvature_of_labels * self.feature_axes.variances[:, None]
        )  # [D, L]
        noise_std = (
            2
            * clip
            * noisy_gradient.noise_per_sensitivity
            / self.num_groups
            / known_share_of_labels
        )
        # Gradients of N groups are also a sample, the same one in all steps.
        sampling_variance = num_steps * clipped_gradient_share * gradient_slopes / self.num_groups
        axis_columns = self.feature_axes.axes
        return weight_posterior.with_observation(
            observed_weights=axis_columns.T @ mean_gradient / gradient_slopes
            + axis_columns.T @ model_weights,
            observation_variances=(noise_std**2 + sampling_variance) / gradient_slopes**2,
        )


def _prior_weight_variances(
    public_feature_map: PublicDirections,
    public_features: FloatArray,
    feature_axes: FeatureAxes,
    *,
    signal_variance: float,
) -> FloatArray:
    """Returns the variance of a weight along each axis, `[D]`, if log-odds vary as `Schedule.best` assumes.

    The last of the D features is constant. Its weight has the mean variance of the other weights.

    Args:
        public_feature_map: makes features along the principal directions of the public pool.
        public_features: the features of the public pool, `[m, D]`.
        feature_axes: the principal axes of the features.
        signal_variance: the assumed variance of the log-odds of a label.
    """
    direction_stds = public_feature_map.standard_deviations
    weight_variances = signal_variance * direction_stds / direction_stds.sum()
    weight_variances /= np.square(public_features[:, :-1]).mean(axis=0)
    weight_variances = np.append(weight_variances, weight_variances.mean())
    axis_columns = feature_axes.axes
    return np.asarray(np.square(axis_columns).T @ weight_variances)
