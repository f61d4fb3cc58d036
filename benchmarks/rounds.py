"""Round of centered votes: its work beyond the matrix products that any gradient on the same records needs."""

from __future__ import annotations

import numpy as np

from benchmarks.jobs import NUM_LABELS, Job
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.convex_votes import ConvexVotes
from pate.votes.moment_votes import MomentVotes
from pate.votes.public_pca import PublicPCA
from pate.votes.recipe import DEFAULT_RECIPE
from pate.votes.round_records import RoundRecords
from pate.votes.round_sums import ThreadSums
from pate.votes.round_votes import RoundQuestion

_RECORDS = 60_000
_INPUTS = 128
_TEACHERS = 400
# A large data set, whose noise allows components of a kernel.
_LARGE_RECORDS = 1_000_000
_LARGE_INPUTS = 64
_LARGE_LABELS = 20
_LARGE_PUBLIC = 3000
_LARGE_DIRECTIONS = 9000  # more than a pool of this size gives
_BLOCK_ROWS = 512


def round_jobs() -> list[Job]:
    """Returns rounds over about as many records, inputs and labels as WordNet-40 has, and one over a million."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(_RECORDS, _INPUTS)).astype(np.float32)
    groups = np.arange(_RECORDS)
    labels = rng.random((_RECORDS, NUM_LABELS)) < 0.1
    public_pca = PublicPCA.fit(inputs[:10_000], max_directions=_INPUTS)
    moments = MomentVotes(
        inputs=inputs,
        labels=labels,
        teacher_of=groups,
        num_teachers=_RECORDS,
        public_pca=public_pca,
        public_inputs=inputs[:1000],
        records_per_teacher=1.0,
    )
    convex = ConvexVotes(
        inputs=inputs,
        labels=labels,
        teacher_of=groups,
        num_teachers=_RECORDS,
        public_pca=public_pca,
        public_inputs=inputs[:1000],
        records_per_teacher=1.0,
        learner_of_group=groups % _TEACHERS,
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
        _large_round(),
    ]


def _large_round() -> Job:
    """Returns a round of a million teachers with one record each, whose features lie in a scratch file."""
    rng = np.random.default_rng(2)
    inputs = rng.normal(size=(_LARGE_RECORDS, _LARGE_INPUTS)).astype(np.float32)
    recipe = DEFAULT_RECIPE
    public_pca = PublicPCA.fit(
        rng.normal(size=(_LARGE_PUBLIC, _LARGE_INPUTS)),
        max_directions=_LARGE_DIRECTIONS,
        ridge=recipe.ridge_in_rounds,
        kernel_from_multiple=recipe.kernel_from,
    )
    records = RoundRecords(
        inputs=inputs,
        labels=rng.random((_LARGE_RECORDS, _LARGE_LABELS)) < 0.1,
        teacher_of=np.arange(_LARGE_RECORDS),
        num_teachers=_LARGE_RECORDS,
        public_pca=public_pca,
        records_per_teacher=1.0,
    )
    weights = rng.normal(size=(records.num_features, _LARGE_LABELS)) * 0.05
    question = RoundQuestion(
        student_weights=weights,
        label_scale=np.ones(_LARGE_LABELS),
        moment_clipping=ClippedMoments(clip=1.0, num_teachers=_LARGE_RECORDS),
    )
    sums = ThreadSums(records)
    block = rng.normal(size=(_BLOCK_ROWS, records.num_features))

    def two_products() -> None:
        for _ in range(0, _LARGE_RECORDS, _BLOCK_ROWS):
            (block @ weights).T @ block

    return Job(
        name=f"a round, {_LARGE_RECORDS:,} x {_LARGE_INPUTS} x {_LARGE_LABELS}, {records.num_features} features",
        run=lambda: sums.total(question),
        floor=two_products,
        floor_name="two products in doubles, of a block in the cache",
        left_out="reading the file, bits to residuals, clips, grid",
        rounds=3,
    )


def _round(name: str, votes: MomentVotes, left_out: str) -> Job:
    """Returns the job of one round over the given votes."""
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(votes.num_features, NUM_LABELS)) * 0.05
    scale = np.ones(NUM_LABELS)
    clipped = ClippedMoments(clip=1.0, num_teachers=votes.num_teachers)
    question = RoundQuestion(weights, label_scale=scale, moment_clipping=clipped)
    features = rng.normal(size=(_RECORDS, votes.num_features))
    votes.total(question)  # features are computed once for all rounds

    return Job(
        name=f"a round, {_RECORDS:,} x {_INPUTS} x {NUM_LABELS}, {name}",
        run=lambda: votes.total(question),
        floor=lambda: features.T @ (features @ weights),
        floor_name="two products in doubles, of features with weights and with residuals",
        left_out=left_out,
        rounds=5,
    )
