"""Lower bounds on the price of a release for several types of aggregator, from distributions on neighboring histograms.

A bound comes from one pair of neighbors: no valid epsilon is smaller than the divergence of the two distributions of
the answer. A *lead* is the number of votes by which a label is ahead of the others.
"""

import math
from collections.abc import Iterator
from functools import partial
from itertools import product
from operator import attrgetter

import numpy as np

from pate import aggregators
from pate.accounting import Adjacency
from pate.accounting.special import ndtr
from pate.aggregators import Aggregator, BoundaryMax, GaussianVotes, GNMax
from pate.aggregators.thresholds import squared_sensitivity
from pate.array_types import IntArray
from pate.mechanisms.noise.maxima import gaussian_argmax
from pate.testing.lower_bounds import (
    LowerBound,
    OutcomeProbs,
    Pair,
    climb,
    lower_bound,
    session_epsilon,
)
from pate.votes.shape import VoteShape

# The leads that are tried for releases of a winner, as multiples of the noise.
_LEADS = (0.0, 0.4, 0.75, 1.1, 1.5, 2.0, 3.0)
# The leads that are tried for sessions, as multiples of the selection scale.
_SESSION_LEADS = (0.5, 1.5, 2.5, 3.0, 3.5, 4.0, 4.5)
# The largest number of calls of a session that are computed. A bound for its first calls holds for the whole session.
_MAX_CALLS = 3_000
# A local search changes a pair at most so many times, and one neighbor has at most so many outcomes in all changes.
_MAX_STEPS = 1000
_MAX_OUTCOMES = 500_000
# A local search over gaps changes a pair at most so many times, as each distribution takes milliseconds.
_MAX_STEPS_OF_GAPS = 200
# The gaps between sorted counts that are tried for stable top-k, in votes.
_GAPS = np.unique(np.concatenate([[3, 4, 6, 9, 13, 20, 30], np.arange(40, 800, 12)]))
# The largest number of equal gaps that is tried.
_MAX_EQUAL_GAPS = 8


