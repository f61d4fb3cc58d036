"""Features, the rule for learning, gradients of groups, thresholds: against values worked out another way."""

import numpy as np
import pytest
from scipy.special import expit

from pate.comparison.alternatives.group_gradients import GroupGradients
from pate.comparison.alternatives.noisy_gradient import NoisyGradient
from pate.comparison.alternatives.public_directions import PublicDirections
from pate.comparison.alternatives.schedule import Schedule

RULE = {"clip_factor": 0.5, "signal_variance": 2.0}


def pool(rows: int = 300, width: int = 6) -> np.ndarray:
    """Returns random public inputs `[rows, width]`, whose spread grows with the column."""
    rng = np.random.default_rng(1)
    return (rng.normal(size=(rows, width)) * np.arange(1, width + 1)).astype(np.float32)


def test_more_noise_learns_for_shorter_and_expects_more_error() -> None:
    """The larger the noise, the shorter the learning times and the larger the expected error of the
    best schedule.

    If the signal is in one direction, the expected gain at large noise is over twice as large.
    """
    directions = PublicDirections.fit(pool())
    prevalence = np.array([0.05, 0.3])
    found = [
        Schedule.best(
            directions,
            public_inputs=pool(),
            prevalence=prevalence,
            noise_rate=rate,
            clip_factor=0.5,
            signal_variance=2.0,
        )
        for rate in (1e-8, 1e-5, 1e-2)
    ]
    assert found[0].times.min() > found[1].times.min() > found[2].times.min()
    assert found[0].error < found[1].error < found[2].error <= 2.0 * 1.001
    assert all(10 <= each.num_steps <= 100 for each in found)
    at_best = [
        Schedule.best(
            directions,
            public_inputs=pool(),
            prevalence=prevalence,
            noise_rate=1e-2,
            clip_factor=0.5,
            signal_variance=2.0,
            concentrated=yes,
        )
        for yes in (False, True)
    ]
    assert 2 - at_best[1].error > 2 * (2 - at_best[0].error) > 0  # what a refusal goes by


def test_noise_of_trained_weights_has_the_expected_variance() -> None:
    """Gradient descent runs on noise without any signal: the variance of the scores is the
    schedule's `noise_variance` within 35%.
    """
    rng = np.random.default_rng(0)
    directions = PublicDirections.fit(pool())
    prevalence = np.array([0.2, 0.4])
    rate = 1e-4
    schedule = Schedule.best(
        directions,
        public_inputs=pool(),
        prevalence=prevalence,
        noise_rate=rate,
        clip_factor=0.5,
        signal_variance=2.0,
    )
    features = directions.features(pool(), ridge=schedule.ridge)
    curvature = RULE["clip_factor"] * prevalence * (1 - prevalence)
    weights = np.zeros((400, 8, 2))
    step = schedule.times / schedule.num_steps
    second = features.T @ features / len(features)
    for _ in range(schedule.num_steps):
        noise = np.sqrt(rate * schedule.num_steps) * rng.normal(size=weights.shape)
        weights += step * (noise - curvature * (second @ weights))
    scores = np.einsum("nk,rkl->rnl", features[:, :-1], weights[:, :-1])
    np.testing.assert_allclose(scores.var(axis=(0, 1)), schedule.noise_variance, rtol=0.35)


@pytest.mark.parametrize("num_groups", [5, 20, 60])  # of more records than 8, of a few, of one
def test_gradients_of_groups_are_those_of_a_loop(num_groups: int) -> None:
    """The clipped sum of the groups' mean gradients equals that of a loop over groups of one, a few
    or many records.
    """
    rng = np.random.default_rng(3)
    features = rng.normal(size=(80, 4))
    labels = rng.random(size=(80, 3)) < 0.4
    ids = rng.integers(low=0, high=num_groups, size=80)
    weights = rng.normal(size=(4, 3))
    bias = rng.normal(size=3)
    clip = 0.8
    total = np.zeros((4, 3))
    for group in np.unique(ids):
        rows = ids == group
        gradient = (
            features[rows].T @ (labels[rows] - expit(features[rows] @ weights + bias)) / rows.sum()
        )
        total += gradient * min(1.0, clip / np.linalg.norm(gradient))
    groups = GroupGradients.from_records(features, labels, group_ids=ids)
    np.testing.assert_allclose(groups.clipped_sum(weights, bias, clip), total)


def test_a_group_whose_records_cancel_counts_for_less_than_its_clip() -> None:
    """A group has two records with nearly opposite features: its clipped mean gradient is above 0 and shorter than
    1e-9, the clip.
    """
    features = np.array([[1.0, 0.0], [-1.0, 1e-9]])
    labels = np.zeros((2, 1), bool)
    total = GroupGradients.from_records(features, labels, group_ids=np.zeros(2, int)).clipped_sum(
        np.zeros((2, 1)), bias=np.full(1, 20.0), clip=1e-9
    )
    assert 0 < np.linalg.norm(total) < 1e-9


def test_noise_has_the_std_that_it_says() -> None:
    """The standard deviation of released zeros is the noise multiplier times sensitivity and step,
    about 3.
    """
    noisy = NoisyGradient(clip=0.5, noise_multiplier=3.0, num_units=1000)
    drawn = noisy.release(gradient_sum=np.zeros((200, 50)), rng=np.random.default_rng(0))
    std = 3.0 * noisy.sensitivity(num_entries=drawn.size) * noisy.step(num_entries=drawn.size)
    assert drawn.std() == pytest.approx(std, rel=0.03)
    assert std == pytest.approx(3.0, rel=1e-5)
