"""Verification of mechanisms that can only be drawn from: refutations at a stated confidence, never a proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from pate.accounting import Accountant, Adjacency, Event, RdpAccountant
from pate.validation import InvalidValue, require, require_count, require_generator, require_probability
from pate.verification.claim import DELTAS, EPSILONS, Claim
from pate.verification.neighbors import Counts, Neighbors, neighbors
from pate.verification.verdict import DELTA, PriceRefuted, WorstPair

Array = NDArray[np.float64]
Sampler = Callable[[Counts, int, np.random.Generator], Sequence[Any]]

_NUM_CANDIDATES = 8
_LARGEST_EXPONENT = 300.0
_CELLS_AT_ONCE = 2**20


@dataclass(frozen=True)
class SampleVerdict:
    """What samples say about a price. They can refute one; they never confirm one.

    Attributes:
        refuted: whether a pair costs more than claimed; wrong with probability at most 1 - confidence.
        confidence: of a refutation.
        worst: the pair, with a lower confidence bound in place of the exact delta.
        num_tests: how many candidates shared the error probability.
    """

    refuted: bool
    confidence: float
    worst: WorstPair
    num_tests: int

    def require(self) -> Self:
        """Returns itself unless refuted.

        Raises:
            PriceRefuted: otherwise.
        """
        if self.refuted:
            raise PriceRefuted(f"price refuted at confidence {self.confidence}: {self.worst}")
        return self

    def __str__(self) -> str:
        head = "REFUTED" if self.refuted else "not refuted"
        return f"{head} at confidence {self.confidence}, {self.num_tests} tests (exact = lower bound)\n  {self.worst}"


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
) -> SampleVerdict:
    """Compares draws on all neighboring histograms of a small instance with the (epsilon, delta) of a price.

    One half of the draws picks eight pairs, epsilons and sets of outcomes whose delta seems largest beside the claim.
    The other half is independent of that choice, and tests them by Clopper-Pearson bounds on both probabilities. All
    bounds share the error probability.

    Args:
        sampler: takes a histogram `[L]`, how many draws, and the generator; returns independent outcomes, an array
            `[n]` or `[n, ...]` or a sequence of hashable values. Outcomes should repeat: round numbers that do not.
        num_labels: L.
        num_teachers: T.
        adjacency: what one change means.
        event: the price of one draw, or a `Claim`, of which only the deltas are used.
        rng: source of the draws.
        num_samples: how many draws for each histogram, at least 2.
        confidence: with which a refutation must hold.
        epsilons: where the printed delta is compared.
        deltas: where the printed epsilon is compared, beyond what failures take.
        accountant: makes the accountant that prints.
        one_vote: whether each teacher votes for exactly one label.
    """
    require_generator(rng)
    require_probability("confidence", confidence)
    half = require_count("num_samples", num_samples, minimum=2) // 2
    claim = event
    if not isinstance(claim, Claim):
        claim = Claim.of(claim, accountant=accountant, orders=(), epsilons=epsilons, deltas=deltas)
    require(len(claim.deltas) > 0, "deltas", claim.deltas, "at least one point")
    pairs = neighbors(num_labels, num_teachers, Adjacency.parse(adjacency), one_vote=one_vote)
    require(len(pairs) > 0, "num_labels", num_labels, "an instance with neighbors")
    seen = _frequencies([sampler(histogram, 2 * half, rng) for histogram in pairs.histograms], half)
    candidates = _candidates(seen[0], pairs, claim, half)
    error = (1 - confidence) / (2 * len(candidates))
    worst_pairs = [_tested(seen, pairs, claim.deltas[point], pair, half, error) for pair, point in candidates]
    worst = max(worst_pairs, key=lambda pair: (pair.exceeds, pair.ratio, pair.exact))
    return SampleVerdict(worst.exceeds, confidence, worst, len(candidates))


def _frequencies(draws: Sequence[Sequence[Any]], half: int) -> Array:
    """How often each outcome came in each half: `[2, H, n]` as shares."""
    index: dict[Any, int] = {}
    columns = []
    for drawn in draws:
        outcomes = _hashable(drawn)
        if len(outcomes) != 2 * half:
            raise InvalidValue(f"sampler={len(outcomes)} outcomes: expected {2 * half}")
        columns.append(np.array([index.setdefault(outcome, len(index)) for outcome in outcomes]))
    counts = [
        [np.bincount(part, minlength=len(index)) for part in (column[:half], column[half:])] for column in columns
    ]
    return np.asarray(np.swapaxes(np.array(counts), 0, 1) / half)


def _hashable(drawn: Sequence[Any]) -> list[Any]:
    if not isinstance(drawn, np.ndarray):
        return list(drawn)
    if drawn.ndim == 1:
        return list(drawn.tolist())
    return [tuple(row) for row in drawn.reshape(len(drawn), -1).tolist()]


def _candidates(shares: Array, pairs: Neighbors, claim: Claim, half: int) -> list[tuple[int, int]]:
    """The pairs and points of the claim where the first half exceeds it by most standard errors."""
    size = max(1, _CELLS_AT_ONCE // shares.shape[1])
    scores = np.empty((len(pairs), len(claim.deltas)))
    for start in range(0, len(pairs), size):
        rows = slice(start, start + size)
        one, other = shares[pairs.first[rows]], shares[pairs.second[rows]]
        for point, (epsilon, delta) in enumerate(claim.deltas):
            factor = np.exp(min(epsilon, _LARGEST_EXPONENT))
            event = one > factor * other
            p, q = ((side * event).sum(axis=1) for side in (one, other))
            # a share of 0 or 1 of few draws is not certain: one draw is added on either side
            near_p, near_q = ((share * half + 1) / (half + 2) for share in (p, q))
            spread = np.sqrt(near_p * (1 - near_p) + factor**2 * near_q * (1 - near_q))
            scores[rows, point] = (p - factor * q - delta) / spread
    best = np.argsort(-scores, axis=None)[:_NUM_CANDIDATES]
    return [(int(place) // len(claim.deltas), int(place) % len(claim.deltas)) for place in best]


def _tested(
    shares: Array, pairs: Neighbors, point: tuple[float, float], pair: int, half: int, error: float
) -> WorstPair:
    """A lower bound on the delta of one pair at one epsilon, from the set of outcomes that the first half suggests."""
    epsilon, delta = point
    one, other = int(pairs.first[pair]), int(pairs.second[pair])
    factor = float(np.exp(min(epsilon, _LARGEST_EXPONENT)))
    event = shares[0, one] > factor * shares[0, other]
    hits = [round(float(shares[1, side, event].sum()) * half) for side in (one, other)]
    at_least = float(scipy.special.betaincinv(hits[0], half - hits[0] + 1, error)) if hits[0] > 0 else 0.0
    at_most = float(scipy.special.betaincinv(hits[1] + 1, half - hits[1], 1 - error)) if hits[1] < half else 1.0
    bound = max(0.0, at_least - factor * at_most)
    histograms = pairs.histograms
    names = tuple(histograms[one].tolist()), tuple(histograms[other].tolist())
    return WorstPair(DELTA, epsilon, bound, delta, *names)
