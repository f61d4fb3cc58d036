"""Joint selection of k labels in order: the classes of sequences with equal loss, and the distribution of a draw."""

import dataclasses
import math
from collections import Counter
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np
import pytest

from pate.accounting import ApproximateEvent, PureDpEvent
from pate.array_types import IntArray
from pate.mechanisms import JointTopK, PermuteAndFlipJointTopK
from pate.mechanisms.noise.kinds import UNIT_NOISES
from pate.mechanisms.noise.maxima import ordered_distribution
from pate.mechanisms.top_k.joint_classes import JointClasses
from tests.refusals import refused_parameter
from tests.statistical.chi_square import chi_square_p_value

Sequence = tuple[int, ...]


def losses_by_definition(counts: np.ndarray, k: int) -> dict[Sequence, int]:
    """Returns the loss of every sequence of k different labels.

    The loss is the largest amount, over all places i, by which the i-th count of the sequence falls short of the i-th
    largest count.
    """
    k_largest_counts = sorted(counts.tolist(), reverse=True)[:k]
    losses = {}
    for label_sequence in permutations(range(len(counts)), r=k):
        pairs = zip(k_largest_counts, label_sequence, strict=True)
        losses[label_sequence] = max(largest - int(counts[label]) for largest, label in pairs)
    return losses


@dataclass(frozen=True)
class Instance:
    """The counts of a query, and the number of labels that are selected."""

    counts: IntArray
    k: int


def random_instances(number: int) -> list[Instance]:
    """Returns random histograms of up to 5 labels, each with a random k."""
    rng = np.random.default_rng(0)
    sizes = [int(rng.integers(low=1, high=6)) for _ in range(number)]
    return [
        Instance(
            counts=rng.integers(low=0, high=5, size=size),
            k=int(rng.integers(low=1, high=size + 1)),
        )
        for size in sizes
    ]


def test_class_counts_agree_with_all_sequences() -> None:
    """For 150 random histograms, the number of sequences of each loss is that of an enumeration."""
    for instance in random_instances(number=150):
        k = instance.k
        expected = Counter(losses_by_definition(counts=instance.counts, k=k).values())
        assert JointTopK(k=k, epsilon=1.0).class_counts(instance.counts) == dict(expected)
        falling_counts_by_query = -np.sort(-instance.counts)[None]
        for classes in (
            JointClasses.from_counts(falling_counts=falling_counts_by_query, k=k, splits_ties=True),
            JointClasses.likely(falling_counts=falling_counts_by_query, k=k, loss_weight=0.01),
        ):
            sizes = np.bincount(classes.losses[0], weights=np.exp(classes.log_sizes[0]))
            assert sizes == pytest.approx([expected[loss] for loss in range(len(sizes))])
            assert sizes.sum() == pytest.approx(sum(expected.values()))


@pytest.mark.parametrize("likely", [False, True])
def test_members_of_a_class_have_its_loss_and_are_uniform(likely: bool) -> None:
    """Sequences that are drawn from a class have the loss of the class and are uniform.

    Together, the classes have every sequence of 3 labels once, also if only those of `likely` losses are kept: at a
    small weight of losses, these are all.
    """
    rng = np.random.default_rng(1)
    falling_counts_by_query = np.array([[3, 3, 1, 1, 0]])
    num_draws = 3_000
    loss_by_sequence = losses_by_definition(counts=falling_counts_by_query[0], k=3)
    sequence_classes = (
        JointClasses.likely(falling_counts=falling_counts_by_query, k=3, loss_weight=0.01)
        if likely
        else JointClasses.from_counts(falling_counts=falling_counts_by_query, k=3, splits_ties=True)
    )
    repeated = dataclasses.replace(
        sequence_classes,
        falling_counts=np.repeat(sequence_classes.falling_counts, num_draws, axis=0),
        classes_by_loss=np.repeat(sequence_classes.classes_by_loss, num_draws, axis=0),
        losses=np.repeat(sequence_classes.losses, num_draws, axis=0),
        log_sizes=np.repeat(sequence_classes.log_sizes, num_draws, axis=0),
    )
    sequences_of_earlier_classes: set[Sequence] = set()
    for class_index, loss in enumerate(sequence_classes.losses[0]):
        sequences = repeated.draw_members(class_places=np.full(num_draws, class_index), rng=rng)
        num_draws_of_sequence = Counter(map(tuple, sequences.tolist()))
        num_members = round(np.exp(sequence_classes.log_sizes[0, class_index]))
        assert len(num_draws_of_sequence) == num_members
        deviations = np.array(list(num_draws_of_sequence.values())) - num_draws / num_members
        assert np.abs(deviations).max() <= 6 * np.sqrt(num_draws / num_members)
        assert {loss_by_sequence[sequence] for sequence in num_draws_of_sequence} == {int(loss)}
        assert not sequences_of_earlier_classes & num_draws_of_sequence.keys()
        sequences_of_earlier_classes |= num_draws_of_sequence.keys()
    assert sequences_of_earlier_classes == loss_by_sequence.keys()


