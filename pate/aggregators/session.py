"""Sessions under target charging: charged before the first query, halted by their hits."""

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
from pate.aggregators import aggregator as base
from pate.aggregators.aggregator import Bits, Rng
from pate.aggregators.expectation import ExpectedRelease, expected_from_votes
from pate.aggregators.failures import with_failure_prob_for
from pate.aggregators.record import Arrays, MemoryRecord, ReleaseRecord
from pate.aggregators.release import Answers, ChargedRelease
from pate.mechanisms.noise.uniforms import LazyUniforms
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

_LARGEST_EPSILON = 30.0  # of a call; beyond it a target is hit too rarely to count hits at all
# 128 bits repeat in a resumed session; a draw that needs more is as exact, with bits of its own. With 256 bits of each
# number drawn beforehand, a session asks for more with a probability below 2**-180.
_WORDS_AHEAD = 1


@lru_cache(maxsize=1024)
def session_event(
    # of a call by its epsilon (`not_prior`, `tight_boundary`)
    target_of: Callable[[float], charging.QTarget],
    epsilon: float,  # pure DP of one call, > 0
    *,
    target_hits: int,  # tau, >= 1
    num_calls: int,  # at most so many, >= 0
    session_delta: float,  # what the split between overrun and composition is made for
    failure_prob: float = 0.0,  # the deltas of all calls together, less than `session_delta`
    # of calls in the boundary wrapper: whether their log-likelihood ratios also span at most epsilon
    bounded_range: bool | None = None,
    # the releases that are composed with the session, in any order; which price is smaller depends on them
    beside: pa.Event | None = None,
) -> pa.Event:
    """At most `num_calls` calls, halted by their hits: composed as many accesses as may happen, or priced by hits.

    Where the accesses that the hits allow are more than the calls, all calls are composed; then nothing can overrun.
    The event is a `SessionEvent` where that costs less; both prices hold (docs/proofs/hits.md). A session alone of
    calls that are not in the boundary wrapper is composed as its accesses.
    """
    require_positive("epsilon", epsilon)
    if require_count("num_calls", num_calls, minimum=0) == 0:
        return pa.NoOpEvent()
    if failure_prob >= session_delta:
        rule = (
            f"a sum over all calls below session_delta, and {failure_prob:.3g} over "
            f"{num_calls} calls uses up session_delta={session_delta}"
        )
        raise InvalidValue("failure_prob", rule=rule)

    def composed(epsilon: float, count: int, failure_prob: float) -> pa.Event:
        return pa.ApproximateEvent(
            pa.SelfComposedEvent(pa.PureDpEvent(epsilon), count), failure_prob
        )

    if epsilon > _LARGEST_EPSILON:  # twice the epsilon covers an access of every target
        return composed(2 * epsilon, num_calls, failure_prob)
    target = target_of(epsilon)
    # how many accesses are composed, and the probability that there are more
    count = num_calls
    overrun = 0.0
    if (
        charging.overrun_probability(num_calls, target_hits=target_hits, hit_prob=target.hit_prob)
        < session_delta
    ):
        price = charging.best_session_price(
            target,
            target_hits=target_hits,
            by_play=False,
            target_delta=session_delta,
            failure_prob=failure_prob,
        )
        if price.num_accesses < num_calls:
            count = price.num_accesses
            overrun = price.overrun_prob
    counted = composed(target.epsilon, count, overrun + failure_prob)
    if bounded_range is None and beside is None:
        return counted
    known = (
        target.epsilon,
        target.hit_prob,
        target_hits,
        num_calls,
        composed(target.epsilon, count, overrun),
    )
    session = pa.SessionEvent(*known)
    if bounded_range is not None:  # priced by its calls' own laws
        session = pa.BoundarySessionEvent(*known, call_epsilon=epsilon, bounded_range=bounded_range)
    by_hits = pa.ApproximateEvent(session, failure_prob)
    # accesses alone are composed optimally, as few accountants are asked for them then
    if beside is None:
        price_of_accesses = pa.PureDpAccountant().compose(counted).get_epsilon(session_delta)
        cheaper = pa.RdpAccountant().compose(by_hits).get_epsilon(session_delta) < price_of_accesses
        return by_hits if cheaper else counted
    first, second = (
        pa.RdpAccountant().compose(pa.ComposedEvent((each, beside))) for each in (by_hits, counted)
    )
    if second.failure_prob >= session_delta:
        return by_hits if first.failure_prob < session_delta else counted
    return (
        by_hits if first.get_epsilon(session_delta) < second.get_epsilon(session_delta) else counted
    )


