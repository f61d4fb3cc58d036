"""Sessions under target charging: one price for many queries, charged first; the session halts after some hits.

Plain composition charges every query. Target charging (Cohen & Lyu 2023) charges hits alone. Each query is answered by
a mechanism with a *target*, a set of outcomes. An outcome in the target is a *hit*. The target is chosen such that a
query whose outcome distribution differs between neighbors hits with a probability of at least q. A session that halts
at its `target_hits`-th hit therefore has a limited number of such queries (*accesses to the data*). All queries that do
not hit are free.

An aggregator of this kind answers its queries in order, in rounds. The price of the whole session is charged before the
first round. Each round is stored before the next one is drawn, since a student may predict later queries from it.

Source: Cohen & Lyu 2023; docs/proofs/hits.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pate import accounting as pa
from pate.accounting import target_charging as charging
from pate.aggregators.aggregator import Aggregator, Bits, Rng
from pate.aggregators.expectation import ExpectedRelease, expected_from_votes
from pate.aggregators.failures import with_failure_prob_for
from pate.aggregators.record import Arrays, MemoryRecord, ReleaseRecord
from pate.aggregators.release import Answers, ChargedRelease
from pate.mechanisms.noise.lazy_uniforms import LazyUniforms
from pate.mechanisms.parameters import COUNT, PROBABILITY
from pate.validation import (
    InvalidValue,
    require,
    require_count,
    require_generator,
    require_positive,
)
from pate.votes.made_up import MadeUpVotes
from pate.votes.shape import VoteShape
from pate.votes.source import VoteSource

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

# Epsilon of a call beyond which a target is hit too rarely to count hits at all.
_LARGEST_EPSILON = 30.0
# Words drawn beforehand for each random number. 128 bits repeat in a resumed session; a draw that needs more is as
# exact, with bits of its own. With 256 bits of each number drawn beforehand, more are needed with a probability below
# 2**-180.
_WORDS_AHEAD = 1


@lru_cache(maxsize=1024)
def session_event(
    make_target: Callable[[float], charging.QTarget],
    call_epsilon: float,
    *,
    target_hits: int,
    num_calls: int,
    session_delta: float,
    failure_prob: float = 0.0,
    bounded_range: bool | None = None,
    other_releases: pa.Event | None = None,
) -> pa.Event:
    """Returns the price of a session of at most `num_calls` queries that halts after `target_hits` hits.

    Two prices hold, and the lower one is returned. Which one is lower depends on public numbers.

    - **By accesses.** With probability 1 - overrun, the queries of the session access the private data at most n times.
      The price of n accesses is composed, and overrun is taken from delta. If n is not below `num_calls`, the price of
      all queries is composed, and there is no overrun.
    - **By hits.** A `SessionEvent` bounds the privacy loss of `target_hits` hits directly (docs/proofs/hits.md). For
      queries outside the boundary wrapper this price is computed only if `other_releases` is given.

    Args:
        make_target: returns the target of a query, given `call_epsilon`: `charging.not_prior` or
            `charging.tight_boundary`.
        call_epsilon: the pure-DP epsilon of the mechanism on one query, > 0.
        target_hits: the number of hits after which the session halts, >= 1.
        num_calls: the largest number of queries, >= 0.
        session_delta: the delta at which the two prices are compared, and for which the best overrun is computed.
        failure_prob: the sum of the failure probabilities of all queries, less than `session_delta`.
        bounded_range: None for queries outside the boundary wrapper. Inside: whether the log-likelihood ratios of one
            query span at most `call_epsilon`, else False.
        other_releases: the event of the releases that are made together with the session, in any order; None without
            any. The comparison of the two prices takes them into account.

    Raises:
        InvalidValue: `failure_prob` is not less than `session_delta`.
    """
    require_positive("epsilon", call_epsilon)
    if require_count("num_calls", num_calls, minimum=0) == 0:
        return pa.NoOpEvent()
    if failure_prob >= session_delta:
        rule = (
            f"a sum over all calls below session_delta, and {failure_prob:.3g} over "
            f"{num_calls} calls uses up session_delta={session_delta}"
        )
        raise InvalidValue("failure_prob", rule=rule)
    if call_epsilon > _LARGEST_EPSILON:  # twice the epsilon covers an access of every target
        return _composed_calls(2 * call_epsilon, num_calls=num_calls, failure_prob=failure_prob)
    target = make_target(call_epsilon)
    accesses = _accesses(
        target,
        target_hits=target_hits,
        num_calls=num_calls,
        session_delta=session_delta,
        failure_prob=failure_prob,
    )
    price_by_accesses = _composed_calls(
        target.epsilon,
        num_calls=accesses.num_accesses,
        failure_prob=accesses.overrun_prob + failure_prob,
    )
    if bounded_range is None and other_releases is None:
        return price_by_accesses
    composed_accesses = _composed_calls(
        target.epsilon, num_calls=accesses.num_accesses, failure_prob=accesses.overrun_prob
    )
    session: pa.SessionEvent
    if bounded_range is None:
        session = pa.SessionEvent(
            epsilon=target.epsilon,
            hit_prob=target.hit_prob,
            target_hits=target_hits,
            num_calls=num_calls,
            accesses=composed_accesses,
        )
    else:  # priced by its calls' own laws
        session = pa.BoundarySessionEvent(
            epsilon=target.epsilon,
            hit_prob=target.hit_prob,
            target_hits=target_hits,
            num_calls=num_calls,
            accesses=composed_accesses,
            call_epsilon=call_epsilon,
            bounded_range=bounded_range,
        )
    price_by_hits = pa.ApproximateEvent(session, failure_prob)
    return _cheaper(
        price_by_hits,
        price_by_accesses,
        other_releases=other_releases,
        session_delta=session_delta,
    )


@dataclass(frozen=True)
class _Accesses:
    """The number of accesses to the private data that a session pays for.

    Attributes:
        num_accesses: the number of accesses.
        overrun_prob: the probability that a session has more accesses.
    """

    num_accesses: int
    overrun_prob: float


def _accesses(
    target: charging.QTarget,
    *,
    target_hits: int,
    num_calls: int,
    session_delta: float,
    failure_prob: float,
) -> _Accesses:
    """Returns the number of accesses at the best split of delta, at most `num_calls`.

    The arguments are those of `session_event`.
    """
    all_calls = _Accesses(num_accesses=num_calls, overrun_prob=0.0)
    overrun_prob = charging.overrun_probability(
        num_calls, target_hits=target_hits, hit_prob=target.hit_prob
    )
    if overrun_prob >= session_delta:
        return all_calls
    price = charging.best_session_price(
        target,
        target_hits=target_hits,
        by_play=False,
        target_delta=session_delta,
        failure_prob=failure_prob,
    )
    if price.num_accesses >= num_calls:
        return all_calls
    return _Accesses(price.num_accesses, price.overrun_prob)


def _composed_calls(epsilon: float, num_calls: int, failure_prob: float) -> pa.Event:
    """Returns the price of `num_calls` mechanisms of pure DP.

    Args:
        epsilon: the pure-DP epsilon of each.
        num_calls: the number of mechanisms.
        failure_prob: the probability that any of them fails, taken from delta.
    """
    calls = pa.SelfComposedEvent(pa.PureDpEvent(epsilon), num_calls)
    return pa.ApproximateEvent(calls, failure_prob)


def _cheaper(
    price_by_hits: pa.Event,
    price_by_accesses: pa.Event,
    *,
    other_releases: pa.Event | None,
    session_delta: float,
) -> pa.Event:
    """Returns the price of a session that costs less at `session_delta`, together with other releases.

    Args:
        price_by_hits: the price of the session by its hits.
        price_by_accesses: the price of the session by its accesses.
        other_releases: the event of the other releases; None without any.
        session_delta: the delta of the comparison.
    """
    if other_releases is None:
        # Accesses alone are composed optimally, as few accountants are asked for them then.
        price_of_accesses = (
            pa.PureDpAccountant().compose(price_by_accesses).get_epsilon(session_delta)
        )
        price_of_hits = pa.RdpAccountant().compose(price_by_hits).get_epsilon(session_delta)
        return price_by_hits if price_of_hits < price_of_accesses else price_by_accesses
    hits_account = pa.RdpAccountant().compose(pa.ComposedEvent((price_by_hits, other_releases)))
    accesses_account = pa.RdpAccountant().compose(
        pa.ComposedEvent((price_by_accesses, other_releases))
    )
    if accesses_account.failure_prob >= session_delta:
        return price_by_hits if hits_account.failure_prob < session_delta else price_by_accesses
    price_of_hits = hits_account.get_epsilon(session_delta)
    return (
        price_by_hits
        if price_of_hits < accesses_account.get_epsilon(session_delta)
        else price_by_accesses
    )


def bit_epsilon(probabilities: Array, sensitivity: int) -> float:
    """Returns the pure-DP epsilon of a random bit that depends on an integer statistic.

    Args:
        probabilities: the probability that the bit is 1, for consecutive values of the statistic.
        sensitivity: the largest distance by which one change moves the statistic.
    """
    largest = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        for logs in (np.log(probabilities), np.log1p(-probabilities)):
            for step in range(1, min(sensitivity, len(logs) - 1) + 1):
                moves = np.abs(logs[step:] - logs[:-step])
                # NaN: the outcome has probability 0 at both values, so nothing moves
                largest = max(largest, float(np.where(np.isnan(moves), 0.0, moves).max()))
    return largest


class Round(NamedTuple):
    """The outcomes of consecutive queries of a session.

    Attributes:
        labels: bool `[num_queries, num_labels]`.
        answered: bool `[num_queries]`.
        hits: bool `[num_queries]`.
    """

    labels: Bits
    answered: Bits
    hits: Bits

    def until_hits(self, max_hits: int) -> Round:
        """Returns a copy in which every query after the `max_hits`-th hit is refused and is no hit."""
        hits_before: Counts = np.cumsum(self.hits) - self.hits
        is_asked = np.asarray(hits_before < max_hits)
        return Round(
            labels=self.labels & is_asked[:, None],
            answered=self.answered & is_asked,
            hits=self.hits & is_asked,
        )

    def require_fits(self, shape: tuple[int, ...], *, hits_left: int) -> None:
        """Raises `InvalidValue` if the round has another shape, or more than `hits_left` hits.

        Args:
            shape: (num_queries, num_labels) of the round.
            hits_left: the number of hits before the session halts.
        """
        shapes = [array.shape for array in self]
        fits = shapes == [shape, shape[:1], shape[:1]]
        require(fits, "round", shapes[0], f"a round of {shape}")
        num_hits = int(self.hits.sum())
        require(num_hits <= hits_left, "round", f"{num_hits} hits", f"at most {hits_left} hits")


@dataclass(frozen=True, kw_only=True)
class TargetChargedAggregator(Aggregator):
    """Answers queries in order until `target_hits` of them are hits, and refuses all later queries.

    A query is a hit if its outcome is in the target of the subclass. The queries are drawn in rounds.

    Formal guarantee: the price of the whole session is charged before the first query. It depends on neither votes nor
    hits nor priors. The random numbers of all queries are drawn first. So a session that is interrupted and continued
    releases the same answers as one without a break.

    Attributes:
        target_hits: the number of hits after which the session halts, >= 1.
        session_delta: the delta at which the session is priced, in (0, 1). The price holds at any delta, and is lowest
            if this is the delta of the whole guarantee.
        round_size: the largest number of queries in a round, >= 1.
    """

    target_hits: int = field(default=10, metadata=COUNT)
    session_delta: float = field(default=1e-6, metadata=PROBABILITY | {"solved": True})
    round_size: int = field(default=500, metadata=COUNT)

    pays_in_advance: ClassVar[bool] = True
    _uniforms_per_query: ClassVar[int] = 1

    @abstractmethod
    def plain_event(self, shape: VoteShape) -> pa.Event:
        """Returns the price of the same answers if every query is charged, and the session never halts."""

    @abstractmethod
    def hit_probabilities(
        self, votes: Counts, *, num_teachers: int, prior: Bits | None = None
    ) -> Array:
        """Returns the probability that each query is a hit, `[num_queries]`. No epsilon covers the result.

        Args:
            votes: counts, `[num_queries, num_labels]`.
            num_teachers: the declared number of teachers.
            prior: bool `[num_queries, num_labels]`, the predicted labels; None without a prior.
        """

    @abstractmethod
    def _ask(
        self,
        counts: Counts,
        uniforms: LazyUniforms,
        prior: Bits | None,
        *,
        first_query: int,
        num_teachers: int,
    ) -> Round:
        """Returns the outcomes of consecutive queries, as if the session did not halt among them.

        Args:
            counts: `[num_queries, num_labels]`, of these queries.
            uniforms: the random numbers of these queries, `[num_queries, _uniforms_per_query]`.
            prior: bool `[num_queries, num_labels]`, the predicted labels; None without a prior.
            first_query: the index in the session of the first of these queries.
            num_teachers: the declared number of teachers.
        """

    def fitted(self, budget: pa.Budget, shape: VoteShape) -> Self:
        """Returns the same aggregator with the least noise that meets a budget; see `Aggregator.fitted`.

        `target_hits` stays as it is, and `session_delta` becomes the budget's delta.
        """
        counted = replace(self, session_delta=budget.delta)
        planned = with_failure_prob_for(counted, delta=budget.delta, num_queries=shape.num_queries)
        return planned.scaled_to(budget, shape)

    def expected_labels(self, labels: Bits, answered: Bits, num_queries: int) -> Bits | None:
        """Returns the predicted labels of the next queries, bool `[num_queries, num_labels]`; None without a prior.

        Args:
            labels: bool `[num_released, num_labels]`, the labels released for all earlier queries.
            answered: bool `[num_released]`, whether each earlier query was answered.
            num_queries: the number of queries to predict.
        """
        return None

    def draw(self, summary: Counts, shape: VoteShape, rng: Rng) -> Answers:
        """Draws all rounds of a session at once."""
        session = self._session(summary, shape, rng, record=MemoryRecord())
        return Answers(session.labels, session.answered)

    def release(self, votes: VoteSource, rng: Rng, record: ReleaseRecord) -> ChargedRelease:
        """Releases labels of the queries in order, until the session halts.

        Each round is stored as a part `round-N` of the record, with the labels, answered and hits of its queries. The
        record stores a round before the next one is drawn.
        """
        require_generator(rng)
        self.event(votes.shape)  # refuses a shape that has no price
        return self._session(self.summarize(votes), votes.shape, rng, record)

    def _session(
        self, counts: NDArray[np.integer], shape: VoteShape, rng: Rng, record: ReleaseRecord
    ) -> ChargedRelease:
        """Returns the release of the session: rounds that the record holds are read, and the others are drawn.

        Args:
            counts: `[num_queries, num_labels]`, of all queries.
            shape: the number of queries, labels and teachers.
            rng: the source of all noise.
            record: charges the price and stores each round.
        """
        labels = np.zeros(counts.shape, dtype=np.bool_)
        answered = np.zeros(shape.num_queries, dtype=np.bool_)
        hits = np.zeros(shape.num_queries, dtype=np.bool_)
        num_asked = 0

        @cache
        def draw_uniforms() -> LazyUniforms:
            """Draws the random numbers of all queries, once the session is paid for."""
            uniforms_shape = (shape.num_queries, self._uniforms_per_query)
            return LazyUniforms.draw(uniforms_shape, rng, num_reserved_words=_WORDS_AHEAD)

        def ask(queries: slice, hits_left: int) -> Arrays:
            counts_of_round = counts[queries].astype(np.int64, copy=False)
            prior = self._checked_prior(
                labels[: queries.start], answered[: queries.start], counts_of_round.shape
            )
            outcome = self._ask(
                counts_of_round,
                uniforms=draw_uniforms()[queries],
                prior=prior,
                first_query=queries.start,
                num_teachers=shape.num_teachers,
            )
            return outcome.until_hits(hits_left)._asdict()

        for index, queries in enumerate(self._rounds(shape.num_queries)):
            hits_left = self.target_hits - int(hits.sum())
            ask_round = partial(ask, queries, hits_left)
            arrays = record.part(f"round-{index}", ask_round)
            outcome = Round(
                labels=arrays["labels"], answered=arrays["answered"], hits=arrays["hits"]
            )
            # a file of committed rounds may be that of another session
            outcome.require_fits(labels[queries].shape, hits_left=hits_left)
            labels[queries], answered[queries], hits[queries] = outcome
            num_asked = queries.stop
            if int(hits.sum()) == self.target_hits:
                num_asked = int(np.flatnonzero(hits)[-1]) + 1
                break
        return ChargedRelease(
            labels=labels,
            answered=answered,
            event=self.event(shape),
            adjacency=self.adjacency,
            hits=hits,
            num_asked=num_asked,
            target_hits=self.target_hits,
        )

    def _checked_prior(self, labels: Bits, answered: Bits, shape: tuple[int, ...]) -> Bits | None:
        """Returns the predicted labels of a round once their type and shape are checked; None without a prior.

        Args:
            labels: bool `[num_released, num_labels]`, the labels released before the round.
            answered: bool `[num_released]`.
            shape: (num_queries, num_labels) of the round.
        """
        expected = self.expected_labels(labels, answered, num_queries=shape[0])
        if expected is None:
            return None
        bits = np.asarray(expected)
        fits = bits.dtype == np.bool_ and bits.shape == shape
        require(fits, "prior", f"{bits.dtype} {bits.shape}", f"bool {list(shape)}")
        return bits

    def _rounds(self, num_queries: int) -> Iterator[slice]:
        """Yields the range of queries of each round, as slices."""
        for start in range(0, num_queries, self.round_size):
            yield slice(start, min(start + self.round_size, num_queries))


@expected_from_votes.register(TargetChargedAggregator)
def expected_from_session(
    aggregator: TargetChargedAggregator,
    votes: MadeUpVotes,
    num_queries: int,
    prior: Bits | None = None,
) -> ExpectedRelease:
    """Returns the expected shares of right labels of a whole session, which halts at its last hit.

    Args:
        aggregator: the aggregator of the session.
        votes: made-up votes; the queries of the session are taken to be like these.
        num_queries: the number of queries of the session.
        prior: bool `[num_made_up, num_labels]`, the predicted labels of the made-up queries; None without a prior.
    """
    counts = votes.counts(aggregator.max_votes_per_teacher)
    uniforms_shape = (len(counts), aggregator._uniforms_per_query)
    uniforms = LazyUniforms.draw(uniforms_shape, np.random.default_rng(0))
    # at a place behind all first queries, which some aggregators treat otherwise
    outcome = aggregator._ask(
        counts, uniforms, prior, first_query=num_queries, num_teachers=votes.num_teachers
    )
    share_of_hits = float(outcome.hits.mean())
    share_asked = 1.0
    if share_of_hits > 0:
        share_asked = min(1.0, aggregator.target_hits / (share_of_hits * num_queries))
    expected = ExpectedRelease.from_answers(
        outcome.labels, outcome.answered, true_labels=votes.labels
    )
    return replace(expected, answered=share_asked * expected.answered)
