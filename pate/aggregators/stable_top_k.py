"""Stable top-k: any number of labels, chosen by noisy gaps and released where a test finds the set stable.

Sort a query's counts. The gap behind place k is the difference of the k-th and the next count. Where a gap is larger
than what one teacher can change, the set of the k labels above is the same for all neighbors, and its release costs
nothing. So a query takes two steps:

1. **Selection.** k is drawn by a noisy maximum over all gaps (`GapSelection`). One teacher can change the L gaps only
   little, so this is cheap: the price hardly depends on L.
2. **Test.** A bit, drawn with noise on the gap behind the chosen place (`StabilityTest`), decides whether the set is
   released. An unstable set passes with at most `failure_prob`, which is taken from delta.

`SelectThenTest` is both steps for votes of one shape. `StableAggregator` has the fields that `StableTopK` and
`StableFixedTopK` share.

Source: Zhu & Wang 2022; docs/proofs/stable_top_k.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Budget, ComposedEvent, Event, NoOpEvent, SelfComposedEvent, calibrate
from pate.accounting.conversion import zcdp_to_epsilon_classic
from pate.accounting.events import SelectThenTestEvent
from pate.aggregators.aggregator import Aggregator, Bits, Counts, Rng
from pate.aggregators.failures import (
    failure_prob_of,
    with_failure_prob_for,
)
from pate.aggregators.gap_tests import (
    GapTest,
    GaussianTest,
    LaplaceTest,
    NoiseTest,
    ReadyTableTest,
    TableTest,
)
from pate.aggregators.release import Answers
from pate.aggregators.stable_split import EVEN_SHARE, split_budget
from pate.files.digests import full_text
from pate.mechanisms import gap_selection as selecting
from pate.mechanisms.certified_table import CertifiedTable
from pate.mechanisms.gap_selection import GapSelection, Ranking
from pate.mechanisms.parameters import NOISE, OPTIONAL, PROBABILITY, is_hashable, one_of
from pate.mechanisms.stability_table import StabilityTable
from pate.mechanisms.stability_test import StabilityTest
from pate.validation import (
    InvalidValue,
    normalize_field,
    require,
    require_probability,
)
from pate.votes.shape import VoteShape


@dataclass(frozen=True, order=True)
class ReleaseRank:
    """The rank of a selection and its test by the gaps that they release; the smaller rank is better.

    Attributes:
        gap_at_half: the gap, interpolated between whole votes, whose set is released with probability 1/2 if all other
            gaps are 0.
        negated_top_probability: minus the probability that a gap of all teachers is released; compares selections with
            equal `gap_at_half`.
    """

    gap_at_half: float
    negated_top_probability: float


@dataclass(frozen=True)
class SelectThenTest:
    """The two steps of stable top-k for votes of one shape; `StableTopK.steps` returns it.

    Attributes:
        selection: draws the size k of the set.
        test: decides whether the set is released.
    """

    selection: GapSelection
    test: StabilityTest

    @cached_property
    def event(self) -> ComposedEvent:
        """The price of both steps on one query."""
        parts = (self.selection.event, self.test.event)
        if not self.selection.weighs_gaps_alone:
            return ComposedEvent(parts)
        # The joint law of both steps needs the number of teachers where the test's table does not reach all gaps.
        is_cut = len(self.test.pass_probs) <= self.test.num_teachers
        return SelectThenTestEvent(
            events=parts,
            num_candidates=len(self.selection.candidates),
            num_votes=self.test.num_teachers if is_cut else 0,
        )

    def release_probability(self, gap: int) -> float:
        """Returns the probability that the set above a gap is selected and passes its test.

        All other gaps of the query are taken to be 0, and the regularizer is left out.
        """
        pass_prob = float(self.test.pass_probabilities(np.array(gap)))
        if self.selection.event == NoOpEvent():
            return pass_prob
        votes = np.zeros(len(self.selection.candidates) + 1, dtype=np.int64)
        votes[0] = gap
        plain = replace(
            self.selection, padded=False, regularizer=None, max_k=None, num_labels=len(votes)
        )
        return float(plain.probabilities(votes)[0]) * pass_prob

    def gap_to_release(self, probability: float) -> int | None:
        """Returns the smallest gap whose set is released with at least this probability, if all other gaps are 0.

        The result is None if even a gap of all teachers has a lower probability.

        >>> from pate.aggregators import StableTopK
        >>> steps = StableTopK(selection_scale=20.0, test_std=10.0).steps(num_labels=40, num_teachers=200)
        >>> steps.gap_to_release(0.5), round(steps.release_probability(100), 3)
        (77, 0.796)
        """
        require_probability("probability", probability)
        gaps = range(self.selection.num_teachers + 1)
        if self.release_probability(gaps[-1]) < probability:
            return None

        def is_released(gap: int) -> bool:
            return self.release_probability(gap) >= probability

        return bisect_left(gaps, True, key=is_released)

    def rank(self) -> ReleaseRank:
        """Returns the rank of these steps by the smallest gap that is released with probability 1/2."""
        negated_top_probability = -self.release_probability(self.selection.num_teachers)
        gap = self.gap_to_release(probability=0.5)
        if gap is None:
            return ReleaseRank(
                gap_at_half=math.inf, negated_top_probability=negated_top_probability
            )
        if gap == 0:
            return ReleaseRank(gap_at_half=0.0, negated_top_probability=negated_top_probability)
        probability_below = self.release_probability(gap - 1)
        probability_above = self.release_probability(gap)
        part_of_vote = float(np.interp(0.5, (probability_below, probability_above), (0.0, 1.0)))
        gap_at_half = gap - 1 + part_of_vote
        return ReleaseRank(gap_at_half, negated_top_probability)


@dataclass(frozen=True, kw_only=True)
class StableAggregator(Aggregator):
    """Base class of `StableTopK`, which documents the fields, and of `StableFixedTopK`."""

    selection_scale: float = field(metadata=NOISE)
    selection_noise: str = field(
        default="gumbel", metadata=one_of(selecting.SELECTION_NOISES) | {"public": True}
    )
    test: str = field(
        default="gaussian",
        metadata=one_of(choices=("gaussian", "laplace", "table")) | {"public": True},
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
        _ = self.gap_test  # raises for a test that lacks a number

    @property
    def max_labels(self) -> int | None:
        """The largest number of labels that an answer is meant to name: `max_k`."""
        return self.max_k

    def _take_ready_table(self) -> None:
        """Reads a given table and sets the Renyi order and the failure probability to those of the table."""
        table = CertifiedTable.load(self.table) if isinstance(self.table, str) else self.table
        rule = "a table of pate.mechanisms"
        if not isinstance(table, (CertifiedTable, StabilityTable)):
            raise InvalidValue("table", type(table).__name__, rule=rule)
        require(self.test == "table", "test", self.test, "table, where a ready table is given")
        normalize_field(self, "table", table)
        normalize_field(self, "failure_prob", table.failure_prob)
        normalize_field(self, "table_order", value=None)
        normalize_field(self, "table_budget", value=None)

    @property
    def gap_test(self) -> GapTest:
        """The gap test that the field `test` names."""
        if isinstance(self.table, (CertifiedTable, StabilityTable)):
            return ReadyTableTest(self.table)
        failure_prob = failure_prob_of(self)
        if self.test == "table":
            budget = self._needed_by_test(name="table_budget", value=self.table_budget)
            order = self._needed_by_test(name="table_order", value=self.table_order)
            require(1 < order < math.inf, "table_order", order, "a finite number > 1")
            return TableTest(renyi_order=order, budget=budget, failure_prob=failure_prob)
        std = self._needed_by_test(name="test_std", value=self.test_std)
        if self.test == "laplace":
            return LaplaceTest(std=std, failure_prob=failure_prob)
        return GaussianTest(std=std, failure_prob=failure_prob)

    def _needed_by_test(self, name: str, value: float | None) -> float:
        """Returns the value of a field that the test needs; raises `InvalidValue` if the value is None."""
        if value is None:
            raise InvalidValue(name, None, rule=f"a number, test={self.test} needs it")
        return value

    def with_gap_test(self, test: GapTest) -> Self:
        """Returns a copy of the aggregator with the parameters of another gap test."""
        if isinstance(test, TableTest):
            return replace(self, table_order=test.renyi_order, table_budget=test.budget)
        if isinstance(test, NoiseTest):
            return replace(self, test_std=test.std)
        return self  # a ready table has no noise to set

    def stability_test(self, *, num_teachers: int) -> StabilityTest:
        """Returns the stability test of the aggregator for votes of `num_teachers` teachers."""
        return self.gap_test.for_votes(num_teachers=num_teachers, adjacency=self.adjacency)

    def scaled(self, factor: float) -> Self:
        """Returns a copy of the aggregator with the noise of all its steps multiplied by `factor`.

        The budget of a table is divided by the square of the factor. Raises `InvalidValue` if the table was given.
        """
        return self.with_gap_test(self.gap_test.scaled(factor))._with_steps_scaled(factor)

    def _with_steps_scaled(self, factor: float) -> Self:
        """Returns a copy with the noise of all steps but the test multiplied by `factor`."""
        return replace(self, selection_scale=self.selection_scale * factor)

    def scaled_to(self, budget: Budget, shape: VoteShape) -> Self:
        """Returns a copy of the aggregator with its noise multiplied by the least factor whose price meets a budget.

        A given table stays unchanged; then only the noise of the other steps is multiplied.
        """
        if self.table is None:
            return super().scaled_to(budget, shape)

        def event_at(factor: float) -> Event:
            return self._with_steps_scaled(factor).event(shape)

        factor = calibrate(
            event_at,
            target_epsilon=budget.required_epsilon(),
            target_delta=budget.delta,
            accountant=budget.accountant,
        )
        return self._with_steps_scaled(factor)

    def paper_epsilon(self, *, num_queries: int, target_delta: float) -> float | None:
        """Returns the epsilon that the formula of the paper gives, which is not an upper bound.

        This formula gives the paper's epsilon of 3.6. It treats all steps as Gaussian noise of sensitivity 1, composed
        by zCDP. For other kinds of noise the result is None.

        Args:
            num_queries: the number of queries.
            target_delta: the delta of the guarantee.
        """
        test = self.gap_test
        if self.selection_noise != "gaussian" or not isinstance(test, GaussianTest):
            return None
        planned = with_failure_prob_for(self, delta=target_delta, num_queries=num_queries)
        delta_left = target_delta - num_queries * failure_prob_of(planned)
        if delta_left <= 0:
            return math.inf
        zcdp_of_release = num_queries * self._paper_zcdp(test)
        return zcdp_to_epsilon_classic(zcdp_of_release, target_delta=delta_left)

    def _paper_zcdp(self, test: GaussianTest) -> float:
        """Returns the zCDP rho that the formula of the paper gives for one query."""
        return 1 / (2 * self.selection_scale**2) + 1 / (2 * test.std**2)


@dataclass(frozen=True, kw_only=True)
class StableTopK(StableAggregator):
    """Selects k by a noisy maximum over the gaps between sorted counts, and releases the top-k set if it is stable.

    A set is stable if the gap in counts below it passes a noisy test. A set that fails is not released, nor is its k:
    the query is refused. For k = 0 and k = num_labels there is only one set, which needs no test.

    Formal guarantee: except with probability `failure_prob`, each query costs as much as the selection (`GapSelection`)
    composed with the bit of the test (`StabilityTest`), even if it is refused. The failure probabilities of all queries
    add up and are taken from delta. Source: Zhu & Wang 2022, Algorithms 1, 2, 4; docs/proofs/stable_top_k.md.

    Attributes:
        selection_scale: scale of the selection noise in votes, > 0: beta of a Gumbel, standard deviation of a Gaussian,
            b of a Laplace, mean of an exponential. Calibration to a target epsilon replaces the value.
        selection_noise: "gumbel", "gaussian", "laplace" or "exponential".
        test: "gaussian" or "laplace" for a test with that noise on the gap, "table" for an optimal table of
            probabilities. The four fields below hold its parameters.
        test_std: standard deviation in votes of the noise of a "gaussian" or "laplace" test, > 0; None for a table.
        table_order: the Renyi order for which a table is computed, > 1; None for other tests.
        table_budget: the Renyi divergence of one test at that order, > 0, for either adjacency; None for other tests.
        table: a given table, or the path of a file that `CertifiedTable.save` wrote; None to compute the table from
            `table_order` and `table_budget`.
        failure_prob: probability that an unstable set is released, per query; a given table has its own. None is 1e-9,
            or less where the failures of all queries would take more than 0.6 of delta.
        padded: whether k = 0 and k = num_labels are possible answers.
        regularizer: a bonus in votes for each candidate k, added to its gap: a function of k, or an array with one
            finite number for each candidate. None for no bonus.
        max_k: the largest k that can be selected, >= 1; None for no limit. With a limit only the `max_k` + 1 largest
            counts of a query are read.
        selection_share: the part of the Renyi budget for the selection, in (0, 1), when noise is fitted with a table.
            With another test, a number keeps the ratio of the two noises. None chooses the share that releases the
            smallest gap.

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
        """Returns the mechanism that draws k, for votes with this number of labels and teachers."""
        return self.part(
            GapSelection,
            noise_scale=self.selection_scale,
            noise=self.selection_noise,
            num_labels=num_labels,
            num_teachers=num_teachers,
        )

    def steps(self, *, num_labels: int, num_teachers: int) -> SelectThenTest:
        """Returns the selection and the test, for votes with this number of labels and teachers."""
        make_steps = _cached_steps if is_hashable(self) else _steps
        return make_steps(self, num_labels, num_teachers)

    def event(self, shape: VoteShape) -> Event:
        """Returns the price of both steps for each query; see `Aggregator.event`."""
        steps = self.steps(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
        return SelfComposedEvent(steps.event, shape.num_queries)

    def fitted(self, budget: Budget, shape: VoteShape) -> StableTopK:
        """Returns a copy of the aggregator with the least noise of selection and test that meets a budget.

        There are three steps:

        1. `split_budget` (`aggregators/stable_split.py`) fixes the proportion of the two noises: it sets them, and the
           order of a table, by a split of the budget. If `selection_share` is None there are two candidates: the best
           split and the even split.
        2. `scaled_to` multiplies both noises of a candidate by the least factor that meets the budget.
        3. Of two candidates, the one that releases the smaller gap is returned.

        Step 1 is left out in two cases. A given table has a fixed price. A Gaussian or Laplace test with a number as
        `selection_share` keeps the present proportion of the two noises.

        Args:
            budget: the epsilon and delta that the release may cost.
            shape: the number of queries, labels and teachers of the release.

        Raises:
            InvalidValue: no noise meets the budget, or the failure probabilities use up its delta.
        """
        planned = with_failure_prob_for(self, delta=budget.delta, num_queries=shape.num_queries)
        keeps_proportion = self.test != "table" and self.selection_share is not None
        if self.table is not None or keeps_proportion:
            return planned.scaled_to(budget, shape)
        shares: tuple[float | None, ...] = (self.selection_share,)
        if self.selection_share is None:
            shares = (None, EVEN_SHARE)
        splits = [split_budget(planned, budget, shape, selection_share=share) for share in shares]
        candidates = [split.scaled_to(budget, shape) for split in splits]

        def rank(candidate: StableTopK) -> ReleaseRank:
            return candidate.steps(
                num_labels=shape.num_labels, num_teachers=shape.num_teachers
            ).rank()

        return min(candidates, key=rank)

    def distribution(
        self, votes: NDArray[np.integer], *, num_teachers: int
    ) -> dict[tuple[int, ...] | None, float]:
        """Returns the probability of each outcome, for one query with counts `[num_labels]`.

        An outcome is a released set of labels, or None for a refusal.
        """
        selection = self.gap_selection(num_labels=len(votes), num_teachers=num_teachers)
        ranking = Ranking.from_counts(np.asarray(votes, dtype=np.int64)[None])
        distribution: dict[tuple[int, ...] | None, float] = {None: 0.0}
        for k, k_prob in zip(selection.candidates, selection.probabilities(votes), strict=True):
            pass_prob = float(self._pass_probs(ranking, np.array([k]), num_teachers)[0])
            labels = tuple(np.flatnonzero(ranking.top(np.array([k]))[0]).tolist())
            distribution[labels] = distribution.get(labels, 0.0) + float(k_prob) * pass_prob
            distribution[None] += float(k_prob) * (1 - pass_prob)
        return distribution

    def identity(self, shape: VoteShape) -> str:
        """Returns all public parameters and the shape as text; see `Aggregator.identity`.

        The regularizer is written by its values, as the text of a function does not show them.
        """
        other_fields = full_text(replace(self, regularizer=None))
        selection = self.gap_selection(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
        return f"{other_fields}, {selection.offsets.tolist()}"

    def tested(
        self, ranking: Ranking, selected_k: Counts, uniforms: NDArray[np.float64], num_teachers: int
    ) -> tuple[Bits, Bits]:
        """Returns labels `[num_queries, num_labels]` and answered `[num_queries]`, after the test of each query.

        The labels of a query that passes are those with the k largest counts.

        Args:
            ranking: the sorted counts of the queries.
            selected_k: int `[num_queries]`, the selected size of each set.
            uniforms: float64 `[num_queries]`, uniform random numbers in [0, 1) that decide the tests.
            num_teachers: the declared number of teachers.
        """
        answered = uniforms < self._pass_probs(ranking, selected_k, num_teachers)
        return ranking.top(np.where(answered, selected_k, 0)), answered

    def draw(self, summary: Counts, shape: VoteShape, rng: Rng) -> Answers:
        """Draws k for each query by noisy gaps, and then tests the set of the k largest counts.

        Two lines add noise: the one that selects k, and the one that draws the uniform numbers for the tests.
        """
        steps = self.steps(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
        ranking = Ranking.from_counts(summary)
        k = steps.selection.draw(ranking, rng)
        uniforms = rng.random(len(k))
        labels, answered = self.tested(ranking, k, uniforms, shape.num_teachers)
        return Answers(labels, answered)

    def _pass_probs(
        self, ranking: Ranking, selected_k: Counts, num_teachers: int
    ) -> NDArray[np.float64]:
        """Returns the probability that the test releases each query's set, `[num_queries]`; 1 for a constant set.

        Args:
            ranking: the sorted counts of the queries.
            selected_k: int `[num_queries]`, the selected size of each set.
            num_teachers: the declared number of teachers.
        """
        test = self.steps(num_labels=ranking.num_labels, num_teachers=num_teachers).test
        gaps = ranking.gaps(padded=self.padded, num_teachers=num_teachers)
        column = selected_k if self.padded else selected_k - 1  # padded gaps begin with k = 0
        pass_probs = test.pass_probabilities(gaps[np.arange(len(selected_k)), column])
        if not self.padded:
            return pass_probs
        is_constant = (selected_k == 0) | (selected_k == ranking.num_labels)
        return np.where(is_constant, 1.0, pass_probs)


def _steps(aggregator: StableTopK, num_labels: int, num_teachers: int) -> SelectThenTest:
    """Returns the selection and the test of an aggregator, cached by the number of labels and teachers."""
    selection = aggregator.gap_selection(num_labels=num_labels, num_teachers=num_teachers)
    return SelectThenTest(selection, aggregator.stability_test(num_teachers=num_teachers))


_cached_steps = lru_cache(maxsize=64)(_steps)  # few, as a test may hold thousands of numbers
