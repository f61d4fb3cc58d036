"""Sessions that use the boundary wrapper: `BoundaryMax` names the largest count, `BoundaryTopK` a stable top-k set.

The mechanism for one query has a distribution over outcomes that is computed exactly. The wrapper adds one outcome, the
*boundary*. Let pi be the probability that the outcome is not the likeliest one, but at most 1/2. The boundary has the
probability pi / (1 + pi), and is a hit. Only hits use up the session. So a query on which the teachers agree, whose pi
is tiny, is almost always free.

The wrapped distribution is drawn exactly, from integer weights, so no rounding of floats changes the price.

Source: Cohen & Lyu 2023; docs/proofs/boundary_top_k.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import BoundedRangeEvent, Event, SelfComposedEvent
from pate.accounting import target_charging as charging
from pate.accounting.special import softmax
from pate.aggregators.answers import Answers
from pate.aggregators.failures import failure_prob_of
from pate.aggregators.session import Round, TargetChargedAggregator
from pate.aggregators.session_event import bit_epsilon, session_event
from pate.aggregators.stable_top_k import StableTopK
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.mechanisms.noise.lazy_uniforms import LazyUniforms
from pate.mechanisms.noise.weighted_index import (
    Interval,
    WeightEncloser,
    boundary_encloser,
    draw_index,
    softmax_encloser,
)
from pate.mechanisms.parameters import NOISE, PROBABILITY
from pate.mechanisms.stability_test import StabilityTest
from pate.mechanisms.vote_ranking import VoteRanking
from pate.votes.shape import VoteShape

# A test passes with a probability that is a multiple of 1 / _GRID.
_GRID = 2**53


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class Calls:
    """The distributions over outcomes of Q calls, before the boundary is added; a call is the mechanism on one query.

    Every query has the same n possible outcomes. The boundary is one more outcome, which is a hit.

    Attributes:
        outcome_probs: float64 `[Q, n]`, the probability of each outcome of each query; a row sums to 1.
        make_encloser: takes the index of a query, and returns a function (`WeightEncloser`) that gives bounds, in whole
            numbers, on the exact weight of each of the n outcomes. It is called only for a draw that the floats of
            `outcome_probs` do not decide.
        answers_to: a function that takes one outcome for each query, int `[Q]`, and returns the `Answers`. Outcome n,
            the boundary, is no answer.
    """

    outcome_probs: FloatArray
    make_encloser: Callable[[int], WeightEncloser]
    answers_to: Callable[[IntArray], Answers]


@dataclass(frozen=True, kw_only=True)
class BoundaryAggregator(TargetChargedAggregator):
    """Base class of sessions in which a mechanism has one more outcome on each query: the boundary, which is a hit.

    Let pi be the probability that the mechanism's outcome is not the likeliest one, but at most 1/2. The boundary has
    the probability pi / (1 + pi). A subclass gives the mechanism's own distributions in `_calls`.
    """

    @abstractmethod
    def _calls(self, counts: IntArray, num_teachers: int) -> Calls:
        """Returns the distributions over the mechanism's outcomes, one for each row of counts, without the boundary.

        Args:
            counts: `[num_queries, num_labels]`.
            num_teachers: the number of teachers.
        """

    def hit_probabilities(
        self, votes: IntArray, *, num_teachers: int, prior: BoolArray | None = None
    ) -> FloatArray:
        """Returns the probability that each query ends at the boundary, `[num_queries]`. No epsilon covers the result.

        Args:
            votes: counts, `[num_queries, num_labels]`.
            num_teachers: the number of teachers.
            prior: not read.
        """
        return np.asarray(self._probs_with_boundary(votes, num_teachers=num_teachers)[:, -1])

    def _probs_with_boundary(self, counts: NDArray[np.integer], *, num_teachers: int) -> FloatArray:
        """Returns the probability of each outcome, with the boundary last, `[num_queries, num_outcomes + 1]`.

        Args:
            counts: `[num_queries, num_labels]`.
            num_teachers: the number of teachers.
        """
        calls = self._calls(np.asarray(counts, dtype=np.int64), num_teachers)
        return charging.boundary_distribution(calls.outcome_probs)

    def _ask(
        self,
        counts: IntArray,
        lazy_uniforms: LazyUniforms,
        predicted_labels: BoolArray | None,
        *,
        first_query: int,
        num_teachers: int,
    ) -> Round:
        """Draws one outcome for each query of a round; see `TargetChargedAggregator._ask`."""
        calls = self._calls(counts, num_teachers)
        boundary_index = calls.outcome_probs.shape[1]

        def make_encloser_with_boundary(query_index: int) -> WeightEncloser:
            return boundary_encloser(enclose_weights=calls.make_encloser(query_index))

        outcome_indices = draw_index(
            approximate_weights=charging.boundary_distribution(calls.outcome_probs),
            lazy_uniforms=lazy_uniforms[:, 0],
            make_encloser=make_encloser_with_boundary,
        )
        answers = calls.answers_to(outcome_indices)
        return Round(
            labels=answers.labels, answered=answers.answered, hits=outcome_indices == boundary_index
        )

    def _session_event(
        self,
        call_epsilon: float,
        num_calls: int,
        *,
        has_bounded_range: bool,
        total_failure_prob: float = 0.0,
    ) -> Event:
        """Returns the price of a session that halts after `target_hits` queries have ended at the boundary.

        Args:
            call_epsilon: the pure-DP epsilon of the mechanism on one query, before the boundary is added.
            num_calls: the largest number of queries.
            has_bounded_range: whether the log-likelihood ratios of one query span at most `call_epsilon`.
            total_failure_prob: the sum of the failure probabilities of all queries, which is taken from delta.
        """
        return session_event(
            make_q_target=charging.tight_boundary,
            call_epsilon=call_epsilon,
            num_calls=num_calls,
            target_hits=self.target_hits,
            session_delta=self.session_delta,
            total_failure_prob=total_failure_prob,
            has_bounded_range=has_bounded_range,
        )


@dataclass(frozen=True, kw_only=True)
class BoundaryMax(BoundaryAggregator):
    """Releases one label per query, by the exponential mechanism over the counts, inside the boundary wrapper.

    The wrapper refuses to answer a query with a probability of at most 1/3. The surer the likeliest label is, the
    smaller is this probability. A refused query is a hit. All other queries are answered and are free. After
    `target_hits` hits the session halts, and all later queries are refused.

    Formal guarantee: one change moves each count by at most 1. So the mechanism on one query is
    (2 / selection_scale)-DP under replace-one. Under add/remove all counts move in one direction, and it is
    (1 / selection_scale)-DP. Source: Cohen & Lyu 2023 (boundary wrapper); docs/proofs/boundary_top_k.md.

    Attributes:
        selection_scale: beta of the Gumbel noise in votes, > 0. `TargetChargedAggregator` has the other fields.

    >>> aggregator = BoundaryMax(selection_scale=2.0, target_hits=1)
    >>> release = aggregator.aggregate(np.array([[95, 5, 0]]), num_teachers=100, rng=np.random.default_rng(0))
    >>> release.labels, release.num_hits
    (array([[ True, False, False]]), 0)
    """

    single_label: ClassVar[bool] = True

    selection_scale: float = field(metadata=NOISE)

    @property
    def call_epsilon(self) -> float:
        """The pure-DP epsilon of the exponential mechanism on one query; its bounded range is the same number."""
        return self.adjacency.num_moved / self.selection_scale

    def event(self, shape: VoteShape) -> Event:
        """Returns the price of the session; see `Aggregator.event`."""
        return self._session_event(
            self.call_epsilon, num_calls=shape.num_queries, has_bounded_range=True
        )

    def plain_event(self, shape: VoteShape) -> Event:
        """Returns the price of the same answers if every query is charged, without the boundary wrapper."""
        return SelfComposedEvent(BoundedRangeEvent(self.call_epsilon), count=shape.num_queries)

    def distribution(self, votes: NDArray[np.integer]) -> FloatArray:
        """Returns the exact distribution over outcomes, for one query with counts `[num_labels]`.

        The result `[num_labels + 1]` has the probability of each label, and last that of the boundary, a hit that names
        no label.
        """
        # The exponential mechanism does not read the number of teachers.
        return np.asarray(self._probs_with_boundary(np.asarray(votes)[None], num_teachers=0)[0])

    def _calls(self, counts: IntArray, num_teachers: int) -> Calls:
        """Returns the distributions over the labels, one for each row of counts `[num_queries, num_labels]`.

        Outcome i means that label i alone is released.
        """
        count_deficits = (counts.max(axis=1, keepdims=True) - counts).astype(np.float64)
        label_indices = np.arange(counts.shape[1])

        def make_encloser(query_index: int) -> WeightEncloser:
            return softmax_encloser(count_deficits[query_index], noise_scale=self.selection_scale)

        def answers_to(outcome_indices: IntArray) -> Answers:
            return Answers(
                labels=outcome_indices[:, None] == label_indices,
                answered=outcome_indices < len(label_indices),
            )

        return Calls(
            outcome_probs=softmax(counts / self.selection_scale, axis=1),
            make_encloser=make_encloser,
            answers_to=answers_to,
        )


@dataclass(frozen=True, kw_only=True)
class BoundaryTopK(BoundaryAggregator):
    """Releases the k labels with the largest counts, for a k that is drawn, inside the boundary wrapper.

    The exponential mechanism draws k by the gaps between sorted counts, and a noisy test decides whether the set is
    released. The outcome on a query is a k that passes its test, or a refusal; its distribution is computed exactly.
    With the wrapper a query may end at the boundary instead (`BoundaryAggregator`), and is then a hit without an
    answer. A query that is no hit is free, even if it is refused. After `target_hits` hits every later query is
    refused.

    Formal guarantee: the mechanism on one query is e-DP, except if it fails and releases an unstable set. Here e is the
    bounded range of the selection plus the epsilon of the test. The price of the session is the cheapest of three: the
    price of `target_hits` hits, of all queries, or of as many accesses to the private data as a session with so many
    hits rarely exceeds. The failure probabilities of all queries add up and are taken from delta. Source: Cohen & Lyu
    2023 (boundary wrapper), Zhu & Wang 2022 (selection, test); docs/proofs/boundary_top_k.md.

    Attributes:
        selection_scale: beta of the Gumbel noise in votes, > 0.
        test_std: standard deviation of the test's Laplace noise in votes, > 0.
        failure_prob: probability that an unstable set is released, per query. None is 1e-10, or less where the failures
            of all queries would take more than 0.6 of `session_delta`.
        padded: whether k = 0 and k = num_labels are possible answers. `TargetChargedAggregator` has the other
            fields.

    >>> aggregator = BoundaryTopK(selection_scale=2.0, test_std=3.0, target_hits=2, failure_prob=1e-9)
    >>> votes = np.array([[90, 88, 1, 0], [51, 50, 49, 48]])
    >>> release = aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    >>> release.labels[0], release.answered, release.num_hits
    (array([ True,  True, False, False]), array([ True, False]), 0)
    """

    usual_failure_prob: ClassVar[float] = 1e-10

    selection_scale: float = field(metadata=NOISE)
    test_std: float = field(metadata=NOISE)
    failure_prob: float | None = field(default=None, metadata=PROBABILITY)
    padded: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._validate()

    def _validate(self) -> None:
        """Raises `InvalidValue` if `test_std` or `failure_prob` is out of the range of the stability test."""
        self.stability_test(num_teachers=1)

    @property
    def release_step(self) -> StableTopK:
        """The stable top-k mechanism whose outcome on each query is released, unless the query ends at the boundary."""
        return self.convert_to(StableTopK, test="laplace", failure_prob=failure_prob_of(self))

    def call_epsilon_for(self, *, num_labels: int, num_teachers: int) -> float:
        """Returns the pure-DP epsilon of one query: that of the selection of k plus that of the bit of the test.

        The first is 0 if only one k can be selected. The failure probability of the test is left out.
        """
        selection = self.release_step.gap_selection(
            num_labels=num_labels, num_teachers=num_teachers
        )
        selection_epsilon = 0.0
        if len(selection.candidates) > 1:
            selection_epsilon = self.adjacency.gap_range / self.selection_scale
        # The test releases one bit: passed or refused.
        pass_probs_by_gap = np.array(self.stability_test(num_teachers=num_teachers).pass_probs)
        return selection_epsilon + bit_epsilon(
            probabilities=pass_probs_by_gap, sensitivity=self.adjacency.gap_sensitivity
        )

    def stability_test(self, *, num_teachers: int) -> StabilityTest:
        """Returns the test that a set of labels has to pass, for votes of `num_teachers` teachers."""
        return self.release_step.stability_test(num_teachers=num_teachers)

    def event(self, shape: VoteShape) -> Event:
        """Returns the price of the session; see `Aggregator.event`."""
        call_epsilon = self.call_epsilon_for(
            num_labels=shape.num_labels, num_teachers=shape.num_teachers
        )
        total_failure_prob = shape.num_queries * failure_prob_of(self)
        return self._session_event(
            call_epsilon,
            num_calls=shape.num_queries,
            has_bounded_range=False,
            total_failure_prob=total_failure_prob,
        )

    def plain_event(self, shape: VoteShape) -> Event:
        """Returns the price of the same answers if every query is charged, without the boundary wrapper."""
        return self.release_step.event(shape)

    def distribution(
        self, votes: NDArray[np.integer], *, num_teachers: int
    ) -> dict[tuple[int, ...] | str, float]:
        """Returns the exact distribution on one query with counts `[num_labels]`: the probability of each outcome.

        The outcomes are the sets of labels that may be released, "refused", and "boundary".
        """
        vote_ranking = VoteRanking.from_counts(np.asarray(votes, dtype=np.int64)[None])
        probs_with_boundary = self._probs_with_boundary(
            np.asarray(votes)[None], num_teachers=num_teachers
        )[0].tolist()
        distribution: dict[tuple[int, ...] | str, float] = {
            "refused": probs_with_boundary[-2],
            "boundary": probs_with_boundary[-1],
        }
        candidates = self.release_step.gap_selection(
            num_labels=len(votes), num_teachers=num_teachers
        ).candidates
        for k, probability in zip(candidates, probs_with_boundary[:-2], strict=True):
            top_labels = np.flatnonzero(vote_ranking.top(np.array([k]))[0])
            distribution[tuple(top_labels.tolist())] = probability
        return distribution

    def _calls(self, counts: IntArray, num_teachers: int) -> Calls:
        """Returns the distributions over outcomes, one for each row of counts `[num_queries, num_labels]`.

        There is one outcome for each size k that can be selected: the k labels with the largest counts are released.
        The last outcome is a refusal; the boundary is not among the outcomes.
        """
        selection = self.release_step.gap_selection(
            num_labels=counts.shape[1], num_teachers=num_teachers
        )
        stability_test = self.stability_test(num_teachers=num_teachers)
        vote_ranking = VoteRanking.from_counts(counts)
        gaps = vote_ranking.gaps(with_outer_gaps=self.padded, num_teachers=num_teachers)
        candidate_is_constant = (selection.candidates == 0) | (
            selection.candidates == selection.num_labels
        )
        # The probability that the set of each candidate passes the test, [num_queries, num_candidates].
        pass_probs_of_candidates = np.where(
            candidate_is_constant, 1.0, stability_test.pass_probabilities(gaps)
        )
        selection_probs = softmax(gaps / self.selection_scale, axis=1)
        refusal_probs = (selection_probs * (1 - pass_probs_of_candidates)).sum(
            axis=1, keepdims=True
        )

        def make_encloser(query_index: int) -> WeightEncloser:
            gap_deficits = (gaps[query_index].max() - gaps[query_index]).astype(np.float64)
            enclose_selection_weights = softmax_encloser(
                gap_deficits, noise_scale=self.selection_scale
            )
            # Pass probabilities as whole multiples of 1 / _GRID.
            pass_units = (pass_probs_of_candidates[query_index] * _GRID).astype(np.int64).tolist()

            def enclose_weights(decimal_digits: int) -> list[Interval]:
                intervals_of_candidates = []
                refused_low = 0
                refused_high = 0
                for (low_weight, high_weight), num_pass_units in zip(
                    enclose_selection_weights(decimal_digits), pass_units, strict=True
                ):
                    intervals_of_candidates.append(
                        (low_weight * num_pass_units, high_weight * num_pass_units)
                    )
                    refused_low += low_weight * (_GRID - num_pass_units)
                    refused_high += high_weight * (_GRID - num_pass_units)
                return [*intervals_of_candidates, (refused_low, refused_high)]

            return enclose_weights

        def answers_to(outcome_indices: IntArray) -> Answers:
            answered = outcome_indices < len(selection.candidates)
            candidate_indices = np.where(answered, outcome_indices, 0)
            selected_k = np.where(answered, selection.candidates[candidate_indices], 0)
            return Answers(labels=vote_ranking.top(selected_k), answered=answered)

        return Calls(
            outcome_probs=np.concatenate(
                [selection_probs * pass_probs_of_candidates, refusal_probs], axis=1
            ),
            make_encloser=make_encloser,
            answers_to=answers_to,
        )
