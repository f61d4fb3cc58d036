"""Sessions of calls in the boundary wrapper: labels by the largest count, or by a stable top-k.

A call has a known distribution over its outcomes. The wrapper adds one outcome, the *boundary*: with pi the probability
of anything but the likeliest outcome, it comes with probability pi / (1 + pi), and is a hit. So queries on which the
teachers agree, whose pi is tiny, almost never hit, and all that do not hit are free.

The wrapped distribution is drawn exactly, from integer weights, so that the price holds to the last bit.

Source: Cohen & Lyu 2023; docs/proofs/boundary_top_k.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate import accounting as pa
from pate.accounting import target_charging as charging
from pate.accounting.special import softmax
from pate.aggregators.aggregator import Bits
from pate.aggregators.failures import failure_prob_of
from pate.aggregators.release import Answers
from pate.aggregators.session import (
    Round,
    TargetChargedAggregator,
    bit_epsilon,
    session_event,
)
from pate.aggregators.stable_top_k import StableTopK
from pate.mechanisms.gap_selection import Ranking
from pate.mechanisms.noise.lazy_uniforms import LazyUniforms
from pate.mechanisms.noise.weighted_index import (
    Interval,
    Weights,
    boundary_weights,
    draw_index,
    softmax_weights,
)
from pate.mechanisms.parameters import NOISE, PROBABILITY
from pate.mechanisms.stability_test import StabilityTest
from pate.votes.shape import VoteShape

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

_GRID = 2**53  # a test passes with a multiple of 1 / _GRID


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls on Q queries, each of which has one of n outcomes.

    Attributes:
        probabilities: `[Q, n]`, of each outcome.
        exact_weights: returns the exact weights of the outcomes of one query, given its row.
        answers: returns the answers that outcomes `[Q]` stand for; n, the boundary, is no answer.
    """

    probabilities: Array
    exact_weights: Callable[[int], Weights]
    answers: Callable[[Counts], Answers]


@dataclass(frozen=True, kw_only=True)
class BoundaryAggregator(TargetChargedAggregator):
    """Base of sessions of calls in the boundary wrapper. A subclass states the outcomes of a call and their laws."""

    @abstractmethod
    def _calls(self, counts: Counts, num_teachers: int) -> Calls:
        """Returns the calls on queries with counts `[Q, L]`, without the wrapper."""

    def hit_probabilities(
        self, votes: Counts, *, num_teachers: int, prior: Bits | None = None
    ) -> Array:
        """Returns the probability that each query `[Q, L]` ends at the boundary, `[Q]`; no epsilon covers it."""
        return np.asarray(self._wrapped(votes, num_teachers)[:, -1])

    def _wrapped(self, counts: NDArray[np.integer], num_teachers: int) -> Array:
        """Returns the distribution inside the wrapper, `[Q, n + 1]`, the boundary last."""
        calls = self._calls(np.asarray(counts, dtype=np.int64), num_teachers)
        return charging.boundary_distribution(calls.probabilities)

    def _ask(
        self,
        counts: Counts,
        numbers: LazyUniforms,
        prior: Bits | None,
        *,
        first: int,
        num_teachers: int,
    ) -> Round:
        """Draws an outcome of each query; see `TargetChargedAggregator`."""
        calls = self._calls(counts, num_teachers)
        boundary = calls.probabilities.shape[1]

        def exact_weights(row: int) -> Weights:
            return boundary_weights(calls.exact_weights(row))

        wrapped = charging.boundary_distribution(calls.probabilities)
        outcomes = draw_index(wrapped, numbers[:, 0], exact_weights)
        answers = calls.answers(outcomes)
        return Round(answers.labels, answers.answered, hits=outcomes == boundary)

    def _session_event(
        self,
        call_epsilon: float,
        num_calls: int,
        *,
        bounded_range: bool,
        failure_prob: float = 0.0,
    ) -> pa.Event:
        """Returns the price of a session of calls of this epsilon; see `session_event`."""
        return session_event(
            charging.tight_boundary,
            call_epsilon,
            num_calls=num_calls,
            target_hits=self.target_hits,
            session_delta=self.session_delta,
            failure_prob=failure_prob,
            bounded_range=bounded_range,
        )


