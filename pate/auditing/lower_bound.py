"""Lower bounds on the price of a release for each type of aggregator, from distributions on neighboring histograms."""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from operator import attrgetter

import numpy as np

from pate import aggregators
from pate.accounting import Adjacency
from pate.accounting.special import ndtr
from pate.aggregators import Aggregator, BoundaryMax, GaussianVotes, GNMax
from pate.aggregators.thresholds import squared_sensitivity
from pate.array_types import IntArray
from pate.mechanisms.noise.maxima import gaussian_argmax
from pate.testing.lower_bounds import Law, LowerBound, Pair, climbed, lower_bound, session_epsilon
from pate.votes.shape import VoteShape

_LEADS = (0.0, 0.4, 0.75, 1.1, 1.5, 2.0, 3.0)  # in units of the noise
_SESSION_LEADS = (0.5, 1.5, 2.5, 3.0, 3.5, 4.0, 4.5)  # the same, of sessions
_MOST_CALLS = 3_000  # of a session: a bound for its first calls holds for all
# a local search computes at most so many distributions, and so many outcomes in all
_MOST_LAWS = 1000
_OUTCOMES = 500_000
_LAWS_OF_GAPS = 200  # distributions of a search over gaps, each of which takes milliseconds
_GAPS = np.unique(np.concatenate([[3, 4, 6, 9, 13, 20, 30], np.arange(40, 800, 12)]))


