"""What aggregators under target charging share: one session, charged before its first call and halted by its hits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from pate.accounting import (
    ApproximateEvent,
    BoundarySessionEvent,
    ComposedEvent,
    Event,
    NoOpEvent,
    PureDpAccountant,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
    SessionEvent,
)
from pate.accounting.target_charging import QTarget, best_session_price, overrun_probability
from pate.aggregators.aggregator import Bits, Drawn, ExpectedRelease, HistogramAggregator, PriorRule, ReleaseContext
from pate.aggregators.release import ChargedRelease
from pate.mechanisms.noise.uniforms import LazyUniforms
from pate.mechanisms.parameters import COUNT, PROBABILITY
from pate.validation import InvalidValue, require, require_count, require_histogram, require_positive
from pate.votes.made_up_votes import MadeUpVotes
from pate.votes.source import VoteSource

if TYPE_CHECKING:
    from pate.accounting import Ledger

Prior = Bits | PriorRule | None

_LARGEST_EPSILON = 30.0  # of a call; beyond it a target is hit too rarely to count hits at all


@lru_cache(maxsize=1024)
def session_event(
    target_of: Callable[[float], QTarget],
    epsilon: float,
    *,
    target_hits: int,
    num_calls: int,
    session_delta: float,
    failure_prob: float = 0.0,
    bounded_range: bool | None = None,
    beside: Event | None = None,
) -> Event:
    """At most `num_calls` calls, halted by their hits: composed as many accesses as may happen, or priced by hits.

    Where the accesses that the hits allow are more than the calls, all calls are composed; then nothing can overrun.
    The event is a `SessionEvent` where that costs less; both prices hold (docs/proofs/hits.md).

    Args:
        target_of: the target of a call by its epsilon (`not_prior`, `tight_boundary`).
        epsilon: pure DP of one call, > 0.
        target_hits: tau, >= 1.
        num_calls: at most so many, >= 0.
        session_delta: what the split between overrun and composition is made for.
        failure_prob: the deltas of all calls together; a part of `session_delta`.
        bounded_range: of calls in the boundary wrapper: whether their log-likelihood ratios also span at most epsilon.
            None for other targets.
        beside: the releases that are composed with the session, in any order; which price is smaller depends on them.
            A session alone of calls that are not in the boundary wrapper is composed as its accesses.

    Raises:
        InvalidValue: the deltas of the calls reach `session_delta`.
    """
    require_positive("epsilon", epsilon)
    if require_count("num_calls", num_calls, minimum=0) == 0:
        return NoOpEvent()
    if failure_prob >= session_delta:
        raise InvalidValue(
            f"failure_prob: {failure_prob:.3g} over {num_calls} calls uses up session_delta={session_delta}"
        )
    if epsilon > _LARGEST_EPSILON:  # twice the epsilon covers an access of every target
        return _composed(2 * epsilon, num_calls, failure_prob)
    target = target_of(epsilon)
    count, overrun = num_calls, 0.0  # how many accesses are composed, and the probability that there are more
    if overrun_probability(num_calls, target_hits=target_hits, hit_prob=target.hit_prob) < session_delta:
        given: dict[str, Any] = {"target_delta": session_delta, "failure_prob": failure_prob}
        price = best_session_price(target, target_hits=target_hits, by_play=False, **given)
        if price.num_accesses < num_calls:
            count, overrun = price.num_accesses, price.overrun_prob
    counted = _composed(target.epsilon, count, overrun + failure_prob)
    if bounded_range is None and beside is None:
        return counted
    known = (target.epsilon, target.hit_prob, target_hits, num_calls, _composed(target.epsilon, count, overrun))
    session = SessionEvent(*known)
    if bounded_range is not None:  # priced by its calls' own laws
        session = BoundarySessionEvent(*known, call_epsilon=epsilon, bounded_range=bounded_range)
    by_hits = ApproximateEvent(session, failure_prob)
    return by_hits if _hits_cost_less(by_hits, counted, beside, session_delta) else counted


def _hits_cost_less(by_hits: Event, counted: Event, beside: Event | None, delta: float) -> bool:
    """Accesses alone are composed optimally, as few accountants are asked for them then; else Renyi curves add up."""
    if beside is None:
        price = PureDpAccountant().compose(counted).get_epsilon(delta)
        return RdpAccountant().compose(by_hits).get_epsilon(delta) < price
    first, second = (RdpAccountant().compose(ComposedEvent((session, beside))) for session in (by_hits, counted))
    if second.failure_prob >= delta:
        return first.failure_prob < delta
    return first.get_epsilon(delta) < second.get_epsilon(delta)


def _composed(epsilon: float, count: int, failure_prob: float) -> Event:
    return ApproximateEvent(SelfComposedEvent(PureDpEvent(epsilon), count), failure_prob)


@dataclass(frozen=True)
class Round:
    """The outcomes of some consecutive queries of a session.

    Attributes:
        labels: bool `[q, L]`.
        answered: bool `[q]`.
        hits: bool `[q]`; a session that halts within the round asks nothing after its last hit.
    """

    labels: Bits
    answered: Bits
    hits: Bits


_WORDS_AHEAD = 1  # 128 bits repeat in a resumed session; a draw that needs more is as exact, with bits of its own
"""With 256 bits of each number drawn beforehand, a session asks for more with a probability below 2**-180."""


@dataclass(frozen=True, kw_only=True)
class TargetChargedAggregator(HistogramAggregator):
    """Asks queries in order and rounds until `target_hits` of them have hit; the rest is refused.

    Formal guarantees:
        * The price is that of the whole session. It is charged before the first call, and neither votes nor hits nor
          priors change it.
        * All random numbers are drawn before the first round, some for each query, so a session that is continued
          with the rounds before it gives what it would have given.

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
    def plain_event(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        """The price of the same answers to the same queries by plain composition: nothing halts, nothing is free."""

    @abstractmethod
    def hit_probabilities(
        self, votes: NDArray[np.int64], *, num_teachers: int, prior: Bits | None = None
    ) -> NDArray[np.float64]:
        """The probability that each query `[Q, L]` hits when it is asked: `[Q]`; no epsilon covers it."""

    @abstractmethod
    def _ask(
        self, counts: NDArray[np.int64], numbers: LazyUniforms, prior: Bits | None, *, first: int, num_teachers: int
    ) -> Round:
        """The outcomes of consecutive queries `[q, L]` from number `first` on, as if nothing halted between them.

        Each has a row of the uniform `numbers` and of the `prior`.
        """

    def _expected(self, votes: MadeUpVotes, num_queries: int) -> ExpectedRelease:
        """Of the whole session, which halts with its last hit."""
        return self._expected_with(None, votes, num_queries)

    def _expected_with(self, prior: Bits | None, votes: MadeUpVotes, num_queries: int) -> ExpectedRelease:
        """With that prior, each query being charged by its hit."""
        counts, total = votes.counts(self.max_votes_per_teacher), votes.num_teachers
        numbers = LazyUniforms.draw((len(counts), self._numbers_per_query), np.random.default_rng(0))
        outcome = self._ask(counts, numbers, prior, first=num_queries, num_teachers=total)
        hits = float(outcome.hits.mean())
        asked = min(1.0, self.target_hits / (hits * num_queries)) if hits else 1.0
        expected = ExpectedRelease.counted(outcome.labels, outcome.answered, votes.labels)
        return replace(expected, answered=asked * expected.answered)

    def calibrated(self, *, target_delta: float, **release: Any) -> Self:
        """The least noise for a target, with `target_hits` as it is and `session_delta` set to the target's delta."""
        base = replace(self, session_delta=target_delta)
        return super(TargetChargedAggregator, base).calibrated(target_delta=target_delta, **release)

    @final
    def aggregate(
        self,
        votes: Any,
        *,
        num_teachers: int,
        rng: np.random.Generator,
        ledger: Ledger | None = None,
        prior: Prior = None,
    ) -> ChargedRelease:
        """Releases labels for the queries in order, until the session halts.

        Args:
            votes: integers `[Q, L]` in 0..num_teachers.
            num_teachers: T, public.
            rng: as in `Aggregator.aggregate`.
            ledger: charged with the whole session before anything is drawn.
            prior: bool `[Q, L]`, or a rule that is asked before each round; public, or computed from what was released
                before. Aggregators that need none take no notice of it.

        Raises:
            InvalidValue: as `Aggregator.aggregate`; a prior of another shape.
        """
        if not (prior is None or isinstance(prior, PriorRule)):
            shape = require_histogram("votes", votes, num_teachers=num_teachers, rank=2).shape
            bits = np.asarray(prior)
            require(bits.dtype == np.bool_, "prior.dtype", bits.dtype, "bool")
            require(bits.shape == shape, "prior.shape", bits.shape, f"{shape}, as the votes")
        counts, event = self._charge(votes, num_teachers=num_teachers, rng=rng, ledger=ledger)
        settled = self.settled(num_queries=len(counts))  # as the event
        return settled._session(counts, event, prior, ReleaseContext(rng, drawn=Drawn()), num_teachers)

    def release_from(self, source: VoteSource, context: ReleaseContext) -> ChargedRelease:
        """A round is committed before anybody sees it or the next one begins; one that is there is read back."""
        context = replace(context, drawn=self._drawn(source, context))
        prior, num_teachers = context.prior if self.expects_prior else None, source.num_teachers
        counts, event = self._charge(self._read(source), num_teachers=num_teachers, rng=context.rng, ledger=None)
        return self.settled(num_queries=len(counts))._session(counts, event, prior, context, num_teachers)

    def _session(
        self, counts: NDArray[np.integer], event: Event, prior: Prior, context: ReleaseContext, num_teachers: int
    ) -> ChargedRelease:
        """All rounds, each drawn and paid for as the context says."""
        numbers = LazyUniforms.draw((len(counts), self._numbers_per_query), context.rng, ahead=_WORDS_AHEAD)
        labels, answered, hits = np.zeros(counts.shape, dtype=np.bool_), *np.zeros((2, len(counts)), dtype=np.bool_)
        drawn, num_asked = context.drawn or Drawn(), 0

        def ask(rows: slice, left: int) -> dict[str, Bits]:
            block, expected = counts[rows].astype(np.int64, copy=False), _expected(prior, labels, answered, rows)
            outcome = self._ask(block, numbers.rows(rows), expected, first=rows.start, num_teachers=num_teachers)
            asked = np.asarray(np.cumsum(outcome.hits) - outcome.hits < left)  # up to the last hit that is left
            shown = outcome.labels & asked[:, None], outcome.answered & asked, outcome.hits & asked
            return dict(vars(Round(*shown)))

        for index, rows in enumerate(self._rounds(len(counts))):
            left = self.target_hits - int(hits.sum())
            outcome = Round(**drawn.once(f"round-{index}", partial(ask, rows, left)))
            found = outcome.labels.shape, outcome.answered.shape, outcome.hits.shape
            wanted = labels[rows].shape, answered[rows].shape, hits[rows].shape
            require(found == wanted, "round", found[0], f"a round of {wanted[0]}")  # one that was kept may be another's
            require(bool(outcome.hits.sum() <= left), "round", f"{outcome.hits.sum()} hits", f"at most {left} hits")
            labels[rows], answered[rows], hits[rows] = outcome.labels, outcome.answered, outcome.hits
            num_asked, left = rows.stop, left - int(outcome.hits.sum())
            if context.watch is not None:
                context.watch(num_asked, self.target_hits - left, left)
            if left == 0:
                num_asked = int(np.flatnonzero(hits)[-1]) + 1
                break
        return ChargedRelease(labels, answered, event, self.adjacency, hits, num_asked, self.target_hits)

    def _rounds(self, num_queries: int) -> Iterator[slice]:
        for start in range(0, num_queries, self.round_size):
            yield slice(start, min(start + self.round_size, num_queries))


def _expected(prior: Prior, labels: Bits, answered: Bits, rows: slice) -> Bits | None:
    """The prior of a round's queries."""
    if prior is None:
        return None
    if not isinstance(prior, PriorRule):
        return np.asarray(prior)[rows]
    size, num_labels = rows.stop - rows.start, labels.shape[1]
    said = np.asarray(prior(labels[: rows.start], answered[: rows.start], size))
    good = said.dtype == np.bool_ and said.shape == (size, num_labels)
    require(good, "prior", f"{said.dtype} {said.shape}", f"bool [{size}, {num_labels}]")
    return said
