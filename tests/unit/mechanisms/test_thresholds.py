"""Above threshold and between thresholds: distributions, draws, prices, limits and messages."""

import math
import operator
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from pate.accounting import Adjacency, ApproximateEvent, PureDpEvent, SelfComposedEvent
from pate.accounting.target_charging import TargetCharging, min_accesses, not_prior
from pate.array_types import IntArray
from pate.mechanisms import (
    AboveThreshold,
    BetweenThresholds,
    ConditionalRelease,
    SparseVector,
    SweepTopK,
)
from tests.refusals import refused_parameter
from tests.statistical.chi_square import chi_square_p_value


def test_distributions_sum_to_one_far_and_near() -> None:
    """For counts up to 2^40 votes from the thresholds, the probabilities of all outcomes sum to 1.

    The mechanisms are `AboveThreshold` and `BetweenThresholds`. A probability of about e^-100 is accurate to 9 digits.
    """
    counts = np.array([-(2**40), -50, 0, 3, 7, 60, 2**40])
    largest_listed_outcome = 12
    above = AboveThreshold(threshold=3, epsilon=0.3).probabilities(
        counts, largest=largest_listed_outcome
    )
    between = BetweenThresholds(lower=3, upper=9, epsilon=0.3).probabilities(counts)
    assert (above.shape, between.shape) == ((7, 12), (7, 3))
    for distribution in (above, between):
        assert (distribution >= 0).all()
        np.testing.assert_allclose(distribution.sum(axis=1), desired=1, rtol=1e-12)
    rare_prob = BetweenThresholds(lower=100, upper=101, epsilon=1.0).probabilities(0)[1]
    assert rare_prob == pytest.approx(math.tanh(0.5) * math.exp(-100), rel=1e-9)


@pytest.mark.parametrize(
    ("statistic", "adjacency", "statistic_sensitivity"),
    [
        ("count", "replace_one", 1),
        ("count", "add_remove", 1),
        ("gap", "replace_one", 2),
        ("gap", "add_remove", 1),
    ],
)
def test_noise_grows_with_what_one_change_moves(
    statistic: str, adjacency: Adjacency, statistic_sensitivity: int
) -> None:
    """The rate of the noise, which is the inverse of its scale, is epsilon over the sensitivity of the statistic.

    One teacher moves a count by 1, and a gap by 2 under replace-one. The event and the target of hits have epsilon 0.5.
    A rate that is no exact fraction is rounded down for the draw, and the event has the epsilon of the drawn rate.
    """
    above = AboveThreshold(threshold=3, epsilon=0.5, statistic=statistic, adjacency=adjacency)
    between = BetweenThresholds(
        lower=3, upper=7, epsilon=0.5, statistic=statistic, adjacency=adjacency
    )
    for mechanism in (above, between):
        assert float(mechanism.noise.rate) == 0.5 / statistic_sensitivity
        assert mechanism.event == PureDpEvent(epsilon=0.5)
        assert mechanism.target.epsilon == 0.5
    expected = (1 - math.exp(-4 * 0.5 / statistic_sensitivity)) / (math.exp(0.5) + 1)
    assert between.target.hit_prob == pytest.approx(expected, rel=1e-12)
    assert above.target == not_prior(call_epsilon=0.5)
    as_drawn = AboveThreshold(threshold=0, epsilon=0.1)
    assert 0.1 - 2**-32 < as_drawn.call_epsilon <= 0.1
    assert as_drawn.event == PureDpEvent(as_drawn.call_epsilon)


def test_outcomes_charge_a_session() -> None:
    """Counts between the thresholds are hits of the session, which ends at its second hit, the fourth call.

    A single count has a single outcome.
    """
    between = BetweenThresholds(lower=300, upper=500, epsilon=1.0)
    session = TargetCharging.of_targets([between.target], target_hits=2, target_delta=1e-6)
    outcome = between(np.array([100, 400, 700, 420, 410]), rng=np.random.default_rng(0))
    assert outcome.in_target.tolist() == [False, True, False, True, True]
    assert session.charge_batch(outcome.in_target, target=between.target) == 4
    outcome_of_one = AboveThreshold(threshold=300, epsilon=5.0)(700, rng=np.random.default_rng(0))
    assert outcome_of_one.in_target and outcome_of_one.values.shape == ()