@pytest.mark.parametrize(
    ("k", "loss_weight", "drops_small_losses"),
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
    k: int, loss_weight: float, drops_small_losses: bool
) -> None:
    """Of the sequences of labels of 300 random counts, only those with likely losses are kept.

    The large losses that are left out have between e^-85 and e^-61 of the weight of all sequences, by exact counts, so
    no loss is left out without need. With `drops_small_losses` the same holds for small losses, else none of these
    is left out.
    """
    falling_counts = -np.sort(-np.random.default_rng(2).integers(low=0, high=2_000, size=300))
    classes = JointClasses.likely(falling_counts=falling_counts[None], k=k, loss_weight=loss_weight)
    smallest_loss = classes.losses[0, 1]
    largest_loss = classes.losses[0, -1]
    num_sequences_by_loss = JointTopK(k=k, epsilon=1.0).class_counts(falling_counts)
    losses = np.array(list(num_sequences_by_loss))
    log_num_sequences = np.array([math.log(number) for number in num_sequences_by_loss.values()])
    log_weights = log_num_sequences - loss_weight * losses
    total_log_weight = np.logaddexp.reduce(log_weights)
    drops_large_losses = largest_loss < losses.max()
    for is_dropped, drops_losses in (
        (losses > largest_loss, drops_large_losses),
        (losses < smallest_loss, drops_small_losses),
    ):
        assert is_dropped.any() == drops_losses
        if drops_losses:
            dropped_log_share = np.logaddexp.reduce(log_weights[is_dropped]) - total_log_weight
            assert -85 < dropped_log_share < -61.5
    for loss, log_num_of_loss in zip(losses, log_num_sequences, strict=True):
        # The best sequence, of loss 0, has a class of its own.
        if smallest_loss <= loss <= largest_loss and loss > 0:
            log_sizes_of_classes = classes.log_sizes[classes.losses == loss]
            assert np.logaddexp.reduce(log_sizes_of_classes) == pytest.approx(
                log_num_of_loss, abs=1e-9
            )


@pytest.mark.slow
def test_few_and_many_classes_have_the_same_distribution() -> None:
    """Draws by the code for few classes (sequences of one loss) and by that for many follow the exact distribution.

    Both follow it by a chi-square test.
    """
    rng = np.random.default_rng(3)
    counts = np.array([4, 4, 2, 1, 0])
    for mechanism in (JointTopK(k=2, epsilon=2.0), PermuteAndFlipJointTopK(k=2, epsilon=2.0)):
        distribution = mechanism.distribution(counts)
        drawn_by_few = mechanism._draw_sequences(
            np.tile(counts, (20_000, 1)), draw_classes=mechanism.draw_class_of_each, rng=rng
        )
        drawn_by_many = np.concatenate(
            [
                mechanism._draw_sequences(
                    counts[None], draw_classes=mechanism.draw_class_of_one, rng=rng
                )
                for _ in range(2_500)
            ]
        )
        for drawn in (drawn_by_few, drawn_by_many):
            outcome_counts = Counter(map(tuple, drawn.tolist()))
            assert (
                chi_square_p_value(count_by_outcome=outcome_counts, prob_by_outcome=distribution)
                > 1e-4
            )