@dataclass(frozen=True, kw_only=True)
class BoundaryMax(BoundaryAggregator):
    """Releases one label per query, by the exponential mechanism over the counts inside the boundary wrapper.

    A query whose likeliest label is not certain is abstained from with a probability of at most 1/3: a hit. Every query
    that does not hit is free. No query is refused before the session halts.

    Formal guarantee: each count moves by at most 1, whatever teachers vote for, so a call is (2 / selection_scale)-DP
    under replace-one and (1 / selection_scale)-DP under add/remove, where all counts move in one direction. Source:
    Cohen & Lyu 2023 (boundary wrapper); docs/proofs/boundary_top_k.md.

    Attributes:
        selection_scale: beta of the Gumbel noise in votes, > 0; all other fields as in `TargetChargedAggregator`.

    >>> aggregator = BoundaryMax(selection_scale=2.0, target_hits=1)
    >>> release = aggregator.aggregate(np.array([[95, 5, 0]]), num_teachers=100, rng=np.random.default_rng(0))
    >>> release.labels, release.num_hits
    (array([[ True, False, False]]), 0)
    """

    single_label: ClassVar[bool] = True

    selection_scale: float = field(metadata=NOISE)

    @property
    def call_epsilon(self) -> float:
        """The pure DP of one call, which is its bounded range too."""
        return self.adjacency.num_moved / self.selection_scale

    def event(self, shape: VoteShape) -> pa.Event:
        """Returns the price of the session; see `Aggregator.event`."""
        return self._session_event(self.call_epsilon, shape.num_queries, bounded_range=True)

    def plain_event(self, shape: VoteShape) -> pa.Event:
        """Returns the price of the same answers by plain composition."""
        return pa.SelfComposedEvent(pa.BoundedRangeEvent(self.call_epsilon), shape.num_queries)

    def distribution(self, votes: NDArray[np.integer]) -> Array:
        """Returns the exact distribution of one call on counts `[L]`: `[L + 1]`, the boundary last."""
        return np.asarray(self._wrapped(np.asarray(votes)[None], 0)[0])

    def _calls(self, counts: Counts, num_teachers: int) -> Calls:
        """Returns calls with one outcome for each label."""
        deficits = (counts.max(axis=1, keepdims=True) - counts).astype(np.float64)
        labels = np.arange(counts.shape[1])

        def exact_weights(row: int) -> Weights:
            return softmax_weights(deficits[row], self.selection_scale)

        def answers(outcomes: Counts) -> Answers:
            return Answers(outcomes[:, None] == labels, outcomes < len(labels))

        probabilities = softmax(counts / self.selection_scale, axis=1)
        return Calls(probabilities, exact_weights, answers)


