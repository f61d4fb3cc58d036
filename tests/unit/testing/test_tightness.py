"""Lower bounds by exact laws of pairs."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.special import ndtr

from pate.accounting import PureDpAccountant, PureDpEvent
from pate.testing import lower_bound
from pate.testing.lower_bounds import Pair, session_epsilon


def answer(counts: np.ndarray) -> dict[str, float]:
    """Returns the distribution of randomized response on the first count, at epsilon 0.3."""
    true = np.exp(0.3) / (1 + np.exp(0.3))
    false = 1 / (1 + np.exp(0.3))
    return {"yes": true, "no": false} if counts[0] else {"yes": false, "no": true}


PAIR: Pair = (np.array([1]), np.array([0]))


@pytest.mark.parametrize("num_releases", [1, 7, 40])
def test_randomized_response_needs_what_optimal_composition_says(num_releases: int) -> None:
    """The lower bound on the epsilon of n randomized responses equals their price by optimal
    composition, and names the pair (0), (1).
    """
    found = lower_bound(answer, pairs=[PAIR], num_releases=num_releases, target_delta=1e-3)
    priced = (
        PureDpAccountant()
        .compose(PureDpEvent(epsilon=0.3), count=num_releases)
        .get_epsilon(target_delta=1e-3)
    )
    assert found.epsilon <= priced * (1 + 1e-9)
    assert found.epsilon == pytest.approx(priced, rel=1e-6)
    assert {found.first, found.second} == {(0,), (1,)}


def test_lower_bound_names_the_worst_pair_in_any_order() -> None:
    """A bit of a noisy count is most revealing at its threshold of 50: the lower bound names the
    pair 50 and 51.

    Pairs given in reverse order give the same bound.
    """

    def bit(counts: np.ndarray) -> dict[bool, float]:
        above = float(ndtr((counts[0] - 50) / 10))
        return {True: above, False: 1 - above}

    pairs = [(np.array([n]), np.array([n - 1])) for n in (95, 51, 20, 70)]
    found = [
        lower_bound(bit, pairs=some, num_releases=300, target_delta=1e-5)
        for some in (pairs, pairs[::-1])
    ]
    assert {(bound.first, bound.second) for bound in found} <= {((51,), (50,)), ((50,), (51,))}
    assert found[0].epsilon == found[1].epsilon


FIRST = [0.5, 0.3, 0.2]
SECOND = [0.6, 0.24, 0.16]


def all_transcripts(num_calls: int, target_hits: int) -> set[tuple[int, ...]]:
    """Returns every sequence of outcomes of a session, which ends with its last hit; the outcome 2 is a hit."""
    found = set()
    for outcomes in product(range(3), repeat=num_calls):
        ends = [at for at, outcome in enumerate(outcomes) if outcome == 2]
        found.add(outcomes[: ends[target_hits - 1] + 1] if len(ends) >= target_hits else outcomes)
    return found


@pytest.mark.parametrize("target_hits", [1, 2, 4, 9])
@pytest.mark.parametrize("num_calls", [1, 3, 7])
def test_session_epsilon_equals_that_of_all_transcripts(num_calls: int, target_hits: int) -> None:
    """The delta at `session_epsilon`, summed over every sequence of outcomes of the session, is the
    target delta.
    """
    delta = 1e-2
    found = session_epsilon(
        FIRST, SECOND, num_calls=num_calls, target_hits=target_hits, target_delta=delta
    )
    stick = 0.0
    for outcomes in all_transcripts(num_calls=num_calls, target_hits=target_hits):
        one, other = (math.prod(law[outcome] for outcome in outcomes) for law in (FIRST, SECOND))
        stick += max(0.0, one - math.exp(found) * other)
    assert stick == pytest.approx(delta, rel=1e-6)


def test_session_epsilon_rises_with_calls_and_hits() -> None:
    """The lower bound for a session rises with its calls and with its hits, and stays once the
    calls exceed what the hits allow.
    """

    def of(num_calls: int, target_hits: int) -> float:
        return session_epsilon(
            FIRST, SECOND, num_calls=num_calls, target_hits=target_hits, target_delta=1e-4
        )

    assert (
        of(num_calls=2, target_hits=1)
        < of(num_calls=20, target_hits=1)
        < of(num_calls=20, target_hits=3)
        < of(num_calls=60, target_hits=3)
    )
    assert of(num_calls=400, target_hits=3) == pytest.approx(
        of(num_calls=300, target_hits=3), rel=1e-6
    )
