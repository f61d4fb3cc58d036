"""Sessions under target charging: charged before the first query, halted by their hits."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pate import accounting as pa
from pate.accounting import target_charging as charging
from pate.accounting.special import softmax
from pate.aggregators import aggregator as base
from pate.aggregators.aggregator import Bits, Rng
from pate.aggregators.expectation import ExpectedRelease, expected_from_votes
from pate.aggregators.failures import failure_prob_of, with_failure_prob_for
from pate.aggregators.gap_tests import TableTest
from pate.aggregators.record import Arrays, MemoryRecord, ReleaseRecord
from pate.aggregators.release import Answers, ChargedRelease
from pate.aggregators.stable_top_k import StableTopK
from pate.mechanisms.gap_selection import Ranking
from pate.mechanisms.noise import uniforms
from pate.mechanisms.noise.uniforms import LazyUniforms, Weights
from pate.mechanisms.parameters import COUNT, NATURAL, NOISE, PROBABILITY
from pate.mechanisms.stability_test import StabilityTest
from pate.validation import (
    InvalidValue,
    require,
    require_count,
    require_generator,
    require_positive,
)
from pate.votes.shape import VoteShape
from pate.votes.source import MadeUpVotes, VoteSource

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

_LARGEST_EPSILON = 30.0  # of a call; beyond it a target is hit too rarely to count hits at all
# 128 bits repeat in a resumed session; a draw that needs more is as exact, with bits of its own. With 256 bits of each
# number drawn beforehand, a session asks for more with a probability below 2**-180.
_WORDS_AHEAD = 1
_GRID = 2**53
_SMALLEST_ROUND = 25
_CERTAIN = 28.0  # scales beyond which a probability is within 2**-40 of 0 or 1
# larger ones are told apart only while a check changes; then not at all
_FEW_MARGINS = 1000
_MOST_MARGINS = 250_000
_SMALLEST_PROB = 2.0**-40  # beyond it the grid's own steps would be visible


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
        """As `Aggregator.fitted`, with `target_hits` as it is and `session_delta` set to the budget's delta."""
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


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls on Q queries, each of which has one of n outcomes."""

    probabilities: Array  # `[Q, n]`, of each outcome
    exact_weights: Callable[[int], Weights]  # of the outcomes of one query
    answers: Callable[[Counts], Answers]  # that outcomes `[Q]` give; n, the boundary, is no answer


@dataclass(frozen=True, kw_only=True)
class BoundaryAggregator(TargetChargedAggregator):
    """Calls in the boundary wrapper. A subclass says what a call's outcomes are, and how likely each is."""

    @abstractmethod
    def _calls(self, counts: Counts, num_teachers: int) -> Calls:
        """Returns the calls on queries with these counts `[Q, L]`, before the wrapper."""

    def hit_probabilities(
        self, votes: Counts, *, num_teachers: int, prior: Bits | None = None
    ) -> Array:
        """Returns the probability that each query `[Q, L]` ends at the boundary, `[Q]`; no epsilon covers it."""
        return np.asarray(self._wrapped(votes, num_teachers)[:, -1])

    def _wrapped(self, counts: NDArray[np.integer], num_teachers: int) -> Array:
        """Returns the distribution inside the wrapper, `[Q, n + 1]`, the boundary last."""
        calls = self._calls(np.asarray(counts, dtype=np.int64), num_teachers)
        return charging.boundary_distribution(calls.probabilities)

    def _ask(
        self,
        counts: Counts,
        numbers: LazyUniforms,
        prior: Bits | None,
        *,
        first: int,
        num_teachers: int,
    ) -> Round:
        calls = self._calls(counts, num_teachers)
        boundary = calls.probabilities.shape[1]

        def exact_weights(row: int) -> Weights:
            return uniforms.boundary_weights(calls.exact_weights(row))

        wrapped = charging.boundary_distribution(calls.probabilities)
        outcomes = uniforms.draw_index(wrapped, numbers[:, 0], exact_weights)
        answers = calls.answers(outcomes)
        return Round(answers.labels, answers.answered, hits=outcomes == boundary)

    def _session_event(self, call_epsilon: float, num_calls: int, **calls: Any) -> pa.Event:
        return session_event(
            charging.tight_boundary,
            call_epsilon,
            num_calls=num_calls,
            target_hits=self.target_hits,
            session_delta=self.session_delta,
            **calls,
        )


