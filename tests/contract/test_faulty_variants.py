"""Privacy faults of public code are reproduced: checks fail for the faulty variants and pass for the package."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from pate import accounting
from pate.aggregators import (
    Aggregator,
    ClippedVotes,
    ConfidentVotes,
    GaussianVotes,
    GNMax,
    PowersetGNMax,
    StableTopK,
)
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.auditing.data_dependent import DataDependentCost, gnmax_cost
from pate.auditing.gnmax_divergence import gnmax_log_q, theorem_6_rdp
from pate.auditing.smooth_sensitivity import gnmax_smooth_sensitivity
from pate.data import Partition
from pate.data.split import Split
from pate.mechanisms import PermuteAndFlipTopK
from pate.pricing import largest_num_queries
from pate.validation import InvalidValue
from tests.contract.aggregator_cases import CASES, NUM_LABELS, NUM_TEACHERS, Case
from tests.privacy.case import SmallInstance
from tests.privacy.divergences import assert_covered, largest_renyi, price_curve
from tests.privacy.rival_distributions import confident_votes_distribution
from tests.refusals import refused_parameter

REPLACE = accounting.Adjacency.REPLACE_ONE
STABLE_TOP_K = StableTopK(selection_scale=40.0, test_std=60.0)
GAUSSIAN_VOTES = GaussianVotes(noise_std=50.0)


def fault_found() -> AbstractContextManager[object]:
    """Returns a context that fails unless a check in it raises the AssertionError of a fault."""
    return pytest.raises(AssertionError, match=r"^fault: |of its price")


def check_bits(event: accounting.Event, first_probs: FloatArray, second_probs: FloatArray) -> None:
    """Fails if the event's price is below the Renyi divergence of independent bits on two neighbors.

    Both directions are compared.

    Args:
        event: the price.
        first_probs: the probability of a 1 of each bit, on the first neighbor.
        second_probs: the same on the second neighbor.
    """
    bit_patterns = np.array(list(product((False, True), repeat=len(first_probs))))
    first_law = np.where(bit_patterns, first_probs, 1 - first_probs).prod(axis=1)
    second_law = np.where(bit_patterns, second_probs, 1 - second_probs).prod(axis=1)
    check_laws(event, first_law=first_law, second_law=second_law)


def check_laws(event: accounting.Event, *, first_law: FloatArray, second_law: FloatArray) -> None:
    """Fails if the event's price is below the Renyi divergence of two distributions, in either direction.

    Args:
        event: the price.
        first_law: the probability of each outcome on the first neighbor.
        second_law: the same on the second neighbor.
    """
    assert_covered(
        renyi_divergence=largest_renyi(
            first_laws=np.stack([first_law, second_law]),
            second_laws=np.stack([second_law, first_law]),
        ),
        renyi_price=price_curve(event),
    )


# 1. A threshold computed from raw votes: in the middle of the largest gap


def adaptive_threshold_probabilities(aggregator: Any, counts: IntArray) -> FloatArray:
    """Returns the probability that the faulty variant releases each label.

    Its threshold lies in the middle of the largest gap between counts.
    """
    rising_counts = np.sort(counts)
    below_gap = int(np.argmax(np.diff(rising_counts)))
    threshold = (rising_counts[below_gap] + rising_counts[below_gap + 1]) / 2
    return np.asarray(ndtr((counts - threshold) / aggregator.noise_std))


def label_probabilities(aggregator: Aggregator, counts: IntArray) -> FloatArray:
    """Returns the exact probability that each label is released."""
    if isinstance(aggregator, GaussianVotes):
        return np.asarray(ndtr((counts - 400) / aggregator.noise_std))
    num_labels = len(counts)
    release_probs = np.zeros(num_labels)
    for labels, probability in aggregator.distribution(counts, num_teachers=800).items():  # type: ignore[attr-defined]
        release_probs[list(labels or ())] += probability
    return release_probs


def check_label_probabilities(
    aggregator: Aggregator, probabilities_of: Callable[[Any, IntArray], FloatArray]
) -> None:
    """Checks that one vote changes the probability of each label by less than 0.4, at epsilon 0.97 and four labels.

    The probability after the change is also at most exp(0.97) times the one before plus 1e-6.

    Args:
        aggregator: the aggregator, which is calibrated to epsilon 0.97 for 800 teachers.
        probabilities_of: returns the probability that each label is released, given the calibrated aggregator and the
            counts.
    """
    calibrated = aggregator.calibrated(
        target_epsilon=0.97, target_delta=1e-6, num_queries=1, num_labels=4, num_teachers=800
    )
    one_vote_more = np.eye(4, dtype=int)
    changes = np.concatenate([one_vote_more, -one_vote_more])
    for counts in np.array(
        [
            [400, 400, 399, 0],
            [800, 401, 400, 0],
            [500, 300, 1, 0],
            [799, 2, 1, 1],
            [800, 400, 0, 0],
        ]
    ):
        probs_before = probabilities_of(calibrated, counts)
        for neighboring_counts in np.clip(counts + changes, a_min=0, a_max=800):
            probs_after = probabilities_of(calibrated, neighboring_counts)
            assert (probs_after <= math.exp(0.97) * probs_before + 1e-6 + 1e-12).all(), (
                f"fault: {probs_before} turns into {probs_after}"
            )
            assert (np.abs(probs_after - probs_before) < 0.4).all(), (
                f"fault: {probs_before} turns into {probs_after}"
            )


@pytest.mark.slow
def test_1_thresholds_do_not_depend_on_the_votes() -> None:
    """One vote changes the probabilities of labels in Gaussian votes and stable top-k by little.

    In the faulty variant the threshold lies in the largest gap between counts, so that one vote moves it far.
    """
    for aggregator in (GAUSSIAN_VOTES, STABLE_TOP_K):
        check_label_probabilities(aggregator, probabilities_of=label_probabilities)
    with fault_found():
        check_label_probabilities(GAUSSIAN_VOTES, probabilities_of=adaptive_threshold_probabilities)


# 2. One seed for all queries


def check_fresh_noise(
    draw_labels: Callable[[IntArray, Any], BoolArray], source_of_noise: Any
) -> None:
    """Checks that 400 equal uncertain queries have all 16 outcomes.

    Args:
        draw_labels: returns the released labels, given the counts and the source of random numbers.
        source_of_noise: the source of random numbers.
    """
    uncertain_counts = np.full((400, 4), 20)
    labels_of_queries = draw_labels(uncertain_counts, source_of_noise)
    assert len(np.unique(labels_of_queries, axis=0)) == 16, "fault: every query has the same noise"


def labels_of_gaussian_votes(counts: IntArray, rng: Any, noise_std: float = 3.0) -> BoolArray:
    """Returns the labels that Gaussian votes of 40 teachers release."""
    return GaussianVotes(noise_std=noise_std).aggregate(counts, num_teachers=40, rng=rng).labels


def test_2_noise_is_fresh_for_every_query() -> None:
    """Gaussian votes of 400 equal uncertain queries have all 16 possible outcomes.

    The faulty variant seeds the noise anew for every query. The package refuses a seed in place of a generator.
    """

    def draw_seeded_labels(counts: IntArray, seed: int) -> BoolArray:
        return np.stack(
            [
                row + np.random.default_rng(seed).normal(loc=0, scale=3.0, size=row.shape) > 20
                for row in counts
            ]
        )

    check_fresh_noise(
        draw_labels=labels_of_gaussian_votes, source_of_noise=np.random.default_rng(0)
    )
    seed = 7
    with fault_found():
        check_fresh_noise(draw_labels=draw_seeded_labels, source_of_noise=seed)
    with refused_parameter("rng", value=7):
        labels_of_gaussian_votes(counts=np.full((400, 4), 20), rng=7)


# 3. tau charged for a cap of tau, and 5. many labels for the price of one


def test_3_a_record_that_changes_can_trade_tau_votes_for_tau_others() -> None:
    """The price of clipped votes covers a teacher who votes for two labels in place of two others.

    The faulty variant is charged for two counts that move, where four move.
    """
    counts = np.array([2, 2, 1, 1])
    bit_probs = ndtr((counts - 1.5) / 20.0)
    traded_counts = counts[::-1]
    traded_bit_probs = ndtr((traded_counts - 1.5) / 20.0)
    for norm in ("l1", "l2"):
        price = ClippedVotes(noise_std=20.0, vote_clip=2, norm=norm).event_for(
            num_queries=1, num_labels=4, num_teachers=3
        )
        check_bits(price, first_probs=bit_probs, second_probs=traded_bit_probs)
    with fault_found():
        check_bits(
            event=accounting.GaussianEvent(noise_multiplier=20.0 / 2**0.5),
            first_probs=bit_probs,
            second_probs=traded_bit_probs,
        )


def test_3_the_size_of_the_fault_at_a_published_figure() -> None:
    """Epsilon 3.69 at delta 1e-6, which published code claims, would be 5.34 if all moved votes were counted.

    The code counts half of the votes. Both epsilons are converted in the same way, from rho and from twice this rho.
    """

    def epsilon_of(rho: float) -> float:
        """Returns the epsilon of rho-zCDP at delta 1e-6, by Bun & Steinke 2016, Proposition 1.3."""
        return rho + 2 * math.sqrt(rho * math.log(1e6))

    claimed_rho = next(rho for rho in np.linspace(0.2, 0.25, 5001) if epsilon_of(rho) >= 3.69)
    assert epsilon_of(2 * claimed_rho) == pytest.approx(5.34, abs=0.03)


def test_5_every_label_is_charged() -> None:
    """The price of Gaussian votes covers eight noisy bits that one teacher changes at once.

    The faulty variant is charged for two counts that move, as if a teacher had one vote.
    """
    bit_probs = np.full(8, ndtr(0.0))
    moved_bit_probs = np.full(8, ndtr(-1 / 5.0))
    price = GaussianVotes(noise_std=5.0).event_for(num_queries=1, num_labels=8, num_teachers=4)
    check_bits(price, first_probs=bit_probs, second_probs=moved_bit_probs)
    with fault_found():
        check_bits(
            event=accounting.GaussianEvent(noise_multiplier=5.0 / 2**0.5),
            first_probs=bit_probs,
            second_probs=moved_bit_probs,
        )


# 4. A conjunction of noisy counts charged as one


def conjunction_ratio(num_counts: int, event: accounting.Event) -> float:
    """Returns the largest ratio of the exact Renyi divergence of a bit of several noisy counts to an event's price.

    The bit is 1 if `num_counts` equal counts, each with its own noise of std 50, all exceed 0. On the neighbor, all
    counts are one larger or smaller. All Renyi orders and counts from -175 to 175 are tried.
    """
    probs_of_one = ndtr(np.arange(-175, 176) / 50.0) ** num_counts  # for each value of the counts
    laws = np.stack([probs_of_one, 1 - probs_of_one], axis=1)
    divergences = largest_renyi(
        first_laws=np.concatenate([laws[1:], laws[:-1]]),
        second_laws=np.concatenate([laws[:-1], laws[1:]]),
    )
    return float((divergences / price_curve(event)).max())


def test_4_a_conjunction_of_noisy_counts_costs_more_than_one() -> None:
    """A bit that is 1 if 5 or 20 noisy counts all exceed 0 costs over 1.8 or 4.3 times one noisy count."""
    event_of_one_count = accounting.GaussianEvent(noise_multiplier=50.0)
    assert conjunction_ratio(num_counts=5, event=event_of_one_count) > 1.8
    assert conjunction_ratio(num_counts=20, event=event_of_one_count) > 4.3


def test_4_screening_draws_one_noise() -> None:
    """The price of screening 20 labels covers a single noisy count, and would not cover 20.

    The package adds noise once, to the smallest majority.
    """
    screening_event = ConfidentVotes(
        screening_std=50.0, threshold_share=0.5, noise_std=1e9
    ).event_for(num_queries=1, num_labels=20, num_teachers=350)
    assert conjunction_ratio(num_counts=1, event=screening_event) <= 1 + 1e-9
    assert conjunction_ratio(num_counts=20, event=screening_event) > 4


# 6. No noise costs nothing


def epsilon_of_rdp(renyi_orders: FloatArray, rdp: FloatArray, delta: float) -> float:
    """Returns the epsilon of Renyi divergences as faulty code does, where all divergences 0 give epsilon 0.

    That code writes a divergence of 0 for a release without noise.
    """
    return 0.0 if np.sum(rdp) == 0 else float((rdp - math.log(delta) / (renyi_orders - 1)).min())


def check_no_noise(epsilon: float) -> None:
    """Checks that `epsilon`, the price that is computed for a release without noise, is infinite."""
    assert epsilon == math.inf, f"fault: a release without noise costs {epsilon}"


def test_6_no_noise_costs_infinity() -> None:
    """A Gaussian event without noise has an infinite epsilon.

    The faulty variant writes a divergence of 0 if there is no noise, and so gives epsilon 0.
    """
    check_no_noise(
        accounting.RdpAccountant()
        .compose(accounting.GaussianEvent(noise_multiplier=0.0))
        .get_epsilon(target_delta=1e-6)
    )
    orders = np.arange(2.0, 60.0)
    with fault_found():
        check_no_noise(epsilon=epsilon_of_rdp(orders, rdp=np.zeros_like(orders), delta=1e-6))


# 7. A variance called a standard deviation


def check_scale(draw_labels: Callable[[IntArray, Any, float], BoolArray]) -> None:
    """Checks that a count one noise std above the threshold, half of 40 teachers, passes with probability Phi(1).

    Args:
        draw_labels: returns the released labels, given counts of 40 teachers, the generator, and the std of the noise.
    """
    noise_std = 8.0
    counts_one_std_above_half = np.full((40_000, 1), 28)
    rng = np.random.default_rng(0)
    share = draw_labels(counts_one_std_above_half, rng, noise_std).mean()
    assert abs(share - ndtr(1.0)) < 0.01, (
        f"fault: a margin of one std passes with probability {share}"
    )


def renyi_at_8(aggregator: Aggregator) -> float:
    """Returns the price of a release of 600 queries and 40 labels by 800 teachers, at Renyi order 8."""
    event = aggregator.event_for(num_queries=600, num_labels=40, num_teachers=800)
    return float(price_curve(event, renyi_orders=np.array([8.0]))[0])


def test_7_noise_has_its_stated_std_in_votes() -> None:
    """A count that is one noise std above the threshold passes with probability Phi(1).

    Twice the std has a quarter of the Renyi price. A gap at the threshold of a stability test passes half the time. The
    faulty variant takes the std for a variance.
    """
    check_scale(draw_labels=labels_of_gaussian_votes)

    def draw_labels_with_root_of_std(counts: IntArray, rng: Any, noise_std: float) -> BoolArray:
        return counts + rng.normal(loc=0, scale=math.sqrt(noise_std), size=counts.shape) > 20

    with fault_found():
        check_scale(draw_labels=draw_labels_with_root_of_std)
    assert renyi_at_8(GAUSSIAN_VOTES) == pytest.approx(
        4 * renyi_at_8(GAUSSIAN_VOTES.scaled(noise_factor=2.0)), rel=0.01
    )
    # The sensitivity plus std * Phi^-1(1 - 1e-9): a gap of this size passes half the time.
    gap_at_half = np.array(2 + round(STABLE_TOP_K.test_std * 5.9978))
    pass_prob = STABLE_TOP_K.stability_test(num_teachers=800).pass_probabilities(gap_at_half)
    assert pass_prob == pytest.approx(0.5, abs=0.005)


# 8. and 10. Prices that depend on the votes


def check_price_is_blind(price_of: Callable[[IntArray], float]) -> None:
    """Checks that 30 queries with clear, nearly clear or tied votes have one price.

    Args:
        price_of: returns the price of a release of votes, given their counts `[num_queries, 3]`.
    """
    clear, nearly_clear, tied = [40, 0, 0], [39, 1, 0], [20, 20, 0]
    prices = {price_of(np.tile(counts, (30, 1))) for counts in (clear, nearly_clear, tied)}
    assert len(prices) == 1, f"fault: prices {prices} tell about the votes"


def charged_epsilon(aggregator: Aggregator, counts: IntArray) -> float:
    """Returns the epsilon that an aggregator charges for a release of votes, by Renyi divergences at delta 1e-5."""
    release = aggregator.aggregate(counts, num_teachers=40, rng=np.random.default_rng(0))
    return accounting.RdpAccountant().compose(release.event).get_epsilon(target_delta=1e-5)


def test_8_an_expected_cost_is_no_price() -> None:
    """The price of ConfidentVotes is the same for clear, nearly clear and tied votes.

    The faulty price is the cost of an answer times the probability that it is given.
    """
    aggregator = ConfidentVotes(screening_std=2.0, threshold_share=0.85, noise_std=6.0)
    check_price_is_blind(price_of=partial(charged_epsilon, aggregator))

    def expected_cost(counts: IntArray) -> float:
        answer_probs = ndtr((counts.max(axis=1) - 34) / 2.0)
        rdp_of_answer = 8 / 36  # at Renyi order 8
        return float((answer_probs * rdp_of_answer).sum())

    with fault_found():
        check_price_is_blind(price_of=expected_cost)


def test_10_a_data_dependent_epsilon_is_no_guarantee() -> None:
    """The price of GNMax is the same for clear, nearly clear and tied votes.

    No accountant takes a data-dependent cost. The faulty variant charges Theorem 6 of Papernot et al. 2018, whose value
    depends on the votes.
    """

    def theorem_6_epsilon(counts: IntArray) -> float:
        orders = np.arange(2.0, 60.0)
        log_q = gnmax_log_q(counts, noise_std=8.0)
        rdp_of_queries = theorem_6_rdp(log_q, noise_std=8.0, orders=orders)
        return epsilon_of_rdp(orders, rdp=rdp_of_queries.sum(axis=0), delta=1e-5)

    check_price_is_blind(price_of=partial(charged_epsilon, GNMax(noise_std=8.0)))
    with fault_found():
        check_price_is_blind(price_of=theorem_6_epsilon)
    cost = gnmax_cost(np.array([[40, 0, 0]]), noise_std=8.0, num_teachers=40, orders=[2.0, 8.0])
    with refused_parameter("event", value="DataDependentCost"):
        accounting.RdpAccountant().compose(cost)


# 9. Screening for nothing: the price of the answer alone


def test_9_screening_and_answer_are_charged_together() -> None:
    """The price of ConfidentVotes covers an observer who sees only whether there was an answer.

    The noise of the answers is so large here that they tell nothing. The faulty variant charges the answer alone.
    """
    aggregator = ConfidentVotes(screening_std=1.0, threshold_share=0.75, noise_std=50.0)
    small_instance = SmallInstance(REPLACE, num_labels=2, num_teachers=4)
    first_distribution = confident_votes_distribution(
        aggregator, counts=np.array([3, 3]), small_instance=small_instance
    )
    second_distribution = confident_votes_distribution(
        aggregator, counts=np.array([4, 4]), small_instance=small_instance
    )
    outcomes = list(first_distribution)
    first_law = np.array([first_distribution[outcome] for outcome in outcomes])
    second_law = np.array([second_distribution[outcome] for outcome in outcomes])
    price = aggregator.event_for(num_queries=1, num_labels=2, num_teachers=4)
    check_laws(price, first_law=first_law, second_law=second_law)
    with fault_found():
        check_laws(
            event=accounting.GaussianEvent(noise_multiplier=50.0 / 2**0.5),
            first_law=first_law,
            second_law=second_law,
        )


# 11. A smooth sensitivity that knows class 0 only


def check_classes_alike(sensitivity_of_counts: Callable[[IntArray], float]) -> None:
    """Checks that the sensitivity is positive and the same, whichever class wins.

    Args:
        sensitivity_of_counts: returns the smooth sensitivity of two queries, given their counts `[2, 3]`.
    """
    counts = np.array([[30, 8, 2], [25, 10, 5]])
    sensitivities = [
        sensitivity_of_counts(np.roll(counts, shift=winner, axis=1)) for winner in range(3)
    ]
    assert min(sensitivities) > 0 and math.isclose(min(sensitivities), max(sensitivities)), (
        f"fault: sensitivities {sensitivities} by who wins"
    )


def test_11_smooth_sensitivity_does_not_depend_on_which_class_wins() -> None:
    """The smooth sensitivity of GNMax is the same whichever class wins.

    The fault is to look sorted values up by unsorted indices, which gives 0 unless class 0 wins.
    """

    def sensitivity_of_counts(counts: IntArray) -> float:
        return gnmax_smooth_sensitivity(
            counts, noise_std=8.0, num_teachers=40, order=8.0, beta=0.05
        )

    check_classes_alike(sensitivity_of_counts=sensitivity_of_counts)

    def sensitivity_if_class_0_wins(counts: IntArray) -> float:
        return sensitivity_of_counts(counts) if (counts.argmax(axis=1) == 0).all() else 0.0

    with fault_found():
        check_classes_alike(sensitivity_of_counts=sensitivity_if_class_0_wins)


# 12. Teachers that share a person: records dealt without looking at whose they are


def check_one_teacher_a_person(teacher_of: IntArray, group_ids: IntArray) -> None:
    """Checks that all records of a person are with one teacher."""
    for person in np.unique(group_ids):
        assert len(set(teacher_of[group_ids == person].tolist())) == 1, (
            f"fault: person {person} has several teachers"
        )


def test_12_a_person_has_one_teacher() -> None:
    """`Partition.draw` deals all records of a person to one teacher.

    The faulty variant deals records without regard to whose they are. `verify` refuses such a partition.
    """
    person_of_record = np.repeat(np.arange(30), 3)
    teacher_of_record = np.arange(90) % 7
    partition = Partition.draw(person_of_record, num_teachers=7, rng=np.random.default_rng(0))
    check_one_teacher_a_person(partition.teacher_of, group_ids=person_of_record)
    with fault_found():
        check_one_teacher_a_person(teacher_of_record, group_ids=person_of_record)
    inputs = np.zeros((90, 1), np.float32)
    labels = np.zeros((90, 1), bool)
    with refused_parameter("group_ids", rule_words="group"):
        Partition(teacher_of_record, num_teachers=7).verify(
            Split(
                inputs=inputs, labels=labels, record_ids=np.arange(90), group_ids=person_of_record
            )
        )


# 13. NaN and negative prices


def check_bad_divergences_are_refused(read_rdp: Callable[[FloatArray], object]) -> None:
    """Checks that a reader of Renyi divergences raises `InvalidValue` for NaN and for a negative number.

    Args:
        read_rdp: the reader, which takes two divergences.
    """
    for bad_divergence in (np.nan, -0.1):
        try:
            read_rdp(np.array([0.1, bad_divergence]))
        except InvalidValue:
            continue
        raise AssertionError(f"fault: a divergence of {bad_divergence} goes through")


def test_13_a_price_that_is_no_number_is_refused() -> None:
    """Data-dependent costs and zCDP events refuse NaN and negative divergences.

    The faulty variant turns them into 0.
    """

    def make_data_dependent_cost(rdp: FloatArray) -> object:
        return DataDependentCost(orders=np.array([2.0, 3.0]), rdp=rdp)

    def make_zcdp_events(rdp: FloatArray) -> object:
        return [accounting.ZCdpEvent(rho=float(rho)) for rho in rdp]

    def replace_bad_divergences_by_zeros(rdp: FloatArray) -> object:
        return np.maximum(np.nan_to_num(rdp), 0.0)

    check_bad_divergences_are_refused(read_rdp=make_data_dependent_cost)
    check_bad_divergences_are_refused(read_rdp=make_zcdp_events)
    with fault_found():
        check_bad_divergences_are_refused(read_rdp=replace_bad_divergences_by_zeros)
    with refused_parameter("logits", value="0.0, nan"):
        accounting.OneBitEvent(logits=(0.0, math.nan), reach=1)


def queries_until_spent(
    epsilon_of: Callable[[int], float], max_epsilon: float, max_queries: int
) -> int:
    """Returns how many queries faulty code asks: it stops once the next one would cost more than a budget.

    NaN is never more than a budget.

    Args:
        epsilon_of: returns the epsilon of a number of queries.
        max_epsilon: the budget.
        max_queries: the number of queries after which the code stops at any price.
    """
    num_asked = 0
    while num_asked < max_queries and not epsilon_of(num_asked + 1) > max_epsilon:
        num_asked += 1
    return num_asked


def check_budget(num_queries: int) -> None:
    """Checks that fewer than 10,000 queries were asked."""
    assert num_queries < 10_000, f"fault: {num_queries} queries at a price that is not a number"


@pytest.mark.slow
def test_13_no_loop_runs_on_a_price_that_is_not_a_number() -> None:
    """`largest_num_queries` affords fewer than 10,000 queries at epsilon 8.

    In the faulty loop the price of any number of queries is NaN, which never exceeds the budget. So that loop only
    stops at its limit of 10,000 queries.
    """
    num_affordable = largest_num_queries(
        GaussianVotes(noise_std=100.0),
        max_epsilon=8.0,
        target_delta=1e-6,
        num_labels=40,
        num_teachers=800,
    )
    check_budget(num_queries=num_affordable)

    def price_that_is_nan(num_queries: int) -> float:
        return math.nan

    num_asked = queries_until_spent(
        epsilon_of=price_that_is_nan, max_epsilon=8.0, max_queries=10_000
    )
    with fault_found():
        check_budget(num_queries=num_asked)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_13_no_price_is_nan_or_negative(case: Case) -> None:
    """Renyi divergences and epsilon are at least 0 for a millionth to a million times an aggregator's own noise."""
    for noise_factor in (1e-6, 1e-3, 1.0, 1e3, 1e6):
        event = case.aggregator.scaled(noise_factor).event_for(
            num_queries=600, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS
        )
        accountant = accounting.RdpAccountant().compose(event)
        assert (accountant.rdp >= 0).all()
        assert accountant.get_epsilon(target_delta=1e-3) >= 0


