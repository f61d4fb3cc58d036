"""Sessions that pay for queries in doubt: the boundary wrapper around a top-k release, and around a maximum."""

from __future__ import annotations

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
from pate.mechanisms.gap_selection import GapSelection, Ranking
from pate.mechanisms.noise.uniforms import (
    Interval,
    LazyUniforms,
    Weights,
    boundary_weights,
    draw_index,
    softmax_weights,
)
from pate.mechanisms.stability_test import StabilityTest
from pate.validation import require_count, require_positive

Array = NDArray[np.float64]

_GRID = 2**53


@dataclass(frozen=True)
class TopKCall:
    """Gap selection by the exponential mechanism, then a stability test at the chosen k; a refusal hides k.

    Formal guarantees:
        * The outcome (k, or a refusal) depends on the gaps alone and is `epsilon`-DP, with no failure.
        * The set of the k best labels is that of the neighbor except with the test's failure probability.

    Attributes:
        selection: with Gumbel noise.
        test: its log odds rise by a bounded amount from gap to gap, as with Laplace noise.
    """

    selection: GapSelection
    test: StabilityTest

    @property
    def epsilon(self) -> float:
        """Pure DP of selection and test together."""
        chosen = self.selection.adjacency.gap_range / self.selection.noise_scale
        return (chosen if len(self.selection.candidates) > 1 else 0.0) + _test_epsilon(self.test)

    def distribution(self, ranking: Ranking) -> Array:
        """The exact distribution: `[Q, n + 1]`, each candidate k released, and a refusal last."""
        selection, num_teachers = self.selection, self.test.num_teachers
        gaps = ranking.gaps(padded=selection.padded, num_teachers=num_teachers)
        utilities = gaps / selection.noise_scale
        weights = np.exp(utilities - utilities.max(axis=1, keepdims=True))
        chosen = weights / weights.sum(axis=1, keepdims=True)
        passed = self._passed(gaps)
        refused = (chosen * (1 - passed)).sum(axis=1, keepdims=True)
        return np.concatenate([chosen * passed, refused], axis=1)

    def weights(self, ranking: Ranking, row: int) -> Weights:
        """The same for one histogram, exactly; a test passes with a multiple of 2**-53."""
        gaps = ranking.gaps(padded=self.selection.padded, num_teachers=self.test.num_teachers)[row]
        chosen = softmax_weights((gaps.max() - gaps).astype(np.float64), self.selection.noise_scale)
        passed = [int(prob * _GRID) for prob in self._passed(gaps).tolist()]

        def weights(digits: int) -> list[Interval]:
            intervals = chosen(digits)
            kept = [(low * n, high * n) for (low, high), n in zip(intervals, passed, strict=True)]
            lost = [(low * (_GRID - n), high * (_GRID - n)) for (low, high), n in zip(intervals, passed, strict=True)]
            return [*kept, (sum(low for low, _ in lost), sum(high for _, high in lost))]

        return weights

    def _passed(self, gaps: NDArray[np.int64]) -> Array:
        """The probability that each candidate's set is released; 1 where it is constant."""
        constant = (self.selection.candidates == 0) | (self.selection.candidates == self.selection.num_labels)
        return np.where(constant, 1.0, self.test.pass_probabilities(gaps))


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
class BoundaryMax(TargetChargedAggregator):
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

    selection_scale: float = field(metadata={"noise": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("selection_scale", self.selection_scale)

    @property
    def call_epsilon(self) -> float:
        """Pure DP of one call, and its bounded range."""
        return (2 if self.adjacency is Adjacency.REPLACE_ONE else 1) / self.selection_scale

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        """The session: what its hits can cost, or all queries where those are fewer."""
        require_shape(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)
        return session_event(
            tight_boundary,
            self.call_epsilon,
            target_hits=self.target_hits,
            num_calls=num_queries,
            session_delta=self.session_delta,
            bounded_range=True,
        )

    def plain_event(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        """The exponential mechanism for every query."""
        return SelfComposedEvent(BoundedRangeEvent(self.call_epsilon), num_queries)

    def distribution(self, votes: NDArray[np.integer]) -> NDArray[np.float64]:
        """The exact distribution of one call on `[L]` counts: `[L + 1]`, the boundary last."""
        return np.asarray(self._distribution(np.asarray(votes)[None])[0])

    def hit_probabilities(
        self, votes: NDArray[np.int64], *, num_teachers: int, prior: Bits | None = None
    ) -> NDArray[np.float64]:
        return np.asarray(self._distribution(votes)[:, -1])

    def _distribution(self, counts: NDArray[np.integer]) -> NDArray[np.float64]:
        return boundary_distribution(softmax(counts / self.selection_scale, axis=1))

    def _ask(
        self, counts: NDArray[np.int64], numbers: LazyUniforms, prior: Bits | None, *, first: int, num_teachers: int
    ) -> Round:
        num_labels = counts.shape[1]
        deficits = (counts.max(axis=1, keepdims=True) - counts).astype(np.float64)
        outcomes = draw_index(
            self._distribution(counts),
            numbers.column(0),
            lambda row: boundary_weights(softmax_weights(deficits[row], self.selection_scale)),
        )
        labels = outcomes[:, None] == np.arange(num_labels)
        return Round(labels, outcomes < num_labels, outcomes == num_labels)


@dataclass(frozen=True, kw_only=True)
class BoundaryTopK(TargetChargedAggregator):
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
        failure_prob: probability that an unstable set is released, per query.
        padded: whether k = 0 and k = L are possible answers.

    Source: Cohen & Lyu 2023 (boundary wrapper), Zhu & Wang 2022 (selection, test); docs/proofs/boundary_top_k.md.

    >>> aggregator = BoundaryTopK(selection_scale=2.0, test_std=3.0, target_hits=2, failure_prob=1e-9)
    >>> votes = np.array([[90, 88, 1, 0], [51, 50, 49, 48]])
    >>> release = aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    >>> release.labels[0], release.answered, release.num_hits
    (array([ True,  True, False, False]), array([ True, False]), 0)
    """

    selection_scale: float = field(metadata={"noise": True})
    test_std: float = field(metadata={"noise": True})
    failure_prob: float = 1e-10
    padded: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("selection_scale", self.selection_scale)
        require_positive("test_std", self.test_std)
        self.call(num_labels=2, num_teachers=1)

    def call(self, *, num_labels: int, num_teachers: int) -> TopKCall:
        """What the wrapper wraps, for votes of that shape."""
        selection = GapSelection(
            noise_scale=self.selection_scale,
            num_labels=num_labels,
            num_teachers=num_teachers,
            padded=self.padded,
            adjacency=self.adjacency,
        )
        return TopKCall(selection, self.stability_test(num_teachers=num_teachers))

    def stability_test(self, *, num_teachers: int) -> StabilityTest:
        return StabilityTest.laplace(
            test_std=self.test_std, failure_prob=self.failure_prob, num_teachers=num_teachers, adjacency=self.adjacency
        )

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        """The session: what its hits can cost, or all queries where those are fewer."""
        call = self.call(num_labels=num_labels, num_teachers=num_teachers)
        require_count("num_queries", num_queries, minimum=0)
        return session_event(
            tight_boundary,
            call.epsilon,
            target_hits=self.target_hits,
            num_calls=num_queries,
            session_delta=self.session_delta,
            failure_prob=num_queries * self.failure_prob,
            bounded_range=False,
        )

    def plain_event(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        """Selection and test of every query, without the wrapper."""
        aggregator = StableTopK(
            selection_scale=self.selection_scale,
            test="laplace",
            test_std=self.test_std,
            failure_prob=self.failure_prob,
            padded=self.padded,
            adjacency=self.adjacency,
        )
        return aggregator.event_for(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)

    def distribution(self, votes: NDArray[np.integer], *, num_teachers: int) -> dict[tuple[int, ...] | str, float]:
        """The exact distribution of one call on `[L]` counts: released sets of labels, "refused", and "boundary"."""
        call = self.call(num_labels=len(votes), num_teachers=num_teachers)
        ranking = Ranking.of(np.asarray(votes, dtype=np.int64)[None])
        probabilities = boundary_distribution(call.distribution(ranking))[0].tolist()
        distribution: dict[tuple[int, ...] | str, float] = {"refused": probabilities[-2], "boundary": probabilities[-1]}
        for k, probability in zip(call.selection.candidates, probabilities, strict=False):
            distribution[tuple(np.flatnonzero(ranking.top(np.array([k]))[0]).tolist())] = probability
        return distribution

    def hit_probabilities(
        self, votes: NDArray[np.int64], *, num_teachers: int, prior: Bits | None = None
    ) -> NDArray[np.float64]:
        call = self.call(num_labels=votes.shape[1], num_teachers=num_teachers)
        return np.asarray(
            boundary_distribution(call.distribution(Ranking.of(np.asarray(votes, dtype=np.int64))))[:, -1]
        )

    def _ask(
        self, counts: NDArray[np.int64], numbers: LazyUniforms, prior: Bits | None, *, first: int, num_teachers: int
    ) -> Round:
        call = self.call(num_labels=counts.shape[1], num_teachers=num_teachers)
        ranking, candidates = Ranking.of(counts), call.selection.candidates
        outcomes = draw_index(
            boundary_distribution(call.distribution(ranking)),
            numbers.column(0),
            lambda row: boundary_weights(call.weights(ranking, row)),
        )
        answered = outcomes < len(candidates)
        k = np.where(answered, candidates[np.minimum(outcomes, len(candidates) - 1)], 0)
        return Round(ranking.top(k), answered, outcomes == len(candidates) + 1)