@dataclass(frozen=True, kw_only=True)
class BoundaryMax(BoundaryAggregator):
    """Releases one label per query, by the exponential mechanism over the counts inside the boundary wrapper.

    A query whose likeliest label is not certain is abstained from with a probability of at most 1/3: a hit. All
    others are free. No query is refused before the session halts.

    Formal guarantee: each count moves by at most 1, whatever teachers vote for, so a call is (2 / selection_scale)-DP
    under replace-one and (1 / selection_scale)-DP under add/remove, where all counts move in one direction. Source:
    Cohen & Lyu 2023 (boundary wrapper); docs/proofs/boundary_top_k.md.

    Attributes:
        selection_scale: beta of the Gumbel noise in votes, > 0; the rest as in `TargetChargedAggregator`.

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
        return (2 if self.adjacency is pa.Adjacency.REPLACE_ONE else 1) / self.selection_scale

    def event(self, shape: VoteShape) -> pa.Event:
        return self._session_event(self.call_epsilon, shape.num_queries, bounded_range=True)

    def plain_event(self, shape: VoteShape) -> pa.Event:
        return pa.SelfComposedEvent(pa.BoundedRangeEvent(self.call_epsilon), shape.num_queries)

    def distribution(self, votes: NDArray[np.integer]) -> Array:
        """The exact distribution of one call on `[L]` counts: `[L + 1]`, the boundary last."""
        return np.asarray(self._wrapped(np.asarray(votes)[None], 0)[0])

    def _calls(self, counts: Counts, num_teachers: int) -> Calls:
        deficits = (counts.max(axis=1, keepdims=True) - counts).astype(np.float64)
        labels = np.arange(counts.shape[1])

        def exact_weights(row: int) -> Weights:
            return uniforms.softmax_weights(deficits[row], self.selection_scale)

        def answers(outcomes: Counts) -> Answers:
            return Answers(outcomes[:, None] == labels, outcomes < len(labels))

        return Calls(softmax(counts / self.selection_scale, axis=1), exact_weights, answers)


@dataclass(frozen=True, kw_only=True)
class BoundaryTopK(BoundaryAggregator):
    """Chooses k by the exponential mechanism over the gaps and tests the set, both inside the boundary wrapper.

    The distribution of a query's outcome (a k that passes its test, or a refusal) is known exactly. With pi the
    probability of anything but its likeliest outcome, at most 1/2, the query is abstained from with probability pi /
    (1 + pi): a hit. Else an outcome is drawn and released: the top-k set, or a refusal. Clear queries, released or
    refused, are free. After the last hit every query is refused.

    Formal guarantee: a call is e-DP up to a failure that releases an unstable set, e = selection range + the test's.
    The session is charged for what `target_hits` hits can give away, or for the accesses that they allow, or for all
    queries where these are few. Failure probabilities of all queries add up and are taken from delta. Source: Cohen &
    Lyu 2023 (boundary wrapper), Zhu & Wang 2022 (selection, test); docs/proofs/boundary_top_k.md.

    Attributes:
        selection_scale: beta of the Gumbel noise in votes, > 0.
        test_std: std of the test's Laplace noise in votes, > 0.
        failure_prob: as of `StableTopK`, but None is 1e-10, and a plan leaves all of them 0.6 of `session_delta`.
        padded: whether k = 0 and k = L are possible answers; the rest as in `TargetChargedAggregator`.

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
        return self.part(StableTopK, test="laplace", failure_prob=failure_prob_of(self))

    def call_epsilon_for(self, *, num_labels: int, num_teachers: int) -> float:
        """Pure DP of selection and test together."""
        selection = self.release_step.gap_selection(
            num_labels=num_labels, num_teachers=num_teachers
        )
        chosen = (
            self.adjacency.gap_range / self.selection_scale
            if len(selection.candidates) > 1
            else 0.0
        )
        # the test, passed or refused
        drawn_from = np.array(self.stability_test(num_teachers=num_teachers).pass_probs)
        return chosen + bit_epsilon(drawn_from, self.adjacency.gap_sensitivity)

    def stability_test(self, *, num_teachers: int) -> StabilityTest:
        return self.release_step.stability_test(num_teachers=num_teachers)

    def event(self, shape: VoteShape) -> pa.Event:
        call_epsilon = self.call_epsilon_for(
            num_labels=shape.num_labels, num_teachers=shape.num_teachers
        )
        failure_prob = shape.num_queries * failure_prob_of(self)
        return self._session_event(
            call_epsilon, shape.num_queries, bounded_range=False, failure_prob=failure_prob
        )

    def plain_event(self, shape: VoteShape) -> pa.Event:
        return self.release_step.event(shape)

    def distribution(
        self, votes: NDArray[np.integer], *, num_teachers: int
    ) -> dict[tuple[int, ...] | str, float]:
        """The exact distribution of one call on `[L]` counts: released sets of labels, "refused", and "boundary"."""
        ranking = Ranking.of(np.asarray(votes, dtype=np.int64)[None])
        probabilities = self._wrapped(np.asarray(votes)[None], num_teachers)[0].tolist()
        distribution: dict[tuple[int, ...] | str, float] = {
            "refused": probabilities[-2],
            "boundary": probabilities[-1],
        }
        candidates = self.release_step.gap_selection(
            num_labels=len(votes), num_teachers=num_teachers
        ).candidates
        for k, probability in zip(candidates, probabilities, strict=False):
            distribution[tuple(np.flatnonzero(ranking.top(np.array([k]))[0]).tolist())] = (
                probability
            )
        return distribution

    def _calls(self, counts: Counts, num_teachers: int) -> Calls:
        """Each candidate k released, and a refusal last; exactly, a test passes with a multiple of 2**-53."""
        selection = self.release_step.gap_selection(
            num_labels=counts.shape[1], num_teachers=num_teachers
        )
        test = self.stability_test(num_teachers=num_teachers)
        ranking = Ranking.of(counts)
        gaps = ranking.gaps(padded=self.padded, num_teachers=num_teachers)
        constant = (selection.candidates == 0) | (selection.candidates == selection.num_labels)
        passed = np.where(constant, 1.0, test.pass_probabilities(gaps))
        chosen = softmax(gaps / self.selection_scale, axis=1)
        refused = (chosen * (1 - passed)).sum(axis=1, keepdims=True)

        def exact_weights(row: int) -> Weights:
            deficits = (gaps[row].max() - gaps[row]).astype(np.float64)
            selection_weights = uniforms.softmax_weights(deficits, self.selection_scale)
            # of _GRID parts, how many pass the test
            parts = (passed[row] * _GRID).astype(np.int64).tolist()

            def weights(digits: int) -> list[uniforms.Interval]:
                intervals = list(zip(selection_weights(digits), parts, strict=True))
                released = [(low * n, high * n) for (low, high), n in intervals]
                lost = [(low * (_GRID - n), high * (_GRID - n)) for (low, high), n in intervals]
                refusal = (sum(low for low, _ in lost), sum(high for _, high in lost))
                return [*released, refusal]

            return weights

        def answers(outcomes: Counts) -> Answers:
            answered = outcomes < len(selection.candidates)
            k = np.where(answered, selection.candidates[np.where(answered, outcomes, 0)], 0)
            return Answers(ranking.top(k), answered)

        probabilities = np.concatenate([chosen * passed, refused], axis=1)
        return Calls(probabilities, exact_weights, answers)


