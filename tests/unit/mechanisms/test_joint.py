"""Joint selection: the classes of sequences against their definition, and the distribution of a draw."""

import dataclasses
import math
from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest

from pate.accounting import ApproximateEvent, PureDpEvent
from pate.mechanisms import JointTopK, PermuteAndFlipJointTopK
from pate.mechanisms.noise.kinds import UNIT_NOISES
from pate.mechanisms.noise.maxima import ordered_distribution
from pate.mechanisms.top_k.joint_classes import JointClasses
from tests.refusals import refused
from tests.statistical.chi_square import p_value

Sequence = tuple[int, ...]
BATCHED = ("falling", "order", "losses", "log_sizes")


def losses_by_definition(counts: np.ndarray, k: int) -> dict[Sequence, int]:
    """Returns the loss of every sequence of k different labels: the largest amount by which its
    i-th count falls short of the i-th largest count.
    """
    best = sorted(counts.tolist(), reverse=True)
    return {
        s: max(best[i] - int(counts[s[i]]) for i in range(k))
        for s in permutations(range(len(counts)), k)
    }


def random_instances(number: int) -> list[tuple[np.ndarray, int]]:
    """Returns random histograms of up to 5 labels, each with a random k."""
    rng = np.random.default_rng(0)
    sizes = [int(rng.integers(low=1, high=6)) for _ in range(number)]
    return [
        (rng.integers(low=0, high=5, size=size), int(rng.integers(low=1, high=size + 1)))
        for size in sizes
    ]


def test_class_counts_agree_with_all_sequences() -> None:
    """For 150 random histograms, the number of sequences of each loss equals that of an enumeration
    of all sequences of k labels.
    """
    for counts, k in random_instances(number=150):
        expected = Counter(losses_by_definition(counts=counts, k=k).values())
        assert JointTopK(k=k, epsilon=1.0).class_counts(counts) == dict(expected)
        for classes in (
            JointClasses.from_counts(falling_counts=-np.sort(-counts)[None], k=k, splits_ties=True),
            JointClasses.likely(falling_counts=-np.sort(-counts)[None], k=k, loss_weight=0.01),
        ):
            sizes = np.zeros(int(classes.losses.max()) + 1)
            np.add.at(sizes, classes.losses[0], np.exp(classes.log_sizes[0]))
            assert sizes == pytest.approx([expected[loss] for loss in range(len(sizes))])
            assert sizes.sum() == pytest.approx(sum(expected.values()))


@pytest.mark.parametrize("likely", [False, True])
def test_members_of_a_class_have_its_loss_and_are_uniform(likely: bool) -> None:
    """Sequences drawn from a class have the loss of the class and are uniform; together the classes
    have every sequence of 3 labels once.
    """
    rng = np.random.default_rng(1)
    falling = np.array([[3, 3, 1, 1, 0]])
    k = 3
    draws = 3_000
    losses = losses_by_definition(counts=falling[0], k=k)
    classes = (
        JointClasses.likely(falling_counts=falling, k=k, loss_weight=0.01)
        if likely
        else JointClasses.from_counts(falling_counts=falling, k=k, splits_ties=True)
    )
    seen: set[Sequence] = set()
    many = dataclasses.replace(
        classes, **{name: np.repeat(getattr(classes, name), draws, axis=0) for name in BATCHED}
    )
    for place, (loss, log_size) in enumerate(
        zip(classes.losses[0], classes.log_sizes[0], strict=True)
    ):
        members = Counter(map(tuple, many.draw_members(np.full(draws, place), rng=rng).tolist()))
        size = round(np.exp(log_size))
        assert len(members) == size
        assert max(abs(n - draws / size) for n in members.values()) <= 6 * np.sqrt(draws / size)
        assert {losses[member] for member in members} == {int(loss)}
        assert not seen & members.keys()
        seen |= members.keys()
    assert seen == losses.keys()


@pytest.mark.parametrize(
    ("k", "weight", "both_ends"),
    [
        (8, 0.05, False),
        (8, 0.5, False),
        (8, 5.0, False),
        (120, 0.05, True),
        (120, 0.5, True),
        (120, 5.0, False),
    ],
)
def test_losses_that_weigh_nothing_are_left_out_and_no_others(
    k: int, weight: float, both_ends: bool
) -> None:
    """Of 300 labels with random counts, only likely losses of sequences are kept.

    The losses that are left out have between e^-85 and e^-61 of the weight, by exact counts.
    `both_ends` says that small losses are left out too.
    """
    falling = -np.sort(-np.random.default_rng(2).integers(low=0, high=2_000, size=300))
    classes = JointClasses.likely(falling_counts=falling[None], k=k, loss_weight=weight)
    lowest = classes.losses[0, 1]
    highest = classes.losses[0, -1]
    counted = JointTopK(k=k, epsilon=1.0).class_counts(falling)
    log_weights = {loss: math.log(n) - weight * loss for loss, n in counted.items()}
    everything = np.logaddexp.reduce(list(log_weights.values()))
    for end, cut in (("above", highest < max(log_weights)), ("below", both_ends)):
        left_out = [
            w
            for loss, w in log_weights.items()
            if (loss > highest if end == "above" else loss < lowest)
        ]
        assert bool(left_out) == cut
        assert np.logaddexp.reduce([-np.inf, *left_out]) - everything < -61.5
        assert not left_out or np.logaddexp.reduce(left_out) - everything > -85
    for loss in (loss for loss in log_weights if lowest <= loss <= highest):
        found = np.logaddexp.reduce(classes.log_sizes[classes.losses == loss])
        expected = log_weights[loss] + weight * loss
        # the best sequence has a class of its own
        assert found == pytest.approx(expected, abs=1e-9) or loss == 0


