"""What a release gives away at least: exact laws of neighboring counts, by the kind of aggregator."""

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency
from pate.accounting.special import ndtr
from pate.aggregators import (
    Aggregator,
    BoundaryMax,
    ClippedVotes,
    FixedTopK,
    GaussianVotes,
    GNMax,
    PowersetGNMax,
    StableTopK,
)
from pate.aggregators.gaussian_votes import squared_sensitivity
from pate.mechanisms.noise.kinds import gaussian_argmax
from pate.pricing.priced_release import ReleaseShape
from pate.verification.tightness import Law, LowerBound, Pair, climbed, lower_bound, session_epsilon

Counts = NDArray[np.int64]

_LEADS = (0.0, 0.4, 0.75, 1.1, 1.5, 2.0, 3.0)  # in units of the noise
_SESSION_LEADS = (0.5, 1.5, 2.5, 3.0, 3.5, 4.0, 4.5)  # the same, of sessions
_MOST_CALLS = 3_000  # of a session: what its first calls give away, it gives away
_MOST_LAWS, _OUTCOMES = 1000, 500_000  # of a local search
_LAWS_OF_GAPS = 200  # the same for gaps, whose laws take milliseconds
_GAPS = np.unique(np.concatenate([[3, 4, 6, 9, 13, 20, 30], np.arange(40, 800, 12)]))


