"""The votes of teachers in rounds, on the errors of a student that is public in each round."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from pate.array_types import Float32Array, FloatArray, IntArray
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.weighted import Weighted


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class RoundQuestion:
    """The public question of a round, which all teachers answer with a clipped vote.

    Attributes:
        student_weights: `[num_features, num_labels]`, the weights of the student.
        label_scale: `[num_labels]`, the factor of each label's residuals before the clip.
        moment_clipping: the clip and the grid of the sum.
    """

    student_weights: FloatArray
    label_scale: FloatArray
    moment_clipping: ClippedMoments


class RoundVotes(Weighted):
    """The private votes of all teachers in rounds, whether the teachers are in this process or elsewhere.

    Attributes:
        public_features: float32 `[num_public, num_features]`, the features of the public pool, of length 1.
        feature_variances: `[num_features - 1]`, the variance that each feature but the constant is expected to explain
            (`PublicPCA.feature_variances`).
        records_per_teacher: the approximate number of records of a teacher, public.
        public_row_weights: `[num_public]`, > 0, public: the weights of the pool's rows in a mean over the pool. They
            make all public groups count alike where each teacher has one private group. None where all rows count
            alike.
    """

    public_features: Float32Array
    feature_variances: FloatArray
    records_per_teacher: float
    public_row_weights: FloatArray | None = None

    @property
    def num_features(self) -> int:
        """The number of public features, the constant included."""
        return int(self.public_features.shape[1])

    @abstractmethod
    def total(self, question: RoundQuestion) -> IntArray:
        """Returns the sum of the clipped votes on the errors of a student, `[num_features, num_labels]`.

        Each vote counts with its teacher's weight. The sum is a whole number of grid steps (`ClippedMoments.step`).
        """

    def open(self) -> None:
        """Reaches the machines that sum the votes, so that a cluster that is away is an error before any charge."""

    def close(self) -> None:
        """Releases memory, files and processes; they are made again if another round is asked."""
