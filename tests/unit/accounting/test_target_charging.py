"""Sessions of target charging: their targets, their price, their state, and the protection against spending hits twice.

A session runs epsilon-DP calls on the private data, and a call whose output lies in the target set is a hit. The
session ends after a given number of hits. An access is one use of the private data at epsilon.
"""

import copy
import math
import operator
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

from pate import accounting
from pate.accounting.target_charging import (
    QTarget,
    TargetCharging,
    best_play_delta,
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
from pate.mechanisms import ConditionalRelease, SparseVector
from pate.validation import InvalidValue
from tests.refusals import ANY, refused_parameter


def session(
    target_hits: int = 3,
    *,
    hit_prob: float = 0.4,
    target_delta: float = 1e-6,
    num_counters: int = 1,
    failure_prob: float = 0.0,
) -> TargetCharging:
    """Returns a new session for calls of epsilon 0.1 that ends after `target_hits` hits.

    Args:
        target_hits: the number of hits that end the session.
        hit_prob: the smallest probability of a hit if a call accesses the private data.
        target_delta: the delta of the whole session.
        num_counters: the number of target sets of each call, whose hits are counted separately.
        failure_prob: the largest sum of the deltas of all calls.
    """
    return TargetCharging(
        epsilon=0.1,
        target_hits=target_hits,
        hit_prob=hit_prob,
        target_delta=target_delta,
        num_counters=num_counters,
        failure_prob=failure_prob,
    )


def test_the_hit_probabilities_of_targets_have_their_limits() -> None:
    """As epsilon falls to 0, the hit probabilities of four kinds of target have limits, such as 2/7 for `boundary`.

    The hit probability of `between_thresholds`, for thresholds that lie far apart, is that of `not_prior`. The function
    `min_accesses` returns the smallest number of accesses whose `overrun_probability`, that of more accesses before the
    last hit, is at most 1e-7. For equal laws on both neighbors, `exact_hit_prob` is 1.
    """
    assert boundary_distribution(distributions=[1.0, 0.0]).tolist() == [1.0, 0.0, 0.0]
    assert (
        exact_hit_prob(
            first_law=[1.0, 0.0], second_law=[1.0, 0.0], in_target=[False, True], epsilon=0.1
        )
        == 1.0
    )
    # Rounding of the access probability would give 0 here.
    assert (
        exact_hit_prob(
            first_law=[0.3, 0.7], second_law=[0.3, 0.7], in_target=[False, False], epsilon=0.5
        )
        == 1.0
    )
    assert not_prior(call_epsilon=1e-9).hit_prob == pytest.approx(1 / 2)
    assert boundary(call_epsilon=1e-9).hit_prob == pytest.approx(2 / 7)
    assert tight_boundary(call_epsilon=1e-9).hit_prob == pytest.approx(4 / 13)
    assert tight_boundary(call_epsilon=1e-9).epsilon == pytest.approx(4e-9 / 3)
    assert run_twice(run_epsilon=1e-9).hit_prob == pytest.approx(1 / 2)
    assert between_thresholds(call_epsilon=1e-3, width=1e6).hit_prob == pytest.approx(
        not_prior(call_epsilon=1e-3).hit_prob
    )
    for target_hits, hit_prob in ((1, 0.5), (3, 0.9), (10, 0.2786), (200, 0.1)):
        fewest = min_accesses(target_hits=target_hits, hit_prob=hit_prob, overrun_prob=1e-7)
        overruns = [
            overrun_probability(num_accesses=fewest - n, target_hits=target_hits, hit_prob=hit_prob)
            for n in (0, 1)
        ]
        assert overruns[0] <= 1e-7 < overruns[1]


def test_a_session_refuses_calls_after_its_last_hit() -> None:
    """A session of two hits is halted after its second hit, here the fourth call.

    A further call is refused and not counted.
    """
    opened_session = session(target_hits=2)
    assert [
        opened_session.charge(outcome_in_target=is_hit)
        for is_hit in (False, True, np.bool_(False), np.bool_(True))
    ] == [
        False,
        False,
        False,
        True,
    ]
    assert opened_session.halted
    assert (opened_session.num_calls, opened_session.hits, opened_session.remaining_hits) == (
        4,
        [2],
        0,
    )
    with refused_parameter("hits", value=2, rule_words="fewer than target_hits=2"):
        opened_session.charge(outcome_in_target=False)
    assert opened_session.num_calls == 4


def test_a_call_worse_than_the_session_is_refused() -> None:
    """A session of two targets takes the larger epsilon and the smaller hit probability of both.

    A call with a larger epsilon or a smaller hit probability is refused and not counted.
    """
    opened_session = TargetCharging.of_targets(
        [not_prior(call_epsilon=0.1), boundary(call_epsilon=0.05)], target_hits=3, target_delta=1e-6
    )
    assert opened_session.target == QTarget(
        epsilon=0.1, hit_prob=boundary(call_epsilon=0.05).hit_prob
    )
    assert not opened_session.charge(outcome_in_target=True, target=not_prior(call_epsilon=0.1))
    for worse_target in (not_prior(call_epsilon=0.11), boundary(call_epsilon=0.06)):
        with refused_parameter("target", value=ANY, rule_words="no larger epsilon"):
            opened_session.charge(outcome_in_target=True, target=worse_target)
    assert opened_session.hits == [1]


def test_the_deltas_of_calls_are_limited_by_the_session() -> None:
    """A call is refused if it would exceed the failure probability that its session has for all calls, here 2e-7.

    Negative probabilities are refused. The event of the session contains this failure probability.
    """
    opened_session = session(target_hits=3, failure_prob=2e-7)
    opened_session.charge(outcome_in_target=False, failure_prob=1.5e-7)
    with refused_parameter("failure_prob", value=ANY, rule_words="at most 2e-07"):
        opened_session.charge(outcome_in_target=False, failure_prob=1e-7)
    with refused_parameter("failure_prob", value=-1e-07, rule_words="a number >= 0"):
        opened_session.charge(outcome_in_target=False, failure_prob=-1e-7)
    assert opened_session.num_calls == 1
    assert (
        accounting.RdpAccountant().compose(opened_session.event).failure_prob
        == opened_session.price.overrun_prob + 2e-7
    )


@pytest.mark.parametrize(
    ("name", "value", "make"),
    [
        (
            "distributions",
            "1 of 1 distributions",
            lambda: boundary_distribution(distributions=[0.5, 0.6]),
        ),
        (
            "distributions",
            "2 of 3 distributions",
            lambda: boundary_distribution(distributions=[[0.5, 0.5], [1.5, -0.5], [0.5, math.nan]]),
        ),
        (
            "epsilon",
            0.1,
            lambda: exact_hit_prob(
                first_law=[0.5, 0.5], second_law=[0.9, 0.1], in_target=[True, False], epsilon=0.1
            ),
        ),
        (
            "in_target.shape",
            (1,),
            lambda: exact_hit_prob(
                first_law=[0.5, 0.5], second_law=[0.5, 0.5], in_target=[True], epsilon=0.1
            ),
        ),
        ("targets", "[]", lambda: common_target([])),
        ("hit_prob", 1e-20, lambda: min_accesses(target_hits=1, hit_prob=1e-20, overrun_prob=1e-6)),
        *(
            ("call_epsilon", epsilon, lambda make=make, epsilon=epsilon: make(epsilon))
            for make in (not_prior, revise, boundary, tight_boundary)
            for epsilon in (0.0, -1.0, math.nan, math.inf)
        ),
        *(
            ("run_epsilon", epsilon, lambda epsilon=epsilon: run_twice(run_epsilon=epsilon))
            for epsilon in (0.0, -1.0, math.nan, math.inf)
        ),
    ],
)
def test_an_invalid_q_target_is_refused(name: str, value: object, make: Callable[[], Any]) -> None:
    """`make` computes a target from invalid numbers, and raises an `InvalidValue` about the
    parameter `name` with `value`.
    """
    with refused_parameter(name, value=value):
        make()


TARGETS = (
    not_prior(call_epsilon=0.7),
    tight_boundary(call_epsilon=0.5),
    QTarget(epsilon=0.7, hit_prob=0.6),
    QTarget(epsilon=0.4, hit_prob=0.2),
)
Call = tuple[tuple[float, float, bool], ...]
"""Probabilities of an outcome on both neighbors, and whether it is a hit."""


def random_calls(target: QTarget, num_calls: int, rng: np.random.Generator) -> list[Call]:
    """Returns `num_calls` random calls of four outcomes each, the first two of which are hits.

    On both neighbors the hits have at least the target's hit probability, and no likelihood ratio exceeds
    exp(epsilon) of the target.
    """
    calls: list[Call] = []
    while len(calls) < num_calls:
        first = rng.dirichlet(rng.choice([0.3, 1.0, 3.0], size=4))
        losses_of_outcomes = (
            rng.choice([-1.0, 1.0, rng.uniform(low=-1, high=1)], size=4) * target.epsilon
        )
        second = first * np.exp(losses_of_outcomes)
        second /= second.sum()
        is_near = np.abs(np.log(second / first)).max() <= target.epsilon
        if is_near and min(first[:2].sum(), second[:2].sum()) >= target.hit_prob:
            pairs = zip(first.tolist(), second.tolist(), strict=True)
            calls.append(tuple((p, q, index < 2) for index, (p, q) in enumerate(pairs)))
    return calls


def delta_of_calls(
    calls: list[Call], num_accesses: int, target_hits: int, target_epsilon: float
) -> float:
    """Returns the largest delta of an adversary who makes only the given calls, each chosen after earlier outcomes."""

    @cache
    def largest_delta(num_accesses: int, num_hits: int, loss: float) -> float:
        """Returns the largest delta given the remaining accesses and hits, and the loss of the earlier outcomes."""
        delta_without_calls = max(0.0, 1 - math.exp(target_epsilon - loss))
        if num_accesses == 0 or num_hits == 0:
            return delta_without_calls
        deltas_of_calls = []
        for call in calls:
            expectation = 0.0
            for p, q, is_hit in call:
                expectation += p * largest_delta(
                    num_accesses=num_accesses - 1,
                    num_hits=num_hits - is_hit,
                    loss=round(loss + math.log(p / q), 12),
                )
            deltas_of_calls.append(expectation)
        return max(delta_without_calls, *deltas_of_calls)

    return largest_delta(num_accesses=num_accesses, num_hits=target_hits, loss=0.0)


@pytest.mark.parametrize("target_hits", [1, 2])
@pytest.mark.parametrize("target", TARGETS)
def test_random_calls_never_exceed_the_best_play_delta(target: QTarget, target_hits: int) -> None:
    """An adversary makes up to 4 accesses and chooses among 3 random calls after each outcome.

    The largest delta, of 30 random choices of the calls, is positive and at most `best_play_delta`.
    """
    rng = np.random.default_rng(0)
    epsilon = 0.8
    largest_delta = best_play_delta(
        target, target_hits=target_hits, num_accesses=4, target_epsilon=epsilon
    )
    deltas_of_plays = [
        delta_of_calls(
            calls=random_calls(target=target, num_calls=3, rng=rng),
            num_accesses=4,
            target_hits=target_hits,
            target_epsilon=epsilon,
        )
        for _ in range(30)
    ]
    assert 0 < max(deltas_of_plays) <= largest_delta


@pytest.mark.parametrize("target_hits", [1, 3])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_randomized_response_attains_the_best_play_delta(epsilon: float, target_hits: int) -> None:
    """An adversary who chooses among four kinds of randomized response attains at least 99% of `best_play_delta`.

    A hit is the first of both answers, the second answer, either answer, or a rare event that is drawn independently of
    the answer.
    """
    likely = math.exp(epsilon) / (math.exp(epsilon) + 1)
    rare = 1 / (math.exp(epsilon) + 1)
    first_bit_hits: Call = ((likely, rare, True), (rare, likely, False))
    second_bit_hits: Call = ((likely, rare, False), (rare, likely, True))
    both_bits_hit: Call = ((likely, rare, True), (rare, likely, True))
    # The hit is as rare as the target allows, and independent of the bit.
    independent_hit: Call = (
        (rare * likely, rare * rare, True),
        (likely * likely, likely * rare, False),
        (rare * rare, rare * likely, True),
        (likely * rare, likely * likely, False),
    )
    randomized_responses = [first_bit_hits, second_bit_hits, both_bits_hit, independent_hit]
    target = not_prior(epsilon)
    largest_delta = best_play_delta(
        target, target_hits=target_hits, num_accesses=7, target_epsilon=2 * epsilon
    )
    attained_delta = delta_of_calls(
        calls=randomized_responses,
        num_accesses=7,
        target_hits=target_hits,
        target_epsilon=2 * epsilon,
    )
    assert 0.99 * largest_delta < attained_delta <= largest_delta * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("target_hits", [1, 4, 10])
@pytest.mark.parametrize("target", TARGETS)
def test_the_price_by_play_is_below_the_price_by_accesses(
    target: QTarget, target_hits: int
) -> None:
    """The price by play (the epsilon of the best adversary) is below that by accesses, which composes all accesses.

    Both have the same number of accesses and the same probability that more are needed. At 99% of the price by play,
    the best adversary's delta is more than 99% of the target delta.
    """
    played_out = best_session_price(target, target_hits=target_hits, target_delta=1e-5)
    counted = best_session_price(
        target, target_hits=target_hits, target_delta=1e-5, use_bound_by_play=False
    )
    assert played_out.epsilon < counted.epsilon
    assert (played_out.num_accesses, played_out.overrun_prob) == (
        counted.num_accesses,
        counted.overrun_prob,
    )
    smaller_epsilon = 0.99 * played_out.epsilon
    delta_of_best_adversary = best_play_delta(
        target, target_hits=target_hits, num_accesses=150, target_epsilon=smaller_epsilon
    )
    assert delta_of_best_adversary > 1e-5 * 0.99


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3, 0.3])
def test_best_play_deltas_are_rounded_up(epsilon: float, share: float) -> None:
    """`best_play_delta` for 5 accesses and 2 hits is at least the same recursion in 40 digits, and barely larger.

    The smallest probability of a hit is `share` / (e^epsilon + 1).
    """
    target = QTarget(epsilon=epsilon, hit_prob=share / (math.exp(epsilon) + 1))
    for target_epsilon in (0.0, 0.4 * epsilon, epsilon, 2.5 * epsilon):
        exact = exact_play_delta(
            target, num_accesses=5, target_hits=2, target_epsilon=target_epsilon
        )
        actual = best_play_delta(
            target, target_hits=2, num_accesses=5, target_epsilon=target_epsilon
        )
        assert exact <= actual <= exact * (1 + 1e-9) + 1e-11 * epsilon


