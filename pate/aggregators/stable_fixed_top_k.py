"""Stable top-k of a fixed size: a stable set near size k, filled up or cut down to k labels by peeling.

Where a query's counts have a clear gap near k, stable top-k finds it at little cost, and few labels or none are left to
pick. Peeling picks the rest with noise on single counts. Nobody sees which way the labels came.

Source: Zhu & Wang 2022, Algorithm 3; docs/proofs/stable_fixed_top_k.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Budget, ComposedEvent, Event, NoOpEvent, SelfComposedEvent
from pate.accounting.event_tree import count_leaves
from pate.accounting.rdp import rdp_curve
from pate.aggregators.aggregator import Bits, Counts, Rng
from pate.aggregators.failures import with_failure_prob_for
from pate.aggregators.gap_tests import GaussianTest, TableTest
from pate.aggregators.release import Answers
from pate.aggregators.stable_split import split_budget
from pate.aggregators.stable_top_k import StableAggregator, StableTopK
from pate.mechanisms import gap_selection as selecting
from pate.mechanisms.parameters import COUNT, NOISE, PROBABILITY
from pate.mechanisms.top_k.peeling import SubsetPeeling
from pate.validation import require
from pate.votes.shape import VoteShape


@dataclass(frozen=True, kw_only=True)
class StableFixedTopK(StableAggregator):
    """Releases exactly k labels for every query: a stable set near size k, filled up or cut down by peeling.

    Rule: `StableTopK` draws a set first, with a regularizer that prefers sizes near k. A set of k labels is released as
    it is. From a larger set k labels are peeled. To a smaller set peeled labels from outside are added. If the test
    refused, all k are peeled from all labels, as after a stable set of size 0 or L with `padded`. Only the k labels are
    released, and not the way to them. `max_k` limits the stable set alone. With k = L nothing is charged.

    Formal guarantee, per query, whichever way it went: the cost of `StableTopK` composed with that of `SubsetPeeling`,
    failures as there. Source: Zhu & Wang 2022, Algorithm 3; docs/proofs/stable_fixed_top_k.md.

    Attributes:
        k: the number of labels of each answer, 1..L.
        peel_scale: scale of the Gumbel noise on counts for a single pick, in votes, > 0; j picks use sqrt(j) times it.
        penalty: votes that a candidate loses for each label away from k, >= 0.
        peel_share: the part of the whole Renyi budget that calibration of a table gives to the peel, in (0, 1). The
            paper's is 0.5; the peel decides most labels, and deserves more. All other fields are as in `StableTopK`.

    >>> aggregator = StableFixedTopK(k=2, selection_scale=2.0, test_std=3.0, peel_scale=1.0)
    >>> votes = np.array([[90, 88, 1, 0], [99, 1, 40, 0], [50, 90, 70, 60]])
    >>> aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0)).labels.astype(int)
    array([[1, 1, 0, 0],
           [1, 0, 1, 0],
           [0, 1, 1, 0]])
    """

    k: int = field(metadata=COUNT)
    peel_scale: float = field(metadata=NOISE)
    penalty: float = 0.0
    peel_share: float = field(default=0.8, metadata=PROBABILITY)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.stable_top_k  # raises for fields that no stable top-k takes

    def _with_steps_scaled(self, factor: float) -> Self:
        """Returns the same aggregator with `factor` times the noise of its steps, and the test as it is."""
        return replace(
            self,
            selection_scale=self.selection_scale * factor,
            peel_scale=self.peel_scale * factor,
        )

    def _paper_zcdp(self, test: GaussianTest) -> float:
        """Returns the rho that the paper's formula charges for one query, the peel at its add/remove price."""
        return super()._paper_zcdp(test) + 1 / (8 * self.peel_scale**2)

    @property
    def exact_labels(self) -> int:
        """The number of labels that every answer names: `k`."""
        return self.k

    @property
    def stable_top_k(self) -> StableTopK:
        """The first step: the stable set."""
        return self.part(
            StableTopK, regularizer=selecting.FixedKRegularizer(k=self.k, penalty=self.penalty)
        )

    @property
    def peeling(self) -> SubsetPeeling:
        """The second step: the picks."""
        return SubsetPeeling(noise_scale=self.peel_scale, adjacency=self.adjacency)

    def event(self, shape: VoteShape) -> Event:
        """Returns the price of both steps for each query; raises `InvalidValue` for fewer labels than k."""
        rule = f"at most the number of labels, {shape.num_labels}"
        require(self.k <= shape.num_labels, "k", self.k, rule)
        if self.k == shape.num_labels:
            return SelfComposedEvent(NoOpEvent(), shape.num_queries)
        steps = self.stable_top_k.steps(
            num_labels=shape.num_labels, num_teachers=shape.num_teachers
        )
        query_event = ComposedEvent((*steps.event.events, self.peeling.event))
        return SelfComposedEvent(query_event, shape.num_queries)

    def fitted(self, budget: Budget, shape: VoteShape) -> StableFixedTopK:
        """Returns the same aggregator with the least noise that meets a budget.

        With a table its order and all three noises are found anew: those of the first step by `split_budget`, from the
        part 1 - `peel_share` of the Renyi budget, and the peel's from the rest. Else the noises keep their proportion.
        Then `scaled_to` multiplies all by the least factor that meets the budget.
        """
        planned = with_failure_prob_for(self, delta=budget.delta, num_queries=shape.num_queries)
        if not isinstance(self.gap_test, TableTest) or self.k >= shape.num_labels:
            return planned.scaled_to(budget, shape)
        stable_top_k = split_budget(
            planned.stable_top_k,
            budget,
            shape,
            selection_share=self.selection_share,
            budget_share=1 - self.peel_share,
        )
        steps = stable_top_k.steps(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
        test = stable_top_k.gap_test
        assert isinstance(test, TableTest)  # a split keeps the kind of test
        order = test.order
        rdp_of_steps = float(rdp_curve(count_leaves(steps.event), np.array([order]))[0])
        # The steps cost the part 1 - peel_share at the table's order, and so the peel costs rdp_of_steps times the
        # ratio of both parts. A peel of range r costs order * r**2 / 8, which is solved for r.
        peel_rdp = rdp_of_steps * self.peel_share / (1 - self.peel_share)
        peel_range = math.sqrt(8 * peel_rdp / order)
        split = replace(
            self,
            failure_prob=stable_top_k.failure_prob,
            selection_scale=stable_top_k.selection_scale,
            table_order=test.order,
            table_budget=test.budget,
            peel_scale=self.adjacency.gap_sensitivity / peel_range,
        )
        return split.scaled_to(budget, shape)

    def distribution(
        self, votes: NDArray[np.integer], *, num_teachers: int
    ) -> dict[tuple[int, ...], float]:
        """Returns the exact distribution for one small histogram `[L]`: released sets of k labels."""
        counts = np.asarray(votes, dtype=np.int64)
        num_labels = len(votes)
        self.event(VoteShape(1, num_labels, num_teachers))  # refuses a k that is too large
        if self.k == num_labels:
            return {tuple(range(num_labels)): 1.0}
        distribution: dict[tuple[int, ...], float] = {}
        stable_sets = self.stable_top_k.distribution(counts, num_teachers=num_teachers)
        for stable_set, set_probability in stable_sets.items():
            bits = np.isin(np.arange(num_labels), stable_set or ())
            peel = Peel.from_stable(bits[None], self.k)
            unpeeled = np.flatnonzero(peel.unpeeled[0]).tolist()
            all_picks = self.peeling.distribution_of(
                counts, peel.candidates[0], int(peel.num_picks[0])
            )
            for picks, pick_probability in all_picks.items():
                labels = tuple(sorted({*picks, *unpeeled}))
                probability = set_probability * pick_probability
                distribution[labels] = distribution.get(labels, 0.0) + probability
        return distribution

    def draw(self, summary: Counts, shape: VoteShape, rng: Rng) -> Answers:
        """Draws a stable set for each query, and then picks: k inside too large a set, or the missing ones outside."""
        if self.k == shape.num_labels:
            return Answers.to_all(np.ones(summary.shape, dtype=np.bool_))
        stable = self.stable_top_k.draw(summary, shape, rng).labels
        peel = Peel.from_stable(stable, self.k)
        picks = self.peeling.draw(summary, peel.candidates, peel.num_picks, rng)
        return Answers.to_all(peel.unpeeled | picks)


@dataclass(frozen=True, eq=False)
class Peel:
    """The picks by which stable sets of q queries become sets of k labels; a set without any label is a refusal.

    Attributes:
        unpeeled: `[q, L]`, labels of the stable set that are released without a pick.
        candidates: `[q, L]`, labels that picks are made from.
        num_picks: `[q]`.
    """

    unpeeled: Bits
    candidates: Bits
    num_picks: Counts

    @classmethod
    def from_stable(cls, stable: Bits, k: int) -> Self:
        """Returns the picks for stable sets `[q, L]`: inside a set that is too large, outside of one too small."""
        size = stable.sum(axis=1)
        is_large = (size > k)[:, None]
        return cls(
            unpeeled=stable & ~is_large,
            candidates=np.where(is_large, stable, ~stable),
            num_picks=np.where(size > k, k, k - size),
        )
