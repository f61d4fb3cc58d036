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

# A function that draws from a mechanism, as `verify_samples` describes it.
Sampler = Callable[[IntArray, int, np.random.Generator], Sequence[Any]]
# The largest number of tests.
_NUM_CANDIDATES = 8
# A larger exponent of e is computed as this one, so that floats do not overflow.
_MAX_EXPONENT = 300.0
# The number of frequencies that are compared at a time, over pairs and outcomes.
_BLOCK_SIZE = 2**20


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
    neighbors, an epsilon and a set of outcomes whose delta exceeds the claimed delta by the most standard errors. The
    second half, which is independent of this choice, yields Clopper-Pearson bounds on both probabilities of each set.
    The error probability is divided among all bounds, so a valid price is refuted with a probability of at most 1 -
    confidence.

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
    num_draws_in_half = require_count("num_samples", num_samples, minimum=2) // 2
    claim = Claim.from_event(
        event, accountant=accountant, orders=(), epsilons=epsilons, deltas=deltas
    )
    require(len(claim.deltas) > 0, "deltas", claim.deltas, "at least one point")
    pairs = neighbors(num_labels, num_teachers, adjacency, one_vote=one_vote)
    require(len(pairs) > 0, "num_labels", num_labels, "an instance with neighbors")
    draws_of_histograms = [
        sampler(histogram, 2 * num_draws_in_half, rng) for histogram in pairs.histograms
    ]
    frequencies_in_halves = _frequencies(draws_of_histograms, num_draws_in_half=num_draws_in_half)
    frequencies_in_first_half, _ = frequencies_in_halves
    candidates = _choose_candidates(
        frequencies_in_first_half,
        neighbor_pairs=pairs,
        claim=claim,
        num_draws_in_half=num_draws_in_half,
    )
    error_prob = (1 - confidence) / (2 * len(candidates))
    tested_pairs = [
        _test_pair(
            frequencies_in_halves,
            neighbor_pairs=pairs,
            pair_index=pair_index,
            epsilon=epsilon,
            delta=delta,
            num_draws_in_half=num_draws_in_half,
            error_prob=error_prob,
        )
        for pair_index, (epsilon, delta) in candidates
    ]
    return Verdict(
        worst_pairs=tuple(tested_pairs),
        num_pairs=len(candidates),
        exhaustive=False,
        confidence=confidence,
    )


def _frequencies(
    draws_of_histograms: Sequence[Sequence[Any]], *, num_draws_in_half: int
) -> FloatArray:
    """Returns the relative frequency of each of n outcomes in each half of the draws: `[2, H, n]`.

    Args:
        draws_of_histograms: the outcomes that were drawn for each of H histograms.
        num_draws_in_half: half the number of draws for each histogram.
    """
    # Outcomes are numbered in the order in which they occur first.
    number_of_outcome: dict[Any, int] = {}
    outcome_numbers = []
    for outcomes in draws_of_histograms:
        require(
            len(outcomes) == 2 * num_draws_in_half,
            "sampler",
            value=f"{len(outcomes)} outcomes",
            rule=f"{2 * num_draws_in_half}",
        )
        numbers = [
            number_of_outcome.setdefault(outcome, len(number_of_outcome))
            for outcome in _hashable_outcomes(outcomes)
        ]
        outcome_numbers.append(numbers)
    num_outcomes = len(number_of_outcome)
    halves = (
        np.array(outcome_numbers)
        .reshape(len(draws_of_histograms), 2, num_draws_in_half)
        .swapaxes(0, 1)
    )
    outcome_counts = [
        [np.bincount(numbers, minlength=num_outcomes) for numbers in half] for half in halves
    ]
    return np.array(outcome_counts) / num_draws_in_half


def _hashable_outcomes(outcomes: Sequence[Any]) -> list[Any]:
    """Returns outcomes as a list of hashable values; the rows of an array become tuples."""
    if not isinstance(outcomes, np.ndarray):
        return list(outcomes)
    rows = outcomes.reshape(len(outcomes), -1).tolist()
    return [tuple(row) for row in rows]


