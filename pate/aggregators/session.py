"""Sessions under target charging: one price for many queries, charged at once; the session halts after some hits.

Plain composition charges every query. Target charging (Cohen & Lyu 2023) charges hits alone. Each query is answered by
a mechanism with a *target*, a set of outcomes. An outcome in the target is a *hit*. A query can be seen as first
deciding at random whether it *accesses the data* at all. Without an access, its outcome has the same distribution on
two neighbors. The target is chosen such that an access hits with a probability of at least q. So a session that halts
at its `target_hits`-th hit has few accesses, except with a small probability. All queries that do not hit are free.

An aggregator of this kind answers its queries in order, in rounds. The price of the whole session is charged before the
first round is shown. Each round is stored before the next one is drawn, since a student may predict later queries from
it.

Source: Cohen & Lyu 2023; docs/proofs/hits.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Budget, Event
from pate.aggregators.aggregator import Aggregator, Rng
from pate.aggregators.answers import Answers
from pate.aggregators.expectation import ExpectedRelease, expected_from_votes
from pate.aggregators.failures import with_failure_prob_for
from pate.aggregators.record import Arrays, MemoryRecord, ReleaseRecord
from pate.aggregators.release import ChargedRelease
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.mechanisms.noise.lazy_uniforms import LazyUniforms
from pate.mechanisms.parameters import COUNT, PROBABILITY
from pate.validation import require, require_generator
from pate.votes.made_up import MadeUpVotes
from pate.votes.shape import VoteShape
from pate.votes.source import VoteSource

# The number of words, beyond the first, that are drawn in advance for each random number. So its first 128 bits are the
# same in a session that is interrupted and continued. A draw that needs more bits is exact too, but may then differ.
_NUM_RESERVED_WORDS = 1


class Round(NamedTuple):
    """The outcomes of consecutive queries of a session.

    Attributes:
        labels: bool `[num_queries, num_labels]`.
        answered: bool `[num_queries]`.
        hits: bool `[num_queries]`, True for queries that use up one of the session's `target_hits`.
    """

    labels: BoolArray
    answered: BoolArray
    hits: BoolArray

    def until_hits(self, max_hits: int) -> Round:
        """Returns a copy in which every query after the `max_hits`-th hit is refused and is no hit."""
        hits_before: IntArray = np.cumsum(self.hits) - self.hits
        is_asked = np.asarray(hits_before < max_hits)
        return Round(
            labels=self.labels & is_asked[:, None],
            answered=self.answered & is_asked,
            hits=self.hits & is_asked,
        )

    def require_fits(self, labels_shape: tuple[int, ...], *, hits_left: int) -> None:
        """Raises `InvalidValue` if the round has another shape, or more than `hits_left` hits.

        Args:
            labels_shape: (num_queries, num_labels) of the round.
            hits_left: the number of hits before the session halts.
        """
        array_shapes = [array.shape for array in self]
        has_shape = array_shapes == [labels_shape, labels_shape[:1], labels_shape[:1]]
        require(has_shape, "round", self.labels.shape, f"a round of {labels_shape}")
        num_hit_queries = int(self.hits.sum())
        require(
            num_hit_queries <= hits_left,
            "round",
            f"{num_hit_queries} hits",
            f"at most {hits_left} hits",
        )


class _SessionUniforms:
    """Uniform random numbers that decide the outcomes of all queries of a session, drawn together at the first read.

    A round, which answers some consecutive queries, reads its share of them. If all rounds are read from a record,
    nothing is drawn.
    """

    def __init__(self, num_queries: int, num_per_query: int, rng: Rng) -> None:
        self._uniforms_shape = (num_queries, num_per_query)
        self._rng = rng

    @cached_property
    def numbers(self) -> LazyUniforms:
        """The uniform random numbers in [0, 1), `[num_queries, num_per_query]`."""
        return LazyUniforms.draw(
            self._uniforms_shape, self._rng, num_reserved_words=_NUM_RESERVED_WORDS
        )


@dataclass(frozen=True, kw_only=True)
class TargetChargedAggregator(Aggregator):
    """Answers queries in order until `target_hits` of them are hits, and refuses all later queries.

    A query is a hit if its outcome is in the target, a set of outcomes that the subclass defines. The queries are drawn
    in rounds.

    Formal guarantee: the price of the whole session is charged before the first answer is shown. It depends on neither
    votes nor hits nor priors.

    Edge case: the random numbers of all queries are drawn together. So a session that is interrupted, and continued
    with a generator of the same seed, releases the same answers as one without a break.

    Attributes:
        target_hits: the number of hits after which the session halts, >= 1.
        session_delta: the delta for which the price of the session is chosen, in (0, 1): best the delta of the whole
            guarantee. The price holds at any delta.
        round_size: the largest number of queries in a round, >= 1.
    """

    target_hits: int = field(default=10, metadata=COUNT)
    session_delta: float = field(default=1e-6, metadata=PROBABILITY | {"solved": True})
    round_size: int = field(default=500, metadata=COUNT)

    pays_in_advance: ClassVar[bool] = True
    _uniforms_per_query: ClassVar[int] = 1

    @abstractmethod
    def plain_event(self, shape: VoteShape) -> Event:
        """Returns the price of the same answers if every query is charged, and the session never halts."""

    @abstractmethod
    def hit_probabilities(
        self, votes: IntArray, *, num_teachers: int, prior: BoolArray | None = None
    ) -> FloatArray:
        """Returns the probability that each query is a hit, `[num_queries]`. No epsilon covers the result.

        Args:
            votes: counts, `[num_queries, num_labels]`.
            num_teachers: the declared number of teachers.
            prior: bool `[num_queries, num_labels]`, the predicted labels; None without a prior.
        """

    @abstractmethod
    def _ask(
        self,
        counts: IntArray,
        lazy_uniforms: LazyUniforms,
        predicted_labels: BoolArray | None,
        *,
        first_query: int,
        num_teachers: int,
    ) -> Round:
        """Returns the outcomes of consecutive queries, as if the session did not halt among them.

        Args:
            counts: `[num_queries, num_labels]`, of these queries.
            lazy_uniforms: the random numbers of these queries, `[num_queries, _uniforms_per_query]`.
            predicted_labels: bool `[num_queries, num_labels]`, the predicted labels; None without a prior.
            first_query: the index in the session of the first of these queries.
            num_teachers: the declared number of teachers.
        """

    def fitted(self, budget: Budget, shape: VoteShape) -> Self:
        """Returns a copy of the aggregator with the least noise that meets a budget; see `Aggregator.fitted`.

        `target_hits` stays as it is, and `session_delta` becomes the budget's delta.
        """
        session_aggregator = replace(self, session_delta=budget.delta)
        planned_aggregator = with_failure_prob_for(
            session_aggregator, delta=budget.delta, num_queries=shape.num_queries
        )
        return planned_aggregator.scaled_to(budget, vote_shape=shape)

    def expected_labels(
        self, released_labels: BoolArray, answered: BoolArray, num_queries: int
    ) -> BoolArray | None:
        """Returns the predicted labels of the next queries, bool `[num_queries, num_labels]`; None without a prior.

        Args:
            released_labels: bool `[num_released, num_labels]`, the labels released for all earlier queries.
            answered: bool `[num_released]`, whether each earlier query was answered.
            num_queries: the number of queries to predict.
        """
        return None

    def draw(self, summary: IntArray, shape: VoteShape, rng: Rng) -> Answers:
        """Draws all rounds of a session in one call, without a record of the rounds."""
        charged_release = self._session(
            counts=summary, vote_shape=shape, rng=rng, record=MemoryRecord()
        )
        return Answers(labels=charged_release.labels, answered=charged_release.answered)

    def release(self, votes: VoteSource, rng: Rng, record: ReleaseRecord) -> ChargedRelease:
        """Releases labels of the queries in order, until the session halts.

        Each round is stored as a part `round-N` of the record, with the labels, answered and hits of its queries. The
        record stores a round before the next one is drawn.
        """
        require_generator(rng)
        self.event(votes.shape)  # raises for a shape that has no price
        return self._session(
            counts=self.summarize(votes), vote_shape=votes.shape, rng=rng, record=record
        )

    def _session(
        self, counts: NDArray[np.integer], vote_shape: VoteShape, rng: Rng, record: ReleaseRecord
    ) -> ChargedRelease:
        """Returns the release of the session: rounds that the record holds are read, and the others are drawn.

        Args:
            counts: `[num_queries, num_labels]`, of all queries.
            vote_shape: the number of queries, labels and teachers.
            rng: the source of all noise.
            record: charges the price and stores each round.
        """
        session_outcome = Round(
            labels=np.zeros(counts.shape, dtype=np.bool_),
            answered=np.zeros(vote_shape.num_queries, dtype=np.bool_),
            hits=np.zeros(vote_shape.num_queries, dtype=np.bool_),
        )
        session_uniforms = _SessionUniforms(vote_shape.num_queries, self._uniforms_per_query, rng)
        num_asked = 0
        for round_number, query_range in enumerate(self._rounds(vote_shape.num_queries)):
            hits_left = self.target_hits - int(session_outcome.hits.sum())
            draw_round = partial(
                self._draw_round,
                counts=counts[query_range],
                session_uniforms=session_uniforms,
                session_outcome=session_outcome,
                query_range=query_range,
                hits_left=hits_left,
                num_teachers=vote_shape.num_teachers,
            )
            arrays_of_round = record.part(f"round-{round_number}", draw_round)
            round_outcome = Round(
                labels=arrays_of_round["labels"],
                answered=arrays_of_round["answered"],
                hits=arrays_of_round["hits"],
            )
            # A file of committed rounds may be that of another session.
            round_outcome.require_fits(
                session_outcome.labels[query_range].shape, hits_left=hits_left
            )
            session_outcome.labels[query_range] = round_outcome.labels
            session_outcome.answered[query_range] = round_outcome.answered
            session_outcome.hits[query_range] = round_outcome.hits
            num_asked = query_range.stop
            if int(session_outcome.hits.sum()) == self.target_hits:
                num_asked = int(np.flatnonzero(session_outcome.hits)[-1]) + 1
                break
        return ChargedRelease(
            labels=session_outcome.labels,
            answered=session_outcome.answered,
            event=self.event(vote_shape),
            adjacency=self.adjacency,
            hits=session_outcome.hits,  # True for each query that was a hit
            num_asked=num_asked,
            target_hits=self.target_hits,
        )

    def _draw_round(
        self,
        counts: NDArray[np.integer],
        session_uniforms: _SessionUniforms,
        session_outcome: Round,
        *,
        query_range: slice,
        hits_left: int,
        num_teachers: int,
    ) -> Arrays:
        """Draws the labels, answered and hits of a round, as arrays by these names.

        Every query after the `hits_left`-th hit of the round is refused.

        Args:
            counts: `[num_queries, num_labels]`, of the queries of the round.
            session_uniforms: the random numbers of the session.
            session_outcome: the outcomes of all queries, of which those before the round are known.
            query_range: the range of the queries of the round in the session.
            hits_left: the number of hits before the session halts.
            num_teachers: the declared number of teachers.
        """
        counts_of_round = counts.astype(np.int64, copy=False)
        predicted_labels = self._predicted_labels(
            released_labels=session_outcome.labels[: query_range.start],
            answered=session_outcome.answered[: query_range.start],
            labels_shape=counts_of_round.shape,
        )
        round_outcome = self._ask(
            counts_of_round,
            lazy_uniforms=session_uniforms.numbers[query_range],
            predicted_labels=predicted_labels,
            first_query=query_range.start,
            num_teachers=num_teachers,
        )
        return round_outcome.until_hits(hits_left)._asdict()

    def _predicted_labels(
        self, *, released_labels: BoolArray, answered: BoolArray, labels_shape: tuple[int, ...]
    ) -> BoolArray | None:
        """Returns the predicted labels of a round once their type and shape are checked; None without a prior.

        Args:
            released_labels: bool `[num_released, num_labels]`, the labels released before the round.
            answered: bool `[num_released]`.
            labels_shape: (num_queries, num_labels) of the round.
        """
        unchecked_prediction = self.expected_labels(
            released_labels, answered, num_queries=labels_shape[0]
        )
        if unchecked_prediction is None:
            return None
        predicted_labels = np.asarray(unchecked_prediction)
        is_valid = predicted_labels.dtype == np.bool_ and predicted_labels.shape == labels_shape
        require(
            is_valid,
            "prior",
            f"{predicted_labels.dtype} {predicted_labels.shape}",
            f"bool {list(labels_shape)}",
        )
        return predicted_labels

    def _rounds(self, num_queries: int) -> Iterator[slice]:
        """Yields the range of queries of each round, as slices of at most `round_size` queries, in order."""
        for first_query in range(0, num_queries, self.round_size):
            yield slice(first_query, min(first_query + self.round_size, num_queries))


@expected_from_votes.register(TargetChargedAggregator)
def expected_from_session(
    aggregator: TargetChargedAggregator,
    made_up_votes: MadeUpVotes,
    num_queries: int,
    predicted_labels: BoolArray | None = None,
) -> ExpectedRelease:
    """Returns the expected shares of right labels of a whole session, which halts after `target_hits` hits.

    Args:
        aggregator: the aggregator of the session.
        made_up_votes: made-up votes; the queries of the session are taken to be like these.
        num_queries: the number of queries of the session.
        predicted_labels: bool `[num_made_up, num_labels]`, the predicted labels of the made-up queries; None without a
            prior.
    """
    counts = made_up_votes.counts(aggregator.max_votes_per_teacher)
    uniforms_shape = (len(counts), aggregator._uniforms_per_query)
    lazy_uniforms = LazyUniforms.draw(uniforms_shape, np.random.default_rng(0))
    # The first queries of a session may be treated otherwise, so the made-up queries come after all of them.
    round_outcome = aggregator._ask(
        counts,
        lazy_uniforms=lazy_uniforms,
        predicted_labels=predicted_labels,
        first_query=num_queries,
        num_teachers=made_up_votes.num_teachers,
    )
    share_of_hits = float(round_outcome.hits.mean())
    share_asked = 1.0
    if share_of_hits > 0:
        share_asked = min(1.0, aggregator.target_hits / (share_of_hits * num_queries))
    expected_answers = ExpectedRelease.from_answers(
        round_outcome.labels, round_outcome.answered, true_labels=made_up_votes.labels
    )
    return replace(expected_answers, answered=share_asked * expected_answers.answered)
