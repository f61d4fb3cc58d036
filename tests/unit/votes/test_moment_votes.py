"""Kernel teachers in rounds: what a teacher of several records counts."""

import numpy as np
import pytest

from pate.votes.clipping import ClippedMoments
from pate.votes.moment_votes import MomentVotes
from pate.votes.public_pca import PublicPCA

POOL = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
PCA = PublicPCA.of(POOL, 4)
WEIGHTS = np.random.default_rng(0).normal(size=(6, 2))


def length(size: int, expected: float, *, clip: float = 5.0, alike: bool = False, seed: int = 0) -> float:
    """Of the vote of one teacher with that many records."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(size, 4)).astype(np.float32)
    labels = rng.random((size, 2)) < 0.5
    if alike:
        inputs[:], labels[:] = inputs[0], labels[0]
    votes = MomentVotes(
        inputs=inputs,
        labels=labels,
        teacher_of=np.zeros(size, dtype=np.int64),
        num_teachers=1,
        directions=PCA,
        public_inputs=POOL,
        records_per_teacher=expected,
    )
    sums = ClippedMoments(clip, 1)
    return float(np.linalg.norm(votes.total(WEIGHTS * 0, np.ones(2), sums)) * sums.step)


@pytest.mark.parametrize("size", [1, 4, 40])
def test_a_mean_counts_by_the_root_of_how_many_records_it_is_of(size: int) -> None:
    mean = length(size, expected=float(size))
    assert length(size, expected=1.0) == pytest.approx(mean * np.sqrt(size), rel=1e-2)
    assert length(size, expected=9.0 * size) == pytest.approx(mean / 3, rel=1e-2)


def test_votes_of_all_sizes_are_as_long_where_records_are_unrelated() -> None:
    """Where records of a teacher are alike, its vote is longer by the root of their number."""
    unrelated = [np.mean([length(size, 4.0, seed=seed) for seed in range(40)]) for size in (1, 4, 40)]
    assert max(unrelated) < 1.1 * min(unrelated)
    alike = [length(size, 4.0, alike=True) for size in (1, 4, 40)]
    np.testing.assert_allclose(np.divide(alike, alike[0]), np.sqrt([1, 4, 40]), rtol=1e-2)


@pytest.mark.parametrize("size", [1, 4, 40])
def test_whatever_it_counts_a_teacher_is_clipped(size: int) -> None:
    assert 0.29 < length(size, expected=1e-6, clip=0.3, alike=True) <= 0.3
