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


def test_stream_and_children_never_share_a_block() -> None:
    children = [(1 + index) << 64 for index in range(1000)]
    assert min(children) == 2**64
    assert max(children) < 2**128
    assert len(set(children)) == 1000
    assert [(1 + index) << 68 for index in range(1000)] == [16 * block for block in children], "in words of 32 bits"


def test_pcg64_is_a_linear_map_of_a_state_that_it_shows_half_of() -> None:
    source = np.random.PCG64(5)
    factor, states = 0x2360ED051FC65DA44385DF649FCCF645, []
    for _ in range(4):
        word, state = int(source.random_raw()), source.state["state"]
        folded, turn = (state["state"] >> 64 ^ state["state"]) % 2**64, state["state"] >> 122
        assert word == (folded >> turn | folded << (64 - turn)) % 2**64
        states.append(state["state"])
    for before, now, after in zip(states, states[1:], states[2:], strict=False):
        assert (after - now - factor * (now - before)) % 2**128 == 0
    pool = np.random.SeedSequence(2**255 + 5).pool
    assert pool.size * pool.itemsize * 8 == 128


def test_outside_of_a_public_span_noise_is_published_as_drawn() -> None:
    rng = np.random.default_rng(0)
    num_queries, num_labels, num_directions = 30, 4, 12
    whole = np.linalg.qr(rng.standard_normal((num_queries, num_queries)))[0]
    span, outside = whole[:, :num_directions], whole[:, num_directions:]
    noise = np.round(50 * rng.standard_normal((num_queries, num_labels)))
    votes = span @ rng.standard_normal((num_directions, num_labels))
    seen = outside.T @ (votes + noise)
    assert seen.size == (num_queries - num_directions) * num_labels
    np.testing.assert_allclose(seen, outside.T @ noise, atol=1e-10)
    assert np.abs(span.T @ (votes + noise) - span.T @ noise).max() > 0.1, "inside it is not"
    assert (600 - 128) * 40 == 18_880
