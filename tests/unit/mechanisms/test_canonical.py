"""Canonical top-k: classes of label sets with equal loss, and the distributions of the five kinds of noise."""

from collections import Counter
from itertools import combinations, product
from math import comb

import numpy as np
import pytest

from pate.accounting import BoundedRangeEvent, PureDpEvent
from pate.array_types import FloatArray
from pate.mechanisms import CanonicalTopK
from pate.mechanisms.noise.kinds import UNIT_NOISES
from pate.mechanisms.noise.maxima import ordered_distribution
from pate.mechanisms.top_k.canonical_classes import CanonicalClasses
from tests.refusals import refused_parameter
from tests.statistical.chi_square import chi_square_p_value


def loss_by_definition(counts: np.ndarray, chosen: tuple[int, ...], gamma: float) -> float:
    """Returns the loss of a set of labels: (1 - gamma) max(o, i) - gamma i.

    Here o is the largest count outside the set, and i is the smallest count inside.
    """
    counts_outside = [int(counts[label]) for label in range(len(counts)) if label not in chosen]
    smallest_inside = min(int(counts[label]) for label in chosen)
    largest = max([*counts_outside, smallest_inside])
    return (1 - gamma) * largest - gamma * smallest_inside


def losses_of_sets(counts: np.ndarray, *, sets: list[tuple[int, ...]], gamma: float) -> FloatArray:
    """Returns the loss of each set of labels by its definition."""
    return np.array(
        [loss_by_definition(counts=counts, chosen=chosen, gamma=gamma) for chosen in sets]
    )


def four_partitions(falling_counts: np.ndarray, k: int) -> list[CanonicalClasses]:
    """Returns four ways to divide the sets of k ranks into classes, given counts in falling order.

    In each of them the set of the ranks 1..k is a class of its own. Other sets are in one class in these cases:

    1. They have the same first missing rank and the same last rank.
    2. They have the same last rank.
    3. They have the same first missing rank.
    4. They have the same first missing rank, and equal counts at their last ranks.

    The last two are `CanonicalClasses.likely` for gamma 0 and 0.5. They leave out sets of negligible weight, but there
    are none for counts as small as here.
    """
    num_ranks = len(falling_counts)
    return [
        CanonicalClasses.all(num_ranks=num_ranks, k=k),
        CanonicalClasses.by_last_rank(num_ranks=num_ranks, k=k),
        CanonicalClasses.likely(falling_counts, k=k, loss_weight=0.01, gamma=0.0),
        CanonicalClasses.likely(falling_counts, k=k, loss_weight=0.01, gamma=0.5),
    ]


@pytest.mark.parametrize("num_labels", range(1, 9))
def test_class_sizes_count_every_set_once(num_labels: int) -> None:
    """For every k, the sizes of all classes of label sets sum to the number of sets of k labels."""
    rng = np.random.default_rng(num_labels)
    falling_counts = -np.sort(-rng.integers(low=0, high=4, size=num_labels))
    for k in range(1, num_labels + 1):
        for classes in four_partitions(falling_counts=falling_counts, k=k):
            sizes = [
                classes.size(class_index) for class_index in range(len(classes.first_missing_ranks))
            ]
            assert min(sizes) >= 1
            num_sets = comb(num_labels, k)
            assert sum(sizes) == num_sets
            np.testing.assert_allclose(classes.log_sizes, np.log(sizes), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "partition_index",
    range(4),
    ids=["all", "by_last_rank", "likely_at_gamma_0", "likely_at_gamma_half"],
)
def test_members_are_uniform_and_all_sets_occur(partition_index: int) -> None:
    """Sets that are drawn from a class are uniform over its members, for each of the `four_partitions` into classes.

    Together, the classes of a partition have every set of 3 of 6 labels once.
    """
    rng = np.random.default_rng(0)
    num_draws = 2_000
    partitions = four_partitions(falling_counts=np.array([5, 5, 3, 3, 3, 1]), k=3)
    classes = partitions[partition_index]
    sets_of_earlier_classes: set[tuple[int, ...]] = set()
    for class_index in range(len(classes.first_missing_ranks)):
        num_members = classes.size(class_index)
        drawn_sets = classes.draw_members(class_indices=np.full(num_draws, class_index), rng=rng)
        num_draws_of_set = Counter(map(tuple, drawn_sets.tolist()))
        assert len(num_draws_of_set) == num_members
        deviations = np.array(list(num_draws_of_set.values())) - num_draws / num_members
        assert np.abs(deviations).max() <= 6 * np.sqrt(num_draws / num_members)
        assert not sets_of_earlier_classes & num_draws_of_set.keys()
        sets_of_earlier_classes |= num_draws_of_set.keys()
    assert sets_of_earlier_classes == set(combinations(range(6), 3))


