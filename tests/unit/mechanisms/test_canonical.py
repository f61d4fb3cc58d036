"""Canonical top-k: classes of sets against their definition, and the laws of the five kinds of noise."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import comb

import numpy as np
import pytest

from pate.accounting import BoundedRangeEvent, PureDpEvent
from pate.mechanisms import CanonicalTopK
from pate.mechanisms.canonical import CanonicalClasses
from pate.mechanisms.noise import NOISES
from pate.mechanisms.order_laws import ordered_law
from pate.validation import InvalidValue


def loss_by_definition(counts: np.ndarray, chosen: tuple[int, ...], gamma: float) -> float:
    """(1 - gamma) max(best missing, worst present) - gamma worst present, from the set itself."""
    missing = [int(counts[i]) for i in range(len(counts)) if i not in chosen]
    worst = min(int(counts[i]) for i in chosen)
    return (1 - gamma) * max([*missing, worst]) - gamma * worst


@pytest.mark.parametrize("size", range(1, 9))
def test_class_sizes_count_every_set_once(size: int) -> None:
    for k in range(1, size + 1):
        classes = CanonicalClasses.of(size, k)
        sizes = [classes.size(place) for place in range(len(classes.first_missing))]
        assert min(sizes) >= 1
        assert sum(sizes) == comb(size, k)
        np.testing.assert_allclose(classes.log_sizes, np.log(sizes), atol=1e-12)


def test_members_are_uniform_and_all_sets_occur() -> None:
    rng = np.random.default_rng(0)
    classes = CanonicalClasses.of(6, 3)
    seen: set[tuple[int, ...]] = set()
    for place in range(len(classes.first_missing)):
        size = classes.size(place)
        members = Counter(tuple(sorted(classes.member(place, rng).tolist())) for _ in range(1_000))
        assert len(members) == size
        assert max(abs(n - 1_000 / size) for n in members.values()) < 6 * np.sqrt(1_000 / size)
        assert not seen & members.keys()
        seen |= members.keys()
    assert seen == set(combinations(range(6), 3))


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("noise", list(NOISES))
def test_law_is_the_noisy_minimum_of_the_loss_over_all_sets(noise: str, gamma: float) -> None:
    counts = np.array([1, 4, 0, 3])
    mechanism = CanonicalTopK(k=2, epsilon=3.0, noise=noise, gamma=gamma)
    sets = list(combinations(range(4), 2))
    values = np.array([-mechanism.weight * loss_by_definition(counts, chosen, gamma) for chosen in sets])
    expected = ordered_law(values, 1, NOISES[noise])
    law = mechanism.distribution(counts)
    assert law.keys() == set(sets)
    for place, chosen in enumerate(sets):
        assert law[chosen] == pytest.approx(expected[(place,)], rel=1e-9)


def test_a_large_instance_is_drawn() -> None:
    counts = np.random.default_rng(0).permutation(2000) * 100
    outcome = CanonicalTopK(k=60, epsilon=100.0, noise="logistic")(counts, rng=np.random.default_rng(1))
    assert outcome.indices.tolist() == sorted(np.argsort(-counts)[:60].tolist())


def test_prices_and_refusals() -> None:
    assert CanonicalTopK(k=3, epsilon=2.0).event == BoundedRangeEvent(2.0)
    assert CanonicalTopK(k=3, rho=0.5).event == BoundedRangeEvent(2.0)
    assert CanonicalTopK(k=3, epsilon=2.0, noise="laplace").event == PureDpEvent(2.0)
    assert CanonicalTopK(k=3, epsilon=2.0).weight == 1.0
    assert CanonicalTopK(k=3, epsilon=2.0, adjacency="add_remove").weight == 2.0
    for gamma in (-0.1, 1.1, np.nan):
        with pytest.raises(InvalidValue, match=r"gamma=.*: expected a number in \[0, 1\]"):
            CanonicalTopK(k=1, epsilon=1.0, gamma=gamma)
    with pytest.raises(InvalidValue, match="noise=cauchy: expected one of exponential, gumbel, half_logistic"):
        CanonicalTopK(k=1, epsilon=1.0, noise="cauchy")
    with pytest.raises(InvalidValue, match=r"rho=0\.1: expected epsilon with noise=exponential"):
        CanonicalTopK(k=1, rho=0.1, noise="exponential")
