"""Kernel teachers in rounds: what a teacher of several records counts."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from pate.votes import convex_votes
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.convex_votes import convex_fit, steps_to_minimum
from pate.votes.moment_votes import MomentVotes, PoolAnswers, beyond_own
from pate.votes.public_pca import PublicPCA
from pate.votes.recipe import DEFAULT_RECIPE

TRUST = DEFAULT_RECIPE.trust

POOL = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
WEIGHTS = np.random.default_rng(0).normal(size=(6, 2))


def vote(
    inputs: Any, labels: Any, pool: Any, expected: float, student: Any, clip: float, **options: Any
) -> Any:
    """Of one teacher with these records, where so many are expected, in units of features of length 1."""
    at = {
        "teacher_of": np.zeros(len(inputs), dtype=np.int64),
        "num_teachers": 1,
        "records_per_teacher": expected,
    }
    given = options | {"directions": PublicPCA.fit(pool, 4), "public_inputs": pool} | at
    sums = ClippedMoments(clip, 1)
    return (
        MomentVotes(inputs=inputs, labels=labels, **given).total(student, np.ones(2), sums)
        * sums.step
    )


def length(
    size: int, expected: float, *, clip: float = 5.0, alike: bool = False, seed: int = 0
) -> float:
    """Of the vote of one teacher with that many records."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(size, 4)).astype(np.float32)
    labels = rng.random((size, 2)) < 0.5
    if alike:
        inputs[:] = inputs[0]
        labels[:] = labels[0]
    return float(np.linalg.norm(vote(inputs, labels, POOL, expected, WEIGHTS * 0, clip)))


@pytest.mark.parametrize("size", [1, 4, 40])
def test_a_mean_counts_by_the_root_of_how_many_records_it_is_of(size: int) -> None:
    mean = length(size, expected=float(size))
    assert length(size, expected=1.0) == pytest.approx(mean * np.sqrt(size), rel=1e-2)
    assert length(size, expected=9.0 * size) == pytest.approx(mean / 3, rel=1e-2)


def test_votes_of_all_sizes_are_as_long_where_records_are_unrelated() -> None:
    """Where records of a teacher are alike, its vote is longer by the root of their number."""
    unrelated = [
        np.mean([length(size, 4.0, seed=seed) for seed in range(40)]) for size in (1, 4, 40)
    ]
    assert max(unrelated) < 1.1 * min(unrelated)
    alike = [length(size, 4.0, alike=True) for size in (1, 4, 40)]
    np.testing.assert_allclose(np.divide(alike, alike[0]), np.sqrt([1, 4, 40]), rtol=1e-2)


@pytest.mark.parametrize("size", [1, 4, 40])
def test_whatever_it_counts_a_teacher_is_clipped(size: int) -> None:
    assert 0.29 < length(size, expected=1e-6, clip=0.3, alike=True) <= 0.3


RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(3000, 4)).astype(np.float32)
OWN = RNG.normal(size=(20, 4)).astype(np.float32)
TRUE = RNG.normal(size=(6, 2))
STUDENT = RNG.normal(size=(6, 2)) / 2
BESIDE = PublicPCA.fit(PUBLIC, 4).with_constant
WIDE = {"asked": BESIDE(PUBLIC).astype(np.float32), "own": BESIDE(OWN).astype(np.float32)}


def votes_of(labels: np.ndarray, said_of_own: np.ndarray, said_of_pool: np.ndarray) -> Any:
    beyond = beyond_own(WIDE["own"], said_of_own, labels, WIDE["asked"], said_of_pool)
    return vote(
        OWN,
        labels,
        PUBLIC,
        20.0,
        STUDENT,
        50.0,
        ask=lambda: PoolAnswers(beyond[None], WIDE["asked"]),
    )


def test_a_vote_is_half_against_the_student_and_half_against_the_teacher_itself() -> None:
    labels = RNG.random((20, 2)) < 0.4
    own = RNG.random((20, 2))
    pool = RNG.random((3000, 2))
    moved = (own - labels).mean(axis=0)
    student_own = expit(WIDE["own"] @ STUDENT)
    student_pool = expit(WIDE["asked"] @ STUDENT)
    against_student = WIDE["own"].T @ (labels - student_own) / 20
    against_itself = (
        WIDE["own"].T @ (labels - own + moved) / 20
        + WIDE["asked"].T @ (pool - moved - student_pool) / 3000
    )
    expected = (1 - TRUST) * against_student + TRUST * against_itself
    np.testing.assert_allclose(votes_of(labels, own, pool), expected, atol=2e-4)


def test_a_constant_in_confidences_does_not_count() -> None:
    """A threshold that is folded in, or none, give the same vote."""
    labels = RNG.random((20, 2)) < 0.4
    own = RNG.random((20, 2))
    pool = RNG.random((3000, 2))
    shift = np.array([0.3, -0.2])
    np.testing.assert_allclose(
        votes_of(labels, own, pool), votes_of(labels, own + shift, pool + shift), atol=1e-4
    )