def test_permute_and_flip_is_the_noisy_maximum_over_sequences() -> None:
    """Joint permute-and-flip has the distribution of the sequence with the largest noisy value.

    The value of a sequence is exponential noise less the weighted loss.
    """
    counts = np.array([2, 1, 1])
    mechanism = PermuteAndFlipJointTopK(k=2, epsilon=3.0)
    loss_by_sequence = losses_by_definition(counts=counts, k=2)
    utilities_of_sequences = -mechanism.loss_weight * np.array(
        list(loss_by_sequence.values()), dtype=float
    )
    expected = ordered_distribution(
        values_in_scales=utilities_of_sequences, k=1, unit_noise=UNIT_NOISES["exponential"]
    )
    distribution = mechanism.distribution(counts)
    for sequence_index, sequence in enumerate(loss_by_sequence):
        assert distribution[sequence] == pytest.approx(expected[(sequence_index,)], rel=1e-10)


@pytest.mark.parametrize(("adjacency", "range_of_one"), [("replace_one", 2), ("add_remove", 1)])
def test_the_widest_range_of_losses_is_the_charged_one(adjacency: str, range_of_one: int) -> None:
    """For the worst change of one teacher, the changes of all losses span exactly the range that is charged.

    This range is `range_of_one` for sequences of one label, and twice that for two labels.
    """
    moves = (-1, 0, 1) if adjacency == "replace_one" else (0, 1)
    widest_ranges = {1: 0.0, 2: 0.0}  # by the number of labels in a sequence
    for k in widest_ranges:
        mechanism = JointTopK(k=k, epsilon=1.0, adjacency=adjacency)
        for counts in product(range(1, 4), repeat=3):
            _, losses = mechanism.losses_of(np.array(counts))
            for move in product(moves, repeat=3):
                _, moved_losses = mechanism.losses_of(np.array(counts) + move)
                range_of_changes = float(np.ptp(moved_losses - losses))
                widest_ranges[k] = max(widest_ranges[k], range_of_changes)
        assert widest_ranges[k] == mechanism.range_of_losses
    assert widest_ranges == {1: range_of_one, 2: 2 * range_of_one}


@pytest.mark.slow
def test_permute_and_flip_leaves_classes_out_only_at_a_price() -> None:
    """Permute-and-flip leaves unlikely sequences out only if its failure probability is e^-60 (1 + e^epsilon) or more.

    Here 1,000 of a million labels are drawn, which is too many to keep all sequences. The failure probability 0 is too
    small at epsilon log(30,000), and 0.5 at epsilon 61; 1e-12 is enough at epsilon 30, and the drawn labels all differ.
    """
    counts = np.random.default_rng(1).permutation(1_000_000) // 7 * 7
    without_failures = PermuteAndFlipJointTopK(k=1000, epsilon=math.log(30_000))
    with refused_parameter("failure_prob", value=0.0, rule_words="2.7e-22"):
        without_failures(counts, rng=np.random.default_rng(0))
    too_large_epsilon = PermuteAndFlipJointTopK(k=1000, epsilon=61.0, failure_prob=0.5)
    with refused_parameter("failure_prob", value=0.5):
        too_large_epsilon(counts, rng=np.random.default_rng(0))
    mechanism = PermuteAndFlipJointTopK(k=1000, epsilon=30.0, failure_prob=1e-12)
    assert mechanism.event == ApproximateEvent(PureDpEvent(epsilon=30.0), failure_prob=1e-12)
    outcome = mechanism(counts, rng=np.random.default_rng(0))
    assert len(np.unique(outcome.indices)) == 1000
