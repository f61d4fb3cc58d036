"""Round of centered votes: its work beyond the matrix products that any gradient on the same records needs."""

from __future__ import annotations

import numpy as np

from benchmarks.jobs import NUM_LABELS, Job
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.convex_votes import ConvexVotes
from pate.votes.moment_votes import MomentVotes
from pate.votes.public_pca import PublicPCA
from pate.votes.round_votes import RoundQuestion

_RECORDS = 60_000
_INPUTS = 128
_TEACHERS = 400


def round_jobs() -> list[Job]:
    """Returns rounds with as many records, inputs and labels as WordNet-40 has."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(_RECORDS, _INPUTS)).astype(np.float32)
    groups = np.arange(_RECORDS)
    labels = rng.random((_RECORDS, NUM_LABELS)) < 0.1
    directions = PublicPCA.fit(inputs[:10_000], _INPUTS)
    moments = MomentVotes(
        inputs=inputs,
        labels=labels,
        teacher_of=groups,
        num_teachers=_RECORDS,
        directions=directions,
        public_inputs=inputs[:1000],
        records_per_teacher=1.0,
    )
    convex = ConvexVotes(
        inputs=inputs,
        labels=labels,
        teacher_of=groups,
        num_teachers=_RECORDS,
        directions=directions,
        public_inputs=inputs[:1000],
        records_per_teacher=1.0,
        learner_of=groups % _TEACHERS,
        num_learners=_TEACHERS,
        penalty=10.0,
    )
    return [
        _round(
            name="one kernel teacher per record",
            votes=moments,
            left_out="bits to residuals, clips, grid",
        ),
        _round(
            f"{_TEACHERS} convex teachers",
            votes=convex,
            left_out="some ten steps of training, in doubles",
        ),
    ]


def _round(name: str, votes: MomentVotes, left_out: str) -> Job:
    """Returns the job of one round over the given votes."""
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(votes.width, NUM_LABELS)) * 0.05
    scale = np.ones(NUM_LABELS)
    clipped = ClippedMoments(clip=1.0, num_teachers=votes.num_teachers)
    question = RoundQuestion(weights, label_scale=scale, clipped_moments=clipped)
    features = rng.normal(size=(_RECORDS, votes.width))
    votes.total(question)  # features are computed once for all rounds

    return Job(
        name=f"a round, {_RECORDS:,} x {_INPUTS} x {NUM_LABELS}, {name}",
        run=lambda: votes.total(question),
        floor=lambda: features.T @ (features @ weights),
        floor_name="two products in doubles, of features with weights and with residuals",
        left_out=left_out,
        rounds=5,
    )
