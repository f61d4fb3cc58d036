"""Joint selection: the classes of sequences against their definition, and the law of a draw."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from pate.accounting import BoundedRangeEvent, PureDpEvent
from pate.mechanisms import JointTopK, PermuteAndFlipJointTopK
from pate.mechanisms.joint import JointClasses
from pate.mechanisms.noise import NOISES
from pate.mechanisms.order_laws import ordered_law
from pate.validation import InvalidValue

Sequence = tuple[int, ...]


def losses_by_definition(counts: np.ndarray, k: int) -> dict[Sequence, int]:
    best = sorted(counts.tolist(), reverse=True)
    return {s: max(best[i] - int(counts[s[i]]) for i in range(k)) for s in permutations(range(len(counts)), k)}


def random_instances(number: int) -> list[tuple[np.ndarray, int]]:
    rng = np.random.default_rng(0)
    sizes = [int(rng.integers(1, 6)) for _ in range(number)]
    return [(rng.integers(0, 5, size), int(rng.integers(1, size + 1))) for size in sizes]


def test_class_counts_agree_with_all_sequences() -> None:
    for counts, k in random_instances(150):
        expected = Counter(losses_by_definition(counts, k).values())
        assert JointTopK(k=k, epsilon=1.0).class_counts(counts) == dict(expected)
        assert np.exp(JointClasses.of(counts, k).log_sizes).sum() == pytest.approx(sum(expected.values()))


def test_members_of_a_class_have_its_loss_and_are_uniform() -> None:
    rng = np.random.default_rng(1)
    counts, k = np.array([3, 0, 3, 1]), 3
    losses = losses_by_definition(counts, k)
    classes = JointClasses.of(counts, k)
    seen: set[Sequence] = set()
    for place in np.flatnonzero(np.isfinite(classes.log_sizes)):
        members = Counter(tuple(classes.member(int(place), rng).tolist()) for _ in range(2_000))
        size = round(np.exp(classes.log_sizes[place]))
        assert len(members) == size
        assert max(abs(n - 2_000 / size) for n in members.values()) < 6 * np.sqrt(2_000 / size)
        assert {losses[member] for member in members} == {int(classes.losses[place])}
        assert not seen & members.keys()
        seen |= members.keys()
    assert seen == losses.keys()


def test_class_counts_are_exact_far_beyond_floating_point() -> None:
    counts = np.arange(400)
    sizes = JointTopK(k=40, epsilon=1.0).class_counts(counts)
    total = 1
    for factor in range(361, 401):
        total *= factor
    assert sum(sizes.values()) == total


def test_a_large_instance_is_drawn() -> None:
    counts = np.random.default_rng(0).permutation(1000) * 20
    for kind in (JointTopK, PermuteAndFlipJointTopK):
        outcome = kind(k=50, epsilon=100.0)(counts, rng=np.random.default_rng(1))
        assert outcome.indices.tolist() == np.argsort(-counts)[:50].tolist()


def test_permute_and_flip_is_the_noisy_maximum_over_sequences() -> None:
    counts = np.array([2, 1, 1])
    mechanism = PermuteAndFlipJointTopK(k=2, epsilon=3.0)
    losses = losses_by_definition(counts, 2)
    values = -mechanism.weight * np.array(list(losses.values()), dtype=float)
    law = ordered_law(values, 1, NOISES["exponential"])
    for place, sequence in enumerate(losses):
        assert mechanism.distribution(counts)[sequence] == pytest.approx(law[(place,)], rel=1e-10)


def test_prices() -> None:
    assert JointTopK(k=7, epsilon=2.0).event == BoundedRangeEvent(2.0)
    assert JointTopK(k=7, rho=0.5).event == BoundedRangeEvent(2.0)
    assert PermuteAndFlipJointTopK(k=7, epsilon=2.0).event == PureDpEvent(2.0)
    assert JointTopK(k=7, epsilon=2.0).weight == 0.5
    assert PermuteAndFlipJointTopK(k=7, epsilon=2.0, adjacency="add_remove").weight == 1.0


def test_counts_are_checked_before_classes_are_counted() -> None:
    with pytest.raises(InvalidValue, match="k=3: expected at most the number of counts, 2"):
        JointTopK(k=3, epsilon=1.0).class_counts(np.array([1, 2]))
