"""Top-k: any k or a fixed one by noisy gaps and a test of stability; or a fixed k by a mechanism of pure DP."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate import mechanisms
from pate.accounting import Budget, ComposedEvent, Event, NoOpEvent, SelfComposedEvent, calibrate
from pate.accounting.conversion import conversion_penalty, zcdp_to_epsilon_classic
from pate.accounting.events import SelectThenTestEvent, count_leaves
from pate.accounting.rdp import rdp_curve
from pate.aggregators.aggregator import Aggregator, Bits, Counts, Rng
from pate.aggregators.failures import (
    failure_prob_of,
    require_delta_left,
    with_failure_prob_for,
)
from pate.aggregators.gap_tests import (
    GapTest,
    GaussianTest,
    LaplaceTest,
    NoiseTest,
    ReadyTableTest,
    TableTest,
    noise_of_rdp,
)
from pate.aggregators.release import Answers
from pate.files.values import full_text
from pate.mechanisms import gap_selection as selecting
from pate.mechanisms.gap_selection import GapSelection, Ranking
from pate.mechanisms.parameters import COUNT, NOISE, OPTIONAL, PROBABILITY, is_hashable, one_of
from pate.mechanisms.stability_test import CertifiedTable, StabilityTable, StabilityTest
from pate.mechanisms.top_k import SubsetPeeling, TopKMechanism
from pate.validation import (
    InvalidValue,
    normalize_field,
    require,
    require_kind,
    require_probability,
)
from pate.votes.shape import VoteShape

Rank = tuple[float, float]

MECHANISMS: Mapping[str, Callable[..., TopKMechanism]] = {
    "canonical": mechanisms.CanonicalTopK,
    "joint": mechanisms.JointTopK,
    "lipschitz": mechanisms.LipschitzTopK,
    "peeling": mechanisms.OneShotTopK,  # the distribution of `PeelingTopK` in one draw
    "permute_and_flip": mechanisms.PermuteAndFlipTopK,
    "permute_and_flip_joint": mechanisms.PermuteAndFlipJointTopK,
}
_EVEN = 0.5  # between selection and test
_ORDERS = 1 + np.geomspace(0.4, 1e6, 80)
_MOST_LEVELS = 1500
_LOGIT_OF_95 = math.log(0.95 / 0.05)
_STRIDE = 6
_SHARES = tuple(float(share) for share in np.linspace(0.05, 0.95, 19).round(2))
_FINER = tuple(float(step) for step in np.linspace(-0.04, 0.04, 9).round(2))


@dataclass(frozen=True)
class SelectThenTest:
    """The two steps of a stable top-k for votes of one shape, as `StableTopK.steps` gives them."""

    selection: GapSelection
    test: StabilityTest

    @cached_property
    def event(self) -> ComposedEvent:
        parts = (self.selection.event, self.test.event)
        if self.selection.weighs_gaps_alone:
            cut = len(self.test.pass_probs) <= self.test.num_teachers
            return SelectThenTestEvent(
                parts, len(self.selection.candidates), self.test.num_teachers if cut else 0
            )
        return ComposedEvent(parts)

    def release_probability(self, gap: int) -> float:
        """Returns the probability that the set above a lone gap is chosen, all other gaps being 0, and passes.

        The regularizer is left out.
        """
        passed = float(self.test.pass_probabilities(np.array(gap)))
        if self.selection.event == NoOpEvent():
            return passed
        votes = np.zeros(len(self.selection.candidates) + 1, dtype=np.int64)
        votes[0] = gap
        plain = replace(
            self.selection, padded=False, regularizer=None, max_k=None, num_labels=len(votes)
        )
        return float(plain.probabilities(votes)[0]) * passed

    def gap_to_release(self, probability: float) -> int | None:
        """Returns the smallest lone gap that is released with at least this probability; None where no gap of T is.

        >>> from pate.aggregators import StableTopK
        >>> steps = StableTopK(selection_scale=20.0, test_std=10.0).steps(num_labels=40, num_teachers=200)
        >>> steps.gap_to_release(0.5), round(steps.release_probability(100), 3)
        (77, 0.796)
        """
        require_probability("probability", probability)
        gaps = range(self.selection.num_teachers + 1)
        if self.release_probability(gaps[-1]) < probability:
            return None
        return bisect_left(gaps, True, key=lambda gap: self.release_probability(gap) >= probability)

    def rank(self) -> Rank:
        """Returns a rank, of which a smaller one is better.

        First it has the lone gap that is released with probability 1/2, in parts of a vote; then, negated, the
        probability that a gap of all T votes is released.
        """
        most = self.release_probability(self.selection.num_teachers)
        gap = self.gap_to_release(0.5)
        if not gap:
            return (math.inf if gap is None else 0.0), -most
        around = [self.release_probability(votes) for votes in (gap - 1, gap)]
        return gap - 1 + float(np.interp(0.5, around, (0.0, 1.0))), -most


@dataclass(frozen=True, kw_only=True)
class StableAggregator(Aggregator):
    """Base of `StableTopK`, which explains the fields, and of `StableFixedTopK`: their selection and their test."""

    selection_scale: float = field(metadata=NOISE)
    selection_noise: str = field(
        default="gumbel", metadata=one_of(selecting.SELECTION_NOISES) | {"public": True}
    )
    test: str = field(
        default="gaussian", metadata=one_of(("gaussian", "laplace", "table")) | {"public": True}
    )
    test_std: float | None = field(default=None, metadata=NOISE)
    table_order: float | None = field(default=None, metadata=NOISE)
    table_budget: float | None = field(default=None, metadata=NOISE)
    table: CertifiedTable | StabilityTable | str | None = None
    failure_prob: float | None = field(default=None, metadata=PROBABILITY)
    padded: bool = False
    max_k: int | None = None
    selection_share: float | None = field(default=0.5, metadata=PROBABILITY | OPTIONAL)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.table is not None:
            self._take_ready_table()
        _ = self.gap_test  # refuses a test that lacks a number

    @property
    def max_labels(self) -> int | None:
        """The most labels that an answer is made to name: `max_k`."""
        return self.max_k

    def _take_ready_table(self) -> None:
        """Reads the table, which has an order and a failure probability of its own."""
        table: Any = CertifiedTable.load(self.table) if isinstance(self.table, str) else self.table
        kinds = (CertifiedTable, StabilityTable)
        require_kind("table", table, kinds, "a table of pate.mechanisms")
        require(self.test == "table", "test", self.test, "table, where a ready table is given")
        normalize_field(self, "table", table)
        normalize_field(self, "failure_prob", table.failure_prob)
        normalize_field(self, "table_order", None)
        normalize_field(self, "table_budget", None)

    @property
    def gap_test(self) -> GapTest:
        """The test that `test` names, with the fields that it needs."""
        if isinstance(self.table, (CertifiedTable, StabilityTable)):
            return ReadyTableTest(self.table)
        failure_prob = failure_prob_of(self)
        if self.test == "table":
            budget = self._needed_by_test("table_budget", self.table_budget)
            order = self._needed_by_test("table_order", self.table_order)
            require(1 < order < math.inf, "table_order", order, "a finite number > 1")
            return TableTest(order=order, budget=budget, failure_prob=failure_prob)
        std = self._needed_by_test("test_std", self.test_std)
        if self.test == "laplace":
            return LaplaceTest(std=std, failure_prob=failure_prob)
        return GaussianTest(std=std, failure_prob=failure_prob)

    def _needed_by_test(self, name: str, value: float | None) -> float:
        if value is None:
            raise InvalidValue(name, None, rule=f"a number, test={self.test} needs it")
        return value

    def _with_gap_test(self, test: GapTest) -> Self:
        """Returns the same aggregator with other noise of its test."""
        if isinstance(test, TableTest):
            return replace(self, table_order=test.order, table_budget=test.budget)
        if isinstance(test, NoiseTest):
            return replace(self, test_std=test.std)
        return self  # a ready table has no noise to set

    def stability_test(self, *, num_teachers: int) -> StabilityTest:
        """Returns the mechanism of the test for votes of `num_teachers` teachers."""
        return self.gap_test.for_votes(num_teachers=num_teachers, adjacency=self.adjacency)

    def scaled(self, factor: float) -> Self:
        """Returns the same aggregator with `factor` times the noise of its steps and of its test.

        A table's budget is divided by the square of the factor. Raises `InvalidValue` for a ready table.
        """
        return self._with_gap_test(self.gap_test.scaled(factor))._with_steps_scaled(factor)

    def _with_steps_scaled(self, factor: float) -> Self:
        """Returns the same aggregator with `factor` times the noise of its steps, and the test as it is."""
        return replace(self, selection_scale=self.selection_scale * factor)

    def scaled_to(self, budget: Budget, shape: VoteShape) -> Self:
        """Returns the same aggregator with the noise multiplied by the least factor that meets a budget.

        A ready table stays as it is, and the noise of the other steps is solved for.
        """
        if self.table is None:
            return super().scaled_to(budget, shape)
        factor = calibrate(
            lambda factor: self._with_steps_scaled(factor).event(shape),
            target_epsilon=budget.required_epsilon(),
            target_delta=budget.delta,
            accountant=budget.accountant,
        )
        return self._with_steps_scaled(factor)

    def paper_epsilon(self, *, num_queries: int, target_delta: float) -> float | None:
        """Returns the formula behind the paper's 3.6, which is not a bound.

        It takes all steps as Gaussian noise of sensitivity 1, by classic zCDP.
        """
        test = self.gap_test
        if self.selection_noise != "gaussian" or not isinstance(test, GaussianTest):
            return None
        planned = with_failure_prob_for(self, delta=target_delta, num_queries=num_queries)
        left = target_delta - num_queries * failure_prob_of(planned)
        each = 1 / (2 * self.selection_scale**2) + 1 / (2 * test.std**2)
        if isinstance(self, StableFixedTopK):
            each += 1 / (8 * self.peel_scale**2)  # the peel at its add/remove price
        return (
            zcdp_to_epsilon_classic(num_queries * each, target_delta=left) if left > 0 else math.inf
        )


@dataclass(frozen=True, kw_only=True)
class StableTopK(StableAggregator):
    """Aggregator that chooses k by a noisy maximum over gaps of counts, and releases the top k if their gap passes.

    A refused query is an abstention: its k is not released. k = 0 ("no label") and k = L are constant sets and need
    no test.

    Formal guarantee, per query, refused or not: outside a failure of probability `failure_prob`, the cost is that of
    the selection (`GapSelection`) composed with one bit (`StabilityTest`). Failure probabilities of all queries add up
    and are taken from delta. Source: Zhu & Wang 2022, Algorithms 1, 2, 4; docs/proofs/stable_top_k.md.

    Attributes:
        selection_scale: scale of the selection noise in votes, > 0: beta of a Gumbel, std of a Gaussian, b of a
            Laplace, mean of an exponential.
        selection_noise: "gumbel", "gaussian", "laplace" or "exponential".
        test: "gaussian", "laplace" or "table": the class of `gap_test`, which takes its numbers from the fields below.
        test_std: std of the test's noise in votes, > 0; for "gaussian" and "laplace".
        table_order: Renyi order that the table is made for, > 1; for "table".
        table_budget: Renyi divergence of one test at that order, > 0; a price, the same for another adjacency.
        table: a ready table instead of an order and a budget, or the path of one that `CertifiedTable.save` wrote.
        failure_prob: probability that an unstable set is released, per query; a ready table brings its own. None is
            1e-9, and leaves it to a plan to lower it where the failures of all queries would take more than 0.6 of
            delta.
        padded: whether k = 0 and k = L are possible answers.
        regularizer: added to each candidate's gap: a function of k, or a finite number for each candidate.
        max_k: the largest k that can be chosen, >= 1; then only the `max_k` + 1 largest counts of a query matter, and
            the other labels need not be known. None for no limit.
        selection_share: the part of the Renyi budget that calibration gives to the selection, in (0, 1); without a
            table the ratio of the two scales says so instead. None for the share that releases the smallest gap.

    >>> aggregator = StableTopK(selection_scale=2.0, test_std=3.0)
    >>> votes = np.array([[90, 88, 1, 0], [51, 50, 49, 48]])
    >>> release = aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    >>> release.labels[0], release.answered
    (array([ True,  True, False, False]), array([ True, False]))
    """

    regularizer: selecting.Regularizer | None = field(default=None, metadata={"public": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        normalize_field(self, "regularizer", selecting.checked_regularizer(self.regularizer))
        # numbers can be checked only against votes
        if self.regularizer is None or callable(self.regularizer):
            self.gap_selection(num_labels=2, num_teachers=1)

    def gap_selection(self, *, num_labels: int, num_teachers: int) -> GapSelection:
        """Returns the first step, for votes of that shape."""
        return self.part(
            GapSelection,
            noise_scale=self.selection_scale,
            noise=self.selection_noise,
            num_labels=num_labels,
            num_teachers=num_teachers,
        )

    def steps(self, *, num_labels: int, num_teachers: int) -> SelectThenTest:
        """Returns both steps, for votes of that shape."""
        steps = _cached_steps if is_hashable(self) else _steps
        return steps(self, num_labels, num_teachers)

    def event(self, shape: VoteShape) -> Event:
        steps = self.steps(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
        return SelfComposedEvent(steps.event, shape.num_queries)

    def fitted(self, budget: Budget, shape: VoteShape) -> StableTopK:
        """Returns the same selection and test with the least noise that meets a budget.

        First each split of the budget between selection and test is found, which fixes the proportion of the two
        noises, and a table's order: the best split of all, and the even one. Each is then scaled until it meets the
        budget, and the one that answers most is returned. Raises as `Aggregator.fitted`.
        """
        planned = with_failure_prob_for(self, delta=budget.delta, num_queries=shape.num_queries)
        if self.table is not None or (self.test != "table" and self.selection_share is not None):
            return planned.scaled_to(budget, shape)
        shares = (None, _EVEN) if self.selection_share is None else (self.selection_share,)
        splits = [_best_split(planned, budget, shape, selection_share=share) for share in shares]
        candidates = [split.scaled_to(budget, shape) for split in splits]

        def rank(candidate: StableTopK) -> Rank:
            return candidate.steps(
                num_labels=shape.num_labels, num_teachers=shape.num_teachers
            ).rank()

        return min(candidates, key=rank)

    def distribution(
        self, votes: NDArray[np.integer], *, num_teachers: int
    ) -> dict[tuple[int, ...] | None, float]:
        """Returns the exact distribution for one histogram `[L]`: released sets of labels, and None for a refusal."""
        selection = self.gap_selection(num_labels=len(votes), num_teachers=num_teachers)
        ranking = Ranking.of(np.asarray(votes, dtype=np.int64)[None])
        distribution: dict[tuple[int, ...] | None, float] = {None: 0.0}
        for k, chosen in zip(selection.candidates, selection.probabilities(votes), strict=True):
            passed = float(self._pass_probs(ranking, np.array([k]), num_teachers)[0])
            labels = tuple(np.flatnonzero(ranking.top(np.array([k]))[0]).tolist())
            distribution[labels] = distribution.get(labels, 0.0) + float(chosen) * passed
            distribution[None] += float(chosen) * (1 - passed)
        return distribution

    def identity(self, shape: VoteShape) -> str:
        """Returns the parameters as text, the regularizer by its values: the text of a function hides them."""
        others = full_text(replace(self, regularizer=None))
        selection = self.gap_selection(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
        return f"{others}, {selection.offsets.tolist()}"

    def tested(
        self, ranking: Ranking, k: Counts, uniform: NDArray[np.float64], num_teachers: int
    ) -> tuple[Bits, Bits]:
        """Returns labels and answered: the k best of each query `[q]` whose uniform number passes the test."""
        answered = uniform < self._pass_probs(ranking, k, num_teachers)
        return ranking.top(np.where(answered, k, 0)), answered

    def draw(self, summary: Counts, shape: VoteShape, rng: Rng) -> Answers:
        """Draws k for each query by noisy gaps, and then tests the k best labels of each.

        Noise meets the votes in two lines: in the selection of k, and in the uniform number that decides the test.
        """
        steps = self.steps(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
        ranking = Ranking.of(summary)
        k = steps.selection.draw(ranking, rng)
        uniform = rng.random(len(k))
        labels, answered = self.tested(ranking, k, uniform, shape.num_teachers)
        return Answers(labels, answered)

    def _pass_probs(self, ranking: Ranking, k: Counts, num_teachers: int) -> NDArray[np.float64]:
        """Returns the probability that the set of the k best labels is released: `[Q]`, 1 where it is constant."""
        test = self.steps(num_labels=ranking.num_labels, num_teachers=num_teachers).test
        gaps = ranking.gaps(padded=self.padded, num_teachers=num_teachers)
        probs = test.pass_probabilities(gaps[np.arange(len(k)), k if self.padded else k - 1])
        return np.where((k == 0) | (k == ranking.num_labels), 1.0, probs) if self.padded else probs


def _steps(aggregator: StableTopK, num_labels: int, num_teachers: int) -> SelectThenTest:
    selection = aggregator.gap_selection(num_labels=num_labels, num_teachers=num_teachers)
    return SelectThenTest(selection, aggregator.stability_test(num_teachers=num_teachers))


_cached_steps = lru_cache(maxsize=64)(_steps)  # few, as a test may hold thousands of numbers


@dataclass(frozen=True, kw_only=True)
class StableFixedTopK(StableAggregator):
    """Releases exactly k labels for every query: a stable set near size k, filled up or cut down by peeling.

    First `StableTopK`, whose regularizer prefers sizes near k. A set of k labels is released as it is. From a larger
    one k labels are peeled; to a smaller one, peeled labels of the rest are added; if the test refused, all k are
    peeled from all labels, as after a stable set of size 0 or L with `padded`. Only the k labels are released, not how
    they were found. `max_k` limits the stable set alone. With k = L nothing is charged.

    Formal guarantee, per query, whichever way it went: the cost of `StableTopK` composed with that of `SubsetPeeling`,
    failures as there. Source: Zhu & Wang 2022, Algorithm 3; docs/proofs/stable_fixed_top_k.md.

    Attributes:
        k: how many labels each query gets, 1..L.
        peel_scale: scale of the Gumbel noise on counts for a single pick, in votes, > 0; j picks use sqrt(j) times it.
        penalty: votes that a candidate loses for each label away from k, >= 0.
        peel_share: the part of the whole Renyi budget that calibration of a table gives to the peel, in (0, 1). The
            paper's is 0.5; the peel decides most labels, and deserves more. The rest as in `StableTopK`.

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
        _ = self.stable_top_k  # checks the rest

    def _with_steps_scaled(self, factor: float) -> Self:
        """Returns the same aggregator with `factor` times the noise of its steps, and the test as it is."""
        return replace(
            self,
            selection_scale=self.selection_scale * factor,
            peel_scale=self.peel_scale * factor,
        )

    @property
    def exact_labels(self) -> int:
        """The number of labels that every answer names: `k`."""
        return self.k

    @property
    def stable_top_k(self) -> StableTopK:
        """The first step."""
        return self.part(
            StableTopK, regularizer=selecting.FixedKRegularizer(k=self.k, penalty=self.penalty)
        )

    @property
    def peeling(self) -> SubsetPeeling:
        """The second step."""
        return SubsetPeeling(noise_scale=self.peel_scale, adjacency=self.adjacency)

    def event(self, shape: VoteShape) -> Event:
        require(
            self.k <= shape.num_labels,
            "k",
            self.k,
            f"at most the number of labels, {shape.num_labels}",
        )
        if self.k == shape.num_labels:
            return SelfComposedEvent(NoOpEvent(), shape.num_queries)
        steps = self.stable_top_k.steps(
            num_labels=shape.num_labels, num_teachers=shape.num_teachers
        )
        query_event = ComposedEvent((*steps.event.events, self.peeling.event))
        return SelfComposedEvent(query_event, shape.num_queries)

    def fitted(self, budget: Budget, shape: VoteShape) -> StableFixedTopK:
        """Returns the same aggregator with the least noise that meets a budget.

        A table's order and the split of its budget are found first.
        """
        planned = with_failure_prob_for(self, delta=budget.delta, num_queries=shape.num_queries)
        if not isinstance(self.gap_test, TableTest) or self.k >= shape.num_labels:
            return planned.scaled_to(budget, shape)
        stable_top_k = _best_split(
            planned.stable_top_k,
            budget,
            shape,
            selection_share=self.selection_share,
            budget_share=1 - self.peel_share,
        )
        steps = stable_top_k.steps(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
        order = float(stable_top_k.table_order or 0)
        rdp_of_steps = float(rdp_curve(count_leaves(steps.event), np.array([order]))[0])
        # a pick of range r costs order * r**2 / 8; the peel costs its share at the table's order
        peel_rdp = rdp_of_steps * self.peel_share / (1 - self.peel_share)
        peel_range = math.sqrt(8 * peel_rdp / order)
        split = replace(
            self,
            failure_prob=stable_top_k.failure_prob,
            selection_scale=stable_top_k.selection_scale,
            table_order=stable_top_k.table_order,
            table_budget=stable_top_k.table_budget,
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
        for stable, weight in self.stable_top_k.distribution(
            counts, num_teachers=num_teachers
        ).items():
            bits = np.isin(np.arange(num_labels), stable or ())
            kept, part, size = _plan(bits[None], self.k)
            for picks, probability in self.peeling.distribution_of(
                counts, part[0], int(size[0])
            ).items():
                labels = tuple(sorted({*picks, *np.flatnonzero(kept[0]).tolist()}))
                distribution[labels] = distribution.get(labels, 0.0) + weight * probability
        return distribution

    def draw(self, summary: Counts, shape: VoteShape, rng: Rng) -> Answers:
        """Draws a stable set for each query, and then peels k labels from it, or those that it lacks from the rest."""
        if self.k == shape.num_labels:
            return Answers.to_all(np.ones(summary.shape, dtype=np.bool_))
        stable = self.stable_top_k.draw(summary, shape, rng).labels
        kept, part, size = _plan(stable, self.k)
        peeled = self.peeling.draw(summary, part, size, rng)
        return Answers.to_all(kept | peeled)


def _plan(stable: Bits, k: int) -> tuple[Bits, Bits, Counts]:
    """Returns the labels kept of a stable set `[q, L]`, where to peel, and how many; a set without any is a refusal."""
    found = stable.sum(axis=1)
    large = (found > k)[:, None]
    return stable & ~large, np.where(large, stable, ~stable), np.where(found > k, k, k - found)


def _best_split(
    aggregator: StableTopK,
    budget: Budget,
    shape: VoteShape,
    *,
    selection_share: float | None,
    budget_share: float = 1.0,
) -> StableTopK:
    """Returns the aggregator with the order, selection scale and test that suit a budget; public parameters only.

    At each order the budget leaves a Renyi budget for every query. Both steps get `budget_share` of it, and of that
    `selection_share` goes to the selection. Given that share, the best order is the one whose table rises to 0.95 in
    the fewest levels. Without it, order and share are those at which the smallest lone gap is released with
    probability 1/2 (`SelectThenTest.gap_to_release`).
    """
    num_queries = shape.num_queries
    num_labels = shape.num_labels
    num_teachers = shape.num_teachers
    require_delta_left(aggregator, num_queries=num_queries, target_delta=budget.delta)
    delta_left = budget.delta - num_queries * failure_prob_of(aggregator)
    # [A], for all queries
    rdp_left = budget.required_epsilon() - conversion_penalty(_ORDERS, target_delta=delta_left)
    rdp_of_query = rdp_left * budget_share / num_queries
    points = [
        RdpBudget(order=float(order), rdp=float(rdp))
        for order, rdp in zip(_ORDERS, rdp_of_query, strict=True)
        if rdp > 0
    ]
    require(bool(points), "target_epsilon", budget.epsilon, "an epsilon that some noise can reach")

    def spend(point: RdpBudget, share: float) -> StableTopK:
        return _spend(
            aggregator, point, share=share, num_labels=num_labels, num_teachers=num_teachers
        )

    if selection_share is not None:
        failure_prob = failure_prob_of(aggregator)
        num_levels = min(num_teachers // aggregator.adjacency.gap_sensitivity + 2, _MOST_LEVELS)

        # in fractions so that orders compare; then how low it ends
        def levels(point: RdpBudget) -> Rank:
            test = TableTest(
                order=point.order,
                budget=(1 - selection_share) * point.rdp,
                failure_prob=failure_prob,
            )
            logits = test.table(num_levels=num_levels).logits
            reached = np.interp(_LOGIT_OF_95, logits, np.arange(len(logits)))
            return float(reached) if logits[-1] >= _LOGIT_OF_95 else math.inf, -logits[-1]

        return spend(min(points, key=levels), selection_share)

    def rank(point: RdpBudget, share: float) -> Rank:
        return spend(point, share).steps(num_labels=num_labels, num_teachers=num_teachers).rank()

    # the order at an even split, the best share there, the order once more: the order hardly needs the share
    middle = points.index(min(points[::_STRIDE], key=lambda point: rank(point, _EVEN)))
    near = points[max(middle - _STRIDE, 0) : middle + _STRIDE + 1]
    even = min(near, key=lambda point: rank(point, _EVEN))
    coarse = min(_SHARES, key=lambda share: rank(even, share))
    best = min((coarse + step for step in _FINER), key=lambda share: rank(even, share))
    return spend(min(near, key=lambda point: rank(point, best)), best)


@dataclass(frozen=True, kw_only=True)
class RdpBudget:
    """The Renyi divergence that a query may cost at one Renyi order."""

    order: float
    rdp: float


def _spend(
    aggregator: StableTopK, budget: RdpBudget, *, share: float, num_labels: int, num_teachers: int
) -> StableTopK:
    """Returns the aggregator whose selection costs a share of the budget, and whose test costs what is left."""
    adjacency = aggregator.adjacency
    test = aggregator.gap_test.tuned(
        order=budget.order,
        rdp=(1 - share) * budget.rdp,
        num_teachers=num_teachers,
        adjacency=adjacency,
    )
    with_test = aggregator._with_gap_test(test)
    selection = aggregator.gap_selection(num_labels=num_labels, num_teachers=num_teachers)
    if selection.event == NoOpEvent():  # one candidate: nothing is chosen, any scale will do
        return with_test
    selection_scale = noise_of_rdp(
        lambda scale: replace(selection, noise_scale=scale).event,
        order=budget.order,
        rdp=share * budget.rdp,
    )
    return replace(with_test, selection_scale=selection_scale)


@dataclass(frozen=True, kw_only=True)
class FixedTopK(Aggregator):
    """Releases exactly k labels for every query: those that a top-k mechanism of pure DP picks.

    Every query is answered, sure or not. With k = L nothing depends on the votes and nothing is charged.

    Formal guarantee, per query: the price of the mechanism, which is `epsilon` pure DP for the stated adjacency;
    peeling, joint and canonical selection compose as bounded ranges, which is cheaper. Source: docs/proofs/top_k.md,
    which names the papers.

    Attributes:
        k: how many labels each query gets, 1..L.
        epsilon: pure DP of one query, > 0: a price, so that another adjacency changes the noise and not the price.
        mechanism: "peeling", "joint", "canonical", "permute_and_flip", "permute_and_flip_joint" or "lipschitz".

    >>> aggregator = FixedTopK(k=2, epsilon=2.0, mechanism="joint")
    >>> votes = np.array([[90, 88, 1, 0], [9, 1, 70, 60]])
    >>> aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0)).labels.astype(int)
    array([[1, 1, 0, 0],
           [0, 0, 1, 1]])
    """

    k: int = field(metadata=COUNT)
    epsilon: float = field(metadata=NOISE)
    mechanism: str = field(default="peeling", metadata=one_of(MECHANISMS) | {"public": True})

    @property
    def exact_labels(self) -> int:
        """The number of labels that every answer names: `k`."""
        return self.k

    @property
    def top_k(self) -> TopKMechanism:
        """The mechanism, on one query."""
        return MECHANISMS[self.mechanism](k=self.k, epsilon=self.epsilon, adjacency=self.adjacency)

    def event(self, shape: VoteShape) -> Event:
        require(
            self.k <= shape.num_labels,
            "k",
            self.k,
            f"at most {shape.num_labels}, the number of labels",
        )
        query_event = self.top_k.event if self.k < shape.num_labels else NoOpEvent()
        return SelfComposedEvent(query_event, shape.num_queries)

    def scaled(self, factor: float) -> FixedTopK:
        return replace(self, epsilon=self.epsilon / factor)

    def distribution(
        self, votes: NDArray[np.integer], *, num_teachers: int
    ) -> dict[tuple[int, ...] | None, float]:
        """Returns the exact distribution for one histogram `[L]`: probabilities of released sets of labels."""
        distribution: dict[tuple[int, ...] | None, float] = {}
        for indices, probability in self.top_k.distribution(votes).items():
            labels = tuple(sorted(indices))
            distribution[labels] = distribution.get(labels, 0.0) + probability
        return distribution

    def draw(self, summary: Counts, shape: VoteShape, rng: Rng) -> Answers:
        """Draws the k labels that the mechanism picks of each query."""
        labels = np.zeros(summary.shape, dtype=np.bool_)
        np.put_along_axis(labels, self.top_k(summary, rng=rng).indices, True, axis=1)
        return Answers.to_all(labels)
