"""Above threshold and between thresholds: distributions, draws, prices, limits and messages."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency, ApproximateEvent, PureDpEvent, SelfComposedEvent
from pate.accounting.target_charging import TargetCharging, min_accesses, not_prior
from pate.mechanisms import (
    AboveThreshold,
    BetweenThresholds,
    ConditionalRelease,
    SparseVector,
    SweepTopK,
)
from tests.refusals import refused
from tests.statistical.chi_square import p_value


def test_distributions_sum_to_one_far_and_near() -> None:
    """Counts up to 2^40 votes away from the thresholds have distributions that sum to 1, above and
    between thresholds.

    A probability of about e^-100 is accurate to 9 digits.
    """
    values = np.array([-(2**40), -50, 0, 3, 7, 60, 2**40])
    above = AboveThreshold(threshold=3, epsilon=0.3).probabilities(values, largest=12)
    between = BetweenThresholds(lower=3, upper=9, epsilon=0.3).probabilities(values)
    assert (above.shape, between.shape) == ((7, 12), (7, 3))
    for distribution in (above, between):
        assert (distribution >= 0).all()
        np.testing.assert_allclose(distribution.sum(axis=1), desired=1, rtol=1e-12)
    # its digits are kept
    rare = BetweenThresholds(lower=100, upper=101, epsilon=1.0).probabilities(0)[1]
    assert rare == pytest.approx(math.tanh(0.5) * math.exp(-100), rel=1e-9)


@pytest.mark.parametrize(
    ("statistic", "adjacency", "sensitivity"),
    [
        ("count", "replace_one", 1),
        ("count", "add_remove", 1),
        ("gap", "replace_one", 2),
        ("gap", "add_remove", 1),
    ],
)
def test_noise_grows_with_what_one_change_moves(
    statistic: str, adjacency: Adjacency, sensitivity: int
) -> None:
    """One teacher moves a count by 1, and a gap by 2 under replace-one: the rate of the noise is
    epsilon over this `sensitivity`.

    Event and target have epsilon 0.5. The drawn rate is rounded down, and the event has the epsilon
    of the drawn rate.
    """
    for test in (
        AboveThreshold(threshold=3, epsilon=0.5, statistic=statistic, adjacency=adjacency),
        BetweenThresholds(lower=3, upper=7, epsilon=0.5, statistic=statistic, adjacency=adjacency),
    ):
        assert float(test.noise.rate) == 0.5 / sensitivity
        assert test.event == PureDpEvent(epsilon=0.5)
        assert test.target.epsilon == 0.5
    between = BetweenThresholds(
        lower=3, upper=7, epsilon=0.5, statistic=statistic, adjacency=adjacency
    )
    expected = (1 - math.exp(-4 * 0.5 / sensitivity)) / (math.exp(0.5) + 1)
    assert between.target.hit_prob == pytest.approx(expected, rel=1e-12)
    assert AboveThreshold(
        threshold=3, epsilon=0.5, statistic=statistic, adjacency=adjacency
    ).target == not_prior(epsilon=0.5)
    as_drawn = AboveThreshold(threshold=0, epsilon=0.1)
    assert 0.1 - 2**-32 < as_drawn.call_epsilon <= 0.1
    assert as_drawn.event == PureDpEvent(as_drawn.call_epsilon)


def test_outcomes_charge_a_session() -> None:
    """Between thresholds, outcomes in the target are hits of the session, which ends at its second
    hit, the fourth call.
    """
    test = BetweenThresholds(lower=300, upper=500, epsilon=1.0)
    session = TargetCharging.of_targets([test.target], target_hits=2, target_delta=1e-6)
    outcome = test(np.array([100, 400, 700, 420, 410]), rng=np.random.default_rng(0))
    assert outcome.in_target.tolist() == [False, True, False, True, True]
    assert session.charge_batch(outcome.in_target, target=test.target) == 4
    released = AboveThreshold(threshold=300, epsilon=5.0)(700, rng=np.random.default_rng(0))
    assert released.in_target and released.values.shape == ()


def test_impossible_values_are_refused() -> None:
    """Equal thresholds, counts that are no whole numbers, two-dimensional or huge counts, and a
    `largest` below the threshold are refused.

    An empty array of counts is allowed.
    """
    with refused("upper", value=3, rule="more than lower=3"):
        BetweenThresholds(lower=3, upper=3, epsilon=1.0)
    test = AboveThreshold(threshold=3, epsilon=1.0)
    for values, refusal in (
        (np.array([0.5]), refused("values.dtype", value="float64")),
        (np.zeros((2, 2), dtype=int), refused("values.shape", value=(2, 2))),
        (np.array([2**60]), refused("values", value=1152921504606846976)),
    ):
        with refusal:
            test(values, rng=np.random.default_rng(0))
    with refused("largest", value=2, rule="a whole number >= 3"):
        test.probabilities(3, largest=2)
    assert test(np.zeros(0, dtype=int), rng=np.random.default_rng(0)).values.shape == (0,)


def always(value: Any) -> Any:
    """Returns a function that draws `value`, whatever the random generator."""
    return lambda rng: value


def rng() -> np.random.Generator:
    """Returns a random generator with the seed 0."""
    return np.random.default_rng(0)


def test_sweep_equals_conditional_releases_with_falling_thresholds() -> None:
    """The sweep returns the labels and noisy counts of a session in which each noisy count is
    compared with falling thresholds.

    The session halts with its k-th hit.
    """
    sweep = SweepTopK(k=3, epsilon=0.3, failure_prob=1e-9)
    counts = np.array([5, 9, 9, 1, 7, 3])
    for seed in range(20):
        at_once = sweep(counts, rng=np.random.default_rng(seed))
        noisy = counts + sweep.noise.sample(counts.shape, np.random.default_rng(seed))
        released = ConditionalRelease(
            TargetCharging.of_targets([sweep.target], target_hits=3, target_delta=1e-6)
        )
        top = int(noisy.max())
        epsilon = float(sweep.noise.rate)
        kept = partial(released.release, accept=lambda y: False, epsilon=epsilon, rng=rng())
        keys = [kept(always(value=int(value))).key for value in noisy]
        found: list[tuple[int, int]] = []
        for threshold in range(top, int(noisy.min()) - 1, -1):
            for index, key in enumerate(keys):
                if not released.session.halted and index not in dict(found):
                    answer = released.revise(key, accept=lambda y, level=threshold: y == level)
                    found += [(index, answer.outcome)] if answer.published else []
        assert found == list(zip(at_once.indices.tolist(), at_once.scores.tolist(), strict=True))


def sparse_vector(
    epsilon: float = 50.0,
    item_hits: int = 2,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
) -> SparseVector:
    """Returns a sparse vector mechanism, by default with little noise."""
    return SparseVector(
        epsilon=epsilon, item_hits=item_hits, failure_prob=1e-9, adjacency=adjacency
    )


def test_item_with_all_its_hits_no_longer_counts() -> None:
    """An item that was in two published sums no longer counts in later sums.

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
    """Each item has one hit, which it loses only if its bit is in a published sum.

    A sum below its threshold is not published, and an item without the bit keeps its hit.
    """
    session = sparse_vector(item_hits=1).start(num_items=3)
    assert session.ask([True, True, False], threshold=3, rng=rng()) is None
    assert session.ask([True, True, False], threshold=2, rng=rng()) == 2
    assert session.ask([True, True, True], threshold=2, rng=rng()) is None
    assert session.ask([True, True, True], threshold=1, rng=rng()) == 1
    assert session.ask([True, True, True], threshold=-5, rng=rng()) == 0


