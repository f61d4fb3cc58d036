"""Confident aggregators: a query is answered only if a noisy test finds that enough teachers agree.

The test, called the screening, compares a statistic of the query with a share of the teachers. Its outcome is one bit
with noise of its own. Queries that pass the screening are answered by `GNMax` or `GaussianVotes`. The price has the
screening of every query, and as many answers as can be released.
"""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from pate.accounting import ComposedEvent, Event, SelfComposedEvent
from pate.aggregators.aggregator import Aggregator, Rng
from pate.aggregators.answers import Answers
from pate.aggregators.expectation import ExpectedRelease, expected_by_drawing, expected_from_votes
from pate.aggregators.gaussian_votes import GaussianVotes
from pate.aggregators.gnmax import GNMax
from pate.aggregators.thresholds import reach_threshold, threshold_event
from pate.array_types import IntArray
from pate.mechanisms.parameters import COUNT, NOISE, POSITIVE
from pate.validation import require
from pate.votes.made_up import MadeUpVotes
from pate.votes.shape import VoteShape


@dataclass(frozen=True, kw_only=True)
class ScreenedAggregator(Aggregator):
    """The base class of aggregators that answer a query only if a noisy statistic of it reaches a threshold.

    The rule is statistic + N(0, screening_std**2) >= threshold_share * num_teachers. The statistic of a query is a
    number of teachers in 0..num_teachers, and one change moves it by at most 1. The price has the screening of every
    query. It also has an answer for every query, or for `max_answers` of them. After `max_answers` answers every later
    query is refused. `ConfidentGNMax` documents the fields.
    """

    screening_std: float = field(metadata=NOISE)
    threshold_share: float = field(metadata=POSITIVE)
    noise_std: float = field(metadata=NOISE)
    max_answers: int | None = field(default=None, metadata=COUNT)

    def __post_init__(self) -> None:
        super().__post_init__()
        is_share = self.threshold_share <= 1
        require(is_share, "threshold_share", self.threshold_share, "a number in (0, 1]")

    @abstractmethod
    def statistic(self, counts: IntArray, *, num_teachers: int) -> IntArray:
        """Returns the statistic of each query, int `[num_queries]`.

        The statistic is a number of teachers that one change moves by at most 1.

        Args:
            counts: `[num_queries, num_labels]`.
            num_teachers: the declared number of teachers.
        """

    @property
    @abstractmethod
    def answers(self) -> GNMax | GaussianVotes:
        """The aggregator that answers the queries that pass the screening."""

    def event(self, shape: VoteShape) -> Event:
        """Returns the price of the screening of all queries, and of the largest possible number of answers."""
        bit_event = threshold_event(self.screening_std, self.threshold_share, shape.num_teachers)
        screenings_event = SelfComposedEvent(bit_event, count=shape.num_queries)
        max_answers = shape.num_queries
        if self.max_answers is not None:
            max_answers = min(self.max_answers, shape.num_queries)
        answers_event = self.answers.event(replace(shape, num_queries=max_answers))
        return ComposedEvent((screenings_event, answers_event))

    def draw_all(self, summary: IntArray, vote_shape: VoteShape, rng: Rng) -> Answers:
        """Draws the answers to all queries; see `Aggregator.draw_all`.

        After `max_answers` answers, later queries that pass are refused, and their draws are not released.
        """
        labels, is_passed = super().draw_all(summary, vote_shape, rng)
        if self.max_answers is None:
            return Answers(labels=labels, answered=is_passed)
        answered = is_passed & (np.cumsum(is_passed) <= self.max_answers)
        return Answers(labels=labels & answered[:, None], answered=answered)

    def draw(self, summary: IntArray, shape: VoteShape, rng: Rng) -> Answers:
        """Draws whether each query passes the screening, and an answer to each query; failing ones are refused."""
        screened_counts = self.statistic(summary, num_teachers=shape.num_teachers)
        is_passed = reach_threshold(
            counts=screened_counts[:, None],
            noise_std=self.screening_std,
            threshold_share=self.threshold_share,
            num_teachers=shape.num_teachers,
            rng=rng,
        )[:, 0]
        labels = self.answers.draw(summary, shape, rng).labels
        return Answers(labels=labels & is_passed[:, None], answered=is_passed)


@dataclass(frozen=True, kw_only=True)
class ConfidentGNMax(ScreenedAggregator):
    """Releases the label with the largest noisy count, if the largest count with separate noise is large enough.

    Formal guarantee: one change moves the largest count by at most 1 under either adjacency. So the screening costs one
    bit for each query. An answer costs as much as one of `GNMax`. The price has an answer for every query, refused or
    not, or for `max_answers` queries.

    Source: Papernot et al. 2018, Algorithm 1; docs/proofs/gnmax.md.

    Attributes:
        screening_std: standard deviation of the screening's noise, in votes, > 0.
        threshold_share: the share of the teachers that the largest count must reach, in (0, 1], public.
        noise_std: standard deviation of the answers' noise, in votes, > 0.
        max_answers: the number of answers after which every query is refused, >= 1 and public; None for no limit.
        max_votes: the largest number of labels of a query that a teacher votes for, >= 1 and public.

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
        """The largest number of labels of a query that a teacher may vote for under this price: `max_votes`."""
        return self.max_votes

    @property
    def answers(self) -> GNMax:
        """The aggregator that answers the queries that pass the screening."""
        return GNMax(noise_std=self.noise_std, max_votes=self.max_votes, adjacency=self.adjacency)

    def statistic(self, counts: IntArray, *, num_teachers: int) -> IntArray:
        """Returns the largest count of each query, int `[num_queries]`."""
        return np.asarray(counts.max(axis=1))


@dataclass(frozen=True, kw_only=True)
class ConfidentVotes(ScreenedAggregator):
    """Releases one bit for each label, as `GaussianVotes` does, on queries where all labels have a large majority.

    The majority of a label is the number of teachers for it or against it, whichever is larger. The screening compares
    the smallest majority of a query plus noise with the threshold. The fields are those of `ConfidentGNMax`, without
    `max_votes`.

    Formal guarantee: one change moves every majority by at most 1 under either adjacency, and so also the smallest
    majority. The screening costs one bit for each query, and an answer one bit for each label.

    Source: Confident-GNMax of Papernot et al. 2018, for several labels; docs/proofs/gnmax.md.

    >>> aggregator = ConfidentVotes(screening_std=2.0, threshold_share=0.7, noise_std=1.0)
    >>> votes = np.array([[90, 3, 88], [90, 3, 55]])
    >>> release = aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    >>> release.answered, release.labels[0]
    (array([ True, False]), array([ True, False,  True]))
    """

    counts_abstention_as_half: ClassVar[bool] = True

    @property
    def answers(self) -> GaussianVotes:
        """The aggregator that answers the queries that pass the screening."""
        return GaussianVotes(noise_std=self.noise_std, adjacency=self.adjacency)

    def statistic(self, counts: IntArray, *, num_teachers: int) -> IntArray:
        """Returns the smallest majority over the labels of each query, int `[num_queries]`."""
        majority_sizes = np.maximum(counts, num_teachers - counts)
        return np.asarray(majority_sizes.min(axis=1))


@expected_from_votes.register(ScreenedAggregator)
def _expected_from_screened(
    aggregator: ScreenedAggregator, made_up_votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    """Returns the expected shares of right labels, measured on drawn answers as if `max_answers` were None.

    They hold for the queries up to the answer number `max_answers`, after which all are refused. `num_queries` is not
    read.
    """
    return expected_by_drawing(replace(aggregator, max_answers=None), made_up_votes)
