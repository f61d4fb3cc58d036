"""Sessions under target charging: charged before the first query, halted by their hits."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from pate.accounting import (
    Adjacency,
    ApproximateEvent,
    AutoAccountant,
    BoundarySessionEvent,
    BoundedRangeEvent,
    ComposedEvent,
    Event,
    NoOpEvent,
    PureDpAccountant,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
    SessionEvent,
    calibrate,
)
from pate.accounting.special import softmax
from pate.accounting.target_charging import (
    QTarget,
    best_session_price,
    boundary_distribution,
    not_prior,
    overrun_probability,
    tight_boundary,
)
from pate.aggregators.aggregator import (
    Bits,
    Drawn,
    ExpectedRelease,
    HistogramAggregator,
    PriorRule,
    ReleaseContext,
    require_shape,
)
from pate.aggregators.release import ChargedRelease
from pate.aggregators.stable_top_k import StableTopK
from pate.mechanisms.gap_selection import Ranking
from pate.mechanisms.noise.uniforms import (
    Interval,
    LazyUniforms,
    Weights,
    boundary_weights,
    draw_index,
    softmax_weights,
)
from pate.mechanisms.parameters import COUNT, NATURAL, NOISE, PROBABILITY
from pate.mechanisms.stability_test import StabilityTest
from pate.validation import InvalidValue, require, require_count, require_histogram, require_positive
from pate.votes.source import MadeUpVotes, VoteSource

if TYPE_CHECKING:
    from pate.accounting import Ledger

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
Prior = Bits | PriorRule | None

_LARGEST_EPSILON = 30.0  # of a call; beyond it a target is hit too rarely to count hits at all


@lru_cache(maxsize=1024)
def session_event(
    target_of: Callable[[float], QTarget],  # the target of a call by its epsilon (`not_prior`, `tight_boundary`)
    epsilon: float,  # pure DP of one call, > 0
    *,
    target_hits: int,  # tau, >= 1
    num_calls: int,  # at most so many, >= 0
    session_delta: float,  # what the split between overrun and composition is made for
    failure_prob: float = 0.0,  # the deltas of all calls together, less than `session_delta`
    # of calls in the boundary wrapper: whether their log-likelihood ratios also span at most epsilon
    bounded_range: bool | None = None,
    # the releases that are composed with the session, in any order; which price is smaller depends on them
    beside: Event | None = None,
) -> Event:
    """At most `num_calls` calls, halted by their hits: composed as many accesses as may happen, or priced by hits.

    Where the accesses that the hits allow are more than the calls, all calls are composed; then nothing can overrun.
    The event is a `SessionEvent` where that costs less; both prices hold (docs/proofs/hits.md). A session alone of
    calls that are not in the boundary wrapper is composed as its accesses.
    """
    require_positive("epsilon", epsilon)
    if require_count("num_calls", num_calls, minimum=0) == 0:
        return NoOpEvent()
    if failure_prob >= session_delta:
        spent = f"{failure_prob:.3g} over {num_calls} calls uses up session_delta={session_delta}"
        raise InvalidValue(f"failure_prob: {spent}")

    def composed(epsilon: float, count: int, failure_prob: float) -> Event:
        return ApproximateEvent(SelfComposedEvent(PureDpEvent(epsilon), count), failure_prob)

    if epsilon > _LARGEST_EPSILON:  # twice the epsilon covers an access of every target
        return composed(2 * epsilon, num_calls, failure_prob)
    target = target_of(epsilon)
    count, overrun = num_calls, 0.0  # how many accesses are composed, and the probability that there are more
    if overrun_probability(num_calls, target_hits=target_hits, hit_prob=target.hit_prob) < session_delta:
        given: dict[str, Any] = {"target_delta": session_delta, "failure_prob": failure_prob}
        price = best_session_price(target, target_hits=target_hits, by_play=False, **given)
        if price.num_accesses < num_calls:
            count, overrun = price.num_accesses, price.overrun_prob
    counted = composed(target.epsilon, count, overrun + failure_prob)
    if bounded_range is None and beside is None:
        return counted
    known = (target.epsilon, target.hit_prob, target_hits, num_calls, composed(target.epsilon, count, overrun))
    session = SessionEvent(*known)
    if bounded_range is not None:  # priced by its calls' own laws
        session = BoundarySessionEvent(*known, call_epsilon=epsilon, bounded_range=bounded_range)
    by_hits = ApproximateEvent(session, failure_prob)
    if beside is None:  # accesses alone are composed optimally, as few accountants are asked for them then
        price_of_accesses = PureDpAccountant().compose(counted).get_epsilon(session_delta)
        cheaper = RdpAccountant().compose(by_hits).get_epsilon(session_delta) < price_of_accesses
        return by_hits if cheaper else counted
    first, second = (RdpAccountant().compose(ComposedEvent((each, beside))) for each in (by_hits, counted))
    if second.failure_prob >= session_delta:
        return by_hits if first.failure_prob < session_delta else counted
    return by_hits if first.get_epsilon(session_delta) < second.get_epsilon(session_delta) else counted


def bit_epsilon(probabilities: Array, reach: int) -> float:
    """Pure DP of a bit with these probabilities at consecutive statistics, which neighbors move by `reach` at most."""
    largest = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        for logs in (np.log(probabilities), np.log1p(-probabilities)):
            for step in range(1, min(reach, len(logs) - 1) + 1):
                moves = np.abs(logs[step:] - logs[:-step])
                largest = max(largest, float(np.where(np.isnan(moves), 0.0, moves).max()))  # neither ever: no move
    return largest


class Round(NamedTuple):
    """The outcomes of some consecutive queries of a session, which asks nothing after its last hit."""

    labels: Bits  # `[q, L]`
    answered: Bits  # `[q]`
    hits: Bits  # `[q]`


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
    def hit_probabilities(self, votes: Counts, *, num_teachers: int, prior: Bits | None = None) -> Array:
        """The probability that each query `[Q, L]` hits when it is asked: `[Q]`; no epsilon covers it."""

    @abstractmethod
    def _ask(
        self, counts: Counts, numbers: LazyUniforms, prior: Bits | None, *, first: int, num_teachers: int
    ) -> Round:
        """The outcomes of consecutive queries `[q, L]` from number `first` on, as if nothing halted between them.

        Each has a row of the uniform `numbers` and of the `prior`.
        """

    def _expected(self, votes: MadeUpVotes, num_queries: int, prior: Bits | None = None) -> ExpectedRelease:
        """Of the whole session, which halts with its last hit; with a prior, each query being charged by its hit."""
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
        """Labels of the queries `[Q, L]` in order, until the session halts, which is charged before anything is drawn.

        The prior is bool `[Q, L]`, or a rule that is asked before each round; public, or computed from what was
        released before. Aggregators that need none take no notice of it.

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
        drawn = context.drawn or Drawn()
        num_asked = 0

        def ask(rows: slice, left: int) -> dict[str, Bits]:
            expected: Any = prior
            if isinstance(prior, PriorRule):
                size = (rows.stop - rows.start, counts.shape[1])
                expected = np.asarray(prior(labels[: rows.start], answered[: rows.start], size[0]))
                good = expected.dtype == np.bool_ and expected.shape == size
                require(good, "prior", f"{expected.dtype} {expected.shape}", f"bool {list(size)}")
            elif prior is not None:
                expected = np.asarray(prior)[rows]
            block = counts[rows].astype(np.int64, copy=False)
            outcome = self._ask(block, numbers[rows], expected, first=rows.start, num_teachers=num_teachers)
            asked = np.asarray(np.cumsum(outcome.hits) - outcome.hits < left)  # up to the last hit that is left
            return Round(outcome.labels & asked[:, None], outcome.answered & asked, outcome.hits & asked)._asdict()

        for index, rows in enumerate(self._rounds(len(counts))):
            left = self.target_hits - int(hits.sum())
            outcome = Round(**drawn.once(f"round-{index}", partial(ask, rows, left)))
            found, wanted = [each.shape for each in outcome], [whole[rows].shape for whole in (labels, answered, hits)]
            require(found == wanted, "round", found[0], f"a round of {wanted[0]}")  # one that was kept may be another's
            require(bool(outcome.hits.sum() <= left), "round", f"{outcome.hits.sum()} hits", f"at most {left} hits")
            labels[rows], answered[rows], hits[rows] = outcome
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