def bit_epsilon(probabilities: Array, reach: int) -> float:
    """Pure DP of a bit with these probabilities at consecutive statistics, which neighbors move by `reach` at most."""
    largest = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        for logs in (np.log(probabilities), np.log1p(-probabilities)):
            for step in range(1, min(reach, len(logs) - 1) + 1):
                moves = np.abs(logs[step:] - logs[:-step])
                # neither ever: no move
                largest = max(largest, float(np.where(np.isnan(moves), 0.0, moves).max()))
    return largest


class Round(NamedTuple):
    """The outcomes of some consecutive queries of a session, which asks nothing after its last hit."""

    labels: Bits  # `[q, L]`
    answered: Bits  # `[q]`
    hits: Bits  # `[q]`

    def until_hits(self, number: int) -> Round:
        """Returns the round up to the hit of that number; what comes after it is refused unasked."""
        asked = np.asarray(np.cumsum(self.hits) - self.hits < number)
        return Round(self.labels & asked[:, None], self.answered & asked, self.hits & asked)

    def require_fits(self, shape: tuple[int, ...], *, hits_left: int) -> None:
        """Raises `InvalidValue` unless it is a round of queries and labels `[q, L]`, with so many hits at most."""
        shapes = [array.shape for array in self]
        is_good = shapes == [shape, shape[:1], shape[:1]]
        require(is_good, "round", shapes[0], f"a round of {shape}")
        num_hits = int(self.hits.sum())
        require(num_hits <= hits_left, "round", f"{num_hits} hits", f"at most {hits_left} hits")


