"""StableFixedTopK: a stable set, filled up or cut down to k labels by peeling."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Accountant, AutoAccountant, ComposedEvent, Event, NoOpEvent, SelfComposedEvent, calibrate
from pate.accounting.conversion import zcdp_to_epsilon_classic
from pate.accounting.events import count_leaves
from pate.accounting.rdp import rdp_curve
from pate.aggregators.histogram import Bits, PerQueryAggregator
from pate.aggregators.stable_top_k import StableTopK, best_split
from pate.mechanisms.gap_selection import FixedKRegularizer
from pate.mechanisms.peeling import SubsetPeeling
from pate.mechanisms.stability_test import CertifiedTable, StabilityTable, StabilityTest
from pate.validation import require, require_count, require_positive, require_probability


@dataclass(frozen=True, kw_only=True)
class StableFixedTopK(PerQueryAggregator):
    """Releases exactly k labels for every query: a stable set near size k, filled up or cut down by peeling.

    First `StableTopK`, whose regularizer prefers sizes near k. A set of k labels is released as it is. From a larger
    one k labels are peeled; to a smaller one, peeled labels of the rest are added; if the test refused, all k are
    peeled from all labels. Only the k labels are released, not how they were found. With k = L nothing depends on the
    votes and nothing is charged.

    Formal guarantees, per query, whichever way it went:
        * Outside a failure of probability `failure_prob`, the cost is that of `StableTopK` composed with that of
          `SubsetPeeling`, for the stated adjacency.
        * Failure probabilities of all queries add up and are taken from delta.

    Attributes:
        k: how many labels each query gets, 1..L.
        selection_scale: scale of the selection noise in votes, > 0, as in `StableTopK`.
        peel_scale: scale of the Gumbel noise on counts for a single pick, in votes, > 0; j picks use sqrt(j) times it.
        penalty: votes that a candidate loses for each label away from k, >= 0.
        selection_noise: "gumbel", "gaussian", "laplace" or "exponential".
        test: "gaussian", "laplace" or "table".
        test_std: std of the test's noise in votes, > 0; for "gaussian" and "laplace".
        table_order: Renyi order that the table is made for, > 1; for "table".
        table_budget: Renyi divergence that one test may cost at that order, > 0; for "table".
        table: a ready table instead of an order and a budget, or the path of one that `CertifiedTable.save` wrote.
        failure_prob: probability that an unstable set is released, per query; a ready table brings its own.
        padded: whether sizes 0 and L compete; either means that all k labels are peeled from all.
        max_k: the largest size that competes, >= 1; None for no limit. The peel looks at all labels in any case.
        selection_share: the part of the Renyi budget of `StableTopK` that calibration of a table gives to the
            selection, in (0, 1); None for the share that releases the smallest gap.
        peel_share: the part of the whole Renyi budget that calibration of a table gives to the peel, in (0, 1). The
            paper's is 0.5; the peel decides most labels, and deserves more.

    Source: Zhu & Wang 2022, Algorithm 3; docs/proofs/stable_fixed_top_k.md.

    >>> aggregator = StableFixedTopK(k=2, selection_scale=2.0, test_std=3.0, peel_scale=1.0)
    >>> votes = np.array([[90, 88, 1, 0], [99, 1, 40, 0], [50, 90, 70, 60]])
    >>> aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0)).labels.astype(int)
    array([[1, 1, 0, 0],
           [1, 0, 1, 0],
           [0, 1, 1, 0]])
    """

    k: int
    selection_scale: float = field(metadata={"noise": True})
    peel_scale: float = field(metadata={"noise": True})
    penalty: float = 0.0
    selection_noise: str = field(default="gumbel", metadata={"public": True})
    test: str = field(default="gaussian", metadata={"public": True})
    test_std: float | None = field(default=None, metadata={"noise": True})
    table_order: float | None = field(default=None, metadata={"noise": True})
    table_budget: float | None = field(default=None, metadata={"noise": True})
    table: CertifiedTable | StabilityTable | str | None = None
    failure_prob: float = 1e-9
    padded: bool = False
    max_k: int | None = None
    selection_share: float | None = 0.5
    peel_share: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("k", self.k)
        require_positive("peel_scale", self.peel_scale)
        require_probability("peel_share", self.peel_share)
        first = self.stable_top_k  # checks the rest
        for name, value in vars(first.test_parameters).items():  # a ready table brings values of its own
            object.__setattr__(self, name, value)

    @property
    def exact_labels(self) -> int:
        """How many labels each answer has: k."""
        return self.k

    @property
    def stable_top_k(self) -> StableTopK:
        """The first step."""
        return StableTopK(
            selection_scale=self.selection_scale,
            selection_noise=self.selection_noise,
            test=self.test,
            test_std=self.test_std,
            table_order=self.table_order,
            table_budget=self.table_budget,
            table=self.table,
            failure_prob=self.failure_prob,
            padded=self.padded,
            regularizer=FixedKRegularizer(k=self.k, penalty=self.penalty),
            max_k=self.max_k,
            selection_share=self.selection_share,
            adjacency=self.adjacency,
        )

    @property
    def peeling(self) -> SubsetPeeling:
        """The second step."""
        return SubsetPeeling(noise_scale=self.peel_scale, adjacency=self.adjacency)

    def stability_test(self, *, num_teachers: int) -> StabilityTest:
        """The test within the first step, for that many teachers."""
        return self.stable_top_k.stability_test(num_teachers=num_teachers)

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        """Selection, test and peel, once a query."""
        require_count("num_queries", num_queries, minimum=0)
        require_count("num_labels", num_labels)
        require(self.k <= num_labels, "k", self.k, f"at most the number of labels, {num_labels}")
        if self.k == num_labels:
            require_count("num_teachers", num_teachers)
            return SelfComposedEvent(NoOpEvent(), num_queries)
        steps = self.stable_top_k.steps(num_labels=num_labels, num_teachers=num_teachers)
        return SelfComposedEvent(ComposedEvent((*steps.event.events, self.peeling.event)), num_queries)

    def scaled(self, factor: float) -> StableFixedTopK:
        """All noise multiplied by `factor`; a table's budget divided by its square."""
        test = self.stable_top_k.test_parameters.scaled(factor)
        return replace(self._with_picks_scaled(factor), **vars(test))

    def calibrated(
        self,
        *,
        target_epsilon: float,
        target_delta: float,
        num_queries: int,
        num_labels: int,
        num_teachers: int,
        accountant: Callable[[], Accountant] = AutoAccountant,
    ) -> StableFixedTopK:
        """The least noise for a target; with a table, its order and the split of its budget are found first.

        A ready table stays as it is, and the noise of the two other steps is solved for, in their ratio.
        """
        release: dict[str, Any] = {
            "target_epsilon": target_epsilon,
            "target_delta": target_delta,
            "num_queries": num_queries,
            "num_labels": num_labels,
            "num_teachers": num_teachers,
        }
        if self.table is not None:
            return self._with_table_calibrated(accountant=accountant, **release)
        split = self.test == "table" and self.k < num_labels
        base = self._split(**release) if split else self
        return super(StableFixedTopK, base).calibrated(**release, accountant=accountant)

    def paper_epsilon(self, *, num_queries: int, target_delta: float) -> float | None:
        """The formula of `StableTopK.paper_epsilon` with the peel added at its add/remove price.

        Defined for Gaussian noise in both steps of `StableTopK` only. Not a bound for either adjacency.
        """
        adaptive = self.stable_top_k.paper_rho
        if adaptive is None:
            return None
        left = target_delta - num_queries * self.failure_prob
        rho = num_queries * (adaptive + 1 / (8 * self.peel_scale**2))
        return zcdp_to_epsilon_classic(rho, target_delta=left) if left > 0 else math.inf

    def distribution(self, votes: NDArray[np.integer], *, num_teachers: int) -> dict[tuple[int, ...], float]:
        """The exact distribution for one small histogram `[L]`: probability of each released set of k labels."""
        counts, num_labels = np.asarray(votes, dtype=np.int64), len(votes)
        self.event_for(num_queries=1, num_labels=num_labels, num_teachers=num_teachers)
        if self.k == num_labels:
            return {tuple(range(num_labels)): 1.0}
        distribution: dict[tuple[int, ...], float] = {}
        for stable, weight in self.stable_top_k.distribution(counts, num_teachers=num_teachers).items():
            bits = np.isin(np.arange(num_labels), stable or ())
            kept, part, size = _plan(bits[None], self.k)
            for picks, probability in self.peeling.distribution_of(counts, part[0], int(size[0])).items():
                labels = tuple(sorted({*picks, *np.flatnonzero(kept[0]).tolist()}))
                distribution[labels] = distribution.get(labels, 0.0) + weight * probability
        return distribution

    def _draw(self, votes: NDArray[np.int64], *, num_teachers: int, rng: np.random.Generator) -> tuple[Bits, Bits]:
        everyone = np.ones(len(votes), dtype=np.bool_)
        if self.k == votes.shape[1]:
            return np.ones(votes.shape, dtype=np.bool_), everyone
        stable, _ = self.stable_top_k._draw(votes, num_teachers=num_teachers, rng=rng)
        kept, part, size = _plan(stable, self.k)
        return kept | self.peeling.draw(votes, part, size, rng), everyone

    def _with_picks_scaled(self, factor: float) -> StableFixedTopK:
        """The noise of selection and peel multiplied."""
        return replace(self, selection_scale=self.selection_scale * factor, peel_scale=self.peel_scale * factor)

    def _with_table_calibrated(
        self, *, target_epsilon: float, target_delta: float, accountant: Callable[[], Accountant], **shape: int
    ) -> StableFixedTopK:
        factor = calibrate(
            lambda noise: self._with_picks_scaled(noise).event_for(**shape),
            target_epsilon=target_epsilon,
            target_delta=target_delta,
            accountant=accountant,
        )
        return self._with_picks_scaled(factor)

    def _split(self, **release: Any) -> StableFixedTopK:
        """The table and the scales that suit a target: the peel costs its share at the table's order."""
        shape = {name: release.pop(name) for name in ("num_labels", "num_teachers")}
        adaptive = best_split(
            self.stable_top_k.steps(**shape),
            selection_share=self.selection_share,
            budget_share=1 - self.peel_share,
            **release,
        )
        order = float(adaptive.parameters.table_order or 0)
        spent = rdp_curve(count_leaves(adaptive.event), np.array([order]))[0]
        peel_range = math.sqrt(8 * float(spent) * self.peel_share / (1 - self.peel_share) / order)
        return replace(
            self,
            selection_scale=adaptive.selection.noise_scale,
            **vars(adaptive.parameters),
            peel_scale=self.adjacency.gap_sensitivity / peel_range,
        )


def _plan(stable: Bits, k: int) -> tuple[Bits, Bits, NDArray[np.int64]]:
    """What follows a stable set `[q, L]`, none being a refusal: the labels kept, where to peel, and how many."""
    found = stable.sum(axis=1)
    large = (found > k)[:, None]
    return stable & ~large, np.where(large, stable, ~stable), np.where(found > k, k, k - found)
