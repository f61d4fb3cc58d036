"""Stable top-k of a fixed size: a stable set of about k labels, changed to exactly k labels by peeling.

If the counts of a query have a clear gap near place k, stable top-k finds a set of about k labels at a low price.
Peeling then picks the few labels to add or keep, with noise on single counts. Only the final k labels are released.
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
from pate.aggregators.aggregator import Rng
from pate.aggregators.answers import Answers
from pate.aggregators.failures import with_failure_prob_for
from pate.aggregators.gap_tests import GaussianTest, TableTest
from pate.aggregators.stable_aggregator import StableAggregator
from pate.aggregators.stable_split import split_budget
from pate.aggregators.stable_top_k import StableTopK
from pate.array_types import BoolArray, IntArray
from pate.mechanisms.gap_selection import FixedKRegularizer
from pate.mechanisms.parameters import COUNT, NOISE, PROBABILITY
from pate.mechanisms.top_k.peeling import SubsetPeeling
from pate.validation import require
from pate.votes.shape import VoteShape


@dataclass(frozen=True, kw_only=True)
class StableFixedTopK(StableAggregator):
    """Releases exactly k labels for every query: a stable set of about k labels, changed to k labels by peeling.

    Rule: `StableTopK` draws a stable set, with a regularizer that prefers sizes near k if `penalty` > 0. A set of k
    labels is released unchanged. From a larger set, k labels are picked by peeling. To a smaller set, labels picked
    from outside are added. All k labels are picked from all labels if the test refuses the set. With `padded`, the same
    holds for a stable set of size 0 or L. Only the k labels are released, not the stable set. `max_k` limits the stable
    set alone. If k is the number of labels, nothing is charged.

    Formal guarantee: each query costs as much as `StableTopK` composed with `SubsetPeeling`, for any stable set. The
    failure probabilities are those of `StableTopK`.

    Source: Zhu & Wang 2022, Algorithm 3; docs/proofs/stable_fixed_top_k.md.

    Attributes:
        k: the number of labels in each answer, from 1 to the number of labels.
        peel_scale: scale in votes of the Gumbel noise for a single pick, > 0; for j picks the scale is sqrt(j) times as
            large.
        penalty: the regularizer subtracts this number of votes for each label by which a size differs from k, >= 0.
        peel_share: the part of the Renyi budget for the peel, in (0, 1), when noise is fitted with a table. The paper
            takes 0.5. The default is larger, as the peel decides most labels. `StableTopK` has the other fields.

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

    def _validate(self) -> None:
        """Raises `InvalidValue` for fields that the test or the first step, a `StableTopK`, refuses."""
        super()._validate()
        _ = self.stable_top_k  # raises `InvalidValue` for fields that no stable top-k takes

    def _with_steps_scaled(self, noise_factor: float) -> Self:
        """Returns a copy with `noise_factor` times the noise of selection and peeling; the test is unchanged."""
        return replace(
            self,
            selection_scale=self.selection_scale * noise_factor,
            peel_scale=self.peel_scale * noise_factor,
        )

    def _paper_zcdp(self, gap_test: GaussianTest) -> float:
        """Returns the zCDP rho of one query by the paper's formula: stable top-k, plus the peel.

        The peel counts by its price under add/remove, whatever the adjacency.
        """
        return super()._paper_zcdp(gap_test) + 1 / (8 * self.peel_scale**2)

    @property
    def exact_labels(self) -> int:
        """The number of labels that every answer names: `k`."""
        return self.k

    @property
    def stable_top_k(self) -> StableTopK:
        """The first step, which draws a stable set."""
        regularizer = FixedKRegularizer(k=self.k, penalty=self.penalty)
        return self.convert_to(StableTopK, regularizer=regularizer)

    @property
    def peeling(self) -> SubsetPeeling:
        """The second step, which picks labels by noisy counts."""
        return SubsetPeeling(noise_scale=self.peel_scale, adjacency=self.adjacency)

    def event(self, shape: VoteShape) -> Event:
        """Returns the price of both steps for each query; raises `InvalidValue` if there are fewer than k labels."""
        self._require_labels(shape.num_labels)
        if self.k == shape.num_labels:
            return SelfComposedEvent(NoOpEvent(), count=shape.num_queries)
        steps = self.stable_top_k.steps(
            num_labels=shape.num_labels, num_teachers=shape.num_teachers
        )
        query_event = ComposedEvent(events=(*steps.event.events, self.peeling.event))
        return SelfComposedEvent(query_event, count=shape.num_queries)

    def _require_labels(self, num_labels: int) -> None:
        """Raises `InvalidValue` if there are fewer than k labels."""
        require(self.k <= num_labels, "k", self.k, f"at most the number of labels, {num_labels}")

    def fitted(self, budget: Budget, shape: VoteShape) -> StableFixedTopK:
        """Returns a copy of the aggregator with the least noise whose price meets a budget.

        With test="table", no given table and more than k labels, the order of the table and all three noises are
        computed anew. The peel gets the part `peel_share` of the Renyi budget, and the stable set the rest
        (`split_budget`). With another test or a given table the noises keep their proportion. Finally `scaled_to`
        multiplies all noise by the least factor that meets the budget; a given table is left as it is.
        """
        planned_aggregator = with_failure_prob_for(
            self, delta=budget.delta, num_queries=shape.num_queries
        )
        if not isinstance(self.gap_test, TableTest) or self.k >= shape.num_labels:
            return planned_aggregator.scaled_to(budget, vote_shape=shape)
        stable_top_k = split_budget(
            planned_aggregator.stable_top_k,
            budget,
            vote_shape=shape,
            k_selection_share=self.selection_share,
            budget_share=1 - self.peel_share,
        )
        steps = stable_top_k.steps(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
        gap_test = stable_top_k.gap_test
        assert isinstance(gap_test, TableTest)  # a split keeps the kind of test
        renyi_order = gap_test.renyi_order
        steps_rdp = float(rdp_curve(count_leaves(steps.event), orders=np.array([renyi_order]))[0])
        # The steps cost the part 1 - peel_share at the table's order, and so the peel costs steps_rdp times the
        # ratio of both parts. A peel of range r costs order * r**2 / 8, which is solved for r.
        peel_rdp = steps_rdp * self.peel_share / (1 - self.peel_share)
        peel_range = math.sqrt(8 * peel_rdp / renyi_order)
        split_aggregator = replace(
            self,
            failure_prob=stable_top_k.failure_prob,
            selection_scale=stable_top_k.selection_scale,
            table_order=gap_test.renyi_order,
            table_budget=gap_test.rdp_budget,
            peel_scale=self.adjacency.gap_sensitivity / peel_range,
        )
        return split_aggregator.scaled_to(budget, vote_shape=shape)

    def distribution(
        self, votes: NDArray[np.integer], *, num_teachers: int
    ) -> dict[tuple[int, ...], float]:
        """Returns the probability of each set of k labels, for one query with counts `[num_labels]` of few labels."""
        counts_of_query = np.asarray(votes, dtype=np.int64)
        num_labels = len(votes)
        self._require_labels(num_labels)
        if self.k == num_labels:
            return {tuple(range(num_labels)): 1.0}
        distribution: dict[tuple[int, ...], float] = {}
        set_distribution = self.stable_top_k.distribution(
            counts_of_query, num_teachers=num_teachers
        )
        for stable_set, set_probability in set_distribution.items():
            is_in_stable_set = np.isin(np.arange(num_labels), stable_set or ())
            peel = Peel.from_stable(is_stable_label=is_in_stable_set[None], k=self.k)
            kept_labels = np.flatnonzero(peel.is_kept_label[0]).tolist()
            num_picks = int(peel.num_picks[0])
            pick_distribution = self.peeling.distribution_of(
                counts_of_query, candidate_mask=peel.candidates[0], num_picks=num_picks
            )
            for picked_labels, pick_probability in pick_distribution.items():
                released_labels = tuple(sorted({*picked_labels, *kept_labels}))
                release_probability = set_probability * pick_probability
                distribution[released_labels] = (
                    distribution.get(released_labels, 0.0) + release_probability
                )
        return distribution

    def draw(self, summary: IntArray, shape: VoteShape, rng: Rng) -> Answers:
        """Draws a stable set for each query, and changes it to exactly k labels by peeling.

        Peeling picks the labels with the largest noisy counts, from a set that is too large, or outside of one that is
        too small. A set of k labels is unchanged. If k is the number of labels, nothing is drawn.
        """
        if self.k == shape.num_labels:
            return Answers.to_all(labels=np.ones(summary.shape, dtype=np.bool_))
        is_stable_label = self.stable_top_k.draw(summary, shape, rng).labels
        peel = Peel.from_stable(is_stable_label, k=self.k)
        picked_labels = self.peeling.draw(
            summary, candidate_masks=peel.candidates, pick_counts=peel.num_picks, rng=rng
        )
        return Answers.to_all(labels=peel.is_kept_label | picked_labels)


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class Peel:
    """The picks that turn the stable sets of queries into sets of k labels; a refusal counts as an empty set.

    Attributes:
        is_kept_label: bool `[num_queries, num_labels]`, labels of the stable set that are released without a pick.
        candidates: bool `[num_queries, num_labels]`, labels among which the peel picks.
        num_picks: int `[num_queries]`, the number of labels that the peel picks.
    """

    is_kept_label: BoolArray
    candidates: BoolArray
    num_picks: IntArray

    @classmethod
    def from_stable(cls, is_stable_label: BoolArray, k: int) -> Self:
        """Returns the picks for the stable sets of queries, from which labels are in them, `[num_queries, num_labels]`.

        A set of k labels needs no pick. Of a set with more labels, k are picked. To a smaller set, labels from outside
        of it are added until there are k. So all k labels are picked where the set is empty.
        """
        set_sizes = is_stable_label.sum(axis=1)
        is_large_set = (set_sizes > k)[:, None]
        return cls(
            is_kept_label=is_stable_label & ~is_large_set,
            candidates=np.where(is_large_set, is_stable_label, ~is_stable_label),
            num_picks=np.where(set_sizes > k, k, k - set_sizes),
        )
