"""The mechanisms of target charging on all small neighbouring inputs, under both adjacencies.

Each q against the exact optimum of its definition, where 5% more is refuted; and whole sessions of small tau, whose
exact hockey stick stays below the price, while a price of tau accesses is exceeded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln

from pate.accounting import Adjacency
from pate.accounting.pure_composition import pure_dp_composition_delta, pure_dp_composition_epsilon
from pate.accounting.target_charging import (
    TargetCharging,
    boundary_distribution,
    exact_hit_prob,
    revise,
    run_twice,
    tight_boundary,
)
from pate.mechanisms import (
    AboveThreshold,
    BetweenThresholds,
    BoundaryWrapper,
    DiscreteLaplace,
    GapSelection,
    RunTwice,
    SparseVector,
    SweepTopK,
)
from tests.privacy.histograms import all_histograms, neighbours

Array = NDArray[np.float64]
Pair = tuple[Array, Array]

EPSILONS = (0.05, 0.5, 2.0)
ADJACENCIES = tuple(Adjacency)
STATISTICS = [("count", Adjacency.REPLACE_ONE), ("gap", Adjacency.REPLACE_ONE), ("gap", Adjacency.ADD_REMOVE)]
MORE = 1.05


def laplace_mass(rate: float, values: Array) -> Array:
    """P(z = value), written down a second time: normalised by the sum over all whole numbers."""
    return np.asarray(np.exp(-rate * np.abs(values)) * (1 - math.exp(-rate)) / (1 + math.exp(-rate)))


@lru_cache(maxsize=4096)
def three_lumps(rate: float, value: int, edges: tuple[int, ...]) -> Array:
    """P(value + z in each piece between the edges), the ends being infinite, by summing the masses of 40 scales."""
    reach = math.ceil(40 / rate) + max(abs(edge - value) for edge in edges)
    noise = np.arange(-reach, reach + 1)
    masses = laplace_mass(rate, noise)
    pieces = np.searchsorted(np.array(edges), value + noise, side="right")
    return np.bincount(pieces, masses, minlength=len(edges) + 1)


def reach_of(epsilon: float) -> int:
    """How far from a threshold: further out q is the same, and 1 - (common mass) has too few digits."""
    return 12 if epsilon < 1 else 4


def moves(sensitivity: int) -> list[int]:
    return [move for move in range(-sensitivity, sensitivity + 1) if move]


# ------------------------------------------------------------------------------------------------ threshold calls


def above_pairs(test: AboveThreshold) -> Iterator[tuple[Pair, Array]]:
    """All numbers near and far from the threshold; released values beyond both numbers are one outcome."""
    rate = float(test.noise.rate)
    reach = reach_of(test.epsilon)
    for value in range(test.threshold - reach, test.threshold + reach + 1):
        for move in moves(test.sensitivity):
            low, high = sorted((value, value + move))
            edges = (test.threshold, *range(max(low, test.threshold) + 1, max(high, test.threshold) + 1))
            first, second = (three_lumps(rate, at, edges) for at in (value, value + move))
            yield (first, second), np.arange(len(first)) > 0


def between_pairs(test: BetweenThresholds) -> Iterator[tuple[Pair, Array]]:
    rate = float(test.noise.rate)
    reach = reach_of(test.epsilon)
    for value in range(test.lower - reach, test.upper + reach):
        for move in moves(test.sensitivity):
            first, second = (three_lumps(rate, at, (test.lower, test.upper)) for at in (value, value + move))
            yield (first, second), np.arange(3) == 1


def smallest(pairs: Iterator[tuple[Pair, Array]], epsilon: float) -> float:
    return min(exact_hit_prob(*pair, in_target=target, epsilon=epsilon) for pair, target in pairs)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("statistic", "adjacency"), STATISTICS)
def test_releases_above_a_threshold(epsilon: float, statistic: str, adjacency: Adjacency) -> None:
    test = AboveThreshold(threshold=3, epsilon=epsilon, statistic=statistic, adjacency=adjacency)
    exact = smallest(above_pairs(test), test.target.epsilon)
    assert test.target.hit_prob <= exact * (1 + 1e-9) < test.target.hit_prob * MORE


@pytest.mark.parametrize("width", [1, 2, 7])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("statistic", "adjacency"), STATISTICS)
def test_falling_between_thresholds(epsilon: float, width: int, statistic: str, adjacency: Adjacency) -> None:
    test = BetweenThresholds(lower=3, upper=3 + width, epsilon=epsilon, statistic=statistic, adjacency=adjacency)
    exact = smallest(between_pairs(test), test.target.epsilon)
    assert test.target.hit_prob <= exact * (1 + 1e-9) < test.target.hit_prob * MORE


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_gap_charged_like_a_count_is_refuted(epsilon: float) -> None:
    """Under replace-one a gap moves by 2: laws made for 1 are farther apart than epsilon."""
    count = AboveThreshold(threshold=3, epsilon=epsilon)
    first, second = (three_lumps(float(count.noise.rate), value, (3,)) for value in (0, 2))
    assert np.abs(np.log(first / second)).max() > 1.5 * epsilon


# ------------------------------------------------------------------------------------------------ wrappers


def selection(noise: str, adjacency: Adjacency, scale: float) -> GapSelection:
    return GapSelection(noise_scale=scale, noise=noise, num_labels=3, num_teachers=4, padded=True, adjacency=adjacency)


def law_pairs(mechanism: Any, adjacency: Adjacency) -> tuple[Array, Array]:
    """The laws of a mechanism for all neighbours of 3 labels and 4 teachers, each pair of laws once."""
    histograms = all_histograms(3, 4)
    known = dict(zip(map(tuple, histograms.tolist()), mechanism.probabilities(histograms), strict=True))
    sides = [np.array([known[tuple(row)] for row in side.tolist()]) for side in neighbours(3, 4, adjacency)]
    laws = np.concatenate(sides, axis=1)
    unique = laws[np.unique(laws.round(12), axis=0, return_index=True)[1]]
    return unique[:, : laws.shape[1] // 2], unique[:, laws.shape[1] // 2 :]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("noise", ["gumbel", "exponential", "laplace"])
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_the_boundary_of_gap_selection(noise: str, adjacency: Adjacency, scale: float) -> None:
    """Every wrapped pair keeps t and q."""
    wrapper = BoundaryWrapper(selection(noise, adjacency, scale))
    first, second = law_pairs(wrapper, adjacency)
    assert np.abs(np.log(first / second)).max() <= wrapper.target.epsilon * (1 + 1e-9)
    at_boundary = np.arange(first.shape[1]) == first.shape[1] - 1
    pairs = (((one, other), at_boundary) for one, other in zip(first, second, strict=True))
    assert wrapper.target.hit_prob <= smallest(pairs, wrapper.target.epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_wrapper_of_the_worst_pairs_attains_its_target(epsilon: float) -> None:
    """A rare outcome beside two that are about equally likely attains t; a rare second outcome attains q."""
    growth, target, rare = math.exp(epsilon), tight_boundary(epsilon), 1e-7
    share = 1 / (2 * growth)
    first = boundary_distribution([1 - share, share - growth * rare, growth * rare])
    second = boundary_distribution([0.5, 0.5 - rare, rare])
    assert math.log(first[2] / second[2]) == pytest.approx(target.epsilon, rel=1e-5)
    near, far = (boundary_distribution([1 - p, p]) for p in (rare, growth * rare))
    exact = exact_hit_prob(near, far, in_target=[False, False, True], epsilon=target.epsilon)
    assert exact == pytest.approx(target.hit_prob, rel=1e-5)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_running_gap_selection_twice(adjacency: Adjacency, scale: float) -> None:
    twice = RunTwice(selection("gumbel", adjacency, scale))
    first, second = law_pairs(twice.mechanism, adjacency)
    differ = ~np.eye(first.shape[1], dtype=bool).ravel()
    pairs = (
        ((np.outer(one, one).ravel(), np.outer(other, other).ravel()), differ)
        for one, other in zip(first, second, strict=True)
    )
    assert twice.target.hit_prob <= smallest(pairs, twice.target.epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_worst_pairs_of_running_twice_attain_its_q(epsilon: float) -> None:
    growth = math.exp(epsilon)
    rare, even = 1e-7, growth / (1 + growth)
    exact = min(
        exact_hit_prob(
            np.outer(one, one).ravel(),
            np.outer(other, other).ravel(),
            in_target=[False, True, True, False],
            epsilon=2 * epsilon,
        )
        for one, other in (((1 - rare, rare), (1 - growth * rare, growth * rare)), ((even, 1 - even), (1 - even, even)))
    )
    assert run_twice(epsilon).hit_prob == pytest.approx(exact, rel=1e-5)


# ------------------------------------------------------------------------------------------------ revising


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_asking_again_for_a_noisy_count(epsilon: float) -> None:
    """A stored noisy count known to be below one threshold, asked for above a lower one: twice epsilon, and its q."""
    target, rate = revise(epsilon), float(DiscreteLaplace.at_most(epsilon).rate)
    smallest_found = 1.0
    for known, asked in ((5, 4), (5, 0), (5, -20), (0, -1)):
        for value in range(-30, 30):
            edges = (asked, *range(asked + 1, known + 1))
            first, second = (three_lumps(rate, at, edges)[:-1] for at in (value, value + 1))
            pair = (first / first.sum(), second / second.sum())
            assert np.abs(np.log(pair[0] / pair[1])).max() <= 2 * epsilon * (1 + 1e-9)
            released = np.arange(len(pair[0])) > 0
            smallest_found = min(smallest_found, exact_hit_prob(*pair, in_target=released, epsilon=target.epsilon))
    assert target.hit_prob <= smallest_found * (1 + 1e-9)


# ------------------------------------------------------------------------------------------------ whole sessions


def session_delta(pair: Pair, in_target: Array, hits: int, epsilon: float, *, num_calls: int) -> float:
    """The exact delta of the same call up to the last hit, at most `num_calls` times, in the worse direction.

    Calls are exchangeable: a transcript's probability depends on how often each outcome occurred, and whether the last
    call was a hit.
    """
    logs = np.log(np.stack(pair))
    missed, hit = np.flatnonzero(~in_target), np.flatnonzero(in_target)
    columns, ways = [], []
    for found in product(range(hits + 1), repeat=len(hit)):
        total = sum(found)
        if total > hits:
            continue
        for misses in product(range(num_calls + 1), repeat=len(missed)):
            length = total + sum(misses)
            halted = total == hits
            if length > num_calls or (not halted and length < num_calls):
                continue
            orders = gammaln(length + 1) - gammaln(np.array([*found, *misses]) + 1).sum()
            columns.append([*found, *misses])
            ways.append(orders + (math.log(hits / length) if halted else 0.0))  # the last call is one of the hits
    exponents = np.array(columns, dtype=float) @ logs[:, np.concatenate([hit, missed])].T + np.array(ways)[:, None]
    first, second = np.exp(exponents).T
    assert first.sum() == pytest.approx(1, abs=1e-9)
    growth = math.exp(epsilon)
    return float(max(np.maximum(a - growth * b, 0).sum() for a, b in ((first, second), (second, first))))


def near_worst(pairs: Iterator[tuple[Pair, Array]], epsilon: float) -> list[tuple[Pair, Array]]:
    """The pairs with the smallest q: those that a session pays for in full."""
    found = sorted(pairs, key=lambda pair: exact_hit_prob(*pair[0], in_target=pair[1], epsilon=epsilon))
    often = [pair for pair in found if min(law[pair[1]].sum() for law in pair[0]) > 0.02]
    return often[:2]


SESSIONS: dict[str, Any] = {
    "above": (AboveThreshold(threshold=3, epsilon=1.0), above_pairs),
    "above, gap": (AboveThreshold(threshold=3, epsilon=1.0, statistic="gap"), above_pairs),
    "between": (BetweenThresholds(lower=3, upper=5, epsilon=1.0), between_pairs),
    "between, gap": (BetweenThresholds(lower=3, upper=6, epsilon=1.0, statistic="gap"), between_pairs),
}


@pytest.mark.parametrize("hits", [1, 2])
@pytest.mark.parametrize("name", SESSIONS)
def test_sessions_of_threshold_calls_keep_their_price(name: str, hits: int) -> None:
    call, pairs = SESSIONS[name]
    session = TargetCharging.of_targets([call.target], hits, target_delta=1e-3)
    exact = [session_delta(*pair, hits, session.price.epsilon, num_calls=60) for pair in near_worst(pairs(call), 1.0)]
    assert 0 <= max(exact) <= session.price.delta


def test_a_price_of_as_many_accesses_as_hits_is_exceeded() -> None:
    call = AboveThreshold(threshold=3, epsilon=1.0)
    claimed = pure_dp_composition_epsilon(1.0, count=1, target_delta=1e-3)
    exact = [session_delta(*pair, 1, claimed, num_calls=60) for pair in near_worst(above_pairs(call), 1.0)]
    assert max(exact) > 1e-3


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_sessions_of_wrapped_selections_keep_their_price(adjacency: Adjacency) -> None:
    wrapper = BoundaryWrapper(selection("gumbel", adjacency, 4.0))
    first, second = law_pairs(wrapper, adjacency)
    session = TargetCharging.of_targets([wrapper.target], 2, target_delta=1e-3)
    ratios = np.abs(np.log(first / second)).max(axis=1)
    worst = [(first[at], second[at]) for at in np.argsort(-ratios)[:5]]
    largest = 0.0
    for one, other in worst:  # the likeliest outcome apart, the others together: sessions see no more
        likeliest = int(np.argmax(one[:-1]))
        lumped = [np.array([law[likeliest], 1 - law[likeliest] - law[-1], law[-1]]) for law in (one, other)]
        pair = (lumped[0], lumped[1])
        in_target = np.arange(3) == 2
        largest = max(largest, session_delta(pair, in_target, 2, session.price.epsilon, num_calls=40))
    assert 0 <= largest <= session.price.delta


# ------------------------------------------------------------------------------------------------ sweep


@lru_cache(maxsize=256)
def sweep_law(counts: tuple[int, ...], k: int, rate: float, *, reach: int) -> Array:
    """The law of (indices, scores), scores in -reach..reach; what lies outside has no weight worth a digit."""
    scores = np.arange(-reach, reach + 1)
    noisy = [laplace_mass(rate, scores - count) for count in counts]
    below = [np.append(0.0, np.cumsum(mass)) for mass in noisy]  # P(noisy < score), then one more
    law = []
    for order in permutations(range(len(counts)), k):
        last = order[-1]
        others = np.ones(len(scores))
        for other in set(range(len(counts))) - set(order):
            others = others * (below[other][1:] if other > last else below[other][:-1])
        at_last = noisy[last] * others
        if k == 1:
            law.append(at_last)
            continue
        before = order[0]
        joint = noisy[before][:, None] * at_last[None, :]
        above = scores[:, None] >= scores[None, :] if before < last else scores[:, None] > scores[None, :]
        law.append((joint * above).ravel())
    return np.concatenate(law)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("k", [1, 2])
def test_a_sweep_keeps_its_price_and_not_that_of_k_noisy_counts(adjacency: Adjacency, k: int) -> None:
    sweep = SweepTopK(k=k, epsilon=1.0, failure_prob=1e-6, adjacency=adjacency)
    count, target = sweep.event.event.count, sweep.target  # type: ignore[attr-defined]
    first, second = neighbours(3, 2, adjacency)
    exceeded = False
    for one, other in {(tuple(a), tuple(b)) for a, b in zip(first.tolist(), second.tolist(), strict=True)}:
        laws = [sweep_law(counts, k, float(sweep.noise.rate), reach=26) for counts in (one, other)]
        assert laws[0].sum() == pytest.approx(1, abs=1e-8)
        for epsilon in (0.5, 1.0, 2.0, 3.0):
            exact = float(np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0).sum())
            price = pure_dp_composition_delta(target.epsilon, count=count, target_epsilon=epsilon) + 1e-6
            assert exact <= price
            exceeded |= exact > pure_dp_composition_delta(1.0, count=k, target_epsilon=epsilon) + 1e-6
    assert exceeded


# ------------------------------------------------------------------------------------------------ sparse vector

THRESHOLD = 2
OTHERS = 2  # items with every bit; they drop out as well


def sparse_vector_laws(first: tuple[int, ...], second: tuple[int, ...], rate: float, item_hits: int) -> Pair:
    """The laws of all transcripts for one item with these bits, or those; released sums up to ties of their ratio."""
    transcripts = [(1.0, 1.0, 0, 0, 0)]  # probabilities, hits of the item in either world, hits of the others
    for bits in zip(first, second, strict=True):
        longer = []
        for one, other, hits_one, hits_other, hits_rest in transcripts:
            rest = OTHERS if hits_rest < item_hits else 0
            counted = [bit and hits < item_hits for bit, hits in zip(bits, (hits_one, hits_other), strict=True)]
            low = max(min(rest + counted[0], rest + counted[1]), THRESHOLD - 1)
            laws = [three_lumps(rate, rest + int(own), (THRESHOLD, low + 1)) for own in counted]
            for outcome in range(3):
                hit = outcome > 0
                longer.append(
                    (
                        one * laws[0][outcome],
                        other * laws[1][outcome],
                        hits_one + (hit and counted[0]),
                        hits_other + (hit and counted[1]),
                        hits_rest + hit,
                    )
                )
        transcripts = longer
    table = np.array(transcripts, dtype=float)
    return table[:, 0], table[:, 1]


def sparse_vector_pairs(adjacency: Adjacency, num_queries: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    every = list(product((0, 1), repeat=num_queries))
    absent = (0,) * num_queries
    if adjacency is Adjacency.REPLACE_ONE:
        yield from product(every, every)
    else:
        yield from [(bits, absent) for bits in every] + [(absent, bits) for bits in every]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("item_hits", [1, 2])
def test_sparse_vector_keeps_its_price_and_not_that_of_its_hits(adjacency: Adjacency, item_hits: int) -> None:
    num_queries = 3 if adjacency is Adjacency.REPLACE_ONE else 4
    mechanism = SparseVector(epsilon=1.0, item_hits=item_hits, failure_prob=1e-6, adjacency=adjacency)
    count, rate = mechanism.event.event.count, float(mechanism.noise.rate)  # type: ignore[attr-defined]
    exceeded = False
    for pair in sparse_vector_pairs(adjacency, num_queries):
        first, second = sparse_vector_laws(*pair, rate, item_hits)
        for epsilon in (0.5, 1.0, 2.0, 3.0):
            exact = float(np.maximum(first - math.exp(epsilon) * second, 0).sum())
            assert exact <= pure_dp_composition_delta(1.0, count=count, target_epsilon=epsilon) + 1e-6
            exceeded |= exact > pure_dp_composition_delta(1.0, count=1, target_epsilon=epsilon) + 1e-6
    assert exceeded