@pytest.mark.parametrize("gamma", [0.0, 0.5])
@pytest.mark.parametrize("loss_weight", [0.05, 0.5, 5.0])
def test_classes_that_weigh_nothing_are_left_out(loss_weight: float, gamma: float) -> None:
    """Of the classes of sets of 8 of 400 labels with random counts, only likely ones are kept.

    The classes that are left out together weigh less than e^-120 times the set of the largest counts.
    """
    falling_counts = -np.sort(-np.random.default_rng(2).integers(low=0, high=3_000, size=400))
    every = CanonicalClasses.all(num_ranks=400, k=8)
    likely = CanonicalClasses.likely(falling_counts, k=8, loss_weight=loss_weight, gamma=gamma)

    def log_weights_of(classes: CanonicalClasses) -> FloatArray:
        losses = classes.losses(falling_counts=falling_counts[None], gamma=gamma)[0]
        return np.asarray(classes.log_sizes - loss_weight * losses)

    total_log_weight = np.logaddexp.reduce(log_weights_of(every))
    assert total_log_weight == pytest.approx(np.logaddexp.reduce(log_weights_of(likely)), rel=1e-12)
    is_likely = (every.first_missing_ranks >= likely.first_missing_ranks.min()) & (
        every.largest_last_ranks <= likely.largest_last_ranks.max()
    )
    unlikely_log_weights = log_weights_of(every)[~is_likely]
    assert np.logaddexp.reduce(unlikely_log_weights, initial=-np.inf) < -120
    assert len(likely.first_missing_ranks) < len(every.first_missing_ranks)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "gamma"), [("gumbel", 0.4), ("half_logistic", 0.0)])
def test_few_and_many_classes_have_the_same_distribution(noise: str, gamma: float) -> None:
    """Draws by the code for few classes (sets of one loss) and by that for many follow the exact distribution.

    Both follow it by a chi-square test.
    """
    rng = np.random.default_rng(4)
    counts = np.array([4, 4, 2, 1, 0])
    mechanism = CanonicalTopK(k=2, epsilon=2.0, noise=noise, gamma=gamma)
    distribution = mechanism.distribution(counts)
    drawn_by_few = mechanism._draw_sets(
        np.tile(counts, (20_000, 1)), draw_classes=mechanism._draw_class_of_each, rng=rng
    )
    drawn_by_many = np.concatenate(
        [
            mechanism._draw_sets(counts[None], draw_classes=mechanism._draw_class_of_one, rng=rng)
            for _ in range(3_000)
        ]
    )
    for drawn in (drawn_by_few, drawn_by_many):
        outcome_counts = Counter(map(tuple, drawn.tolist()))
        assert (
            chi_square_p_value(count_by_outcome=outcome_counts, prob_by_outcome=distribution) > 1e-4
        )


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("noise", list(UNIT_NOISES))
def test_distribution_is_the_noisy_minimum_of_the_loss_over_all_sets(
    noise: str, gamma: float
) -> None:
    """Canonical top-k has the distribution of the set with the largest value: noise less the weighted loss of the set.

    The sets are all pairs of four labels, and `gamma` is that of `loss_by_definition`.
    """
    counts = np.array([1, 4, 0, 3])
    mechanism = CanonicalTopK(k=2, epsilon=3.0, noise=noise, gamma=gamma)
    sets = list(combinations(range(4), 2))
    loss_weight = mechanism.loss_weight_for(num_counts=len(counts))
    utilities = -loss_weight * losses_of_sets(counts, sets=sets, gamma=gamma)
    expected = ordered_distribution(values_in_scales=utilities, k=1, unit_noise=UNIT_NOISES[noise])
    distribution = mechanism.distribution(counts)
    assert distribution.keys() == set(sets)
    for set_index, chosen in enumerate(sets):
        assert distribution[chosen] == pytest.approx(expected[(set_index,)], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.0, 0.25, 0.5, 0.8, 1.0])
