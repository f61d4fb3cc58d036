"""One matrix of votes of `CenteredVotes`: the sum of all teachers' votes minus a center, clipped, with noise.

The center is a public or released guess of the mean vote, such as the prevalence of each label. A teacher's votes on
all queries and labels, minus the center, are one vector. This vector is short if the center is near the votes, and a
longer vector is scaled down to the clip (`ClippedSum`). So one teacher moves the sum by little, and the noise that
hides a teacher is small beside the sum of many.

The mean vote without noise is nearly a matrix of low rank, because similar queries get similar votes. So it is
estimated from the noisy mean. The mean is projected on a public span in which all votes lie, if there is one, and
singular values are shrunk. A threshold for each label then turns the estimate into labels that are as frequent as the
center.

Source: docs/proofs/centered_votes.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from pate.accounting import Adjacency, Event
from pate.aggregators.aggregator import Rng
from pate.aggregators.centered_release import CenteredRelease
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.errors import InvalidValue
from pate.mechanisms.noise.rounded_gaussian import RoundedGaussian
from pate.votes.clipping import ClippedSum
from pate.votes.recipe import Recipe
from pate.votes.shape import VoteShape
from pate.votes.shrinkage import shrink_singular_values
from pate.votes.source import CenterableVotes


@dataclass(frozen=True, kw_only=True, eq=False)  # a generated __eq__ fails on arrays
class CenteredMatrix:
    """The computation of a `CenteredRelease` around a known center, used by `CenteredVotes`.

    Formal guarantee: the center, the clip, the span and the weights are public, or were released and charged before.
    The sum with its noise costs one Gaussian event of `noise_multiplier`, which the caller charges before the release
    is shown.

    Attributes:
        noise_multiplier: standard deviation of the noise over sensitivity, > 0.
        center: float64 `[num_queries, num_labels]`, `[num_labels]` or a number `[]`.
        clip: the largest length of a teacher's votes minus the center; None for `clip_factor` times the usual length,
            that of bits drawn with the center as probabilities.
        clip_factor: multiplies the usual length, > 0; read only if `clip` is None.
        span_basis: an orthonormal basis `[num_queries, rank]`, in whose span each teacher's votes on each label lie;
            None if there is none.
        teacher_weights: `[num_teachers]` in [0, 1], the weight of each teacher's votes; None for 1.
        adjacency: the adjacency of the aggregator.
        recipe: the tuned constants.
    """

    noise_multiplier: float
    center: FloatArray
    clip: float | None
    clip_factor: float
    span_basis: FloatArray | None
    teacher_weights: FloatArray | None
    adjacency: Adjacency
    recipe: Recipe

    @staticmethod
    def require_fits(vote_shape: VoteShape) -> None:
        """Raises `InvalidValue` if there are too many queries for an exact sum of the votes of all teachers."""
        max_queries = ClippedSum.most_queries(vote_shape.num_teachers, vote_shape.num_labels)
        if vote_shape.num_queries > max_queries:
            rule = f"at most {max_queries}, as one exact sum of {vote_shape.num_teachers:,} teachers holds no more"
            raise InvalidValue("num_queries", vote_shape.num_queries, rule=rule)

    def clipped_sum(self, matrix_shape: tuple[int, ...]) -> ClippedSum:
        """Returns the mechanism that clips and sums votes of shape (num_queries, num_labels).

        Without a `clip`, the clip is `clip_factor` sqrt(sum c (1 - c)) over all entries c of the center. They are first
        cut to [f, 1 - f], where f is the recipe's `center_floor`. The root is the usual length around the center of
        bits that are drawn with probabilities c.
        """
        clip = self.clip
        if clip is None:
            center = self.recipe.cut_to_floor(self._broadcast_center(matrix_shape))
            clip = self.clip_factor * math.sqrt(float((center * (1 - center)).sum()))
        num_queries, num_labels = matrix_shape
        return ClippedSum(clip=clip, sum_shape=(num_queries, num_labels), adjacency=self.adjacency)

    def summarize(self, votes: CenterableVotes) -> IntArray:
        """Returns the sum over teachers of the clipped differences votes - center, `[num_queries, num_labels]`.

        The sum is in whole steps, the unit to which differences are rounded (`ClippedSum.step`).

        Args:
            votes: the private votes.
        """
        matrix_shape = (votes.num_queries, votes.num_labels)
        blocks = votes.votes_around(
            self.center, noise_multiplier=self.noise_multiplier, recipe=self.recipe
        )
        return self.clipped_sum(matrix_shape).total(
            blocks,
            center=self._broadcast_center(matrix_shape),
            num_teachers=votes.num_teachers,
            teacher_weights=self.teacher_weights,
        )

    def cached_summary(self, votes: CenterableVotes) -> IntArray:
        """Returns `summarize(votes)`, which the votes keep in memory.

        A release and the release without noise both read the sum, each by a mechanism of its own. The two mechanisms
        are equal, so the sum is computed once.

        Args:
            votes: the private votes, which have the weights of this mechanism.
        """
        # Two things are not in `summary_key`: the weights, which the votes determine, and the span, on which the sum
        # does not depend.
        summary_key = (
            "summary",
            self.noise_multiplier,
            self.clip,
            self.clip_factor,
            self.adjacency,
            self.recipe,
            self.center.tobytes(),
        )
        return np.asarray(votes.cached(summary_key, compute=partial(self.summarize, votes)))

    def noisy_release(
        self, summary: IntArray, *, event: Event, num_teachers: int, rng: Rng
    ) -> CenteredRelease:
        """Returns the release of a sum plus noise, which is drawn here.

        Args:
            summary: `[num_queries, num_labels]`, the sum of the clipped votes in steps.
            event: the price of the whole release, which the release states.
            num_teachers: the declared number of teachers.
            rng: the source of the noise.
        """
        std_in_steps = self.noise_multiplier * self.clipped_sum(summary.shape).l2_sensitivity
        noise_in_steps = RoundedGaussian(std=std_in_steps).sample(summary.shape, rng)
        return self.release_from_sum(
            summary + noise_in_steps,
            std_in_steps=std_in_steps,
            event=event,
            num_teachers=num_teachers,
        )

    def release_from_sum(
        self,
        noisy_sum: IntArray,
        *,
        std_in_steps: float,
        event: Event,
        num_teachers: int,
    ) -> CenteredRelease:
        """Returns the release computed from a noisy sum, which is public if it has noise.

        Args:
            noisy_sum: `[num_queries, num_labels]`, the sum of the clipped votes plus noise, in steps.
            std_in_steps: the standard deviation of the noise in steps; 0 for no noise.
            event: the price of the whole release, which the release states.
            num_teachers: the declared number of teachers.
        """
        matrix_shape = noisy_sum.shape
        total_weight = (
            num_teachers if self.teacher_weights is None else float(self.teacher_weights.sum())
        )
        value_of_step = self.clipped_sum(matrix_shape).step / total_weight
        center = self._broadcast_center(matrix_shape)
        noisy_residuals = np.asarray(noisy_sum * value_of_step, dtype=np.float64)
        low_rank_residual = self._low_rank_part(
            noisy_residuals, noise_std=std_in_steps * value_of_step
        )
        denoised_scores = low_rank_residual + center
        # A label goes to as many queries as the center expects: those with the largest denoised scores.
        num_expected_queries = np.rint(center.clip(0, 1).sum(axis=0)).astype(np.int64)
        labels = _highest_scores(
            denoised_scores,
            queries_per_label=num_expected_queries,
            tie_breakers=noisy_residuals,
        )
        return CenteredRelease(
            labels=labels,
            answered=np.ones(len(denoised_scores), dtype=np.bool_),
            event=event,
            adjacency=self.adjacency,
            scores=center + noisy_residuals,
            noise_std=std_in_steps * value_of_step,
            center=center,
            num_directions=self.num_directions,
            recipe=self.recipe,
            probabilities=denoised_scores.clip(0, 1) if self._has_public_answers else None,
        )

    @property
    def num_directions(self) -> int | None:
        """The number of directions of the public span; None without a span."""
        return None if self.span_basis is None else self.span_basis.shape[1]

    @property
    def _has_public_answers(self) -> bool:
        """Whether the center has numbers in [0, 1] for each query, `[num_queries, num_labels]`: public probabilities.

        The center plus the low-rank estimate then estimates probabilities, too.
        """
        return self.center.ndim == 2 and bool(((self.center >= 0) & (self.center <= 1)).all())

    def _broadcast_center(self, matrix_shape: tuple[int, ...]) -> FloatArray:
        """Returns the center repeated for all queries and labels, float64 `[num_queries, num_labels]`.

        Raises `InvalidValue` if the center has another number of queries or labels than `matrix_shape`, which is
        (num_queries, num_labels).
        """
        try:
            return np.broadcast_to(self.center, matrix_shape).copy()
        except ValueError as error:
            rule = f"{matrix_shape}, its last axis, or a number"
            raise InvalidValue("center.shape", self.center.shape, rule=rule) from error

    def _low_rank_part(self, noisy_residuals: FloatArray, *, noise_std: float) -> FloatArray:
        """Returns an estimate of low rank of the `noisy_residuals` without their noise, `[num_queries, num_labels]`.

        If there is a public span, the estimate lies in it.

        Args:
            noisy_residuals: `[num_queries, num_labels]`, the mean over teachers of the clipped differences votes -
                center, with noise.
            noise_std: standard deviation of the noise in each entry.
        """
        if self.span_basis is None:
            return shrink_singular_values(noisy_matrix=noisy_residuals, noise_std=noise_std)
        # The basis is orthonormal, so the noise of each coordinate has the same standard deviation.
        coordinates_in_span = shrink_singular_values(
            noisy_matrix=self.span_basis.T @ noisy_residuals, noise_std=noise_std
        )
        return np.asarray(self.span_basis @ coordinates_in_span)


def _highest_scores(
    scores: FloatArray, *, queries_per_label: IntArray, tie_breakers: FloatArray
) -> BoolArray:
    """Returns which queries have the highest scores of each label, bool `[num_queries, num_labels]`.

    Args:
        scores: `[num_queries, num_labels]`.
        queries_per_label: how many queries to choose for each label, `[num_labels]`.
        tie_breakers: `[num_queries, num_labels]`; among equal scores the larger one is chosen.
    """
    queries_from_highest = np.lexsort((-tie_breakers, -scores), axis=0)
    is_chosen_place = np.arange(len(scores))[:, None] < queries_per_label
    is_chosen_query = np.zeros(scores.shape, dtype=np.bool_)
    np.put_along_axis(is_chosen_query, queries_from_highest, is_chosen_place, axis=0)
    return is_chosen_query
