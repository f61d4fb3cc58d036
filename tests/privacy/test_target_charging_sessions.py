"""The exact delta of short sessions is at most that of their price.

For most sessions a price of as many accesses as hits is exceeded. A call reads the private data with some probability
only; if it does, that is an access. The hit probability q bounds from below how likely an access is a hit.
"""

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from itertools import permutations, product

import numpy as np
import pytest
from scipy.special import gammaln

from pate.accounting import Adjacency, PureDpAccountant, PureDpEvent
from pate.accounting.pure_dp import pure_dp_composition_epsilon
from pate.accounting.target_charging import TargetCharging, run_twice
from pate.array_types import FloatArray
from pate.mechanisms import (
    AboveThreshold,
    BetweenThresholds,
    BoundaryWrapper,
    SparseVector,
    SweepTopK,
)
from pate.testing.divergences import hockey_stick
from tests.privacy.call_distributions import (
    CallOnNeighbors,
    Pair,
    distribution_pairs,
    laplace_mass,
    make_selection,
    masses_between,
    threshold_calls,
)
from tests.privacy.histograms import neighbors

ADJACENCIES = tuple(Adjacency)
EPSILONS = (0.5, 1.0, 2.0, 3.0)


def assert_priced(
    pairs: Iterable[Pair],
    *,
    call_epsilon: float,
    num_accesses: int,
    refuted_epsilon: float,
    refuted_accesses: int,
) -> None:
    """Fails if the exact delta of some pair exceeds the price at one of `EPSILONS`, or if none exceeds a smaller price.

    The price is that of `num_accesses` accesses of `call_epsilon`. The smaller price is that of `refuted_accesses`
    accesses of `refuted_epsilon`. Both have the failure probability 1e-6.
    """
    exact = np.array(
        [
            hockey_stick(
                first_laws=first_law[None], second_laws=second_law[None], epsilons=EPSILONS
            )[0]
            for first_law, second_law in pairs
        ]
    )
    accountants = [
        PureDpAccountant().compose(PureDpEvent(epsilon=call_epsilon), count=num_accesses),
        PureDpAccountant().compose(PureDpEvent(epsilon=refuted_epsilon), count=refuted_accesses),
    ]
    price, small = (
        1e-6 + np.array([accountant.get_delta(target_epsilon=epsilon) for epsilon in EPSILONS])
        for accountant in accountants
    )
    assert (exact <= price).all() and (exact > small).any()


# ------------------------------------------------------------------------------------------------ whole sessions


def session_delta(
    call: CallOnNeighbors, *, target_hits: int, target_epsilon: float, num_calls: int
) -> float:
    """Returns the exact delta at an epsilon of a session of equal calls, in the worse direction.

    The session ends with hit number `target_hits` or after `num_calls` calls. Calls are exchangeable, so only the
    number of each outcome matters, and whether the last call was a hit.
    """
    log_laws = np.log(np.stack(call.laws))
    missed_outcomes = np.flatnonzero(~call.in_target)
    hit_outcomes = np.flatnonzero(call.in_target)
    counts_of_outcomes = []
    log_num_orders = []
    for hit_counts in product(range(target_hits + 1), repeat=len(hit_outcomes)):
        num_hits = sum(hit_counts)
        if num_hits > target_hits:
            continue
        for miss_counts in product(range(num_calls + 1), repeat=len(missed_outcomes)):
            length = num_hits + sum(miss_counts)
            halted = num_hits == target_hits
            if length > num_calls or (not halted and length < num_calls):
                continue
            counts = [*hit_counts, *miss_counts]
            log_orders = gammaln(length + 1) - gammaln(np.array(counts) + 1).sum()
            counts_of_outcomes.append(counts)
            # the last call is one of the hits
            log_num_orders.append(log_orders + (math.log(target_hits / length) if halted else 0.0))
    exponents = (
        np.array(counts_of_outcomes, dtype=float)
        @ log_laws[:, np.concatenate([hit_outcomes, missed_outcomes])].T
        + np.array(log_num_orders)[:, None]
    )
    first, second = np.exp(exponents).T
    assert first.sum() == pytest.approx(1, abs=1e-9)
    growth = math.exp(target_epsilon)
    return float(
        max(np.maximum(a - growth * b, 0).sum() for a, b in ((first, second), (second, first)))
    )


