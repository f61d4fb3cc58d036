"""Small private records of teachers, questions of rounds, and questions that kill the worker that answers them.

In each round of a release, teachers are asked for a sum of votes on the current student. Worker processes import this
module, so it loads no library but numpy and modules of `pate` that need no other.
"""

import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pate.array_types import FloatArray, IntArray
from pate.votes.clipped_moments import ClippedMoments, Floats
from pate.votes.label_gaps import labels_with_gaps
from pate.votes.public_pca import PublicPCA
from pate.votes.round_records import RoundRecords
from pate.votes.round_votes import RoundQuestion

NUM_LABELS = 3
TEACHER_SIZES = (1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 7, 7, 40, 70)
"""The number of records of each teacher: single, few and many."""


def records_of(
    teacher_sizes: tuple[int, ...] = TEACHER_SIZES,
    *,
    are_teachers_weighted: bool = False,
    labels_have_gaps: bool = False,
) -> RoundRecords:
    """Returns records of teachers with the given numbers of records, in random order.

    With `labels_have_gaps`, about half of the labels are known.
    """
    rng = np.random.default_rng(0)
    teacher_of = rng.permutation(np.repeat(np.arange(len(teacher_sizes)), teacher_sizes))
    pool = rng.normal(size=(60, 4)).astype(np.float32)
    inputs = rng.normal(size=(len(teacher_of), 4)).astype(np.float32)
    labels = rng.random(size=(len(teacher_of), NUM_LABELS)) < 0.4
    known = np.random.default_rng(2).random(labels.shape) < 0.5 if labels_have_gaps else None
    return RoundRecords(
        inputs=inputs,
        labels=labels_with_gaps(labels, known_label_mask=known),
        teacher_of=teacher_of,
        num_teachers=len(teacher_sizes),
        public_pca=PublicPCA.fit(pool, max_directions=4),
        records_per_teacher=2.0,
        teacher_weights=rng.random(len(teacher_sizes)) if are_teachers_weighted else None,
    )


def question_of(
    round_records: RoundRecords, *, vote_clip: float = 0.4, student_weight_std: float = 1.0
) -> RoundQuestion:
    """Returns the question of a round, whose student has random weights of the given standard deviation.

    The vote of a teacher is cut to the length `vote_clip`.
    """
    rng = np.random.default_rng(1)
    return RoundQuestion(
        student_weights=student_weight_std
        * rng.normal(size=(round_records.num_features, NUM_LABELS)),
        label_scale=np.array([1.0, 0.5, 2.0]),
        moment_clipping=ClippedMoments(clip=vote_clip, num_teachers=round_records.num_teachers),
    )


@dataclass(frozen=True)
class DeadlyMoments(ClippedMoments):
    """A clipping of votes that kills the process that sums votes of teachers with one record.

    It kills always, or only once if it has a marker file.
    """

    marker_file: str = ""

    def sum_of_single(
        self, features: Floats, *, residuals: FloatArray, teacher_weights: FloatArray | float = 1.0
    ) -> IntArray:
        """Returns the sum, or kills this process."""
        if not (self.marker_file and Path(self.marker_file).exists()):
            if self.marker_file:
                Path(self.marker_file).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().sum_of_single(features, residuals=residuals, teacher_weights=teacher_weights)


def deadly_question(question: RoundQuestion, marker_file: str = "") -> RoundQuestion:
    """Returns a question that kills the worker that answers it, only once if `marker_file` names a file."""
    moment_clipping = question.moment_clipping
    return replace(
        question,
        moment_clipping=DeadlyMoments(
            clip=moment_clipping.clip,
            num_teachers=moment_clipping.num_teachers,
            marker_file=marker_file,
        ),
    )