def lower_bound_of(aggregator: Aggregator, shape: ReleaseShape, target_delta: float) -> LowerBound | None:
    """A lower bound on every sound epsilon of a release, with the neighbors that show it; None where none is known.

    A search over few pairs, the same one in every query: what it finds holds, what it does not find may exist.

    >>> shape = ReleaseShape(num_queries=600, num_labels=10, num_teachers=800)
    >>> found = lower_bound_of(GaussianVotes(noise_std=100.0), shape, 1e-6)
    >>> round(found.epsilon, 2), abs(found.first[0] - found.second[0])
    (2.85, 1)
    """
    num_labels, adjacency = shape.num_labels, aggregator.adjacency
    match aggregator:
        case GNMax() | PowersetGNMax():
            num_candidates = num_labels if isinstance(aggregator, GNMax) else 2 ** min(num_labels, 4)
            return _of_winner(aggregator.noise_std, shape, adjacency, target_delta, num_candidates)
        case GaussianVotes():  # all labels at the threshold, and a teacher that changes its mind on all of them
            return _of_bits(aggregator.noise_std, 0.5, shape, num_labels, target_delta)
        case ClippedVotes():
            moved = squared_sensitivity(aggregator.vote_clip, num_labels=num_labels, adjacency=adjacency)
            return _of_bits(aggregator.noise_std, aggregator.threshold_share, shape, moved, target_delta)
        case StableTopK():  # stairs of gaps: what is chosen and what passes move at once
            law = partial(aggregator.distribution, num_teachers=shape.num_teachers)
            return _climbed(law, _gap_pairs(shape, adjacency), shape, adjacency, target_delta, steps=_LAWS_OF_GAPS)
        case FixedTopK() if aggregator.k < num_labels and num_labels**aggregator.k <= 10**5:
            picks, pairs = aggregator.top_k.distribution, _top_pairs(aggregator.k, shape, adjacency)
            steps = min(_MOST_LAWS, _OUTCOMES // len(picks(np.arange(num_labels))))
            return _climbed(picks, pairs, shape, adjacency, target_delta, steps=steps)
        case BoundaryMax() if num_labels > 1 and shape.num_queries > 0:
            return max(_of_session(aggregator, shape, target_delta), key=lambda bound: bound.epsilon, default=None)
    return None


def _of_session(aggregator: BoundaryMax, shape: ReleaseShape, target_delta: float) -> Iterator[LowerBound]:
    """A runner-up that gains what the best label loses, the same in every call, until the last hit."""

    def law(counts: Counts) -> list[float]:
        probabilities = aggregator.distribution(counts)
        return [float(probabilities[0]), float(probabilities[1:-1].sum()), float(probabilities[-1])]

    ends = {"num_calls": min(shape.num_queries, _MOST_CALLS), "target_hits": aggregator.target_hits}
    for lead in sorted({round(lead * aggregator.selection_scale) for lead in _SESSION_LEADS}):
        if lead <= shape.num_teachers - 2:
            counts = np.zeros(shape.num_labels, dtype=np.int64)
            counts[1] = (shape.num_teachers - lead) // 2
            counts[0] = counts[1] + lead
            moved = counts - (np.arange(shape.num_labels) == 0)
            moved[1] += aggregator.adjacency is Adjacency.REPLACE_ONE
            for first, second in ((counts, moved), (moved, counts)):
                epsilon = session_epsilon(law(first), law(second), **ends, target_delta=target_delta)
                yield LowerBound(epsilon, tuple(first.tolist()), tuple(second.tolist()), ends["num_calls"])


def _climbed(
    law: Law, pairs: Iterator[Pair], shape: ReleaseShape, adjacency: Adjacency, target_delta: float, *, steps: int
) -> LowerBound:
    """The best of some pairs, or what a local search finds from there."""

    def of(some: Iterable[Pair]) -> LowerBound:
        return lower_bound(law, some, num_releases=shape.num_queries, target_delta=target_delta)

    known = of(pairs)
    start = np.array(known.first), np.array(known.second)
    moves = (-1, 1) if adjacency is Adjacency.REPLACE_ONE else (0, 1)
    if (start[1] < start[0]).any() and moves == (0, 1):
        start = start[::-1]
    found = of([climbed(law, start, moves=moves, num_teachers=shape.num_teachers, steps=steps)])
    return max(known, found, key=lambda bound: bound.epsilon)


def _of_winner(
    noise_std: float, shape: ReleaseShape, adjacency: Adjacency, target_delta: float, num_candidates: int
) -> LowerBound:
    """Two labels, or one, with a lead on one that nobody votes for; one vote goes from the first to the second."""

    def law(counts: Counts) -> dict[int, float]:
        return dict(enumerate(gaussian_argmax(counts / noise_std).tolist()))

    def pairs() -> Iterator[Pair]:
        for lead in _LEADS if adjacency is Adjacency.ADD_REMOVE else ():
            alone = np.ones(num_candidates, dtype=np.int64)
            alone[0] += round(lead * noise_std)
            yield alone, alone - (np.arange(num_candidates) == 0)
        for lead in _LEADS:
            for rest in range(1, max(num_candidates, 3) - 1):
                ahead = round(lead * noise_std)
                counts = np.array([ahead, ahead] + [0] * rest) + (0 if adjacency is Adjacency.REPLACE_ONE else 1)
                counts = counts[:num_candidates] + 1
                moved = counts.copy()
                moved[0] -= 1
                if adjacency is Adjacency.REPLACE_ONE and len(moved) > 1:
                    moved[1] += 1
                yield counts, moved

    return lower_bound(law, pairs(), num_releases=shape.num_queries, target_delta=target_delta)


def _of_bits(noise_std: float, share: float, shape: ReleaseShape, moved: int, target_delta: float) -> LowerBound:
    """As many independent bits as one teacher moves, each about its threshold."""

    def law(counts: Counts) -> dict[bool, float]:
        above = float(ndtr((counts[0] - share * shape.num_teachers) / noise_std))
        return {True: above, False: 1 - above}

    middle = int(share * shape.num_teachers)
    pairs = [(np.array([middle + 1]), np.array([middle])), (np.array([middle]), np.array([middle - 1]))]
    return lower_bound(law, pairs, num_releases=shape.num_queries * moved, target_delta=target_delta)


def _gap_pairs(shape: ReleaseShape, adjacency: Adjacency) -> Iterator[Pair]:
    """Stairs of one to eight equal gaps, then the bottom; a change moves every second gap up, the others down."""
    places = np.arange(shape.num_labels, dtype=np.int64)
    for steps in range(1, min(9, shape.num_labels)):
        for gap in _GAPS[_GAPS * steps < shape.num_teachers - 2].tolist():
            counts = 1 + gap * np.maximum(steps - places, 0)
            up = np.minimum(places, steps) % 2 == 0
            moved = counts + up if adjacency is Adjacency.ADD_REMOVE else counts + np.where(up, 1, -1)
            yield counts, np.asarray(moved, dtype=np.int64)


def _top_pairs(k: int, shape: ReleaseShape, adjacency: Adjacency) -> Iterator[Pair]:
    """K labels beside the others or before them; some rise, and under replace-one the others fall."""
    labels, middle = shape.num_labels, shape.num_teachers // 2
    for lead in (0, 5, 20, 60):
        counts = np.full(labels, middle)
        counts[:k] += lead
        for rising in {1, k, max(k - 1, 1), labels // 2, min(k + 1, labels - 1)}:
            for first in (0, k):
                part = (np.arange(labels) >= first) & (np.arange(labels) < first + rising)
                falling = ~part if adjacency is Adjacency.REPLACE_ONE else np.zeros_like(part)
                moved = counts + part.astype(np.int64) - falling.astype(np.int64)
                if part.any() and (moved >= 0).all():
                    yield counts, moved
