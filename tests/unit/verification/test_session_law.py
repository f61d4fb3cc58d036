"""The exact law of a session of equal calls: by counts, and by every transcript."""

from __future__ import annotations

import math
from itertools import product

import pytest

from pate.verification.tightness import session_epsilon

FIRST, SECOND = [0.5, 0.3, 0.2], [0.6, 0.24, 0.16]


def transcripts(num_calls: int, target_hits: int) -> set[tuple[int, ...]]:
    """Every sequence of outcomes, cut after the last hit; a hit is 2."""
    found = set()
    for outcomes in product(range(3), repeat=num_calls):
        ends = [at for at, outcome in enumerate(outcomes) if outcome == 2]
        found.add(outcomes[: ends[target_hits - 1] + 1] if len(ends) >= target_hits else outcomes)
    return found


@pytest.mark.parametrize("target_hits", [1, 2, 4, 9])
@pytest.mark.parametrize("num_calls", [1, 3, 7])
def test_it_is_that_of_all_transcripts(num_calls: int, target_hits: int) -> None:
    delta = 1e-2
    found = session_epsilon(FIRST, SECOND, num_calls=num_calls, target_hits=target_hits, target_delta=delta)
    stick = 0.0
    for outcomes in transcripts(num_calls, target_hits):
        one, other = (math.prod(law[outcome] for outcome in outcomes) for law in (FIRST, SECOND))
        stick += max(0.0, one - math.exp(found) * other)
    assert stick == pytest.approx(delta, rel=1e-6)


def test_more_calls_and_more_hits_give_away_more() -> None:
    def of(num_calls: int, target_hits: int) -> float:
        return session_epsilon(FIRST, SECOND, num_calls=num_calls, target_hits=target_hits, target_delta=1e-4)

    assert of(2, 1) < of(20, 1) < of(20, 3) < of(60, 3)
    assert of(400, 3) == pytest.approx(of(300, 3), rel=1e-6)