@pytest.mark.slow
def test_few_and_many_places_have_the_same_distribution() -> None:
    """The draws for few classes and for many classes both follow the exact distribution by a
    chi-square test with a fixed seed.
    """
    rng = np.random.default_rng(3)
    counts = np.array([4, 4, 2, 1, 0])
    draws = 20_000
    for mechanism in (JointTopK(k=2, epsilon=2.0), PermuteAndFlipJointTopK(k=2, epsilon=2.0)):
        distribution = mechanism.distribution(counts)
        every = mechanism._draw_block(rng, counts=np.tile(counts, (draws, 1)), has_few_classes=True)
        likely = np.concatenate(
            [
                mechanism._draw_block(rng, counts[None], has_few_classes=False)
                for _ in range(draws // 8)
            ]
        )
        for block in (every, likely):
            assert (
                p_value(
                    outcome_counts=Counter(map(tuple, block.tolist())), distribution=distribution
                )
                > 1e-4
            )


def test_permute_and_flip_is_the_noisy_maximum_over_sequences() -> None:
    """Joint permute-and-flip has the distribution of the sequence with the smallest loss after
    exponential noise.
    """
    counts = np.array([2, 1, 1])
    mechanism = PermuteAndFlipJointTopK(k=2, epsilon=3.0)
    losses = losses_by_definition(counts=counts, k=2)
    values = -mechanism.weight * np.array(list(losses.values()), dtype=float)
    distribution = ordered_distribution(values, k=1, noise_kind=UNIT_NOISES["exponential"])
    for place, sequence in enumerate(losses):
        assert mechanism.distribution(counts)[sequence] == pytest.approx(
            distribution[(place,)], rel=1e-10
        )


@pytest.mark.parametrize(("adjacency", "range_of_one"), [("replace_one", 2), ("add_remove", 1)])
def test_the_widest_range_of_losses_is_the_charged_one(adjacency: str, range_of_one: int) -> None:
    """For the worst change of one teacher, the changes of all losses span exactly the range that is charged.

    It is `range_of_one` for sequences of one label, and twice that for two labels.
    """
    moves = (-1, 0, 1) if adjacency == "replace_one" else (0, 1)
    widest = {1: 0.0, 2: 0.0}  # by the number of labels in a sequence
    for k in widest:
        mechanism = JointTopK(k=k, epsilon=1.0, adjacency=adjacency)
        for counts in product(range(1, 4), repeat=3):
            before = mechanism.losses_of(np.array(counts))[1]
            for move in product(moves, repeat=3):
                moved = mechanism.losses_of(np.array(counts) + move)[1] - before
                widest[k] = max(widest[k], float(np.ptp(moved)))
        assert widest[k] == mechanism.range_of_losses
    assert widest == {1: range_of_one, 2: 2 * range_of_one}


@pytest.mark.slow
def test_permute_and_flip_leaves_classes_out_only_at_a_price() -> None:
    """Among a million labels, unlikely classes of sequences are left out of the draw.

    A mechanism whose failure probability does not cover them is refused: 0 is too small at epsilon log(30,000), and
    0.5 at epsilon 61. At epsilon 30 with failure probability 1e-12, it draws 1000 different labels.
    """
    counts = np.random.default_rng(1).permutation(1_000_000) // 7 * 7
    with refused("failure_prob", value=0.0, rule="2.7e-22"):
        PermuteAndFlipJointTopK(k=1000, epsilon=math.log(30_000))(
            counts, rng=np.random.default_rng(0)
        )
    with refused("failure_prob", value=0.5):
        PermuteAndFlipJointTopK(k=1000, epsilon=61.0, failure_prob=0.5)(
            counts, rng=np.random.default_rng(0)
        )
    mechanism = PermuteAndFlipJointTopK(k=1000, epsilon=30.0, failure_prob=1e-12)
    assert mechanism.event == ApproximateEvent(PureDpEvent(epsilon=30.0), failure_prob=1e-12)
    picked = mechanism(counts, rng=np.random.default_rng(0)).indices
    assert len(np.unique(picked)) == 1000
