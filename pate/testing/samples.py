"""The verifier by samples: a price is compared with random draws of a mechanism on all neighboring histograms."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pate.accounting import Accountant, Adjacency, Event, RdpAccountant
from pate.array_types import FloatArray, IntArray
from pate.testing.claim import DELTAS, EPSILONS, Claim
from pate.testing.neighbors import Neighbors, neighbors
from pate.testing.proportions import highest_share, lowest_share
from pate.testing.verdict import DELTA, Verdict, WorstPair
from pate.validation import (
    require,
    require_count,
    require_generator,
    require_probability,
)

Sampler = Callable[[IntArray, int, np.random.Generator], Sequence[Any]]
_NUM_CANDIDATES = 8
_LARGEST_EXPONENT = 300.0
_SHARES_AT_ONCE = 2**20


def verify_samples(
    sampler: Sampler,
    *,
    num_labels: int,
    num_teachers: int,
    adjacency: Adjacency,
    event: Event | Claim,
    rng: np.random.Generator,
    num_samples: int = 20_000,
    confidence: float = 0.99,
    epsilons: Sequence[float] = EPSILONS,
    deltas: Sequence[float] = DELTAS,
    accountant: Callable[[], Accountant] = RdpAccountant,
    one_vote: bool = False,
) -> Verdict:
    """Draws from a mechanism on all histograms of a small instance, and tests whether the draws refute a price.

    The price is tested as (epsilon, delta)-DP. The first half of the draws chooses at most eight tests: a pair of
    neighbors, an epsilon and a set of outcomes whose delta most exceeds the claimed delta. The second half, which is
    independent of this choice, yields Clopper-Pearson bounds on both probabilities of each set. The error probability
    is divided among all bounds, so a valid price is refuted with a probability of at most 1 - confidence.

    Args:
        sampler: draws from the mechanism. It takes a histogram `[L]`, the number n of draws and the generator, and
            returns n independent outcomes: an array `[n]` or `[n, ...]`, or a sequence of hashable values. Real numbers
            should be rounded, so that outcomes repeat.
        num_labels: the number of labels L of the instance.
        num_teachers: the number of teachers T of the instance.
        adjacency: the adjacency of the price.
        event: the price of one release; of a `Claim` only the deltas are tested.
        rng: the generator that is passed to the sampler.
        num_samples: the number of draws for each histogram, >= 2; an odd number counts as one less.
        confidence: the confidence of a refutation, in (0, 1).
        epsilons: the epsilons at which deltas are tested.
        deltas: further points of the price. For each, the epsilon at the sum of this delta and the failure probability
            is tested.
        accountant: computes epsilons and deltas of an event.
        one_vote: whether each teacher votes for exactly one label, and not for any set of labels.
    """
    require_generator(rng)
    require_probability("confidence", confidence)
    half_size = require_count("num_samples", num_samples, minimum=2) // 2
    claim = Claim.from_event(
        event, accountant=accountant, orders=(), epsilons=epsilons, deltas=deltas
    )
    require(len(claim.deltas) > 0, "deltas", claim.deltas, "at least one point")
    pairs = neighbors(num_labels, num_teachers, adjacency, one_vote=one_vote)
    require(len(pairs) > 0, "num_labels", num_labels, "an instance with neighbors")
    draws = [sampler(histogram, 2 * half_size, rng) for histogram in pairs.histograms]
    frequencies = _frequencies(draws, half_size)
    candidates = _candidates(frequencies[0], pairs, claim, half_size)
    error_prob = (1 - confidence) / (2 * len(candidates))
    tested = [
        _tested(
            frequencies,
            pairs,
            pair_index=pair_index,
            epsilon=epsilon,
            delta=delta,
            half_size=half_size,
            error_prob=error_prob,
        )
        for pair_index, (epsilon, delta) in candidates
    ]
    return Verdict(
        worst_pairs=tuple(tested),
        num_pairs=len(candidates),
        exhaustive=False,
        confidence=confidence,
    )


def _frequencies(draws: Sequence[Sequence[Any]], half_size: int) -> FloatArray:
    """Returns the relative frequency of each of n outcomes in each half of the draws: `[2, H, n]`.

    Args:
        draws: the outcomes that were drawn for each of H histograms.
        half_size: half the number of draws for each histogram.
    """
    index: dict[Any, int] = {}
    columns = []
    for outcomes_of_histogram in draws:
        outcomes = (
            outcomes_of_histogram.reshape(len(outcomes_of_histogram), -1).tolist()
            if isinstance(outcomes_of_histogram, np.ndarray)
            else list(outcomes_of_histogram)
        )
        outcomes = (
            list(map(tuple, outcomes))
            if isinstance(outcomes_of_histogram, np.ndarray)
            else outcomes
        )
        require(
            len(outcomes) == 2 * half_size,
            "sampler",
            f"{len(outcomes)} outcomes",
            f"{2 * half_size}",
        )
        columns.append([index.setdefault(outcome, len(index)) for outcome in outcomes])
    halves = np.array(columns).reshape(len(columns), 2, half_size).swapaxes(0, 1)
    return (
        np.array([[np.bincount(row, minlength=len(index)) for row in part] for part in halves])
        / half_size
    )


def _candidates(
    shares: FloatArray, pairs: Neighbors, claim: Claim, half_size: int
) -> list[tuple[int, tuple[float, float]]]:
    """Returns at most eight tests, in which the first half of the draws exceeds the claim by the most standard errors.

    Args:
        shares: the relative frequency of each outcome in the first half, `[H, n]`.
        pairs: the pairs of neighboring histograms.
        claim: the claimed deltas.
        half_size: the number of draws in the first half, for each histogram.

    Returns:
        For each test the number of the pair and the claimed point (epsilon, delta).
    """
    pairs_at_once = max(1, _SHARES_AT_ONCE // shares.shape[1])
    scores = np.empty((len(pairs), len(claim.deltas)))
    for start in range(0, len(pairs), pairs_at_once):
        rows = slice(start, start + pairs_at_once)
        shares_of_first = shares[pairs.first[rows]]
        other = shares[pairs.second[rows]]
        for point, (epsilon, delta) in enumerate(claim.deltas):
            factor = np.exp(min(epsilon, _LARGEST_EXPONENT))
            event = shares_of_first > factor * other
            p, q = ((side * event).sum(axis=1) for side in (shares_of_first, other))
            # a share of 0 or 1 of few draws is not certain: one draw is added on either side
            near_p, near_q = ((share * half_size + 1) / (half_size + 2) for share in (p, q))
            spread = np.sqrt(near_p * (1 - near_p) + factor**2 * near_q * (1 - near_q))
            scores[rows, point] = (p - factor * q - delta) / spread
    best = np.argsort(-scores, axis=None)[:_NUM_CANDIDATES]
    return [
        (int(place) // len(claim.deltas), claim.deltas[place % len(claim.deltas)]) for place in best
    ]


def _tested(
    shares: FloatArray,
    pairs: Neighbors,
    *,
    pair_index: int,
    epsilon: float,
    delta: float,
    half_size: int,
    error_prob: float,
) -> WorstPair:
    """Returns a lower bound on the delta of one pair of neighbors at one epsilon, from the second half of the draws.

    The bound is for the set of outcomes that the first half of the draws chooses.

    Args:
        shares: the relative frequency of each outcome in each half of the draws, `[2, H, n]`.
        pairs: the pairs of neighboring histograms.
        pair_index: the number of the pair.
        epsilon: the epsilon.
        delta: the claimed delta.
        half_size: the number of draws in each half, for each histogram.
        error_prob: the error probability of each of the two confidence bounds.
    """
    first_row = int(pairs.first[pair_index])
    other = int(pairs.second[pair_index])
    factor = math.exp(min(epsilon, _LARGEST_EXPONENT))
    event = shares[0, first_row] > factor * shares[0, other]
    hits = [round(float(shares[1, side, event].sum()) * half_size) for side in (first_row, other)]
    at_least = float(lowest_share(hits[0], half_size, error_prob=error_prob))
    at_most = float(highest_share(hits[1], half_size, error_prob=error_prob))
    return WorstPair(
        measure=DELTA,
        at=epsilon,
        exact=max(0.0, at_least - factor * at_most),
        claimed=delta,
        first=tuple(pairs.histograms[first_row].tolist()),
        second=tuple(pairs.histograms[other].tolist()),
    )