# 14. One price for two adjacencies


def check_two_adjacencies(
    price_under: Callable[[accounting.Adjacency], accounting.Event], min_price_ratio: float
) -> None:
    """Checks that the price under replace-one is at least `min_price_ratio` times that under add-remove.

    Args:
        price_under: returns the price under an adjacency.
        min_price_ratio: the smallest ratio of both prices, at each Renyi order.
    """
    price_of_replacing = price_curve(price_under(REPLACE))
    price_of_removing = price_curve(price_under(accounting.Adjacency.ADD_REMOVE))
    assert (price_of_replacing >= min_price_ratio * price_of_removing * (1 - 1e-9)).all(), (
        "fault: a record costs what a teacher costs"
    )


@pytest.mark.parametrize(
    ("aggregator", "min_price_ratio"),
    [
        (ClippedVotes(noise_std=50.0, vote_clip=3), 2),
        (ClippedVotes(noise_std=50.0, vote_clip=3, norm="l2"), 2),
        (PowersetGNMax(noise_std=50.0), 2),
        (GNMax(noise_std=50.0), 2),
        (StableTopK(selection_scale=400.0, test_std=600.0), 3.9),
    ],
    ids=["clipped_l1", "clipped_l2", "powerset", "gnmax", "stable_top_k"],
)
def test_14_replace_one_costs_more_where_votes_are_traded(
    aggregator: Any, min_price_ratio: float
) -> None:
    """The price under replace-one is at least twice that under add-remove, and for stable top-k 3.9 times.

    For a replaced teacher moves up to twice as many counts as a removed one, or a gap by 2 in place of 1. The faulty
    variant charges the same for both.
    """

    def price_under(adjacency: accounting.Adjacency) -> accounting.Event:
        return replace(aggregator, adjacency=adjacency).event_for(
            num_queries=9, num_labels=40, num_teachers=800
        )

    def one_price(_adjacency: accounting.Adjacency) -> accounting.Event:
        return accounting.GaussianEvent(noise_multiplier=50.0)

    check_two_adjacencies(price_under=price_under, min_price_ratio=min_price_ratio)
    with fault_found():
        check_two_adjacencies(price_under=one_price, min_price_ratio=min_price_ratio)


