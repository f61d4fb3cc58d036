"""Aggregators that answer where the teachers agree: screening first, then the answer."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ComposedEvent, Event, Ledger, SelfComposedEvent
from pate.accounting.data_dependent import DataDependentCost
from pate.aggregators.aggregator import Bits, ExpectedRelease, PerQueryAggregator, require_shape
from pate.aggregators.gaussian_votes import GaussianVotes, reach_threshold, threshold_cost, threshold_event
from pate.aggregators.gnmax import GNMax
from pate.aggregators.release import Release
from pate.mechanisms.parameters import COUNT, NOISE, POSITIVE
from pate.validation import require
from pate.votes.made_up_votes import MadeUpVotes


@dataclass(frozen=True, kw_only=True)
class ScreenedAggregator(PerQueryAggregator):
    """Answers a query only where statistic + N(0, screening_std**2) >= threshold_share * num_teachers.

    The statistic is a number of teachers in 0..num_teachers which one change moves by at most 1. The price has the
    screening of every query and the answers of as many queries as can be answered, whatever comes out. That is all of
    them, or the first `max_answers` that pass. Then the session halts, and every later query is refused.

    Attributes:
        screening_std: noise of the screening, standard deviation in votes, > 0.
        threshold_share: the share of teachers that the statistic must reach, in (0, 1], public.
        noise_std: noise of the answers, standard deviation in votes, > 0.
        max_answers: after so many answers nothing more is answered, >= 1 and public; None for no limit.
    """

    screening_std: float = field(metadata=NOISE)
    threshold_share: float = field(metadata=POSITIVE)
    noise_std: float = field(metadata=NOISE)
    max_answers: int | None = field(default=None, metadata=COUNT)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.threshold_share <= 1, "threshold_share", self.threshold_share, "a number in (0, 1]")

    @abstractmethod
    def _statistic(self, votes: NDArray[np.int64], *, num_teachers: int) -> NDArray[np.int64]:
        """A number of teachers for each query, `[q]`, moved by at most 1 by one change."""

    @abstractmethod
    def _answer_event(self, *, num_labels: int, num_teachers: int) -> Event:
        """The price of one answer."""

    @property
    @abstractmethod
    def _answers(self) -> GNMax | GaussianVotes:
        """What answers the queries that pass."""

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        require_shape(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)
        bit = threshold_event(self.screening_std, self.threshold_share, num_teachers)
        most = num_queries if self.max_answers is None else min(self.max_answers, num_queries)
        answer = self._answer_event(num_labels=num_labels, num_teachers=num_teachers)
        return ComposedEvent((SelfComposedEvent(bit, num_queries), SelfComposedEvent(answer, most)))

    def cost_on(
        self, votes: NDArray[np.int64], *, num_teachers: int, orders: object, answered: Bits | None = None
    ) -> DataDependentCost | None:
        statistic, share = self._statistic(votes, num_teachers=num_teachers), self.threshold_share
        screening = threshold_cost(statistic, self.screening_std, share, num_teachers=num_teachers, orders=orders)
        asked = votes if answered is None else votes[answered]
        if not len(asked):
            return screening
        answers = self._answers.cost_on(asked, num_teachers=num_teachers, orders=orders)
        return None if answers is None else screening + answers

    def _expected(self, votes: MadeUpVotes, num_queries: int) -> ExpectedRelease:
        """Of the queries before `max_answers`."""
        uncapped = self if self.max_answers is None else replace(self, max_answers=None)
        return super(ScreenedAggregator, uncapped)._expected(votes, num_queries)

    def aggregate(
        self, votes: Any, *, num_teachers: int, rng: np.random.Generator, ledger: Ledger | None = None
    ) -> Release:
        """As every aggregator does; what passes after `max_answers` answers is refused, and none of it handed out."""
        release = super().aggregate(votes, num_teachers=num_teachers, rng=rng, ledger=ledger)
        if self.max_answers is None:
            return release
        answered = release.answered & (np.cumsum(release.answered) <= self.max_answers)
        return replace(release, labels=release.labels & answered[:, None], answered=answered)

    def _draw(self, votes: NDArray[np.int64], *, num_teachers: int, rng: np.random.Generator) -> tuple[Bits, Bits]:
        statistic = self._statistic(votes, num_teachers=num_teachers)[:, None]
        std, share = self.screening_std, self.threshold_share
        passed = reach_threshold(statistic, std, share, num_teachers=num_teachers, rng=rng)[:, 0]
        labels, _ = self._answers._draw(votes, num_teachers=num_teachers, rng=rng)
        return labels & passed[:, None], passed


@dataclass(frozen=True, kw_only=True)
class ConfidentGNMax(ScreenedAggregator):
    """Releases the label with the largest noisy count, if the largest count with separate noise is large enough.

    Formal guarantees:
        * The largest count moves by at most 1 under either adjacency: screening costs one bit per query.
        * An answer costs what `GNMax` costs.
        * Refused queries are charged like answered ones; `max_answers` bounds the answers beforehand.

    Attributes:
        max_votes: the most labels that one teacher votes for, >= 1 and public.

    Source: Papernot et al. 2018, Algorithm 1; docs/proofs/gnmax.md.

    >>> aggregator = ConfidentGNMax(screening_std=2.0, threshold_share=0.6, noise_std=1.0)
    >>> votes = np.array([[90, 3, 7], [34, 33, 33]])
    >>> release = aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    >>> release.answered, release.labels[0]
    (array([ True, False]), array([ True, False, False]))
    """

    single_label: ClassVar[bool] = True

    max_votes: int = field(default=1, metadata=COUNT)

    @property
    def max_votes_per_teacher(self) -> int:
        return self.max_votes

    def _statistic(self, votes: NDArray[np.int64], *, num_teachers: int) -> NDArray[np.int64]:
        return np.asarray(votes.max(axis=1))

    def _answer_event(self, *, num_labels: int, num_teachers: int) -> Event:
        return self._answers.answer_event(num_labels)

    @property
    def _answers(self) -> GNMax:
        return GNMax(noise_std=self.noise_std, max_votes=self.max_votes, adjacency=self.adjacency)


@dataclass(frozen=True, kw_only=True)
class ConfidentVotes(ScreenedAggregator):
    """Releases the bits of `GaussianVotes` on queries where even the smallest majority of a label is large, with noise.

    A label's majority is the number of teachers on its larger side, in num_teachers / 2..num_teachers.

    Formal guarantees:
        * Every majority moves by at most 1 under either adjacency, and so does the smallest: screening costs one bit a
          query, however many labels it looks at.
        * An answer costs one bit per label.
        * Refused queries are charged like answered ones; `max_answers` bounds the answers beforehand.

    Source: Confident-GNMax of Papernot et al. 2018, for several labels; docs/proofs/gnmax.md.

    >>> aggregator = ConfidentVotes(screening_std=2.0, threshold_share=0.7, noise_std=1.0)
    >>> votes = np.array([[90, 3, 88], [90, 3, 55]])
    >>> release = aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    >>> release.answered, release.labels[0]
    (array([ True, False]), array([ True, False,  True]))
    """

    def _statistic(self, votes: NDArray[np.int64], *, num_teachers: int) -> NDArray[np.int64]:
        return np.asarray(np.maximum(votes, num_teachers - votes).min(axis=1))

    def _answer_event(self, *, num_labels: int, num_teachers: int) -> Event:
        return self._answers.event_for(num_queries=1, num_labels=num_labels, num_teachers=num_teachers)

    @property
    def _answers(self) -> GaussianVotes:
        return GaussianVotes(noise_std=self.noise_std, adjacency=self.adjacency)
