"""Hit probabilities q of target charging against the exact optimum of their definition, and the best adaptive sessions.

A call reads the private data with some probability only; if it does, that is an access. A hit is a call whose outcome
is in a set, the target. q is a lower bound on the probability that an access is a hit.

Each q holds on every pair of neighboring distributions that is tried. For each kind of target a q that is 5% larger is
refuted, and for the published q of the boundary wrapper one that is 8% larger.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from pate.accounting import Adjacency, ExactAccountant
from pate.accounting.pure_dp import pure_dp_composition_epsilon
from pate.accounting.target_charging import (
    QTarget,
    TargetCharging,
    best_session_price,
    between_thresholds,
    boundary,
    boundary_distribution,
    exact_hit_prob,
    not_prior,
    revise,
    run_twice,
    tight_boundary,
)
from pate.array_types import FloatArray
from pate.mechanisms import (
    AboveThreshold,
    BetweenThresholds,
    BoundaryWrapper,
    DiscreteLaplace,
    RunTwice,
)
from tests.privacy.call_distributions import (
    CallOnNeighbors,
    Pair,
    distribution_pairs,
    make_selection,
    masses_between,
    run_call_twice,
    smallest_hit_prob,
    threshold_calls,
)

REPLACE = Adjacency.REPLACE_ONE


def random_pairs(epsilon: float, *, num_pairs: int = 1000) -> Iterator[Pair]:
    """Yields pairs of distributions on 2 to 5 outcomes with log ratios up to epsilon, some with tiny probabilities.

    Pairs of `tilted_pair` and of `opposite_pair` alternate.
    """
    rng = np.random.default_rng(7)
    for index in range(num_pairs):
        num_outcomes = int(rng.integers(low=2, high=6))
        outcome_weights = rng.dirichlet(np.full(num_outcomes, 0.15)) + 1e-9
        if index % 2:
            yield opposite_pair(rng, outcome_weights, epsilon)
        else:
            yield tilted_pair(rng, outcome_weights, epsilon)


def opposite_pair(rng: np.random.Generator, outcome_weights: FloatArray, epsilon: float) -> Pair:
    """Returns a pair of distributions with ratios e^epsilon at some outcomes and e^-epsilon at others.

    At the rest the ratio is 1.
    """
    num_outcomes = len(outcome_weights)
    side_of_outcome = np.concatenate([[0, 1], rng.integers(low=0, high=3, size=num_outcomes - 2)])
    up_mass = math.exp(rng.uniform(math.log(1e-4), high=0.0)) / (1 + math.exp(epsilon))
    mass_of_side = np.array(
        [up_mass, up_mass * math.exp(epsilon), 1 - up_mass * (1 + math.exp(epsilon))]
    )
    if not (side_of_outcome == 2).any():
        mass_of_side[:2] /= mass_of_side[:2].sum()
    first_law = (
        mass_of_side[side_of_outcome]
        * outcome_weights
        / np.bincount(side_of_outcome, weights=outcome_weights, minlength=3)[side_of_outcome]
    )
    second_law = first_law * np.exp(epsilon * np.array([1, -1, 0]))[side_of_outcome]
    return first_law / first_law.sum(), second_law / second_law.sum()


def tilted_pair(rng: np.random.Generator, outcome_weights: FloatArray, epsilon: float) -> Pair:
    """Returns a pair of distributions with the ratio e^epsilon at every outcome but the likeliest one.

    The probabilities are scaled so that the ratio at the likeliest outcome is at least e^-epsilon.
    """
    order = rng.permutation(len(outcome_weights))
    first_law = outcome_weights[order] / outcome_weights.sum()
    largest = int(np.argmax(first_law))
    rest_mass = 1 - first_law[largest]
    scale = min(1.0, 1 / (rest_mass * (1 + math.exp(epsilon))))
    first_law = first_law * scale
    second_law = first_law * math.exp(epsilon)
    first_law[largest] = 1 - rest_mass * scale
    second_law[largest] = 1 - rest_mass * scale * math.exp(epsilon)
    return first_law, second_law


def not_prior_calls(epsilon: float) -> Iterator[CallOnNeighbors]:
    """Yields calls whose hits are all outcomes but one, the prior."""
    for laws in random_pairs(epsilon):
        num_outcomes = len(laws[0])
        for prior in range(num_outcomes):
            yield CallOnNeighbors(laws=laws, in_target=np.arange(num_outcomes) != prior)


def revise_calls(epsilon: float) -> Iterator[CallOnNeighbors]:
    """Yields questions whether a stored outcome, known to lie outside of an earlier set, lies in another set.

    The answer yes is a hit.
    """
    for laws in random_pairs(epsilon):
        rest_outcomes = np.arange(1, len(laws[0]))
        if len(rest_outcomes) > 1:
            first_law, second_law = (law[rest_outcomes] / law[rest_outcomes].sum() for law in laws)
            for num_asked_outcomes in range(1, len(rest_outcomes)):
                merged_laws = [
                    np.append(law[:num_asked_outcomes], law[num_asked_outcomes:].sum())
                    for law in (first_law, second_law)
                ]
                yield CallOnNeighbors(
                    laws=(merged_laws[0], merged_laws[1]),
                    in_target=np.arange(num_asked_outcomes + 1) < num_asked_outcomes,
                )


def boundary_calls(epsilon: float) -> Iterator[CallOnNeighbors]:
    """Yields calls inside the boundary wrapper, which are hits if they return its additional outcome "boundary".

    Args:
        epsilon: the epsilon of the calls before they are wrapped.
    """
    for first_law, second_law in random_pairs(epsilon):
        yield CallOnNeighbors(
            laws=(boundary_distribution(first_law), boundary_distribution(second_law)),
            in_target=np.arange(len(first_law) + 1) == len(first_law),
        )


def run_twice_calls(epsilon: float) -> Iterator[CallOnNeighbors]:
    """Yields two runs of a call, which are a hit if their outcomes differ."""
    return map(run_call_twice, random_pairs(epsilon))


def laplace_calls(
    epsilon: float, *, distance_between_thresholds: float = 2.0
) -> Iterator[CallOnNeighbors]:
    """Yields calls that tell whether a number with Laplace noise is below, between or above two thresholds.

    The thresholds are 0 and `distance_between_thresholds`. A hit lies between them. Neighbors have the numbers f and
    f + move.
    """
    for value in np.linspace(-10 / epsilon, 10 / epsilon, 401):
        for move in (0.3, 1.0):
            first, second = (
                threshold_law(
                    float(statistic),
                    epsilon=epsilon,
                    distance_between_thresholds=distance_between_thresholds,
                )
                for statistic in (value, value + move)
            )
            yield CallOnNeighbors(laws=(first, second), in_target=np.array([False, True, False]))


def threshold_law(
    statistic: float, *, epsilon: float, distance_between_thresholds: float
) -> FloatArray:
    """Returns the probabilities of below, between and above, computed without cancellation in the tails.

    The thresholds are 0 and `distance_between_thresholds`; the Laplace noise has the scale 1 / epsilon.
    """
    below = laplace_tail(statistic * epsilon)
    above = laplace_tail((distance_between_thresholds - statistic) * epsilon)
    if 0 < statistic < distance_between_thresholds:
        return np.array([below, 1 - below - above, above])
    scaled_distance_outside = max(-statistic, statistic - distance_between_thresholds) * epsilon
    return np.array(
        [
            below,
            -math.exp(-scaled_distance_outside)
            * math.expm1(-distance_between_thresholds * epsilon)
            / 2,
            above,
        ]
    )


def laplace_tail(threshold: float) -> float:
    """Returns the probability that standard Laplace noise exceeds a threshold."""
    return math.exp(-threshold) / 2 if threshold > 0 else 1 - math.exp(threshold) / 2


def two_wide_target(epsilon: float) -> QTarget:
    """Returns the target of a call whose two thresholds are 2 apart."""
    return between_thresholds(epsilon, width=2.0)


class TargetCase(NamedTuple):
    """A target, calls that it is for, and a factor of its q that these calls refute.

    Attributes:
        target_for: returns the target of calls of an epsilon.
        calls_of: yields calls of an epsilon on neighbors.
        refuted_factor: a factor times which q exceeds the exact hit probability of some call.
    """

    target_for: Callable[[float], QTarget]
    calls_of: Callable[[float], Iterator[CallOnNeighbors]]
    refuted_factor: float = 1.05


CASES = {
    "not_prior": TargetCase(target_for=not_prior, calls_of=not_prior_calls),
    "revise": TargetCase(target_for=revise, calls_of=revise_calls),
    "boundary": TargetCase(target_for=boundary, calls_of=boundary_calls, refuted_factor=1.08),
    "tight_boundary": TargetCase(target_for=tight_boundary, calls_of=boundary_calls),
    "run_twice": TargetCase(target_for=run_twice, calls_of=run_twice_calls),
    "between_thresholds": TargetCase(target_for=two_wide_target, calls_of=laplace_calls),
}


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("name", CASES)
def test_q_holds_on_all_pairs_and_a_larger_one_does_not(name: str, epsilon: float) -> None:
    """The hit probability q of a target is at most the smallest exact q over all tried pairs of distributions.

    Negative control: q times 1.05 (1.08 for the published boundary) is above it.
    """
    case = CASES[name]
    target = case.target_for(epsilon)
    exact = smallest_hit_prob(calls=case.calls_of(epsilon), epsilon=target.epsilon)
    refuted_prob = target.hit_prob * case.refuted_factor
    assert target.hit_prob <= exact * (1 + 1e-6) < refuted_prob * (1 + 1e-6)


# ------------------------------------------------------------------------------------------------ calls of mechanisms

THRESHOLD_CALLS = [
    pytest.param(partial(AboveThreshold, threshold=3), id="above 3"),
    *(
        pytest.param(
            partial(BetweenThresholds, lower=3, upper=3 + width), id=f"from 3 to {3 + width}"
        )
        for width in (1, 2, 7)
    ),
]


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
@pytest.mark.parametrize(
    ("statistic", "adjacency"),
    [("count", REPLACE), ("gap", REPLACE), ("gap", Adjacency.ADD_REMOVE)],
)
@pytest.mark.parametrize("make_call", THRESHOLD_CALLS)
def test_q_of_threshold_calls_holds_and_5_percent_more_is_refuted(
    make_call: Callable[..., AboveThreshold | BetweenThresholds],
    statistic: str,
    adjacency: Adjacency,
    epsilon: float,
) -> None:
    """The hit probability q of a threshold call is at most the exact q over all pairs of neighboring statistics.

    Negative controls: 1.05 q is above the exact one. The log ratio of two counts that differ by 2 exceeds 1.5 times the
    epsilon of `AboveThreshold`.
    """
    call = make_call(epsilon=epsilon, statistic=statistic, adjacency=adjacency)
    exact = smallest_hit_prob(calls=threshold_calls(call), epsilon=call.target.epsilon)
    assert call.target.hit_prob <= exact * (1 + 1e-9) < call.target.hit_prob * 1.05
    # a count that moves by 2 is not charged like this
    if isinstance(call, AboveThreshold) and statistic == "count":
        first, second = (
            masses_between(
                noise_rate=float(call.noise.rate), statistic=count, outcome_edges=(call.threshold,)
            )
            for count in (0, 2)
        )
        assert np.abs(np.log(first / second)).max() > 1.5 * epsilon


@pytest.mark.parametrize("noise", ["gumbel", "exponential", "laplace"])
@pytest.mark.parametrize("noise_scale", [1.0, 8.0])
@pytest.mark.parametrize("adjacency", tuple(Adjacency))
def test_wrapped_selections_keep_their_target(
    adjacency: Adjacency, noise_scale: float, noise: str
) -> None:
    """A selection inside the boundary wrapper keeps the epsilon and the q of its target, on all neighbors.

    A Gumbel selection that is run twice keeps the q of its own target.
    """
    selection = make_selection(noise, adjacency=adjacency, noise_scale=noise_scale)
    wrapper = BoundaryWrapper(selection)
    first_laws, second_laws = distribution_pairs(wrapper, adjacency)
    assert np.abs(np.log(first_laws / second_laws)).max() <= wrapper.target.epsilon * (1 + 1e-9)
    at_boundary = np.arange(first_laws.shape[1]) == first_laws.shape[1] - 1
    wrapped_calls = [
        CallOnNeighbors(laws=laws, in_target=at_boundary)
        for laws in zip(first_laws, second_laws, strict=True)
    ]
    exact = smallest_hit_prob(calls=wrapped_calls, epsilon=wrapper.target.epsilon)
    assert wrapper.target.hit_prob <= exact * (1 + 1e-9)
    if noise == "gumbel":
        first_laws, second_laws = distribution_pairs(selection, adjacency)
        calls_of_two_runs = map(run_call_twice, zip(first_laws, second_laws, strict=True))
        target = RunTwice(selection).target
        exact = smallest_hit_prob(calls=calls_of_two_runs, epsilon=target.epsilon)
        assert target.hit_prob <= exact * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_the_worst_pairs_of_both_wrappers_attain_their_targets(epsilon: float) -> None:
    """A rare outcome beside two others, equally likely on one neighbor, attains the epsilon of the boundary target.

    A rare outcome beside one other attains the q of this target. The worse of two pairs of coins attains the q of two
    runs.
    """
    growth = math.exp(epsilon)
    target = tight_boundary(epsilon)
    rare = 1e-7
    share = 1 / (2 * growth)
    even = growth / (1 + growth)
    first = boundary_distribution([1 - share, share - growth * rare, growth * rare])
    second = boundary_distribution([0.5, 0.5 - rare, rare])
    assert math.log(first[2] / second[2]) == pytest.approx(target.epsilon, rel=1e-5)
    near, far = (boundary_distribution([1 - p, p]) for p in (rare, growth * rare))
    exact = exact_hit_prob(
        first_law=near, second_law=far, in_target=[False, False, True], epsilon=target.epsilon
    )
    assert exact == pytest.approx(target.hit_prob, rel=1e-5)
    pairs_of_coin_laws = [
        np.array([[1 - p, p], [1 - q, q]]) for p, q in ((rare, growth * rare), (even, 1 - even))
    ]
    exact = smallest_hit_prob(
        calls=[run_call_twice((coin_laws[0], coin_laws[1])) for coin_laws in pairs_of_coin_laws],
        epsilon=2 * epsilon,
    )
    assert run_twice(epsilon).hit_prob == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_second_question_about_a_noisy_count_is_covered(epsilon: float) -> None:
    """A question whether a noisy count, known to be below a threshold, reaches a lower one keeps its target `revise`.

    Log ratios stay within twice epsilon, and hits have at least the target's q.
    """
    target = revise(call_epsilon=epsilon)
    noise_rate = float(DiscreteLaplace.at_most(epsilon).rate)
    calls = []
    threshold_pairs = ((5, 4), (5, 0), (5, -20), (0, -1))
    smaller_counts = range(-30, 30)
    for (known_threshold, asked_threshold), smaller_count in product(
        threshold_pairs, smaller_counts
    ):
        outcome_edges = (asked_threshold, *range(asked_threshold + 1, known_threshold + 1))
        first_law, second_law = (
            masses_between(noise_rate, statistic=count, outcome_edges=outcome_edges)[:-1]
            for count in (smaller_count, smaller_count + 1)
        )
        laws = (first_law / first_law.sum(), second_law / second_law.sum())
        assert np.abs(np.log(laws[0] / laws[1])).max() <= 2 * epsilon * (1 + 1e-9)
        calls.append(CallOnNeighbors(laws=laws, in_target=np.arange(len(laws[0])) > 0))
    exact = smallest_hit_prob(calls=calls, epsilon=target.epsilon)
    assert target.hit_prob <= exact * (1 + 1e-9)


# ------------------------------------------------------------------------------------------------ sessions

UNITS_PER_EPSILON = 8
SPLITS = (1, 2, 8)


def largest_session_delta(
    epsilon: float, *, target_hits: int, target_epsilon: float, num_calls: int
) -> float:
    """Returns the exact delta of the best adaptive choice among six private tests and stopping, in `num_calls` calls.

    A test hits with probability p on one data set and p e^epsilon on the other, in either role. The p are such that a
    miss has a loss of epsilon / 1, 2 or 8, so that all losses lie on a lattice. `values[h]` holds, over the lattice of
    x = target_epsilon - loss, the best expectation of (1 - e^x)_+ if h more hits are allowed. A session need not make a
    call, so the values never fall from call to call. Steps beyond the ends of the lattice count as the ends.
    """
    unit = epsilon / UNITS_PER_EPSILON
    reach = math.ceil((2.5 * target_epsilon + 5 * epsilon) / unit)
    remaining_epsilons = target_epsilon + unit * np.arange(-reach, reach + 1)
    lattice_indices = np.arange(len(remaining_epsilons))
    values = [np.maximum(0, -np.expm1(np.minimum(remaining_epsilons, 0)))] * (target_hits + 1)
    for _ in range(num_calls):
        updated = list(values)
        for split in SPLITS:
            rare = math.expm1(epsilon / split) / math.expm1(epsilon + epsilon / split)
            hit_step = UNITS_PER_EPSILON
            miss_step = UNITS_PER_EPSILON // split
            for prob, sign in ((rare * math.exp(epsilon), 1), (rare, -1)):
                index_after_hit = np.clip(
                    lattice_indices - sign * hit_step, 0, len(lattice_indices) - 1
                )
                index_after_miss = np.clip(
                    lattice_indices + sign * miss_step, 0, len(lattice_indices) - 1
                )
                for allowed_hits in range(1, target_hits + 1):
                    played = (
                        prob * values[allowed_hits - 1][index_after_hit]
                        + (1 - prob) * values[allowed_hits][index_after_miss]
                    )
                    updated[allowed_hits] = np.maximum(updated[allowed_hits], played)
        values = updated
    return float(values[target_hits][reach])


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "target_hits"), [(0.1, 1), (0.1, 3), (0.5, 2), (1.0, 5)])
def test_no_adaptive_session_costs_more_than_the_price(epsilon: float, target_hits: int) -> None:
    """The exact delta of the best adaptive session is at most the delta of its price, at the price's epsilon.

    Negative controls: a price of as many accesses as hits is exceeded, and so is one with twice the true q.
    """
    true_target = not_prior(call_epsilon=epsilon)
    price = best_session_price(true_target, target_hits=target_hits, target_delta=1e-3)
    exact = largest_session_delta(
        epsilon, target_hits=target_hits, target_epsilon=price.epsilon, num_calls=300
    )
    assert 0 < exact <= price.delta
    if target_hits == 3:
        claimed = pure_dp_composition_epsilon(epsilon, count=3, target_delta=1e-3)
        exact = largest_session_delta(epsilon, target_hits=3, target_epsilon=claimed, num_calls=300)
        assert exact > 10 * 1e-3
    if target_hits == 5:
        refuted_price = TargetCharging(
            epsilon, target_hits=5, hit_prob=2 * true_target.hit_prob, target_delta=1e-3
        ).price
        exact = largest_session_delta(
            epsilon, target_hits=5, target_epsilon=refuted_price.epsilon, num_calls=300
        )
        assert exact > refuted_price.delta


def test_best_session_costs_at_least_a_repeated_test() -> None:
    """A session that repeats one test for up to 40 calls has at most the delta of the best adaptive session.

    The delta of the repeated test is a sum over the numbers of hits and misses.
    """
    epsilon = 0.1
    target_hits = 3
    target_epsilon = 0.15
    num_calls = 40
    rare = math.expm1(epsilon / 8) / math.expm1(epsilon * 9 / 8)
    often = rare * math.exp(epsilon)
    delta = 0.0

    def excess_prob(num_hits: int, num_misses: int) -> float:
        """Returns max(0, p - e^target_epsilon q) for one transcript, in one order, with probabilities p and q."""
        one, other = (prob**num_hits * (1 - prob) ** num_misses for prob in (often, rare))
        return max(0.0, one - math.exp(target_epsilon) * other)

    for num_misses in range(num_calls - target_hits + 1):
        num_transcripts = math.comb(num_misses + target_hits - 1, num_misses)
        delta += num_transcripts * excess_prob(num_hits=target_hits, num_misses=num_misses)
    for num_hits in range(target_hits):
        num_transcripts = math.comb(num_calls, num_hits)
        delta += num_transcripts * excess_prob(num_hits=num_hits, num_misses=num_calls - num_hits)
    best_delta = largest_session_delta(
        epsilon, target_hits=target_hits, target_epsilon=target_epsilon, num_calls=num_calls
    )
    assert 0 < delta <= best_delta


def two_counter_distributions(
    call_laws: Pair, targets: tuple[set[int], set[int]], *, target_hits: int, num_calls: int
) -> Pair:
    """Returns the distributions, on two neighbors, of how often each outcome occurred in a session.

    The session has two counters of hits. It ends when both counters have reached their hits, or after `num_calls`
    calls. Calls are exchangeable, so these counts determine the likelihood ratio of a transcript.

    Args:
        call_laws: the distributions of one call on both neighbors, `[num_outcomes]` each.
        targets: the outcomes that the first counter counts, and those that the second one counts.
        target_hits: the number of hits of each counter.
        num_calls: the largest number of calls.
    """
    num_outcomes = len(call_laws[0])
    first_probs = []
    second_probs = []
    # the number of orders in which the outcomes of a running session can have come, by their counts
    running: dict[tuple[int, ...], float] = {(0,) * num_outcomes: 1.0}
    for call in range(1, num_calls + 1):
        num_orders_by_counts: dict[tuple[int, ...], float] = {}
        for counts, num_orders in running.items():
            for outcome in range(num_outcomes):
                counts_after_call = (*counts[:outcome], counts[outcome] + 1, *counts[outcome + 1 :])
                num_orders_by_counts[counts_after_call] = (
                    num_orders_by_counts.get(counts_after_call, 0.0) + num_orders
                )
        running = {}
        for counts, num_orders in num_orders_by_counts.items():
            halted = (
                min(sum(counts[outcome] for outcome in target) for target in targets) >= target_hits
            )
            if halted or call == num_calls:
                first_probs.append(num_orders * float(np.prod(call_laws[0] ** np.array(counts))))
                second_probs.append(num_orders * float(np.prod(call_laws[1] ** np.array(counts))))
            else:
                running[counts] = num_orders
    return np.array(first_probs), np.array(second_probs)


@pytest.mark.parametrize("hits", [1, 2])
def test_two_counters_lose_at_most_their_price_and_their_event(hits: int) -> None:
    """The exact delta of a session with two counters of hits is at most that of its price, and that of its event.

    The price is one epsilon with its delta; an accountant computes a delta of the event at any epsilon. Outcome 1 is a
    hit of the first counter and outcome 2 of the second. Both are rare, and e^epsilon times as likely on the first
    neighbor as on the second. The exact delta exceeds the price of a single access.
    """
    epsilon = 1.0
    targets = ({1}, {2})
    rare_probs = np.array([0.08, 0.08])
    first, second = (
        np.append(1 - hit.sum(), hit) for hit in (rare_probs * math.exp(epsilon), rare_probs)
    )
    hit_prob = min(
        exact_hit_prob(
            first_law=first, second_law=second, in_target=np.arange(3) == outcome, epsilon=epsilon
        )
        for outcome in (1, 2)
    )
    session = TargetCharging(
        epsilon, target_hits=hits, hit_prob=hit_prob, target_delta=1e-2, num_counters=2
    )
    distributions = two_counter_distributions(
        call_laws=(first, second), targets=targets, target_hits=hits, num_calls=14
    )
    assert distributions[0].sum() == pytest.approx(1)

    def exact_delta(target_epsilon: float) -> float:
        return max(
            float(np.maximum(one - math.exp(target_epsilon) * other, 0).sum())
            for one, other in (distributions, distributions[::-1])
        )

    assert exact_delta(session.price.epsilon) <= session.price.delta
    spent = ExactAccountant().compose(session.event)
    for target_epsilon in (0.5, 1.5, 3.0, session.price.epsilon):
        assert exact_delta(target_epsilon) <= spent.get_delta(target_epsilon)
    # one access is too cheap
    epsilon_of_one_access = pure_dp_composition_epsilon(epsilon, count=1, target_delta=1e-2)
    assert exact_delta(epsilon_of_one_access) > 1e-2
