"""One lucky coin of many, both ways, against permute-and-flip's exact distribution; another scale is noticed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from pate.mechanisms.noise.kinds import exponential_argmax
from pate.mechanisms.permute_and_flip import lucky_place, thinned
from tests.statistical.chi_square import p_value

ACCEPTED, REJECTED = 1e-4, 1e-9
DENSE = np.array([0, 1, 1, 2, 4, 4, 5, 9])
SPARSE = np.concatenate([[0, 3, 6, 9, 14], np.full(395, 19), np.full(600, 60), np.full(60, 210)])


@pytest.mark.slow
@pytest.mark.parametrize(("numbers", "scale"), [(DENSE, 3.0), (SPARSE, 5.0)], ids=["in random order", "thinned"])
def test_the_lucky_one_follows_the_exact_distribution_of_its_number(numbers: np.ndarray, scale: float) -> None:
    rng, alive = np.random.default_rng(5), np.ones(len(numbers), dtype=np.bool_)
    alive[[0, 3]] = False  # picked before
    living = np.flatnonzero(alive)
    drawn = [lucky_place(numbers, 1, alive, scale, rng) for _ in range(2_500)]
    assert alive[drawn].all()
    found = Counter((int(numbers[place]),) for place in drawn)

    def expected(scale: float) -> dict[tuple[int], float]:
        chances: Counter[tuple[int]] = Counter()
        for place, chance in zip(living, exponential_argmax(-(numbers[living] - numbers[1]) / scale), strict=True):
            chances[(int(numbers[place]),)] += float(chance)
        return dict(chances)

    assert p_value(found, expected(scale)) > ACCEPTED
    assert p_value(found, expected(1.4 * scale)) < REJECTED
    same = [drawn.count(place) for place in np.flatnonzero(numbers == (4 if scale == 3.0 else 19))[:40].tolist()]
    assert chisquare(same).pvalue > ACCEPTED


@pytest.mark.parametrize("level", [1, 5, 8])
def test_thinning_leaves_each_place_with_its_share(level: int) -> None:
    rng, count, times = np.random.default_rng(level), 3_001, 40
    found = [thinned(count, level, rng) for _ in range(times)]
    for places in found:
        assert (np.diff(places) > 0).all()
        assert len(places) == 0 or 0 <= places[0] <= places[-1] < count
    total = sum(map(len, found))
    assert binomtest(total, count * times, 0.5**level).pvalue > ACCEPTED
    assert binomtest(total, count * times, 1.3 * 0.5**level).pvalue < ACCEPTED
    late = sum(int((places >= count // 2).sum()) for places in found)
    assert binomtest(late, total, 0.5).pvalue > ACCEPTED


def test_no_place_is_thinned_at_level_0() -> None:
    assert thinned(700, 0, np.random.default_rng(0)).tolist() == list(range(700))
