"""NotPriorTopK: a session that pays for contradictions of a prior, beside the releases that they lead to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import AutoAccountant, ComposedEvent, Event, calibrate
from pate.accounting.target_charging import not_prior
from pate.aggregators.aggregator import Bits, ExpectedRelease
from pate.aggregators.boundary import bit_epsilon
from pate.aggregators.stable_top_k import StableTopK
from pate.aggregators.target_charging import Round, TargetChargedAggregator, session_event
from pate.mechanisms.gap_selection import Ranking
from pate.mechanisms.noise.uniforms import LazyUniforms
from pate.mechanisms.parameters import NATURAL, NOISE, PROBABILITY
from pate.mechanisms.stability_test import StabilityTest
from pate.validation import require, require_count
from pate.votes.made_up_votes import MadeUpVotes

_SMALLEST_ROUND = 25
_CERTAIN = 28.0  # scales beyond which a probability is within 2**-40 of 0 or 1
_FEW_MARGINS, _MOST_MARGINS = 1000, 250_000
"""Larger margins are told apart only while a check changes, and beyond the second number not at all."""
_GRID = 2.0**53
_SMALLEST_PROB = 2.0**-40  # beyond it the grid's own steps would be visible


@dataclass(frozen=True, kw_only=True)
class NotPriorTopK(TargetChargedAggregator):
    """Checks the expected labels of a query, and releases others by stable top-k only where the check fails.

    The margin of a set is the smallest count in it less the largest outside. If margin + Laplace noise reaches
    `prior_margin`, the query is answered with its prior: free. Else it is a hit, and is released (or refused) as
    `StableTopK` would. The first queries, which no prior exists for, are released so without a check.

    Formal guarantees, with sens = 2 (replace-one) or 1 (add/remove):
        * A check is one bit, (sens / prior_scale)-DP with no failure, a `not_prior` target. The session is charged for
          what `target_hits` hits can give away, or for the accesses that they allow.
        * At most `first_queries + target_hits` queries go through stable top-k, which are composed beside the session,
          failures included.
        * The prior may be anything public, and anything computed from the release so far.

    Edge cases: a prior without a label expects nothing; such a query hits without a check. After the last hit every
    query is refused.

    Attributes:
        prior_scale: scale of the check's Laplace noise in votes, > 0.
        prior_margin: votes by which a prior has to lead; below 0 it may lag behind.
        first_queries: queries released without a check, >= 0.
        selection_scale: beta of the release's Gumbel noise in votes, > 0.
        table_order: Renyi order that the release's stability table is made for, > 1.
        table_budget: Renyi divergence of one test at that order, > 0.
        failure_prob: probability that an unstable set is released, per release; None as for `StableTopK`.
        padded: whether k = 0 and k = L are possible answers of a release.
        release_share: the part of a target epsilon that calibration lets the releases alone cost, in (0, 1).

    Source: Cohen & Lyu 2023 (not-prior target), Zhu & Wang 2022 (release); docs/proofs/not_prior_top_k.md.

    >>> aggregator = NotPriorTopK(prior_scale=2.0, selection_scale=2.0, table_order=3.0, table_budget=4.0,
    ...     first_queries=0, target_hits=1)
    >>> votes, prior = np.array([[90, 5, 3], [80, 90, 1]]), np.array([[True, False, False], [False, False, True]])
    >>> release = aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0), prior=prior)
    >>> release.hits, release.labels
    (array([False,  True]), array([[ True, False, False],
           [ True,  True, False]]))
    """

    prior_scale: float = field(metadata=NOISE)
    prior_margin: float = 0.0
    first_queries: int = field(default=50, metadata=NATURAL)
    selection_scale: float = field(metadata=NOISE)
    table_order: float = field(metadata=NOISE)
    table_budget: float = field(metadata=NOISE)
    failure_prob: float | None = None
    padded: bool = False
    release_share: float = field(default=0.7, metadata=PROBABILITY)

    expects_prior: ClassVar[bool] = True
    _numbers_per_query: ClassVar[int] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(np.isfinite(self.prior_margin)), "prior_margin", self.prior_margin, "a finite number")
        _ = self.release_step  # refuses what stable top-k refuses

    @property
    def never_empty(self) -> bool:
        return not self.padded

    @property
    def release_step(self) -> StableTopK:
        """What releases the first queries and the hits."""
        return self.part(StableTopK, test="table")

    def stability_test(self, *, num_teachers: int) -> StabilityTest:
        return self.release_step.stability_test(num_teachers=num_teachers)

    def agreement(self, *, num_teachers: int) -> NDArray[np.float64]:
        """The probability that a prior of each margin -R..R is kept: `[2 R + 1]`, the numbers drawn from.

        R is T, or less where the last margins pass for certain; larger ones are kept like those.
        """
        certain = abs(self.prior_margin) + _CERTAIN * self.prior_scale
        farthest = min(require_count("num_teachers", num_teachers), max(_FEW_MARGINS, math.ceil(min(certain, 1e300))))
        return _agreement(self.prior_scale, self.prior_margin, min(farthest, _MOST_MARGINS))

    def _kept(self, counts: NDArray[np.integer], expected: NDArray[np.bool_], num_teachers: int) -> NDArray[np.float64]:
        """The probability that the check of each query holds, `[Q]`."""
        table = self.agreement(num_teachers=num_teachers)
        farthest = len(table) // 2
        return table[np.clip(margins(counts, expected), -farthest, farthest) + farthest]

    def num_tests(self, num_queries: int) -> int:
        return min(num_queries, self.first_queries + self.target_hits)

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        num_releases = self.num_tests(require_count("num_queries", num_queries, minimum=0))
        num_checks = num_queries - min(num_queries, self.first_queries)
        shape = {"num_labels": num_labels, "num_teachers": num_teachers}
        releases = self.settled(num_queries=num_queries).release_step.event_for(num_queries=num_releases, **shape)
        session = session_event(
            not_prior,
            bit_epsilon(self.agreement(num_teachers=num_teachers), self.adjacency.gap_sensitivity),
            target_hits=self.target_hits,
            num_calls=num_checks,
            session_delta=self.session_delta,
            beside=releases,
        )
        return ComposedEvent((session, releases))

    def plain_event(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        return self.release_step.event_for(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)

    def scaled(self, factor: float) -> NotPriorTopK:
        """All noises multiplied by `factor`; the table's budget divided by its square."""
        return replace(self._with(self.release_step.scaled(factor)), prior_scale=self.prior_scale * factor)

    def calibrated(self, *, target_delta: float, **release: Any) -> NotPriorTopK:
        """The releases' noise for their share of the target, then the checks' noise for what is left.

        `target_hits` and `first_queries` stay as they are, and `session_delta` is set to the target's delta. Arguments
        are those of `Aggregator.calibrated`.
        """
        shape = {name: release.pop(name) for name in ("num_queries", "num_labels", "num_teachers")}
        target_epsilon, checked = release.pop("target_epsilon"), shape["num_queries"] > self.first_queries
        num_releases = self.num_tests(shape["num_queries"])
        released = self.release_step.calibrated(
            target_epsilon=target_epsilon * (self.release_share if checked else 1.0),
            target_delta=target_delta,
            **(shape | {"num_queries": num_releases}),
            **release,
        )
        base = replace(self._with(released), session_delta=target_delta)
        if not checked:
            return base
        prior_scale = calibrate(
            lambda scale: replace(base, prior_scale=scale).event_for(**shape),
            target_epsilon=target_epsilon,
            target_delta=target_delta,
            accountant=release.get("accountant", AutoAccountant),
            start=self.prior_scale,
        )
        return replace(base, prior_scale=prior_scale)

    def _expected(self, votes: MadeUpVotes, num_queries: int) -> ExpectedRelease:
        """The prior is taken to be right as often as a release is, else empty."""
        first = min(num_queries, self.first_queries)
        released = self.release_step._expected(votes, max(first, 1))
        if first == num_queries:
            return released
        right = np.arange(len(votes.labels)) < released.answered * released.present * len(votes.labels)
        checked = self._expected_with(votes.labels & right[:, None], votes, num_queries - first)
        return ExpectedRelease.together([(first, released), (num_queries - first, checked)])

    def hit_probabilities(
        self, votes: NDArray[np.int64], *, num_teachers: int, prior: Bits | None = None
    ) -> NDArray[np.float64]:
        """That its check fails, or 1 without a prior; 0 for the first queries, which are not checked."""
        expected = np.zeros(votes.shape, dtype=np.bool_) if prior is None else prior
        kept = self._kept(votes, expected, num_teachers)
        checked = np.arange(len(votes)) >= self.first_queries
        return np.where(checked, np.where(expected.any(axis=1), 1 - kept, 1.0), 0.0)

    def _with(self, release: StableTopK) -> NotPriorTopK:
        return replace(
            self,
            failure_prob=release.failure_prob,
            selection_scale=release.selection_scale,
            table_order=float(release.table_order or 0),
            table_budget=float(release.table_budget or 0),
        )

    def _rounds(self, num_queries: int) -> Iterator[slice]:
        """The first queries, then rounds as long as all before them together: a student learns in proportion."""
        start = 0
        while start < num_queries:
            end = self.first_queries if start < self.first_queries else num_queries
            stop = min(end, num_queries, start + min(self.round_size, max(start, _SMALLEST_ROUND)))
            yield slice(start, stop)
            start = stop

    def _ask(
        self, counts: NDArray[np.int64], numbers: LazyUniforms, prior: Bits | None, *, first: int, num_teachers: int
    ) -> Round:
        expected = np.zeros(counts.shape, dtype=np.bool_) if prior is None else prior
        checked = first + np.arange(len(counts)) >= self.first_queries
        kept = self._kept(counts, expected, num_teachers)
        agreed = checked & expected.any(axis=1) & (numbers.column(0).on_grid() < kept)
        step, ranking = self.release_step, Ranking.of(counts)
        selection = step.steps(num_labels=counts.shape[1], num_teachers=num_teachers).selection
        k = selection.select(ranking, numbers.column(1))
        labels, answered = step.tested(ranking, k, numbers.column(2).on_grid(), num_teachers=num_teachers)
        return Round(np.where(agreed[:, None], expected, labels), agreed | answered, checked & ~agreed)


def margins(counts: NDArray[np.integer], sets: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The smallest count in each set less the largest outside: `[Q]`; 0 for an empty set, which has none."""
    inside = np.where(sets, counts, np.iinfo(np.int64).max).min(axis=1)
    outside = np.where(sets, 0, counts).max(axis=1)
    return np.where(sets.any(axis=1), inside.astype(np.int64) - outside.astype(np.int64), 0)


@lru_cache(maxsize=64)
def _agreement(prior_scale: float, prior_margin: float, farthest: int) -> NDArray[np.float64]:
    x = (np.arange(-farthest, farthest + 1) - prior_margin) / prior_scale
    tail = np.exp(-np.abs(x)) / 2
    kept = np.where(x < 0, tail, 0.5 - np.expm1(-np.abs(x)) / 2)
    rounded = np.floor(np.clip(kept, _SMALLEST_PROB, 1 - _SMALLEST_PROB) * _GRID) / _GRID
    rounded.setflags(write=False)
    return np.asarray(rounded)