def lower_bound_of(
    aggregator: Aggregator, shape: VoteShape, target_delta: float
) -> LowerBound | None:
    """Returns a lower bound on every valid epsilon of a release, and the pair of neighbors that proves the bound.

    A few pairs of neighboring histograms are tried. All queries have the same pair. Larger lower bounds may exist.

    For an aggregator that releases a winner, `GNMax` or `PowersetGNMax`, a pair may have more votes and fewer labels
    than `shape` allows. The price is the same for every number of teachers and does not fall with that of labels, so
    the bound is one on the price for `shape`, too.

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
    # The number of steps of a local search from the best pair.
    num_steps = 0
    compute_outcome_probs: OutcomeProbs
    match aggregator:
        case GNMax() | aggregators.PowersetGNMax():
            noise_std = aggregator.noise_std
            num_candidates = num_labels
            if not isinstance(aggregator, GNMax):
                num_candidates = 2 ** min(num_labels, 4)
            compute_outcome_probs = partial(_winner_distribution, noise_std=noise_std)
            pairs = _winner_pairs(
                noise_std=noise_std, num_candidates=num_candidates, is_replace_one=is_replace_one
            )
        case GaussianVotes() | aggregators.ClippedVotes():
            # The bits of labels are independent. One teacher moves all labels, or a limited number of them.
            threshold_share = 0.5
            num_moved = num_labels
            num_gaining = 0
            if isinstance(aggregator, aggregators.ClippedVotes):
                threshold_share = aggregator.threshold_share
                num_moved = squared_sensitivity(
                    aggregator.vote_clip, num_labels=num_labels, adjacency=aggregator.adjacency
                )
                # At most `vote_clip` labels lose a vote, so the others gain one.
                num_gaining = max(num_moved - aggregator.vote_clip, 0)
            threshold = threshold_share * shape.num_teachers
            compute_outcome_probs = partial(
                _bits_distribution, threshold=threshold, noise_std=aggregator.noise_std
            )
            # Where whole votes are symmetric around the threshold, a bit tells as much by a gain as by a loss.
            is_symmetric = float(2 * threshold).is_integer()
            is_of_two_labels = num_gaining > 0 and not is_symmetric
            num_releases = num_releases * (num_gaining if is_of_two_labels else num_moved)
            pairs = _threshold_pairs(int(threshold), is_of_two_labels=is_of_two_labels)
        case aggregators.StableTopK():
            # With several equal gaps, one change moves both the choice of k and the test.
            compute_outcome_probs = partial(
                aggregator.distribution, num_teachers=shape.num_teachers
            )
            pairs = _gap_pairs(shape, is_replace_one=is_replace_one)
            num_steps = _MAX_STEPS_OF_GAPS
        case aggregators.FixedTopK() if (
            aggregator.k < num_labels and num_labels**aggregator.k <= 10**5
        ):
            compute_outcome_probs = aggregator.top_k.distribution
            pairs = _top_pairs(
                num_top=aggregator.k, vote_shape=shape, is_replace_one=is_replace_one
            )
            made_up_counts = np.arange(num_labels)
            num_outcomes = len(compute_outcome_probs(made_up_counts))
            num_steps = min(_MAX_STEPS, _MAX_OUTCOMES // num_outcomes)
        case BoundaryMax() if num_labels > 1 and shape.num_queries > 0:
            bounds = _session_bounds(aggregator, vote_shape=shape, target_delta=target_delta)
            return max(bounds, key=attrgetter("epsilon"), default=None)
        case _:
            return None
    candidate_pairs = list(pairs)
    if not candidate_pairs:
        return None
    best_bound = lower_bound(
        compute_outcome_probs,
        pairs=candidate_pairs,
        num_releases=num_releases,
        target_delta=target_delta,
    )
    if num_steps == 0:
        return best_bound
    first_vote_counts = np.array(best_bound.first)
    second_vote_counts = np.array(best_bound.second)
    count_moves = (-1, 1)
    if not is_replace_one:
        # Under add/remove, the second histogram has a teacher more.
        count_moves = (0, 1)
        if (second_vote_counts < first_vote_counts).any():
            first_vote_counts, second_vote_counts = second_vote_counts, first_vote_counts
    climbed_pair = climb(
        compute_outcome_probs,
        pair=(first_vote_counts, second_vote_counts),
        count_moves=count_moves,
        num_teachers=shape.num_teachers,
        num_steps=num_steps,
    )
    higher_bound = lower_bound(
        compute_outcome_probs,
        pairs=[climbed_pair],
        num_releases=num_releases,
        target_delta=target_delta,
    )
    return max(best_bound, higher_bound, key=attrgetter("epsilon"))


def _session_bounds(
    aggregator: BoundaryMax, vote_shape: VoteShape, target_delta: float
) -> Iterator[LowerBound]:
    """Yields lower bounds on the epsilon of a session of `BoundaryMax`, one for each of several ordered pairs.

    Between the neighbors the label with the most votes loses a vote. Under replace-one the label with the second most
    votes gains that vote. Each pair is taken in both orders.
    """

    def call_outcome_probs(votes_by_label: IntArray) -> list[float]:
        """Returns the probabilities that a call answers the first label, that it answers another, and of a hit."""
        outcome_probs = aggregator.distribution(votes_by_label)
        label_probs = outcome_probs[:-1]
        hit_prob = outcome_probs[-1]
        return [float(label_probs[0]), float(label_probs[1:].sum()), float(hit_prob)]

    num_calls = min(vote_shape.num_queries, _MAX_CALLS)
    gained_votes = int(aggregator.adjacency is Adjacency.REPLACE_ONE)
    for lead in sorted({round(lead * aggregator.selection_scale) for lead in _SESSION_LEADS}):
        if lead <= vote_shape.num_teachers - 2:
            second_count = (vote_shape.num_teachers - lead) // 2
            no_votes = [0] * (vote_shape.num_labels - 2)
            vote_counts = np.array([second_count + lead, second_count, *no_votes])
            neighbor_counts = vote_counts + np.array([-1, gained_votes, *no_votes])
            for first_vote_counts, second_vote_counts in (
                (vote_counts, neighbor_counts),
                (neighbor_counts, vote_counts),
            ):
                epsilon = session_epsilon(
                    call_outcome_probs(first_vote_counts),
                    call_outcome_probs(second_vote_counts),
                    num_calls=num_calls,
                    target_hits=aggregator.target_hits,
                    target_delta=target_delta,
                )
                yield LowerBound(
                    epsilon=epsilon,
                    first=tuple(first_vote_counts.tolist()),
                    second=tuple(second_vote_counts.tolist()),
                    num_releases=num_calls,
                )


def _winner_distribution(counts: IntArray, *, noise_std: float) -> dict[int, float]:
    """Returns the probability of each label to have the largest count after Gaussian noise, for counts `[L]`."""
    return dict(enumerate(gaussian_argmax(counts / noise_std).tolist()))


def _bits_distribution(
    counts: IntArray, *, threshold: float, noise_std: float
) -> dict[tuple[bool, ...], float]:
    """Returns the distribution of independent bits: whether each count plus Gaussian noise is at least the threshold.

    Args:
        counts: the count of each bit, `[num_bits]`.
        threshold: the threshold, in votes.
        noise_std: the standard deviation of the noise, in votes.
    """
    probs = ndtr((counts - threshold) / noise_std).tolist()
    return {
        bits: math.prod(prob if bit else 1 - prob for bit, prob in zip(bits, probs, strict=True))
        for bits in product((True, False), repeat=len(probs))
    }


def _threshold_pairs(last_count: int, *, is_of_two_labels: bool) -> Iterator[Pair]:
    """Yields pairs of neighboring counts near a threshold, of one label or of two.

    From the first neighbor to the second, the first label loses a vote, and the second label, if any, gains one.

    Args:
        last_count: the largest whole number of votes that does not exceed the threshold.
        is_of_two_labels: True for two labels, False for one.
    """
    for votes_to_lose in (last_count + 1, last_count):
        if votes_to_lose < 1:
            continue
        if not is_of_two_labels:
            yield np.array([votes_to_lose]), np.array([votes_to_lose - 1])
            continue
        for votes_before_gain in (last_count, last_count + 1):
            yield (
                np.array([votes_to_lose, votes_before_gain]),
                np.array([votes_to_lose - 1, votes_before_gain + 1]),
            )


def _winner_pairs(*, noise_std: float, num_candidates: int, is_replace_one: bool) -> Iterator[Pair]:
    """Yields pairs of neighboring histograms for a mechanism that releases the label with the largest noisy count.

    Two labels, or under add/remove also one, lead all others by the same number of votes. From the first histogram to
    the second, the first label loses a vote, which under replace-one the second label gains.

    Args:
        noise_std: the standard deviation of the noise, which scales the leads.
        num_candidates: the largest number of labels in a histogram.
        is_replace_one: True for replace-one, False for add/remove.
    """
    leads = [round(lead * noise_std) for lead in _LEADS]
    if not is_replace_one:
        for lead in leads:
            counts = np.ones(num_candidates, dtype=np.int64)
            counts[0] += lead
            neighbor_counts = counts.copy()
            neighbor_counts[0] -= 1
            yield counts, neighbor_counts
    # All counts have votes to lose.
    votes_of_others = 1 if is_replace_one else 2
    for lead in leads:
        for num_other_candidates in range(1, max(num_candidates, 3) - 1):
            counts = np.array([lead, lead] + [0] * num_other_candidates)[:num_candidates]
            counts = counts + votes_of_others
            neighbor_counts = counts.copy()
            neighbor_counts[0] -= 1
            neighbor_counts[1:2] += is_replace_one
            yield counts, neighbor_counts


def _gap_pairs(vote_shape: VoteShape, *, is_replace_one: bool) -> Iterator[Pair]:
    """Yields pairs of neighboring histograms, the first of which has one to eight equal gaps between sorted counts.

    From the first histogram to the second, every second of the sorted counts rises by a vote, from the largest on.
    Under replace-one all other counts fall by a vote. Labels below the last gap share one count, and move alike.
    """
    ranks = np.arange(vote_shape.num_labels, dtype=np.int64)
    other_move = -1 if is_replace_one else 0
    max_num_gaps = min(_MAX_EQUAL_GAPS, vote_shape.num_labels - 1)
    for num_gaps in range(1, max_num_gaps + 1):
        is_rising = np.minimum(ranks, num_gaps) % 2 == 0
        fitting_gaps = _GAPS[_GAPS * num_gaps < vote_shape.num_teachers - 2]
        for gap in fitting_gaps.tolist():
            counts = 1 + gap * np.maximum(num_gaps - ranks, 0)
            yield counts, counts + np.where(is_rising, 1, other_move)


def _top_pairs(num_top: int, *, vote_shape: VoteShape, is_replace_one: bool) -> Iterator[Pair]:
    """Yields pairs of neighbors, in the first of which `num_top` labels lead all others by equal votes, or by none.

    From the first histogram to the second, the counts of some consecutive labels rise by a vote: of labels from the
    first on, or from the first behind the leading ones on. Under replace-one all other counts fall by a vote.
    """
    num_labels = vote_shape.num_labels
    ranks = np.arange(num_labels)
    other_move = -1 if is_replace_one else 0
    # The numbers of counts that rise.
    numbers_rising = {
        1,
        num_top,
        max(num_top - 1, 1),
        num_labels // 2,
        min(num_top + 1, num_labels - 1),
    }
    for lead in (0, 5, 20, 60):
        counts = vote_shape.num_teachers // 2 + lead * (ranks < num_top)
        for num_rising in numbers_rising:
            for first_rising in (0, num_top):
                is_rising = (ranks >= first_rising) & (ranks < first_rising + num_rising)
                neighbor_counts = counts + np.where(is_rising, 1, other_move)
                if is_rising.any() and (neighbor_counts >= 0).all():
                    yield counts, neighbor_counts
