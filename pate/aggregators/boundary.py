"""Sessions that pay for queries in doubt: the boundary wrapper around a top-k release, and around a maximum."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, BoundedRangeEvent, Event, SelfComposedEvent
from pate.accounting.special import softmax
from pate.accounting.target_charging import boundary_distribution, tight_boundary
from pate.aggregators.aggregator import Bits, require_shape
from pate.aggregators.stable_top_k import StableTopK
from pate.aggregators.target_charging import Round, TargetChargedAggregator, session_event
from pate.mechanisms.gap_selection import Ranking
from pate.mechanisms.noise import uniforms
from pate.mechanisms.noise.uniforms import Interval, LazyUniforms, Weights, softmax_weights
from pate.mechanisms.parameters import NOISE, PROBABILITY
from pate.mechanisms.stability_test import StabilityTest
from pate.validation import require_count

Array = NDArray[np.float64]

_GRID = 2**53


def bit_epsilon(probabilities: Array, reach: int) -> float:
    """Pure DP of a bit with these probabilities at consecutive statistics, which neighbors move by `reach` at most."""
    largest = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        for logs in (np.log(probabilities), np.log1p(-probabilities)):
            for step in range(1, min(reach, len(logs) - 1) + 1):
                moves = np.abs(logs[step:] - logs[:-step])
                largest = max(largest, float(np.where(np.isnan(moves), 0.0, moves).max()))  # neither ever: no move
    return largest


@lru_cache(maxsize=64)
def _test_epsilon(test: StabilityTest) -> float:
    """Of passing or refusing, from the numbers that are drawn from."""
    return bit_epsilon(np.array(test.pass_probs), test.adjacency.gap_sensitivity)


@dataclass(frozen=True, kw_only=True)
class BoundaryAggregator(TargetChargedAggregator):
    """Calls in the boundary wrapper. A subclass says what a call's outcomes are, and how likely each is."""

    @abstractmethod
    def _calls(self, counts: NDArray[np.int64], num_teachers: int) -> tuple[Array, Callable[[int], Weights]]:
        """The distribution of each query's outcomes, `[Q, n]`, and that of one query as exact weights."""

    def hit_probabilities(
        self, votes: NDArray[np.int64], *, num_teachers: int, prior: Bits | None = None
    ) -> NDArray[np.float64]:
        return np.asarray(self._wrapped(votes, num_teachers)[:, -1])

    def _wrapped(self, counts: NDArray[np.integer], num_teachers: int) -> Array:
        """The distribution inside the wrapper, `[Q, n + 1]`, the boundary last."""
        return boundary_distribution(self._calls(np.asarray(counts, dtype=np.int64), num_teachers)[0])

    def _outcomes(self, counts: NDArray[np.int64], numbers: LazyUniforms, num_teachers: int) -> NDArray[np.int64]:
        """Which of them happens, `[Q]`."""
        distribution, weights = self._calls(counts, num_teachers)
        wrapped = boundary_distribution(distribution)
        return uniforms.draw_index(wrapped, numbers.column(0), lambda row: uniforms.boundary_weights(weights(row)))

    def _session_event(
        self, call_epsilon: float, num_calls: int, *, bounded_range: bool, failure_prob: float = 0.0
    ) -> Event:
        return session_event(
            tight_boundary,
            call_epsilon,
            target_hits=self.target_hits,
            num_calls=num_calls,
            session_delta=self.session_delta,
            failure_prob=failure_prob,
            bounded_range=bounded_range,
        )