def test_impossible_values_are_refused() -> None:
    """Equal thresholds, fractional, two-dimensional or huge counts, and a `largest` below the threshold are refused.

    `largest` is the last outcome that `probabilities` lists by itself. An empty array of counts is allowed.
    """
    huge_count = 2**60
    with refused_parameter("upper", value=3, rule_words="more than lower=3"):
        BetweenThresholds(lower=3, upper=3, epsilon=1.0)
    above = AboveThreshold(threshold=3, epsilon=1.0)
    for impossible_counts, refusal in (
        (np.array([0.5]), refused_parameter("values.dtype", value="float64")),
        (np.zeros((2, 2), dtype=int), refused_parameter("values.shape", value=(2, 2))),
        (np.array([huge_count]), refused_parameter("values", value=huge_count)),
    ):
        with refusal:
            above(impossible_counts, rng=np.random.default_rng(0))
    count_at_threshold = 3
    outcome_below_threshold = 2
    with refused_parameter("largest", value=2, rule_words="a whole number >= 3"):
        above.probabilities(count_at_threshold, largest=outcome_below_threshold)
    no_counts = np.zeros(0, dtype=int)
    assert above(no_counts, rng=np.random.default_rng(0)).values.shape == (0,)


def draw_always(outcome: int) -> Callable[[np.random.Generator], int]:
    """Returns a function that draws `outcome`, whatever the random generator."""

    def draw(_rng: np.random.Generator) -> int:
        return outcome

    return draw


def rng() -> np.random.Generator:
    """Returns a new random generator with the seed 0 at each call; tests call this function, it is no fixture."""
    return np.random.default_rng(0)


def test_sweep_equals_conditional_releases_with_falling_thresholds() -> None:
    """A sweep returns the hits of a session that compares each noisy count with falling thresholds.

    A label is a hit when the threshold falls to its noisy count. The session halts with its k-th hit.
    """
    sweep = SweepTopK(k=3, epsilon=0.3, failure_prob=1e-9)
    counts = np.array([5, 9, 9, 1, 7, 3])
    for seed in range(20):
        outcome = sweep(counts, rng=np.random.default_rng(seed))
        noise = sweep.noise.sample(counts.shape, np.random.default_rng(seed))
        hits = hits_of_falling_thresholds(sweep, noisy_counts=counts + noise)
        assert list(hits) == outcome.indices.tolist()
        assert list(hits.values()) == outcome.scores.tolist()


def hits_of_falling_thresholds(sweep: SweepTopK, noisy_counts: IntArray) -> dict[int, int]:
    """Returns the noisy count of each label that is a hit, in order, in a session with falling thresholds.

    A label is a hit when the threshold reaches its noisy count. The session ends with its k-th hit.
    """
    releases = ConditionalRelease(
        TargetCharging.of_targets([sweep.target], target_hits=sweep.k, target_delta=1e-6)
    )

    def reject_all(_outcome: int) -> bool:
        return False

    keys = []
    for noisy_count in noisy_counts.tolist():
        stored = releases.release(
            draw=draw_always(outcome=noisy_count),
            accept=reject_all,
            epsilon=float(sweep.noise.rate),
            rng=rng(),
        )
        keys.append(stored.key)
    hits: dict[int, int] = {}
    for threshold in range(int(noisy_counts.max()), int(noisy_counts.min()) - 1, -1):
        for label, key in enumerate(keys):
            if releases.session.halted or label in hits:
                continue
            answer = releases.revise(key, accept=partial(operator.eq, threshold))
            if answer.published:
                hits[label] = answer.outcome
    return hits


def sparse_vector(
    epsilon: float = 50.0,
    item_hits: int = 2,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
) -> SparseVector:
    """Returns a sparse vector mechanism, by default with little noise.

    Args:
        epsilon: the epsilon of one noisy sum.
        item_hits: the number of published sums in which a bit of 1 of an item may count.
        adjacency: the adjacency.
    """
    return SparseVector(
        epsilon=epsilon, item_hits=item_hits, failure_prob=1e-9, adjacency=adjacency
    )


def test_item_with_all_its_hits_no_longer_counts() -> None:
    """An item, here a column, whose bit of 1 counted in two published sums no longer counts in later sums.

    The noise is tiny, so each sum is the number of items that still count, computed by hand.
    """
    query_item_bits = np.array(
        [[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 1, 1], [1, 0, 0, 1], [1, 1, 1, 1]],
        dtype=bool,
    )
    outcome = sparse_vector()(query_item_bits, thresholds=2, rng=rng())
    assert outcome.answered.tolist() == [True, True, True, False, False, False]
    assert outcome.values.tolist() == [3, 2, 2, 0, 0, 0]