@pytest.mark.slow
def test_draws_follow_the_distribution_of_two_queries() -> None:
    """Two items have bit 1 in both queries and one hit each: the draws follow the exact distribution of both answers.

    The second sum is 0 if the first sum was published, and 2 otherwise. A distribution in which the items keep their
    hits, so that both sums are 2, is rejected by the same test.
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
    assert p_value(outcome_counts=drawn, distribution=distribution) > 1e-4
    never = {
        (first, second): float(
            (pass_at_2 if first else 1 - pass_at_2) * (pass_at_2 if second else 1 - pass_at_2)
        )
        for first, second in distribution
    }
    assert p_value(outcome_counts=drawn, distribution=never) < 1e-4


def test_an_exchange_pays_for_both_items() -> None:
    """A session under replace-one has twice the hits of add-remove: those of the old item and of
    the new item.
    """
    for adjacency, hits in ((Adjacency.ADD_REMOVE, 2), (Adjacency.REPLACE_ONE, 4)):
        mechanism = sparse_vector(epsilon=0.5, adjacency=adjacency)
        assert mechanism.target_hits == hits
        count = min_accesses(
            target_hits=mechanism.target_hits,
            hit_prob=not_prior(epsilon=0.5).hit_prob,
            overrun_prob=1e-9,
        )
        assert mechanism.event == ApproximateEvent(
            SelfComposedEvent(PureDpEvent(epsilon=0.5), count), failure_prob=1e-9
        )


CALL = AboveThreshold(threshold=3, epsilon=1.0)
SWEEP = SweepTopK(k=2, epsilon=1.0, failure_prob=1e-9)
VECTOR = SparseVector(epsilon=1.0, item_hits=2, failure_prob=1e-9)


@pytest.mark.parametrize(
    ("make_invalid", "name", "value"),
    [
        (lambda: replace(CALL, threshold=2.5), "threshold", 2.5),
        (lambda: replace(CALL, threshold=True), "threshold", True),
        (lambda: replace(CALL, epsilon=0.0), "epsilon", 0.0),
        (lambda: replace(CALL, statistic="counts"), "statistic", "counts"),
        (lambda: replace(CALL, adjacency="swap"), "adjacency", "swap"),
        (lambda: replace(SWEEP, k=0), "k", 0),
        (lambda: replace(SWEEP, failure_prob=0.0), "failure_prob", 0.0),
        (lambda: replace(SWEEP, adjacency=1), "adjacency", 1),
        (lambda: replace(VECTOR, item_hits=0), "item_hits", 0),
        (lambda: replace(VECTOR, failure_prob=1.0), "failure_prob", 1.0),
    ],
)
def test_impossible_parameters_are_refused(
    make_invalid: Callable[[], object], name: str, value: object
) -> None:
    """A valid mechanism is copied with one impossible parameter: it is refused with the parameter's name and value."""
    with refused(name, value=value):
        make_invalid()