@dataclass(frozen=True, kw_only=True)
class BoundaryAggregator(TargetChargedAggregator):
    """Calls in the boundary wrapper. A subclass says what a call's outcomes are, and how likely each is."""

    @abstractmethod
    def _calls(self, counts: Counts, num_teachers: int) -> tuple[Array, Callable[[int], Weights]]:
        """The distribution of each query's outcomes, `[Q, n]`, and that of one query as exact weights."""

    @abstractmethod
    def _shown(self, counts: Counts, outcomes: Counts, num_teachers: int) -> tuple[Bits, Bits]:
        """Labels and answered of outcomes `[Q]`, of which n is the boundary."""

    def hit_probabilities(self, votes: Counts, *, num_teachers: int, prior: Bits | None = None) -> Array:
        return np.asarray(self._wrapped(votes, num_teachers)[:, -1])

    def _wrapped(self, counts: NDArray[np.integer], num_teachers: int) -> Array:
        """The distribution inside the wrapper, `[Q, n + 1]`, the boundary last."""
        return boundary_distribution(self._calls(np.asarray(counts, dtype=np.int64), num_teachers)[0])

    def _ask(
        self, counts: Counts, numbers: LazyUniforms, prior: Bits | None, *, first: int, num_teachers: int
    ) -> Round:
        distribution, weights = self._calls(counts, num_teachers)
        wrapped = boundary_distribution(distribution)
        outcomes = draw_index(wrapped, numbers[:, 0], lambda row: boundary_weights(weights(row)))
        return Round(*self._shown(counts, outcomes, num_teachers), outcomes == distribution.shape[1])

    def _session_event(self, call_epsilon: float, num_calls: int, **calls: Any) -> Event:
        hits = {"target_hits": self.target_hits, "session_delta": self.session_delta}
        return session_event(tight_boundary, call_epsilon, num_calls=num_calls, **hits, **calls)


