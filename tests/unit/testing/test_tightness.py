"""Lower bounds on epsilon by exact distributions on pairs of neighbors."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.special import ndtr

from pate.accounting import PureDpAccountant, PureDpEvent
from pate.testing import lower_bound
from pate.testing.lower_bounds import Pair, session_epsilon


def response_distribution(counts: np.ndarray) -> dict[str, float]:
    """Returns the distribution of randomized response on the first count, at epsilon 0.3."""
    prob_of_truth = np.exp(0.3) / (1 + np.exp(0.3))
    prob_of_lie = 1 / (1 + np.exp(0.3))
    return (
        {"yes": prob_of_truth, "no": prob_of_lie}
        if counts[0]
        else {"yes": prob_of_lie, "no": prob_of_truth}
    )


PAIR: Pair = (np.array([1]), np.array([0]))


@pytest.mark.parametrize("num_releases", [1, 7, 40])
def test_randomized_response_needs_what_optimal_composition_says(num_releases: int) -> None:
    """The lower bound on the epsilon of `num_releases` randomized responses equals their price by optimal
    composition, and names the pair (0), (1).
    """
    bound = lower_bound(
        response_distribution, pairs=[PAIR], num_releases=num_releases, target_delta=1e-3
    )
    accountant = PureDpAccountant().compose(PureDpEvent(epsilon=0.3), count=num_releases)
    price = accountant.get_epsilon(target_delta=1e-3)
    assert bound.epsilon <= price * (1 + 1e-9)
    assert bound.epsilon == pytest.approx(price, rel=1e-6)
    assert {bound.first, bound.second} == {(0,), (1,)}


def test_lower_bound_names_the_worst_pair_in_any_order() -> None:
    """The lower bound of a noisy bit, whether a count reaches 50, names the pair of counts 50 and 51.

    Pairs given in reverse order give the same bound.
    """

    def bit_distribution(counts: np.ndarray) -> dict[bool, float]:
        """Returns the distribution of a bit: whether the count plus Gaussian noise reaches 50."""
        prob = float(ndtr((counts[0] - 50) / 10))
        return {True: prob, False: 1 - prob}

    pairs = [(np.array([count]), np.array([count - 1])) for count in (95, 51, 20, 70)]
    bound = lower_bound(bit_distribution, pairs=pairs, num_releases=300, target_delta=1e-5)
    reversed_bound = lower_bound(
        bit_distribution, pairs=pairs[::-1], num_releases=300, target_delta=1e-5
    )
    assert {bound.first, bound.second} == {(50,), (51,)}
    assert {reversed_bound.first, reversed_bound.second} == {(50,), (51,)}
    assert bound.epsilon == reversed_bound.epsilon


# The probabilities of the outcomes of a call on two neighbors: two outcomes that are no hits, and a hit.
FIRST = [0.5, 0.3, 0.2]
SECOND = [0.6, 0.24, 0.16]


def all_transcripts(num_calls: int, target_hits: int) -> set[tuple[int, ...]]:
    """Returns every sequence of outcomes of a session, that is, of calls of one mechanism.

    The outcome 2 is a hit. The session ends with hit number `target_hits`, or after `num_calls` calls.
    """
    transcripts = set()
    for outcomes in product(range(3), repeat=num_calls):
        hit_indices = [index for index, outcome in enumerate(outcomes) if outcome == 2]
        if len(hit_indices) >= target_hits:
            last_index = hit_indices[target_hits - 1]
            transcripts.add(outcomes[: last_index + 1])
        else:
            transcripts.add(outcomes)
    return transcripts


@pytest.mark.parametrize("target_hits", [1, 2, 4, 9])
@pytest.mark.parametrize("num_calls", [1, 3, 7])
def test_session_epsilon_equals_that_of_all_transcripts(num_calls: int, target_hits: int) -> None:
    """The delta at `session_epsilon`, summed over `all_transcripts` of the session, is the target delta."""
    epsilon = session_epsilon(
        FIRST, second_law=SECOND, num_calls=num_calls, target_hits=target_hits, target_delta=1e-2
    )
    delta = 0.0
    for outcomes in all_transcripts(num_calls=num_calls, target_hits=target_hits):
        first_prob = math.prod(FIRST[outcome] for outcome in outcomes)
        second_prob = math.prod(SECOND[outcome] for outcome in outcomes)
        delta += max(0.0, first_prob - math.exp(epsilon) * second_prob)
    assert delta == pytest.approx(1e-2, rel=1e-6)


def test_session_epsilon_rises_with_calls_and_hits() -> None:
    """The lower bound for a session of `all_transcripts` rises with `num_calls` and with `target_hits`.

    At 300 calls, the third and last hit is almost certain, and 400 calls have the same lower bound.
    """

    def epsilon_of(*, num_calls: int, target_hits: int) -> float:
        """Returns the lower bound at delta 1e-4 for a session that ends with hit number `target_hits`."""
        return session_epsilon(
            FIRST,
            second_law=SECOND,
            num_calls=num_calls,
            target_hits=target_hits,
            target_delta=1e-4,
        )

    two_calls = epsilon_of(num_calls=2, target_hits=1)
    twenty_calls = epsilon_of(num_calls=20, target_hits=1)
    three_hits = epsilon_of(num_calls=20, target_hits=3)
    sixty_calls = epsilon_of(num_calls=60, target_hits=3)
    assert two_calls < twenty_calls < three_hits < sixty_calls
    many_calls = epsilon_of(num_calls=300, target_hits=3)
    more_calls = epsilon_of(num_calls=400, target_hits=3)
    assert more_calls == pytest.approx(many_calls, rel=1e-6)