@dataclass(frozen=True, kw_only=True)
class BoundaryTopK(BoundaryAggregator):
    """Chooses k by the exponential mechanism over the gaps and tests the set, both inside the boundary wrapper.

    The distribution of a query's outcome (a k that passes its test, or a refusal) is known exactly. Let pi be the
    probability of anything but its likeliest outcome, at most 1/2. With probability pi / (1 + pi) the query is
    abstained from: a hit. Else an outcome is drawn and released: the top-k set, or a refusal. Queries that do not hit,
    released or refused, are free. After the last hit every query is refused.

    Formal guarantee: a call is e-DP up to a failure that releases an unstable set; e is the range of the selection plus
    the epsilon of the test. The session is charged for what `target_hits` hits can give away, or for the accesses that
    the hits allow, or for all queries where they are few. Failure probabilities of all queries add up and are taken
    from delta. Source: Cohen & Lyu 2023 (boundary wrapper), Zhu & Wang 2022 (selection, test);
    docs/proofs/boundary_top_k.md.

    Attributes:
        selection_scale: beta of the Gumbel noise in votes, > 0.
        test_std: std of the test's Laplace noise in votes, > 0.
        failure_prob: as of `StableTopK`, but None is 1e-10, and a plan leaves all of them 0.6 of `session_delta`.
        padded: whether k = 0 and k = L are possible answers; all other fields as in `TargetChargedAggregator`.

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
        self.stability_test(num_teachers=1)  # raises for fields that no test takes

    @property
    def release_step(self) -> StableTopK:
        """The call without the wrapper."""
        return self.part(StableTopK, test="laplace", failure_prob=failure_prob_of(self))

    def call_epsilon_for(self, *, num_labels: int, num_teachers: int) -> float:
        """Returns the pure DP of selection and test together."""
        selection = self.release_step.gap_selection(
            num_labels=num_labels, num_teachers=num_teachers
        )
        selection_epsilon = 0.0
        if len(selection.candidates) > 1:
            selection_epsilon = self.adjacency.gap_range / self.selection_scale
        # the test is a bit: passed or refused
        pass_probs = np.array(self.stability_test(num_teachers=num_teachers).pass_probs)
        return selection_epsilon + bit_epsilon(pass_probs, self.adjacency.gap_sensitivity)

    def stability_test(self, *, num_teachers: int) -> StabilityTest:
        """Returns the test that a set has to pass, for that many teachers."""
        return self.release_step.stability_test(num_teachers=num_teachers)

    def event(self, shape: VoteShape) -> pa.Event:
        """Returns the price of the session; see `Aggregator.event`."""
        call_epsilon = self.call_epsilon_for(
            num_labels=shape.num_labels, num_teachers=shape.num_teachers
        )
        failure_prob = shape.num_queries * failure_prob_of(self)
        return self._session_event(
            call_epsilon, shape.num_queries, bounded_range=False, failure_prob=failure_prob
        )

    def plain_event(self, shape: VoteShape) -> pa.Event:
        """Returns the price of the same answers by plain composition."""
        return self.release_step.event(shape)

    def distribution(
        self, votes: NDArray[np.integer], *, num_teachers: int
    ) -> dict[tuple[int, ...] | str, float]:
        """Returns the exact distribution of one call on counts `[L]`.

        Outcomes are released sets of labels, "refused", and "boundary".
        """
        ranking = Ranking.from_counts(np.asarray(votes, dtype=np.int64)[None])
        probabilities = self._wrapped(np.asarray(votes)[None], num_teachers)[0].tolist()
        distribution: dict[tuple[int, ...] | str, float] = {
            "refused": probabilities[-2],
            "boundary": probabilities[-1],
        }
        candidates = self.release_step.gap_selection(
            num_labels=len(votes), num_teachers=num_teachers
        ).candidates
        for k, probability in zip(candidates, probabilities, strict=False):
            top_labels = np.flatnonzero(ranking.top(np.array([k]))[0])
            distribution[tuple(top_labels.tolist())] = probability
        return distribution

    def _calls(self, counts: Counts, num_teachers: int) -> Calls:
        """Returns calls with one outcome for each candidate k, released, and a refusal last."""
        selection = self.release_step.gap_selection(
            num_labels=counts.shape[1], num_teachers=num_teachers
        )
        test = self.stability_test(num_teachers=num_teachers)
        ranking = Ranking.from_counts(counts)
        gaps = ranking.gaps(padded=self.padded, num_teachers=num_teachers)
        is_constant = (selection.candidates == 0) | (selection.candidates == selection.num_labels)
        pass_probs = np.where(is_constant, 1.0, test.pass_probabilities(gaps))  # [Q, candidates]
        selection_probs = softmax(gaps / self.selection_scale, axis=1)
        refusal_probs = (selection_probs * (1 - pass_probs)).sum(axis=1, keepdims=True)

        def exact_weights(row: int) -> Weights:
            deficits = (gaps[row].max() - gaps[row]).astype(np.float64)
            selection_weights = softmax_weights(deficits, self.selection_scale)
            pass_parts = (pass_probs[row] * _GRID).astype(np.int64).tolist()  # of _GRID

            def weights(digits: int) -> list[Interval]:
                released = []
                refused_low = 0
                refused_high = 0
                for (low, high), parts in zip(selection_weights(digits), pass_parts, strict=True):
                    released.append((low * parts, high * parts))
                    refused_low += low * (_GRID - parts)
                    refused_high += high * (_GRID - parts)
                return [*released, (refused_low, refused_high)]

            return weights

        def answers(outcomes: Counts) -> Answers:
            answered = outcomes < len(selection.candidates)
            k = np.where(answered, selection.candidates[np.where(answered, outcomes, 0)], 0)
            return Answers(ranking.top(k), answered)

        probabilities = np.concatenate([selection_probs * pass_probs, refusal_probs], axis=1)
        return Calls(probabilities, exact_weights, answers)