def nearly_worst_calls(calls: Iterable[CallOnNeighbors], epsilon: float) -> list[CallOnNeighbors]:
    """Returns the two calls with the smallest hit probability q at an epsilon, of those that are hit often enough.

    That is, their hits have a probability above 0.02 on both neighbors.
    In a short session, rarer hits hardly occur.
    """
    frequently_hit = [
        call for call in calls if min(law[call.in_target].sum() for law in call.laws) > 0.02
    ]
    return sorted(frequently_hit, key=lambda call: call.hit_prob(epsilon))[:2]


THRESHOLD_CALLS = (
    AboveThreshold(threshold=3, epsilon=1.0),
    AboveThreshold(threshold=3, epsilon=1.0, statistic="gap"),
    BetweenThresholds(lower=3, upper=5, epsilon=1.0),
    BetweenThresholds(lower=3, upper=6, epsilon=1.0, statistic="gap"),
)


@pytest.mark.parametrize("hits", [1, 2])
@pytest.mark.parametrize("threshold_call", THRESHOLD_CALLS)
def test_sessions_of_threshold_calls_keep_their_price_and_not_that_of_their_hits(
    threshold_call: AboveThreshold | BetweenThresholds, hits: int
) -> None:
    """Sessions of up to 60 threshold calls, on two pairs with the smallest q, have at most the delta of their price.

    Negative control: the price of as many accesses as hits is exceeded.
    """
    price = TargetCharging.of_targets(
        [threshold_call.target], target_hits=hits, target_delta=1e-3
    ).price
    calls = nearly_worst_calls(threshold_calls(threshold_call), epsilon=1.0)

    def largest_delta(target_epsilon: float) -> float:
        return max(
            session_delta(call, target_hits=hits, target_epsilon=target_epsilon, num_calls=60)
            for call in calls
        )

    assert 0 <= largest_delta(price.epsilon) <= price.delta
    epsilon_of_hits = pure_dp_composition_epsilon(epsilon=1.0, count=hits, target_delta=1e-3)
    assert largest_delta(epsilon_of_hits) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_sessions_of_wrapped_selections_keep_their_price(adjacency: Adjacency) -> None:
    """Sessions of up to 40 selections inside the boundary wrapper have at most the delta of their price.

    The sessions end with their second boundary outcome. The five pairs of neighbors with the largest ratios are tried,
    with all outcomes but the likeliest one and the boundary merged. Negative control: under replace-one, some exceed
    the price of two accesses.
    """
    wrapper = BoundaryWrapper(make_selection(noise="gumbel", adjacency=adjacency, noise_scale=4.0))
    first, second = distribution_pairs(wrapper, adjacency)
    session = TargetCharging.of_targets([wrapper.target], target_hits=2, target_delta=1e-3)
    epsilon_of_hits = pure_dp_composition_epsilon(
        epsilon=wrapper.target.epsilon, count=2, target_delta=1e-3
    )
    deltas_of_hits = []
    likeliest = [int(np.argmax(law[:-1])) for law in first]
    for pair_index in np.argsort(-np.abs(np.log(first / second)).max(axis=1))[:5]:
        # the likeliest outcome apart, the others together, so that there are few transcripts
        apart = [
            np.array(
                [law[likeliest[pair_index]], 1 - law[likeliest[pair_index]] - law[-1], law[-1]]
            )
            for law in (first[pair_index], second[pair_index])
        ]
        call = CallOnNeighbors(laws=(apart[0], apart[1]), in_target=np.arange(3) == 2)
        exact, exact_of_hits = (
            session_delta(call, target_hits=2, target_epsilon=epsilon, num_calls=40)
            for epsilon in (session.price.epsilon, epsilon_of_hits)
        )
        assert 0 <= exact <= session.price.delta
        deltas_of_hits.append(exact_of_hits)
    if adjacency is Adjacency.REPLACE_ONE:
        assert max(deltas_of_hits) > 1e-3