def _choose_candidates(
    frequencies: FloatArray, *, neighbor_pairs: Neighbors, claim: Claim, num_draws_in_half: int
) -> list[tuple[int, tuple[float, float]]]:
    """Returns the tests, at most eight, in which the first half of the draws most exceeds the claim.

    The excess of the measured delta over the claimed delta is divided by its standard error, up to a common factor.

    Args:
        frequencies: the relative frequency of each outcome in the first half, `[H, n]`.
        neighbor_pairs: the pairs of neighboring histograms.
        claim: the claimed deltas.
        num_draws_in_half: the number of draws in the first half, for each histogram.

    Returns:
        For each test the number of the pair and the claimed point (epsilon, delta).
    """
    claimed_points = claim.deltas
    num_outcomes = frequencies.shape[1]
    pairs_per_block = max(1, _BLOCK_SIZE // num_outcomes)
    excess_by_pair_and_point = np.empty((len(neighbor_pairs), len(claimed_points)))
    for start in range(0, len(neighbor_pairs), pairs_per_block):
        block = slice(start, start + pairs_per_block)
        first_shares = frequencies[neighbor_pairs.first_rows[block]]
        second_shares = frequencies[neighbor_pairs.second_rows[block]]
        for point, (epsilon, delta) in enumerate(claimed_points):
            factor = np.exp(min(epsilon, _MAX_EXPONENT))
            # The set of outcomes with the largest delta, and its probabilities p and q on both neighbors.
            is_in_set = first_shares > factor * second_shares
            p = (first_shares * is_in_set).sum(axis=1)
            q = (second_shares * is_in_set).sum(axis=1)
            variance = _share_variance(shares=p, num_draws=num_draws_in_half)
            variance = variance + factor**2 * _share_variance(shares=q, num_draws=num_draws_in_half)
            excess_by_pair_and_point[block, point] = (p - factor * q - delta) / np.sqrt(variance)
    best_flat_indices = np.argsort(-excess_by_pair_and_point, axis=None)[:_NUM_CANDIDATES]
    pair_indices, points = np.unravel_index(best_flat_indices, excess_by_pair_and_point.shape)
    return [
        (pair_index, claimed_points[point])
        for pair_index, point in zip(pair_indices.tolist(), points.tolist(), strict=True)
    ]


def _share_variance(shares: FloatArray, *, num_draws: int) -> FloatArray:
    """Returns an estimate of the variance of a bit, `[n]`, from the share of draws in which the bit was 1.

    One draw of 1 and one draw of 0 are added, so that the variance is not 0 for a share of 0 or 1.

    Args:
        shares: the share of draws with a 1 for each of n bits, `[n]`.
        num_draws: the number of draws behind each share.
    """
    adjusted_shares = (shares * num_draws + 1) / (num_draws + 2)
    return adjusted_shares * (1 - adjusted_shares)


def _test_pair(
    frequencies_in_halves: FloatArray,
    *,
    neighbor_pairs: Neighbors,
    pair_index: int,
    epsilon: float,
    delta: float,
    num_draws_in_half: int,
    error_prob: float,
) -> WorstPair:
    """Returns a lower bound on the delta of one pair of neighbors at one epsilon, from the second half of the draws.

    The bound is for the set of outcomes that the first half of the draws chooses.

    Args:
        frequencies_in_halves: the relative frequency of each outcome in each half of the draws, `[2, H, n]`.
        neighbor_pairs: the pairs of neighboring histograms.
        pair_index: the number of the pair.
        epsilon: the epsilon.
        delta: the claimed delta.
        num_draws_in_half: the number of draws in each half, for each histogram.
        error_prob: the error probability of each of the two confidence bounds.
    """
    first_row = int(neighbor_pairs.first_rows[pair_index])
    second_row = int(neighbor_pairs.second_rows[pair_index])
    factor = math.exp(min(epsilon, _MAX_EXPONENT))
    choosing_half, tested_half = frequencies_in_halves
    is_in_set = choosing_half[first_row] > factor * choosing_half[second_row]
    num_hits_on_first = round(float(tested_half[first_row, is_in_set].sum()) * num_draws_in_half)
    num_hits_on_second = round(float(tested_half[second_row, is_in_set].sum()) * num_draws_in_half)
    first_bound = float(
        lowest_share(
            num_hits=num_hits_on_first, num_trials=num_draws_in_half, error_prob=error_prob
        )
    )
    second_bound = float(
        highest_share(
            num_hits=num_hits_on_second, num_trials=num_draws_in_half, error_prob=error_prob
        )
    )
    delta_lower_bound = max(0.0, first_bound - factor * second_bound)
    return WorstPair(
        measure=DELTA,
        at=epsilon,
        exact=delta_lower_bound,
        claimed=delta,
        first=tuple(neighbor_pairs.histograms[first_row].tolist()),
        second=tuple(neighbor_pairs.histograms[second_row].tolist()),
    )
