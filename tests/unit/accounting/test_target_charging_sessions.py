"""Sessions as events beside others, as files, in batches, and at the ends of their parameters."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting import (
    Adjacency,
    ApproximateEvent,
    BoundedRangeEvent,
    ExactAccountant,
    GaussianEvent,
    Ledger,
    PureDpEvent,
    RdpAccountant,
)
from pate.accounting.failure_probability import failure_probability
from pate.accounting.target_charging import (
    QTarget,
    TargetCharging,
    best_session_price,
    boundary,
    min_accesses,
    not_prior,
    overrun_probability,
    tight_boundary,
)
from pate.validation import InvalidValue


def session(target_hits: int = 3, **options: Any) -> TargetCharging:
    return TargetCharging(0.1, target_hits, **({"hit_prob": 0.4, "target_delta": 1e-6} | options))


# ------------------------------------------------------------------------------------------------ events


@pytest.mark.parametrize("accountant", [RdpAccountant, ExactAccountant])
@pytest.mark.parametrize("num_counters", [1, 3])
def test_sessions_stand_beside_other_events_in_one_ledger(accountant: Any, num_counters: int) -> None:
    ledger = Ledger(adjacency=Adjacency.REPLACE_ONE, target_delta=1e-5, accountant=accountant)
    opened = session(2, num_counters=num_counters)
    alone = ledger.charge(opened.event, adjacency=Adjacency.REPLACE_ONE, key="session").epsilon
    for index, event in enumerate((GaussianEvent(20.0), BoundedRangeEvent(0.1))):
        ledger.charge(event, adjacency=Adjacency.REPLACE_ONE, key=f"query {index}")
    assert opened.price.epsilon * 0.7 < alone < ledger.epsilon < alone + 1
    assert ledger.charge(opened.event, adjacency=Adjacency.REPLACE_ONE, key="session").epsilon == alone


def test_the_exact_accountant_prices_a_lone_session_as_its_accesses() -> None:
    opened = session(5, failure_prob=1e-7)
    counted = best_session_price(
        opened.target, target_hits=5, target_delta=1e-6, failure_prob=1e-7, by_play=False
    ).epsilon
    assert ExactAccountant().compose(opened.event).get_epsilon(1e-6) == pytest.approx(counted, rel=2e-3)
    assert opened.price.epsilon < counted


def test_the_price_as_an_event_is_the_price() -> None:
    price = session(3, num_counters=4).price
    assert price.event == ApproximateEvent(PureDpEvent(price.epsilon), price.delta)
    assert RdpAccountant().compose(price.event).get_epsilon(1.01e-6) == pytest.approx(price.epsilon, rel=1e-3)


def test_few_counters_are_charged_by_accesses_and_many_by_the_price() -> None:
    """Beside 2,000 queries the event of k counters is below k sessions, and never above the price as an event."""
    others = BoundedRangeEvent(0.05)

    def total(event: Any) -> float:
        return RdpAccountant().compose(others, 2000).compose(event).get_epsilon(1e-5)

    few, many = session(5, num_counters=3), session(5, num_counters=200)
    assert many.event == many.price.event
    assert total(few.event) < total(few.price.event)
    assert failure_probability(few.event) <= 1e-6
    for opened in (few, many):
        assert failure_probability(opened.event) >= opened.price.overrun_prob


def test_each_hit_of_the_least_hit_counter_is_one_of_at_most_k_tau() -> None:
    """Adversaries that choose which targets a call hits: the sum over counters, each capped at tau, rises with it."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        opened = session(3, num_counters=3)
        of_least = 0
        while not opened.halted:
            least = int(np.argmin(opened.hits))
            hits = [bool(bit) for bit in rng.random(3) < rng.random()]
            of_least += hits[least]
            opened.charge(hits)
        assert of_least <= 3 * 3


# ------------------------------------------------------------------------------------------------ files


def test_a_session_continues_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    first = session(3, num_counters=2, failure_prob=3e-7)
    for hits in ([True, False], [True, True], [False, False]):
        first.charge(hits, failure_prob=1e-7)
    first.save(path)
    second = session(3, num_counters=2, failure_prob=3e-7)
    second.load(path)
    assert (second.hits, second.num_calls, second.state) == ([2, 1], 3, first.state)
    with pytest.raises(InvalidValue, match=r"failure_prob=4.*e-07: expected at most 3e-07 over all calls"):
        second.charge([True, True], failure_prob=1e-7)
    assert [file.name for file in tmp_path.iterdir()] == ["session.json"]


def test_a_halted_session_stays_halted(tmp_path: Path) -> None:
    first = session(1)
    first.charge(True)
    first.save(tmp_path / "session.json")
    second = session(1)
    second.load(tmp_path / "session.json")
    with pytest.raises(InvalidValue, match="hits=1: expected fewer than target_hits=1 for a call"):
        second.charge(False)


@pytest.mark.parametrize(
    "other",
    [
        {"target_hits": 4},
        {"hit_prob": 0.39},
        {"target_delta": 2e-6},
        {"num_counters": 2},
        {"failure_prob": 1e-8},
    ],
)
def test_a_state_of_other_parameters_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=r"parameters=\{.*: expected \{.*, as of this session"):
        session(**other).resume(session().state)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"hits": [4]}, r"hits=\[4\]: expected at most num_calls=5, and one at most 3"),
        ({"hits": [3], "num_calls": 2}, r"hits=\[3\]: expected at most num_calls=2"),
        ({"hits": [-1]}, r"hits=-1: expected a whole number >= 0"),
        ({"hits": [1, 1]}, r"hits=\[1, 1\]: expected 1 counts"),
        ({"hits": 1}, r"hits=1: expected 1 counts"),
        ({"num_calls": 2.5}, r"num_calls=2.5: expected a whole number >= 0"),
        ({"spent_failure_prob": 1.0}, r"spent_failure_prob=1.0: expected at most 0.0"),
        ({"spent_failure_prob": math.nan}, r"spent_failure_prob=nan: expected a number >= 0"),
    ],
)
def test_counts_that_no_session_has_are_refused(changed: dict[str, Any], message: str) -> None:
    opened = session()
    with pytest.raises(InvalidValue, match=message):
        opened.resume(session().state | {"num_calls": 5} | changed)
    assert (opened.hits, opened.num_calls) == ([0], 0)