@pytest.mark.parametrize("hits", [1, 2])
def test_sessions_of_two_runs_keep_their_price(hits: int) -> None:
    """Sessions of up to 60 calls, each of which runs a coin twice, have at most the delta of their price.

    A call is a hit if both runs differ. The coin has two pairs of probabilities on neighbors.
    Negative control: the price of as many accesses as hits is exceeded.
    """
    epsilon = 1.0
    growth = math.exp(epsilon)
    target = run_twice(epsilon)
    session = TargetCharging.of_targets([target], target_hits=hits, target_delta=1e-3)
    epsilon_of_hits = pure_dp_composition_epsilon(target.epsilon, count=hits, target_delta=1e-3)
    for coins in ((0.02, 0.02 * growth), (1 / (1 + growth), growth / (1 + growth))):
        first, second = (np.array([p * p, (1 - p) ** 2, 2 * p * (1 - p)]) for p in coins)
        call = CallOnNeighbors(laws=(first, second), in_target=np.arange(3) == 2)
        exact, exact_of_hits = (
            session_delta(call, target_hits=hits, target_epsilon=target_epsilon, num_calls=60)
            for target_epsilon in (session.price.epsilon, epsilon_of_hits)
        )
        assert 0 <= exact <= session.price.delta < exact_of_hits


# ------------------------------------------------------------------------------------------------ sweep


@lru_cache(maxsize=256)
def sweep_distribution(
    counts: tuple[int, ...], k: int, noise_rate: float, *, largest_absolute_score: int
) -> FloatArray:
    """Returns the probability of each outcome of `SweepTopK`, the labels and scores of the k largest noisy counts.

    A score is a noisy count. The array has one axis: for each sequence of k labels, the probability of each sequence of
    k scores from -`largest_absolute_score` to `largest_absolute_score`. Other scores have a negligible probability, and
    are left out.

    Args:
        counts: the exact count of each label.
        k: 1 or 2.
        noise_rate: 1 / scale of the discrete Laplace noise.
        largest_absolute_score: the largest score that is kept.
    """
    score_grid = np.arange(-largest_absolute_score, largest_absolute_score + 1)
    noisy_count_masses = [laplace_mass(noise_rate, values=score_grid - count) for count in counts]
    # P(noisy < score), then one more
    below = [np.append(0.0, np.cumsum(masses)) for masses in noisy_count_masses]
    distribution = []
    for order in permutations(range(len(counts)), k):
        last_label = order[-1]
        prob_others_below = np.ones(len(score_grid))
        for other in set(range(len(counts))) - set(order):
            prob_others_below = prob_others_below * (
                below[other][1:] if other > last_label else below[other][:-1]
            )
        masses_of_last_score = noisy_count_masses[last_label] * prob_others_below
        if k == 1:
            distribution.append(masses_of_last_score)
            continue
        first_label = order[0]
        joint = noisy_count_masses[first_label][:, None] * masses_of_last_score[None, :]
        is_in_falling_order = (
            score_grid[:, None] >= score_grid[None, :]
            if first_label < last_label
            else score_grid[:, None] > score_grid[None, :]
        )
        distribution.append((joint * is_in_falling_order).ravel())
    return np.concatenate(distribution)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("k", [1, 2])
def test_a_sweep_keeps_its_price_and_not_that_of_k_noisy_counts(
    adjacency: Adjacency, k: int
) -> None:
    """A sweep, which publishes the k largest noisy counts, has at most the delta of its price on all neighbors.

    Negative control: the price of k accesses is exceeded.
    """
    sweep = SweepTopK(k=k, epsilon=1.0, failure_prob=1e-6, adjacency=adjacency)
    first_side, second_side = (
        map(tuple, side.tolist())
        for side in neighbors(num_labels=3, num_teachers=2, adjacency=adjacency)
    )
    compute_law = partial(
        sweep_distribution, k=k, noise_rate=float(sweep.noise.rate), largest_absolute_score=26
    )
    pairs = [
        (compute_law(first_counts), compute_law(second_counts))
        for first_counts, second_counts in set(zip(first_side, second_side, strict=True))
    ]
    assert all(first.sum() == pytest.approx(1, abs=1e-8) for first, _ in pairs)
    count = sweep.event.event.count
    assert_priced(
        pairs,
        call_epsilon=sweep.target.epsilon,
        num_accesses=count,
        refuted_epsilon=1.0,
        refuted_accesses=k,
    )