@dataclass(frozen=True, kw_only=True)
class NotPriorTopK(TargetChargedAggregator):
    """Checks the expected labels of a query, and releases others by stable top-k only where the check fails.

    The margin of a set is the smallest count in it less the largest outside. If margin + Laplace noise reaches
    `prior_margin`, the query is answered with its prior: free. Else it is a hit, and is released (or refused) as
    `StableTopK` would. The first queries, which no prior exists for, are released so without a check; a query whose
    prior has no label hits without one. After the last hit every query is refused. Source: Cohen & Lyu 2023 (not-prior
    target), Zhu & Wang 2022 (release); docs/proofs/not_prior_top_k.md.

    Formal guarantees, with sens = 2 (replace-one) or 1 (add/remove):
        * A check is one bit, (sens / prior_scale)-DP with no failure, a `not_prior` target. The session is charged for
          what `target_hits` hits can give away, or for the accesses that they allow.
        * At most `first_queries + target_hits` queries go through stable top-k, which are composed beside the session,
          failures included.
        * The prior may be anything public, and anything computed from the release so far.

    Attributes:
        prior_scale: scale of the check's Laplace noise in votes, > 0.
        prior_margin: votes by which a prior has to lead; below 0 it may lag behind.
        first_queries: queries released without a check, >= 0.
        selection_scale: beta of the release's Gumbel noise in votes, > 0.
        table_order: Renyi order that the release's stability table is made for, > 1.
        table_budget: Renyi divergence of one test at that order, > 0.
        failure_prob: per release; `padded` too is as of `StableTopK`.
        release_share: the part of a target epsilon that calibration lets the releases alone cost, in (0, 1); the rest
            as in `TargetChargedAggregator`.

    >>> aggregator = NotPriorTopK(prior_scale=2.0, selection_scale=2.0, table_order=3.0, table_budget=4.0,
    ...     first_queries=0, target_hits=1)
    >>> votes, prior = np.array([[90, 5, 3], [80, 90, 1]]), np.array([[True, False, False], [False, False, True]])
    >>> session = aggregator.with_prior(prior)
    >>> release = session.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
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
        require(
            bool(np.isfinite(self.prior_margin)),
            "prior_margin",
            self.prior_margin,
            "a finite number",
        )
        _ = self.release_step  # refuses what stable top-k refuses

    @property
    def never_empty(self) -> bool:
        """Whether an answer always names a label: where `padded` is False."""
        return not self.padded

    def with_prior(self, prior: Bits | base.PriorRule) -> NotPriorSession:
        """Returns the same aggregator with what is expected of its queries.

        The prior is bool `[Q, L]`, or a rule that is asked before each round: public, or computed from what was
        released before. It is asked for the first time once the session is paid for.
        """
        if isinstance(prior, base.PriorRule):
            return self.part(NotPriorSession, prior=prior)
        labels = np.asarray(prior)
        require(labels.dtype == np.bool_, "prior.dtype", labels.dtype, "bool")
        return self.part(NotPriorSession, prior=KnownPrior(labels))

    @property
    def release_step(self) -> StableTopK:
        """What releases the first queries and the hits."""
        return self.part(StableTopK, test="table")

    def stability_test(self, *, num_teachers: int) -> StabilityTest:
        return self.release_step.stability_test(num_teachers=num_teachers)

    def agreement(self, *, num_teachers: int) -> Array:
        """The probability that a prior of each margin -R..R is kept, `[2 R + 1]`; larger ones are kept like these."""
        certain = abs(self.prior_margin) + _CERTAIN * self.prior_scale
        farthest = min(
            require_count("num_teachers", num_teachers),
            max(_FEW_MARGINS, math.ceil(min(certain, 1e300))),
        )
        return _agreement(self.prior_scale, self.prior_margin, min(farthest, _MOST_MARGINS))

    def _kept(self, counts: NDArray[np.integer], prior: Bits | None, num_teachers: int) -> Array:
        """The probability that the check of each query holds, `[Q]`: 0 where nothing is expected."""
        if prior is None:
            return np.zeros(len(counts))
        table = self.agreement(num_teachers=num_teachers)
        farthest = len(table) // 2
        kept = table[np.clip(margins(counts, prior), -farthest, farthest) + farthest]
        return np.where(prior.any(axis=1), kept, 0.0)

    def num_tests(self, num_queries: int) -> int:
        return min(num_queries, self.first_queries + self.target_hits)

    def event(self, shape: VoteShape) -> pa.Event:
        num_checks = shape.num_queries - min(shape.num_queries, self.first_queries)
        shape_of_releases = replace(shape, num_queries=self.num_tests(shape.num_queries))
        releases = self.release_step.event(shape_of_releases)
        epsilon = bit_epsilon(
            self.agreement(num_teachers=shape.num_teachers), self.adjacency.gap_sensitivity
        )
        session = session_event(
            charging.not_prior,
            epsilon,
            target_hits=self.target_hits,
            num_calls=num_checks,
            session_delta=self.session_delta,
            beside=releases,
        )
        return pa.ComposedEvent((session, releases))

    def plain_event(self, shape: VoteShape) -> pa.Event:
        return self.release_step.event(shape)

    def scaled(self, factor: float) -> NotPriorTopK:
        """All noises multiplied by `factor`; the table's budget divided by its square."""
        return replace(
            self._with(self.release_step.scaled(factor)), prior_scale=self.prior_scale * factor
        )

    def fitted(self, budget: pa.Budget, shape: VoteShape) -> NotPriorTopK:
        """As `Aggregator.fitted`: the releases' noise for their share of the budget, then the noise of the checks.

        `session_delta` becomes the budget's delta.
        """
        has_checks = shape.num_queries > self.first_queries
        epsilon_of_releases = budget.required_epsilon() * (
            self.release_share if has_checks else 1.0
        )
        release_step = self.release_step.fitted(
            replace(budget, epsilon=epsilon_of_releases),
            replace(shape, num_queries=self.num_tests(shape.num_queries)),
        )
        with_releases = replace(self._with(release_step), session_delta=budget.delta)
        if not has_checks:
            return with_releases
        prior_scale = pa.calibrate(
            lambda scale: replace(with_releases, prior_scale=scale).event(shape),
            target_epsilon=budget.required_epsilon(),
            target_delta=budget.delta,
            accountant=budget.accountant,
            start=self.prior_scale,
        )
        return replace(with_releases, prior_scale=prior_scale)

    def hit_probabilities(
        self, votes: Counts, *, num_teachers: int, prior: Bits | None = None
    ) -> Array:
        """That its check fails, or 1 without a prior; 0 for the first queries, which are not checked."""
        checked = np.arange(len(votes)) >= self.first_queries
        return np.where(checked, 1 - self._kept(votes, prior, num_teachers), 0.0)

    def _with(self, release: StableTopK) -> NotPriorTopK:
        """Returns the same aggregator with the noise of a release step, whose test is a table."""
        test = release.gap_test
        assert isinstance(test, TableTest)  # as `release_step` has it
        return replace(
            self,
            failure_prob=release.failure_prob,
            selection_scale=release.selection_scale,
            table_order=test.order,
            table_budget=test.budget,
        )

    def _rounds(self, num_queries: int) -> Iterator[slice]:
        """The first queries, then rounds as long as all before them together: a student learns in proportion."""
        start = 0
        while start < num_queries:
            end = self.first_queries if start < self.first_queries else num_queries
            stop = min(end, num_queries, start + min(self.round_size, max(start, _SMALLEST_ROUND)))
            yield slice(start, stop)
            start = stop

    def _ask(
        self,
        counts: Counts,
        numbers: LazyUniforms,
        prior: Bits | None,
        *,
        first: int,
        num_teachers: int,
    ) -> Round:
        checked = first + np.arange(len(counts)) >= self.first_queries
        agreed = checked & (numbers[:, 0].on_grid() < self._kept(counts, prior, num_teachers))
        step = self.release_step
        ranking = Ranking.of(counts)
        selection = step.steps(num_labels=counts.shape[1], num_teachers=num_teachers).selection
        k = selection.select(ranking, numbers[:, 1])
        labels, answered = step.tested(ranking, k, numbers[:, 2].on_grid(), num_teachers)
        if prior is not None:
            labels = np.where(agreed[:, None], prior, labels)
        return Round(labels, agreed | answered, checked & ~agreed)