def test_a_session_that_was_charged_does_not_go_back() -> None:
    opened = session()
    opened.charge(True)
    with pytest.raises(InvalidValue, match=r"num_calls=1: expected 0: only a session without calls can resume"):
        opened.resume(session().state)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", json.dumps({"target_charging": 2})])
def test_a_file_that_is_no_state_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "session.json"
    path.write_text(text)
    with pytest.raises(InvalidValue, match=r"path=.*session.json: expected the state of a session as JSON"):
        session().load(path)


# ------------------------------------------------------------------------------------------------ batches


def test_a_batch_counts_like_its_calls() -> None:
    rng = np.random.default_rng(1)
    for counters in (1, 3):
        for _ in range(50):
            hits = rng.random((20, counters)) < 0.3
            one_by_one, at_once = session(3, num_counters=counters), session(3, num_counters=counters)
            for row in hits:
                if not one_by_one.halted:
                    one_by_one.charge(row.tolist())
            made = 0
            for part in np.split(hits[:, 0] if counters == 1 else hits, [7]):
                if not at_once.halted:
                    made += at_once.charge_batch(part)
            assert made == at_once.num_calls
            assert at_once.state == one_by_one.state


def test_batches_of_another_kind_are_refused() -> None:
    opened = session(1)
    assert opened.charge_batch(np.zeros(0, dtype=bool)) == 0
    with pytest.raises(InvalidValue, match=r"outcomes_in_target.dtype=int64: expected bool"):
        opened.charge_batch([1, 0])
    with pytest.raises(InvalidValue, match=r"outcomes_in_target.shape=\(2, 2\): expected \[Q\]"):
        opened.charge_batch(np.zeros((2, 2), dtype=bool))
    with pytest.raises(InvalidValue, match=r"target=.*: expected no larger epsilon and no smaller hit_prob"):
        opened.charge_batch([True], target=not_prior(0.5))
    assert opened.charge_batch([False, True, True]) == 2
    with pytest.raises(InvalidValue, match="hits=1: expected fewer than target_hits=1 for a call"):
        opened.charge_batch([False])


# ------------------------------------------------------------------------------------------------ limits


@pytest.mark.parametrize(
    ("epsilon", "hits", "hit_prob", "delta"),
    [
        (0.07, 1, 0.2786, 1e-6),
        (0.07, 10_000, 0.2786, 1e-6),
        (0.01, 3, 1e-9, 1e-6),
        (0.01, 3, 1 - 1e-16, 1e-6),
        (0.07, 10, 0.2786, 1e-300),
        (0.07, 10, 0.2786, 1 - 1e-9),
        (1e-300, 10, 0.2786, 1e-6),
        (1e3, 10, 0.2786, 1e-6),
    ],
)
def test_prices_at_the_ends_are_numbers_between_none_and_all_accesses(
    epsilon: float, hits: int, hit_prob: float, delta: float
) -> None:
    price = best_session_price(QTarget(epsilon, hit_prob), target_hits=hits, target_delta=delta)
    assert 0 <= price.epsilon <= price.num_accesses * epsilon * (1 + 1e-12)
    assert price.num_accesses >= hits
    assert 0 <= price.overrun_prob < delta


def test_a_price_beyond_the_optimal_composition_is_above_it() -> None:
    """40,000 accesses are composed optimally, 60,000 by Renyi divergence; prices rise in between."""
    prices = [
        best_session_price(QTarget(0.01, 0.3), target_hits=hits, target_delta=1e-6) for hits in (11_000, 14_000, 18_000)
    ]
    assert [price.num_accesses > 50_000 for price in prices] == [False, False, True]
    assert prices[0].epsilon < prices[1].epsilon < prices[2].epsilon < 1.3 * prices[1].epsilon


def test_more_accesses_than_can_be_counted_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r"hit_prob=1e-20: expected one that needs at most 9007199254740992"):
        min_accesses(target_hits=1, hit_prob=1e-20, overrun_prob=1e-6)


@pytest.mark.parametrize(
    ("num_accesses", "target_hits", "hit_prob", "exact"),
    [  # sums of binomial terms to 50 digits, by mpmath
        (37_533, 10_000, 0.2786, 6.207756564246245e-08),
        (10**10, 10, 3e-9, 7.1217507029317975e-06),
        (10**15, 10_000, 1.1e-11, 1.692853148790403e-22),
        (2_265, 10, 0.2786, 4.826575278557323e-301),
    ],
)
def test_overruns_of_large_sessions(num_accesses: int, target_hits: int, hit_prob: float, exact: float) -> None:
    overrun = overrun_probability(num_accesses, target_hits=target_hits, hit_prob=hit_prob)
    assert overrun == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-6, 0.05, 0.3, 1.0])
def test_the_tight_boundary_is_a_call_of_the_published_one_and_cheaper(epsilon: float) -> None:
    assert boundary(epsilon).covers(tight_boundary(epsilon))
    published, tight = (
        best_session_price(make(epsilon), target_hits=10, target_delta=1e-6) for make in (boundary, tight_boundary)
    )
    assert tight.epsilon < 0.98 * published.epsilon
