"""The sweep and sparse vector: what is published, what is charged, what is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency, ApproximateEvent, PureDpEvent, RdpAccountant, SelfComposedEvent
from pate.accounting.target_charging import TargetCharging, min_accesses, not_prior, revise
from pate.mechanisms import ConditionalRelease, SparseVector, SweepTopK
from pate.validation import InvalidValue
from tests.statistical.chi_square import p_value

EPSILON = 0.1


def stored(target_hits: int = 2, **options: Any) -> ConditionalRelease:
    return ConditionalRelease(TargetCharging.of_targets([revise(EPSILON)], target_hits, target_delta=1e-6, **options))


def always(value: Any) -> Any:
    return lambda rng: value


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_a_sweep_is_conditional_releases_from_the_top_down() -> None:
    """The same noisy counts, asked one by one through a session that halts with its k-th hit."""
    sweep, counts = SweepTopK(k=3, epsilon=0.3, failure_prob=1e-9), np.array([5, 9, 9, 1, 7, 3])
    for seed in range(20):
        at_once = sweep(counts, rng=np.random.default_rng(seed))
        noisy = counts + sweep.noise.sample(counts.shape, np.random.default_rng(seed))
        released = ConditionalRelease(TargetCharging.of_targets([sweep.target], 3, target_delta=1e-6))
        top = int(noisy.max())
        epsilon = float(sweep.noise.rate)
        keys = [
            released.release(always(int(value)), lambda y: False, epsilon=epsilon, rng=rng()).key for value in noisy
        ]
        found: list[tuple[int, int]] = []
        for threshold in range(top, int(noisy.min()) - 1, -1):
            for index, key in enumerate(keys):
                if not released.session.halted and index not in dict(found):
                    answer = released.revise(key, lambda y, level=threshold: y == level)
                    found += [(index, answer.outcome)] if answer.published else []
        assert found == list(zip(at_once.indices.tolist(), at_once.scores.tolist(), strict=True))


def test_the_price_of_a_sweep_knows_k_alone() -> None:
    sweep = SweepTopK(k=4, epsilon=0.25, failure_prob=1e-7)
    count = min_accesses(target_hits=4, hit_prob=revise(0.25).hit_prob, overrun_prob=1e-7)
    assert sweep.event == ApproximateEvent(SelfComposedEvent(PureDpEvent(0.5), count), 1e-7)
    assert RdpAccountant().compose(sweep.event).get_epsilon(1e-6) > 0
    other = SweepTopK(k=4, epsilon=0.25, failure_prob=1e-7, adjacency=Adjacency.ADD_REMOVE)
    assert other.event == sweep.event


def test_batches_and_ties_of_a_sweep() -> None:
    sweep = SweepTopK(k=2, epsilon=100.0, failure_prob=1e-9)
    outcome = sweep(np.array([[1, 7, 7, 0], [9, 9, 9, 9]]), rng=rng())
    assert outcome.indices.tolist() == [[1, 2], [0, 1]]
    assert outcome.scores.tolist() == [[7, 7], [9, 9]]
    assert outcome.answered.tolist() == [True, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k=0: expected a whole number >= 1"),
        ({"epsilon": -1.0}, "epsilon=-1.0: expected a number > 0"),
        ({"failure_prob": 0.0}, r"failure_prob=0.0: expected a number in \(0, 1\)"),
        ({"adjacency": "swap"}, "adjacency=swap: expected one of"),
    ],
)
def test_impossible_sweeps_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        SweepTopK(**({"k": 2, "epsilon": 1.0, "failure_prob": 1e-9} | options))


def test_impossible_counts_are_refused() -> None:
    sweep = SweepTopK(k=2, epsilon=1.0, failure_prob=1e-9)
    for counts, message in (
        ([1], "k=2: expected at most the number of counts, 1"),
        ([1.0, 2.0], "counts.dtype=float64: expected integer vote counts"),
        ([-1, 2], r"counts\[0\]: expected counts in 0"),
    ):
        with pytest.raises(InvalidValue, match=message):
            sweep(np.array(counts), rng=rng())
    with pytest.raises(InvalidValue, match="rng=0: expected a numpy"):
        sweep(np.array([1, 2]), rng=0)


def vector(**options: Any) -> SparseVector:
    return SparseVector(**({"epsilon": 50.0, "item_hits": 2, "failure_prob": 1e-9} | options))


def test_items_drop_out_with_their_last_hit() -> None:
    """With next to no noise the sums are those of the items that are left, by hand."""
    bits = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 1, 1], [1, 0, 0, 1], [1, 1, 1, 1]], dtype=bool)
    outcome = vector()(bits, thresholds=2, rng=rng())
    assert outcome.answered.tolist() == [True, True, True, False, False, False]
    assert outcome.values.tolist() == [3, 2, 2, 0, 0, 0]


def test_items_without_the_bit_and_sums_below_the_threshold_are_free() -> None:
    session = vector(item_hits=1).start(3)
    assert session.ask([True, True, False], threshold=3, rng=rng()) is None
    assert session.ask([True, True, False], threshold=2, rng=rng()) == 2
    assert session.ask([True, True, True], threshold=2, rng=rng()) is None
    assert session.ask([True, True, True], threshold=1, rng=rng()) == 1
    assert session.ask([True, True, True], threshold=-5, rng=rng()) == 0


def test_a_list_of_queries_is_the_same_as_asking_one_by_one() -> None:
    bits = np.random.default_rng(1).random((40, 30)) < 0.5
    mechanism, thresholds = vector(epsilon=0.7), np.arange(40) % 20
    at_once = mechanism(bits, thresholds=thresholds, rng=rng())
    session, generator = mechanism.start(30), rng()
    answers = [
        session.ask(query, threshold=int(level), rng=generator) for query, level in zip(bits, thresholds, strict=True)
    ]
    assert at_once.answered.tolist() == [answer is not None for answer in answers]
    assert at_once.values.tolist() == [answer or 0 for answer in answers]


def test_draws_follow_the_distribution_of_two_queries() -> None:
    """One hit each, two items, both queries of all: the second sum is 2 or 0, as the first was released or not."""
    mechanism, bits = vector(epsilon=1.0, item_hits=1), np.ones((2, 2), dtype=bool)
    tail = mechanism.noise.tail
    distribution = {
        (False, False): float((1 - tail(0)) ** 2),
        (False, True): float((1 - tail(0)) * tail(0)),
        (True, False): float(tail(0) * (1 - tail(2))),
        (True, True): float(tail(0) * tail(2)),
    }
    generator = np.random.default_rng(9)
    drawn = Counter(tuple(mechanism(bits, thresholds=2, rng=generator).answered.tolist()) for _ in range(1500))
    assert p_value(drawn, distribution) > 1e-4
    never = {(a, b): float((tail(0) if a else 1 - tail(0)) * (tail(0) if b else 1 - tail(0))) for a, b in distribution}
    assert p_value(drawn, never) < 1e-4


def test_an_exchange_pays_for_both_items() -> None:
    once = vector(epsilon=0.5, adjacency=Adjacency.ADD_REMOVE)
    exchanged = vector(epsilon=0.5)
    assert (once.target_hits, exchanged.target_hits) == (2, 4)
    for mechanism in (once, exchanged):
        count = min_accesses(target_hits=mechanism.target_hits, hit_prob=not_prior(0.5).hit_prob, overrun_prob=1e-9)
        assert mechanism.event == ApproximateEvent(SelfComposedEvent(PureDpEvent(0.5), count), 1e-9)


def test_impossible_queries_are_refused() -> None:
    for options, message in (
        ({"epsilon": 0.0}, "epsilon=0.0: expected a number > 0"),
        ({"item_hits": 0}, "item_hits=0: expected a whole number >= 1"),
        ({"failure_prob": 1.0}, r"failure_prob=1.0: expected a number in \(0, 1\)"),
    ):
        with pytest.raises(InvalidValue, match=message):
            vector(**options)
    session = vector().start(3)
    for bits, message in (
        ([1, 0, 1], "bits.dtype=int64: expected bool"),
        ([True, False], r"bits.shape=\(2,\): expected \(3,\)"),
        ([[True, False, True]], r"bits.shape=\(1, 3\): expected \[num_items\]"),
    ):
        with pytest.raises(InvalidValue, match=message):
            session.ask(bits, threshold=1, rng=rng())
    with pytest.raises(InvalidValue, match=r"threshold=1\.5: expected a whole number"):
        session.ask([True] * 3, threshold=1.5, rng=rng())
    with pytest.raises(InvalidValue, match="num_items=0: expected a whole number >= 1"):
        vector().start(0)
    with pytest.raises(InvalidValue, match="rng=0: expected a numpy"):
        session.ask([True] * 3, threshold=1, rng=0)
