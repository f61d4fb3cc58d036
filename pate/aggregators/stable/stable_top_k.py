"""StableTopK: a private choice of k, then the top-k labels if their set is stable."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Accountant, AutoAccountant, Event, SelfComposedEvent, calibrate
from pate.accounting.conversion import zcdp_to_epsilon_classic
from pate.aggregators.histogram import Bits, PerQueryAggregator
from pate.aggregators.stable.budget_split import best_split, split_rank
from pate.aggregators.stable.select_then_test import SelectThenTest
from pate.aggregators.stable.test_parameters import StabilityTestParameters
from pate.mechanisms.gap_selection import SELECTION_NOISES, GapSelection, Regularizer, checked_regularizer
from pate.mechanisms.ranking import Ranking
from pate.mechanisms.stability_test import CertifiedTable, StabilityTable, StabilityTest
from pate.validation import require_choice, require_count, require_positive, require_probability

_EVEN = 0.5  # between selection and test


@dataclass(frozen=True, kw_only=True)
class StableTopK(PerQueryAggregator):
    """Chooses k by noisy max over the gaps of the sorted histogram, then releases the top-k set if the gap passes.

    A refused query is an abstention: its k is not released. k = 0 ("no label") and k = L are constant sets and need
    no test.

    Formal guarantees, per query, refused or not:
        * Outside a failure of probability `failure_prob`, the cost is that of the selection (`GapSelection`) composed
          with one bit (`StabilityTest`), for the stated adjacency.
        * Failure probabilities of all queries add up and are taken from delta.

    Attributes:
        selection_scale: scale of the selection noise in votes, > 0: beta of a Gumbel, std of a Gaussian, b of a
            Laplace, mean of an exponential.
        selection_noise: "gumbel", "gaussian", "laplace" or "exponential".
        test: "gaussian", "laplace" or "table".
        test_std: std of the test's noise in votes, > 0; for "gaussian" and "laplace".
        table_order: Renyi order that the table is made for, > 1; for "table".
        table_budget: Renyi divergence that one test may cost at that order, > 0; for "table". A price: another
            adjacency changes the test and not what it costs.
        table: a ready table instead of an order and a budget, or the path of one that `CertifiedTable.save` wrote.
        failure_prob: probability that an unstable set is released, per query; a ready table brings its own.
        padded: whether k = 0 and k = L are possible answers.
        regularizer: added to each candidate's gap: a function of k, or a finite number for each candidate.
        max_k: the largest k that can be chosen, >= 1; then only the `max_k` + 1 largest counts of a query matter, and
            the other labels need not be known. None for no limit.
        selection_share: the part of the Renyi budget that calibration gives to the selection, in (0, 1); without a
            table the ratio of the two scales says so instead. None for the share that releases the smallest gap.

    Source: Zhu & Wang 2022, Algorithms 1, 2, 4; docs/proofs/stable_top_k.md.

    >>> aggregator = StableTopK(selection_scale=2.0, test_std=3.0)
    >>> votes = np.array([[90, 88, 1, 0], [51, 50, 49, 48]])
    >>> release = aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    >>> release.labels[0], release.answered
    (array([ True,  True, False, False]), array([ True, False]))
    """

    selection_scale: float = field(metadata={"noise": True})
    selection_noise: str = field(default="gumbel", metadata={"public": True})
    test: str = field(default="gaussian", metadata={"public": True})
    test_std: float | None = field(default=None, metadata={"noise": True})
    table_order: float | None = field(default=None, metadata={"noise": True})
    table_budget: float | None = field(default=None, metadata={"noise": True})
    table: CertifiedTable | StabilityTable | str | None = None
    failure_prob: float = 1e-9
    padded: bool = False
    regularizer: Regularizer | None = field(default=None, metadata={"public": True})
    max_k: int | None = None
    selection_share: float | None = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("selection_scale", self.selection_scale)
        require_choice("selection_noise", self.selection_noise, SELECTION_NOISES)
        for name, value in vars(self.test_parameters).items():  # a ready table brings values of its own
            object.__setattr__(self, name, value)
        if self.selection_share is not None:
            require_probability("selection_share", self.selection_share)
        object.__setattr__(self, "regularizer", checked_regularizer(self.regularizer))
        if self.regularizer is None or callable(self.regularizer):  # numbers can be checked only against votes
            self.gap_selection(num_labels=2, num_teachers=1)

    @property
    def max_labels(self) -> int | None:
        """`max_k`."""
        return self.max_k

    @property
    def test_parameters(self) -> StabilityTestParameters:
        """All fields that the second step needs."""
        return StabilityTestParameters(
            test=self.test,
            test_std=self.test_std,
            table_order=self.table_order,
            table_budget=self.table_budget,
            table=self.table,
            failure_prob=self.failure_prob,
            adjacency=self.adjacency,
        )

    def gap_selection(self, *, num_labels: int, num_teachers: int) -> GapSelection:
        """The first step, for votes of that shape."""
        return GapSelection(
            noise_scale=self.selection_scale,
            noise=self.selection_noise,
            num_labels=num_labels,
            num_teachers=num_teachers,
            padded=self.padded,
            regularizer=self.regularizer,
            max_k=self.max_k,
            adjacency=self.adjacency,
        )

    def stability_test(self, *, num_teachers: int) -> StabilityTest:
        """The second step, for that many teachers."""
        return self.test_parameters.stability_test(num_teachers=num_teachers)

    def steps(self, *, num_labels: int, num_teachers: int) -> SelectThenTest:
        """Both steps, for votes of that shape."""
        selection = self.gap_selection(num_labels=num_labels, num_teachers=num_teachers)
        return SelectThenTest(selection, self.test_parameters)

    def with_steps(self, steps: SelectThenTest) -> StableTopK:
        """The same aggregator with the noise of such steps."""
        return replace(self, selection_scale=steps.selection.noise_scale, **vars(steps.parameters))

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        """Selection and test, once a query."""
        steps = self.steps(num_labels=num_labels, num_teachers=num_teachers)
        require_count("num_queries", num_queries, minimum=0)
        return SelfComposedEvent(steps.event, num_queries)

    def scaled(self, factor: float) -> StableTopK:
        """Selection noise and test noise multiplied by `factor`; a table's budget divided by its square."""
        test = self.test_parameters.scaled(factor)
        return replace(self, selection_scale=self.selection_scale * factor, **vars(test))

    def calibrated(
        self,
        *,
        target_epsilon: float,
        target_delta: float,
        num_queries: int,
        num_labels: int,
        num_teachers: int,
        accountant: Callable[[], Accountant] = AutoAccountant,
    ) -> StableTopK:
        """The least noise for a target; a table's order, or a split that is left open, is found first.

        An open split is the best by the sum of both prices, or an even one where that turns out better. A ready table
        stays as it is, and only the selection's noise is solved for.
        """
        shape = {"num_labels": num_labels, "num_teachers": num_teachers}
        goal: dict[str, Any] = {
            "target_epsilon": target_epsilon,
            "target_delta": target_delta,
            "num_queries": num_queries,
        }
        if self.table is not None:
            return self._with_table_calibrated(accountant=accountant, **goal, **shape)
        if self.test != "table" and self.selection_share is not None:
            return super().calibrated(**goal, **shape, accountant=accountant)
        shares = (None, _EVEN) if self.selection_share is None else (self.selection_share,)
        splits = [best_split(self.steps(**shape), selection_share=share, **goal) for share in shares]
        made = [
            super(StableTopK, self.with_steps(split)).calibrated(**goal, **shape, accountant=accountant)
            for split in splits
        ]
        return min(made, key=lambda aggregator: split_rank(aggregator.steps(**shape)))

    def paper_epsilon(self, *, num_queries: int, target_delta: float) -> float | None:
        """The formula behind the paper's 3.6: both steps as sensitivity-1 Gaussians, classic zCDP conversion.

        Defined for Gaussian noise in both steps only. Not a bound for either adjacency (docs/proofs/gap_selection.md).
        """
        if self.paper_rho is None:
            return None
        left = target_delta - num_queries * self.failure_prob
        return zcdp_to_epsilon_classic(num_queries * self.paper_rho, target_delta=left) if left > 0 else math.inf

    @property
    def paper_rho(self) -> float | None:
        """The zCDP that this formula charges one query; not a bound."""
        if (self.selection_noise, self.test) != ("gaussian", "gaussian"):
            return None
        return 1 / (2 * self.selection_scale**2) + 1 / (2 * float(self.test_std or 0) ** 2)

    def distribution(self, votes: NDArray[np.integer], *, num_teachers: int) -> dict[tuple[int, ...] | None, float]:
        """The exact distribution for one histogram `[L]`: each released set of labels, and None for a refusal."""
        selection = self.gap_selection(num_labels=len(votes), num_teachers=num_teachers)
        ranking = Ranking.of(np.asarray(votes, dtype=np.int64)[None])
        distribution: dict[tuple[int, ...] | None, float] = {None: 0.0}
        for k, chosen in zip(selection.candidates, selection.probabilities(votes), strict=True):
            passed = float(self._pass_probs(ranking, np.array([k]), num_teachers)[0])
            labels = tuple(np.flatnonzero(ranking.top(np.array([k]))[0]).tolist())
            distribution[labels] = distribution.get(labels, 0.0) + float(chosen) * passed
            distribution[None] += float(chosen) * (1 - passed)
        return distribution

    def identity(self, *, num_labels: int, num_teachers: int) -> str:
        """The regularizer by its values: the text of a function says nothing about them."""
        shape = {"num_labels": num_labels, "num_teachers": num_teachers}
        rest = super(StableTopK, replace(self, regularizer=None)).identity(**shape)
        return f"{rest}, {self.gap_selection(**shape).offsets.tolist()}"

    def _draw(self, votes: NDArray[np.int64], *, num_teachers: int, rng: np.random.Generator) -> tuple[Bits, Bits]:
        selection = self.gap_selection(num_labels=votes.shape[1], num_teachers=num_teachers)
        ranking = Ranking.of(votes)
        k = selection.draw(ranking, rng)
        answered = rng.random(len(k)) < self._pass_probs(ranking, k, num_teachers)
        return ranking.top(np.where(answered, k, 0)), answered

    def _pass_probs(self, ranking: Ranking, k: NDArray[np.int64], num_teachers: int) -> NDArray[np.float64]:
        """The probability that the set of the k best labels is released: `[Q]`, 1 where it is constant."""
        gaps = ranking.gaps(padded=True, num_teachers=num_teachers)[np.arange(len(k)), k]
        probs = self.stability_test(num_teachers=num_teachers).pass_probabilities(gaps)
        return np.where((k == 0) | (k == ranking.num_labels), 1.0, probs)

    def _with_table_calibrated(
        self, *, target_epsilon: float, target_delta: float, accountant: Callable[[], Accountant], **shape: int
    ) -> StableTopK:
        scale = calibrate(
            lambda noise: replace(self, selection_scale=noise).event_for(**shape),
            target_epsilon=target_epsilon,
            target_delta=target_delta,
            accountant=accountant,
            start=self.selection_scale,
        )
        return replace(self, selection_scale=scale)
