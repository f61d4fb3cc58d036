"""Permute-and-flip, which draws by coins for each count in random order, follows exact distributions."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from pate.mechanisms import PeelingTopK, PermuteAndFlipTopK
from pate.mechanisms.noise.exponential_coins import draw_lucky_place, draw_thinned_places
from pate.mechanisms.noise.kinds import UNIT_NOISES
from pate.mechanisms.noise.maxima import exponential_argmax, largest_distribution
from tests.statistical.chi_square import chi_square_p_value

DRAWS = 8_000
ACCEPTED = 1e-4
REJECTED = 1e-12
TIED = np.array([2, 6, 4, 6, 0, 4, 4])
DENSE = np.array([0, 1, 1, 2, 4, 4, 5, 9])
SPARSE = np.concatenate([[0, 3, 6, 9, 14], np.full(395, 19), np.full(600, 60), np.full(60, 210)])

VALUES = np.array([60, 56, 48, 10])
SIZES = np.array([1, 2, 30, 9_967])
LONG = np.random.default_rng(0).permutation(np.repeat(VALUES, SIZES))


@pytest.mark.slow
def test_coins_follow_the_exact_distribution() -> None:
    """Draws of permute-and-flip among tied counts follow its exact distribution by a chi-square test.

    Those of peeling and of another epsilon are rejected.
    """
    mechanism = PermuteAndFlipTopK(k=3, epsilon=4.0)
    rng = np.random.default_rng(3)
    drawn = Counter(map(tuple, mechanism(np.tile(TIED, (3 * DRAWS, 1)), rng=rng).indices.tolist()))
    assert (
        chi_square_p_value(count_by_outcome=drawn, prob_by_outcome=mechanism.distribution(TIED))
        > ACCEPTED
    )
    for wrong in (PeelingTopK(k=3, epsilon=4.0), dataclasses.replace(mechanism, epsilon=5.2)):
        assert (
            chi_square_p_value(count_by_outcome=drawn, prob_by_outcome=wrong.distribution(TIED))
            < REJECTED
        )


def distribution_of_two_picks(scale: float, noise: str) -> dict[tuple[int, int], float]:
    """Returns the distribution of the first two picked values among the counts `LONG`.

    Each pick is the largest noisy count that is left.
    """
    distribution = {}
    for first, p in enumerate(
        largest_distribution(
            VALUES / scale, class_sizes=SIZES * 1.0, unit_noise=UNIT_NOISES[noise]
        ).tolist()
    ):
        left = SIZES - (np.arange(len(SIZES)) == first)
        some = left > 0
        then = largest_distribution(
            VALUES[some] / scale, class_sizes=left[some] * 1.0, unit_noise=UNIT_NOISES[noise]
        )
        distribution |= {
            (int(VALUES[first]), int(VALUES[c])): p * float(q)
            for c, q in zip(np.flatnonzero(some), then, strict=True)
        }
    return distribution


@pytest.mark.slow
def test_a_long_row_follows_the_distribution_of_its_classes_and_members_of_a_class_are_equal() -> (
    None
):
    """Of 10,000 counts with four values, the first two picked values follow their exact distribution.

    Equal counts are picked equally often. Distributions with another noise scale or with Gumbel noise are rejected.
    """
    # noise of scale 5
    mechanism = PermuteAndFlipTopK(k=5, epsilon=2.0)
    rng = np.random.default_rng(1)
    draws = np.concatenate([mechanism(np.tile(LONG, (100, 1)), rng=rng).indices for _ in range(30)])
    assert all(len(set(row)) == 5 for row in draws.tolist())
    drawn = Counter(map(tuple, LONG[draws[:, :2]].tolist()))
    assert (
        chi_square_p_value(
            count_by_outcome=drawn,
            prob_by_outcome=distribution_of_two_picks(scale=5.0, noise="exponential"),
        )
        > ACCEPTED
    )
    assert (
        chi_square_p_value(
            count_by_outcome=drawn,
            prob_by_outcome=distribution_of_two_picks(scale=6.0, noise="exponential"),
        )
        < REJECTED
    )
    assert (
        chi_square_p_value(
            count_by_outcome=drawn,
            prob_by_outcome=distribution_of_two_picks(scale=5.0, noise="gumbel"),
        )
        < 1e-6
    )
    seen = [int((draws == member).sum()) for member in np.flatnonzero(LONG == 48)]
    assert chisquare(seen).pvalue > ACCEPTED
    first_half = np.flatnonzero(LONG == 10)[: 9_967 // 2]
    far = draws[LONG[draws] == 10]
    assert len(far) > 400
    assert abs(np.isin(far, first_half).mean() - 0.5) < 4 / (2 * len(far) ** 0.5)


@pytest.mark.parametrize("epsilon", [1e-300, 1e300])
def test_permute_and_flip_accepts_tiny_and_huge_noise(epsilon: float) -> None:
    """At epsilon 1e300 the nine largest of 10,000 counts are picked in order, and at 1e-300 nine random ones."""
    row = np.arange(10_000)
    picks = PermuteAndFlipTopK(k=9, epsilon=epsilon)(row, rng=np.random.default_rng(2)).indices
    if epsilon > 1:
        assert picks.tolist() == list(range(9_999, 9_990, -1))
    else:
        assert len(set(picks.tolist())) == 9
        assert 2_000 < picks.mean() < 8_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("numbers", "scale"), [(DENSE, 3.0), (SPARSE, 5.0)], ids=["in random order", "thinned"]
)
def test_the_lucky_one_follows_the_exact_distribution_of_its_number(
    numbers: np.ndarray, scale: float
) -> None:
    """Among counts that were not picked before, the value of the next pick follows its exact distribution.

    Equal counts are picked equally often. The distribution with 1.4 times the noise is rejected.
    """
    rng = np.random.default_rng(5)
    alive = np.ones(len(numbers), dtype=np.bool_)
    alive[[0, 3]] = False  # picked before
    living = np.flatnonzero(alive)
    drawn = [
        draw_lucky_place(numbers, first_place=1, candidate_mask=alive, noise_scale=scale, rng=rng)
        for _ in range(2_500)
    ]
    assert alive[drawn].all()
    found = Counter((int(numbers[place]),) for place in drawn)

    def expected(scale: float) -> dict[tuple[int], float]:
        chances: Counter[tuple[int]] = Counter()
        for place, chance in zip(
            living, exponential_argmax(-(numbers[living] - numbers[1]) / scale), strict=True
        ):
            chances[(int(numbers[place]),)] += float(chance)
        return dict(chances)

    assert chi_square_p_value(count_by_outcome=found, prob_by_outcome=expected(scale)) > ACCEPTED
    assert chi_square_p_value(count_by_outcome=found, prob_by_outcome=expected(1.4 * scale)) < 1e-9
    same = [
        drawn.count(place)
        for place in np.flatnonzero(numbers == (4 if scale == 3.0 else 19))[:40].tolist()
    ]
    assert chisquare(same).pvalue > ACCEPTED


@pytest.mark.parametrize("num_halvings", [1, 5, 8])
def test_thinning_leaves_each_place_with_its_share(num_halvings: int) -> None:
    """Thinning keeps each of 3001 places with probability 2^-num_halvings.

    Kept places are in rising order and even over the row. A probability 1.3 times as large is rejected.
    """
    rng = np.random.default_rng(num_halvings)
    count = 3_001
    times = 40
    found = [
        draw_thinned_places(num_places=count, num_halvings=num_halvings, rng=rng)
        for _ in range(times)
    ]
    for places in found:
        assert (np.diff(places) > 0).all()
        assert len(places) == 0 or 0 <= places[0] <= places[-1] < count
    total = sum(map(len, found))
    assert binomtest(total, n=count * times, p=0.5**num_halvings).pvalue > ACCEPTED
    assert binomtest(total, n=count * times, p=1.3 * 0.5**num_halvings).pvalue < ACCEPTED
    late = sum(int((places >= count // 2).sum()) for places in found)
    assert binomtest(late, n=total, p=0.5).pvalue > ACCEPTED


def test_no_place_is_thinned_at_level_0() -> None:
    """Without halvings, all 700 places are kept."""
    assert draw_thinned_places(
        num_places=700, num_halvings=0, rng=np.random.default_rng(0)
    ).tolist() == list(range(700))