@dataclass(frozen=True, kw_only=True)
class BoundaryMax(BoundaryAggregator):
    """Releases one label per query, by the exponential mechanism over the counts inside the boundary wrapper.

    A query whose likeliest label is not certain is abstained from with a probability of at most 1/3: a hit. All
    others are free. No query is refused before the session halts.

    Formal guarantees:
        * Each count moves by at most 1: a call is (2 / selection_scale)-DP under replace-one and
          (1 / selection_scale)-DP under add/remove, where all counts move in one direction. There is no failure.
        * That holds for any votes, one label per teacher or several.

    Attributes:
        selection_scale: beta of the Gumbel noise in votes, > 0.

    Source: Cohen & Lyu 2023 (boundary wrapper); docs/proofs/boundary_top_k.md.

    >>> aggregator = BoundaryMax(selection_scale=2.0, target_hits=1)
    >>> release = aggregator.aggregate(np.array([[95, 5, 0]]), num_teachers=100, rng=np.random.default_rng(0))
    >>> release.labels, release.num_hits
    (array([[ True, False, False]]), 0)
    """

    single_label: ClassVar[bool] = True

    selection_scale: float = field(metadata=NOISE)

    @property
    def call_epsilon(self) -> float:
        """Pure DP of one call, and its bounded range."""
        return (2 if self.adjacency is Adjacency.REPLACE_ONE else 1) / self.selection_scale

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        require_shape(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)
        return self._session_event(self.call_epsilon, num_queries, bounded_range=True)

    def plain_event(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        return SelfComposedEvent(BoundedRangeEvent(self.call_epsilon), num_queries)

    def distribution(self, votes: NDArray[np.integer]) -> Array:
        """The exact distribution of one call on `[L]` counts: `[L + 1]`, the boundary last."""
        return np.asarray(self._wrapped(np.asarray(votes)[None], 0)[0])

    def _calls(self, counts: Counts, num_teachers: int) -> tuple[Array, Callable[[int], Weights]]:
        deficits = (counts.max(axis=1, keepdims=True) - counts).astype(np.float64)
        distribution = softmax(counts / self.selection_scale, axis=1)
        return distribution, lambda row: softmax_weights(deficits[row], self.selection_scale)

    def _shown(self, counts: Counts, outcomes: Counts, num_teachers: int) -> tuple[Bits, Bits]:
        num_labels = counts.shape[1]
        return outcomes[:, None] == np.arange(num_labels), outcomes < num_labels


_GRID = 2**53


@dataclass(frozen=True, kw_only=True)
class BoundaryTopK(BoundaryAggregator):
    """Chooses k by the exponential mechanism over the gaps and tests the set, both inside the boundary wrapper.

    The distribution of a query's outcome (a k that passes its test, or a refusal) is known exactly. With pi the
    probability of anything but its likeliest outcome, at most 1/2, the query is abstained from with probability pi / (1
    + pi): a hit. Else an outcome is drawn and released: the top-k set, or a refusal. Clear queries, released or
    refused, are free.

    Formal guarantees:
        * A call is e-DP up to a failure that releases an unstable set, e = selection range + the test's.
        * The session is charged for what `target_hits` hits can give away, or for the accesses that they allow.
        * Failure probabilities of all queries add up and are taken from delta.

    Edge cases: after the last hit every query is refused. With few queries all of them are composed, hits or not.

    Attributes:
        selection_scale: beta of the Gumbel noise in votes, > 0.
        test_std: std of the test's Laplace noise in votes, > 0.
        failure_prob: probability that an unstable set is released, per query. None for 1e-10, or less where the
            failures of all queries would take more than 0.6 of `session_delta` (`settled`).
        padded: whether k = 0 and k = L are possible answers.

    Source: Cohen & Lyu 2023 (boundary wrapper), Zhu & Wang 2022 (selection, test); docs/proofs/boundary_top_k.md.

    >>> aggregator = BoundaryTopK(selection_scale=2.0, test_std=3.0, target_hits=2, failure_prob=1e-9)
    >>> votes = np.array([[90, 88, 1, 0], [51, 50, 49, 48]])
    >>> release = aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    >>> release.labels[0], release.answered, release.num_hits
    (array([ True,  True, False, False]), array([ True, False]), 0)
    """

    usual_failure_prob: ClassVar[float] = 1e-10

    selection_scale: float = field(metadata=NOISE)
    test_std: float = field(metadata=NOISE)
    failure_prob: float | None = field(default=None, metadata=PROBABILITY)
    padded: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.stability_test(num_teachers=1)  # refuses what it refuses

    @property
    def release_step(self) -> StableTopK:
        """The call without the wrapper."""
        return self.part(StableTopK, test="laplace", failure_prob=self.failure_prob or self.usual_failure_prob)

    def call_epsilon_for(self, *, num_labels: int, num_teachers: int) -> float:
        """Pure DP of selection and test together."""
        selection = self.release_step.gap_selection(num_labels=num_labels, num_teachers=num_teachers)
        chosen = self.adjacency.gap_range / self.selection_scale if len(selection.candidates) > 1 else 0.0
        drawn_from = np.array(self.stability_test(num_teachers=num_teachers).pass_probs)  # the test, passed or refused
        return chosen + bit_epsilon(drawn_from, self.adjacency.gap_sensitivity)

    def stability_test(self, *, num_teachers: int) -> StabilityTest:
        return self.release_step.stability_test(num_teachers=num_teachers)

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        settled = self.settled(num_queries=require_count("num_queries", num_queries, minimum=0))
        call_epsilon = settled.call_epsilon_for(num_labels=num_labels, num_teachers=num_teachers)
        failure_prob = num_queries * float(settled.failure_prob or 0)
        return self._session_event(call_epsilon, num_queries, bounded_range=False, failure_prob=failure_prob)

    def plain_event(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        step = self.settled(num_queries=num_queries).release_step
        return step.event_for(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)

    def distribution(self, votes: NDArray[np.integer], *, num_teachers: int) -> dict[tuple[int, ...] | str, float]:
        """The exact distribution of one call on `[L]` counts: released sets of labels, "refused", and "boundary"."""
        ranking = Ranking.of(np.asarray(votes, dtype=np.int64)[None])
        probabilities = self._wrapped(np.asarray(votes)[None], num_teachers)[0].tolist()
        distribution: dict[tuple[int, ...] | str, float] = {"refused": probabilities[-2], "boundary": probabilities[-1]}
        candidates = self.release_step.gap_selection(num_labels=len(votes), num_teachers=num_teachers).candidates
        for k, probability in zip(candidates, probabilities, strict=False):
            distribution[tuple(np.flatnonzero(ranking.top(np.array([k]))[0]).tolist())] = probability
        return distribution

    def _calls(self, counts: Counts, num_teachers: int) -> tuple[Array, Callable[[int], Weights]]:
        """Each candidate k released, and a refusal last; exactly, a test passes with a multiple of 2**-53."""
        selection = self.release_step.gap_selection(num_labels=counts.shape[1], num_teachers=num_teachers)
        test = self.stability_test(num_teachers=num_teachers)
        gaps = Ranking.of(counts).gaps(padded=self.padded, num_teachers=num_teachers)
        constant = (selection.candidates == 0) | (selection.candidates == selection.num_labels)
        passed = np.where(constant, 1.0, test.pass_probabilities(gaps))
        utilities = gaps / self.selection_scale
        weights = np.exp(utilities - utilities.max(axis=1, keepdims=True))
        chosen = weights / weights.sum(axis=1, keepdims=True)
        refused = (chosen * (1 - passed)).sum(axis=1, keepdims=True)

        def exactly(row: int) -> Weights:
            single = softmax_weights((gaps[row].max() - gaps[row]).astype(np.float64), self.selection_scale)
            parts = (passed[row] * _GRID).astype(np.int64).tolist()

            def weights(digits: int) -> list[Interval]:
                intervals = list(zip(single(digits), parts, strict=True))
                kept = [(low * n, high * n) for (low, high), n in intervals]
                lost = [(low * (_GRID - n), high * (_GRID - n)) for (low, high), n in intervals]
                return [*kept, (sum(low for low, _ in lost), sum(high for _, high in lost))]

            return weights

        return np.concatenate([chosen * passed, refused], axis=1), exactly

    def _shown(self, counts: Counts, outcomes: Counts, num_teachers: int) -> tuple[Bits, Bits]:
        selection = self.release_step.gap_selection(num_labels=counts.shape[1], num_teachers=num_teachers)
        answered = outcomes < len(selection.candidates)
        k = np.where(answered, selection.candidates[np.where(answered, outcomes, 0)], 0)
        return Ranking.of(counts).top(k), answered


_SMALLEST_ROUND = 25
_CERTAIN = 28.0  # scales beyond which a probability is within 2**-40 of 0 or 1
_FEW_MARGINS, _MOST_MARGINS = 1000, 250_000
"""Larger margins are told apart only while a check changes, and beyond the second number not at all."""
_SMALLEST_PROB = 2.0**-40  # beyond it the grid's own steps would be visible


@dataclass(frozen=True, kw_only=True)
class NotPriorTopK(TargetChargedAggregator):
    """Checks the expected labels of a query, and releases others by stable top-k only where the check fails.

    The margin of a set is the smallest count in it less the largest outside. If margin + Laplace noise reaches
    `prior_margin`, the query is answered with its prior: free. Else it is a hit, and is released (or refused) as
    `StableTopK` would. The first queries, which no prior exists for, are released so without a check.

    Formal guarantees, with sens = 2 (replace-one) or 1 (add/remove):
        * A check is one bit, (sens / prior_scale)-DP with no failure, a `not_prior` target. The session is charged for
          what `target_hits` hits can give away, or for the accesses that they allow.
        * At most `first_queries + target_hits` queries go through stable top-k, which are composed beside the session,
          failures included.
        * The prior may be anything public, and anything computed from the release so far.

    Edge cases: a prior without a label expects nothing; such a query hits without a check. After the last hit every
    query is refused.

    Attributes:
        prior_scale: scale of the check's Laplace noise in votes, > 0.
        prior_margin: votes by which a prior has to lead; below 0 it may lag behind.
        first_queries: queries released without a check, >= 0.
        selection_scale: beta of the release's Gumbel noise in votes, > 0.
        table_order: Renyi order that the release's stability table is made for, > 1.
        table_budget: Renyi divergence of one test at that order, > 0.
        failure_prob: probability that an unstable set is released, per release; None as for `StableTopK`.
        padded: whether k = 0 and k = L are possible answers of a release.
        release_share: the part of a target epsilon that calibration lets the releases alone cost, in (0, 1).

    Source: Cohen & Lyu 2023 (not-prior target), Zhu & Wang 2022 (release); docs/proofs/not_prior_top_k.md.

    >>> aggregator = NotPriorTopK(prior_scale=2.0, selection_scale=2.0, table_order=3.0, table_budget=4.0,
    ...     first_queries=0, target_hits=1)
    >>> votes, prior = np.array([[90, 5, 3], [80, 90, 1]]), np.array([[True, False, False], [False, False, True]])
    >>> release = aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0), prior=prior)
    >>> release.hits, release.labels
    (array([False,  True]), array([[ True, False, False],
           [ True,  True, False]]))
    """

    prior_scale: float = field(metadata=NOISE)
    prior_margin: float = 0.0
    first_queries: int = field(default=50, metadata=NATURAL)
    selection_scale: float = field(metadata=NOISE)
    table_order: float = field(metadata=NOISE)
    table_budget: float = field(metadata=NOISE)
    failure_prob: float | None = None
    padded: bool = False
    release_share: float = field(default=0.7, metadata=PROBABILITY)

    expects_prior: ClassVar[bool] = True
    _numbers_per_query: ClassVar[int] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(np.isfinite(self.prior_margin)), "prior_margin", self.prior_margin, "a finite number")
        _ = self.release_step  # refuses what stable top-k refuses

    @property
    def never_empty(self) -> bool:
        return not self.padded

    @property
    def release_step(self) -> StableTopK:
        """What releases the first queries and the hits."""
        return self.part(StableTopK, test="table")

    def stability_test(self, *, num_teachers: int) -> StabilityTest:
        return self.release_step.stability_test(num_teachers=num_teachers)

    def agreement(self, *, num_teachers: int) -> Array:
        """The probability that a prior of each margin -R..R is kept: `[2 R + 1]`, the numbers drawn from.

        R is T, or less where the last margins pass for certain; larger ones are kept like those.
        """
        certain = abs(self.prior_margin) + _CERTAIN * self.prior_scale
        farthest = min(require_count("num_teachers", num_teachers), max(_FEW_MARGINS, math.ceil(min(certain, 1e300))))
        return _agreement(self.prior_scale, self.prior_margin, min(farthest, _MOST_MARGINS))

    def _kept(self, counts: NDArray[np.integer], expected: Bits, num_teachers: int) -> Array:
        """The probability that the check of each query holds, `[Q]`."""
        table = self.agreement(num_teachers=num_teachers)
        farthest = len(table) // 2
        return table[np.clip(margins(counts, expected), -farthest, farthest) + farthest]

    def num_tests(self, num_queries: int) -> int:
        return min(num_queries, self.first_queries + self.target_hits)

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        num_releases = self.num_tests(require_count("num_queries", num_queries, minimum=0))
        num_checks = num_queries - min(num_queries, self.first_queries)
        shape = {"num_labels": num_labels, "num_teachers": num_teachers}
        releases = self.settled(num_queries=num_queries).release_step.event_for(num_queries=num_releases, **shape)
        epsilon = bit_epsilon(self.agreement(num_teachers=num_teachers), self.adjacency.gap_sensitivity)
        given: dict[str, Any] = {"target_hits": self.target_hits, "session_delta": self.session_delta}
        session = session_event(not_prior, epsilon, num_calls=num_checks, **given, beside=releases)
        return ComposedEvent((session, releases))

    def plain_event(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        return self.release_step.event_for(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)

    def scaled(self, factor: float) -> NotPriorTopK:
        """All noises multiplied by `factor`; the table's budget divided by its square."""
        return replace(self._with(self.release_step.scaled(factor)), prior_scale=self.prior_scale * factor)

    def calibrated(self, *, target_delta: float, **release: Any) -> NotPriorTopK:
        """The releases' noise for their share of the target, then the checks' noise for what is left.

        `target_hits` and `first_queries` stay as they are, and `session_delta` is set to the target's delta.
        """
        shape = {name: release.pop(name) for name in ("num_queries", "num_labels", "num_teachers")}
        target_epsilon = release.pop("target_epsilon")
        checked = shape["num_queries"] > self.first_queries
        share = target_epsilon * (self.release_share if checked else 1.0)
        first = shape | {"num_queries": self.num_tests(shape["num_queries"])} | release
        released = self.release_step.calibrated(target_epsilon=share, target_delta=target_delta, **first)
        base = replace(self._with(released), session_delta=target_delta)
        if not checked:
            return base
        target = {"target_epsilon": target_epsilon, "target_delta": target_delta, "start": self.prior_scale}
        target["accountant"] = release.get("accountant", AutoAccountant)
        scale = calibrate(lambda scale: replace(base, prior_scale=scale).event_for(**shape), **target)
        return replace(base, prior_scale=scale)

    def _expected(self, votes: MadeUpVotes, num_queries: int, prior: Bits | None = None) -> ExpectedRelease:
        """The prior is taken to be right as often as a release is, else empty."""
        first = min(num_queries, self.first_queries)
        released = self.release_step._expected(votes, max(first, 1))
        if first == num_queries:
            return released
        right = np.arange(len(votes.labels)) < released.answered * released.present * len(votes.labels)
        checked = super()._expected(votes, num_queries - first, votes.labels & right[:, None])
        parts = (released, checked)
        answers = np.array([first * released.answered, (num_queries - first) * checked.answered])
        if not answers.any():
            return ExpectedRelease(0.0, 0.0, 0.0)
        present, absent = np.average([(part.present, part.absent) for part in parts], axis=0, weights=answers)
        return ExpectedRelease(float(answers.sum() / num_queries), float(present), float(absent))

    def hit_probabilities(self, votes: Counts, *, num_teachers: int, prior: Bits | None = None) -> Array:
        """That its check fails, or 1 without a prior; 0 for the first queries, which are not checked."""
        expected = np.zeros(votes.shape, dtype=np.bool_) if prior is None else prior
        kept = self._kept(votes, expected, num_teachers)
        checked = np.arange(len(votes)) >= self.first_queries
        return np.where(checked, np.where(expected.any(axis=1), 1 - kept, 1.0), 0.0)

    def _with(self, release: StableTopK) -> NotPriorTopK:
        names = ("failure_prob", "selection_scale", "table_order", "table_budget")
        return replace(self, **{name: getattr(release, name) for name in names})

    def _rounds(self, num_queries: int) -> Iterator[slice]:
        """The first queries, then rounds as long as all before them together: a student learns in proportion."""
        start = 0
        while start < num_queries:
            end = self.first_queries if start < self.first_queries else num_queries
            stop = min(end, num_queries, start + min(self.round_size, max(start, _SMALLEST_ROUND)))
            yield slice(start, stop)
            start = stop

    def _ask(
        self, counts: Counts, numbers: LazyUniforms, prior: Bits | None, *, first: int, num_teachers: int
    ) -> Round:
        expected = np.zeros(counts.shape, dtype=np.bool_) if prior is None else prior
        checked = first + np.arange(len(counts)) >= self.first_queries
        kept = self._kept(counts, expected, num_teachers)
        agreed = checked & expected.any(axis=1) & (numbers[:, 0].on_grid() < kept)
        step, ranking = self.release_step, Ranking.of(counts)
        selection = step.steps(num_labels=counts.shape[1], num_teachers=num_teachers).selection
        k = selection.select(ranking, numbers[:, 1])
        labels, answered = step.tested(ranking, k, numbers[:, 2].on_grid(), num_teachers=num_teachers)
        return Round(np.where(agreed[:, None], expected, labels), agreed | answered, checked & ~agreed)


def margins(counts: NDArray[np.integer], sets: Bits) -> Counts:
    """The smallest count in each set less the largest outside: `[Q]`; 0 for an empty set, which has none."""
    inside = np.where(sets, counts, np.iinfo(np.int64).max).min(axis=1)
    outside = np.where(sets, 0, counts).max(axis=1)
    return np.where(sets.any(axis=1), inside.astype(np.int64) - outside.astype(np.int64), 0)


@lru_cache(maxsize=64)
def _agreement(prior_scale: float, prior_margin: float, farthest: int) -> Array:
    x = (np.arange(-farthest, farthest + 1) - prior_margin) / prior_scale
    tail = np.exp(-np.abs(x)) / 2
    kept = np.where(x < 0, tail, 0.5 - np.expm1(-np.abs(x)) / 2)
    rounded = np.floor(np.clip(kept, _SMALLEST_PROB, 1 - _SMALLEST_PROB) * float(_GRID)) / float(_GRID)
    rounded.setflags(write=False)
    return np.asarray(rounded)