# ------------------------------------------------------------------------------------------------ sparse vector

THRESHOLD = 2
OTHERS = 2  # items with every bit; they drop out as well


def sparse_vector_distributions(
    item_bits: tuple[int, ...],
    neighboring_item_bits: tuple[int, ...],
    *,
    noise_rate: float,
    item_hits: int,
) -> Pair:
    """Returns the distributions of all transcripts of a session, with either of two rows of bits of one item.

    `OTHERS` further items have every bit. Transcripts with equal likelihood ratios are merged.

    Args:
        item_bits: the bits of the item, one for each query, on the first neighbor.
        neighboring_item_bits: the bits of the item on the second neighbor.
        noise_rate: the rate of the discrete Laplace noise, 1 / scale.
        item_hits: the number of hits after which an item no longer counts.
    """
    # probabilities, hits of the item in either world, hits of the others
    transcripts = [(1.0, 1.0, 0, 0, 0)]
    for bits in zip(item_bits, neighboring_item_bits, strict=True):
        longer = []
        for one, other, hits_one, hits_other, hits_rest in transcripts:
            num_other_items = OTHERS if hits_rest < item_hits else 0
            counted = [
                bit and hits < item_hits
                for bit, hits in zip(bits, (hits_one, hits_other), strict=True)
            ]
            smaller_count = max(
                min(num_other_items + counted[0], num_other_items + counted[1]), THRESHOLD - 1
            )
            distributions = [
                masses_between(
                    noise_rate,
                    statistic=num_other_items + int(is_item_counted),
                    outcome_edges=(THRESHOLD, smaller_count + 1),
                )
                for is_item_counted in counted
            ]
            for outcome in range(3):
                hit = outcome > 0
                longer.append(
                    (
                        one * distributions[0][outcome],
                        other * distributions[1][outcome],
                        hits_one + (hit and counted[0]),
                        hits_other + (hit and counted[1]),
                        hits_rest + hit,
                    )
                )
        transcripts = longer
    table = np.array(transcripts, dtype=float)
    return table[:, 0], table[:, 1]


def sparse_vector_pairs(
    adjacency: Adjacency, num_queries: int
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yields the bits of one item on both neighbors; without the item, all its bits are 0."""
    all_rows_of_bits = list(product((0, 1), repeat=num_queries))
    absent = (0,) * num_queries
    if adjacency is Adjacency.REPLACE_ONE:
        yield from product(all_rows_of_bits, all_rows_of_bits)
    else:
        yield from [(bits, absent) for bits in all_rows_of_bits] + [
            (absent, bits) for bits in all_rows_of_bits
        ]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("item_hits", [1, 2])
def test_sparse_vector_keeps_its_price_and_not_that_of_its_hits(
    adjacency: Adjacency, item_hits: int
) -> None:
    """A sparse vector that answers 3 or 4 queries has at most the delta of its price, for all bits of one item.

    An item has a bit for each query, and no longer counts after `item_hits` hits. Negative control: the price of one
    access is exceeded.
    """
    num_queries = 3 if adjacency is Adjacency.REPLACE_ONE else 4
    mechanism = SparseVector(
        epsilon=1.0, item_hits=item_hits, failure_prob=1e-6, adjacency=adjacency
    )
    rate = float(mechanism.noise.rate)
    pairs = (
        sparse_vector_distributions(
            item_bits, neighboring_item_bits, noise_rate=rate, item_hits=item_hits
        )
        for item_bits, neighboring_item_bits in sparse_vector_pairs(adjacency, num_queries)
    )
    assert_priced(
        pairs,
        call_epsilon=1.0,
        num_accesses=mechanism.event.event.count,
        refuted_epsilon=1.0,
        refuted_accesses=1,
    )