def exact_play_delta(
    target: QTarget, *, num_accesses: int, target_hits: int, target_epsilon: float
) -> mpmath.mpf:
    """Returns the largest delta of an adversary who chooses every call of a session, by a recursion in 40 digits.

    Args:
        target: the largest epsilon of a call, and the smallest probability of a hit.
        num_accesses: the largest number of calls that use the private data.
        target_hits: the number of hits that end the session.
        target_epsilon: the epsilon of the returned delta.
    """
    with mpmath.workdps(40):
        epsilon = mpmath.mpf(target.epsilon)
        smallest_hit_prob = mpmath.mpf(target.hit_prob)
        growth = mpmath.exp(epsilon)
        rare = 1 / (mpmath.exp(epsilon) + 1)
        largest_hit_prob = min(growth * smallest_hit_prob, 1 - (1 - smallest_hit_prob) / growth)
        always = mpmath.mpf(1)
        # The extreme pairs of probabilities of a hit on both neighbors.
        hit_probs = [
            (always, always),
            (smallest_hit_prob, smallest_hit_prob),
            (smallest_hit_prob, largest_hit_prob),
            (largest_hit_prob, smallest_hit_prob),
            (rare, growth * rare),
            (growth * rare, rare),
        ]

        def split(first: mpmath.mpf, second: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
            """Splits an outcome into two with the losses epsilon and -epsilon, and returns their probabilities.

            `first` and `second` are the probabilities of the outcome on both neighbors. The returned probabilities are
            those on the first one.
            """
            up = growth * (growth * first - second) / (growth**2 - 1)
            down = (growth * second - first) / (growth**2 - 1)
            return up, down

        moves = [split(first, second) + split(1 - first, 1 - second) for first, second in hit_probs]

        @cache
        def largest_delta(num_accesses: int, num_hits: int, loss_in_epsilons: int) -> mpmath.mpf:
            """Returns the largest delta given the remaining accesses and hits, and the loss in units of epsilon."""
            loss = loss_in_epsilons * epsilon
            delta_without_calls = max(mpmath.mpf(0), 1 - mpmath.exp(target_epsilon - loss))
            if num_accesses == 0 or num_hits == 0:
                return delta_without_calls
            deltas_after = [
                largest_delta(
                    num_accesses=num_accesses - 1,
                    num_hits=remaining_hits,
                    loss_in_epsilons=loss_in_epsilons + step,
                )
                for remaining_hits in (num_hits - 1, num_hits)
                for step in (1, -1)
            ]
            deltas_of_moves = [sum(map(operator.mul, move, deltas_after)) for move in moves]
            return max(delta_without_calls, *deltas_of_moves)

        return largest_delta(num_accesses=num_accesses, num_hits=target_hits, loss_in_epsilons=0)


@pytest.mark.slow
def test_a_session_as_events_is_its_price_and_its_accesses() -> None:
    """`price.event` is an approximate pure-DP event, whose epsilon is that of the price.

    The event of a session composes its accesses: the exact accountant's epsilon for it is the price by accesses,
    which exceeds the price that takes the best adversary into account.
    """
    price = session(target_hits=3, num_counters=4).price
    assert price.event == accounting.ApproximateEvent(
        event=accounting.PureDpEvent(price.epsilon), failure_prob=price.delta
    )
    assert accounting.RdpAccountant().compose(price.event).get_epsilon(
        target_delta=1.01e-6
    ) == pytest.approx(price.epsilon, rel=1e-3)
    opened_session = session(target_hits=5, failure_prob=1e-7)
    counted = best_session_price(
        opened_session.target,
        use_bound_by_play=False,
        target_hits=5,
        target_delta=1e-6,
        failure_prob=1e-7,
    ).epsilon
    assert accounting.ExactAccountant().compose(opened_session.event).get_epsilon(
        target_delta=1e-6
    ) == pytest.approx(counted, rel=2e-3)
    assert opened_session.price.epsilon < counted


def test_a_session_continues_from_its_file(tmp_path: Path) -> None:
    """A session saved to a file is loaded into a new session, which has the same hits, calls and state.

    Spent failure probabilities and a halt are also restored. A session that was already charged
    refuses to resume a state.
    """
    path = tmp_path / "session.json"
    saved_session = session(target_hits=3, num_counters=2, failure_prob=3e-7)
    for is_hit_of_each_counter in ([True, False], [True, True], [False, False]):
        saved_session.charge(outcome_in_target=is_hit_of_each_counter, failure_prob=1e-7)
    saved_session.save(path)
    loaded_session = session(target_hits=3, num_counters=2, failure_prob=3e-7)
    loaded_session.load(path)
    assert (loaded_session.hits, loaded_session.num_calls, loaded_session.state) == (
        [2, 1],
        3,
        saved_session.state,
    )
    is_hit_of_each_counter = [True, True]
    with refused_parameter("failure_prob", value=ANY, rule_words="at most 3e-07"):
        loaded_session.charge(outcome_in_target=is_hit_of_each_counter, failure_prob=1e-7)
    assert [file.name for file in tmp_path.iterdir()] == ["session.json"]
    halted_session = session(target_hits=1)
    loaded_halted_session = session(target_hits=1)
    halted_session.charge(outcome_in_target=True)
    halted_session.save(path)
    loaded_halted_session.load(path)
    with refused_parameter("hits", value=1, rule_words="fewer than target_hits=1"):
        loaded_halted_session.charge(outcome_in_target=False)
    with refused_parameter("num_calls", value=1, rule_words="0"):
        loaded_halted_session.resume(session(target_hits=1).state)


CHARGED = session().state | {"num_calls": 5}
SESSIONS_WITH_OTHER_PARAMETERS = (
    session(target_hits=4),
    session(hit_prob=0.39),
    session(target_delta=2e-6),
    session(num_counters=2),
    session(failure_prob=1e-8),
)
IMPOSSIBLE_HITS: tuple[Any, ...] = ([4], [-1], [1, 1], 1)


@pytest.mark.parametrize(
    ("name", "state"),
    [
        *(
            ("parameters", opened_session.state)
            for opened_session in SESSIONS_WITH_OTHER_PARAMETERS
        ),
        *(("hits", CHARGED | {"hits": hits}) for hits in IMPOSSIBLE_HITS),
        ("hits", CHARGED | {"hits": [3], "num_calls": 2}),
        ("num_calls", CHARGED | {"num_calls": 2.5}),
        *(("spent_failure_prob", CHARGED | {"spent_failure_prob": bad}) for bad in (1.0, math.nan)),
    ],
)
def test_the_state_of_another_session_is_refused(name: str, state: dict[str, Any]) -> None:
    """`resume` refuses a state with other parameters, or with impossible numbers of hits, calls or failures.

    The session stays unused.
    """
    opened_session = session()
    with refused_parameter(name, value=ANY):
        opened_session.resume(state)
    assert (opened_session.hits, opened_session.num_calls) == ([0], 0)


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
def test_prices_at_extreme_parameters_are_finite(
    epsilon: float, hits: int, hit_prob: float, delta: float
) -> None:
    """The price of a session with extreme parameters is at least 0 and at most epsilon times its number of accesses."""
    price = best_session_price(
        target=QTarget(epsilon=epsilon, hit_prob=hit_prob), target_hits=hits, target_delta=delta
    )
    assert 0 <= price.epsilon <= price.num_accesses * epsilon * (1 + 1e-12)
    assert price.num_accesses >= hits
    assert 0 <= price.overrun_prob < delta


def test_a_price_by_renyi_exceeds_the_optimal_price_of_a_shorter_session() -> None:
    """Sessions of up to 50,000 accesses are priced by optimal composition, and longer sessions by
    the looser Renyi divergence.

    Of three sessions with more and more hits, the third is priced by Renyi divergence: the prices
    rise from each session to the next, and the third is less than 1.3 times the second.
    """
    target = QTarget(epsilon=0.01, hit_prob=0.3)
    hits_of_sessions = (11_000, 14_000, 18_000)
    prices = [
        best_session_price(target, target_hits=hits, target_delta=1e-6) for hits in hits_of_sessions
    ]
    assert [price.num_accesses > 50_000 for price in prices] == [False, False, True]
    assert prices[0].epsilon < prices[1].epsilon < prices[2].epsilon < 1.3 * prices[1].epsilon


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1e-6, 0.05, 0.3, 1.0])
def test_the_tight_boundary_costs_less_than_the_published_one(epsilon: float) -> None:
    """The tight boundary target is at least as private as the published boundary of the same epsilon.

    A session of 10 hits costs over 2% less with the tight target.
    """
    assert boundary(epsilon).covers(tight_boundary(epsilon))
    targets = (boundary(epsilon), tight_boundary(epsilon))
    published_price, tight_price = (
        best_session_price(target, target_hits=10, target_delta=1e-6) for target in targets
    )
    assert tight_price.epsilon < 0.98 * published_price.epsilon


