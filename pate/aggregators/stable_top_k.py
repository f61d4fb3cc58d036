"""Stable top-k: any number of labels, chosen by noisy gaps and released where a test finds the set stable.

Sort a query's counts. The gap behind place k is the difference of the k-th and the next count. Where a gap is larger
than what one teacher can change, the set of the k labels above is the same for all neighbors, and its release costs
nothing. So a query takes two steps:

1. **Selection.** k is drawn by a noisy maximum over all gaps (`GapSelection`). One teacher can change each gap only
   little, so this is cheap: the price hardly depends on L.
2. **Test.** A bit, drawn with noise on the gap behind the chosen place (`StabilityTest`), decides whether the set is
   released. An unstable set passes with probability at most `failure_prob`, which is taken from delta.

`SelectThenTest` (`select_then_test.py`) is both steps for votes of one shape. `StableAggregator`
(`stable_aggregator.py`) has the fields that `StableTopK` and `StableFixedTopK` share.

Source: Zhu & Wang 2022; docs/proofs/stable_top_k.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Budget, Event, SelfComposedEvent
from pate.aggregators.aggregator import Rng
from pate.aggregators.answers import Answers
from pate.aggregators.failures import with_failure_prob_for
from pate.aggregators.hashability import is_hashable
from pate.aggregators.select_then_test import SelectThenTest
from pate.aggregators.stable_aggregator import StableAggregator
from pate.aggregators.stable_split import EVEN_SHARE, split_budget
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.files.digests import unabridged_repr
from pate.mechanisms.gap_selection import GapSelection, Regularizer, checked_regularizer
from pate.mechanisms.vote_ranking import VoteRanking
from pate.validation import normalize_field
from pate.votes.shape import VoteShape


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
        selection_noise: "gumbel" (the default), "gaussian", "laplace" or "exponential".
        test: "gaussian" (the default) or "laplace" for a test with that noise on the gap, "table" for an optimal table
            of probabilities. The four fields below hold its parameters.
        test_std: standard deviation in votes of the noise of a "gaussian" or "laplace" test, > 0; None for a table.
        table_order: the Renyi order for which a table is computed, > 1; None for other tests.
        table_budget: the Renyi divergence of one test at that order, > 0, the same under both adjacencies; None for
            other tests.
        table: a given table, or the path of a file that `CertifiedTable.save` wrote; None to compute the table from
            `table_order` and `table_budget`.
        failure_prob: the largest probability, per query, that an unstable set is released; a given table has its own.
            None is 1e-9, or less where the failures of all queries would take more than 0.6 of delta.
        padded: whether k = 0 and k = num_labels are possible answers; False by default.
        regularizer: a bonus in votes for each candidate k, added to its gap: a function of k, or an array with one
            finite number for each candidate. None for no bonus.
        max_k: the largest k that can be selected, >= 1; None for no limit. With a limit only the `max_k` + 1 largest
            counts of a query matter.
        selection_share: the part of the Renyi budget for the selection, in (0, 1), when noise is fitted with a table
            that is computed. With another test, a number keeps the ratio of the two noises. None chooses the share that
            makes the gap which is released with probability 1/2 smallest. The default is 0.5.

    >>> aggregator = StableTopK(selection_scale=2.0, test_std=3.0)
    >>> votes = np.array([[90, 88, 1, 0], [51, 50, 49, 48]])
    >>> release = aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    >>> release.labels[0], release.answered
    (array([ True,  True, False, False]), array([ True, False]))
    """

    # The fields that are common to `StableTopK` and `StableFixedTopK` are those of `StableAggregator`.
    regularizer: Regularizer | None = field(default=None, metadata={"public": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        normalize_field(self, "regularizer", checked_regularizer(self.regularizer))
        if self.regularizer is None or callable(self.regularizer):
            # Made only for its checks of the noise, with the smallest votes. An array as regularizer has to have one
            # number for each candidate, so it can be checked only against the votes.
            self.gap_selection(num_labels=2, num_teachers=1)

    def gap_selection(self, *, num_labels: int, num_teachers: int) -> GapSelection:
        """Returns the mechanism that draws k, for votes with this number of labels and teachers."""
        return GapSelection(
            noise_scale=self.selection_scale,
            noise=self.selection_noise,
            num_labels=num_labels,
            num_teachers=num_teachers,
            padded=self.padded,  # whether k = 0 and k = num_labels are candidates
            regularizer=self.regularizer,
            max_k=self.max_k,
            adjacency=self.adjacency,
        )

    def steps(self, *, num_labels: int, num_teachers: int) -> SelectThenTest:
        """Returns the selection and the test, for votes with this number of labels and teachers."""
        if is_hashable(self):
            return _cached_steps(self, num_labels, num_teachers)
        # A regularizer that is a function without a hash cannot be a key of the cache.
        return _make_steps(self, num_labels, num_teachers)

    def event(self, shape: VoteShape) -> Event:
        """Returns the price of both steps for each query; see `Aggregator.event`."""
        steps = self.steps(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
        return SelfComposedEvent(steps.event, count=shape.num_queries)

    def fitted(self, budget: Budget, shape: VoteShape) -> StableTopK:
        """Returns a copy of the aggregator with the least noise of selection and test that meets a budget.

        There are three steps:

        1. `split_budget` (`aggregators/stable_split.py`) fixes the proportion of the two noises: it sets them, and the
           order of a table, by a split of the budget. If `selection_share` is None there are two candidates: the best
           split, and the split into equal parts.
        2. `scaled_to` multiplies both noises of a candidate by the least factor that meets the budget.
        3. Of two candidates, the one that releases a smaller gap with probability 1/2 is returned.

        Only step 2 is done in two cases. A given table has a fixed price. A Gaussian or Laplace test with a number as
        `selection_share` keeps the present proportion of the two noises.

        Args:
            budget: the epsilon and delta that the release may cost.
            shape: the number of queries, labels and teachers of the release.

        Raises:
            InvalidValue: no noise meets the budget, or the failure probabilities use up its delta.
        """
        planned_aggregator = with_failure_prob_for(
            self, delta=budget.delta, num_queries=shape.num_queries
        )
        keeps_proportion = self.test != "table" and self.selection_share is not None
        if self.table is not None or keeps_proportion:
            return planned_aggregator.scaled_to(budget, vote_shape=shape)
        shares = (None, EVEN_SHARE) if self.selection_share is None else (self.selection_share,)
        candidates = [
            split_budget(
                planned_aggregator, budget, vote_shape=shape, k_selection_share=share
            ).scaled_to(budget, vote_shape=shape)
            for share in shares
        ]

        def released_gap_key(candidate: StableTopK) -> tuple[float, float]:
            steps = candidate.steps(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
            return steps.released_gap_key()

        return min(candidates, key=released_gap_key)

    def distribution(
        self, votes: NDArray[np.integer], *, num_teachers: int
    ) -> dict[tuple[int, ...] | None, float]:
        """Returns the probability of each outcome, for one query with counts `[num_labels]`.

        An outcome is a released set of labels, or None for a refusal.
        """
        counts = np.asarray(votes)
        selection = self.gap_selection(num_labels=len(counts), num_teachers=num_teachers)
        vote_ranking = VoteRanking.from_counts(counts.astype(np.int64)[None])
        distribution: dict[tuple[int, ...] | None, float] = {None: 0.0}
        for k, k_prob in zip(selection.candidates, selection.probabilities(counts), strict=True):
            selected_k = np.array([k])
            pass_probs = self._pass_probs(vote_ranking, selected_k, num_teachers)
            pass_prob = float(pass_probs.item())
            released_labels = tuple(np.flatnonzero(vote_ranking.top(selected_k)[0]).tolist())
            distribution[released_labels] = (
                distribution.get(released_labels, 0.0) + float(k_prob) * pass_prob
            )
            distribution[None] += float(k_prob) * (1 - pass_prob)
        return distribution

    def identity(self, shape: VoteShape) -> str:
        """Returns all public parameters as text; see `Aggregator.identity`.

        The regularizer is written by its values for votes of this shape, as the text of a function does not show them.
        """
        other_fields = unabridged_repr(replace(self, regularizer=None))
        selection = self.gap_selection(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
        return f"{other_fields}, {selection.offsets.tolist()}"

    def release_stable_sets(
        self,
        vote_ranking: VoteRanking,
        *,
        selected_k: IntArray,
        uniforms: FloatArray,
        num_teachers: int,
    ) -> tuple[BoolArray, BoolArray]:
        """Returns labels `[num_queries, num_labels]` and answered `[num_queries]`, after the test of each query.

        The labels of a query that passes are those with the k largest counts.

        Args:
            vote_ranking: the sorted counts of the queries.
            selected_k: int `[num_queries]`, the selected size of each set.
            uniforms: float64 `[num_queries]`, uniform random numbers in [0, 1) that decide the tests.
            num_teachers: the declared number of teachers.
        """
        answered = uniforms < self._pass_probs(vote_ranking, selected_k, num_teachers)
        return vote_ranking.top(np.where(answered, selected_k, 0)), answered

    def draw(self, summary: IntArray, shape: VoteShape, rng: Rng) -> Answers:
        """Draws k for each query by noisy gaps, and then tests the set of the k largest counts.

        Two lines add noise: the one that selects k, and the one that draws the uniform numbers for the tests.
        """
        steps = self.steps(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
        vote_ranking = VoteRanking.from_counts(summary)
        selected_k = steps.selection.draw(vote_ranking, rng)
        uniforms = rng.random(len(selected_k))
        labels, answered = self.release_stable_sets(
            vote_ranking, selected_k=selected_k, uniforms=uniforms, num_teachers=shape.num_teachers
        )
        return Answers(labels=labels, answered=answered)

    def _pass_probs(
        self, vote_ranking: VoteRanking, selected_k: IntArray, num_teachers: int
    ) -> FloatArray:
        """Returns the probability that the set of the k largest counts passes the test, `[num_queries]`.

        It is 1 for the empty set and the set of all labels, which are released without a test.

        Args:
            vote_ranking: the sorted counts of the queries.
            selected_k: int `[num_queries]`, the selected size of each set.
            num_teachers: the declared number of teachers.
        """
        stability_test = self.steps(
            num_labels=vote_ranking.num_labels, num_teachers=num_teachers
        ).test
        gaps = vote_ranking.gaps(with_outer_gaps=self.padded, num_teachers=num_teachers)
        # The gaps begin with k = 0 if padded, and with k = 1 otherwise.
        columns_of_gaps = selected_k if self.padded else selected_k - 1
        selected_gaps = gaps[np.arange(len(selected_k)), columns_of_gaps]
        gap_pass_probs = stability_test.pass_probabilities(selected_gaps)
        if not self.padded:
            return gap_pass_probs
        needs_no_test = (selected_k == 0) | (selected_k == vote_ranking.num_labels)
        return np.where(needs_no_test, 1.0, gap_pass_probs)


def _make_steps(aggregator: StableTopK, num_labels: int, num_teachers: int) -> SelectThenTest:
    """Returns the selection and the test of an aggregator for votes of this number of labels and teachers."""
    selection = aggregator.gap_selection(num_labels=num_labels, num_teachers=num_teachers)
    stability_test = aggregator.stability_test(num_teachers=num_teachers)
    return SelectThenTest(selection=selection, test=stability_test)


# Price, draw and calibration ask for the same steps. The cache is small, as a test may hold thousands of numbers.
_cached_steps = lru_cache(maxsize=64)(_make_steps)
