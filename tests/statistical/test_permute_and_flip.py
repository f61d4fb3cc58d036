"""Permute-and-flip, which draws by coins for counts in random order, follows exact distributions."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from pate.mechanisms import PeelingTopK, PermuteAndFlipTopK
from pate.mechanisms.noise.exponential_coins import draw_lucky_place, draw_thinned_places
from pate.mechanisms.noise.kinds import UNIT_NOISES
from pate.mechanisms.noise.maxima import exponential_noise_argmax, largest_distribution
from tests.statistical.chi_square import chi_square_p_value

DRAWS = 8_000
ACCEPTED = 1e-4
REJECTED = 1e-12
TIED_COUNTS = np.array([2, 6, 4, 6, 0, 4, 4])
DENSE_DEFICITS = np.array([0, 1, 1, 2, 4, 4, 5, 9])
SPARSE_DEFICITS = np.concatenate(
    [[0, 3, 6, 9, 14], np.full(395, 19), np.full(600, 60), np.full(60, 210)]
)

COUNT_VALUES = np.array([60, 56, 48, 10])
CLASS_SIZES = np.array([1, 2, 30, 9_967])
MANY_COUNTS = np.random.default_rng(0).permutation(np.repeat(COUNT_VALUES, CLASS_SIZES))


@pytest.mark.slow
def test_coins_follow_the_exact_distribution() -> None:
    """Draws of permute-and-flip among tied counts follow its exact distribution by a chi-square test.

    The distribution of peeling, which picks by Gumbel noise, and that for another epsilon are rejected.
    """
    mechanism = PermuteAndFlipTopK(k=3, epsilon=4.0)
    rng = np.random.default_rng(3)
    drawn = Counter(
        map(tuple, mechanism(np.tile(TIED_COUNTS, (3 * DRAWS, 1)), rng=rng).indices.tolist())
    )
    assert (
        chi_square_p_value(
            count_by_outcome=drawn, prob_by_outcome=mechanism.distribution(TIED_COUNTS)
        )
        > ACCEPTED
    )
    for wrong in (PeelingTopK(k=3, epsilon=4.0), dataclasses.replace(mechanism, epsilon=5.2)):
        assert (
            chi_square_p_value(
                count_by_outcome=drawn, prob_by_outcome=wrong.distribution(TIED_COUNTS)
            )
            < REJECTED
        )


def distribution_of_two_picks(scale: float, noise: str) -> dict[tuple[int, int], float]:
    """Returns the distribution of the first two picked values among the counts `MANY_COUNTS`.

    Each pick is the largest of the counts that are left, each with new noise.
    """
    distribution = {}
    for first, p in enumerate(
        largest_distribution(
            COUNT_VALUES / scale,
            class_sizes=CLASS_SIZES * 1.0,
            unit_noise=UNIT_NOISES[noise],
        ).tolist()
    ):
        sizes_left = CLASS_SIZES - (np.arange(len(CLASS_SIZES)) == first)
        is_class_left = sizes_left > 0
        second_probs = largest_distribution(
            COUNT_VALUES[is_class_left] / scale,
            class_sizes=sizes_left[is_class_left] * 1.0,
            unit_noise=UNIT_NOISES[noise],
        )
        distribution |= {
            (int(COUNT_VALUES[first]), int(COUNT_VALUES[second])): p * float(q)
            for second, q in zip(np.flatnonzero(is_class_left), second_probs, strict=True)
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
    draws = np.concatenate(
        [mechanism(np.tile(MANY_COUNTS, (100, 1)), rng=rng).indices for _ in range(30)]
    )
    assert all(len(set(row)) == 5 for row in draws.tolist())
    drawn = Counter(map(tuple, MANY_COUNTS[draws[:, :2]].tolist()))
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
    times_drawn = [int((draws == label).sum()) for label in np.flatnonzero(MANY_COUNTS == 48)]
    assert chisquare(times_drawn).pvalue > ACCEPTED
    first_half_of_labels = np.flatnonzero(MANY_COUNTS == 10)[: 9_967 // 2]
    drawn_labels_of_count_10 = draws[MANY_COUNTS[draws] == 10]
    assert len(drawn_labels_of_count_10) > 400
    assert abs(np.isin(drawn_labels_of_count_10, first_half_of_labels).mean() - 0.5) < 4 / (
        2 * len(drawn_labels_of_count_10) ** 0.5
    )


@pytest.mark.parametrize("epsilon", [1e-300, 1e300])
def test_permute_and_flip_accepts_tiny_and_huge_noise(epsilon: float) -> None:
    """At epsilon 1e300 the nine largest of 10,000 counts are picked in order.

    At epsilon 1e-300 nine others are picked, whose mean is between 2,000 and 8,000 for counts of 0 to 9,999.
    """
    rising_counts = np.arange(10_000)
    picks = PermuteAndFlipTopK(k=9, epsilon=epsilon)(
        rising_counts, rng=np.random.default_rng(2)
    ).indices
    if epsilon > 1:
        assert picks.tolist() == list(range(9_999, 9_990, -1))
    else:
        assert len(set(picks.tolist())) == 9
        assert 2_000 < picks.mean() < 8_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deficits", "scale"),
    [(DENSE_DEFICITS, 3.0), (SPARSE_DEFICITS, 5.0)],
    ids=["in random order", "thinned"],
)
def test_the_lucky_one_follows_the_exact_distribution_of_its_number(
    deficits: np.ndarray, scale: float
) -> None:
    """Among places that were not picked before, the deficit of the next pick follows its exact distribution.

    A place is the index of a count in falling order, and its deficit is the largest count minus this count. Places of
    equal deficits are picked equally often. The distribution with 1.4 times the noise is rejected.
    """
    rng = np.random.default_rng(5)
    is_unpicked = np.ones(len(deficits), dtype=np.bool_)
    is_unpicked[[0, 3]] = False  # picked before
    unpicked_places = np.flatnonzero(is_unpicked)
    drawn = [
        draw_lucky_place(
            deficits, first_place=1, candidate_mask=is_unpicked, noise_scale=scale, rng=rng
        )
        for _ in range(2_500)
    ]
    assert is_unpicked[drawn].all()
    found = Counter((int(deficits[place]),) for place in drawn)

    def expected(scale: float) -> dict[tuple[int], float]:
        chances: Counter[tuple[int]] = Counter()
        for place, chance in zip(
            unpicked_places,
            exponential_noise_argmax(-(deficits[unpicked_places] - deficits[1]) / scale),
            strict=True,
        ):
            chances[(int(deficits[place]),)] += float(chance)
        return dict(chances)

    assert chi_square_p_value(count_by_outcome=found, prob_by_outcome=expected(scale)) > ACCEPTED
    assert chi_square_p_value(count_by_outcome=found, prob_by_outcome=expected(1.4 * scale)) < 1e-9
    times_drawn_of_equal_deficits = [
        drawn.count(place)
        for place in np.flatnonzero(deficits == (4 if scale == 3.0 else 19))[:40].tolist()
    ]
    assert chisquare(times_drawn_of_equal_deficits).pvalue > ACCEPTED


@pytest.mark.parametrize("num_halvings", [1, 5, 8])
def test_thinning_leaves_each_place_with_its_share(num_halvings: int) -> None:
    """Thinning keeps each of 3001 places, the indices of a row of counts, with probability 2^-num_halvings.

    Kept places are in rising order and spread evenly over the row. A probability 1.3 times as large is rejected.
    """
    rng = np.random.default_rng(num_halvings)
    num_places = 3_001
    num_runs = 40
    places_of_kept_counts_by_run = [
        draw_thinned_places(num_places=num_places, num_halvings=num_halvings, rng=rng)
        for _ in range(num_runs)
    ]
    for places_of_kept_counts in places_of_kept_counts_by_run:
        assert (np.diff(places_of_kept_counts) > 0).all()
        assert (
            len(places_of_kept_counts) == 0
            or 0 <= places_of_kept_counts[0] <= places_of_kept_counts[-1] < num_places
        )
    num_kept = sum(map(len, places_of_kept_counts_by_run))
    assert binomtest(num_kept, n=num_places * num_runs, p=0.5**num_halvings).pvalue > ACCEPTED
    assert binomtest(num_kept, n=num_places * num_runs, p=1.3 * 0.5**num_halvings).pvalue < ACCEPTED
    num_kept_late = sum(
        int((places_of_kept_counts >= num_places // 2).sum())
        for places_of_kept_counts in places_of_kept_counts_by_run
    )
    assert binomtest(num_kept_late, n=num_kept, p=0.5).pvalue > ACCEPTED


def test_no_place_is_thinned_at_level_0() -> None:
    """Without halvings, all 700 places are kept."""
    assert draw_thinned_places(
        num_places=700, num_halvings=0, rng=np.random.default_rng(0)
    ).tolist() == list(range(700))
