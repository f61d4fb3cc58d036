"""Targets, overruns, prices and the session."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

from pate.accounting import RdpAccountant, event_from_json, event_to_json
from pate.accounting.target_charging import (
    QTarget,
    TargetCharging,
    best_session_price,
    between_thresholds,
    boundary,
    boundary_distribution,
    common_target,
    exact_hit_prob,
    min_accesses,
    not_prior,
    overrun_probability,
    revise,
    run_twice,
    tight_boundary,
)
from pate.validation import InvalidValue


def session(target_hits: int = 3, **options: float) -> TargetCharging:
    return TargetCharging(0.1, target_hits, **({"hit_prob": 0.4, "target_delta": 1e-6} | options))


@pytest.mark.parametrize(
    "make", [not_prior, revise, boundary, tight_boundary, run_twice, lambda e: between_thresholds(e, width=2.0)]
)
def test_a_larger_epsilon_is_hit_less_often(make: object) -> None:
    targets = [make(epsilon) for epsilon in (0.5, 1.0, 5.0, 50.0)]
    hit_probs = [target.hit_prob for target in targets]
    assert hit_probs == sorted(hit_probs, reverse=True)
    assert hit_probs[-1] > 0


def test_small_epsilons_reach_their_limits() -> None:
    assert not_prior(1e-9).hit_prob == pytest.approx(1 / 2)
    assert boundary(1e-9).hit_prob == pytest.approx(2 / 7)
    assert tight_boundary(1e-9).hit_prob == pytest.approx(4 / 13)
    assert tight_boundary(1e-9).epsilon == pytest.approx(4e-9 / 3)
    assert run_twice(1e-9).hit_prob == pytest.approx(1 / 2)
    assert between_thresholds(1e-3, width=1e6).hit_prob == pytest.approx(not_prior(1e-3).hit_prob)


def test_mixed_targets_take_the_largest_epsilon_and_the_smallest_hit_probability() -> None:
    assert common_target([QTarget(0.1, 0.3), QTarget(0.2, 0.4)]) == QTarget(0.2, 0.3)
    with pytest.raises(InvalidValue, match=r"targets=\[\]: expected at least one target"):
        common_target([])


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_an_epsilon_that_is_no_positive_number_is_refused(epsilon: float) -> None:
    for make in (not_prior, revise, boundary, tight_boundary, run_twice):
        with pytest.raises(InvalidValue, match=r"epsilon=.*: expected a number > 0"):
            make(epsilon)


def test_overruns_by_enumeration_of_all_outcomes() -> None:
    hit_prob = 0.3
    fewer = sum(
        hit_prob ** sum(hits) * (1 - hit_prob) ** (8 - sum(hits)) for hits in product((0, 1), repeat=8) if sum(hits) < 3
    )
    assert overrun_probability(8, target_hits=3, hit_prob=hit_prob) == pytest.approx(fewer, rel=1e-12)
    assert overrun_probability(2, target_hits=3, hit_prob=hit_prob) == 1.0


@pytest.mark.parametrize(("target_hits", "hit_prob"), [(1, 0.5), (3, 0.9), (10, 0.2786), (200, 0.1)])
def test_one_access_fewer_overruns_too_often(target_hits: int, hit_prob: float) -> None:
    fewest = min_accesses(target_hits=target_hits, hit_prob=hit_prob, overrun_prob=1e-7)
    assert overrun_probability(fewest, target_hits=target_hits, hit_prob=hit_prob) <= 1e-7
    assert overrun_probability(fewest - 1, target_hits=target_hits, hit_prob=hit_prob) > 1e-7


def test_a_price_beats_an_even_split_of_delta_and_its_own_event_under_renyi() -> None:
    opened = session(10)
    even = min_accesses(target_hits=10, hit_prob=0.4, overrun_prob=5e-7)
    renyi = RdpAccountant().compose(opened.event).get_epsilon(1e-6)
    assert 0 < opened.price.overrun_prob < 1e-6
    counted = best_session_price(opened.target, target_hits=10, target_delta=1e-6, by_play=False).epsilon
    assert opened.price.epsilon < counted < renyi < even * 0.1
    assert renyi < 1.15 * counted


def test_prices_rise_with_hits_and_counters_and_call_deltas() -> None:
    base = best_session_price(not_prior(0.1), target_hits=5, target_delta=1e-6)
    more_hits = best_session_price(not_prior(0.1), target_hits=6, target_delta=1e-6)
    counters = best_session_price(not_prior(0.1), target_hits=5, target_delta=1e-6, num_counters=4)
    failing = best_session_price(not_prior(0.1), target_hits=5, target_delta=1e-6, failure_prob=7.5e-7)
    assert base.epsilon < more_hits.epsilon
    assert counters.epsilon == pytest.approx(failing.epsilon)
    assert base.epsilon < failing.epsilon
    with pytest.raises(InvalidValue, match=r"failure_prob=1e-06: expected less than target_delta / num_counters"):
        best_session_price(not_prior(0.1), target_hits=5, target_delta=1e-6, failure_prob=1e-6)


def test_a_session_halts_at_its_last_hit_and_refuses_the_next_call() -> None:
    opened = session(2)
    assert [opened.charge(hit) for hit in (False, True, np.bool_(False), np.bool_(True))] == [False, False, False, True]
    assert opened.halted
    assert (opened.num_calls, opened.hits, opened.remaining_hits) == (4, [2], 0)
    with pytest.raises(InvalidValue, match=r"hits=2: expected fewer than target_hits=2 for a call"):
        opened.charge(False)
    assert opened.num_calls == 4


def test_the_price_does_not_depend_on_outcomes() -> None:
    quiet, busy = session(2), session(2)
    for _ in range(50):
        quiet.charge(False)
    while not busy.halted:
        busy.charge(True)
    assert quiet.price == busy.price
    assert quiet.event == busy.event


def test_several_counters_halt_with_the_one_hit_least() -> None:
    opened = session(1, num_counters=2)
    assert not opened.charge([True, False])
    assert not opened.charge([True, False])
    assert opened.charge([False, True])
    assert opened.hits == [2, 1]
    with pytest.raises(InvalidValue, match=r"outcome_in_target=\[True\]: expected 2 of True or False"):
        session(1, num_counters=2).charge([True])
    for no_bit in (0.3, "no", None, 1):
        with pytest.raises(InvalidValue, match=r"outcome_in_target=\[.*: expected 1 of True or False"):
            session(1).charge(no_bit if no_bit != "no" else ["no"])


def test_a_call_worse_than_the_session_is_refused() -> None:
    opened = TargetCharging.of_targets([not_prior(0.1), boundary(0.05)], 3, target_delta=1e-6)
    assert opened.target == QTarget(0.1, boundary(0.05).hit_prob)
    assert not opened.charge(True, target=not_prior(0.1))
    for worse in (not_prior(0.11), boundary(0.06)):
        with pytest.raises(InvalidValue, match=r"target=.*: expected no larger epsilon and no smaller hit_prob than"):
            opened.charge(True, target=worse)
    assert opened.hits == [1]


def test_call_deltas_are_counted_up_to_what_was_priced() -> None:
    opened = session(3, failure_prob=2e-7)
    opened.charge(False, failure_prob=1.5e-7)
    with pytest.raises(InvalidValue, match=r"failure_prob=2.5e-07: expected at most 2e-07 over all calls"):
        opened.charge(False, failure_prob=1e-7)
    with pytest.raises(InvalidValue, match=r"failure_prob=-1e-07: expected a number >= 0"):
        opened.charge(False, failure_prob=-1e-7)
    assert opened.num_calls == 1
    assert RdpAccountant().compose(opened.event).failure_prob == opened.price.overrun_prob + 2e-7


def test_the_event_survives_the_ledger() -> None:
    event = session().event
    assert event_from_json(event_to_json(event)) == event


def test_ten_thousand_calls_are_counted() -> None:
    opened = session(9_999)
    for call in range(10_000):
        opened.charge(call % 2 == 0)
    assert opened.hits == [5_000]


def test_distributions_that_are_none_or_too_far_apart_are_refused() -> None:
    for probabilities, found in (
        ([0.5, 0.6], "1 of 1"),
        ([[0.5, 0.5], [1.5, -0.5], [0.5, math.nan]], "2 of 3"),
    ):
        with pytest.raises(InvalidValue, match=rf"^probabilities={found} distributions: expected probabilities that"):
            boundary_distribution(probabilities)
    with pytest.raises(
        InvalidValue, match=r"epsilon=0.1: expected at least the largest log-ratio of the two distributions"
    ):
        exact_hit_prob([0.5, 0.5], [0.9, 0.1], in_target=[True, False], epsilon=0.1)
    with pytest.raises(InvalidValue, match=r"in_target.shape=\(1,\): expected \(2,\)"):
        exact_hit_prob([0.5, 0.5], [0.5, 0.5], in_target=[True], epsilon=0.1)


def test_a_certain_outcome_is_never_on_the_boundary() -> None:
    assert boundary_distribution([1.0, 0.0]).tolist() == [1.0, 0.0, 0.0]
    assert exact_hit_prob([1.0, 0.0], [1.0, 0.0], in_target=[False, True], epsilon=0.1) == 1.0


@pytest.mark.process
def test_importing_sessions_loads_no_statistics() -> None:
    code = "import sys, pate.accounting.target_charging; print('scipy.stats' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
