"""The data that a student learns from: public inputs, and what was released for them."""

from __future__ import annotations

from dataclasses import dataclass

from pate.array_types import BoolArray, Float32Array, FloatArray
from pate.votes.recipe import DEFAULT_RECIPE, Recipe


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class NoisyScores:
    """Real numbers that were released for queries, with the size of their noise.

    Attributes:
        values: float64 `[num_queries, num_labels]`, scores minus the center.
        noise_std: standard deviation of the noise in each value.
        prevalence: float64 `[num_labels]`, the public or released prevalence of each label.
        num_directions: dimension of the public span of vectors over queries in which the votes on each label lie; None
            where they are not confined to one.
        center: float64 `[num_queries, num_labels]`, the public answer to each query, which a student learns too; None
            where the center is the same for all queries.
    """

    values: FloatArray
    noise_std: float
    prevalence: FloatArray
    num_directions: int | None = None
    center: FloatArray | None = None


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class TrainingSet:
    """The data that a student learns from: public inputs, and the answers released for them.

    Attributes:
        inputs: float32 `[num_answered, ...]`, the inputs of the answered queries.
        labels: bool `[num_answered, num_labels]`, the released labels.
        scores: the released scores of the same queries; None for a release of labels alone.
        weights: float64 `[num_features, num_labels]`, the released weights of a student; None for a release without
            them. Features times weights are logits; the features are `PublicPCA.with_constant` of the directions of the
            public pool.
        recipe: the constants of the aggregator that released scores or weights.
        known: bool `[num_answered, num_labels]`, which labels are known; None where all are, as in every release. True
            labels, which reference models learn from, may have gaps.
    """

    inputs: Float32Array
    labels: BoolArray
    scores: NoisyScores | None = None
    weights: FloatArray | None = None
    recipe: Recipe = DEFAULT_RECIPE
    known: BoolArray | None = None