def lower_bound_of(
    aggregator: Aggregator, shape: VoteShape, target_delta: float
) -> LowerBound | None:
    """Returns a lower bound on every valid epsilon of a release, and the pair of neighbors that proves the bound.

    A few pairs of neighboring histograms are tried. All queries have the same pair. Larger lower bounds may exist.

    Args:
        aggregator: the aggregator of the release, with its noise.
        shape: the numbers of queries, labels and teachers.
        target_delta: the delta of the epsilon, in (0, 1).

    Returns:
        The bound; None if no pairs are known for this aggregator and this shape.

    >>> from pate.votes import VoteShape
    >>> shape = VoteShape(num_queries=600, num_labels=10, num_teachers=800)
    >>> bound = lower_bound_of(GaussianVotes(noise_std=100.0), shape, target_delta=1e-6)
    >>> round(bound.epsilon, 2), abs(bound.first[0] - bound.second[0])
    (2.85, 1)
    """
    num_labels = shape.num_labels
    is_replace_one = aggregator.adjacency is Adjacency.REPLACE_ONE
    num_releases = shape.num_queries
    num_steps = 0  # of a local search from the best pair
    law: Law
    match aggregator:
        case GNMax() | aggregators.PowersetGNMax():
            noise_std = aggregator.noise_std
            num_candidates = num_labels
            if not isinstance(aggregator, GNMax):
                num_candidates = 2 ** min(num_labels, 4)
            law = partial(_winner, noise_std=noise_std)
            pairs = _winner_pairs(noise_std, num_candidates, is_replace_one)
        case GaussianVotes() | aggregators.ClippedVotes():
            # independent bits at their thresholds, for all labels or for as many as one teacher moves
            share = 0.5
            moved = num_labels
            if isinstance(aggregator, aggregators.ClippedVotes):
                share = aggregator.threshold_share
                moved = squared_sensitivity(
                    aggregator.vote_clip, num_labels=num_labels, adjacency=aggregator.adjacency
                )
            law = partial(
                _bit, threshold=share * shape.num_teachers, noise_std=aggregator.noise_std
            )
            num_releases = num_releases * moved
            threshold = int(share * shape.num_teachers)
            counts = [np.array([threshold + excess]) for excess in (1, 0, -1)]
            pairs = iter(pairwise(counts))
        # stairs of gaps, on which one change moves both the choice of k and the test
        case aggregators.StableTopK():
            law = partial(aggregator.distribution, num_teachers=shape.num_teachers)
            pairs = _gap_pairs(shape, is_replace_one)
            num_steps = _LAWS_OF_GAPS
        case aggregators.FixedTopK() if (
            aggregator.k < num_labels and num_labels**aggregator.k <= 10**5
        ):
            law = aggregator.top_k.distribution
            pairs = _top_pairs(aggregator.k, shape, is_replace_one)
            num_steps = min(_MOST_LAWS, _OUTCOMES // len(law(np.arange(num_labels))))
        case BoundaryMax() if num_labels > 1 and shape.num_queries > 0:
            return max(
                _session_bounds(aggregator, shape, target_delta),
                key=attrgetter("epsilon"),
                default=None,
            )
        case _:
            return None
    best = lower_bound(law, pairs, num_releases=num_releases, target_delta=target_delta)
    if not num_steps:
        return best
    best_pair = (np.array(best.first), np.array(best.second))
    count_moves = (-1, 1) if is_replace_one else (0, 1)
    if not is_replace_one and (best_pair[1] < best_pair[0]).any():
        best_pair = best_pair[::-1]
    climbed_pair = climbed(
        law,
        pair=best_pair,
        count_moves=count_moves,
        num_teachers=shape.num_teachers,
        num_steps=num_steps,
    )
    higher = lower_bound(
        law, pairs=[climbed_pair], num_releases=num_releases, target_delta=target_delta
    )
    return max(best, higher, key=attrgetter("epsilon"))


def _session_bounds(
    aggregator: BoundaryMax, shape: VoteShape, target_delta: float
) -> Iterator[LowerBound]:
    """Yields lower bounds for a session of `BoundaryMax`, one for each of several ordered pairs of neighbors.

    From one neighbor to the other the label with the most votes loses a vote. Each pair is taken in both orders. Under
    replace-one the second label gains it.
    """

    def law(counts: IntArray) -> list[float]:
        probabilities = aggregator.distribution(counts)
        return [float(probabilities[0]), float(probabilities[1:-1].sum()), float(probabilities[-1])]

    num_calls = min(shape.num_queries, _MOST_CALLS)
    for lead in sorted({round(lead * aggregator.selection_scale) for lead in _SESSION_LEADS}):
        if lead <= shape.num_teachers - 2:
            rival = (shape.num_teachers - lead) // 2
            no_votes = [0] * (shape.num_labels - 2)
            counts = np.array([rival + lead, rival, *no_votes])
            moved = counts + np.array(
                [-1, int(aggregator.adjacency is Adjacency.REPLACE_ONE), *no_votes]
            )
            for first, second in ((counts, moved), (moved, counts)):
                epsilon = session_epsilon(
                    law(first),
                    law(second),
                    num_calls=num_calls,
                    target_hits=aggregator.target_hits,
                    target_delta=target_delta,
                )
                yield LowerBound(
                    epsilon=epsilon,
                    first=tuple(first.tolist()),
                    second=tuple(second.tolist()),
                    num_releases=num_calls,
                )


def _winner(counts: IntArray, *, noise_std: float) -> dict[int, float]:
    """Returns the probability of each label to have the largest count after Gaussian noise, for counts `[L]`."""
    return dict(enumerate(gaussian_argmax(counts / noise_std).tolist()))


def _bit(counts: IntArray, *, threshold: float, noise_std: float) -> dict[bool, float]:
    """Returns the distribution of a bit: whether one count, `[1]`, plus Gaussian noise is at least the threshold."""
    above = float(ndtr((counts[0] - threshold) / noise_std))
    return {True: above, False: 1 - above}


def _winner_pairs(noise_std: float, num_candidates: int, is_replace_one: bool) -> Iterator[Pair]:
    """Yields pairs of neighboring histograms for a mechanism that releases the label with the largest noisy count.

    Two labels, or under add/remove also one, lead all others by the same number of votes. Between the neighbors the
    first label loses a vote, which under replace-one the second label gains.

    Args:
        noise_std: the standard deviation of the noise, which scales the leads.
        num_candidates: the largest number of labels in a histogram.
        is_replace_one: True for replace-one, False for add/remove.
    """
    leads = [round(lead * noise_std) for lead in _LEADS]
    for lead in leads if not is_replace_one else ():
        counts = np.ones(num_candidates, dtype=np.int64)
        counts[0] += lead
        yield counts, counts - (np.arange(num_candidates) == 0)
    for lead in leads:
        for num_others in range(1, max(num_candidates, 3) - 1):
            counts = np.array([lead, lead] + [0] * num_others)[:num_candidates] + (
                1 if is_replace_one else 2
            )
            moved = counts.copy()
            moved[0] -= 1
            moved[1:2] += is_replace_one
            yield counts, moved


def _gap_pairs(shape: VoteShape, is_replace_one: bool) -> Iterator[Pair]:
    """Yields pairs of neighboring histograms, the first of which has one to eight equal gaps between sorted counts.

    In the second histogram every second of the different counts is larger by a vote. Under replace-one all other counts
    fall by a vote.
    """
    places = np.arange(shape.num_labels, dtype=np.int64)
    for steps in range(1, min(9, shape.num_labels)):
        up = np.minimum(places, steps) % 2 == 0
        for gap in _GAPS[_GAPS * steps < shape.num_teachers - 2].tolist():
            counts = 1 + gap * np.maximum(steps - places, 0)
            yield counts, counts + np.where(up, 1, -1 if is_replace_one else 0)


def _top_pairs(num_top: int, shape: VoteShape, is_replace_one: bool) -> Iterator[Pair]:
    """Yields pairs of neighbors, in the first of which `num_top` labels lead all others by equal votes, or by none.

    Between the neighbors some counts rise by a vote. Under replace-one all other counts fall by a vote.
    """
    places = np.arange(shape.num_labels)
    middle = shape.num_teachers // 2
    for lead in (0, 5, 20, 60):
        counts = middle + lead * (places < num_top)
        for rising in {
            1,
            num_top,
            max(num_top - 1, 1),
            len(places) // 2,
            min(num_top + 1, len(places) - 1),
        }:
            for first in (0, num_top):
                is_rising = (places >= first) & (places < first + rising)
                moved = counts + np.where(is_rising, 1, -1 if is_replace_one else 0)
                if is_rising.any() and (moved >= 0).all():
                    yield counts, moved