def test_14_plain_votes_cost_the_same_under_both_adjacencies() -> None:
    """Gaussian votes have the same Renyi price under both adjacencies, as the count of each label moves by 1."""
    assert renyi_at_8(GAUSSIAN_VOTES) == renyi_at_8(
        replace(GAUSSIAN_VOTES, adjacency=accounting.Adjacency.ADD_REMOVE)
    )


# 15. Permute-and-flip as the exponential mechanism: rho of a bounded range, for a mechanism that has none


def permute_and_flip(utilities: FloatArray, epsilon: float) -> FloatArray:
    """Returns the probability that each candidate is picked, `[n]`, by the definition of permute-and-flip.

    The candidates come in random order, and each is picked if its coin shows True. One change moves a utility by 1.
    """
    acceptance_probs = np.exp(epsilon * (utilities - utilities.max()) / 2)
    distribution = np.zeros(len(acceptance_probs))
    for order in permutations(range(len(acceptance_probs))):
        remaining_prob = 1 / math.factorial(len(acceptance_probs))
        for candidate in order:
            distribution[candidate] += remaining_prob * acceptance_probs[candidate]
            remaining_prob *= 1 - acceptance_probs[candidate]
    return distribution


def check_permute_and_flip(event: accounting.Event) -> None:
    """Fails if the event's price is below the Renyi divergence of permute-and-flip between two candidates.

    Epsilon is 0.5. Each candidate has a count from 0 to 4. All neighbors under replace-one are compared: each of the
    two counts moves by at most 1.
    """
    histograms_of_two_labels = np.array(list(product(range(5), repeat=2)), dtype=np.float64)
    first_laws = []
    second_laws = []
    for first_counts, second_counts in product(histograms_of_two_labels, repeat=2):
        if np.abs(first_counts - second_counts).max() <= 1:
            first_laws.append(permute_and_flip(utilities=first_counts, epsilon=0.5))
            second_laws.append(permute_and_flip(utilities=second_counts, epsilon=0.5))
    assert_covered(
        renyi_divergence=largest_renyi(
            first_laws=np.array(first_laws), second_laws=np.array(second_laws)
        ),
        renyi_price=price_curve(event),
    )


def test_15_permute_and_flip_has_no_bounded_range() -> None:
    """The pure-DP price of permute-and-flip covers all neighbors of small histograms.

    The faulty variant charges it like an exponential mechanism, with a bounded range of epsilon.
    """
    check_permute_and_flip(PermuteAndFlipTopK(k=1, epsilon=0.5).event)
    with fault_found():
        check_permute_and_flip(event=accounting.ZCdpEvent(rho=0.5**2 / 8))