@dataclass(frozen=True, kw_only=True)
class TargetChargedAggregator(base.Aggregator):
    """Asks queries in order and rounds until `target_hits` of them have hit; the rest is refused.

    Formal guarantee: the price is that of the whole session, charged before the first call; neither votes nor hits nor
    priors change it. All random numbers are drawn before anything else, some for each query, so a session that is
    continued with the rounds before it gives what it would have given.

    Attributes:
        target_hits: tau, >= 1.
        session_delta: delta that the session's accesses are counted for, in (0, 1): best where it is the delta of the
            whole guarantee; valid beside any.
        round_size: queries of a round at most, >= 1.
    """

    target_hits: int = field(default=10, metadata=COUNT)
    session_delta: float = field(default=1e-6, metadata=PROBABILITY | {"solved": True})
    round_size: int = field(default=500, metadata=COUNT)

    pays_in_advance: ClassVar[bool] = True
    _numbers_per_query: ClassVar[int] = 1

    @abstractmethod
    def plain_event(self, shape: VoteShape) -> pa.Event:
        """Returns the price of the same answers by plain composition: nothing halts, nothing is free."""

    @abstractmethod
    def hit_probabilities(
        self, votes: Counts, *, num_teachers: int, prior: Bits | None = None
    ) -> Array:
        """The probability that each query `[Q, L]` hits when it is asked: `[Q]`; no epsilon covers it."""

    @abstractmethod
    def _ask(
        self,
        counts: Counts,
        numbers: LazyUniforms,
        prior: Bits | None,
        *,
        first: int,
        num_teachers: int,
    ) -> Round:
        """The outcomes of queries `[q, L]` from number `first` on, as if nothing halted between them."""

    def fitted(self, budget: pa.Budget, shape: VoteShape) -> Self:
        """See `Aggregator.fitted`; `target_hits` stays as it is, and `session_delta` becomes the budget's delta."""
        counted = replace(self, session_delta=budget.delta)
        planned = with_failure_prob_for(counted, delta=budget.delta, num_queries=shape.num_queries)
        return planned.scaled_to(budget, shape)

    def expected_labels(self, labels: Bits, answered: Bits, num_queries: int) -> Bits | None:
        """Returns what is expected of the next queries, `[num_queries, L]`, or None; a prior overrides it."""
        return None

    def draw(self, summary: Counts, shape: VoteShape, rng: Rng) -> Answers:
        """Draws a whole session, all rounds at once."""
        session = self._session(summary, shape, rng, MemoryRecord())
        return Answers(session.labels, session.answered)

    def release(self, votes: VoteSource, rng: Rng, record: ReleaseRecord) -> ChargedRelease:
        """Releases labels of the queries in order, until the session halts.

        A round, the part `round-N`, is committed before anybody sees it or the next one begins. It holds labels,
        answered and hits of its queries.
        """
        require_generator(rng)
        self.event(votes.shape)  # refuses a shape that has no price
        return self._session(self.summarize(votes), votes.shape, rng, record)

    def _session(
        self, counts: NDArray[np.integer], shape: VoteShape, rng: Rng, record: ReleaseRecord
    ) -> ChargedRelease:
        """Asks all rounds that the record has not committed yet, given the counts `[Q, L]`."""
        labels = np.zeros(counts.shape, dtype=np.bool_)
        answered = np.zeros(shape.num_queries, dtype=np.bool_)
        hits = np.zeros(shape.num_queries, dtype=np.bool_)
        num_asked = 0

        @cache
        def numbers() -> LazyUniforms:
            """Draws the random numbers of all queries, once the session is paid for."""
            size = (shape.num_queries, self._numbers_per_query)
            return LazyUniforms.draw(size, rng, ahead=_WORDS_AHEAD)

        def ask(rows: slice, hits_left: int) -> Arrays:
            block = counts[rows].astype(np.int64, copy=False)
            expected = self._checked_prior(
                labels[: rows.start], answered[: rows.start], block.shape
            )
            outcome = self._ask(
                block,
                numbers()[rows],
                expected,
                first=rows.start,
                num_teachers=shape.num_teachers,
            )
            return outcome.until_hits(hits_left)._asdict()

        for index, rows in enumerate(self._rounds(shape.num_queries)):
            hits_left = self.target_hits - int(hits.sum())
            arrays = record.part(f"round-{index}", partial(ask, rows, hits_left))
            outcome = Round(**arrays)
            # one that was committed before may be another's
            outcome.require_fits(labels[rows].shape, hits_left=hits_left)
            labels[rows], answered[rows], hits[rows] = outcome
            num_asked = rows.stop
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
        """Returns what is expected of a round of that shape `[q, L]`, given what was released before; or None."""
        expected = self.expected_labels(labels, answered, shape[0])
        if expected is None:
            return None
        bits = np.asarray(expected)
        is_good = bits.dtype == np.bool_ and bits.shape == shape
        require(is_good, "prior", f"{bits.dtype} {bits.shape}", f"bool {list(shape)}")
        return bits

    def _rounds(self, num_queries: int) -> Iterator[slice]:
        for start in range(0, num_queries, self.round_size):
            yield slice(start, min(start + self.round_size, num_queries))


@expected_from_votes.register(TargetChargedAggregator)
def expected_from_session(
    aggregator: TargetChargedAggregator,
    votes: MadeUpVotes,
    num_queries: int,
    prior: Bits | None = None,
) -> ExpectedRelease:
    """Returns the expectation of the whole session, which halts with its last hit.

    With a prior, each query is charged by its hit.
    """
    counts = votes.counts(aggregator.max_votes_per_teacher)
    numbers = LazyUniforms.draw(
        (len(counts), aggregator._numbers_per_query), np.random.default_rng(0)
    )
    outcome = aggregator._ask(
        counts, numbers, prior, first=num_queries, num_teachers=votes.num_teachers
    )
    hits = float(outcome.hits.mean())
    asked = min(1.0, aggregator.target_hits / (hits * num_queries)) if hits else 1.0
    expected = ExpectedRelease.from_answers(outcome.labels, outcome.answered, votes.labels)
    return replace(expected, answered=asked * expected.answered)
