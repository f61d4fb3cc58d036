"""What trained teachers say of the pool: a part of their votes that chance in their own records does not move."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from pate.votes.clipping import ClippedMoments
from pate.votes.moment_votes import TRUST, MomentVotes, PoolAnswers, beyond_own
from pate.votes.public_pca import PublicPCA

RNG = np.random.default_rng(0)
POOL = RNG.normal(size=(3000, 4)).astype(np.float32)
OWN = RNG.normal(size=(20, 4)).astype(np.float32)
PCA = PublicPCA.of(POOL, 4)
TRUE, STUDENT = RNG.normal(size=(6, 2)), RNG.normal(size=(6, 2)) / 2
WIDE = {"asked": PCA.with_constant(POOL).astype(np.float32), "own": PCA.with_constant(OWN).astype(np.float32)}


def votes_of(labels: np.ndarray, said_of_own: np.ndarray, said_of_pool: np.ndarray) -> np.ndarray:
    """One teacher's vote, in units of features of length 1."""
    beyond = beyond_own(WIDE["own"], said_of_own, labels, WIDE["asked"], said_of_pool)
    votes = MomentVotes(
        inputs=OWN,
        labels=labels,
        teacher_of=np.zeros(len(OWN), dtype=np.int64),
        num_teachers=1,
        directions=PCA,
        public_inputs=POOL,
        records_per_teacher=20.0,
        ask=lambda: PoolAnswers(beyond[None], WIDE["asked"]),
    )
    sums = ClippedMoments(50.0, 1)
    return np.asarray(votes.total(STUDENT, np.ones(2), sums) * sums.step)


def test_a_vote_is_half_against_the_student_and_half_against_the_teacher_itself() -> None:
    labels = RNG.random((20, 2)) < 0.4
    own, pool = RNG.random((20, 2)), RNG.random((3000, 2))
    moved = (own - labels).mean(axis=0)
    student_own, student_pool = expit(WIDE["own"] @ STUDENT), expit(WIDE["asked"] @ STUDENT)
    against_student = WIDE["own"].T @ (labels - student_own) / 20
    against_itself = (
        WIDE["own"].T @ (labels - own + moved) / 20 + WIDE["asked"].T @ (pool - moved - student_pool) / 3000
    )
    expected = (1 - TRUST) * against_student + TRUST * against_itself
    np.testing.assert_allclose(votes_of(labels, own, pool), expected, atol=2e-4)


def test_a_constant_in_confidences_does_not_count() -> None:
    """A threshold that is folded in, or none, give the same vote."""
    labels = RNG.random((20, 2)) < 0.4
    own, pool = RNG.random((20, 2)), RNG.random((3000, 2))
    shift = np.array([0.3, -0.2])
    np.testing.assert_allclose(votes_of(labels, own, pool), votes_of(labels, own + shift, pool + shift), atol=1e-4)


def test_teachers_that_know_vote_with_less_chance() -> None:
    """Over draws of its labels: a vote that says the true probabilities spreads less than one of constants."""
    true, of_pool = expit(3 * WIDE["own"] @ TRUE), expit(3 * WIDE["asked"] @ TRUE)
    wanted = WIDE["asked"].T @ (of_pool - expit(WIDE["asked"] @ STUDENT)) / 3000

    def off(own: NDArray[np.float64], pool: NDArray[np.float64]) -> float:
        rng = np.random.default_rng(1)
        drawn = [votes_of(rng.random((20, 2)) < true, own, pool) for _ in range(50)]
        return float(np.sqrt(np.square(np.array(drawn) - wanted).sum(axis=(1, 2)).mean()))

    knowing, constant = off(true, of_pool), off(np.full_like(true, 0.5), np.full((3000, 2), 0.5))
    assert knowing < 0.9 * constant, (knowing, constant)