@dataclass(frozen=True, kw_only=True)
class BoundaryMax(BoundaryAggregator):
    """Releases one label per query, by the exponential mechanism over the counts inside the boundary wrapper.

    A query whose likeliest label is not certain is abstained from with a probability of at most 1/3: a hit. All
    others are free. No query is refused before the session halts.

    Formal guarantees:
        * Each count moves by at most 1: a call is (2 / selection_scale)-DP under replace-one and
          (1 / selection_scale)-DP under add/remove, where all counts move in one direction. There is no failure.
        * That holds for any votes, one label per teacher or several.

    Attributes:
        selection_scale: beta of the Gumbel noise in votes, > 0.

    Source: Cohen & Lyu 2023 (boundary wrapper); docs/proofs/boundary_top_k.md.

    >>> aggregator = BoundaryMax(selection_scale=2.0, target_hits=1)
    >>> release = aggregator.aggregate(np.array([[95, 5, 0]]), num_teachers=100, rng=np.random.default_rng(0))
    >>> release.labels, release.num_hits
    (array([[ True, False, False]]), 0)
    """

    single_label: ClassVar[bool] = True

    selection_scale: float = field(metadata=NOISE)

    @property
    def call_epsilon(self) -> float:
        """Pure DP of one call, and its bounded range."""
        return (2 if self.adjacency is Adjacency.REPLACE_ONE else 1) / self.selection_scale

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        require_shape(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)
        return self._session_event(self.call_epsilon, num_queries, bounded_range=True)

    def plain_event(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        return SelfComposedEvent(BoundedRangeEvent(self.call_epsilon), num_queries)

    def distribution(self, votes: NDArray[np.integer]) -> NDArray[np.float64]:
        """The exact distribution of one call on `[L]` counts: `[L + 1]`, the boundary last."""
        return np.asarray(self._wrapped(np.asarray(votes)[None], 0)[0])

    def _calls(self, counts: NDArray[np.int64], num_teachers: int) -> tuple[Array, Callable[[int], Weights]]:
        deficits = (counts.max(axis=1, keepdims=True) - counts).astype(np.float64)
        distribution = softmax(counts / self.selection_scale, axis=1)
        return distribution, lambda row: softmax_weights(deficits[row], self.selection_scale)

    def _ask(
        self, counts: NDArray[np.int64], numbers: LazyUniforms, prior: Bits | None, *, first: int, num_teachers: int
    ) -> Round:
        num_labels, outcomes = counts.shape[1], self._outcomes(counts, numbers, num_teachers)
        labels = outcomes[:, None] == np.arange(num_labels)
        return Round(labels, outcomes < num_labels, outcomes == num_labels)


@dataclass(frozen=True, kw_only=True)
class BoundaryTopK(BoundaryAggregator):
    """Chooses k by the exponential mechanism over the gaps and tests the set, both inside the boundary wrapper.

    The distribution of a query's outcome (a k that passes its test, or a refusal) is known exactly. With pi the
    probability of anything but its likeliest outcome, at most 1/2, the query is abstained from with probability pi / (1
    + pi): a hit. Else an outcome is drawn and released: the top-k set, or a refusal. Clear queries, released or
    refused, are free.

    Formal guarantees:
        * A call is e-DP up to a failure that releases an unstable set, e = selection range + the test's.
        * The session is charged for what `target_hits` hits can give away, or for the accesses that they allow.
        * Failure probabilities of all queries add up and are taken from delta.

    Edge cases: after the last hit every query is refused. With few queries all of them are composed, hits or not.

    Attributes:
        selection_scale: beta of the Gumbel noise in votes, > 0.
        test_std: std of the test's Laplace noise in votes, > 0.
        failure_prob: probability that an unstable set is released, per query. None for 1e-10, or less where the
            failures of all queries would take more than 0.6 of `session_delta` (`settled`).
        padded: whether k = 0 and k = L are possible answers.

    Source: Cohen & Lyu 2023 (boundary wrapper), Zhu & Wang 2022 (selection, test); docs/proofs/boundary_top_k.md.

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
        self.stability_test(num_teachers=1)  # refuses what it refuses

    @property
    def release_step(self) -> StableTopK:
        """The call without the wrapper."""
        return self.part(StableTopK, test="laplace", failure_prob=self.failure_prob or self.usual_failure_prob)

    def call_epsilon_for(self, *, num_labels: int, num_teachers: int) -> float:
        """Pure DP of selection and test together."""
        selection = self.release_step.gap_selection(num_labels=num_labels, num_teachers=num_teachers)
        chosen = self.adjacency.gap_range / self.selection_scale if len(selection.candidates) > 1 else 0.0
        return chosen + _test_epsilon(self.stability_test(num_teachers=num_teachers))

    def stability_test(self, *, num_teachers: int) -> StabilityTest:
        return self.release_step.stability_test(num_teachers=num_teachers)

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        settled = self.settled(num_queries=require_count("num_queries", num_queries, minimum=0))
        call_epsilon = settled.call_epsilon_for(num_labels=num_labels, num_teachers=num_teachers)
        failure_prob = num_queries * float(settled.failure_prob or 0)
        return self._session_event(call_epsilon, num_queries, bounded_range=False, failure_prob=failure_prob)

    def plain_event(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        step = self.settled(num_queries=num_queries).release_step
        return step.event_for(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)

    def distribution(self, votes: NDArray[np.integer], *, num_teachers: int) -> dict[tuple[int, ...] | str, float]:
        """The exact distribution of one call on `[L]` counts: released sets of labels, "refused", and "boundary"."""
        ranking = Ranking.of(np.asarray(votes, dtype=np.int64)[None])
        probabilities = self._wrapped(np.asarray(votes)[None], num_teachers)[0].tolist()
        distribution: dict[tuple[int, ...] | str, float] = {"refused": probabilities[-2], "boundary": probabilities[-1]}
        candidates = self.release_step.gap_selection(num_labels=len(votes), num_teachers=num_teachers).candidates
        for k, probability in zip(candidates, probabilities, strict=False):
            distribution[tuple(np.flatnonzero(ranking.top(np.array([k]))[0]).tolist())] = probability
        return distribution

    def _calls(self, counts: NDArray[np.int64], num_teachers: int) -> tuple[Array, Callable[[int], Weights]]:
        """Each candidate k released, and a refusal last; exactly, a test passes with a multiple of 2**-53."""
        selection = self.release_step.gap_selection(num_labels=counts.shape[1], num_teachers=num_teachers)
        test = self.stability_test(num_teachers=num_teachers)
        gaps = Ranking.of(counts).gaps(padded=self.padded, num_teachers=num_teachers)
        constant = (selection.candidates == 0) | (selection.candidates == selection.num_labels)
        passed = np.where(constant, 1.0, test.pass_probabilities(gaps))
        utilities = gaps / self.selection_scale
        weights = np.exp(utilities - utilities.max(axis=1, keepdims=True))
        chosen = weights / weights.sum(axis=1, keepdims=True)
        refused = (chosen * (1 - passed)).sum(axis=1, keepdims=True)

        def exactly(row: int) -> Weights:
            deficits = (gaps[row].max() - gaps[row]).astype(np.float64)
            single, parts = (
                softmax_weights(deficits, self.selection_scale),
                (passed[row] * _GRID).astype(np.int64).tolist(),
            )

            def weights(digits: int) -> list[Interval]:
                intervals = list(zip(single(digits), parts, strict=True))
                kept = [(low * n, high * n) for (low, high), n in intervals]
                lost = [(low * (_GRID - n), high * (_GRID - n)) for (low, high), n in intervals]
                return [*kept, (sum(low for low, _ in lost), sum(high for _, high in lost))]

            return weights

        return np.concatenate([chosen * passed, refused], axis=1), exactly

    def _ask(
        self, counts: NDArray[np.int64], numbers: LazyUniforms, prior: Bits | None, *, first: int, num_teachers: int
    ) -> Round:
        shape = {"num_labels": counts.shape[1], "num_teachers": num_teachers}
        candidates = self.release_step.gap_selection(**shape).candidates
        outcomes = self._outcomes(counts, numbers, num_teachers)
        answered = outcomes < len(candidates)
        k = np.where(answered, candidates[np.minimum(outcomes, len(candidates) - 1)], 0)
        return Round(Ranking.of(counts).top(k), answered, outcomes == len(candidates) + 1)
