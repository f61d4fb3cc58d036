"""Steps of docs/proofs/noise_source.md: a price under a short key, what PCG64 shows, what a span leaves as drawn."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

NUM_STREAMS = 16  # of four bits
EPSILON = math.log(3)


def _law(secret: int, streams: np.ndarray) -> np.ndarray:
    """Randomized response at log 3 on the streams' first two bits, beside the other two: the chance of each outcome."""
    law = np.zeros(8)
    for stream, chance in enumerate(streams):
        lied = stream % 4 == 0
        law[4 * (secret ^ lied) + stream // 4] += chance
    return law


def _streams_of(keys: list[int]) -> np.ndarray:
    """Streams that a key of two bits is stretched to, all keys alike."""
    return np.bincount(keys, minlength=NUM_STREAMS) / len(keys)


IDEAL = np.full(NUM_STREAMS, 1 / NUM_STREAMS)


@pytest.mark.parametrize("keys", [[1, 7, 8, 14], [0, 5, 10, 15], [1, 2, 3, 5, 6, 7, 13, 15], [2, 2, 2, 9]])
def test_a_price_holds_up_to_the_advantage_for_every_adversary(keys: list[int]) -> None:
    """All deterministic answers; random ones are mixtures of them, and the inequality is linear."""
    streams = _streams_of(keys)
    advantage = 0.5 * float(np.abs(streams - IDEAL).sum())  # of an unbounded adversary, so of each
    ideal = _law(0, IDEAL), _law(1, IDEAL)
    drawn = _law(0, streams), _law(1, streams)
    violated = False
    for answers in itertools.product([False, True], repeat=8):
        yes = np.array(answers)
        for one, other in ((0, 1), (1, 0)):
            assert ideal[one][yes].sum() <= 3 * ideal[other][yes].sum() + 1e-12
            bound = 3 * drawn[other][yes].sum()
            violated |= bool(drawn[one][yes].sum() > bound + 1e-9)
            assert drawn[one][yes].sum() <= bound + (1 + math.exp(EPSILON)) * advantage + 1e-12
    assert violated, "without the advantage the claim is false"