def test_teachers_that_know_vote_with_less_chance() -> None:
    """Over draws of its labels: a vote that says the true probabilities spreads less than one of constants."""
    true = expit(3 * WIDE["own"] @ TRUE)
    of_pool = expit(3 * WIDE["asked"] @ TRUE)
    wanted = WIDE["asked"].T @ (of_pool - expit(WIDE["asked"] @ STUDENT)) / 3000

    def off(own: NDArray[np.float64], pool: NDArray[np.float64]) -> float:
        rng = np.random.default_rng(1)
        drawn = [votes_of(rng.random((20, 2)) < true, own, pool) for _ in range(50)]
        return float(np.sqrt(np.square(np.array(drawn) - wanted).sum(axis=(1, 2)).mean()))

    knowing = off(true, of_pool)
    constant = off(np.full_like(true, 0.5), np.full((3000, 2), 0.5))
    assert knowing < 0.9 * constant, (knowing, constant)


SEEDED = np.random.default_rng(0)
FEATURES = SEEDED.normal(size=(60, 4))
FEATURES /= np.linalg.norm(FEATURES, axis=1, keepdims=True)
TARGETS = SEEDED.normal(size=(60, 3)) * SEEDED.exponential(size=(60, 1)) * 3
COUNTS = SEEDED.uniform(0.2, 2, size=60)
LIMITS = SEEDED.uniform(0.5, 2, size=60)


def fitted(features: Any = FEATURES, targets: Any = TARGETS, **changes: Any) -> Any:
    of = {"counts": COUNTS[: len(features)], "limits": LIMITS[: len(features)]}
    given = of | {"ridge": 0.7, "tolerance": 1e-9, "most_steps": 20_000} | changes
    return convex_fit(np.asarray(features), np.asarray(targets), **given)


def loss(flat: Any) -> float:
    weights = flat.reshape(4, 3)
    far = np.linalg.norm(TARGETS - FEATURES @ weights, axis=1)
    huber = np.where(far <= LIMITS, far**2 / 2, LIMITS * far - LIMITS**2 / 2)
    return float(COUNTS @ huber + 0.35 * (weights**2).sum())


def test_it_ends_at_the_minimum_of_hubers_loss() -> None:
    found = minimize(loss, np.zeros(12), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(fitted().ravel(), found.x, atol=1e-6)
    assert (np.linalg.norm(TARGETS - FEATURES @ fitted(), axis=1) > LIMITS).any(), (
        "some records are held back"
    )


def test_without_limits_it_is_ridge_regression() -> None:
    weighted = FEATURES.T * COUNTS
    expected = np.linalg.solve(weighted @ FEATURES + 0.7 * np.eye(4), weighted @ TARGETS)
    np.testing.assert_allclose(fitted(limits=np.full(60, 1e9)), expected, atol=1e-8)


@pytest.mark.parametrize("ridge", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("tolerance", [1e-1, 1e-6])
def test_it_is_as_near_to_the_minimum_as_it_says(ridge: float, tolerance: float) -> None:
    near = fitted(ridge=ridge, tolerance=tolerance)
    exact = fitted(ridge=ridge, tolerance=1e-10)
    assert np.linalg.norm(near - exact) <= tolerance / ridge


@pytest.mark.parametrize("alike", [False, True])
def test_records_of_any_number_and_likeness_are_fitted(alike: bool) -> None:
    """Where the first guess of a step is too long, shorter ones follow."""
    for total in (1, 2, 2000):
        features = np.tile(FEATURES[:1], (total, 1)) if alike else np.resize(FEATURES, (total, 4))
        assert np.isfinite(
            fitted(
                features,
                np.resize(TARGETS, (total, 3)),
                counts=np.full(total, 1.0),
                limits=np.full(total, 0.1),
                ridge=1e-3,
                tolerance=1e-6,
            )
        ).all()


@pytest.mark.parametrize("times", [0.0, 1e9])
def test_as_many_steps_as_are_promised_reach_the_minimum(
    times: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However wrong the guess of the curvature is; the control is a two-hundredth of the steps."""
    monkeypatch.setattr(convex_votes, "_GUESS_MARGIN", times)
    features = FEATURES[:40]
    targets = TARGETS[:40]
    counts = np.full(40, 9.0)
    exact = np.linalg.solve(features.T @ features * 9 + 3 * np.eye(4), features.T @ targets * 9)
    pull = float(9 * np.linalg.norm(targets, axis=1).sum())
    steps = int(steps_to_minimum(pull, curvature=360.0, ridge=3.0, tolerance=1e-9))
    assert steps == math.ceil(121 * math.log(2e9 * pull))

    def far(most_steps: int) -> float:
        return float(
            np.linalg.norm(
                fitted(
                    features,
                    targets,
                    counts=counts,
                    limits=np.full(40, 1e9),
                    ridge=3.0,
                    tolerance=1e-9,
                    most_steps=most_steps,
                )
                - exact
            )
        )

    assert far(steps) <= 1e-9 / 3 < far(steps // 200)


@pytest.mark.parametrize("ridge", [1e-30, 1e308])
def test_numbers_that_doubles_cannot_weigh_against_each_other_end(ridge: float) -> None:
    found = fitted(np.tile(FEATURES[:1], (60, 1)), ridge=ridge, tolerance=1e-300, most_steps=50)
    assert np.isfinite(found).all()
