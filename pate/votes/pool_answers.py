"""The confidences of trained teachers on the public pool, from which votes in rounds are computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pate.array_types import BoolArray, Float32Array, FloatArray, IntArray


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class PoolAnswers:
    """The confidences of trained teachers on the public pool, in the form in which votes need them.

    `pool_excess` holds a difference for each teacher: the mean of features x confidence over rows of the pool, minus
    the mean over the teacher's own records. Before that, the teacher's confidences are shifted by one number for each
    label. The shift makes their mean on the teacher's own records equal to the share of records with the label.

    Attributes:
        pool_excess: float32 `[num_teachers, num_features, num_labels]`, private: the difference of the two means.
        asked_features: float32 `[num_asked, num_features]`, the features of the rows of the pool on which teachers have
            confidences.
        known_shares: `[num_teachers, num_labels]`, private, the share of a teacher's records for which each label is
            known; None if labels have no gaps. Answers on the pool count as much as the teacher's own records do.
    """

    pool_excess: Float32Array
    asked_features: Float32Array
    known_shares: FloatArray | None = None

    def mean_student_products(self, weights: FloatArray) -> Float32Array:
        """Returns the mean of features x the student's probability, `[num_features, num_labels]`.

        The mean is over the rows of the pool that teachers have confidences on.

        Args:
            weights: `[num_features, num_labels]`, the weights of the student.
        """
        # p = (1 + tanh(logit / 2)) / 2
        features = self.asked_features
        half = np.tanh(features @ (weights / 2).astype(np.float32))
        return np.asarray(features.T @ (0.5 * (1 + half)) / len(features))

    def votes(
        self, *, teacher_indices: IntArray, mean_student_products: Float32Array, trust: float
    ) -> FloatArray:
        """Returns the part of the selected teachers' votes that comes from the pool.

        The result is `[num_selected, num_features, num_labels]`. Let t be the trust, and p the student's probabilities.
        The part is t times the mean over the pool of features x (confidence - p), minus t times the mean over the
        teacher's records of features x confidence. If labels have gaps, the mean over the pool is multiplied by the
        known share. The other part of a vote is the mean over the teacher's records of features x (label - (1 - t) p).

        Args:
            teacher_indices: the indices of the selected teachers.
            mean_student_products: `[num_features, num_labels]`, as the method of this name returns it.
            trust: t, the share of p that the teacher's confidences replace, in [0, 1].
        """
        pool_excess = self.pool_excess[teacher_indices].astype(np.float64)
        if self.known_shares is None:
            return np.asarray(trust * (pool_excess - mean_student_products))
        known_shares = self.known_shares[teacher_indices, None]
        return np.asarray(trust * (pool_excess - mean_student_products * known_shares))


def pool_excess_of_teacher(
    *,
    own_features: Float32Array,
    own_confidences: Float32Array,
    own_labels: BoolArray,
    pool_features: Float32Array,
    pool_confidences: Float32Array,
    own_known_label_mask: BoolArray | None = None,
) -> Float32Array:
    """Returns one teacher's row of `PoolAnswers.pool_excess`, float32 `[num_features, num_labels]`.

    Args:
        own_features: `[num_records, num_features]`, of the teacher's records.
        own_confidences: `[num_records, num_labels]`, the teacher's confidences on its records.
        own_labels: bool `[num_records, num_labels]`, the labels of its records.
        pool_features: `[num_asked, num_features]`, of rows of the pool.
        pool_confidences: `[num_asked, num_labels]`, the teacher's confidences on these rows.
        own_known_label_mask: bool `[num_records, num_labels]`, which of the records' labels are known; None for all.
            The mean over the records then has a 0 for unknown labels, and the mean over the pool is multiplied by the
            known share.
    """
    if own_known_label_mask is None:
        mean_confidence_excess = (own_confidences - own_labels).mean(axis=0)
        shifted_confidences = own_confidences - mean_confidence_excess
        known_shares: FloatArray | float = 1.0
    else:
        num_known = np.maximum(own_known_label_mask.sum(axis=0), 1)
        mean_confidence_excess = ((own_confidences - own_labels) * own_known_label_mask).sum(
            axis=0
        ) / num_known
        shifted_confidences = (own_confidences - mean_confidence_excess) * own_known_label_mask
        known_shares = own_known_label_mask.mean(axis=0)
    pool_products = (
        pool_features.T
        @ (pool_confidences - mean_confidence_excess)
        / len(pool_features)
        * known_shares
    )
    own_products = own_features.T @ shifted_confidences / len(own_features)
    return np.asarray(pool_products - own_products, dtype=np.float32)
