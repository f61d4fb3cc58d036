"""BoundaryTopK: stable top-k under target charging, paid for by the queries in doubt alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event
from pate.accounting.target_charging import boundary_distribution, tight_boundary
from pate.aggregators.histogram import Bits
from pate.aggregators.stable.stable_top_k import StableTopK
from pate.aggregators.target_charging.aggregator import TargetChargedAggregator
from pate.aggregators.target_charging.rounds import Round
from pate.aggregators.target_charging.session_price import session_event
from pate.aggregators.target_charging.top_k_call import TopKCall
from pate.mechanisms.gap_selection import GapSelection
from pate.mechanisms.noise.categorical import boundary_weights, draw_index
from pate.mechanisms.noise.uniforms import LazyUniforms
from pate.mechanisms.ranking import Ranking
from pate.mechanisms.stability_test import StabilityTest
from pate.validation import require_count, require_positive


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
        """The call's second step, for that many teachers."""
        return StabilityTest.laplace(
            test_std=self.test_std,
            failure_prob=self.failure_prob,
            num_teachers=num_teachers,
            adjacency=self.adjacency,
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

    def scaled(self, factor: float) -> BoundaryTopK:
        """Both noises multiplied by `factor`."""
        return replace(self, selection_scale=self.selection_scale * factor, test_std=self.test_std * factor)

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
        """That the outcome is the boundary; there is no prior."""
        call = self.call(num_labels=votes.shape[1], num_teachers=num_teachers)
        return np.asarray(
            boundary_distribution(call.distribution(Ranking.of(np.asarray(votes, dtype=np.int64))))[:, -1]
        )

    def _ask(
        self,
        counts: NDArray[np.int64],
        numbers: LazyUniforms,
        prior: Bits | None,
        *,
        first: int,
        num_teachers: int,
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