def test_items_without_the_bit_and_sums_below_the_threshold_are_free() -> None:
    """An item that may count in one published sum uses this hit up only if its bit is 1 in such a sum.

    A sum below its threshold is not published, and an item whose bit is 0 keeps its hit.
    """
    item_bits_with_two_ones = [True, True, False]
    item_bits_of_ones = [True, True, True]
    session = sparse_vector(item_hits=1).start(num_units=3)
    assert session.ask(item_bits_with_two_ones, threshold=3, rng=rng()) is None
    assert session.ask(item_bits_with_two_ones, threshold=2, rng=rng()) == 2
    assert session.ask(item_bits_of_ones, threshold=2, rng=rng()) is None
    assert session.ask(item_bits_of_ones, threshold=1, rng=rng()) == 1
    assert session.ask(item_bits_of_ones, threshold=-5, rng=rng()) == 0


@pytest.mark.slow
def test_draws_follow_the_distribution_of_two_queries() -> None:
    """The draws for two queries follow the exact distribution of both answers.

    Each of two items may count in one published sum (one hit). Both items have bit 1 in both queries, so the second sum
    is 0 if the first was published, and 2 otherwise. A distribution in which the items keep their hits, so that both
    sums are 2, is rejected by the same test.
    """
    mechanism = sparse_vector(epsilon=1.0, item_hits=1)
    query_item_bits = np.ones((2, 2), dtype=bool)
    pass_at_2 = mechanism.noise.tail(values=0)  # a sum of 2 reaches the threshold of 2
    pass_at_0 = mechanism.noise.tail(values=2)
    distribution = {
        (False, False): float((1 - pass_at_2) ** 2),
        (False, True): float((1 - pass_at_2) * pass_at_2),
        (True, False): float(pass_at_2 * (1 - pass_at_0)),
        (True, True): float(pass_at_2 * pass_at_0),
    }
    generator = np.random.default_rng(9)
    drawn = Counter(
        tuple(mechanism(query_item_bits, thresholds=2, rng=generator).answered.tolist())
        for _ in range(1500)
    )
    assert chi_square_p_value(count_by_outcome=drawn, prob_by_outcome=distribution) > 1e-4
    prob_if_hits_are_kept = {True: pass_at_2, False: 1 - pass_at_2}
    distribution_if_hits_are_kept = {
        (first, second): float(prob_if_hits_are_kept[first] * prob_if_hits_are_kept[second])
        for first, second in distribution
    }
    assert (
        chi_square_p_value(count_by_outcome=drawn, prob_by_outcome=distribution_if_hits_are_kept)
        < 1e-4
    )


def test_an_exchange_pays_for_both_items() -> None:
    """Under replace-one, a session pays for the hits of an old and a new item, twice as many as under add-remove."""
    for adjacency, target_hits in ((Adjacency.ADD_REMOVE, 2), (Adjacency.REPLACE_ONE, 4)):
        mechanism = sparse_vector(epsilon=0.5, adjacency=adjacency)
        assert mechanism.target_hits == target_hits
        num_accesses = min_accesses(
            target_hits=mechanism.target_hits,
            hit_prob=not_prior(call_epsilon=0.5).hit_prob,
            overrun_prob=1e-9,
        )
        assert mechanism.event == ApproximateEvent(
            SelfComposedEvent(PureDpEvent(epsilon=0.5), count=num_accesses), failure_prob=1e-9
        )


ABOVE = AboveThreshold(threshold=3, epsilon=1.0)
SWEEP = SweepTopK(k=2, epsilon=1.0, failure_prob=1e-9)
VECTOR = SparseVector(epsilon=1.0, item_hits=2, failure_prob=1e-9)


@pytest.mark.parametrize(
    ("make_invalid", "name", "value"),
    [
        (lambda: replace(ABOVE, threshold=2.5), "threshold", 2.5),
        (lambda: replace(ABOVE, threshold=True), "threshold", True),
        (lambda: replace(ABOVE, epsilon=0.0), "epsilon", 0.0),
        (lambda: replace(ABOVE, statistic="counts"), "statistic", "counts"),
        (lambda: replace(ABOVE, adjacency="swap"), "adjacency", "swap"),
        (lambda: replace(SWEEP, k=0), "k", 0),
        (lambda: replace(SWEEP, failure_prob=0.0), "failure_prob", 0.0),
        (lambda: replace(SWEEP, adjacency=1), "adjacency", 1),
        (lambda: replace(VECTOR, item_hits=0), "item_hits", 0),
        (lambda: replace(VECTOR, failure_prob=1.0), "failure_prob", 1.0),
    ],
    ids=[
        "fractional threshold",
        "true as threshold",
        "no epsilon",
        "unknown statistic",
        "unknown adjacency",
        "no label",
        "no failure probability",
        "number as adjacency",
        "no hit",
        "certain failure",
    ],
)
def test_impossible_parameters_are_refused(
    make_invalid: Callable[[], object], name: str, value: object
) -> None:
    """A copy of a valid mechanism with one impossible parameter is refused, by the parameter's name and value."""
    with refused_parameter(name, value=value):
        make_invalid()