@dataclass(frozen=True, eq=False)
class KnownPrior:
    """A prior that says what is expected of all queries, bool `[Q, L]`, before the first is asked."""

    labels: Bits

    def __call__(self, labels: Bits, answered: Bits, num_queries: int) -> Bits:
        """Returns what is expected of the next queries."""
        start = len(labels)
        return self.labels[start : start + num_queries]


@dataclass(frozen=True, kw_only=True)
class NotPriorSession(NotPriorTopK):
    """A `NotPriorTopK` that knows what is expected of its queries; `NotPriorTopK.with_prior` makes it.

    Its price is the same: no prior changes it.
    """

    prior: base.PriorRule = field(repr=False)

    def expected_labels(self, labels: Bits, answered: Bits, num_queries: int) -> Bits:
        """Returns what the prior expects of the next queries."""
        return self.prior(labels, answered, num_queries)

    def release(self, votes: VoteSource, rng: Rng, record: ReleaseRecord) -> ChargedRelease:
        """See `TargetChargedAggregator.release`; a prior of another shape is refused before the charge."""
        if isinstance(self.prior, KnownPrior):
            shape = (votes.num_queries, votes.num_labels)
            found = self.prior.labels.shape
            require(found == shape, "prior.shape", found, f"{shape}, as the votes")
        return super().release(votes, rng, record)


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
    rounded = np.floor(np.clip(kept, _SMALLEST_PROB, 1 - _SMALLEST_PROB) * float(_GRID)) / float(
        _GRID
    )
    rounded.setflags(write=False)
    return np.asarray(rounded)


@expected_from_votes.register(TargetChargedAggregator)
def _expected_from_session(
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


@expected_from_votes.register(NotPriorTopK)
def _expected_from_not_prior(
    aggregator: NotPriorTopK, votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    """Returns the expectation of the first queries and of the session together.

    The prior is taken to be right as often as a release is, else empty.
    """
    num_first = min(num_queries, aggregator.first_queries)
    released = expected_from_votes(aggregator.release_step, votes, max(num_first, 1))
    if num_first == num_queries:
        return released
    num_right = released.answered * released.present * len(votes.labels)
    is_right = np.arange(len(votes.labels)) < num_right
    prior = votes.labels & is_right[:, None]
    num_checked = num_queries - num_first
    checked = _expected_from_session(aggregator, votes, num_checked, prior)
    answers = np.array([num_first * released.answered, num_checked * checked.answered])
    if not answers.any():
        return ExpectedRelease(answered=0.0, present=0.0, absent=0.0)
    return ExpectedRelease(
        answered=float(answers.sum() / num_queries),
        present=float(np.average([released.present, checked.present], weights=answers)),
        absent=float(np.average([released.absent, checked.absent], weights=answers)),
    )