@pytest.mark.parametrize(("k", "num_labels"), [(1, 3), (2, 3), (1, 4), (2, 4), (3, 4)])
def test_losses_times_their_weight_move_by_the_price_at_most(
    k: int, num_labels: int, gamma: float
) -> None:
    """For all counts up to 4, the changes of the losses by one teacher span at most 1, the epsilon, after weighting.

    The changes of the losses of all sets of k labels are multiplied by the mechanism's weight of losses at epsilon 1.
    Their range is 1 for some counts and some change of a teacher, except with k = 1 and gamma = 0.
    """
    sets = list(combinations(range(num_labels), r=k))
    falling_histograms = [
        np.array(counts)
        for counts in product(range(5), repeat=num_labels)
        if list(counts) == sorted(counts, reverse=True)
    ]
    for adjacency, moves in (("replace_one", (-1, 0, 1)), ("add_remove", (0, 1))):
        mechanism = CanonicalTopK(k=k, epsilon=1.0, gamma=gamma, adjacency=adjacency)
        loss_weight = mechanism.loss_weight_for(num_counts=num_labels)
        widest_range = 0.0
        for counts in falling_histograms:
            losses = losses_of_sets(counts, sets=sets, gamma=gamma)
            for move in product(moves, repeat=num_labels):
                moved_counts = counts + move
                if moved_counts.min() < 0:
                    continue
                changes = losses_of_sets(moved_counts, sets=sets, gamma=gamma) - losses
                widest_range = max(widest_range, float(np.ptp(changes)))
        assert loss_weight * widest_range <= 1 + 1e-12
        if k > 1 or gamma > 0:
            assert loss_weight * widest_range >= 1 - 1e-12


def test_prices_and_refusals() -> None:
    """The event is bounded range for Gumbel noise, given epsilon or rho, and pure DP for Laplace noise.

    The weight of a loss at epsilon 2 is 1; it is 2 under add-remove, or if k is 1 or one less than the number of
    labels. Impossible values of `gamma`, `noise` and `rho` are refused.
    """
    assert CanonicalTopK(k=3, epsilon=2.0).event == BoundedRangeEvent(epsilon=2.0)
    assert CanonicalTopK(k=3, rho=0.5).event == BoundedRangeEvent(epsilon=2.0)
    assert CanonicalTopK(k=3, epsilon=2.0, noise="laplace").event == PureDpEvent(epsilon=2.0)
    assert CanonicalTopK(k=3, epsilon=2.0).loss_weight_for(num_counts=9) == 1.0
    assert (
        CanonicalTopK(k=3, epsilon=2.0, adjacency="add_remove").loss_weight_for(num_counts=9) == 2.0
    )
    assert CanonicalTopK(k=1, epsilon=2.0).loss_weight_for(num_counts=9) == 2.0
    assert CanonicalTopK(k=8, epsilon=2.0).loss_weight_for(num_counts=9) == 2.0
    for gamma in (-0.1, 1.1, np.nan):
        with refused_parameter("gamma", value=gamma):
            CanonicalTopK(k=1, epsilon=1.0, noise="laplace", gamma=gamma)
    with refused_parameter("noise", value="cauchy"):
        CanonicalTopK(k=1, epsilon=1.0, noise="cauchy")
    with refused_parameter("rho", value=0.1):
        CanonicalTopK(k=1, rho=0.1, noise="laplace")