EPSILON = 0.1
HITS = 50
THREADS = 16


def session_of_two_targets(target_hits: int = HITS) -> TargetCharging:
    """Returns a session with the common target of two kinds of call at epsilon `EPSILON`."""
    return TargetCharging.of_targets(
        [not_prior(EPSILON), revise(EPSILON)], target_hits, target_delta=1e-6
    )


def rng() -> np.random.Generator:
    """Returns a random generator with the seed 0."""
    return np.random.default_rng(0)


def conditional_release() -> ConditionalRelease:
    """Returns a conditional release, which publishes only outcomes in a given set, with a session of two targets."""
    return ConditionalRelease(session_of_two_targets())


def sparse_vector_session() -> Any:
    """Returns a session of the sparse vector over ten items, each with one hit."""
    return SparseVector(epsilon=1.0, item_hits=1, failure_prob=1e-9).start(num_units=10)


def draw_one(rng: np.random.Generator) -> int:
    """Returns 1 as the outcome of a call, whatever the generator."""
    return 1


def accept(outcome: object) -> bool:
    """Returns True, whatever the outcome."""
    return True


def reject(outcome: object) -> bool:
    """Returns False, whatever the outcome."""
    return False


MAKERS_OF_HOLDERS: dict[str, Callable[[], Any]] = {
    "TargetCharging": session_of_two_targets,
    "ConditionalRelease": conditional_release,
    "SparseVectorSession": sparse_vector_session,
}
IS_IN_SUM_OF_TEN = np.ones(10, bool)
CALLS_OF_HOLDERS: dict[str, list[Callable[[Any], Any]]] = {
    "TargetCharging": [
        lambda session: session.charge(outcome_in_target=True),
        lambda session: session.charge_batch(outcomes_in_target=np.ones(2, bool)),
        lambda session: session.require_open(),
        lambda session: session.state,
    ],
    "ConditionalRelease": [
        lambda stored: stored.release(draw_one, accept, epsilon=EPSILON, rng=rng()),
        lambda stored: stored.revise(key=0, accept=accept),
    ],
    "SparseVectorSession": [
        lambda session: session.ask(bits=IS_IN_SUM_OF_TEN, threshold=0, rng=rng())
    ],
}


@pytest.fixture
def eager_switches() -> Iterator[None]:
    """Makes Python switch between threads after every few instructions."""
    usual_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-7)
    yield
    sys.setswitchinterval(usual_interval)


def results_of_threads(call: Callable[[], Any], calls_per_thread: int) -> list[Any]:
    """Calls `call` `calls_per_thread` times in each of 16 threads that start together, and returns all results.

    The result is None for a call that was refused.
    """
    ready = threading.Barrier(THREADS)

    def work(_: int) -> list[Any]:
        ready.wait()
        results = []
        for _ in range(calls_per_thread):
            try:
                results.append(call())
            except InvalidValue:
                results.append(None)
        return results

    with ThreadPoolExecutor(THREADS) as pool:
        return [result for results in pool.map(work, range(THREADS)) for result in results]


@pytest.mark.parametrize("class_name", MAKERS_OF_HOLDERS)
@pytest.mark.parametrize("copy_session", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_session_is_not_copied(class_name: str, copy_session: Callable[[Any], Any]) -> None:
    """An object that holds a session refuses to be copied, deep-copied or pickled.

    A copy could spend the same hits a second time.
    """
    with refused_parameter("session", value=class_name):
        copy_session(MAKERS_OF_HOLDERS[class_name]())


@pytest.mark.parametrize("class_name", MAKERS_OF_HOLDERS)
def test_a_forked_process_cannot_charge_a_session(
    class_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call of an object that holds a session is refused once the process id has changed, as after a fork."""
    holder = MAKERS_OF_HOLDERS[class_name]()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for call_session in CALLS_OF_HOLDERS[class_name]:
        with refused_parameter("process", value=-1, rule_words=class_name[-6:]):
            call_session(holder)


@pytest.mark.process
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_while_the_lock_is_held_is_refused_at_once() -> None:
    """In a process forked while another thread holds the session's lock, a charge is refused at once.

    The charge does not wait for the lock, whose owner does not exist in the forked process.
    """
    session = session_of_two_targets()
    with ThreadPoolExecutor(max_workers=1) as pool, session._locked():
        child = pool.submit(_refused_in_a_fork, session).result(timeout=30)
    assert child == 7


def _refused_in_a_fork(session: TargetCharging) -> int:
    """Returns the exit code of a forked process that charges the session: 7 if the charge is refused, else 1."""
    child = os.fork()
    if child == 0:
        try:
            session.charge(outcome_in_target=True)
        except InvalidValue:
            os._exit(7)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_threads_cannot_charge_more_hits_than_there_are(eager_switches: None) -> None:
    """16 threads charge a session of 1000 hits 100 times each: exactly 1000 charges are accepted."""
    session = session_of_two_targets(target_hits=1000)
    results = results_of_threads(
        call=lambda: session.charge(outcome_in_target=True), calls_per_thread=100
    )
    assert (
        sum(result is not None for result in results)
        == session.hits[0]
        == session.num_calls
        == 1000
    )


def test_threads_release_each_charged_outcome_once(
    eager_switches: None,
) -> None:
    """16 threads release outcomes, each of which is a hit: as many are released as the session has hits.

    Of 20 outcomes that are stored unpublished, each is published by one thread only, although all 16 threads revise it,
    that is, ask for it again with a larger set.
    """
    stored = ConditionalRelease(session_of_two_targets())
    generator = rng()

    def draw_digit(generator: np.random.Generator) -> int:
        return int(generator.integers(9))

    def release_digit() -> Any:
        return stored.release(draw_digit, accept, epsilon=EPSILON, rng=generator)

    results = results_of_threads(call=release_digit, calls_per_thread=20)
    published = [result.key for result in results if result is not None]
    assert sorted(published) == list(range(HITS))
    stored = ConditionalRelease(session_of_two_targets())
    keys = [stored.release(draw_one, reject, epsilon=EPSILON, rng=rng()).key for _ in range(20)]
    results = results_of_threads(
        call=lambda: [_revised(stored=stored, key=key) for key in keys], calls_per_thread=1
    )
    assert sum(result is not None for actual in results for result in actual) == len(keys)


def _revised(stored: ConditionalRelease, key: int) -> Any:
    """Returns the outcome that a revision, a further test of a stored outcome, publishes; None if it is refused."""
    try:
        return stored.revise(key, accept=accept).outcome
    except InvalidValue:
        return None


def test_an_item_is_in_at_most_as_many_sums_as_its_hits(eager_switches: None) -> None:
    """If 16 threads ask the sparse vector for the sum of the same items, each of which has 3 hits, three get an answer.

    The sum of 200,000 items is slow, so the threads overlap.
    """
    mechanism = SparseVector(epsilon=1000.0, item_hits=3, failure_prob=1e-9)
    session = mechanism.start(num_units=200_000)
    is_in_sum = np.ones(200_000, dtype=bool)
    answers = results_of_threads(
        call=lambda: session.ask(is_in_sum, threshold=100_000, rng=rng()), calls_per_thread=1
    )
    assert sum(answer is not None for answer in answers) == 3


VALID_PLAY = partial(
    best_play_delta,
    target=not_prior(call_epsilon=0.1),
    target_hits=2,
    num_accesses=5,
    target_epsilon=0.3,
)


@pytest.mark.parametrize(
    ("name", "invalid_play"),
    [
        ("target", partial(VALID_PLAY, target=0.1)),
        ("target_hits", partial(VALID_PLAY, target_hits=0)),
        ("num_accesses", partial(VALID_PLAY, num_accesses=2.5)),
        ("target_epsilon", partial(VALID_PLAY, target_epsilon=math.nan)),
    ],
    ids=["a number for the target", "no hits", "half an access", "no number"],
)
def test_best_play_delta_refuses_invalid_arguments(
    name: str, invalid_play: Callable[[], float]
) -> None:
    """`best_play_delta` refuses one invalid argument, and its error is about this argument's name."""
    with refused_parameter(name, value=ANY):
        invalid_play()
